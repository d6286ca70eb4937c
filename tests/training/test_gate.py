"""The promotion gate on synthetic verdicts, where it is known which verifier is the better one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, get_args

import numpy as np
import pytest

from data.ids import cluster_id, normal_form, question_id, variant_id
from data.records import Answers, Question, Recipe, Variant, VariantId, Verdict, VerdictMethod, VerdictTarget
from engine.verify import Pair
from training.gate import GateRow, Judgements, gate, likelier_label
from training.gate_report import (
    FLIP_SCHEMA,
    Flip,
    GateReport,
    HumanAgreement,
    flips_table,
    gate_report_as_json,
    gate_report_from,
)
from training.splits import assign

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TARGETS: Final[tuple[VerdictTarget, ...]] = get_args(VerdictTarget)
QUALITY: Mapping[VerdictTarget, float] = {"TC": 1.0, "LC": 1.0, "AU": 1.0}


def gate_rows(questions: int = 50, variants: int = 3, *, seed: int = 5) -> list[GateRow]:
    """Seven in ten hold on each dimension, variants of a question often alike."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(questions):
        ease = rng.normal(size=3) * 0.5
        for place in range(variants):
            holds = [bool(it) for it in ease + rng.normal(size=3) < 0.6]
            rows.append(GateRow(VariantId(f"v{number:03d}-{place}"), Answers(*holds), f"c{number:03d}"))
    return rows


def said_of(rows: Sequence[GateRow], quality: Mapping[VerdictTarget, float] = QUALITY, *, seed: int = 1) -> Judgements:
    """Probabilities that are nearer to the truth the higher the quality; 0 knows nothing."""
    rng = np.random.default_rng(seed)
    said: dict[VariantId, dict[VerdictTarget, float | None]] = {}
    for row in rows:
        of_row: dict[VerdictTarget, float | None] = {}
        product = 1.0
        for dimension in ("TC", "LC", "AU"):
            score = quality[dimension] * (1.0 if row.answers.of(dimension) else -1.0) + rng.normal()
            of_row[dimension] = probability = float(1 / (1 + np.exp(-1.5 * score)))
            product *= probability
        said[row.variant_id] = {**of_row, "valid": product}
    return said


def without(said: Judgements, targets: Sequence[VerdictTarget], ids: Sequence[VariantId]) -> Judgements:
    return {
        one: {t: None if one in ids and t in targets else p for t, p in of_row.items()} for one, of_row in said.items()
    }


def judged(rows: Sequence[GateRow], champion: Judgements, challenger: Judgements, **changes: object) -> GateReport:
    settings: dict[str, Any] = {"target": "valid", "margin": 0.03, "seed": 1, **changes}
    return gate(rows, champion, challenger, **settings).report


def flips_of(rows: Sequence[GateRow], champion: Judgements, challenger: Judgements) -> tuple[Flip, ...]:
    return gate(rows, champion, challenger, target="valid", margin=0.03, seed=1).flips


ROWS = gate_rows()
CHAMPION = said_of(ROWS)
BETTER = said_of(ROWS, {"TC": 2.0, "LC": 2.0, "AU": 2.0}, seed=2)


@pytest.fixture(scope="module")
def passing() -> GateReport:
    return judged(ROWS, CHAMPION, BETTER)


def test_a_better_challenger_passes_and_the_reasons_say_by_how_much(passing: GateReport) -> None:
    report = passing

    assert report.outcome == "passes", report.reasons
    assert report.reasons[0].startswith("Validity is better: balanced accuracy 0.9")
    assert (report.labels, report.questions) == (150, 50)
    assert list(report.targets) == ["valid", "TC", "LC", "AU"]
    assert all(one.is_non_inferior for one in report.targets.values())


def test_the_champion_itself_does_not_pass() -> None:
    report = judged(ROWS, CHAMPION, CHAMPION)

    assert report.outcome == "fails"
    assert report.reasons[0].startswith("Validity is not better")
    assert flips_of(ROWS, CHAMPION, CHAMPION) == ()


@pytest.mark.parametrize("seed", range(2, 6))
def test_one_that_is_as_good_with_other_errors_does_not_pass(seed: int) -> None:
    assert judged(ROWS, CHAMPION, said_of(ROWS, seed=seed)).outcome != "passes"


def test_one_that_is_worse_on_a_single_dimension_fails_and_that_is_the_only_reason_against_it() -> None:
    worse_on_lc = said_of(ROWS, {"TC": 3.0, "LC": 0.2, "AU": 3.0}, seed=2)

    report = judged(ROWS, CHAMPION, worse_on_lc, target="TC")

    assert report.outcome == "fails"
    against = [reason for reason in report.reasons if "worse" in reason and "no worse" not in reason]
    assert against
    assert all(reason.startswith(("Label correctness", "Validity")) for reason in against)
    assert against[0].startswith("Label correctness is worse: balanced accuracy 0.")
    assert next(target for target, one in report.targets.items() if not one.is_non_inferior) == "LC"


def test_one_that_ranks_what_fails_as_before_and_tells_false_probabilities_fails() -> None:
    timid: dict[VariantId, dict[VerdictTarget, float | None]] = {}
    for one, said in CHAMPION.items():
        timid[one] = {t: 0.5 + 0.05 * ((said[t] or 0) - 0.5) for t in QUALITY}
        timid[one]["valid"] = float(np.prod([timid[one][t] or 0 for t in QUALITY]))

    report = judged(ROWS, CHAMPION, timid)

    assert report.outcome == "fails"
    assert any("probabilities are less well calibrated" in reason for reason in report.reasons)


def test_too_few_questions_to_tell_is_not_called_a_failure() -> None:
    few = gate_rows(12)
    report = judged(few, said_of(few), said_of(few, {"TC": 1.4, "LC": 1.4, "AU": 1.4}, seed=3))

    assert report.outcome == "cannot_say"
    assert any("may be worse by more than the margin" in reason for reason in report.reasons)
    assert any("questions would settle it" in reason or "20 times as many" in reason for reason in report.reasons)


def test_the_same_rows_in_another_order_give_the_same_report(passing: GateReport) -> None:
    order = np.random.default_rng(3).permutation(len(ROWS))

    assert judged([ROWS[i] for i in order], CHAMPION, BETTER) == passing


def test_another_seed_draws_anew(passing: GateReport) -> None:
    again = judged(ROWS, CHAMPION, BETTER, seed=2)

    one, other = (report.targets["valid"].difference.balanced_accuracy for report in (passing, again))

    assert one is not None
    assert other is not None
    assert one != other
    assert one.mean == other.mean


def test_rows_repeated_within_their_questions_prove_nothing_more() -> None:
    again = [replace(row, variant_id=VariantId(row.variant_id + "-again")) for row in ROWS]
    challenger = said_of(ROWS, {"TC": 1.3, "LC": 1.3, "AU": 1.3}, seed=2)
    doubled = [
        {**said, **{VariantId(one + "-again"): it for one, it in said.items()}} for said in (CHAMPION, challenger)
    ]

    once, twice = judged(ROWS, CHAMPION, challenger), judged([*ROWS, *again], *doubled)

    for target in TARGETS:
        before, after = (it.targets[target].difference.balanced_accuracy for it in (once, twice))
        assert before is not None
        assert after is not None
        assert after.low == pytest.approx(before.low)
        assert after.high == pytest.approx(before.high)


def test_flips_are_exactly_the_answers_that_differ() -> None:
    changed = {one: dict(said) for one, said in CHAMPION.items()}
    first, second = ROWS[0].variant_id, ROWS[7].variant_id
    turned = 1 - (CHAMPION[first]["LC"] or 0)
    changed[first]["LC"] = turned
    changed[second]["valid"] = 0.0  # validity's label is the three answers together, so this turns none

    flips = flips_of(ROWS, CHAMPION, changed)

    expected = {(first, "LC")} | (
        {(first, "valid")}
        if likelier_label(changed[first], "valid") != likelier_label(CHAMPION[first], "valid")
        else set()
    )
    assert {(flip.variant_id, flip.target) for flip in flips} == expected
    flip = next(flip for flip in flips if flip.target == "LC")
    assert (flip.truth, flip.challenger) == (ROWS[0].answers.lc, turned >= 0.5)
    assert flip.champion is not flip.challenger


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (gate_rows(19, 1), "19 blind labels, and at least 20 are needed"),
        (gate_rows(4, 10), "cover 4 questions, and at least 5 are needed"),
        ([replace(row, answers=Answers(tc=True, lc=True, au=True)) for row in ROWS], "all 150 blind labels say yes"),
        ([replace(row, answers=Answers(tc=False, lc=False, au=False)) for row in ROWS], "all 150 blind labels say no"),
        ([], "0 blind labels"),
    ],
)
def test_labels_that_prove_nothing_end_in_cannot_say(rows: list[GateRow], said: str) -> None:
    report = judged(rows, said_of(rows), said_of(rows, {"TC": 3.0, "LC": 3.0, "AU": 3.0}, seed=2))

    assert report.outcome == "cannot_say"
    assert said in report.reasons[0]


def test_a_dimension_with_one_answer_only_keeps_the_gate_from_passing() -> None:
    rows = [replace(row, answers=replace(row.answers, au=True)) for row in ROWS]

    report = judged(rows, said_of(rows), said_of(rows, {"TC": 2.0, "LC": 2.0, "AU": 2.0}, seed=2))

    assert report.outcome == "cannot_say"
    assert report.reasons[0].startswith("Answer uniqueness: all 150 blind labels say yes")


def test_a_few_items_without_a_verdict_count_for_neither_and_are_told() -> None:
    ids = [row.variant_id for row in ROWS[:4]]

    report = judged(ROWS, CHAMPION, without(BETTER, TARGETS, ids))

    assert report.outcome == "passes"
    assert (report.labels, report.targets["valid"].unjudged) == (146, 4)
    assert any(
        "4 labelled items lack a verdict from one of the two and count for neither" in it for it in report.reasons
    )
    flips = flips_of(ROWS, CHAMPION, without(BETTER, TARGETS, ids))
    assert not {flip.variant_id for flip in flips} & set(ids)


def test_one_that_keeps_silent_where_it_is_hard_fails() -> None:
    challenger = said_of(ROWS, seed=2)
    hard = [row.variant_id for row in ROWS if likelier_label(challenger[row.variant_id], "LC") != row.answers.lc]

    report = judged(ROWS, CHAMPION, without(challenger, ["LC", "valid"], hard))

    assert report.outcome == "fails"
    assert f"no verdict on {len(hard)} of the 150" in " ".join(report.reasons)


def test_one_that_answers_validity_alone_cannot_replace_one_that_answers_all_three() -> None:
    alone: Judgements = {one: {"valid": said["valid"]} for one, said in BETTER.items()}

    report = judged(ROWS, CHAMPION, alone)

    assert report.outcome == "fails"
    assert "Type consistency: the challenger gives no verdict on it; the champion does." in report.reasons


def test_two_that_answer_validity_alone_are_compared_on_it_alone() -> None:
    before: Judgements = {one: {"valid": said["TC"]} for one, said in CHAMPION.items()}
    after: Judgements = {one: {"valid": said["valid"]} for one, said in BETTER.items()}

    report = judged(ROWS, before, after)

    assert list(report.targets) == ["valid"]
    assert report.targets["valid"].labels == 150


def test_more_past_errors_than_the_champion_fail_whatever_else_is_better() -> None:
    wrong = [row.variant_id for row in ROWS if likelier_label(BETTER[row.variant_id], "TC") != row.answers.tc]
    right = {row.variant_id: row.answers for row in ROWS}
    # a champion that happens to be right on all of them
    champion = {
        one: {t: float(right[one].of(t) or 0) for t in ("TC", "LC", "AU")} | {"valid": float(right[one].is_valid or 0)}
        if one in wrong
        else said
        for one, said in CHAMPION.items()
    }

    report = judged(ROWS, champion, BETTER, past_errors=wrong)

    assert (report.past_errors.count, report.past_errors.champion_wrong) == (len(wrong), 0)
    assert report.past_errors.challenger_wrong == len(wrong)
    assert report.outcome == "fails"
    assert any(reason.startswith("Past errors: the challenger is wrong on") for reason in report.reasons)


def test_where_the_champion_agrees_as_people_do_being_no_worse_is_enough() -> None:
    people = {"valid": HumanAgreement(share=0.7, kappa=0.3, pairs=40)}

    report = judged(ROWS, CHAMPION, CHAMPION, human_agreement=people)

    assert report.outcome == "passes"
    assert report.targets["valid"].is_at_human_agreement
    assert "as well as people agree with each other" in report.reasons[0]
    assert "against 0.30 on 40 items" in report.reasons[0]


@pytest.mark.parametrize(
    "people",
    [
        HumanAgreement(share=0.99, kappa=0.99, pairs=40),
        HumanAgreement(share=0.1, kappa=0.1, pairs=19),
        HumanAgreement(share=0.1, kappa=None, pairs=40),
    ],
)
def test_people_who_agree_better_or_are_hardly_known_excuse_nothing(people: HumanAgreement) -> None:
    report = judged(ROWS, CHAMPION, CHAMPION, human_agreement={"valid": people})

    assert report.outcome == "fails"
    assert not report.targets["valid"].is_at_human_agreement


def test_human_agreement_excuses_no_loss() -> None:
    people = {target: HumanAgreement(0.5, 0.0, 40) for target in TARGETS}
    worse = said_of(ROWS, {"TC": 1.0, "LC": 0.1, "AU": 1.0}, seed=1)

    report = judged(ROWS, CHAMPION, worse, human_agreement=people)

    assert report.outcome == "fails"


def test_the_report_as_json_holds_figures_confusions_and_differences() -> None:
    people = {"TC": HumanAgreement(0.9, 0.8, 30)}

    report = judged(ROWS, CHAMPION, BETTER, human_agreement=people)

    content = gate_report_as_json(report)

    assert content["outcome"] == "passes"
    targets = content["targets"]
    assert isinstance(targets, dict)
    tc = targets["TC"]
    assert set(tc["difference"]) == {"balanced_accuracy", "fail_pr_auc", "ece"}
    assert set(tc["difference"]["ece"]) == {"mean", "low", "high"}
    assert sum(tc["champion"]["confusion"].values()) == tc["labels"] == 150
    assert tc["human_agreement"] == {"share": 0.9, "kappa": 0.8, "pairs": 30}
    assert targets["LC"]["human_agreement"] is None
    assert tc["challenger"]["balanced_accuracy"] > tc["champion"]["balanced_accuracy"]
    assert gate_report_as_json(gate_report_from(content, source="it")) == content


def test_flips_travel_as_a_table() -> None:
    flips = flips_of(ROWS, CHAMPION, BETTER)

    table = flips_table(flips)

    assert table.schema == FLIP_SCHEMA
    assert table.num_rows == len(flips) > 0


class Memoriser:
    """Knows the share of valid variants of each original that it has seen, by its text; reads nothing of a variant."""

    version = "memoriser:1"
    method: VerdictMethod = "feature"

    def __init__(self, pairs: Sequence[Pair], answers: Sequence[Answers]) -> None:
        seen: dict[str, list[bool]] = {}
        for (question, _), answer in zip(pairs, answers, strict=True):
            seen.setdefault(normal_form(question.context), []).append(bool(answer.is_valid))
        self._known = {text: float(np.mean(valid)) for text, valid in seen.items()}
        self._prior = float(np.mean([valid for values in seen.values() for valid in values]))

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        return [
            Verdict(variant.variant_id, "valid", p, p >= 0.5, self.version, self.method, None, now)
            for question, variant in pairs
            for p in [self._known.get(normal_form(question.context), self._prior)]
        ]

    def said(self, pairs: Sequence[Pair]) -> Judgements:
        return {verdict.variant_id: {"valid": verdict.probability} for verdict in self.judge(pairs, now=NOW)}


def item(number: int, place: int, *, is_twin: bool) -> Pair:
    """A variant of a question, or of its twin, which stands in another benchmark in capitals."""
    context = f"Somebody counts to {number}. The person"
    question = Question(
        question_id(context.upper() if is_twin else context, ("stops", "goes on"), 0),
        context.upper() if is_twin else context,
        ("stops", "goes on"),
        0,
        "twins" if is_twin else "counting",
        f"{number}",
    )
    text = f"{context} ({place})"
    named = variant_id(question.question_id, "restatement", text, question.options, 0)
    recipe = Recipe("rules", "rules-1", "p", "{}", 1)
    variant = Variant(
        named, question.question_id, "restatement", text, question.options, 0, False, None, recipe, None, NOW
    )
    return question, variant


def test_a_verifier_that_memorises_originals_scores_chance_on_the_gate() -> None:
    rng = np.random.default_rng(2)
    pairs, answers = [], []
    for number in range(120):
        share = rng.choice([0.05, 0.95])  # the original says nearly all of whether its variants are valid
        for place in range(6):
            pairs.append(item(number, place, is_twin=place >= 3))
            answers.append(Answers(*[bool(rng.random() < share)] * 3))
    groups = [cluster_id(question.context, question.options) for question, _ in pairs]
    parts = assign(dict.fromkeys(groups, "counting"), {}, learnt=(), seed=1)
    learnt = [i for i, group in enumerate(groups) if parts[group] == "train"]
    held = [i for i, group in enumerate(groups) if parts[group] == "gate"]
    by_row = rng.permutation(len(pairs)).tolist()

    def balanced_accuracy(learnt_rows: Sequence[int], judged_rows: Sequence[int]) -> float:
        memoriser = Memoriser([pairs[i] for i in learnt_rows], [answers[i] for i in learnt_rows])
        rows = [GateRow(pairs[i][1].variant_id, answers[i], groups[i]) for i in judged_rows]
        said = memoriser.said([pairs[i] for i in judged_rows])
        measured = judged(rows, said, said).targets["valid"].champion
        assert measured is not None
        return measured.balanced_accuracy or 0.0

    assert balanced_accuracy(by_row[:360], by_row[360:]) > 0.85
    assert len(held) > 100
    assert balanced_accuracy(learnt, held) == 0.5
