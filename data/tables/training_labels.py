"""People's answers as training needs them: the answers, what they rest on, and why some cannot be used.

Reads decisions, annotations and verdicts; refuses to write, or to choose a run's labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

from data.records import Answers, QuestionId, VariantId, VariantTypeKey
from data.store import Connection

Standing = Literal["annotations", "adjudication", "bulk", "undecided", "incomplete", "skipped", "deleted"]
"""What a decision rests on, or why there is none: `undecided` where people disagree."""

_NOT_GENERATED: Final = "('sample', 'import')"
_VOICES: Final = """
    SELECT * FROM annotation_current
    WHERE NOT is_deleted AND NOT is_skipped AND tc IS NOT NULL AND lc IS NOT NULL AND au IS NOT NULL
"""


class Maker(NamedTuple):
    """The backend and model of a recipe."""

    backend: str
    model: str


class AnswerPair(NamedTuple):
    """Two people's answers on the same variant."""

    one: Answers
    other: Answers


@dataclass(frozen=True, slots=True)
class AnsweredVariant:
    """A variant that somebody has annotated. `answers` are empty unless `standing` is a decision's basis.

    `is_blind`: nobody behind the decision had seen a verdict. An adjudication never is, because the lead sees them all.
    `labelled_at` is the time of the last answer. `cluster` is the question's.
    """

    variant_id: VariantId
    question_id: QuestionId
    cluster: str
    variant_type: VariantTypeKey
    maker: Maker
    passes_contract: bool
    standing: Standing
    answers: Answers
    is_blind: bool
    labelled_at: datetime


class TrainingLabelTable:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def answered(self) -> list[AnsweredVariant]:
        """All variants ever annotated or decided, oldest answer first."""
        rows = self._connection.execute(
            f"""
            WITH people AS (
                SELECT variant_id, max(updated_at) AS last_at,
                    bool_or(NOT is_deleted) AS stands,
                    bool_or(NOT is_deleted AND NOT is_skipped) AS answers
                FROM annotation_current GROUP BY variant_id
            ),
            voiced AS (SELECT DISTINCT variant_id FROM ({_VOICES})),
            behind AS (
                SELECT b.variant_id, bool_and(a.is_blind) AS is_blind, max(a.updated_at) AS last_at
                FROM (SELECT variant_id, unnest(annotation_ids) AS annotation_id FROM decision) b
                JOIN annotation_current a USING (annotation_id) GROUP BY b.variant_id
            )
            SELECT v.variant_id, v.question_id, q.cluster_id, v.variant_type, v.recipe_backend, v.recipe_model,
                coalesce(c.passes, false),
                CASE WHEN d.variant_id IS NOT NULL THEN d.basis
                     WHEN voiced.variant_id IS NOT NULL THEN 'undecided'
                     WHEN people.answers THEN 'incomplete'
                     WHEN people.stands THEN 'skipped' ELSE 'deleted' END,
                d.tc, d.lc, d.au,
                coalesce(d.basis = 'annotations' AND behind.is_blind, false),
                coalesce(CASE WHEN d.basis = 'annotations' THEN behind.last_at END, d.decided_at, people.last_at)
                    AS spoken_at
            FROM (SELECT variant_id FROM people UNION SELECT variant_id FROM decision) AS known
            JOIN variant v USING (variant_id)
            JOIN question q USING (question_id)
            LEFT JOIN decision d USING (variant_id)
            LEFT JOIN people USING (variant_id)
            LEFT JOIN voiced USING (variant_id)
            LEFT JOIN behind USING (variant_id)
            LEFT JOIN contract_outcome c USING (variant_id)
            ORDER BY spoken_at, v.variant_id
            """
        ).fetchall()
        return [_answered(row) for row in rows]

    def newest_maker(self) -> Maker | None:
        """What generated the newest variant; None if none was generated here."""
        rows = self._connection.execute(
            f"SELECT recipe_backend, recipe_model FROM variant WHERE recipe_backend NOT IN {_NOT_GENERATED} "
            "ORDER BY created_at DESC, variant_id LIMIT 1"
        ).fetchall()
        return Maker(*rows[0]) if rows else None

    def misjudged(self, variant_ids: Sequence[VariantId]) -> list[VariantId]:
        """Those on which some verifier ever contradicted the decision, on any target, by id."""
        rows = self._connection.execute(
            """
            SELECT DISTINCT variant_id FROM verdict JOIN decision d USING (variant_id)
            WHERE variant_id IN (SELECT unnest(?::TEXT[])) AND label <> CASE target
                WHEN 'TC' THEN d.tc WHEN 'LC' THEN d.lc WHEN 'AU' THEN d.au ELSE d.outcome = 'accepted' END
            ORDER BY variant_id
            """,
            [list(variant_ids)],
        ).fetchall()
        return [VariantId(row[0]) for row in rows]

    def blind_pairs(self) -> list[AnswerPair]:
        """Every pair of people's newest complete answers on one variant, if both were given blind."""
        rows = self._connection.execute(
            f"""
            WITH voice AS (
                SELECT variant_id, annotator, tc, lc, au FROM ({_VOICES})
                QUALIFY row_number() OVER (
                    PARTITION BY variant_id, annotator ORDER BY updated_at DESC, annotation_id DESC
                ) = 1 AND is_blind
            )
            SELECT a.tc, a.lc, a.au, b.tc, b.lc, b.au FROM voice a JOIN voice b USING (variant_id)
            WHERE a.annotator < b.annotator ORDER BY variant_id, a.annotator, b.annotator
            """
        ).fetchall()
        return [AnswerPair(Answers(*row[:3]), Answers(*row[3:])) for row in rows]

    def promptable_questions(self) -> dict[QuestionId, str]:
        """Current questions with an answer, from which variants can be generated, with their cluster; by id."""
        rows = self._connection.execute(
            "SELECT question_id, cluster_id FROM question "
            "WHERE superseded_by IS NULL AND answer_index IS NOT NULL ORDER BY question_id"
        ).fetchall()
        return {QuestionId(question_id): cluster for question_id, cluster in rows}


def _answered(row: Sequence[object]) -> AnsweredVariant:
    variant_id, question_id, cluster, kind, backend, model, passes, standing, tc, lc, au, is_blind, labelled_at = row
    return AnsweredVariant(
        variant_id=VariantId(str(variant_id)),
        question_id=QuestionId(str(question_id)),
        cluster=str(cluster),
        variant_type=kind,  # type: ignore[arg-type]  # written from a Variant alone
        maker=Maker(str(backend), str(model)),
        passes_contract=bool(passes),
        standing=standing,  # type: ignore[arg-type]  # the query's own words, or a Decision's basis
        answers=Answers(tc, lc, au),  # type: ignore[arg-type]  # BOOLEAN columns
        is_blind=bool(is_blind),
        labelled_at=labelled_at,  # type: ignore[arg-type]  # TIMESTAMPTZ
    )
