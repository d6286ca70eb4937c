"""What the gate's figures mean for the challenger, in sentences with numbers that a lead can read.

Owns when a figure speaks for the challenger, against it, or is too uncertain to do either. Refuses to take an uncertain
figure for a failure: with few labels the interval is wide whatever the verifiers are worth, and the sentence then says
how many questions would tell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from data.records import VerdictTarget
from training.gate_report import (
    MIN_GATE_LABELS,
    MIN_GATE_QUESTIONS,
    Outcome,
    PastErrors,
    TargetComparison,
)
from training.paired_bootstrap import Interval

Weight = Literal["against", "unclear", "for"]
_ORDER: Final[tuple[Weight, ...]] = ("against", "unclear", "for")
_NAMES: Final[dict[VerdictTarget, str]] = {
    "TC": "Type consistency",
    "LC": "Label correctness",
    "AU": "Answer uniqueness",
    "valid": "Validity",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence and what it weighs."""

    weight: Weight
    text: str


def findings(compared: Sequence[TargetComparison], past: PastErrors, margin: float) -> list[Finding]:
    """What decides first. `compared`: the target, then the others."""
    target, *others = compared
    found = [*_about_coverage(target, margin)]
    if (missing := _too_little(target)) is not None:
        found.append(Finding("unclear", missing))
    else:
        better, worse = _about_being_better(target, margin), _about_being_worse(target, margin)
        found.extend([better, *(one for one in worse if not (one.weight == better.weight == "for"))])
    for one in others:
        found.extend(_about_coverage(one, margin))
        if (missing := _too_little(one)) is not None:
            found.extend([] if one.lost and not one.labels else [Finding("unclear", missing)])
        else:
            found.extend(_about_being_worse(one, margin))
    found.extend(_about_past_errors(past))
    return sorted(found, key=lambda finding: _ORDER.index(finding.weight))


def outcome_of(found: Sequence[Finding], target: TargetComparison) -> Outcome:
    """Nothing can be said while the target is not measured; then one finding against decides, then one unclear."""
    weights = {finding.weight for finding in found}
    if not target.is_large_enough:
        return "cannot_say"
    if "against" in weights:
        return "fails"
    return "cannot_say" if "unclear" in weights else "passes"


def _about_coverage(one: TargetComparison, margin: float) -> list[Finding]:
    """A challenger that leaves out what is hard must not look better for it."""
    name = _NAMES[one.target]
    judged_by_champion = one.labels + one.lost
    if one.lost and not one.labels:
        return [Finding("against", f"{name}: the challenger gives no verdict on it, and the champion does.")]
    if one.lost > margin * judged_by_champion:
        return [
            Finding(
                "against",
                f"{name}: the challenger gives no verdict on {one.lost} of the {judged_by_champion} labelled items "
                f"that the champion judges.",
            )
        ]
    if one.unjudged and one.labels:
        items = "1 labelled item was" if one.unjudged == 1 else f"{one.unjudged} labelled items were"
        return [Finding("for", f"{name}: {items} not judged by both and count for neither.")]
    return []


def _too_little(one: TargetComparison) -> str | None:
    """Why nothing can be said of the target, or None."""
    name = _NAMES[one.target]
    if one.labels < MIN_GATE_LABELS:
        return (
            f"{name}: {one.labels} blind labels of gate questions, and at least {MIN_GATE_LABELS} are needed; "
            f"label more items that are queued as blind."
        )
    if one.questions < MIN_GATE_QUESTIONS:
        return (
            f"{name}: the blind labels are of {one.questions} questions, and at least {MIN_GATE_QUESTIONS} are needed; "
            f"label items of other questions too."
        )
    if one.yes in {0, one.labels}:
        word = "yes" if one.yes else "no"
        return (
            f"{name}: all {one.labels} blind labels say {word}, so nothing shows who tells yes from no better; "
            f"label more items that are queued as blind."
        )
    if one.balanced_accuracy is None:
        return (
            f"{name}: only {min(one.yes, one.labels - one.yes)} of {one.labels} blind labels say otherwise than the "
            f"rest, too few for an interval; label more items that are queued as blind."
        )
    return None


def _about_being_better(one: TargetComparison, margin: float) -> Finding:
    """Shown by balanced accuracy or by the ranking of what fails, or excused by people's own disagreement."""
    name, said, people = _NAMES[one.target], _accuracies(one), one.human_agreement
    champion = None if one.champion is None else one.champion.confusion.kappa
    gains = [gain for gain in (one.balanced_accuracy, one.fail_pr_auc) if gain is not None]
    if one.is_better:
        return Finding("for", f"{name} is better: {said}.")
    if people is not None and one.is_at_human_agreement and one.is_non_inferior:
        return Finding(
            "for",
            f"{name}: the champion already agrees with people as people do among themselves (kappa {_number(champion)} "
            f"against {_number(people.kappa)} over {people.pairs} items), so being no worse is enough.",
        )
    if all(gain.mean <= 0 for gain in gains) or all(gain.high <= margin for gain in gains):
        return Finding("against", f"{name} is not better: {said}.")
    needed = [_needed_questions(one, gain.mean, gain) for gain in gains if gain.mean > 0]
    return Finding("unclear", f"{name} is not shown to be better: {said}.{_would_tell(one, min(needed))}")


def _about_being_worse(one: TargetComparison, margin: float) -> list[Finding]:
    """On each target balanced accuracy must be shown to hold; ranking and calibration must not be shown to be lost."""
    name, said, accuracy = _NAMES[one.target], _accuracies(one), one.balanced_accuracy
    ranking, calibration = one.fail_pr_auc, one.ece
    found = []
    if one.is_non_inferior:
        found.append(Finding("for", f"{name} is no worse: {said}."))
    elif accuracy is not None and accuracy.high < 0:
        found.append(Finding("against", f"{name} is worse: {said}."))
    elif accuracy is not None:
        more = ""
        if accuracy.mean > -margin:
            more = _would_tell(one, _needed_questions(one, accuracy.mean + margin, accuracy))
        found.append(Finding("unclear", f"{name} may be worse by more than the margin of {margin:.2f}: {said}.{more}"))
    if ranking is not None and ranking.mean < -margin and ranking.high < 0:
        found.append(Finding("against", f"{name}: what fails is ranked worse: {said}."))
    if calibration is not None and calibration.mean > margin and calibration.low > 0:
        found.append(
            Finding(
                "against",
                f"{name}: the probabilities are less true: calibration error {calibration.mean:+.2f} "
                f"({_range(calibration)}).",
            )
        )
    return found


def _about_past_errors(past: PastErrors) -> list[Finding]:
    if not past.count:
        return []
    said = (
        f"Past errors: the challenger is wrong on {past.challenger_wrong} of {past.count}, "
        f"the champion on {past.champion_wrong}."
    )
    return [Finding("against" if past.challenger_wrong > past.champion_wrong else "for", said)]


def _accuracies(one: TargetComparison) -> str:
    """Both figures with their 95 % intervals."""
    if one.balanced_accuracy is None or one.champion is None or one.challenger is None:
        return "not measured"
    before, after = one.champion.quality, one.challenger.quality
    said = _figure("balanced accuracy", after.balanced_accuracy, before.balanced_accuracy, one.balanced_accuracy)
    if one.fail_pr_auc is not None:
        said += f"; {_figure('PR-AUC of what fails', after.fail_pr_auc, before.fail_pr_auc, one.fail_pr_auc)}"
    return f"{said}; {one.labels} labels of {one.questions} questions"


def _figure(name: str, after: float | None, before: float | None, difference: Interval) -> str:
    return f"{name} {_number(after)} against {_number(before)}, {difference.mean:+.2f} (95 %: {_range(difference)})"


def _needed_questions(one: TargetComparison, distance: float, interval: Interval) -> float:
    """How many would narrow the interval to `distance` (> 0) if the difference stays: its width falls with the root."""
    return one.questions * ((interval.mean - interval.low) / distance) ** 2


def _would_tell(one: TargetComparison, needed: float) -> str:
    if needed > 20 * one.questions:
        return " Many times as many labels would be needed to tell."
    digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return f" If the difference stays, labels of about {math.ceil(needed / digits) * digits} questions would tell."


def _number(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.2f}"


def _range(interval: Interval) -> str:
    return f"{interval.low:+.2f} to {interval.high:+.2f}"
