"""A store with variants, and the ways in which the desk and the sync change it."""

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import jwt as tokens

from annotation.adjudication import refresh_decisions
from annotation.client import LabelStudioClient
from annotation.labels import label_config_hash
from annotation.sync import LabelStudioSync
from annotation.tasks import answer_hash
from data.ids import question_id, variant_id
from data.records import Annotation, AnnotationId, Answers, Question, Recipe, Variant, VariantId, Verdict, VerdictTarget
from data.store import Store
from data.tables.annotations import AnnotationTable
from data.tables.outbox import OutboxTable
from data.tables.questions import QuestionTable
from data.tables.queue import QueueItem, QueueTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from tests.annotation.fake_label_studio import FakeLabelStudio

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
YES = Answers(True, True, True)
NO_AU = Answers(True, True, False)
PROBABILITIES: dict[VerdictTarget, float] = {"TC": 0.9, "LC": 0.8, "AU": 0.4}


@dataclass
class Clock:
    """Moves by a tick at every look."""

    at: datetime = NOW

    def __call__(self) -> datetime:
        self.at += timedelta(microseconds=10)
        return self.at

    def tick(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass(repr=False)
class Bench:
    """A store with variants and the ways in which the desk changes it."""

    store: Store
    clock: Clock
    variants: list[Variant] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Bench({len(self.variants)} variants)"

    def add_variants(self, count: int, *, options: int = 4) -> list[VariantId]:
        question = a_question()
        new = [a_variant(question, len(self.variants) + number, options=options) for number in range(count)]
        with self.store.write() as connection:
            QuestionTable(connection).upsert([question], now=NOW)
            VariantTable(connection).upsert(new)
        self.variants += new
        return [variant.variant_id for variant in new]

    def judge(self, variant_ids: list[VariantId], version: str = "feature-1") -> None:
        verdicts = [
            Verdict(each, target, probability, probability >= 0.5, version, "feature", None, NOW)
            for each in variant_ids
            for target, probability in PROBABILITIES.items()
        ]
        with self.store.write() as connection:
            VerdictTable(connection).upsert(verdicts)

    def queue(self, variant_ids: list[VariantId], *, is_blind: bool = False) -> None:
        with self.store.write() as connection:
            QueueTable(connection).add([QueueItem(each, is_blind, 1, 0.3, 1.0, "random", NOW) for each in variant_ids])

    def submit(
        self,
        variant: VariantId,
        answers: Answers = YES,
        *,
        by: str = "ana",
        annotation_id: str | None = None,
        **said: object,
    ) -> Annotation:
        """As the review desk does: revision, outbox row and decision in one transaction."""
        with self.store.write() as connection:
            annotations = AnnotationTable(connection)
            name = AnnotationId(f"a_{variant}_{by}")
            now = self.clock()
            before = annotations.current(name)
            annotation = an_annotation(
                name,
                variant,
                answers,
                annotator=by,
                updated_by=by,
                revision=annotations.next_revision(name),
                created_at=now if before is None else before.created_at,
                updated_at=now,
                **said,
            )
            annotations.append(annotation)
            OutboxTable(connection).add(kind="annotation", annotation_id=name, revision=annotation.revision, now=now)
            refresh_decisions(connection, [variant], now)
        return annotation

    def current(self, variant: VariantId) -> list[Annotation]:
        with self.store.read() as connection:
            return AnnotationTable(connection).current_of_variant(variant)

    def revisions(self, annotation_id: AnnotationId) -> list[Annotation]:
        with self.store.read() as connection:
            return AnnotationTable(connection).revisions(annotation_id)

    def synced_at(self, annotation: Annotation) -> datetime | None:
        with self.store.read() as connection:
            return OutboxTable(connection).synced_at(annotation.annotation_id, annotation.revision)


def a_question() -> Question:
    context, options = "The kettle boils.", ("She pours.", "She sings.", "It rains.", "He sleeps.")
    return Question(question_id(context, options, 0), context, options, 0, "sample", "1")


def a_variant(question: Question, number: int, *, options: int = 4) -> Variant:
    texts = tuple(f"option {number} {index}" for index in range(options))
    context = f"What will not happen {number}?"
    identity = variant_id(question.question_id, "negation", context, texts, 1)
    recipe = Recipe("rules", "rules-1", "1", "{}", number)
    return Variant(identity, question.question_id, "negation", context, texts, 1, False, None, recipe, None, NOW)


def an_annotation(annotation_id: str, variant: VariantId, answers: Answers = YES, **fields: Any) -> Annotation:
    blank = Annotation(
        annotation_id=AnnotationId(annotation_id),
        revision=1,
        variant_id=variant,
        annotator="ana",
        updated_by="ana",
        answers=answers,
        corrected_answer_index=None,
        corrected_text=None,
        comment="",
        is_flagged=False,
        is_skipped=False,
        is_deleted=False,
        is_blind=False,
        shown_verifier="feature-1",
        origin="console",
        ls_server=None,
        ls_task_id=None,
        ls_annotation_id=None,
        config_hash=label_config_hash(),
        guidelines_version="1",
        lead_time_s=4.5,
        created_at=NOW,
        updated_at=NOW,
        content_hash="",
    )
    annotation = replace(blank, **fields)
    return replace(
        annotation,
        content_hash=answer_hash(
            annotation.answers,
            corrected_answer_index=annotation.corrected_answer_index,
            corrected_text=annotation.corrected_text,
            comment=annotation.comment,
            is_flagged=annotation.is_flagged,
            is_skipped=annotation.is_skipped,
        ),
    )


def sync_with(fake: FakeLabelStudio, bench: Bench, **settings: Any) -> LabelStudioSync:
    client = LabelStudioClient(
        "http://label-studio.test", "ab" * 20, rng=Random(1), transport=fake.transport(), sleep=lambda seconds: None
    )
    return LabelStudioSync(bench.store, client, now=bench.clock, rng=Random(2), **settings)


def jwt(kind: str, number: int) -> str:
    """A token of an hour, as Label Studio's own: `kind` is "refresh" or "access"."""
    claims = {"token_type": kind, "exp": int(time.time()) + 3600, "jti": number}
    return str(tokens.encode(claims, "k" * 32, algorithm="HS256"))
