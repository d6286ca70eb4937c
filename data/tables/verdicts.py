"""Verdicts of every verifier version; the latest verdicts of the latest version count (view `verdict_latest`)."""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from data.arrow import VERDICT_SCHEMA, verdicts_from, verdicts_table
from data.records import VariantId, Verdict
from data.store import Connection
from data.tables.batches import fetch_table, upsert
from data.tables.pages import where

_KEY: Final = ("variant_id", "target", "verifier_version", "method")
_TARGET_ORDER: Final = "list_position(['TC', 'LC', 'AU', 'valid'], target)"


class VerdictTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upsert(self, verdicts: Iterable[Verdict]) -> int:
        """Insert, or replace an older verdict by the same version and method; returns how many were written."""
        return upsert(self._connection, "verdict", verdicts_table(verdicts), key=_KEY, newest=["created_at"])

    def latest(self, variant_id: VariantId) -> list[Verdict]:
        """At most one per target, in the order TC, LC, AU, valid; empty for an unjudged variant."""
        return self.latest_for([variant_id]).get(variant_id, [])

    def latest_for(self, ids: Sequence[VariantId]) -> dict[VariantId, list[Verdict]]:
        """Like `latest`, for many; unjudged variants are absent."""
        by_variant: dict[VariantId, list[Verdict]] = {}
        for verdict in verdicts_from(self.latest_arrow(ids)):
            by_variant.setdefault(verdict.variant_id, []).append(verdict)
        return by_variant

    def latest_arrow(self, ids: Sequence[VariantId] | None = None) -> pa.Table:
        """VERDICT_SCHEMA, ordered by variant and target; all variants if `ids` is None."""
        asked = where(
            ("variant_id IN (SELECT unnest($ids::TEXT[]))", "ids", None if ids is None else list(ids)),
        )
        return fetch_table(
            self._connection,
            f"SELECT * FROM verdict_latest {asked.clause} ORDER BY variant_id, {_TARGET_ORDER}",
            asked.parameters,
            VERDICT_SCHEMA,
        )

    def versions(self) -> list[str]:
        """Verifier versions that have judged anything, most recent first."""
        rows = self._connection.execute(
            "SELECT verifier_version FROM verdict GROUP BY verifier_version "
            "ORDER BY max(created_at) DESC, verifier_version"
        ).fetchall()
        return [row[0] for row in rows]
