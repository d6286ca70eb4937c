"""Which verifier judges: the champion of any kind, or one that is named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from data.errors import InputError, ModelError, NotFoundError
from data.records import Run, VariantId, Verdict
from data.tables.verdicts import VerdictTable
from engine.jobs.folder import RunFolder
from tests.ui.registered import registered_verifier, saying
from training.registry import RegisteredModel, promote, register
from ui.desk.context import OPERATOR, Desk
from ui.desk.submissions import to_verify
from ui.desk.usecases.verification import start_verification

QueueVariants = Callable[..., list[VariantId]]


@pytest.fixture
def idle(desk: Desk) -> Desk:
    """What is submitted stays queued."""
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    return desk


def language_champion(desk: Desk, folder: Path) -> RegisteredModel:
    """Its files are no model; nothing here loads them."""
    folder.mkdir()
    (folder / "verifier.json").write_text('{"method": "ira"}')
    (folder / "config.json").write_text("{}")
    model = register(desk.settings.models, folder, role="verifier", kind="ira", version="lm:1+c2", origin={})
    promote(desk.settings.models, "verifier", model.model_id)
    return model


def told(run: Run) -> tuple[object, object]:
    settings = RunFolder(Path(run.folder)).spec().settings
    return settings["verifier"], settings["model"]


def test_the_champion_judges_by_default_whatever_it_is(
    idle: Desk, tmp_path: Path, queue_variants: QueueVariants
) -> None:
    queue_variants(1)
    feature = registered_verifier(idle, tmp_path / "a", 0.6)
    promote(idle.settings.models, "verifier", feature.model_id)

    by_feature = start_verification(idle, OPERATOR)
    language = language_champion(idle, tmp_path / "b")
    by_language = start_verification(idle, OPERATOR)

    assert told(by_feature) == ("registered", str(feature.folder))
    assert told(by_language) == ("registered", str(language.folder))


def test_what_a_language_champion_judged_by_its_method_is_not_judged_again(
    idle: Desk, tmp_path: Path, queue_variants: QueueVariants
) -> None:
    first, second = queue_variants(2)
    champion = language_champion(idle, tmp_path / "b")
    verdicts = [
        Verdict(first, "valid", 0.5, True, champion.version, "ira", None, idle.now()),
        Verdict(second, "valid", 0.5, True, champion.version, "era_packed", None, idle.now()),
    ]
    with idle.store.write() as connection:
        VerdictTable(connection).upsert(verdicts)
        left = to_verify(connection, idle.settings, verifier="champion", scope="unverified")

    assert left == [second]


def test_a_feature_verifier_that_is_no_champion_can_be_named_by_its_folder(
    idle: Desk, tmp_path: Path, queue_variants: QueueVariants
) -> None:
    first, second = queue_variants(2)
    language_champion(idle, tmp_path / "b")
    made = saying(tmp_path / "own", 0.7)
    with idle.store.write() as connection:
        VerdictTable(connection).upsert([Verdict(first, "TC", 0.7, True, made.version, "feature", None, idle.now())])

    run = start_verification(idle, OPERATOR, verifier="feature", model=str(tmp_path / "own"))

    assert told(run) == ("registered", str(tmp_path / "own"))
    variants = RunFolder(Path(run.folder)).read_input("variants")
    assert variants["variant_id"].to_pylist() == [second]


def test_a_language_model_judges_by_the_method_that_is_named(
    idle: Desk, tmp_path: Path, queue_variants: QueueVariants
) -> None:
    queue_variants(1)
    promote(idle.settings.models, "verifier", registered_verifier(idle, tmp_path / "a", 0.6).model_id)

    run = start_verification(idle, OPERATOR, verifier="era_packed", model="owner/name")

    assert told(run) == ("era_packed", "owner/name")


def test_a_choice_that_does_not_fit_says_what_does(idle: Desk, tmp_path: Path, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    with pytest.raises(NotFoundError, match="sagedesk model retrain"):
        start_verification(idle, OPERATOR)
    champion = language_champion(idle, tmp_path / "b")

    with pytest.raises(InputError, match="the champion takes no model"):
        start_verification(idle, OPERATOR, model=str(tmp_path))
    with pytest.raises(InputError, match="the champion is an ira verifier"):
        start_verification(idle, OPERATOR, verifier="feature")
    with pytest.raises(InputError, match="champion"):
        start_verification(idle, OPERATOR, verifier="feature", model=str(tmp_path / "b"))
    with pytest.raises(ModelError):
        start_verification(idle, OPERATOR, verifier="feature", model=str(tmp_path / "nowhere"))
    (champion.folder / "verifier.json").write_text("{}")
    with pytest.raises(ModelError, match="changed since registration"):
        start_verification(idle, OPERATOR)
