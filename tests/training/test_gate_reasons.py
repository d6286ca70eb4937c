"""What a gate's figures are made to say, on figures made by hand."""

from training.gate_reasons import findings
from training.gate_report import Differences, PastErrors, TargetComparison
from training.paired_bootstrap import Interval

CERTAIN = Interval(0.0, -0.001, 0.001)


def compared(accuracy: Interval, ranking: Interval) -> TargetComparison:
    """Validity over 100 labels of 50 questions, with these differences."""
    return TargetComparison(
        labels=100, questions=50, yes=50, unjudged=0, champion=None, challenger=None,
        difference=Differences(accuracy, ranking, CERTAIN), is_non_inferior=accuracy.low > -0.03,
        is_better=accuracy.low > 0 or ranking.low > 0, human_agreement=None, is_at_human_agreement=False,
    )  # fmt: skip


def said_of(one: TargetComparison) -> str:
    found = findings("valid", {"valid": one}, PastErrors(0, 0, 0), 0.03)
    [text] = [it.text for it in found if "not shown to be better" in it.text]
    return text


def test_the_gain_that_needs_fewer_questions_says_how_many_would_tell() -> None:
    hardly, soon = Interval(0.002, -0.028, 0.032), Interval(0.05, -0.01, 0.11)

    assert "blind labels from about 72 questions would settle it" in said_of(compared(hardly, soon))
    assert "blind labels from about 72 questions would settle it" in said_of(compared(soon, hardly))


def test_a_measure_without_gain_does_not_hide_how_many_questions_the_other_needs() -> None:
    lost, soon = Interval(-0.001, -0.02, 0.04), Interval(0.05, -0.01, 0.11)

    assert "blind labels from about 72 questions would settle it" in said_of(compared(lost, soon))
