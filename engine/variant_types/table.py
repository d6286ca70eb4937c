"""The table of the seven types, and the contract of a stored variant."""

from collections.abc import Iterable, Mapping
from typing import Final

from data.records import ContractCheck, Question, Variant, VariantTypeKey
from engine.candidate import Candidate
from engine.variant_types.causal import CAUSAL
from engine.variant_types.critical import CRITICAL
from engine.variant_types.negation import NEGATION
from engine.variant_types.ordering import ORDERING
from engine.variant_types.refinement import REFINEMENT
from engine.variant_types.restatement import RESTATEMENT
from engine.variant_types.reverse import REVERSE
from engine.variant_types.variant_type import VariantType

VARIANT_TYPES: Final[Mapping[VariantTypeKey, VariantType]] = {
    kind.key: kind for kind in (RESTATEMENT, REVERSE, CAUSAL, ORDERING, REFINEMENT, NEGATION, CRITICAL)
}


def contract_checks(question: Question, variant: Variant) -> tuple[ContractCheck, ...]:
    """Checks `variant` against the contract of its type and `question`, the original; also for imported variants.

    Deterministic: the same two records give the same checks.
    """
    candidate = Candidate(variant.context, variant.options, variant.answer_index, variant.is_control)
    return tuple(
        ContractCheck(variant.variant_id, outcome.check, outcome.holds, outcome.is_required, outcome.detail)
        for outcome in VARIANT_TYPES[variant.variant_type].check(question, candidate)
    )


def contract_passes(checks: Iterable[ContractCheck]) -> bool:
    """Whether every required check holds."""
    return all(check.holds for check in checks if check.is_required)
