"""Annotations: revisions are appended, never changed; only the current one counts. Refuses to delete."""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from data.records import Annotation, AnnotationId, Answers, VariantId
from data.store import Connection

_STAMP: Final = pa.timestamp("us", tz="UTC")
_SCHEMA: Final = pa.schema(
    [
        ("annotation_id", pa.string()),
        ("revision", pa.int32()),
        ("variant_id", pa.string()),
        ("annotator", pa.string()),
        ("updated_by", pa.string()),
        ("tc", pa.bool_()),
        ("lc", pa.bool_()),
        ("au", pa.bool_()),
        ("corrected_answer_index", pa.int32()),
        ("corrected_text", pa.string()),
        ("comment", pa.string()),
        ("is_flagged", pa.bool_()),
        ("is_skipped", pa.bool_()),
        ("is_deleted", pa.bool_()),
        ("is_blind", pa.bool_()),
        ("shown_verifier", pa.string()),
        ("origin", pa.string()),
        ("ls_server", pa.string()),
        ("ls_task_id", pa.int64()),
        ("ls_annotation_id", pa.int64()),
        ("config_hash", pa.string()),
        ("guidelines_version", pa.string()),
        ("lead_time_s", pa.float64()),
        ("created_at", _STAMP),
        ("updated_at", _STAMP),
        ("content_hash", pa.string()),
    ]
)
_ANSWERS: Final = ("tc", "lc", "au")
# A console annotation's Label Studio ids are only known after its push: they are in the map, not in the revision.
_FROM_MAP: Final = ("ls_server", "ls_task_id", "ls_annotation_id")
_COLUMNS: Final = ", ".join(
    f"coalesce(annotated.{name}, mapped.{name}) AS {name}" if name in _FROM_MAP else f"annotated.{name}"
    for name in _SCHEMA.names
)
_MAPPED: Final = """
    LEFT JOIN (
        SELECT annotation_id, ls_server, ls_task_id, ls_annotation_id FROM annotation_map
        QUALIFY row_number() OVER (PARTITION BY annotation_id ORDER BY synced_at DESC, ls_annotation_id DESC) = 1
    ) AS mapped ON mapped.annotation_id = annotated.annotation_id
"""
_CURRENT: Final = f"SELECT {_COLUMNS} FROM annotation_current AS annotated {_MAPPED}"
_REVISIONS: Final = f"SELECT {_COLUMNS} FROM annotation AS annotated {_MAPPED}"


class AnnotationTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, annotation: Annotation) -> None:
        """Add one revision; its number comes from `next_revision` in the same transaction."""
        self.append_many([annotation])

    def append_many(self, annotations: Iterable[Annotation]) -> None:
        batch = pa.Table.from_pylist([_row(annotation) for annotation in annotations], schema=_SCHEMA)
        if batch.num_rows == 0:
            return
        names = ", ".join(_SCHEMA.names)
        self._connection.register("appended_annotations", batch)
        try:
            self._connection.execute(f"INSERT INTO annotation ({names}) SELECT {names} FROM appended_annotations")
        finally:
            self._connection.unregister("appended_annotations")

    def current(self, annotation_id: AnnotationId) -> Annotation | None:
        """The newest revision, tombstones included; None for an unknown id."""
        return self.current_by_ids([annotation_id]).get(annotation_id)

    def current_by_ids(self, annotation_ids: Sequence[AnnotationId]) -> dict[AnnotationId, Annotation]:
        rows = self._connection.execute(
            f"{_CURRENT} WHERE annotated.annotation_id IN (SELECT unnest(?::TEXT[]))", [list(annotation_ids)]
        ).fetchall()
        return {annotation.annotation_id: annotation for annotation in map(_annotation, rows)}

    def current_of_variant(self, variant_id: VariantId) -> list[Annotation]:
        """One per person and annotation, oldest first, including deleted and skipped ones."""
        return self.current_of_variants([variant_id]).get(variant_id, [])

    def current_of_variants(self, variant_ids: Sequence[VariantId]) -> dict[VariantId, list[Annotation]]:
        """Like `current_of_variant`, for many; variants without annotations are absent."""
        rows = self._connection.execute(
            f"{_CURRENT} WHERE annotated.variant_id IN (SELECT unnest(?::TEXT[])) "
            "ORDER BY annotated.created_at, annotated.annotation_id",
            [list(variant_ids)],
        ).fetchall()
        by_variant: dict[VariantId, list[Annotation]] = {}
        for annotation in map(_annotation, rows):
            by_variant.setdefault(annotation.variant_id, []).append(annotation)
        return by_variant

    def current_by(self, variant_id: VariantId, annotator: str) -> Annotation | None:
        """This person's current annotation of the variant; a tombstone only if nothing else is left."""
        rows = self._connection.execute(
            f"{_CURRENT} WHERE annotated.variant_id = ? AND annotated.annotator = ? "
            "ORDER BY annotated.is_deleted, annotated.updated_at DESC, annotated.annotation_id LIMIT 1",
            [variant_id, annotator],
        ).fetchall()
        return _annotation(rows[0]) if rows else None

    def revisions(self, annotation_id: AnnotationId) -> list[Annotation]:
        """All revisions, in order."""
        rows = self._connection.execute(
            f"{_REVISIONS} WHERE annotated.annotation_id = ? ORDER BY annotated.revision", [annotation_id]
        ).fetchall()
        return [_annotation(row) for row in rows]

    def next_revision(self, annotation_id: AnnotationId) -> int:
        [(number,)] = self._connection.execute(
            "SELECT coalesce(max(revision), 0) + 1 FROM annotation WHERE annotation_id = ?", [annotation_id]
        ).fetchall()
        return int(number)

    def next_revisions(self, annotation_ids: Sequence[AnnotationId]) -> dict[AnnotationId, int]:
        """Like `next_revision`, for many."""
        rows = self._connection.execute(
            "SELECT annotation_id, max(revision) + 1 FROM annotation "
            "WHERE annotation_id IN (SELECT unnest(?::TEXT[])) GROUP BY annotation_id",
            [list(annotation_ids)],
        ).fetchall()
        return dict.fromkeys(annotation_ids, 1) | {AnnotationId(row[0]): row[1] for row in rows}


def _row(annotation: Annotation) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(annotation, name) for name in _SCHEMA.names if name not in _ANSWERS}
    return row | {name: getattr(annotation.answers, name) for name in _ANSWERS}


def _annotation(row: Sequence[object]) -> Annotation:
    values = dict(zip(_SCHEMA.names, row, strict=True))
    answers = Answers(*(values.pop(name) for name in _ANSWERS))
    return Annotation(answers=answers, **values)
