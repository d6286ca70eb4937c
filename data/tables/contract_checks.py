"""Results of contract checks, one per variant and check; a later check of the same name replaces the earlier one."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from data.arrow import CONTRACT_CHECK_SCHEMA, contract_checks_from, contract_checks_table
from data.records import ContractCheck, VariantId
from data.store import Connection
from data.tables.batches import fetch_table, upsert
from data.tables.pages import where


class ContractCheckTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def upsert(self, checks: Iterable[ContractCheck]) -> None:
        upsert(self._connection, "contract_check", contract_checks_table(checks), key=["variant_id", "check"])

    def of(self, variant_id: VariantId) -> list[ContractCheck]:
        """Required ones first, then by name; empty for an unchecked variant."""
        return self.by_variant([variant_id]).get(variant_id, [])

    def by_variant(self, ids: Sequence[VariantId]) -> dict[VariantId, list[ContractCheck]]:
        """Like `of`, for many; unchecked variants are absent."""
        checks: dict[VariantId, list[ContractCheck]] = {}
        for check in contract_checks_from(self.arrow(ids)):
            checks.setdefault(check.variant_id, []).append(check)
        return checks

    def arrow(self, ids: Sequence[VariantId] | None = None) -> pa.Table:
        """CONTRACT_CHECK_SCHEMA, ordered by variant, required first, name; all variants if `ids` is None."""
        asked = where(
            ("variant_id IN (SELECT unnest($ids::TEXT[]))", "ids", None if ids is None else list(ids)),
        )
        return fetch_table(
            self._connection,
            f'SELECT * FROM contract_check {asked.clause} ORDER BY variant_id, is_required DESC, "check"',
            asked.parameters,
            CONTRACT_CHECK_SCHEMA,
        )
