"""The registered model in use in each role, and the default generator. Refuses to change them."""

from typing import Final, cast

from data.records import VerdictMethod
from data.tables.variants import Judge
from training.registry import RegisteredModel, aliased, verified
from ui.desk.settings import Settings

NO_VERIFIER: Final = (
    "no verifier has been trained yet; `sagedesk model retrain` trains the first one on the sample labels"
)


def champion_verifier(settings: Settings) -> RegisteredModel | None:
    """The verifier in use; None before the first is trained. Raises ModelError if its manifest is damaged."""
    return aliased(settings.models, "verifier", "champion")


def champion_generator(settings: Settings) -> RegisteredModel | None:
    """The registered generator in use; None if it is the desk's own. Raises ModelError for a damaged manifest."""
    return aliased(settings.models, "generator", "champion")


def generator_in_use(settings: Settings) -> str | None:
    """The default generator: the one named in the settings, otherwise the champion; None for the embedded one.

    The settings come first: whoever sets SAGEDESK_MODEL means it for this desk, whatever has been promoted.

    Returns:
        A hub id or a folder; the champion's is absolute.

    Raises:
        ModelError: the champion is not what was registered.
    """
    if settings.model is not None:
        return settings.model
    champion = champion_generator(settings)
    return None if champion is None else str(verified(champion).folder)


def champion_judge(champion: RegisteredModel) -> Judge:
    """The version and method of the champion's verdicts."""
    return Judge(champion.version, cast("VerdictMethod", champion.kind))  # a verifier's kind is how it judges
