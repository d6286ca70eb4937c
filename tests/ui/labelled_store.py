"""A store whose variants people have answered, through the ways in which the desk itself writes."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

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
    variants: dict[VariantId, Variant] = field(default_factory=dict)

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
        question = Question(question_id(context, OPTIONS, 0), context, OPTIONS, 0, benchmark, context)
        QuestionTable(self.connection).upsert([question], now=self.now)
        if part is not None:
            ClusterPartTable(self.connection).add({cluster_id(context, OPTIONS): part}, self.now)
        made = []
        for number in range(variants):
            self._tick()
            text = f"{context} ({model}, {number})"
            recipe = Recipe("rules", model, "p1", "{}", number)
            made.append(
                Variant(
                    variant_id=variant_id(question.question_id, "restatement", text, OPTIONS, 0),
                    question_id=question.question_id,
                    variant_type="restatement",
                    context=text,
                    options=OPTIONS,
                    answer_index=0,
                    is_control=False,
                    shuffle_seed=None,
                    recipe=recipe,
                    run_id=None,
                    created_at=self.now,
                )
            )
        VariantTable(self.connection).upsert(made)
        ContractCheckTable(self.connection).upsert(
            [ContractCheck(variant.variant_id, "options", passes, True, "") for variant in made]
        )
        self.variants |= {variant.variant_id: variant for variant in made}
        return [variant.variant_id for variant in made]

    def say(
        self,
        variant: VariantId,
        answers: Answers = YES,
        *,
        who: str = "ana",
        is_blind: bool = True,
        is_skipped: bool = False,
        is_deleted: bool = False,
    ) -> AnnotationId:
        """A further revision of what `who` says of it; the decision follows."""
        self._tick()
        name = AnnotationId(f"a_{variant}_{who}")
        table = AnnotationTable(self.connection)
        table.append(
            Annotation(
                annotation_id=name,
                revision=table.next_revision(name),
                variant_id=variant,
                annotator=who,
                updated_by=who,
                answers=answers,
                corrected_answer_index=None,
                corrected_text=None,
                comment="",
                is_flagged=False,
                is_skipped=is_skipped,
                is_deleted=is_deleted,
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
        )
        refresh_decisions(self.connection, [variant], self.now)
        return name

    def decide(self, variant: VariantId, decision: Decision) -> None:
        """As a lead does, over people's heads."""
        self._tick()
        DecisionTable(self.connection).upsert(decision)

    def adjudicate(self, variant: VariantId, answers: Answers) -> None:
        outcome = "accepted" if answers.is_valid else "rejected"
        self.decide(variant, Decision(variant, outcome, answers, "adjudication", (), "lea", self.now))

    def decide_in_bulk(self, variant: VariantId) -> None:
        self.decide(variant, Decision(variant, "accepted", YES, "bulk", (), "lea", self.now))

    def _tick(self) -> None:
        self.now += timedelta(minutes=1)


def cluster_of(context: str) -> str:
    """Of a question that `LabelledStore.ask` made."""
    return cluster_id(context, OPTIONS)
