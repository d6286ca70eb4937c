"""Models: what becomes of a trained one, which is in use, and what is told of it."""

from pathlib import Path

import pytest

from data.errors import ModelError, NotFoundError
from data.tables.models import ModelTable
from tests.ui.learning_desk import comparison_report, generator_training
from tests.ui.registered import ended_run, registered_generator, registered_verifier, saying
from training.registry import aliased, aliases, promote
from ui.desk.context import OPERATOR, Desk
from ui.desk.model_ingest import prepare_generator, prepare_verifier
from ui.desk.models_in_use import champion_verifier, generator_in_use
from ui.desk.runs.submission import Ingested
from ui.desk.usecases.models import list_models, show_model


def trained(desk: Desk, folder: Path, probability: float, *, parent: str | None = None) -> Ingested:
    """What bringing in a training run says, whose verifier says `probability`."""
    made, run = ended_run(
        desk, folder, "train-verifier", counts={"variants": 3}, settings={"parent": parent, "verifier": "feature"}
    )
    saying(made.outputs / "model", probability)
    ingest = prepare_verifier(desk.settings, made, run, desk.now)
    with desk.store.write() as connection:
        return ingest(connection, made, run)


def test_the_first_is_champion_another_challenges_it_and_itself_again_does_not(desk: Desk, tmp_path: Path) -> None:
    first = trained(desk, tmp_path / "r_1", 0.5)
    again = trained(desk, tmp_path / "r_2", 0.5)
    nobody_challenges = aliased(desk.settings.models, "verifier", "challenger") is None
    other = trained(desk, tmp_path / "r_3", 0.9)

    champion = champion_verifier(desk.settings)
    challenger = aliased(desk.settings.models, "verifier", "challenger")
    assert champion is not None
    assert challenger is not None
    assert [one.counts["is_champion"] for one in (first, again, other)] == [True, True, False]
    assert again.counts["model_id"] == first.counts["model_id"] == champion.model_id
    assert other.counts["model_id"] == challenger.model_id
    assert nobody_challenges
    with desk.store.read() as connection:
        assert {model.model_id for model in ModelTable(connection).all(role="verifier")} == {
            champion.model_id,
            challenger.model_id,
        }


def test_a_challenger_is_sent_to_the_gate_and_a_first_verifier_is_not(desk: Desk, tmp_path: Path) -> None:
    first = trained(desk, tmp_path / "r_1", 0.5)
    other = trained(desk, tmp_path / "r_2", 0.9)

    assert first.then is None
    assert other.then is not None
    assert other.then.kind == "gate-verifier"
    assert other.then.afterwards == {
        "champion_id": first.counts["model_id"],
        "challenger_id": other.counts["model_id"],
    }
    assert Path(str(other.then.settings["champion"])).name == first.counts["model_id"]
    assert Path(str(other.then.settings["challenger"])).name == other.counts["model_id"]


def test_a_challenger_of_a_damaged_champion_is_kept_and_the_comparison_says_why_not(desk: Desk, tmp_path: Path) -> None:
    trained(desk, tmp_path / "r_1", 0.5)
    champion = champion_verifier(desk.settings)
    assert champion is not None
    (champion.folder / "feature-verifier.json").write_text("{}")

    other = trained(desk, tmp_path / "r_2", 0.9)

    assert other.then is None
    assert "changed since registration" in str(other.counts["not_compared"])
    assert aliases(desk.settings.models, "verifier")["challenger"] == other.counts["model_id"]


def test_the_lineage_tells_run_data_splits_settings_seed_versions_and_parent(desk: Desk, tmp_path: Path) -> None:
    first = trained(desk, tmp_path / "r_1", 0.5)
    parent = str(first.counts["model_id"])
    second = trained(desk, tmp_path / "r_2", 0.9, parent=parent)

    detail = show_model(desk, OPERATOR, model_id=str(second.counts["model_id"]))

    assert (detail.info.run_id, detail.info.parent) == ("r_2", parent)
    assert detail.info.created_at is not None
    assert {"data", "inputs", "splits", "settings", "seed", "code_version", "versions", "counts"} <= set(detail.origin)
    assert detail.origin["settings"] == {"verifier": "feature"}
    assert set(detail.files) == {"feature-verifier.json"}
    assert (detail.gate, detail.comparison, detail.sign_offs) == (None, None, ())


def test_a_run_that_made_no_model_is_refused_and_leaves_nothing(desk: Desk, tmp_path: Path) -> None:
    made, run = ended_run(desk, tmp_path / "r_1", "train-verifier", counts={})

    with pytest.raises(ModelError):
        prepare_verifier(desk.settings, made, run, desk.now)

    assert not list(desk.settings.models.rglob("*.json"))


def test_a_refreshed_generator_is_a_challenger_even_if_it_is_the_first(desk: Desk, tmp_path: Path) -> None:
    made, run = ended_run(
        desk, tmp_path / "r_1", "refresh-generator", counts=generator_training("g1", comparison_report())
    )
    (made.outputs / "model").mkdir()
    (made.outputs / "model" / "config.json").write_text("{}")

    ingest = prepare_generator(desk.settings, made, run, desk.now)
    with desk.store.write() as connection:
        told = ingest(connection, made, run)

    detail = show_model(desk, OPERATOR, model_id=str(told.counts["model_id"]))
    assert (detail.info.role, detail.info.version, detail.info.aliases) == ("generator", "g1", ("challenger",))
    assert detail.comparison == comparison_report()
    assert told.then is None
    assert generator_in_use(desk.settings) is None


def test_what_the_settings_name_generates_before_the_champion_and_that_before_the_embedded_one(
    desk: Desk, tmp_path: Path
) -> None:
    embedded = generator_in_use(desk.settings)
    model = registered_generator(desk, tmp_path / "made", "tuned")
    promote(desk.settings.models, "generator", model.model_id)
    named = desk.settings.model_copy(update={"model": "owner/name"})

    assert embedded is None
    assert generator_in_use(desk.settings) == str(model.folder)
    assert generator_in_use(named) == "owner/name"


def test_a_damaged_generator_is_not_used(desk: Desk, tmp_path: Path) -> None:
    model = registered_generator(desk, tmp_path / "made", "tuned")
    promote(desk.settings.models, "generator", model.model_id)
    (model.folder / "config.json").write_text("{ }")

    with pytest.raises(ModelError, match=r"config\.json"):
        generator_in_use(desk.settings)


def test_the_list_says_which_is_in_use(desk: Desk, tmp_path: Path) -> None:
    before = {it.role: it.aliases for it in list_models(desk, OPERATOR)}
    first, second = registered_verifier(desk, tmp_path / "a", 0.5), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(desk.settings.models, "verifier", first.model_id)
    promote(desk.settings.models, "verifier", second.model_id)
    generator = registered_generator(desk, tmp_path / "made", "tuned")
    promote(desk.settings.models, "generator", generator.model_id)

    after = {it.model_id or it.role: it.aliases for it in list_models(desk, OPERATOR)}

    assert before == {"generator": ("champion",), "encoder": ("champion",)}
    assert after == {
        "generator": (),
        "encoder": ("champion",),
        first.model_id: ("previous",),
        second.model_id: ("champion",),
        generator.model_id: ("champion",),
    }


def test_a_model_that_is_not_there_is_told(desk: Desk) -> None:
    with pytest.raises(NotFoundError, match="sagedesk model list"):
        show_model(desk, OPERATOR, model_id="0123456789abcdef")
