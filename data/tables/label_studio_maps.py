"""Which Label Studio task is which variant, and which of its annotations is which of ours, by server and project."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from data.records import AnnotationId, VariantId
from data.store import Connection
from data.tables.batches import upsert

_STAMP: Final = pa.timestamp("us", tz="UTC")
_LINK_SCHEMA: Final = pa.schema(
    [
        ("ls_server", pa.string()),
        ("ls_annotation_id", pa.int64()),
        ("annotation_id", pa.string()),
        ("ls_task_id", pa.int64()),
        ("ls_updated_at", _STAMP),
        ("synced_at", _STAMP),
    ]
)


@dataclass(frozen=True, slots=True)
class TaskLink:
    """A pushed variant. `verifier_version` is the verifier whose verdicts the task shows; None while it shows none."""

    variant_id: VariantId
    ls_task_id: int
    config_hash: str
    verifier_version: str | None
    pushed_at: datetime


@dataclass(frozen=True, slots=True)
class AnnotationLink:
    """A Label Studio annotation and ours; `ls_updated_at` is Label Studio's time stamp of the version last seen."""

    ls_annotation_id: int
    annotation_id: AnnotationId
    ls_task_id: int
    ls_updated_at: datetime
    synced_at: datetime


class TaskMapTable:
    def __init__(self, connection: Connection, ls_server: str, ls_project_id: int) -> None:
        self._connection = connection
        self._project = {"server": ls_server, "project": ls_project_id}

    def put(self, links: Iterable[TaskLink]) -> None:
        rows = [
            {
                "ls_server": self._project["server"],
                "ls_project_id": self._project["project"],
                "variant_id": link.variant_id,
                "ls_task_id": link.ls_task_id,
                "config_hash": link.config_hash,
                "verifier_version": link.verifier_version,
                "pushed_at": link.pushed_at,
            }
            for link in links
        ]
        schema = pa.schema(
            [
                ("ls_server", pa.string()),
                ("ls_project_id", pa.int64()),
                ("variant_id", pa.string()),
                ("ls_task_id", pa.int64()),
                ("config_hash", pa.string()),
                ("verifier_version", pa.string()),
                ("pushed_at", _STAMP),
            ]
        )
        batch = pa.Table.from_pylist(rows, schema=schema)
        upsert(self._connection, "task_map", batch, key=["ls_server", "ls_project_id", "variant_id"])

    def by_variants(self, variant_ids: Sequence[VariantId]) -> dict[VariantId, TaskLink]:
        links = self._links("variant_id IN (SELECT unnest($ids::TEXT[]))", ids=list(variant_ids))
        return {link.variant_id: link for link in links}

    def by_tasks(self, ls_task_ids: Sequence[int]) -> dict[int, TaskLink]:
        links = self._links("ls_task_id IN (SELECT unnest($ids::BIGINT[]))", ids=list(ls_task_ids))
        return {link.ls_task_id: link for link in links}

    def task_ids(self) -> frozenset[int]:
        return frozenset(link.ls_task_id for link in self._links("true"))

    def remove(self, variant_ids: Sequence[VariantId]) -> None:
        """For tasks that are gone; the next push creates new ones."""
        self._connection.execute(
            "DELETE FROM task_map WHERE ls_server = $server AND ls_project_id = $project "
            "AND variant_id IN (SELECT unnest($ids::TEXT[]))",
            self._project | {"ids": list(variant_ids)},
        )

    def queued_without_task(self) -> list[VariantId]:
        """Queued variants without a task, in queue order."""
        rows = self._connection.execute(
            """
            SELECT q.variant_id FROM queue_item q JOIN variant USING (variant_id)
            WHERE NOT EXISTS (
                SELECT 1 FROM task_map t
                WHERE t.ls_server = $server AND t.ls_project_id = $project AND t.variant_id = q.variant_id
            )
            ORDER BY q.priority DESC, q.variant_id
            """,
            self._project,
        ).fetchall()
        return [VariantId(row[0]) for row in rows]

    def blind(self, variant_ids: Sequence[VariantId]) -> frozenset[VariantId]:
        """Blind variants that nobody has answered completely: their verdicts must not leave the desk."""
        rows = self._connection.execute(
            """
            SELECT q.variant_id FROM queue_item q
            WHERE q.is_blind AND q.variant_id IN (SELECT unnest($ids::TEXT[])) AND NOT EXISTS (
                SELECT 1 FROM annotation_current a
                WHERE a.variant_id = q.variant_id AND NOT a.is_deleted AND NOT a.is_skipped
                    AND a.tc IS NOT NULL AND a.lc IS NOT NULL AND a.au IS NOT NULL
            )
            """,
            {"ids": list(variant_ids)},
        ).fetchall()
        return frozenset(VariantId(row[0]) for row in rows)

    def to_reveal(self, limit: int) -> list[TaskLink]:
        """Tasks that show no verdict although there is one that need not be hidden any longer."""
        links = self._links(
            """
            verifier_version IS NULL AND EXISTS (
                SELECT 1 FROM verdict v
                WHERE v.variant_id = task_map.variant_id AND v.target <> 'valid' AND v.probability IS NOT NULL
            )
            """
        )
        hidden = self.blind([link.variant_id for link in links])
        return [link for link in links if link.variant_id not in hidden][:limit]

    def _links(self, condition: str, **parameters: object) -> list[TaskLink]:
        rows = self._connection.execute(
            "SELECT variant_id, ls_task_id, config_hash, verifier_version, pushed_at FROM task_map "
            f"WHERE ls_server = $server AND ls_project_id = $project AND {condition} ORDER BY variant_id",
            self._project | parameters,
        ).fetchall()
        return [TaskLink(VariantId(row[0]), *row[1:]) for row in rows]


class AnnotationMapTable:
    def __init__(self, connection: Connection, ls_server: str) -> None:
        self._connection = connection
        self._server = ls_server

    def put(self, links: Sequence[AnnotationLink]) -> None:
        """An annotation has one counterpart at a time: an earlier link of the same `annotation_id` is removed."""
        rows = [{"ls_server": self._server, **asdict(link)} for link in links]
        batch = pa.Table.from_pylist(rows, schema=_LINK_SCHEMA)
        self._connection.execute(
            """
            DELETE FROM annotation_map USING (
                SELECT unnest($ours::TEXT[]) AS annotation_id, unnest($theirs::BIGINT[]) AS ls_annotation_id
            ) AS incoming
            WHERE annotation_map.ls_server = $server AND annotation_map.annotation_id = incoming.annotation_id
                AND annotation_map.ls_annotation_id <> incoming.ls_annotation_id
            """,
            {
                "server": self._server,
                "ours": [link.annotation_id for link in links],
                "theirs": [link.ls_annotation_id for link in links],
            },
        )
        upsert(self._connection, "annotation_map", batch, key=["ls_server", "ls_annotation_id"])

    def remove(self, ls_annotation_ids: Sequence[int]) -> None:
        self._connection.execute(
            "DELETE FROM annotation_map WHERE ls_server = ? AND ls_annotation_id IN (SELECT unnest(?::BIGINT[]))",
            [self._server, list(ls_annotation_ids)],
        )

    def find(self, ls_annotation_id: int) -> AnnotationLink | None:
        return next(iter(self._links("ls_annotation_id = ?", ls_annotation_id)), None)

    def of(self, annotation_id: AnnotationId) -> AnnotationLink | None:
        return next(iter(self._links("annotation_id = ?", annotation_id)), None)

    def of_annotations(self, annotation_ids: Sequence[AnnotationId]) -> list[AnnotationLink]:
        return self._links("annotation_id IN (SELECT unnest(?::TEXT[]))", list(annotation_ids))

    def of_tasks(self, ls_task_ids: Sequence[int]) -> list[AnnotationLink]:
        return self._links("ls_task_id IN (SELECT unnest(?::BIGINT[]))", list(ls_task_ids))

    def all(self) -> list[AnnotationLink]:
        return self._links("true")

    def _links(self, condition: str, *parameters: object) -> list[AnnotationLink]:
        rows = self._connection.execute(
            "SELECT ls_annotation_id, annotation_id, ls_task_id, ls_updated_at, synced_at FROM annotation_map "
            f"WHERE ls_server = ? AND {condition} ORDER BY ls_annotation_id",
            [self._server, *parameters],
        ).fetchall()
        return [AnnotationLink(row[0], AnnotationId(row[1]), *row[2:]) for row in rows]
