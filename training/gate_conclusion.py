"""The conclusion of a gate report in one line: promote, keep the champion, or what is missing to decide.

Owns the line and nothing of the decision: the outcome is the report's. Refuses a claim without what it was measured on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from data.records import VerdictTarget
from training.gate_reasons import TARGET_NAMES, Finding, Issue, findings
from training.gate_report import MIN_GATE_LABELS, MIN_GATE_QUESTIONS, GateReport

# What speaks against a challenger, the gravest first: a dimension is named with the first that it has.
_FAULTS: Final[Mapping[Issue, str]] = {
    "silent": "gives no verdict on {}",
    "worse": "is worse on {}",
    "not better": "is not better on {}",
    "ranked worse": "ranks failing variants worse on {}",
    "less calibrated": "is less well calibrated on {}",
}


def conclusion(report: GateReport) -> str:
    """One of "Promote: ...", "Keep the champion: ..." and "Cannot say yet: ..."."""
    found = findings(report.target, report.targets, report.past_errors, report.margin)
    measured = f"Measured on {report.labels:,} blind labels by people, on {report.questions:,} held-out questions."
    match report.outcome:
        case "passes":
            return f"Promote: {_merit(report, found)}. {measured}"
        case "fails":
            return f"Keep the champion: the challenger {_faults(found)}. {measured}"
        case "cannot_say":
            return f"Cannot say yet: {_missing(report, found)}"


def _merit(report: GateReport, found: Sequence[Finding]) -> str:
    name = TARGET_NAMES[report.target].lower()
    rest = " and no worse on every other dimension" if len(report.targets) > 1 else ""
    if any(one.issue == "good enough" for one in found):
        champion = "the champion already agrees with people as they do with each other"
        return f"the challenger is no worse, and on {name} {champion}"
    return f"the challenger is better on {name}{rest}"


def _faults(found: Sequence[Finding]) -> str:
    against = [one for one in found if one.weight == "against"]
    named: set[VerdictTarget] = set()
    parts = []
    for issue, words in _FAULTS.items():
        targets = [one.target for one in against if one.issue == issue and one.target not in (None, *named)]
        if targets:
            parts.append(words.format(_names(target for target in targets if target is not None)))
            named.update(target for target in targets if target is not None)
    if any(one.issue == "past errors" for one in against):
        parts.append("repeats more past errors")
    return _listed(parts) or "did not pass; the details say why"


def _missing(report: GateReport, found: Sequence[Finding]) -> str:
    """What the gate needs to decide: labels first, because nothing is known without them."""
    fewest, of_fewest = min(report.targets.items(), key=lambda item: item[1].labels)
    if (lacking := MIN_GATE_LABELS - of_fewest.labels) > 0:
        return (
            f"needs {lacking:,} more blind {'label' if lacking == 1 else 'labels'} on held-out questions; "
            f"{TARGET_NAMES[fewest].lower()} has {of_fewest.labels:,} of {MIN_GATE_LABELS}."
        )
    questions = min(one.questions for one in report.targets.values())
    if (lacking := MIN_GATE_QUESTIONS - questions) > 0:
        return f"needs blind labels on {lacking} more held-out {'question' if lacking == 1 else 'questions'}."
    for target, one in report.targets.items():
        if one.difference.balanced_accuracy is None:
            word = "yes" if one.yes * 2 < one.labels else "no"
            return f"needs more blind labels that say {word} on {TARGET_NAMES[target].lower()}."
    return _too_uncertain(report, [one for one in found if one.issue == "open" and one.weight == "unclear"])


def _too_uncertain(report: GateReport, unclear: Sequence[Finding]) -> str:
    if not unclear:
        return "the differences are too uncertain; the details say where."
    where = _names(dict.fromkeys(one.target for one in unclear if one.target is not None))
    said = f"the {report.labels:,} blind labels from {report.questions:,} held-out questions leave {where} open."
    needed = [one.questions for one in unclear]
    if None in needed:
        return f"{said} Far more would be needed to tell the two apart."
    return f"{said} If the differences hold, about {max(filter(None, needed)):,} questions would settle it."


def _names(targets: Iterable[VerdictTarget]) -> str:
    return _listed([TARGET_NAMES[target].lower() for target in targets])


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
