"""Decisions: what the team holds true of a variant; at most one each."""

from collections.abc import Iterable, Sequence

from data.records import AnnotationId, Answers, Decision, VariantId
from data.store import Connection

_COLUMNS = "variant_id, outcome, tc, lc, au, basis, annotation_ids, decided_by, decided_at"


class DecisionTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upsert(self, decision: Decision) -> None:
        """Decide, or decide anew."""
        self._connection.execute(
            f"INSERT OR REPLACE INTO decision ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                decision.variant_id,
                decision.outcome,
                decision.answers.tc,
                decision.answers.lc,
                decision.answers.au,
                decision.basis,
                list(decision.annotation_ids),
                decision.decided_by,
                decision.decided_at,
            ],
        )

    def remove(self, variant_ids: Sequence[VariantId]) -> None:
        """Back to undecided."""
        self._connection.execute(
            "DELETE FROM decision WHERE variant_id IN (SELECT unnest(?::TEXT[]))", [list(variant_ids)]
        )

    def get(self, variant_id: VariantId) -> Decision | None:
        return self.by_ids([variant_id]).get(variant_id)

    def by_ids(self, variant_ids: Iterable[VariantId]) -> dict[VariantId, Decision]:
        """Those that are decided."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM decision WHERE variant_id IN (SELECT unnest(?::TEXT[]))", [list(variant_ids)]
        ).fetchall()
        return {VariantId(row[0]): _decision(row) for row in rows}

    def count(self) -> dict[str, int]:
        """Decisions by outcome."""
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
