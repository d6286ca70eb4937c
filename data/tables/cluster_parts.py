"""The part of each question cluster. Written once per cluster; refuses to move one that already has a part."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from data.records import Part, VariantId
from data.store import Connection
from data.tables.batches import insert_missing


class StandingPart(NamedTuple):
    """`benchmark` is the first by name of those that contain the cluster."""

    benchmark: str
    part: Part


class ClusterPartTable:
    """Reads and writes `cluster_part` on the given connection; the caller owns the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, parts: Mapping[str, Part], now: datetime) -> int:
        """Returns how many clusters are new; one that already has a part keeps it."""
        batch = pa.table(
            {
                "cluster_id": pa.array(list(parts), pa.string()),
                "part": pa.array(list(parts.values()), pa.string()),
                "assigned_at": pa.array([now] * len(parts), pa.timestamp("us", tz="UTC")),
            }
        )
        return insert_missing(self._connection, "cluster_part", batch, key=["cluster_id"])

    def standing(self) -> dict[str, StandingPart]:
        """All, by cluster."""
        rows = self._connection.execute(
            "SELECT p.cluster_id, coalesce(min(q.benchmark), ''), any_value(p.part) "
            "FROM cluster_part p LEFT JOIN question q USING (cluster_id) GROUP BY p.cluster_id ORDER BY p.cluster_id"
        ).fetchall()
        return {cluster: StandingPart(benchmark, part) for cluster, benchmark, part in rows}

    def without_part(self, variant_ids: Sequence[VariantId] | None = None) -> dict[str, str]:
        """Clusters without a part, with their benchmark (the first by name).

        Args:
            variant_ids: look at the questions of these variants, if they pass their contract. None: at all current
                questions with options and an answer, and those of every variant ever queued or decided.
        """
        if variant_ids is None:
            chosen = (
                "SELECT cluster_id FROM question WHERE superseded_by IS NULL AND answer_index IS NOT NULL "
                "UNION SELECT q.cluster_id FROM question q JOIN variant v USING (question_id) "
                "WHERE v.variant_id IN (SELECT variant_id FROM queue_item UNION SELECT variant_id FROM decision)"
            )
        else:
            chosen = (
                "SELECT q.cluster_id FROM question q JOIN variant v USING (question_id) "
                "JOIN contract_outcome c USING (variant_id) "
                "WHERE c.passes AND v.variant_id IN (SELECT unnest($variant_ids::TEXT[]))"
            )
        rows = self._connection.execute(
            f"SELECT cluster_id, min(benchmark) FROM question WHERE cluster_id IN ({chosen}) "
            "AND cluster_id NOT IN (SELECT cluster_id FROM cluster_part) GROUP BY cluster_id ORDER BY cluster_id",
            {} if variant_ids is None else {"variant_ids": list(variant_ids)},
        ).fetchall()
        return dict(rows)
