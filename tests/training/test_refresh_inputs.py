from pathlib import Path

import pyarrow as pa
import pytest

from data.arrow import questions_table, variants_table
from data.errors import JobError
from data.records import VARIANT_TYPE_KEYS
from data.samples import sample_questions, sample_variants
from engine.jobs.folder import RunFolder
from training.examples import LABEL_SCHEMA, group_of
from training.refresh_inputs import refresh_inputs

QUESTIONS = sample_questions()
BY_ID = {question.question_id: question for question in QUESTIONS}
BOTH_SIDES = [
    question
    for question in QUESTIONS
    if {it.answers.is_valid for it in sample_variants() if it.variant.question_id == question.question_id}
    >= {True, False}
]
LEARNT, CHECKED, MAPPED, HELD_OUT = BOTH_SIDES[:4]
PARTS = {LEARNT.question_id: "train", CHECKED.question_id: "validation", MAPPED.question_id: "calibration"}
LABELLED = [it for it in sample_variants() if it.variant.question_id in PARTS]
ALL_TYPES = frozenset(VARIANT_TYPE_KEYS)


def label(it, **changed):
    question = BY_ID[it.variant.question_id]
    row = {"variant_id": it.variant.variant_id, "group": group_of(question), "part": PARTS[question.question_id]}
    return row | {"tc": it.answers.tc, "lc": it.answers.lc, "au": it.answers.au} | changed


def ids_table(column, ids):
    return pa.table({column: pa.array(ids, pa.string())})


def run_folder(path: Path, **changed: object) -> RunFolder:
    """The sample's labels of three questions, each in its part; a fourth question is both held out."""
    ids = {
        "accepted": [it for it in LABELLED if it.variant.question_id == LEARNT.question_id and it.answers.is_valid],
        "probe": [it for it in LABELLED if it.variant.question_id == CHECKED.question_id],
    }
    inputs = {
        "labels": [label(it) for it in LABELLED],
        "accepted": [it.variant.variant_id for it in ids["accepted"]],
        "prompts": [LEARNT.question_id],
        "held_out": [HELD_OUT.question_id],
        "probe": [it.variant.variant_id for it in ids["probe"]],
    } | changed
    return RunFolder.create(
        path / "r_1",
        run_id="r_1",
        kind="refresh-generator",
        settings={},
        seed=0,
        code_version="test",
        inputs={
            "questions": questions_table(QUESTIONS),
            "variants": variants_table(it.variant for it in sample_variants()),
            "labels": pa.Table.from_pylist(inputs["labels"], schema=LABEL_SCHEMA),
            **{name: pa.table({"variant_id": pa.array(inputs[name], pa.string())}) for name in ("accepted", "probe")},
            **{
                name: pa.table({"question_id": pa.array(inputs[name], pa.string())}) for name in ("prompts", "held_out")
            },
        },
    )


def test_every_part_has_its_own_use(tmp_path):
    inputs = refresh_inputs(run_folder(tmp_path), ALL_TYPES)

    assert {question.question_id for question, _ in inputs.accepted} == {LEARNT.question_id}
    assert {question.question_id for question, _ in inputs.validation} == {CHECKED.question_id}
    assert {item.question.question_id for item in inputs.probe} == {CHECKED.question_id}
    assert {question.question_id for question, _ in inputs.judge_labels.pairs} == {
        CHECKED.question_id,
        MAPPED.question_id,
    }
    assert inputs.prompts == [LEARNT]
    assert inputs.held_out == [HELD_OUT]


def test_validation_holds_what_people_accepted_and_the_probe_both_sides(tmp_path):
    inputs = refresh_inputs(run_folder(tmp_path), ALL_TYPES)
    checked = {it.variant.variant_id: it.answers for it in LABELLED if it.variant.question_id == CHECKED.question_id}

    assert all(checked[variant.variant_id].is_valid for _, variant in inputs.validation)
    assert {item.is_accepted for item in inputs.probe} == {True, False}
    assert [item.is_accepted for item in inputs.probe] == [
        bool(checked[item.variant.variant_id].is_valid) for item in inputs.probe
    ]


def test_only_the_types_that_it_is_for_are_imitated(tmp_path):
    inputs = refresh_inputs(run_folder(tmp_path), frozenset({"causal"}))

    assert {variant.variant_type for _, variant in (*inputs.accepted, *inputs.validation)} <= {"causal"}


def test_an_item_that_nobody_decided_is_no_probe(tmp_path):
    labels = [label(it, tc=None, lc=None, au=None) for it in LABELLED]

    inputs = refresh_inputs(run_folder(tmp_path, labels=labels), ALL_TYPES)

    assert inputs.probe == []
    assert inputs.validation == []


def test_a_held_out_question_among_what_is_imitated_is_refused(tmp_path):
    folder = run_folder(tmp_path, held_out=[CHECKED.question_id])

    with pytest.raises(JobError, match=f"{CHECKED.question_id} is both held out"):
        refresh_inputs(folder, ALL_TYPES)


@pytest.mark.parametrize("name", ["accepted", "prompts", "held_out", "probe"])
def test_an_id_that_is_not_whole_among_the_inputs_is_named(tmp_path, name):
    with pytest.raises(JobError, match=f"{name} names x_1"):
        refresh_inputs(run_folder(tmp_path, **{name: ["x_1"]}), ALL_TYPES)


def test_labels_of_the_gate_are_refused(tmp_path):
    folder = run_folder(tmp_path, labels=[label(LABELLED[0], part="gate")])

    with pytest.raises(JobError, match="gate labels"):
        refresh_inputs(folder, ALL_TYPES)
