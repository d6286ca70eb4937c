"""Registered models: which folders hold a verifier or generator, by content hash. Refuses to read the folders."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from data.store import Connection


class ModelRecord(NamedTuple):
    """`role` is verifier or generator; `kind` feature or causal_lm; `manifest` is what the registry recorded."""

    model_id: str
    role: str
    kind: str
    folder: str
    manifest: Mapping[str, object]
    created_at: datetime


class ModelTable:
    """Reads and writes `model` on the given connection; the caller owns the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, model: ModelRecord) -> None:
        """The same content is the same model: its first row stays and its folder is updated."""
        self._connection.execute(
            "INSERT INTO model (model_id, role, kind, folder, manifest, created_at) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (model_id) DO UPDATE SET folder = excluded.folder",
            [
                model.model_id,
                model.role,
                model.kind,
                model.folder,
                json.dumps(dict(model.manifest), ensure_ascii=False),
                model.created_at,
            ],
        )

    def find(self, model_id: str) -> ModelRecord | None:
        rows = self._connection.execute(
            "SELECT model_id, role, kind, folder, manifest, created_at FROM model WHERE model_id = ?", [model_id]
        ).fetchall()
        return _model(rows[0]) if rows else None

    def all(self, *, role: str | None = None) -> list[ModelRecord]:
        """Newest first."""
        rows = self._connection.execute(
            "SELECT model_id, role, kind, folder, manifest, created_at FROM model "
            "WHERE $role IS NULL OR role = $role ORDER BY created_at DESC, model_id",
            {"role": role},
        ).fetchall()
        return [_model(row) for row in rows]


def _model(row: tuple[object, ...]) -> ModelRecord:
    model_id, role, kind, folder, manifest, created_at = row
    if not isinstance(created_at, datetime):
        raise TypeError(f"model {model_id}: created_at is {created_at!r}")  # the schema's NOT NULL TIMESTAMPTZ
    return ModelRecord(str(model_id), str(role), str(kind), str(folder), json.loads(str(manifest)), created_at)
