"""The sample project: every item against the rules that a program can check, and the data card against the items."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from data.ids import cluster_id
from data.records import VARIANT_TYPE_KEYS, VariantTypeKey
from data.samples import LabelledVariant, sample_questions, sample_variants
from engine.candidate import is_abstain
from engine.variant_types.table import contract_checks

CARD = Path(__file__).parents[2] / "data" / "samples" / "README.md"
QUESTIONS = {question.question_id: question for question in sample_questions()}
ITEMS = sample_variants()
DEFECTS_OF = {
    "wrong_key": {"LC"},
    "second_right_answer": {"AU"},
    "duplicate_option": {"AU"},
    "irrelevant_option": {"AU"},
    "type_not_met": {"TC"},
    "knowledge_changed": {"TC"},
    "leak": {"TC"},
}


def of_type(variant_type: VariantTypeKey) -> list[LabelledVariant]:
    return [item for item in ITEMS if item.variant.variant_type == variant_type]


def failed(item: LabelledVariant) -> set[str]:
    return {name.upper() for name in ("tc", "lc", "au") if not getattr(item.answers, name)}


def test_there_are_at_least_forty_questions_each_with_four_options_and_an_answer() -> None:
    assert len(QUESTIONS) >= 40
    for question in QUESTIONS.values():
        assert (question.benchmark, question.source_note) == ("sample", "written for this project")
        assert question.context.strip() == question.context != ""
        assert len(set(question.options)) == 4
        assert question.answer_index in range(4)
        assert question.subject


def test_no_two_questions_are_near_duplicates_and_no_variant_stands_there_twice() -> None:
    clusters = {cluster_id(question.context, question.options) for question in QUESTIONS.values()}

    assert len(clusters) == len({question.source_key for question in QUESTIONS.values()}) == len(QUESTIONS)
    assert len({item.variant.variant_id for item in ITEMS}) == len(ITEMS)


def test_right_answers_of_questions_stand_at_every_place_equally_often() -> None:
    places = Counter(question.answer_index for question in QUESTIONS.values())

    assert max(places.values()) - min(places.values()) <= 1


@pytest.mark.parametrize("variant_type", VARIANT_TYPE_KEYS)
def test_every_type_has_thirty_variants_of_which_forty_to_fifty_percent_are_defective(
    variant_type: VariantTypeKey,
) -> None:
    items = of_type(variant_type)
    defective = [item for item in items if not item.answers.is_valid]

    assert len(items) >= 30
    assert 0.40 <= len(defective) / len(items) <= 0.50
    assert set().union(*map(failed, defective)) == {"TC", "LC", "AU"}


@pytest.mark.parametrize("variant_type", [key for key in VARIANT_TYPE_KEYS if key != "critical"])
def test_always_answering_one_place_is_no_better_than_chance(variant_type: VariantTypeKey) -> None:
    for items in (of_type(variant_type), [item for item in of_type(variant_type) if item.answers.is_valid]):
        places = Counter(item.variant.answer_index for item in items)
        assert max(places.values()) / len(items) <= 0.32


def test_half_of_the_critical_variants_are_controls() -> None:
    items = of_type("critical")
    controls = [item for item in items if item.variant.is_control]

    assert 0.45 <= len(controls) / len(items) <= 0.55
    assert all(not item.variant.is_control for item in ITEMS if item.variant.variant_type != "critical")


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.variant.variant_type}-{item.variant.variant_id}")
def test_a_variant_has_an_answer_in_range_complete_labels_and_a_defect_that_fits_them(item: LabelledVariant) -> None:
    variant = item.variant

    assert variant.question_id in QUESTIONS
    assert variant.context.strip() == variant.context != ""
    assert variant.answer_index in range(len(variant.options))
    assert all(option.strip() == option != "" for option in variant.options)
    assert item.answers.is_complete
    assert item.reason.endswith(".")
    assert (item.defect is None) == (item.answers.is_valid is True)
    if item.defect is not None:
        assert DEFECTS_OF[item.defect] & failed(item)


@pytest.mark.parametrize(
    "item",
    [item for item in ITEMS if item.answers.is_valid],
    ids=lambda item: f"{item.variant.variant_type}-{item.variant.variant_id}",
)
def test_a_valid_variant_passes_the_contract_of_its_type(item: LabelledVariant) -> None:
    checks = contract_checks(QUESTIONS[item.variant.question_id], item.variant)

    assert [check for check in checks if check.is_required and not check.holds] == []


def test_most_defective_variants_pass_their_contract() -> None:
    """Else the first verifier would learn form alone; what a generator makes wrong passes the contract too."""
    defective = [item for item in ITEMS if not item.answers.is_valid]
    passing = [
        item
        for item in defective
        if all(
            check.holds
            for check in contract_checks(QUESTIONS[item.variant.question_id], item.variant)
            if check.is_required
        )
    ]

    assert len(passing) / len(defective) > 0.5


def table_rows(heading: str) -> dict[str, list[int]]:
    """First cell without backticks -> the whole numbers of the others, of the first table under `heading`."""
    after = CARD.read_text("utf-8").split(heading, 1)[1].split("\n\n")
    table = next(part for part in after if part.lstrip().startswith("|"))
    rows = {}
    for line in table.strip().splitlines()[2:]:
        first, *rest = [cell.strip() for cell in line.strip("|").split("|")]
        rows[first.strip("`")] = [int(cell) for cell in rest if cell.isdigit()]
    return rows


def counted(items: Iterable[LabelledVariant]) -> list[int]:
    items = list(items)
    valid = sum(item.answers.is_valid is True for item in items)
    questions = {item.variant.question_id for item in items}
    failures = Counter(name for item in items for name in failed(item))
    return [len(items), len(questions), valid, len(items) - valid, *(failures[name] for name in ("TC", "LC", "AU"))]


def test_the_figures_of_the_data_card_are_those_of_the_files() -> None:
    text = CARD.read_text("utf-8")
    sizes = table_rows("## Sizes")
    defects = table_rows("In `critical`, ")
    several = sum(len(failed(item)) > 1 for item in ITEMS)
    controls = [item for item in of_type("critical") if item.variant.is_control]
    valid_controls = sum(item.answers.is_valid is True for item in controls)

    assert sizes == {key: counted(of_type(key)) for key in VARIANT_TYPE_KEYS} | {"all": counted(ITEMS)}
    assert defects == {
        name: [count] for name, count in Counter(item.defect for item in ITEMS if item.defect is not None).items()
    }
    assert f"{len(QUESTIONS)} multiple-choice questions and {len(ITEMS)} variants" in text
    assert f"{several} variants are false on two or three dimensions" in text
    assert re.search(
        rf"{len(controls)} of the {counted(of_type('critical'))[0]} are controls "
        rf"\({valid_controls} of the {counted(of_type('critical'))[2]} valid ones\)",
        text,
    )


def test_the_abstain_option_stands_in_critical_variants_only() -> None:
    stray = [
        item.variant.variant_id
        for item in ITEMS
        if item.variant.variant_type != "critical" and any(map(is_abstain, item.variant.options))
    ]

    assert stray == []
