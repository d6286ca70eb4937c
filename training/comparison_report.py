"""Two generators on the same questions, as values that travel from the job to the page.

Owns the shape of `outputs/comparison.json` and of a run's count `comparison`; `training.comparison` fills it. Refuses
to say which is better: a lead does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from data.records import VariantTypeKey
from engine.report_json import Count, Figure, Share, dumped, loaded
from engine.shortcuts import ShortcutAccuracies
from training.paired_bootstrap import Interval

Slice = VariantTypeKey | Literal["all"]
"""A type's own figures, or those over all types."""


@dataclass(frozen=True, slots=True)
class GeneratorFigures:
    """One generator on one slice. Rates are shares of what was requested.

    `accepted` counts what the judge calls valid; None without a judge. Variety and shortcut players are measured on the
    variants that pass their contract; None without any. Distinct n-grams and openings are means over batches of
    VARIETY_TEXTS texts, None below that: they fall with the amount of text, and a generator with a higher pass rate
    must not look as if it had collapsed.
    """

    requested: Count
    parsed: Count
    contract_passed: Count
    accepted: Count | None
    generated_tokens: Count
    contract_pass_rate: Share
    accepted_per_1000_tokens: Figure | None
    distinct_1: Share | None
    distinct_2: Share | None
    distinct_3: Share | None
    self_similarity: Figure | None
    opening_entropy: Figure | None
    shortcuts: ShortcutAccuracies | None


@dataclass(frozen=True, slots=True)
class GeneratorDifference:
    """After minus before, with the 95 % interval of a paired bootstrap that draws whole questions."""

    contract_pass_rate: Interval | None
    accepted_per_1000_tokens: Interval | None


@dataclass(frozen=True, slots=True)
class GeneratorComparison:
    """Both generators' figures and their difference, by slice; `judge` is the judge's version, None without one."""

    before_model: str
    after_model: str
    judge: str | None
    questions: Count
    per_question: Count
    before: Mapping[Slice, GeneratorFigures]
    after: Mapping[Slice, GeneratorFigures]
    difference: Mapping[Slice, GeneratorDifference]


_COMPARISON: Final = TypeAdapter(GeneratorComparison)


def comparison_as_json(comparison: GeneratorComparison) -> dict[str, Any]:
    """For `outputs/comparison.json`."""
    return dumped(_COMPARISON, comparison)


def comparison_from(content: object, *, source: str) -> GeneratorComparison:
    """Inverse of `comparison_as_json`. Raises ReportError, which names the source."""
    return loaded(_COMPARISON, content, source=source)
