"""What follows from a gate's report, on reports made by hand."""

from collections.abc import Mapping

import pytest

from data.records import VerdictTarget
from engine.verifier_metrics import Confusion
from training.gate_conclusion import conclusion
from training.gate_report import (
    Differences,
    GateOutcome,
    GateReport,
    HumanAgreement,
    JudgedTarget,
    PastErrors,
    TargetComparison,
)
from training.paired_bootstrap import Interval

GAIN, NONE, LOSS = Interval(0.06, 0.02, 0.1), Interval(0.0, -0.01, 0.01), Interval(-0.06, -0.1, -0.02)
OPEN = Interval(0.05, -0.01, 0.11)


def judged(target: VerdictTarget, accuracy: float, *, kappa: float = 0.4) -> JudgedTarget:
    return JudgedTarget(target, 120, 0.6, accuracy, 0.8, 0.5, 0.05, 0.5, 0.4, Confusion(60, 11, 40, 9), kappa)


def compared(
    accuracy: Interval | None,
    *,
    ranking: Interval | None = None,
    labels: int = 120,
    questions: int = 30,
    people: HumanAgreement | None = None,
) -> TargetComparison:
    return TargetComparison(
        labels=labels,
        questions=questions,
        yes=labels * 6 // 10,
        unjudged=0,
        champion=judged("TC", 0.7),
        challenger=judged("TC", 0.7 + (accuracy.mean if accuracy else 0)),
        difference=Differences(accuracy, ranking, None),
        is_non_inferior=accuracy is not None and accuracy.low > -0.03,
        is_better=accuracy is not None and accuracy.low > 0,
        human_agreement=people,
        is_at_human_agreement=people is not None,
    )


def report(
    outcome: GateOutcome, targets: Mapping[VerdictTarget, TargetComparison], past: PastErrors | None = None
) -> GateReport:
    first = targets["valid"]
    return GateReport(outcome, (), "valid", first.labels, first.questions, 0.03, targets, past or PastErrors(0, 0, 0))


def test_a_challenger_that_passes_is_to_be_promoted_and_says_what_it_was_measured_on() -> None:
    line = conclusion(report("passes", {"valid": compared(GAIN), "TC": compared(NONE)}))

    assert line == (
        "Promote: the challenger is better on validity and no worse on every other dimension. "
        "Measured on 120 blind labels by people, on 30 held-out questions."
    )


def test_being_no_worse_is_enough_where_people_agree_no_better_and_the_line_says_so() -> None:
    people = HumanAgreement(0.8, 0.4, 30)

    line = conclusion(report("passes", {"valid": compared(NONE, people=people)}))

    assert line.startswith(
        "Promote: the challenger is no worse, and on validity the champion already agrees with people as they do"
    )


def test_everything_against_a_challenger_is_named_once() -> None:
    line = conclusion(
        report("fails", {"valid": compared(NONE), "TC": compared(LOSS), "LC": compared(LOSS)}, PastErrors(12, 3, 7))
    )

    assert line == (
        "Keep the champion: the challenger is worse on type consistency and label correctness, is not better on "
        "validity and repeats more past errors. Measured on 120 blind labels by people, on 30 held-out questions."
    )


def test_a_dimension_is_named_with_its_gravest_fault_alone() -> None:
    line = conclusion(report("fails", {"valid": compared(LOSS, ranking=LOSS)}))

    assert line.startswith("Keep the champion: the challenger is worse on validity. Measured")


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (
            {"valid": compared(GAIN, labels=16), "LC": compared(GAIN, labels=15)},
            "needs 5 more blind labels on held-out questions; label correctness has 15 of 20.",
        ),
        (
            {"valid": compared(GAIN, labels=19)},
            "needs 1 more blind label on held-out questions; validity has 19 of 20.",
        ),
        ({"valid": compared(GAIN, questions=2)}, "needs blind labels on 3 more held-out questions."),
        (
            {"valid": compared(GAIN), "AU": compared(None)},
            "needs more blind labels that say no on answer uniqueness.",
        ),
        (
            {"valid": compared(OPEN)},
            (
                "the 120 blind labels from 30 held-out questions leave validity open. "
                "If the differences hold, about 44 questions would settle it."
            ),
        ),
        (
            {"valid": compared(OPEN), "TC": compared(Interval(-0.02, -0.1, 0.06))},
            (
                "the 120 blind labels from 30 held-out questions leave validity and type consistency open. "
                "Far more would be needed to tell the two apart."
            ),
        ),
    ],
)
def test_what_cannot_be_said_yet_names_what_is_missing(
    targets: Mapping[VerdictTarget, TargetComparison], said: str
) -> None:
    assert conclusion(report("cannot_say", targets)) == f"Cannot say yet: {said}"


def test_a_report_whose_reasons_are_not_found_again_still_says_what_follows() -> None:
    assert conclusion(report("fails", {"valid": compared(GAIN)})).startswith(
        "Keep the champion: the challenger did not pass; the details say why."
    )
