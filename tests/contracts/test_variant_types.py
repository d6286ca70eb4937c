"""One suite over the seven variant types: their contracts hold for what is good and name what is not."""

import json
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from data.ids import question_id
from data.records import VARIANT_TYPE_KEYS, Question, QuestionId, Recipe, Variant, VariantId
from engine.candidate import Candidate, abstain_option, is_abstain
from engine.variant_types.critical import CONTROL_DEMONSTRATION
from engine.variant_types.demonstration import OPTIONS, ORIGINAL
from engine.variant_types.table import VARIANT_TYPES, contract_checks, contract_passes

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "../shared/data/hellaswag_pro"
SAMPLES = ROOT / "data" / "samples"
PUBLISHED_FILES = {
    "restatement": "problem_reparagraphing",
    "reverse": "reverse_conversion",
    "causal": "abductive_reasoning",
    "ordering": "sentence_sorting",
    "refinement": "scene_transition",
    "negation": "negative_testing",
    "critical": "critical_thinking",
}
# What the published rows (HellaSwag-Pro, arXiv 2502.11393) really break, counted: the shown order answers 249 of 800
# ordering rows, 84 of 800 refinements keep the original answer, about one reverse row in ten has another context as its
# answer.
PUBLISHED_DEFECTS = {
    "ordering": {"shown_order_is_not_answer"},
    "refinement": {"answer_moved"},
    "reverse": {"original_context_is_answer"},
}


def failures(question, candidate, key, *, advisory=False):
    outcomes = VARIANT_TYPES[key].check(question, candidate)
    return {o.check for o in outcomes if not o.holds and (o.is_required or advisory)}


def edited(candidate, **changes):
    return replace(candidate, **changes)


def published(key):
    file = PUBLISHED / f"en_{PUBLISHED_FILES[key]}.jsonl"
    if not file.exists():
        pytest.skip("the public HellaSwag-Pro rows are not beside this repository (../shared/data)")
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        options = tuple(row["choices"])
        question = Question(
            question_id(row["original_context"], row["original_choices"], row["original_label"]),
            row["original_context"],
            tuple(row["original_choices"]),
            row["original_label"],
            "hellaswag_pro",
            str(row["id"]),
        )
        is_control = is_abstain(options[-1]) and row["label"] != len(options) - 1
        yield question, Candidate(row["context"], options, row["label"], is_control)


@cache
def published_failures(key):
    """Of each row, in order; checked once for all tests."""
    return [failures(question, candidate, key) for question, candidate in published(key)]


def test_the_table_holds_every_type_under_its_own_key():
    assert set(VARIANT_TYPES) == set(VARIANT_TYPE_KEYS)
    assert all(kind.key == key for key, kind in VARIANT_TYPES.items())


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
def test_a_type_has_words_for_people_and_models_and_says_why_it_has_no_recipe(key):
    kind = VARIANT_TYPES[key]

    assert min(map(len, (kind.name, kind.definition, kind.rubric, kind.instructions))) > 10
    assert (kind.write is None) == bool(kind.write_refusal)


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
def test_a_demonstration_keeps_its_own_contract(key):
    assert failures(ORIGINAL, VARIANT_TYPES[key].demonstration, key, advisory=True) == set()


def test_the_demonstration_of_a_control_keeps_the_contract():
    assert failures(ORIGINAL, CONTROL_DEMONSTRATION, "critical", advisory=True) == set()


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
def test_check_names_are_unique_and_details_are_given(key):
    outcomes = VARIANT_TYPES[key].check(ORIGINAL, VARIANT_TYPES[key].demonstration)

    assert max(Counter(outcome.check for outcome in outcomes).values()) == 1
    assert all(outcome.detail for outcome in outcomes)


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
@pytest.mark.parametrize(
    ("corrupt", "check"),
    [
        (lambda c: edited(c, context=" "), "text_present"),
        (lambda c: edited(c, options=("", *c.options[1:])), "text_present"),
        (lambda c: edited(c, options=(*c.options[:-1], c.options[0].upper() + " ")), "options_distinct"),
        (lambda c: edited(c, options=(*c.options, "one more")), "option_count"),
        (lambda c: edited(c, options=c.options[1:], answer_index=0), "option_count"),
        (lambda c: edited(c, answer_index=len(c.options)), "answer_in_range"),
        (lambda c: edited(c, answer_index=-1), "answer_in_range"),
        (lambda c: edited(c, context=f"Correct choice: {c.context}"), "no_answer_marker"),
        (lambda c: edited(c, options=tuple(f"{'ABCDE'[i]}. {o}" for i, o in enumerate(c.options))), "no_option_labels"),
        (lambda c: edited(c, context="一个男人撑开雨伞，因为开始下雨了。他沿着街道走到公交车站。"), "same_script"),
        (lambda c: edited(c, context=ORIGINAL.context, options=OPTIONS), "differs_from_original"),
    ],
)
def test_a_defect_that_any_type_can_have_is_named(key, corrupt, check):
    assert check in failures(ORIGINAL, corrupt(VARIANT_TYPES[key].demonstration), key)


@pytest.mark.parametrize("key", sorted(set(VARIANT_TYPE_KEYS) - {"critical"}))
def test_an_abstain_option_belongs_to_critical_testing_only(key):
    shown = VARIANT_TYPES[key].demonstration
    place = (shown.answer_index + 1) % len(shown.options)
    options = tuple(abstain_option(4) if i == place else o for i, o in enumerate(shown.options))

    assert "no_stray_abstain" in failures(ORIGINAL, edited(shown, options=options), key)


def test_a_leak_of_a_long_answer_fails_and_of_a_short_one_only_warns():
    shown = VARIANT_TYPES["refinement"].demonstration
    leaking = edited(shown, context=f"He {shown.options[1]} {shown.context}")
    short = replace(ORIGINAL, context="Which colour has the sea?", options=("red", "green", "blue", "pink"))
    mentioned = Candidate("Red is not the colour of the sea. Which one is?", short.options, 0, False)

    assert "no_leak" in failures(ORIGINAL, leaking, "refinement")
    assert "no_leak" not in failures(short, mentioned, "refinement")
    assert "no_leak" in failures(short, mentioned, "refinement", advisory=True)


_SHOWN = {key: kind.demonstration for key, kind in VARIANT_TYPES.items()}
CORRUPTIONS = [
    ("restatement", edited(_SHOWN["restatement"], answer_index=1), "other_options_kept"),
    ("restatement", edited(_SHOWN["restatement"], options=(OPTIONS[0], "a", "b", "c")), "other_options_kept"),
    ("restatement", edited(_SHOWN["restatement"], context=ORIGINAL.context), "context_changed"),
    ("restatement", edited(_SHOWN["restatement"], context="Bread is sold by weight. She"), "context_similarity"),
    ("reverse", edited(_SHOWN["reverse"], answer_index=0), "original_context_is_answer"),
    (
        "reverse",
        edited(_SHOWN["reverse"], context="Which could be the possible context for this action?"),
        "ending_in_context",
    ),
    ("reverse", edited(_SHOWN["reverse"], context=_SHOWN["reverse"].context.split(" Which")[0]), "asks_for_context"),
    ("causal", edited(_SHOWN["causal"], options=(OPTIONS[0], *_SHOWN["causal"].options[1:])), "options_are_reasons"),
    ("causal", edited(_SHOWN["causal"], context=_SHOWN["causal"].context.split(" Which")[0]), "asks_for_reason"),
    ("causal", edited(_SHOWN["causal"], context="He waits. What is the reason for this?"), "context_kept"),
    ("ordering", edited(_SHOWN["ordering"], answer_index=0), "answer_restores_order"),
    ("ordering", edited(_SHOWN["ordering"], options=("1-2", "2-3-1", "3-2-1", "3-1-2")), "options_are_orders"),
    ("ordering", edited(_SHOWN["ordering"], options=("1-1-2", "2-3-1", "3-2-1", "3-1-2")), "options_are_orders"),
    ("ordering", edited(_SHOWN["ordering"], options=("1-3-2", "2-3-1", "3-2-1", "1-2-3")), "shown_order_is_not_answer"),
    (
        "ordering",
        edited(_SHOWN["ordering"], context=_SHOWN["ordering"].context.replace("3. ", "8. ")),
        "sentences_numbered",
    ),
    ("ordering", edited(_SHOWN["ordering"], context="1. A. 2. B. 3. C. Which is the correct order?"), "story_kept"),
    ("refinement", edited(_SHOWN["refinement"], answer_index=0), "answer_moved"),
    ("refinement", edited(_SHOWN["refinement"], options=("a", *OPTIONS[1:])), "option_set_kept"),
    ("refinement", edited(_SHOWN["refinement"], context="Bread is sold by weight. She"), "edit_bounded"),
    ("negation", edited(_SHOWN["negation"], answer_index=0), "original_answer_among_others"),
    ("negation", edited(_SHOWN["negation"], answer_index=0), "answer_is_another"),
    (
        "negation",
        edited(_SHOWN["negation"], context=_SHOWN["negation"].context.removesuffix(" will not")),
        "negation_present",
    ),
    ("negation", edited(_SHOWN["negation"], context="Bread will not"), "context_kept"),
    (
        "critical",
        edited(_SHOWN["critical"], options=_SHOWN["critical"].options[::-1], answer_index=4),
        "abstain_is_last",
    ),
    ("critical", edited(_SHOWN["critical"], context=ORIGINAL.context), "context_changed"),
    ("critical", edited(_SHOWN["critical"], context="Bread is sold by weight. She"), "edit_bounded"),
    ("critical", edited(_SHOWN["critical"], answer_index=0), "marked_as_control"),
    ("critical", edited(_SHOWN["critical"], options=("x", *_SHOWN["critical"].options[1:])), "option_set_kept"),
    ("critical", edited(CONTROL_DEMONSTRATION, answer_index=1), "other_options_kept"),
]


@pytest.mark.parametrize(("key", "candidate", "check"), CORRUPTIONS, ids=[f"{k}-{c}" for k, _, c in CORRUPTIONS])
def test_a_planted_corruption_is_named_by_its_check(key, candidate, check):
    assert check in failures(ORIGINAL, candidate, key)


def test_a_programs_control_passes_and_is_marked_as_not_restated():
    control = Candidate(ORIGINAL.context, (*OPTIONS, abstain_option(4)), 0, True)

    assert failures(ORIGINAL, control, "critical") == set()
    assert failures(ORIGINAL, control, "critical", advisory=True) == {"context_restated"}


def test_a_stored_variant_is_checked_like_its_candidate_and_always_alike():
    shown = VARIANT_TYPES["negation"].demonstration
    recipe = Recipe("import", "", "", "{}", 0)
    variant = Variant(
        VariantId("v_1"), ORIGINAL.question_id, "negation", shown.context, shown.options, shown.answer_index,
        False, None, recipe, None, datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip

    checks = contract_checks(ORIGINAL, variant)

    assert contract_passes(checks)
    assert checks == contract_checks(ORIGINAL, variant)
    assert {check.variant_id for check in checks} == {"v_1"}
    assert not contract_passes(contract_checks(ORIGINAL, replace(variant, answer_index=0)))


def test_a_question_without_an_answer_fails_one_check_and_not_with_an_exception():
    unanswered = replace(ORIGINAL, answer_index=None)

    for key, kind in VARIANT_TYPES.items():
        assert failures(unanswered, kind.demonstration, key) == {"original_has_answer"}


@pytest.mark.slow
@pytest.mark.parametrize("filler", ["word ", "a. ", "1. ", "Which "])
def test_a_very_long_field_costs_no_more_than_its_length(filler):
    huge = "The man waits. " + filler * (40_000 // len(filler))
    question = replace(ORIGINAL, context=huge, options=(huge + "!", *OPTIONS[1:]))

    started = time.process_time()
    for kind in VARIANT_TYPES.values():
        kind.check(question, Candidate(huge + "?", (*kind.demonstration.options[:-1], huge), 0, False))

    # A third of a second here; the ordered comparison of such texts alone takes a minute.
    assert time.process_time() - started < 20


def test_questions_with_other_option_counts_keep_theirs():
    three = replace(ORIGINAL, options=OPTIONS[:3])
    control = Candidate(three.context, (*three.options, abstain_option(3)), 0, True)

    assert failures(three, control, "critical") == set()


def test_the_valid_sample_variants_keep_their_contracts():
    questions = {}
    for line in (SAMPLES / "questions.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        options = tuple(row["options"])
        questions[row["key"]] = Question(QuestionId("q"), row["context"], options, row["answer"], "sample", row["key"])
    valid, broken = 0, []
    for file in SAMPLES.glob("variants-*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            if not (row["tc"] and row["lc"] and row["au"]):
                continue
            candidate = Candidate(row["context"], tuple(row["options"]), row["answer"], row.get("is_control", False))
            found = failures(questions[row["question"]], candidate, row["type"])
            valid += 1
            broken += [(row["type"], row["question"], found)] if found else []

    assert valid > 100
    assert len(broken) <= 0.02 * valid, broken


@pytest.mark.slow
@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
def test_nine_in_ten_published_rows_keep_the_contract_but_for_their_counted_defects(key):
    known = PUBLISHED_DEFECTS.get(key, set())

    held = sum(not failed - known for failed in published_failures(key))

    assert len(published_failures(key)) == 800
    assert held / 800 >= 0.9


@pytest.mark.parametrize(
    ("key", "check", "least", "most"),
    [
        ("ordering", "shown_order_is_not_answer", 249, 249),
        ("refinement", "answer_moved", 84, 90),
        ("reverse", "original_context_is_answer", 60, 90),
        ("reverse", "option_count", 3, 3),
        ("refinement", "no_answer_marker", 2, 2),
        ("refinement", "no_leak", 4, 4),
    ],
)
def test_the_counted_defects_of_the_published_rows_are_found(key, check, least, most):
    found = sum(check in failed for failed in published_failures(key))

    assert least <= found <= most


def _other_key(question, candidate):
    return replace(candidate, answer_index=(candidate.answer_index + 1) % 4, is_control=False)


def _doubled(question, candidate):
    twin = candidate.options[candidate.answer_index]
    place = (candidate.answer_index + 1) % len(candidate.options)
    return replace(candidate, options=tuple(twin if i == place else o for i, o in enumerate(candidate.options)))


def _untouched(question, candidate):
    return replace(candidate, context=question.context, options=question.options, answer_index=question.answer_index)


def _foreign(question, candidate):
    return replace(candidate, context="Bread is sold by weight in this shop, and milk by the bottle. She")


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
@pytest.mark.parametrize("corrupt", [_doubled, _untouched, _foreign])
def test_corrupted_published_rows_are_refused(key, corrupt):
    rows = list(published(key))[::8]

    refused = sum(bool(failures(question, corrupt(question, candidate), key)) for question, candidate in rows)

    assert refused / len(rows) >= 0.98


@pytest.mark.parametrize("key", ["restatement", "reverse", "ordering"])
def test_a_moved_key_is_refused_where_a_program_can_know_it(key):
    rows = list(published(key))[::4]

    refused = sum(bool(failures(question, _other_key(question, candidate), key)) for question, candidate in rows)

    assert refused / len(rows) >= 0.8
