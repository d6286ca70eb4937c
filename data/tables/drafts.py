"""Drafts and submission tokens: what an annotator has not submitted yet, and which forms were already sent."""

from datetime import datetime
from typing import NamedTuple

from data.records import AnnotationId, Answers, Draft, VariantId
from data.store import Connection
from data.tables.first_row import first_row


class SubmittedRevision(NamedTuple):
    """The revision that a submitted form created."""

    annotation_id: AnnotationId
    revision: int


class DraftTable:
    """One draft per variant and account; the newest wins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, draft: Draft) -> None:
        self._connection.execute(
            """
            INSERT INTO draft VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (variant_id, account) DO UPDATE SET
                tc = excluded.tc, lc = excluded.lc, au = excluded.au,
                corrected_answer_index = excluded.corrected_answer_index,
                corrected_text = excluded.corrected_text, comment = excluded.comment,
                is_flagged = excluded.is_flagged, updated_at = excluded.updated_at
            """,
            [
                draft.variant_id,
                draft.account,
                draft.answers.tc,
                draft.answers.lc,
                draft.answers.au,
                draft.corrected_answer_index,
                draft.corrected_text,
                draft.comment,
                draft.is_flagged,
                draft.updated_at,
            ],
        )

    def find(self, variant_id: VariantId, account: str) -> Draft | None:
        row = first_row(
            self._connection,
            """
            SELECT tc, lc, au, corrected_answer_index, corrected_text, comment, is_flagged, updated_at
            FROM draft WHERE variant_id = ? AND account = ?
            """,
            [variant_id, account],
        )
        return None if row is None else Draft(variant_id, account, Answers(row[0], row[1], row[2]), *row[3:])

    def remove(self, variant_id: VariantId, account: str) -> None:
        self._connection.execute("DELETE FROM draft WHERE variant_id = ? AND account = ?", [variant_id, account])


class FormTokenTable:
    """Idempotency tokens of rendered forms: a second click finds the result of the first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, token: str, annotation_id: AnnotationId, revision: int, now: datetime) -> None:
        self._connection.execute("INSERT INTO submission VALUES (?, ?, ?, ?)", [token, annotation_id, revision, now])

    def find(self, token: str) -> SubmittedRevision | None:
        row = first_row(self._connection, "SELECT annotation_id, revision FROM submission WHERE token = ?", [token])
        return None if row is None else SubmittedRevision(AnnotationId(row[0]), row[1])
