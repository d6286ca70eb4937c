"""What is put before people, in which order and why, and what is blind.

Blindness is drawn once, on entry, from only the stored seed and the variant's id; variants of questions reserved for
judging verifiers are always blind. Neither the verdicts nor the batch of a variant can change it. A blind item's
position and reason reveal nothing about its verdicts, nor why it is blind.
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
# How many people must answer an item before it is done.
ANNOTATORS_PER_ITEM: Final = 1
# Probabilities within this distance of 0.5 are called uncertain in the reason.
_UNCERTAIN_BAND: Final = 0.2
_BLIND_REASON: Final = "random check"


def blind_share(connection: Connection, default: float) -> float:
    """The share of entries to come whose verdicts are hidden, 0..1: what leads set, else `default`."""
    return PolicyTable(connection).get(BLIND_SHARE_POLICY, default)


def enqueue(
    connection: Connection, *, variant_ids: Sequence[VariantId], blind_share: float, seed: int, now: datetime
) -> int:
    """Queues variants that pass their contract; returns how many are new. Their clusters must already have parts.

    Idempotent: an item keeps its blindness; an assisted one that is already queued is reordered by its latest
    verdicts.

    Args:
        blind_share: 0..1, the share of items, apart from gate questions, whose verdicts stay hidden until answered.
    """
    table = QueueTable(connection)
    items = [
        _item(candidate, blind_share=blind_share, seed=seed, now=now) for candidate in table.candidates(variant_ids)
    ]
    return table.add(items)


def is_drawn_blind(variant_id: VariantId, *, share: float, seed: int) -> bool:
    return _unit("blind", seed, variant_id) < share


def priority_and_reason(candidate: QueueCandidate) -> tuple[float, str]:
    """Priority 0..1, highest if the verifier is closest to 0.5 on any dimension; and the reason in words.

    If it judged validity in one pass, that counts. A product of three adds nothing to its factors.
    """
    if candidate.has_unparsed:
        return 1.0, "the verifier gave no readable verdict"
    dimensions = [("TC", candidate.tc), ("LC", candidate.lc), ("AU", candidate.au)]
    asked = dimensions if any(given is not None for _, given in dimensions) else [("validity", candidate.valid)]
    known = [(abs(given - 0.5), key, given) for key, given in asked if given is not None]
    if not known:
        return 0.0, "not verified yet"
    distance, key, probability = min(known)
    priority = 1 - 2 * distance
    if distance <= _UNCERTAIN_BAND:
        return priority, f"{key} uncertain ({probability:.2f})"
    return priority, f"confident; closest call {key} ({probability:.2f})"


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
    """A number in 0..1 derived from content."""
    return row_seed(*parts) / 2**31
