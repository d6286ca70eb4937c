"""From annotations to a decision if people agree. Disagreements wait for a lead."""

from collections.abc import Sequence
from datetime import datetime

from data.dimensions import DIMENSIONS
from data.records import Annotation, Answers, Decision, VariantId
from data.store import Connection
from data.tables.annotations import AnnotationTable
from data.tables.decisions import DecisionTable


def decide(annotations: Sequence[Annotation], now: datetime) -> Decision | None:
    """The decision if all complete annotations of one variant agree; None if they differ or there are none.

    Skipped, deleted, empty and incomplete annotations do not count, and only the newest of each person does.
    `annotations` are current revisions. A dimension is None if people differ on it but agree on the outcome.
    """
    newest: dict[str, Annotation] = {}
    for annotation in annotations:
        if annotation.is_deleted or annotation.is_skipped or not annotation.answers.is_complete:
            continue
        other = newest.get(annotation.annotator)
        if other is None or _age(annotation) > _age(other):
            newest[annotation.annotator] = annotation
    voices = sorted(newest.values(), key=lambda voice: (voice.created_at, voice.annotation_id))
    outcomes = {voice.answers.is_valid for voice in voices}
    if len(outcomes) != 1:
        return None
    given = [{voice.answers.of(dimension.key) for voice in voices} for dimension in DIMENSIONS]
    return Decision(
        variant_id=voices[0].variant_id,
        outcome="accepted" if outcomes.pop() else "rejected",
        answers=Answers(*(answers.pop() if len(answers) == 1 else None for answers in given)),
        basis="annotations",
        annotation_ids=tuple(voice.annotation_id for voice in voices),
        decided_by=", ".join(sorted(newest)),
        decided_at=now,
    )


def refresh_decisions(connection: Connection, variant_ids: Sequence[VariantId], now: datetime) -> None:
    """Write or withdraw the decisions that follow from these variants' annotations, within the caller's transaction.

    A lead's decision (basis adjudication or bulk) stays, as does the time of a decision that does not change.
    """
    if not variant_ids:
        return
    decisions = DecisionTable(connection)
    standing = decisions.by_ids(variant_ids)
    annotations = AnnotationTable(connection).current_of_variants(variant_ids)
    made, withdrawn = [], []
    for variant_id in dict.fromkeys(variant_ids):
        old = standing.get(variant_id)
        if old is not None and old.basis != "annotations":
            continue
        new = decide(annotations.get(variant_id, ()), now)
        if new is None:
            if old is not None:
                withdrawn.append(variant_id)
        elif old is None or _content(old) != _content(new):
            made.append(new)
    decisions.upsert_many(made)
    decisions.remove(withdrawn)


def _age(annotation: Annotation) -> tuple[datetime, str]:
    return annotation.updated_at, annotation.annotation_id


def _content(decision: Decision) -> tuple[object, ...]:
    return decision.outcome, decision.answers, decision.annotation_ids
