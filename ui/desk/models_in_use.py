"""Which registered model is in use in each role, and what generates where none is named. Refuses to change it."""

from typing import Final, cast

from data.records import VerdictMethod
from data.tables.variants import Judge
from training.registry import RegisteredModel, aliased, verified
from ui.desk.settings import Settings


def champion_verifier(settings: Settings) -> RegisteredModel | None:
    """The verifier in use; None before the first is trained. Raises ModelError when its manifest is damaged."""
    return aliased(settings.models, "verifier", "champion")


def champion_generator(settings: Settings) -> RegisteredModel | None:
    """The registered generator in use; None while it is the desk's own. Raises ModelError for a damaged manifest."""
    return aliased(settings.models, "generator", "champion")


def generator_in_use(settings: Settings) -> str | None:
    """What generates where a run names no model: what the settings name, else the champion; None for the embedded one.

    The settings come first: whoever sets SAGEDESK_MODEL means it for this desk, whatever was promoted before.

    Returns:
        A hub id or a folder; the champion's is absolute.

    Raises:
        ModelError: the champion is not what was registered.
    """
    if settings.model is not None:
        return settings.model
    champion = champion_generator(settings)
    return None if champion is None else str(verified(champion).folder)


NO_VERIFIER: Final = "no verifier is trained yet; `sagedesk model retrain` trains the first from the sample labels"


def champion_judge(champion: RegisteredModel) -> Judge:
    """Under which version and method the champion's verdicts stand."""
    return Judge(champion.version, cast("VerdictMethod", champion.kind))  # a verifier's kind is how it judges
