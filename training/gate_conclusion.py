"""The conclusion of a gate report in one line: promote, keep the champion, or what is missing to decide.

Owns the line and nothing of the decision: the outcome is the report's. Refuses a claim without what it was measured on.
"""

from collections.abc import Sequence

from training.gate_reasons import TARGET_NAMES, Weight, findings
from training.gate_report import MIN_GATE_LABELS, MIN_GATE_QUESTIONS, GateReport


def conclusion(report: GateReport) -> str:
    """One of "Promote: ...", "Keep the champion: ..." and "Cannot say yet: ..."."""
    measured = f"Measured on {report.labels:,} blind labels by people, on {report.questions:,} held-out questions."
    match report.outcome:
        case "passes":
            better = _listed(_briefs(report, "for")) or f"is better on {TARGET_NAMES[report.target].lower()}"
            rest = " and no worse anywhere else" if len(report.targets) > 1 else ""
            return f"Promote: the challenger {better}{rest}. {measured}"
        case "fails":
            against = _listed(_briefs(report, "against")) or "did not pass; the details say why"
            return f"Keep the champion: the challenger {against}. {measured}"
        case "cannot_say":
            return f"Cannot say yet: {_missing(report)}"


def _missing(report: GateReport) -> str:
    """What the gate needs to decide: labels first, because nothing is known without them."""
    fewest = min(report.targets.items(), key=lambda item: item[1].labels)
    if (lacking := MIN_GATE_LABELS - fewest[1].labels) > 0:
        return (
            f"needs {lacking:,} more blind {'label' if lacking == 1 else 'labels'} on held-out questions; "
            f"{TARGET_NAMES[fewest[0]].lower()} has {fewest[1].labels:,} of {MIN_GATE_LABELS}."
        )
    questions = min(one.questions for one in report.targets.values())
    if (lacking := MIN_GATE_QUESTIONS - questions) > 0:
        return f"needs blind labels on {lacking} more held-out {'question' if lacking == 1 else 'questions'}."
    for target, one in report.targets.items():
        if one.difference.balanced_accuracy is None:
            word = "yes" if one.yes * 2 < one.labels else "no"
            return f"needs more blind labels that say {word} on {TARGET_NAMES[target].lower()}."
    unclear = _briefs(report, "unclear")
    return unclear[0] if unclear else "the differences are too uncertain; the details say where."


def _briefs(report: GateReport, weight: Weight) -> list[str]:
    found = findings(report.target, report.targets, report.past_errors, report.margin)
    return [one.brief for one in found if one.weight == weight and one.brief]


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
