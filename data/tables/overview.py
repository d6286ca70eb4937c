"""Progress of the work: the funnel, yields by type, and the backlog. Counts only, in one snapshot."""

from dataclasses import dataclass
from typing import Final

from data.records import VariantTypeKey
from data.store import Connection

_ANSWERED: Final = "SELECT variant_id FROM annotation_current WHERE NOT is_deleted AND NOT is_skipped"


@dataclass(frozen=True, slots=True)
class Funnel:
    """Current questions, then variants at each stage; a variant counts at every stage it has reached."""

    questions: int
    generated: int
    contract_passed: int
    verified: int
    reviewed: int
    accepted: int
    released: int


@dataclass(frozen=True, slots=True)
class TypeFunnel:
    """One variant type's variants by stage. `judged_valid` counts the latest verifier's verdicts."""

    variant_type: VariantTypeKey
    generated: int
    contract_passed: int
    judged_valid: int
    accepted: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is waiting: unanswered queue items, labels not yet sent, and quarantined labels that need a person."""

    unanswered: int
    outbox_open: int
    quarantined: int


class OverviewTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def funnel(self) -> Funnel:
        (counts,) = self._connection.execute(
            f"""
            SELECT (SELECT count(*) FROM question WHERE superseded_by IS NULL),
                   (SELECT count(*) FROM variant),
                   (SELECT count(*) FROM contract_outcome WHERE passes),
                   (SELECT count(DISTINCT variant_id) FROM verdict),
                   (SELECT count(DISTINCT variant_id) FROM ({_ANSWERED})),
                   (SELECT count(*) FROM decision WHERE outcome = 'accepted'),
                   (SELECT count(DISTINCT variant_id) FROM release_item)
            """
        ).fetchall()
        return Funnel(*counts)

    def yields(self) -> list[TypeFunnel]:
        """Types with variants, by name."""
        rows = self._connection.execute(
            """
            SELECT variant_type, count(*), count(*) FILTER (passes), count(*) FILTER (is_valid),
                   count(*) FILTER (outcome = 'accepted'), count(*) FILTER (outcome = 'rejected')
            FROM variant
            LEFT JOIN contract_outcome USING (variant_id)
            LEFT JOIN variant_validity USING (variant_id)
            LEFT JOIN (SELECT variant_id, outcome FROM decision) USING (variant_id)
            GROUP BY variant_type ORDER BY variant_type
            """
        ).fetchall()
        return [TypeFunnel(*row) for row in rows]

    def backlog(self) -> Backlog:
        (counts,) = self._connection.execute(
            f"""
            SELECT (SELECT count(*) FROM queue_item WHERE variant_id NOT IN ({_ANSWERED})),
                   (SELECT count(*) FROM outbox WHERE done_at IS NULL),
                   (SELECT count(*) FROM quarantine WHERE resolved_at IS NULL)
            """
        ).fetchall()
        return Backlog(*counts)
