"""Releases and their items, and the evidence that goes into a new one. A release's rows never change."""

from collections.abc import Sequence
from typing import Final

from data.errors import NotFoundError, ReleaseError
from data.export import ReleaseItem, ReleaseLabel
from data.records import Answers, Decision, Release, VariantId
from data.store import Connection
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable

_COLUMNS: Final = "name, number, folder, manifest_sha256, items, created_by, created_at"


class ReleaseTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, release: Release, variant_ids: Sequence[VariantId]) -> None:
        """Raises ReleaseError if the name is taken or the number is no longer the next one."""
        self.refuse_taken(release.name)
        if release.number != self.next_number():
            raise ReleaseError(f"release {release.name!r}: another release was created in the meantime; try again")
        self._connection.execute(
            f"INSERT INTO release ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [getattr(release, column) for column in _COLUMNS.split(", ")],
        )
        self._connection.execute(
            "INSERT INTO release_item SELECT $name, unnest($ids::TEXT[])",
            {"name": release.name, "ids": list(variant_ids)},
        )

    def refuse_taken(self, name: str) -> None:
        """Raises ReleaseError if there is a release with that name."""
        if self.find(name) is not None:
            raise ReleaseError(
                f"release {name!r} already exists, and a release is never overwritten; choose another name"
            )

    def find(self, name: str) -> Release | None:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM release WHERE name = ?", [name]).fetchall()
        return Release(*rows[0]) if rows else None

    def get(self, name: str) -> Release:
        """Raises NotFoundError, naming those that exist."""
        release = self.find(name)
        if release is None:
            known = ", ".join(one.name for one in self.all()) or "none yet"
            raise NotFoundError(f"no release {name!r}; existing releases: {known}")
        return release

    def all(self) -> list[Release]:
        """Newest first."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM release ORDER BY number DESC").fetchall()
        return [Release(*row) for row in rows]

    def next_number(self) -> int:
        """1 for the first release."""
        return int(self._connection.execute("SELECT coalesce(max(number), 0) + 1 FROM release").fetchall()[0][0])

    def variant_ids(self, name: str) -> list[VariantId]:
        """Sorted; empty for an unknown release."""
        rows = self._connection.execute(
            "SELECT variant_id FROM release_item WHERE release_name = ? ORDER BY variant_id", [name]
        ).fetchall()
        return [VariantId(row[0]) for row in rows]

    def accepted_items(self) -> list[ReleaseItem]:
        """Every accepted variant with its question and evidence, ordered by type and id.

        Raises:
            ReleaseError: an accepted variant's question is not in the store.
        """
        variants = VariantTable(self._connection).accepted()
        ids = [variant.variant_id for variant in variants]
        questions = QuestionTable(self._connection).by_ids({variant.question_id for variant in variants})
        verdicts = VerdictTable(self._connection).latest_for(ids)
        checks = ContractCheckTable(self._connection).by_variant(ids)
        decisions = self._decisions()
        labels = self._labels()
        items = []
        for variant in variants:
            if variant.question_id not in questions:
                raise ReleaseError(
                    f"accepted variant {variant.variant_id}: question {variant.question_id} is not in the store; "
                    f"import the question, or reject the variant"
                )
            items.append(
                ReleaseItem(
                    variant=variant,
                    question=questions[variant.question_id],
                    decision=decisions[variant.variant_id],
                    labels=tuple(labels.get(variant.variant_id, ())),
                    verdicts=tuple(verdicts.get(variant.variant_id, ())),
                    checks=tuple(checks.get(variant.variant_id, ())),
                )
            )
        return items

    def _decisions(self) -> dict[VariantId, Decision]:
        rows = self._connection.execute(
            "SELECT variant_id, outcome, tc, lc, au, basis, annotation_ids, decided_by, decided_at "
            "FROM decision WHERE outcome = 'accepted'"
        ).fetchall()
        return {
            row[0]: Decision(row[0], row[1], Answers(*row[2:5]), row[5], tuple(row[6]), row[7], row[8]) for row in rows
        }

    def _labels(self) -> dict[VariantId, list[ReleaseLabel]]:
        """Current answers on accepted variants, oldest first."""
        rows = self._connection.execute(
            "SELECT variant_id, annotator, tc, lc, au, is_blind FROM annotation_current "
            "WHERE NOT is_deleted AND NOT is_skipped "
            "AND variant_id IN (SELECT variant_id FROM decision WHERE outcome = 'accepted') "
            "ORDER BY created_at, annotation_id"
        ).fetchall()
        labels: dict[VariantId, list[ReleaseLabel]] = {}
        for variant_id, annotator, *answers, is_blind in rows:
            labels.setdefault(variant_id, []).append(ReleaseLabel(annotator, Answers(*answers), is_blind))
        return labels
