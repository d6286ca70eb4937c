"""What the gate's figures mean for the challenger, in sentences with figures, for leads.

Owns when a figure speaks for the challenger, against it, or is too uncertain to do either. Refuses to take an uncertain
figure for a failure: with few labels the interval is wide whatever the verifiers are worth, and the sentence then says
how many questions would settle it. `training.gate_conclusion` has what follows, in one line.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from data.dimensions import DIMENSIONS
from data.records import VerdictTarget
from training.gate_report import (
    MIN_GATE_LABELS,
    MIN_GATE_QUESTIONS,
    GateOutcome,
    PastErrors,
    TargetComparison,
)
from training.paired_bootstrap import Interval

Weight = Literal["against", "unclear", "for"]
Issue = Literal[
    "better", "good enough", "silent", "worse", "ranked worse", "less calibrated", "not better", "past errors", "open"
]
TARGET_NAMES: Final[Mapping[VerdictTarget, str]] = {
    **{dimension.key: dimension.name for dimension in DIMENSIONS},
    "valid": "Validity",
}
_ORDER: Final[tuple[Weight, ...]] = ("against", "unclear", "for")
_MORE: Final = "review more blind items"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, its weight, and the issue it raises with which target; None if it raises none.

    `questions`: how many would settle an open issue; None if that is unknown or over 20 times the present number.
    """

    weight: Weight
    text: str
    issue: Issue | None = None
    target: VerdictTarget | None = None
    questions: int | None = None


def findings(
    target: VerdictTarget, compared: Mapping[VerdictTarget, TargetComparison], past: PastErrors, margin: float
) -> list[Finding]:
    """The findings, decisive ones first. On `target` the challenger has to be better."""
    of_target = compared[target]
    found = _about_coverage(target, of_target, margin)
    if (missing := _too_little(target, of_target)) is not None:
        found.append(Finding("unclear", missing))
    else:
        better, worse = _about_being_better(target, of_target, margin), _about_being_worse(target, of_target, margin)
        # "no worse" beside "better", and "not better" beside "worse", would say the same figures twice
        said_twice = {("for", "for"): worse[:1], ("against", "against"): [better]}.get(
            (better.weight, worse[0].weight), []
        )
        found.extend(one for one in (better, *worse) if one not in said_twice)
    for name, one in compared.items():
        if name == target:
            continue
        found.extend(_about_coverage(name, one, margin))
        if (missing := _too_little(name, one)) is not None:
            found.extend([] if one.lost and not one.labels else [Finding("unclear", missing)])
        else:
            found.extend(_about_being_worse(name, one, margin))
    found.extend(_about_past_errors(past))
    return sorted(found, key=lambda finding: _ORDER.index(finding.weight))


def outcome_of(found: Sequence[Finding], target: TargetComparison) -> GateOutcome:
    """Undecided if the target is not measured; otherwise any finding against decides, then any unclear one."""
    weights = {finding.weight for finding in found}
    if not target.is_large_enough:
        return "cannot_say"
    if "against" in weights:
        return "fails"
    return "cannot_say" if "unclear" in weights else "passes"


def _about_coverage(target: VerdictTarget, one: TargetComparison, margin: float) -> list[Finding]:
    """A challenger that skips hard items must not look better for it."""
    name = TARGET_NAMES[target]
    judged_by_champion = one.labels + one.lost
    if one.lost and not one.labels:
        text = f"{name}: the challenger gives no verdict on it; the champion does."
        return [Finding("against", text, "silent", target)]
    if one.lost > margin * judged_by_champion:
        text = (
            f"{name}: the challenger gives no verdict on {one.lost} of the {judged_by_champion} labelled items "
            f"that the champion judges."
        )
        return [Finding("against", text, "silent", target)]
    if one.unjudged and one.labels:
        items = "1 labelled item lacks" if one.unjudged == 1 else f"{one.unjudged} labelled items lack"
        return [Finding("for", f"{name}: {items} a verdict from one of the two and count for neither.")]
    return []


def _too_little(target: VerdictTarget, one: TargetComparison) -> str | None:
    """Why the target cannot be measured, or None."""
    name = TARGET_NAMES[target]
    if one.labels < MIN_GATE_LABELS:
        return f"{name}: {one.labels} blind labels, and at least {MIN_GATE_LABELS} are needed; {_MORE}."
    if one.questions < MIN_GATE_QUESTIONS:
        return (
            f"{name}: the blind labels cover {one.questions} questions, and at least {MIN_GATE_QUESTIONS} are needed; "
            f"review blind items from other questions."
        )
    if one.yes in {0, one.labels}:
        word = "yes" if one.yes else "no"
        return (
            f"{name}: all {one.labels} blind labels say {word}, which cannot show which verifier tells yes from no "
            f"better; {_MORE}."
        )
    if one.difference.balanced_accuracy is None:
        rarer = "yes" if one.yes * 2 < one.labels else "no"
        return (
            f"{name}: only {min(one.yes, one.labels - one.yes)} of {one.labels} blind labels say {rarer}, too few for "
            f"an interval; {_MORE}."
        )
    return None


def _about_being_better(target: VerdictTarget, one: TargetComparison, margin: float) -> Finding:
    """Shown by balanced accuracy or by the ranking of failing items, or excused by human disagreement."""
    name, said, people = TARGET_NAMES[target], _accuracies(one), one.human_agreement
    champion = None if one.champion is None else one.champion.kappa
    gains = [gain for gain in (one.difference.balanced_accuracy, one.difference.fail_pr_auc) if gain is not None]
    if one.is_better:
        return Finding("for", f"{name} is better: {said}.", "better", target)
    if people is not None and one.is_at_human_agreement and one.is_non_inferior:
        return Finding(
            "for",
            f"{name}: the champion already agrees with people as well as people agree with each other (kappa "
            f"{_number(champion)} against {_number(people.kappa)} on {people.pairs} items answered twice), so being no "
            f"worse is enough.",
            "good enough",
            target,
        )
    if all(gain.mean <= 0 for gain in gains) or all(gain.high <= margin for gain in gains):
        return Finding("against", f"{name} is not better: {said}.", "not better", target)
    needed = _rounded(one, min(_needed_questions(one, gain.mean, gain) for gain in gains if gain.mean > 0))
    text = f"{name} is not shown to be better: {said}. {_would_settle(needed)}"
    return Finding("unclear", text, "open", target, needed)


def _about_being_worse(target: VerdictTarget, one: TargetComparison, margin: float) -> list[Finding]:
    """On each target, balanced accuracy must be shown to be no worse; ranking and calibration not shown to be worse."""
    name, said, accuracy = TARGET_NAMES[target], _accuracies(one), one.difference.balanced_accuracy
    ranking, calibration = one.difference.fail_pr_auc, one.difference.ece
    found = []
    if one.is_non_inferior:
        found.append(Finding("for", f"{name} is no worse: {said}."))
    elif accuracy is not None and accuracy.high < 0:
        found.append(Finding("against", f"{name} is worse: {said}.", "worse", target))
    elif accuracy is not None:
        needed, settle = None, ""
        if accuracy.mean > -margin:
            needed = _rounded(one, _needed_questions(one, accuracy.mean + margin, accuracy))
            settle = " " + _would_settle(needed)
        text = f"{name} may be worse by more than the margin of {margin:.2f}: {said}.{settle}"
        found.append(Finding("unclear", text, "open", target, needed))
    if ranking is not None and ranking.mean < -margin and ranking.high < 0:
        text = (
            f"{name}: failing variants are ranked worse: PR-AUC (failing variants) {ranking.mean:+.2f} "
            f"(95 % interval {_range(ranking)})."
        )
        found.append(Finding("against", text, "ranked worse", target))
    if calibration is not None and calibration.mean > margin and calibration.low > 0:
        text = (
            f"{name}: the probabilities are less well calibrated: ECE {calibration.mean:+.2f} "
            f"(95 % interval {_range(calibration)})."
        )
        found.append(Finding("against", text, "less calibrated", target))
    return found


def _about_past_errors(past: PastErrors) -> list[Finding]:
    if not past.count:
        return []
    said = (
        f"Past errors: the challenger is wrong on {past.challenger_wrong} of {past.count}, "
        f"the champion on {past.champion_wrong}."
    )
    if past.challenger_wrong > past.champion_wrong:
        return [Finding("against", said, "past errors")]
    return [Finding("for", said)]


def _accuracies(one: TargetComparison) -> str:
    """Both figures with their 95 % intervals, and what they were measured on."""
    accuracy, ranking = one.difference.balanced_accuracy, one.difference.fail_pr_auc
    if accuracy is None or one.champion is None or one.challenger is None:
        return "not measured"
    before, after = one.champion, one.challenger
    said = _figure("balanced accuracy", after.balanced_accuracy, before.balanced_accuracy, accuracy)
    if ranking is not None:
        said += f"; {_figure('PR-AUC (failing variants)', after.fail_pr_auc, before.fail_pr_auc, ranking)}"
    return f"{said}; {one.labels} blind labels from {one.questions} questions"


def _figure(name: str, after: float | None, before: float | None, difference: Interval) -> str:
    return (
        f"{name} {_number(after)} against {_number(before)}, difference {difference.mean:+.2f} "
        f"(95 % interval {_range(difference)})"
    )


def _needed_questions(one: TargetComparison, distance: float, interval: Interval) -> float:
    """Questions that narrow the interval to `distance` (> 0) if the difference holds; its width falls with the root."""
    return one.questions * ((interval.mean - interval.low) / distance) ** 2


def _rounded(one: TargetComparison, needed: float) -> int | None:
    """Two digits, upwards; None beyond what anybody will label."""
    if needed > 20 * one.questions:
        return None
    digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return int(math.ceil(needed / digits) * digits)


def _would_settle(questions: int | None) -> str:
    if questions is None:
        return "More than 20 times as many labels would be needed to settle it."
    return f"If the difference holds, blind labels from about {questions:,} questions would settle it."


def _number(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.2f}"


def _range(interval: Interval) -> str:
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
