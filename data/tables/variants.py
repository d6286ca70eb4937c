"""Variants with their recipes: idempotent ingest, lists by type, run and decision. Never changes or deletes one."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from data.arrow import VARIANT_SCHEMA, variants_from, variants_table
from data.errors import NotFoundError
from data.records import QuestionId, RunId, Variant, VariantId, VariantOutcome, VariantTypeKey, VerdictMethod
from data.store import Connection
from data.tables.batches import fetch_table, insert_missing
from data.tables.pages import Page, where

_DECIDED: Final = "variant LEFT JOIN (SELECT variant_id, outcome FROM decision) USING (variant_id)"
_UNVERIFIED: Final = """
    variant_id NOT IN (
        SELECT variant_id FROM verdict
        WHERE verifier_version = $unverified_by.version AND method = $unverified_by.method
    )
"""


class Judge(NamedTuple):
    """A verifier version and its method: each method of one model has its own verdicts."""

    version: str
    method: VerdictMethod


@dataclass(frozen=True, slots=True)
class VariantCounts:
    """An ingest's variants: new ones and known ones."""

    new: int
    same: int


class VariantTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upsert(self, variants: Iterable[Variant]) -> VariantCounts:
        """Insert what is new; a known variant keeps the recipe and run that first made it."""
        batch = variants_table(variants)
        new = insert_missing(self._connection, "variant", batch, key=["variant_id"])
        return VariantCounts(new=new, same=batch.num_rows - new)

    def get(self, variant_id: VariantId) -> Variant:
        """Raises NotFoundError."""
        try:
            return self.by_ids([variant_id])[variant_id]
        except KeyError:
            raise NotFoundError(f"no variant {variant_id}; `sagedesk variant list` shows all variants") from None

    def by_ids(self, ids: Iterable[VariantId]) -> dict[VariantId, Variant]:
        """Only the existing ones."""
        return {variant.variant_id: variant for variant in variants_from(self.arrow(ids=list(ids)))}

    def page(
        self,
        *,
        variant_type: VariantTypeKey | None = None,
        question_id: QuestionId | None = None,
        run_id: RunId | None = None,
        outcome: VariantOutcome | None = None,
        offset: int = 0,
        limit: int = 200,
    ) -> Page[Variant]:
        """Newest first."""
        asked = where(
            ("variant_type = $variant_type", "variant_type", variant_type),
            ("question_id = $question_id", "question_id", question_id),
            ("run_id = $run_id", "run_id", run_id),
            ("coalesce(outcome, 'undecided') = $outcome", "outcome", outcome),
        )
        total = self._connection.execute(f"SELECT count(*) FROM {_DECIDED} {asked.clause}", asked.parameters).fetchall()
        rows = fetch_table(
            self._connection,
            f"SELECT * FROM {_DECIDED} {asked.clause} ORDER BY created_at DESC, variant_id LIMIT $limit OFFSET $offset",
            asked.parameters | {"limit": limit, "offset": offset},
            VARIANT_SCHEMA,
        )
        return Page(tuple(variants_from(rows)), total[0][0])

    def arrow(
        self,
        *,
        ids: Sequence[VariantId] | None = None,
        variant_type: VariantTypeKey | None = None,
        run_id: RunId | None = None,
        unverified_by: Judge | None = None,
        leaving_out: Collection[VariantId] = (),
        limit: int | None = None,
    ) -> pa.Table:
        """VARIANT_SCHEMA, ordered by type and id. `unverified_by`: only those without a verdict by that judge."""
        asked = where(
            ("variant_id IN (SELECT unnest($ids::TEXT[]))", "ids", None if ids is None else list(ids)),
            ("variant_type = $variant_type", "variant_type", variant_type),
            ("run_id = $run_id", "run_id", run_id),
            (_UNVERIFIED, "unverified_by", None if unverified_by is None else unverified_by._asdict()),
            ("variant_id NOT IN (SELECT unnest($leaving_out::TEXT[]))", "leaving_out", list(leaving_out) or None),
        )
        return fetch_table(
            self._connection,
            f"SELECT * FROM variant {asked.clause} ORDER BY variant_type, variant_id LIMIT $limit::BIGINT",
            asked.parameters | {"limit": limit},
            VARIANT_SCHEMA,
        )

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM variant").fetchall()[0][0])

    def count_unverified(self, *, leaving_out: Collection[VariantId]) -> int:
        """Variants without any verdict."""
        [(count,)] = self._connection.execute(
            "SELECT count(*) FROM variant WHERE variant_id NOT IN (SELECT variant_id FROM verdict) "
            "AND variant_id NOT IN (SELECT unnest(?::TEXT[]))",
            [list(leaving_out)],
        ).fetchall()
        return int(count)

    def accepted(self) -> list[Variant]:
        """Accepted variants, ordered by type and id."""
        rows = fetch_table(
            self._connection,
            f"SELECT * FROM {_DECIDED} WHERE outcome = 'accepted' ORDER BY variant_type, variant_id",
            {},
            VARIANT_SCHEMA,
        )
        return list(variants_from(rows))
