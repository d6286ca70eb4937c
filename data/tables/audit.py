"""Who did what, when, to what, and whether it was allowed. Append-only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from data.store import Connection

AuditOutcome = Literal["done", "denied", "failed"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`detail` is a JSON object."""

    audit_id: int
    happened_at: datetime
    actor: str
    action: str
    subject: str
    outcome: AuditOutcome
    detail: Mapping[str, object]


class AuditTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self,
        *,
        happened_at: datetime,
        actor: str,
        action: str,
        subject: str,
        outcome: AuditOutcome,
        detail: Mapping[str, object],
    ) -> None:
        self._connection.execute(
            "INSERT INTO audit (happened_at, actor, action, subject, outcome, detail) VALUES (?, ?, ?, ?, ?, ?)",
            [happened_at, actor, action, subject, outcome, json.dumps(dict(detail), ensure_ascii=False)],
        )

    def recent(self, limit: int = 200) -> list[AuditEntry]:
        """Newest first."""
        rows = self._connection.execute(
            "SELECT audit_id, happened_at, actor, action, subject, outcome, detail FROM audit "
            "ORDER BY audit_id DESC LIMIT ?",
            [limit],
        ).fetchall()
        return [
            AuditEntry(audit_id, happened_at, who, action, subject, outcome, json.loads(detail))
            for audit_id, happened_at, who, action, subject, outcome, detail in rows
        ]
