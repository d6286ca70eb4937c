"""A store whose variants people have answered, through the ways in which the desk itself writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from annotation.adjudication import refresh_decisions
from data.ids import cluster_id, question_id, variant_id
from data.records import (
    Annotation,
    AnnotationId,
    Answers,
    ContractCheck,
    Decision,
    Part,
    Question,
    Recipe,
    Variant,
    VariantId,
)
from data.store import Connection
from data.tables.annotations import AnnotationTable
from data.tables.cluster_parts import ClusterPartTable
from data.tables.contract_checks import ContractCheckTable
from data.tables.decisions import DecisionTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
YES = Answers(True, True, True)
NO = Answers(True, False, True)
OPTIONS = ("She makes tea", "She flies")


@dataclass
class LabelledStore:
    """Writes on `connection`; each word is a minute after the one before."""

    connection: Connection
    now: datetime = NOON

    def ask(
        self,
        context: str,
        *,
        part: Part | None = None,
        benchmark: str = "mini",
        model: str = "rules-1",
        passes: bool = True,
        variants: int = 1,
    ) -> list[VariantId]:
        """One question with variants; its cluster goes into `part` where one is given."""
        if part is not None:
            ClusterPartTable(self.connection).add({cluster_id(context, OPTIONS): part}, self.now)
        return self.ask_many([context], benchmark=benchmark, model=model, passes=passes, variants=variants)[0]

    def ask_many(
        self,
        contexts: Sequence[str],
        *,
        variants: int,
        benchmark: str = "mini",
        model: str = "rules-1",
        passes: bool = True,
    ) -> list[list[VariantId]]:
        """The variants of each question."""
        questions = [
            Question(question_id(context, OPTIONS, 0), context, OPTIONS, 0, benchmark, context) for context in contexts
        ]
        made = [
            [self._variant(question, model=model, number=number) for number in range(variants)]
            for question in questions
        ]
        flat = [variant for of_one in made for variant in of_one]
        QuestionTable(self.connection).upsert(questions, now=self.now)
        VariantTable(self.connection).upsert(flat)
        ContractCheckTable(self.connection).upsert(
            [ContractCheck(variant.variant_id, "options", passes, True, "") for variant in flat]
        )
        return [[variant.variant_id for variant in of_one] for of_one in made]

    def say(
        self,
        variant: VariantId,
        answers: Answers = YES,
        *,
        who: str = "ana",
        is_blind: bool = True,
        is_skipped: bool = False,
        is_deleted: bool = False,
    ) -> None:
        """A further revision of what `who` says of it; the decision follows."""
        name = AnnotationId(f"a_{variant}_{who}")
        revision = AnnotationTable(self.connection).next_revision(name)
        said = self._annotation(variant, answers, who=who, is_blind=is_blind)
        self._append([replace(said, revision=revision, is_skipped=is_skipped, is_deleted=is_deleted)])

    def say_at_once(self, said: Iterable[tuple[VariantId, Answers, bool]]) -> None:
        """The first words of one person on many variants: answers, and whether they were given blind."""
        self._append(
            [self._annotation(variant, answers, who="ana", is_blind=is_blind) for variant, answers, is_blind in said]
        )

    def decide(self, variant: VariantId, decision: Decision) -> None:
        """As a lead does, over people's heads."""
        self._tick()
        DecisionTable(self.connection).upsert(decision)

    def adjudicate(self, variant: VariantId, answers: Answers) -> None:
        outcome: Literal["accepted", "rejected"] = "accepted" if answers.is_valid else "rejected"
        self.decide(variant, Decision(variant, outcome, answers, "adjudication", (), "lea", self.now))

    def decide_in_bulk(self, variant: VariantId) -> None:
        self.decide(variant, Decision(variant, "accepted", YES, "bulk", (), "lea", self.now))

    def _variant(self, question: Question, *, model: str, number: int) -> Variant:
        self._tick()
        text = f"{question.context} ({model}, {number})"
        return Variant(
            variant_id=variant_id(question.question_id, "restatement", text, OPTIONS, 0),
            question_id=question.question_id,
            variant_type="restatement",
            context=text,
            options=OPTIONS,
            answer_index=0,
            is_control=False,
            shuffle_seed=None,
            recipe=Recipe("rules", model, "p1", "{}", number),
            run_id=None,
            created_at=self.now,
        )

    def _annotation(self, variant: VariantId, answers: Answers, *, who: str, is_blind: bool) -> Annotation:
        self._tick()
        return Annotation(
            annotation_id=AnnotationId(f"a_{variant}_{who}"),
            revision=1,
            variant_id=variant,
            annotator=who,
            updated_by=who,
            answers=answers,
            corrected_answer_index=None,
            corrected_text=None,
            comment="",
            is_flagged=False,
            is_skipped=False,
            is_deleted=False,
            is_blind=is_blind,
            shown_verifier=None if is_blind else "v1",
            origin="console",
            ls_server=None,
            ls_task_id=None,
            ls_annotation_id=None,
            config_hash="c",
            guidelines_version="1",
            lead_time_s=None,
            created_at=self.now,
            updated_at=self.now,
            content_hash=f"{self.now}",
        )

    def _append(self, said: list[Annotation]) -> None:
        AnnotationTable(self.connection).append_many(said)
        refresh_decisions(self.connection, [annotation.variant_id for annotation in said], self.now)

    def _tick(self) -> None:
        self.now += timedelta(minutes=1)


def cluster_of(context: str) -> str:
    """Of a question that `LabelledStore.ask` made."""
    return cluster_id(context, OPTIONS)
