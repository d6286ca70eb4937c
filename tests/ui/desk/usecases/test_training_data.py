"""What a training run gets: counted before it starts, the same when it does, and a gate question only at the gate."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from annotation.agreement import Agreement, human_agreement
from data.arrow import questions_from, variants_from
from data.dimensions import DIMENSIONS
from data.errors import ConflictError, InputError, PermissionDeniedError
from data.ids import cluster_id
from data.records import Answers, Part, Run, RunId, RunState, VariantId, Verdict, VerdictTarget
from data.store import MIGRATIONS, Connection, Store, migrate
from data.tables.cluster_parts import ClusterPartTable
from data.tables.queue import QueueItem, QueueTable
from data.tables.runs import RunTable
from data.tables.verdicts import VerdictTable
from engine.jobs.folder import RunFolder
from tests.ui.labelled_store import NO, NOON, YES, LabelledStore, cluster_of
from training.examples import LABEL_SCHEMA, learnt_from_sample
from training.registry import promote, register
from ui.desk.cluster_parts import ensure_parts
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.training_inputs import gate_inputs, generator_inputs, verifier_inputs
from ui.desk.usecases.training_data import DimensionCount, PartCount, SourceCount, TypeCount, preview_training


def for_verifier(connection: Connection) -> Mapping[str, pa.Table]:
    ensure_parts(connection, NOON)
    return verifier_inputs(connection)


def for_generator(connection: Connection) -> Mapping[str, pa.Table]:
    ensure_parts(connection, NOON)
    return generator_inputs(connection)


def ids(table: pa.Table, name: str = "variant_id") -> set[str]:
    return set(table[name].to_pylist())


def clusters_of(tables: Mapping[str, pa.Table], *, variants: set[str]) -> set[str]:
    """The clusters of the questions of these variants, by the inputs' own tables."""
    questions = {question.question_id: question for question in questions_from(tables["questions"])}
    chosen = [variant for variant in variants_from(tables["variants"]) if variant.variant_id in variants]
    assert len(chosen) == len(variants)
    return {cluster_id(questions[it.question_id].context, questions[it.question_id].options) for it in chosen}


def label_many(people: LabelledStore, questions: int = 24) -> None:
    """Three variants a question: a blind no, an assisted yes, a blind yes."""
    asked = people.ask_many([f"Question {number}" for number in range(questions)], variants=3)
    said = ((NO, True), (YES, False), (YES, True))
    people.say_at_once((variant, *given) for of_one in asked for variant, given in zip(of_one, said, strict=True))


def too_few(labels: int, *, of: int) -> str:
    return (
        f"{labels} blind labels on {of} gate questions: with fewer than 20 on 5 questions the gate cannot say which "
        "verifier is better"
    )


def test_what_was_said_of_a_gate_question_is_in_no_input_but_the_gates(people: LabelledStore) -> None:
    label_many(people)

    verifier = for_verifier(people.connection)
    generator = for_generator(people.connection)
    gate = gate_inputs(people.connection)

    parts = {cluster: it.part for cluster, it in ClusterPartTable(people.connection).standing().items()}
    in_gate = {cluster for cluster, part in parts.items() if part == "gate"}
    assert len(in_gate) == 6
    assert set(gate["labels"]["group"].to_pylist()) == in_gate
    assert set(gate["labels"]["is_blind"].to_pylist()) == {True}
    assert clusters_of(gate, variants=ids(gate["variants"])) == in_gate
    assert clusters_of(verifier, variants=ids(verifier["variants"])) & in_gate == set()
    assert clusters_of(generator, variants=ids(generator["variants"])) & in_gate == set()
    assert {parts.get(group, "train") for group in verifier["labels"]["group"].to_pylist()} == {
        "train",
        "validation",
        "calibration",
    }
    by_question: dict[str, Part] = {
        question.question_id: parts[cluster_id(question.context, question.options)]
        for question in questions_from(generator["questions"])
        if question.benchmark == "mini"
    }
    assert {by_question[name] for name in ids(generator["prompts"], "question_id")} == {"train"}
    assert {by_question[name] for name in ids(generator["held_out"], "question_id")} == {"gate"}
    for name, part in (("accepted", "train"), ("probe", "validation")):
        theirs = ids(generator[name]) - learnt_from_sample()
        assert {parts[cluster] for cluster in clusters_of(generator, variants=theirs)} == {part}
    assert ids(generator["labels"]) == ids(verifier["labels"])


def test_nothing_is_learnt_from_while_a_question_has_no_part(people: LabelledStore) -> None:
    people.ask("Question")

    with pytest.raises(ConflictError, match="start it again"):
        verifier_inputs(people.connection)
    with pytest.raises(ConflictError, match="start it again"):
        generator_inputs(people.connection)


def test_no_group_is_in_two_parts_and_later_runs_do_not_redraw_them(people: LabelledStore) -> None:
    seen: dict[str, str] = {}
    for round_number in range(4):
        asked = people.ask_many([f"Question {round_number}.{number}" for number in range(7)], variants=2)
        people.say_at_once((variant, YES, True) for of_one in asked for variant in of_one)
        labels = [
            *for_verifier(people.connection)["labels"].to_pylist(),
            *gate_inputs(people.connection)["labels"].to_pylist(),
        ]
        for row in labels:
            assert seen.setdefault(row["group"], row["part"]) == row["part"]

    assert sorted(set(seen.values())) == ["calibration", "gate", "train", "validation"]


def test_a_deleted_annotation_is_out_of_the_next_set_and_the_old_runs_folder_stays_as_it_was(
    people: LabelledStore, tmp_path: Path
) -> None:
    kept, deleted = people.ask("Question", part="train", variants=2)
    people.say(kept)
    people.say(deleted)
    before = for_verifier(people.connection)
    folder = RunFolder.create(
        tmp_path / "r_1", run_id="r_1", kind="train-verifier", settings={}, seed=0, code_version="1", inputs=before
    )

    people.say(deleted, is_deleted=True)
    after = for_verifier(people.connection)

    assert ids(after["labels"]) == ids(before["labels"]) - {deleted}
    assert deleted not in ids(after["variants"])
    assert deleted in ids(folder.read_input("labels"))
    assert folder.read_input("labels").equals(before["labels"])


def test_inputs_have_a_row_for_each_label_variant_and_question(people: LabelledStore) -> None:
    [variant] = people.ask("Question", part="train")
    people.say(variant, Answers(True, False, True), is_blind=False)

    inputs = for_verifier(people.connection)

    assert inputs["labels"].schema == LABEL_SCHEMA
    assert [row for row in inputs["labels"].to_pylist() if row["variant_id"] == variant] == [
        {"variant_id": variant, "tc": True, "lc": False, "au": True, "group": cluster_of("Question")}
        | {"part": "train", "source": "annotations", "is_blind": False, "labelled_at": people.now}
    ]
    assert ids(inputs["variants"]) == ids(inputs["labels"]) == learnt_from_sample() | {variant}
    asked = ids(inputs["variants"], "question_id")
    assert asked == ids(inputs["questions"], "question_id")
    assert inputs["questions"].num_rows == len(asked)


def test_a_gate_of_questions_whose_part_is_not_stored_is_empty(people: LabelledStore) -> None:
    label_many(people, questions=8)

    assert gate_inputs(people.connection)["labels"].num_rows == 0
    for_verifier(people.connection)
    assert gate_inputs(people.connection)["labels"].num_rows > 0


def test_past_errors_are_gate_labels_that_some_verifier_has_contradicted(people: LabelledStore) -> None:
    right, wrong, once, silent = people.ask("Question", part="gate", variants=4)
    [elsewhere] = people.ask("Other", part="train")
    for variant in (right, wrong, once, silent, elsewhere):
        people.say(variant, NO)

    def verdict(variant: VariantId, target: VerdictTarget, label: bool | None, version: str = "v1") -> Verdict:
        return Verdict(variant, target, None, label, version, "feature", None, NOON)

    VerdictTable(people.connection).upsert(
        [
            verdict(right, "LC", False),
            verdict(right, "valid", False),
            verdict(wrong, "LC", True),
            verdict(once, "LC", False, "v2"),
            verdict(once, "valid", True),
            verdict(silent, "TC", None),
            verdict(elsewhere, "LC", True),
        ]
    )

    assert ids(gate_inputs(people.connection)["past_errors"]) == {wrong, once}


def test_people_agree_as_far_as_two_who_answered_blind_said_the_same(people: LabelledStore) -> None:
    variants = people.ask("Question", variants=6)
    said = [(YES, YES), (YES, YES), (NO, NO), (YES, NO)]
    for variant, pair in zip(variants, said, strict=False):
        for who, answers in zip(("ana", "ben"), pair, strict=True):
            people.say(variant, answers, who=who)
    people.say(variants[4], YES)
    people.say(variants[4], NO, who="ben", is_blind=False)
    people.say(variants[5], YES)

    found = human_agreement(people.connection)

    # LC and validity: 5 of 8 answers yes, so 34/64 agree by chance; TC and AU are all yes.
    assert found["LC"] == found["valid"]
    assert found["LC"].kappa == pytest.approx((0.75 - 34 / 64) / (1 - 34 / 64))
    assert (found["LC"].share, found["LC"].pairs) == (0.75, 4)
    assert found["TC"] == Agreement(1.0, None, 4)


def test_without_two_blind_answers_to_one_variant_nothing_is_said_of_agreement(people: LabelledStore) -> None:
    [variant] = people.ask("Question")
    people.say(variant)

    assert human_agreement(people.connection) == {}


def test_a_store_of_the_first_version_gets_parts_for_what_was_queued_and_answered_before(tmp_path: Path) -> None:
    first_only = tmp_path / "migrations"
    first_only.mkdir()
    shutil.copy(MIGRATIONS / "0001_initial.sql", first_only)
    old = duckdb.connect(str(tmp_path / "old.duckdb"))
    old.execute("SET TimeZone = 'UTC'")
    migrate(old, now=lambda: NOON, migrations=first_only)
    before = LabelledStore(old)
    variants = [variant for [variant] in before.ask_many([f"Question {number}" for number in range(12)], variants=1)]
    before.say_at_once((variant, YES, number % 2 == 0) for number, variant in enumerate(variants))
    QueueTable(old).add([QueueItem(variant, False, 1, 0.3, 0.5, "TC uncertain (0.50)", NOON) for variant in variants])
    old.close()

    store = Store.open(tmp_path / "old.duckdb", now=lambda: NOON)

    with store.write() as connection:
        verifier, gate = for_verifier(connection), gate_inputs(connection)
        standing = ClusterPartTable(connection).standing()
        item = QueueTable(connection).find(variants[0])
    store.close()
    assert len(standing) == 12
    by_people = ids(verifier["labels"]) - learnt_from_sample()
    assert len(by_people) == sum(it.part != "gate" for it in standing.values()) == 7
    assert ids(gate["labels"]) <= set(variants[::2]) - by_people
    assert item is not None
    assert item.is_blind is False


def test_the_preview_counts_what_the_run_then_gets_and_keeps_nothing(desk: Desk) -> None:
    with desk.store.write() as connection:
        label_many(LabelledStore(connection))

    found = preview_training(desk, OPERATOR, role="verifier")

    with desk.store.write() as connection:
        assert ClusterPartTable(connection).standing() == {}
        from_now_on = for_verifier(connection)["labels"].to_pylist()
        gate = gate_inputs(connection)["labels"].to_pylist()
    assert found.labels == len(from_now_on)
    assert found.gate_labels == len(gate) == 12
    assert found.blind == sum(row["is_blind"] for row in from_now_on)
    assert found.blind + found.assisted == found.labels
    assert found.questions == len({row["group"] for row in from_now_on})
    for part in found.parts:
        rows = [row for row in (*from_now_on, *gate) if row["part"] == part.part]
        assert part == PartCount(
            part.part, len(rows), len({row["group"] for row in rows}), sum(row["is_blind"] for row in rows)
        )
    train = [row for row in from_now_on if row["part"] == "train"]
    assert found.dimensions == tuple(
        DimensionCount(
            dimension.key,
            sum(row[dimension.key.lower()] is True for row in train),
            sum(row[dimension.key.lower()] is False for row in train),
        )
        for dimension in DIMENSIONS
    )
    assert found.sources == (SourceCount("sample", 214), SourceCount("annotations", 54))
    assert sum(kind.labels for kind in found.types) == found.labels
    assert {reason.reason: reason.labels for reason in found.left_out} == {
        "gate question (reserved for the gate)": 12,
        "gate question labelled with the verdicts visible (used for neither the gate nor training)": 6,
    }
    assert (found.first_labels, found.first_labels_kept) == (214, 214)
    assert found.blockers == ()
    assert found.warnings == (too_few(12, of=6),)


def test_an_empty_desk_can_train_its_first_verifier_and_no_generator(desk: Desk) -> None:
    verifier = preview_training(desk, OPERATOR, role="verifier")
    generator = preview_training(desk, OPERATOR, role="generator")

    assert verifier.blockers == ()
    assert verifier.labels == 214
    assert verifier.warnings == (
        too_few(0, of=0),
        "no validation labels: a language model cannot use early stopping",
        "no calibration labels: probabilities are calibrated only by cross-validation",
    )
    assert generator.blockers == (
        "no verifier is in use, which GRPO needs as its reward; train one first",
        "no questions for GRPO; import more",
        "no held-out questions for the comparison; import more",
    )
    assert len(generator.types) == 7
    assert all(isinstance(kind, TypeCount) and kind.accepted > 0 for kind in generator.types)


def test_a_generator_needs_a_verifier_and_questions_and_then_nothing_hinders_it(desk: Desk, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "weights").write_text("1")
    model = register(desk.settings.models, made, role="verifier", kind="feature", version="1", origin={})
    promote(desk.settings.models, "verifier", model.model_id)
    with desk.store.write() as connection:
        label_many(LabelledStore(connection))

    found = preview_training(desk, OPERATOR, role="generator")

    assert found.blockers == ()
    assert (found.prompt_questions, found.held_out_questions) == (12, 6)


def a_run(kind: str, state: RunState) -> Run:
    return Run(
        run_id=RunId(f"r_{state}"),
        kind=kind,
        state=state,
        folder="/none",
        settings={},
        submitted_by="lea",
        created_at=NOON,
        started_at=None,
        ended_at=None,
        pid=None,
        pid_started_at=None,
        done=0,
        total=None,
        message="",
        result={},
    )


def test_a_training_that_has_ended_hinders_none(desk: Desk) -> None:
    with desk.store.write() as connection:
        RunTable(connection).add(a_run("train-verifier", "done"))

    assert preview_training(desk, OPERATOR, role="verifier").blockers == ()


def test_a_training_that_goes_on_hinders_the_next_of_its_role_wherever_it_runs(desk: Desk) -> None:
    with desk.store.write() as connection:
        RunTable(connection).add(a_run("train-verifier", "queued"))
        RunTable(connection).add(a_run("refresh-generator", "away"))

    verifier = preview_training(desk, OPERATOR, role="verifier")
    generator = preview_training(desk, OPERATOR, role="generator")

    assert verifier.blockers == ("the verifier is already being trained; wait for that run or cancel it",)
    assert generator.blockers[0] == "the generator is already being trained; wait for that run or cancel it"


def test_without_a_rejected_variant_of_the_newest_generator_a_lead_is_warned(desk: Desk) -> None:
    with desk.store.write() as connection:
        people = LabelledStore(connection)
        [variant] = people.ask("Question", part="train", model="new")
        people.say(variant)
    before = preview_training(desk, OPERATOR, role="verifier")
    with desk.store.write() as connection:
        people = LabelledStore(connection, now=people.now)
        people.say(variant, NO)

    after = preview_training(desk, OPERATOR, role="verifier")

    assert before.current_generator_negatives == 0
    assert any("no rejected variant from the newest generator (rules new)" in text for text in before.warnings)
    assert after.current_generator_negatives == 1
    assert not any("no rejected variant" in text for text in after.warnings)


def test_a_limit_is_counted_too_and_one_that_is_too_low_is_refused(desk: Desk) -> None:
    found = preview_training(desk, OPERATOR, role="verifier", max_labels=100)

    assert (found.labels, found.first_labels, found.first_labels_kept) == (100, 214, 100)
    assert [(it.reason, it.labels) for it in found.left_out] == [("over the maximum number of labels", 114)]
    with pytest.raises(InputError, match="65 of the 214 first labels are always kept"):
        preview_training(desk, OPERATOR, role="verifier", max_labels=64)


def test_an_annotator_is_not_shown_what_training_would_use(desk: Desk) -> None:
    with pytest.raises(PermissionDeniedError):
        preview_training(desk, Actor("ana", "annotator"), role="verifier")
