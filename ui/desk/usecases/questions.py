"""Browsing questions and their variants. Read-only.

Verdicts on a blind item are withheld until the actor has labelled it; annotators see other people's answers only after
their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from data.errors import InputError
from data.records import (
    VARIANT_OUTCOMES,
    VARIANT_TYPE_KEYS,
    Annotation,
    ContractCheck,
    Decision,
    Question,
    QuestionId,
    RunId,
    Variant,
    VariantId,
    VariantOutcome,
    VariantTypeKey,
    Verdict,
)
from data.store import Connection
from data.tables.annotations import AnnotationTable
from data.tables.contract_checks import ContractCheckTable
from data.tables.decisions import DecisionTable
from data.tables.outbox import OutboxTable
from data.tables.questions import QuestionTable
from data.tables.queue import QueueTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from engine.variant_types.table import contract_passes
from ui.desk.context import OPERATOR, Actor, Desk

MAX_ROWS: Final = 200
_MAX_OFFSET: Final = 2**62  # DuckDB's offset is a BIGINT


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark and its number of current questions."""

    name: str
    questions: int


@dataclass(frozen=True, slots=True)
class QuestionPage:
    """One page in source order; `total` counts all matches, `benchmarks` covers the whole store."""

    items: tuple[Question, ...]
    total: int
    offset: int
    benchmarks: tuple[Benchmark, ...]


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """Groups of questions that splits treat as one; at most MAX_ROWS groups, `total` counts all."""

    groups: tuple[tuple[Question, ...], ...]
    total: int


@dataclass(frozen=True, slots=True)
class CurrentLabel:
    """What a person says of a variant now. `synced_at` is None until Label Studio has it."""

    annotation: Annotation
    synced_at: datetime | None


@dataclass(frozen=True, slots=True)
class VariantDetail:
    """A variant in detail. `verdicts` is empty while the item is blind to the actor (`is_blind`).

    `passes_contract` is None if the contract was never checked. `labels` excludes deleted ones.
    """

    variant: Variant
    question: Question
    checks: tuple[ContractCheck, ...]
    passes_contract: bool | None
    verdicts: tuple[Verdict, ...]
    is_blind: bool
    labels: tuple[CurrentLabel, ...]
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class VariantPage:
    """One page, newest first."""

    items: tuple[VariantDetail, ...]
    total: int
    offset: int


@dataclass(frozen=True, slots=True)
class QuestionDetail:
    """A question with its variants (at most MAX_ROWS)."""

    question: Question
    variants: tuple[VariantDetail, ...]


def search_questions(
    desk: Desk, actor: Actor, *, search: str = "", benchmark: str | None = None, offset: int = 0, limit: int = 50
) -> QuestionPage:
    """`search` is plain text, matched in context, options, subject and source key, or an exact id."""
    offset, limit = _bounds(offset, limit)
    with desk.store.read() as connection:
        table = QuestionTable(connection)
        page = table.page(search=search, benchmark=benchmark, offset=offset, limit=limit)
        benchmarks = tuple(Benchmark(name, questions) for name, questions in table.benchmarks())
    return QuestionPage(page.items, page.total, offset, benchmarks)


def duplicate_questions(desk: Desk, actor: Actor) -> DuplicateReport:
    """Current questions that differ only in case, space, Unicode form or option order, largest groups first."""
    with desk.store.read() as connection:
        table = QuestionTable(connection)
        groups = table.duplicate_groups()
        known = table.by_ids([one for group in groups[:MAX_ROWS] for one in group])
    return DuplicateReport(tuple(tuple(known[one] for one in group) for group in groups[:MAX_ROWS]), len(groups))


def show_question(desk: Desk, actor: Actor, *, question_id: QuestionId) -> QuestionDetail:
    """Raises NotFoundError."""
    with desk.store.read() as connection:
        question = QuestionTable(connection).get(question_id)
        variants = VariantTable(connection).page(question_id=question_id, limit=MAX_ROWS).items
        return QuestionDetail(question, _details(connection, actor, variants))


def list_variants(
    desk: Desk,
    actor: Actor,
    *,
    variant_type: VariantTypeKey | None = None,
    run_id: RunId | None = None,
    outcome: VariantOutcome | None = None,
    offset: int = 0,
    limit: int = 50,
) -> VariantPage:
    """Raises InputError for a type or outcome that does not exist."""
    if variant_type is not None and variant_type not in VARIANT_TYPE_KEYS:
        raise InputError(f"variant type {variant_type!r}: use one of {', '.join(VARIANT_TYPE_KEYS)}")
    if outcome is not None and outcome not in VARIANT_OUTCOMES:
        raise InputError(f"outcome {outcome!r}: use one of {', '.join(VARIANT_OUTCOMES)}")
    offset, limit = _bounds(offset, limit)
    with desk.store.read() as connection:
        page = VariantTable(connection).page(
            variant_type=variant_type, run_id=run_id, outcome=outcome, offset=offset, limit=limit
        )
        return VariantPage(_details(connection, actor, page.items), page.total, offset)


def show_variant(desk: Desk, actor: Actor, *, variant_id: VariantId) -> VariantDetail:
    """Raises NotFoundError."""
    with desk.store.read() as connection:
        (detail,) = _details(connection, actor, [VariantTable(connection).get(variant_id)])
        return detail


def _details(connection: Connection, actor: Actor, variants: Sequence[Variant]) -> tuple[VariantDetail, ...]:
    ids = [variant.variant_id for variant in variants]
    questions = QuestionTable(connection).by_ids({variant.question_id for variant in variants})
    verdicts = VerdictTable(connection).latest_for(ids)
    checks = ContractCheckTable(connection).by_variant(ids)
    # Engineers measure on the command line, which cannot label.
    blind = frozenset[VariantId]() if actor == OPERATOR else QueueTable(connection).blind_to(ids, actor.name)
    labels = _labels(connection, actor, ids)
    decisions = DecisionTable(connection).by_ids(ids)
    return tuple(
        VariantDetail(
            variant,
            questions[variant.question_id],
            tuple(of_it := checks.get(variant.variant_id, [])),
            contract_passes(of_it) if of_it else None,
            () if variant.variant_id in blind else tuple(verdicts.get(variant.variant_id, ())),
            is_blind=variant.variant_id in blind,
            labels=labels.get(variant.variant_id, ()),
            decision=decisions.get(variant.variant_id) if variant.variant_id in labels else None,
        )
        for variant in variants
    )


def _labels(
    connection: Connection, actor: Actor, ids: Sequence[VariantId]
) -> dict[VariantId, tuple[CurrentLabel, ...]]:
    """Labels by variant, as far as `actor` may see them."""
    shown = {}
    for variant_id, annotations in AnnotationTable(connection).current_of_variants(ids).items():
        standing = [annotation for annotation in annotations if not annotation.is_deleted]
        if standing and (actor.role == "lead" or any(one.annotator == actor.name for one in standing)):
            shown[variant_id] = standing
    synced = OutboxTable(connection).synced([one.annotation_id for standing in shown.values() for one in standing])
    return {
        variant_id: tuple(CurrentLabel(one, synced.get((one.annotation_id, one.revision))) for one in standing)
        for variant_id, standing in shown.items()
    }


def _bounds(offset: int, limit: int) -> tuple[int, int]:
    return max(0, min(offset, _MAX_OFFSET)), max(1, min(limit, MAX_ROWS))
