"""What comes before people, in which order and why; and which of it is blind.

Blindness is drawn once, on entry, from the stored seed and the variant's id alone; what was asked of a question that
is kept for judging verifiers is always blind. Neither the verdicts nor the batch in which a variant came can change
it. A blind item's place and reason say nothing of its verdicts, nor why it is blind.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from data.ids import row_seed
from data.records import VariantId
from data.store import Connection
from data.tables.policies import PolicyTable
from data.tables.queue import QueueCandidate, QueueItem, QueueTable

BLIND_SHARE_POLICY: Final = "blind_share"
# How many people answer an item before it counts as done.
OVERLAP: Final = 1
# Probabilities in this band around 0.5 are called uncertain in the reason.
_UNCERTAIN_BAND: Final = 0.2
_BLIND_REASON: Final = "random check"


def blind_share(connection: Connection, default: float) -> float:
    """The share of entries to come whose verdicts are hidden, 0..1: what leads set, else `default`."""
    return PolicyTable(connection).get(BLIND_SHARE_POLICY, default)


def enqueue(
    connection: Connection, *, variant_ids: Sequence[VariantId], blind_share: float, seed: int, now: datetime
) -> int:
    """Queue those that pass their contract; number of new entries. The parts of their clusters are drawn before.

    Idempotent: an entry keeps its blindness; an assisted one that is there already is ordered anew by its
    latest verdicts.

    Args:
        blind_share: 0..1, the share of all but gate questions whose verdicts stay hidden until the answer.
    """
    table = QueueTable(connection)
    items = [
        _item(candidate, blind_share=blind_share, seed=seed, now=now) for candidate in table.candidates(variant_ids)
    ]
    return table.add(items)


def is_drawn_blind(variant_id: VariantId, *, share: float, seed: int) -> bool:
    return _unit("blind", seed, variant_id) < share


def priority_and_reason(candidate: QueueCandidate) -> tuple[float, str]:
    """Priority 0..1, highest where the verifier is nearest to 0.5 on any dimension; and that in words.

    Where it judged validity at once and no dimension, that counts. A product of three says nothing beside its factors.
    """
    if candidate.has_unparsed:
        return 1.0, "verifier gave no clear verdict"
    dimensions = [("TC", candidate.tc), ("LC", candidate.lc), ("AU", candidate.au)]
    asked = dimensions if any(given is not None for _, given in dimensions) else [("validity", candidate.valid)]
    known = [(abs(given - 0.5), key, given) for key, given in asked if given is not None]
    if not known:
        return 0.0, "not verified yet"
    distance, key, probability = min(known)
    priority = 1 - 2 * distance
    if distance <= _UNCERTAIN_BAND:
        return priority, f"{key} uncertain ({probability:.2f})"
    return priority, f"verifier sure; nearest call {key} ({probability:.2f})"


def _item(candidate: QueueCandidate, *, blind_share: float, seed: int, now: datetime) -> QueueItem:
    variant_id = candidate.variant_id
    is_blind = candidate.is_queued_blind
    if is_blind is None:
        is_blind = candidate.is_in_gate or is_drawn_blind(variant_id, share=blind_share, seed=seed)
    if is_blind:
        priority, reason = _unit("place", seed, variant_id), _BLIND_REASON
    else:
        priority, reason = priority_and_reason(candidate)
    return QueueItem(variant_id, is_blind, seed, blind_share, priority, reason, now)


def _unit(*parts: object) -> float:
    """0..1 from content."""
    return row_seed(*parts) / 2**31
