"""Comparing a challenger with the champion: starting it, finding it again, and the items on which they differ."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from annotation.forms import AnswerForm
from data.errors import ConflictError, InputError, ModelError, NotFoundError
from data.records import Answers, RunState, VariantId
from data.tables.runs import RunTable
from engine.jobs.folder import RunFolder
from tests.ui.registered import ended_run, registered_generator, registered_verifier
from training.gate_report import FLIP_SCHEMA
from training.registry import promote
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.usecases import review
from ui.desk.usecases.gates import compare_models, flipped

LEA = Actor("lea", "lead")
ANA = Actor("ana", "annotator")
YES = AnswerForm(Answers(True, True, True), lead_time_s=4.5, shown_verifier=None)


def test_a_verifier_is_compared_with_the_champion_on_what_the_store_has_for_the_gate(
    desk: Desk, tmp_path: Path
) -> None:
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    champion, other = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(desk.settings.models, "verifier", champion.model_id)

    run = compare_models(desk, LEA, model_id=other.model_id)

    folder = RunFolder(Path(run.folder))
    assert folder.spec().settings == {
        "champion": str(champion.folder),
        "challenger": str(other.folder),
        "target": "valid",
        "margin": 0.03,
        "human_agreement": {},
    }
    assert (run.settings["champion_id"], run.settings["challenger_id"]) == (champion.model_id, other.model_id)
    assert set(folder.spec().inputs) == {
        f"{name}.parquet" for name in ("questions", "variants", "labels", "past_errors")
    }


def test_there_is_nothing_to_compare_without_another_champion_or_for_a_generator(desk: Desk, tmp_path: Path) -> None:
    verifier = registered_verifier(desk, tmp_path / "a", 0.6)
    generator = registered_generator(desk, tmp_path / "b", "tuned")

    with pytest.raises(ConflictError, match="no other champion"):
        compare_models(desk, LEA, model_id=verifier.model_id)
    promote(desk.settings.models, "verifier", verifier.model_id)
    with pytest.raises(ConflictError, match="no other champion"):
        compare_models(desk, LEA, model_id=verifier.model_id)
    with pytest.raises(InputError, match="is a generator"):
        compare_models(desk, LEA, model_id=generator.model_id)
    with pytest.raises(NotFoundError, match="model list"):
        compare_models(desk, LEA, model_id="0123456789abcdef")


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_damaged_verifier_is_not_compared(desk: Desk, tmp_path: Path, damaged: int) -> None:
    pair = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(desk.settings.models, "verifier", pair[0].model_id)
    (pair[damaged].folder / "feature-verifier.json").write_text("{}")

    with pytest.raises(ModelError, match=pair[damaged].model_id):
        compare_models(desk, LEA, model_id=pair[1].model_id)

    with desk.store.read() as connection:
        assert not RunTable(connection).newest(limit=1)


def gate_run(desk: Desk, folder: Path, variant_ids: list[VariantId], state: RunState = "done") -> str:
    """A gate run on whose items the challenger is right and the champion is wrong; its id."""
    made, run = ended_run(desk, folder, "gate-verifier", counts={})
    rows = [
        dict(zip(FLIP_SCHEMA.names, (variant_id, target, True, False, True, 0.2, 0.8), strict=True))
        for variant_id in variant_ids
        for target in ("TC", "valid")
    ]
    made.write_output("flips", pa.Table.from_pylist(rows, schema=FLIP_SCHEMA))
    with desk.store.write() as connection:
        RunTable(connection).add(replace(run, state=state))
    return run.run_id


def test_flips_come_with_their_texts_in_the_runs_order_and_bounded(
    desk: Desk, tmp_path: Path, queue_variants: Callable[..., list[VariantId]]
) -> None:
    ids = queue_variants(3)
    run_id = gate_run(desk, tmp_path / "r_gate", [ids[2], VariantId("v_gone"), ids[0]])

    found = flipped(desk, LEA, run_id=run_id)
    first = flipped(desk, LEA, run_id=run_id, limit=1)

    assert [(it.variant_id, it.target) for it in found] == [
        (ids[2], "TC"), (ids[2], "valid"), (ids[0], "TC"), (ids[0], "valid")
    ]  # fmt: skip
    assert first == found[:1]
    assert (found[0].truth, found[0].champion, found[0].challenger) == (True, False, True)
    assert (found[0].question_context, found[0].variant_type) == ("A baker opens the oven. She", "negation")
    assert found[0].variant_context == "A baker opens the oven. She will not"
    assert found[0].original_options == found[0].options
    assert found[0].answer_index == 3


def test_an_item_that_may_come_before_a_lead_again_is_no_flip_to_them_until_it_is_answered(
    desk: Desk, tmp_path: Path, queue_variants: Callable[..., list[VariantId]]
) -> None:
    ids = queue_variants(2, blind_share=1.0)
    run_id = gate_run(desk, tmp_path / "r_gate", ids)

    open_to_lea = flipped(desk, LEA, run_id=run_id, limit=1)
    to_the_operator = flipped(desk, OPERATOR, run_id=run_id)
    item = review.next_item(desk, ANA)
    assert item is not None
    review.submit(desk, ANA, variant_id=item.variant.variant_id, token=item.token, form=YES)
    answered_by_ana = flipped(desk, LEA, run_id=run_id, limit=1)

    assert open_to_lea == []
    assert {it.variant_id for it in to_the_operator} == set(ids)
    assert [it.variant_id for it in answered_by_ana] == [item.variant.variant_id]


def test_flips_are_told_of_a_finished_gate_run_only(desk: Desk, tmp_path: Path) -> None:
    going_on = gate_run(desk, tmp_path / "r_gate", [], state="running")
    _, other = ended_run(desk, tmp_path / "r_verify", "verify", counts={})
    with desk.store.write() as connection:
        RunTable(connection).add(other)

    with pytest.raises(ConflictError, match="is running"):
        flipped(desk, LEA, run_id=going_on)
    with pytest.raises(InputError, match="is a verify"):
        flipped(desk, LEA, run_id=other.run_id)
    with pytest.raises(NotFoundError):
        flipped(desk, LEA, run_id="r_none")
