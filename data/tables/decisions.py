"""Decisions: the team's final answers; at most one per variant."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from data.records import AnnotationId, Answers, Decision, VariantId
from data.store import Connection
from data.tables.batches import upsert

_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("outcome", pa.string()),
        ("tc", pa.bool_()),
        ("lc", pa.bool_()),
        ("au", pa.bool_()),
        ("basis", pa.string()),
        ("annotation_ids", pa.list_(pa.string())),
        ("decided_by", pa.string()),
        ("decided_at", pa.timestamp("us", tz="UTC")),
    ]
)
_COLUMNS: Final = "variant_id, outcome, tc, lc, au, basis, annotation_ids, decided_by, decided_at"


class DecisionTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upsert(self, decision: Decision) -> None:
        """Record a decision, replacing an earlier one."""
        self.upsert_many([decision])

    def upsert_many(self, decisions: Iterable[Decision]) -> None:
        rows = [
            {
                "variant_id": decision.variant_id,
                "outcome": decision.outcome,
                "tc": decision.answers.tc,
                "lc": decision.answers.lc,
                "au": decision.answers.au,
                "basis": decision.basis,
                "annotation_ids": list(decision.annotation_ids),
                "decided_by": decision.decided_by,
                "decided_at": decision.decided_at,
            }
            for decision in decisions
        ]
        upsert(self._connection, "decision", pa.Table.from_pylist(rows, schema=_SCHEMA), key=["variant_id"])

    def remove(self, variant_ids: Sequence[VariantId]) -> None:
        """Make the variants undecided again."""
        self._connection.execute(
            "DELETE FROM decision WHERE variant_id IN (SELECT unnest(?::TEXT[]))", [list(variant_ids)]
        )

    def get(self, variant_id: VariantId) -> Decision | None:
        return self.by_ids([variant_id]).get(variant_id)

    def by_ids(self, variant_ids: Iterable[VariantId]) -> dict[VariantId, Decision]:
        """Only variants that are decided."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM decision WHERE variant_id IN (SELECT unnest(?::TEXT[]))", [list(variant_ids)]
        ).fetchall()
        return {VariantId(row[0]): _decision(row) for row in rows}

    def count_since(self, since: datetime | None) -> int:
        """Decisions made or changed after `since`, all if None; without bulk decisions, which training ignores."""
        rows = self._connection.execute(
            "SELECT count(*) FROM decision WHERE basis <> 'bulk' AND ($since IS NULL OR decided_at > $since)",
            {"since": since},
        ).fetchall()
        return int(rows[0][0])

    def count(self) -> dict[str, int]:
        """Number of decisions by outcome."""
        return dict(self._connection.execute("SELECT outcome, count(*) FROM decision GROUP BY outcome").fetchall())


def _decision(row: Sequence[object]) -> Decision:
    variant_id, outcome, tc, lc, au, basis, annotation_ids, decided_by, decided_at = row
    return Decision(
        variant_id=VariantId(str(variant_id)),
        outcome=outcome,  # type: ignore[arg-type]  # written by `upsert` alone
        answers=Answers(tc, lc, au),  # type: ignore[arg-type]  # BOOLEAN columns
        basis=basis,  # type: ignore[arg-type]  # written by `upsert` alone
        annotation_ids=tuple(AnnotationId(each) for each in annotation_ids),  # type: ignore[attr-defined]  # TEXT[]
        decided_by=str(decided_by),
        decided_at=decided_at,  # type: ignore[arg-type]  # TIMESTAMPTZ
    )
