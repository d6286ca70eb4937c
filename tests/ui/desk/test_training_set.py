"""Which of what people said is learnt from, which is kept for judging, and which is left out and why."""

import pytest

from data.errors import InputError
from data.records import Answers
from data.samples import sample_questions
from data.tables.questions import QuestionTable
from data.tables.training_labels import Maker
from data.tables.variants import VariantTable
from tests.ui.labelled_store import NO, NOON, YES, LabelledStore, cluster_of
from training.examples import learnt_from_sample, sample_split
from ui.desk.cluster_parts import parts
from ui.desk.training_set import (
    INCOMPLETE,
    KEPT_FOR_JUDGING,
    OVER_THE_MOST,
    SEEN_AT_THE_GATE,
    TrainingSet,
    sample_records,
    training_set,
)


def current(people: LabelledStore, **wanted: int) -> TrainingSet:
    return training_set(people.connection, parts(people.connection), **wanted)


def by_people(found: TrainingSet) -> dict[str, tuple[str, str, bool]]:
    """Variant to (part, source, blind), without the sample's."""
    return {
        label.variant_id: (label.part, label.source, label.is_blind)
        for label in (*found.labels, *found.gate)
        if label.source != "sample"
    }


def test_an_empty_desk_learns_from_the_samples_labels_and_not_from_those_held_out(people: LabelledStore) -> None:
    found = current(people)

    assert {label.variant_id for label in found.labels} == learnt_from_sample()
    assert {it.variant.variant_id for it in sample_split().held_out} & found.facts.keys() == set()
    assert (found.gate, found.left_out, found.first) == ((), {}, len(learnt_from_sample()))
    assert all(label.answers.is_valid for label in found.accepted())
    assert len(found.accepted()) > 20


def test_each_reason_to_leave_a_label_out_is_said_in_words(people: LabelledStore) -> None:
    names = [people.ask(f"Question {number}", part="train")[0] for number in range(7)]
    gate = people.ask("Kept", part="gate", variants=2)
    skipped, differing, incomplete, deleted, bulk, half, good = names
    people.say(skipped, Answers(None, None, None), is_skipped=True)
    people.say(differing, YES)
    people.say(differing, NO, who="ben")
    people.say(incomplete, Answers(True, None, None))
    people.say(deleted)
    people.say(deleted, is_deleted=True)
    people.decide_in_bulk(bulk)
    people.adjudicate(half, Answers(None, None, None))
    people.say(good)
    people.say(gate[0])
    people.say(gate[1], is_blind=False)

    found = current(people)

    assert found.left_out == {
        "skipped": 1,
        "people disagree, and no lead has decided yet": 1,
        INCOMPLETE: 2,
        "deleted": 1,
        "decided in bulk, without individual review": 1,
        KEPT_FOR_JUDGING: 1,
        SEEN_AT_THE_GATE: 1,
    }
    assert by_people(found) == {good: ("train", "annotations", True), gate[0]: ("gate", "annotations", True)}


def test_a_label_is_blind_when_all_behind_it_were_and_a_leads_never_is(people: LabelledStore) -> None:
    both, mixed, revised, settled = people.ask("Question", part="calibration", variants=4)
    for variant, other in ((both, True), (mixed, False)):
        people.say(variant)
        people.say(variant, who="ben", is_blind=other)
    people.say(revised)
    people.say(revised, NO, is_blind=False)
    people.say(settled)
    people.say(settled, NO, who="ben")
    people.adjudicate(settled, NO)

    found = current(people)

    assert by_people(found) == {
        both: ("calibration", "annotations", True),
        mixed: ("calibration", "annotations", False),
        revised: ("calibration", "annotations", False),
        settled: ("calibration", "adjudication", False),
    }
    assert {label.variant_id: label.answers for label in found.labels}[revised] == NO


def test_where_people_differ_on_a_dimension_but_not_on_the_outcome_the_rest_is_learnt(people: LabelledStore) -> None:
    [variant] = people.ask("Question", part="train")
    people.say(variant, Answers(True, False, True))
    people.say(variant, Answers(False, False, True), who="ben")

    [answers] = [label.answers for label in current(people).labels if label.variant_id == variant]

    assert answers == Answers(None, False, True)


def test_a_label_follows_the_part_of_its_question_and_near_duplicates_share_it(people: LabelledStore) -> None:
    [one], [twin] = people.ask("Ann boils water", part="gate"), people.ask("ANN boils  water", benchmark="more")
    [other] = people.ask("Bob runs", part="validation")
    for variant in (one, twin, other):
        people.say(variant)

    found = current(people)

    assert {name: part for name, (part, _, _) in by_people(found).items()} == {
        one: "gate",
        twin: "gate",
        other: "validation",
    }
    assert {label.group for label in found.gate} == {cluster_of("Ann boils water")}


def test_a_generator_imitates_valid_variants_of_train_questions_that_pass_their_contract(
    people: LabelledStore,
) -> None:
    good, bad = people.ask("Question 1", part="train", variants=2)
    [broken] = people.ask("Question 2", part="train", passes=False)
    elsewhere = [people.ask(f"In {part}", part=part)[0] for part in ("validation", "calibration", "gate")]
    for variant in (good, broken, *elsewhere):
        people.say(variant)
    people.say(bad, NO)

    accepted = {label.variant_id for label in current(people).accepted() if label.source != "sample"}

    assert accepted == {good}


def test_a_decision_counts_more_than_the_samples_own_answer(people: LabelledStore) -> None:
    questions, variants = sample_records()
    variant = next(iter(variants.values()))
    QuestionTable(people.connection).upsert([questions[variant.question_id]], now=NOON)
    VariantTable(people.connection).upsert([variant])
    people.adjudicate(variant.variant_id, Answers(False, False, False))

    [label] = [label for label in current(people).labels if label.variant_id == variant.variant_id]

    assert (label.answers, label.source, label.part) == (Answers(False, False, False), "adjudication", "train")


def test_rejected_variants_of_the_newest_generator_are_counted_where_they_are_learnt_from(
    people: LabelledStore,
) -> None:
    assert current(people).newest_maker is None
    old = people.ask("Question 1", part="train", model="old")
    new = people.ask("Question 2", part="train", model="new", variants=3)
    gate = people.ask("Question 3", part="gate", model="new")
    for variant in (*old, *new[:2], *gate):
        people.say(variant, NO)
    people.say(new[2], YES)

    found = current(people)

    assert found.newest_maker == Maker("rules", "new")
    assert found.newest_rejected == 2


def test_a_limit_spares_the_parts_that_are_not_learnt_from(people: LabelledStore) -> None:
    kept = [people.ask(f"In {part}", part=part)[0] for part in ("validation", "calibration", "gate")]
    learnt = [people.ask(f"Question {number}", part="train")[0] for number in range(5)]
    for variant in (*kept, *learnt):
        people.say(variant)

    found = current(people, max_labels=70)

    assert len(found.part("train")) == 70
    assert set(learnt) <= {label.variant_id for label in found.part("train")}
    assert [len(found.part(part)) for part in ("validation", "calibration", "gate")] == [1, 1, 1]
    assert (found.first, found.first_kept) == (len(learnt_from_sample()), 65)
    assert found.left_out[OVER_THE_MOST] == len(learnt_from_sample()) + 5 - 70
    with pytest.raises(InputError, match="are always kept"):
        current(people, max_labels=10)


def test_the_samples_records_are_those_that_it_ships(people: LabelledStore) -> None:
    questions, variants = sample_records()

    assert list(questions.values()) == sample_questions()
    assert variants.keys() == learnt_from_sample()
