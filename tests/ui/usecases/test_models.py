"""What becomes of a trained verifier: the first is champion, another a challenger, the same again nothing new."""

from pathlib import Path

from data.records import Run, RunId
from data.tables.models import ModelTable
from engine.jobs.folder import RunFolder
from training.registry import aliased
from ui.usecases.context import Desk
from ui.usecases.models import champion_verifier, ingest_model


def ingested(desk: Desk, folder: Path, weights: str) -> dict[str, object]:
    """What bringing in a training run says, whose model is `weights`."""
    made = RunFolder.create(
        folder, run_id=folder.name, kind="train-verifier", settings={}, seed=1, code_version="test", inputs={}
    )
    (made.outputs / "model").mkdir()
    (made.outputs / "model" / "feature-verifier.json").write_text(weights)
    run = Run(
        RunId(folder.name), "train-verifier", "running", str(folder), {}, "lea", desk.now(), None, None, None, None, 0,
        None, "", {},
    )  # fmt: skip
    with desk.store.write() as connection:
        counts = {"verifier_version": f"feature:{weights}"}
        return dict(ingest_model(connection, desk.settings, made, run, counts, desk.now()))


def test_the_first_is_champion_another_challenges_it_and_itself_again_does_not(desk: Desk, tmp_path: Path) -> None:
    first = ingested(desk, tmp_path / "r_1", "one")
    again = ingested(desk, tmp_path / "r_2", "one")
    nobody_challenges = aliased(desk.settings.models, "verifier", "challenger") is None
    other = ingested(desk, tmp_path / "r_3", "two")

    champion = champion_verifier(desk.settings)
    challenger = aliased(desk.settings.models, "verifier", "challenger")
    assert champion is not None
    assert challenger is not None
    assert (first["is_champion"], again["is_champion"], other["is_champion"]) == (True, True, False)
    assert (champion.version, challenger.version) == ("feature:one", "feature:two")
    assert again["model_id"] == first["model_id"]
    assert nobody_challenges
    with desk.store.read() as connection:
        assert {model.model_id for model in ModelTable(connection).all(role="verifier")} == {
            champion.model_id,
            challenger.model_id,
        }
