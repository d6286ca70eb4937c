"""Imported questions: idempotent import, superseding, search. Never deletes: variants point to old ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from data.arrow import QUESTION_SCHEMA, questions_from, questions_table
from data.errors import NotFoundError
from data.ids import cluster_id
from data.records import Question, QuestionId
from data.store import Connection
from data.tables.batches import fetch_table, insert_missing
from data.tables.pages import Page, where

# "validation/9" comes before "validation/10".
_ORDER: Final = (
    r"benchmark, regexp_replace(source_key, '\d+$', ''), "
    r"try_cast(regexp_extract(source_key, '\d+$') AS BIGINT) NULLS FIRST, source_key, question_id"
)
_MATCHES: Final = """
    contains(lower(context), lower($search)) OR contains(lower(array_to_string(options, chr(10))), lower($search))
    OR contains(lower(subject), lower($search)) OR contains(lower(source_key), lower($search)) OR question_id = $search
"""
_CURRENT: Final = "superseded_by IS NULL"


@dataclass(frozen=True, slots=True)
class QuestionCounts:
    """An import's questions: new content, known content, and new content under a known source key."""

    new: int
    same: int
    changed: int


class QuestionTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upsert(self, questions: Iterable[Question], *, now: datetime) -> QuestionCounts:
        """Insert what is new; within one (benchmark, source_key), the last question supersedes the others.

        Repeating a batch counts every question as known. One that the batch still has under another key stays current.
        """
        batch = list(questions)
        stored = self._stored(batch)
        last_of_key = {(question.benchmark, question.source_key): question.question_id for question in batch}
        current_ids = set(last_of_key.values())

        rows: dict[QuestionId, Question] = {}
        changed_ids: set[QuestionId] = set()
        known_keys = {(entry.benchmark, entry.source_key) for entry in stored}
        stored_ids = {entry.question_id for entry in stored}
        for question in batch:
            if question.question_id not in stored_ids and question.question_id not in rows:
                rows[question.question_id] = question
                if (question.benchmark, question.source_key) in known_keys:
                    changed_ids.add(question.question_id)
                known_keys.add((question.benchmark, question.source_key))

        superseding: dict[QuestionId, QuestionId | None] = {}
        batch_entries = [_Stored(row.question_id, row.benchmark, row.source_key, None) for row in rows.values()]
        for entry in [*stored, *batch_entries]:
            successor = last_of_key.get((entry.benchmark, entry.source_key))
            if entry.question_id in current_ids:
                successor = None
            elif successor is None:
                continue
            if successor != entry.superseded_by:
                superseding[entry.question_id] = successor

        self._insert(list(rows.values()), now)
        self._supersede(superseding)
        return QuestionCounts(new=len(rows) - len(changed_ids), same=len(batch) - len(rows), changed=len(changed_ids))

    def get(self, question_id: QuestionId) -> Question:
        """Raises NotFoundError."""
        try:
            return self.by_ids([question_id])[question_id]
        except KeyError:
            raise NotFoundError(f"no question {question_id}; `sagedesk question list` shows all questions") from None

    def by_ids(self, ids: Iterable[QuestionId]) -> dict[QuestionId, Question]:
        """The existing ones, including superseded ones."""
        return {question.question_id: question for question in questions_from(self.arrow(ids=list(ids)))}

    def page(
        self,
        *,
        search: str = "",
        benchmark: str | None = None,
        include_superseded: bool = False,
        offset: int = 0,
        limit: int = 200,
    ) -> Page[Question]:
        """`search` is plain text, matched case-insensitively in context, options, subject and key, or an exact id."""
        asked = where(
            (_MATCHES, "search", search or None),
            ("benchmark = $benchmark", "benchmark", benchmark),
            always=() if include_superseded else (_CURRENT,),
        )
        total = self._connection.execute(f"SELECT count(*) FROM question {asked.clause}", asked.parameters).fetchall()
        rows = fetch_table(
            self._connection,
            f"SELECT * FROM question {asked.clause} ORDER BY {_ORDER} LIMIT $limit OFFSET $offset",
            asked.parameters | {"limit": limit, "offset": offset},
            QUESTION_SCHEMA,
        )
        return Page(tuple(questions_from(rows)), total[0][0])

    def benchmarks(self) -> list[tuple[str, int]]:
        """Number of current questions by benchmark, sorted by name."""
        return self._connection.execute(
            f"SELECT benchmark, count(*) FROM question WHERE {_CURRENT} GROUP BY benchmark ORDER BY benchmark"
        ).fetchall()

    def arrow(
        self,
        *,
        ids: Sequence[QuestionId] | None = None,
        benchmark: str | None = None,
        limit: int | None = None,
        answered_only: bool = False,
    ) -> pa.Table:
        """QUESTION_SCHEMA, ordered by benchmark, source key (numerically), id; superseded ones only if in `ids`."""
        asked = where(
            ("question_id IN (SELECT unnest($ids::TEXT[]))", "ids", None if ids is None else list(ids)),
            ("benchmark = $benchmark", "benchmark", benchmark),
            always=(*(("answer_index IS NOT NULL",) if answered_only else ()), *((_CURRENT,) if ids is None else ())),
        )
        return fetch_table(
            self._connection,
            f"SELECT * FROM question {asked.clause} ORDER BY {_ORDER} LIMIT $limit::BIGINT",
            asked.parameters | {"limit": limit},
            QUESTION_SCHEMA,
        )

    def count(self) -> int:
        """Number of current questions."""
        return int(self._connection.execute(f"SELECT count(*) FROM question WHERE {_CURRENT}").fetchall()[0][0])

    def duplicate_groups(self) -> list[tuple[QuestionId, ...]]:
        """Current questions that differ only in case, space, Unicode form or option order; largest groups first."""
        groups = self._connection.execute(
            f"SELECT list(question_id ORDER BY question_id) AS ids FROM question WHERE {_CURRENT} "
            "GROUP BY cluster_id HAVING count(*) > 1 ORDER BY len(ids) DESC, ids[1]"
        ).fetchall()
        return [tuple(QuestionId(one) for one in ids) for (ids,) in groups]

    def _stored(self, batch: Sequence[Question]) -> list["_Stored"]:
        """Stored rows that share an id or a source key with the batch."""
        rows = self._connection.execute(
            "SELECT question_id, benchmark, source_key, superseded_by FROM question "
            "WHERE question_id IN (SELECT unnest($ids::TEXT[])) OR (benchmark, source_key) IN "
            "(SELECT (unnest($benchmarks::TEXT[]), unnest($keys::TEXT[])))",
            {
                "ids": [question.question_id for question in batch],
                "benchmarks": [question.benchmark for question in batch],
                "keys": [question.source_key for question in batch],
            },
        ).fetchall()
        return [_Stored(*row) for row in rows]

    def _insert(self, questions: Sequence[Question], now: datetime) -> None:
        table = questions_table(questions)
        clusters = [cluster_id(question.context, question.options) for question in questions]
        stamps = pa.array([now] * len(questions), pa.timestamp("us", tz="UTC"))
        table = table.append_column("cluster_id", pa.array(clusters, pa.string())).append_column("created_at", stamps)
        insert_missing(self._connection, "question", table, key=["question_id"])

    def _supersede(self, successors: dict[QuestionId, QuestionId | None]) -> None:
        if not successors:
            return
        self._connection.execute(
            "UPDATE question SET superseded_by = link.successor "
            "FROM (SELECT unnest($older::TEXT[]) AS older, unnest($successors::TEXT[]) AS successor) AS link "
            "WHERE question.question_id = link.older",
            {"older": list(successors), "successors": list(successors.values())},
        )


@dataclass(frozen=True, slots=True)
class _Stored:
    question_id: QuestionId
    benchmark: str
    source_key: str
    superseded_by: QuestionId | None
