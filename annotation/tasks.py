"""To Label Studio: variant to task, verdicts to prediction, annotation to payload. Pure; for the inverse see `inbound`.

Characters that Label Studio's databases cannot store (NUL, lone surrogates) are replaced.
"""

import json
import re
from collections.abc import Sequence
from typing import Final, TypedDict
from uuid import UUID, uuid5

from annotation.labels import (
    COMMENT,
    CORRECTED_ANSWER,
    CORRECTED_TEXT,
    FLAG,
    FLAGGED,
    NO,
    OPTION_LETTERS,
    PROVENANCE,
    TO_NAME,
    YES,
    control_of,
)
from data.dimensions import DIMENSIONS
from data.ids import content_hash
from data.records import Annotation, AnnotationId, Answers, Question, Variant, Verdict

Json = dict[str, object]


class AnnotationPayload(TypedDict, total=False):
    """Body of an annotation's create or update. `completed_by` is a user id of Label Studio's."""

    result: list[Json]
    was_cancelled: bool
    ground_truth: bool
    lead_time: float | None
    completed_by: int
    unique_id: str


_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_NAMESPACE: Final = UUID("5a9ede5c-0000-5000-8000-000000000000")


def answer_hash(
    answers: Answers,
    *,
    corrected_answer_index: int | None,
    corrected_text: str | None,
    comment: str,
    is_flagged: bool,
    is_skipped: bool,
) -> str:
    """The hash for `Annotation.content_hash`: the same answers and texts have the same hash on both sides."""
    given = [answers.tc, answers.lc, answers.au]
    return content_hash("said", given, corrected_answer_index, corrected_text or None, comment, is_flagged, is_skipped)


def task_payload(
    variant: Variant, question: Question, verdicts: Sequence[Verdict], *, type_name: str, definition: str
) -> Json:
    """One task to import. Pass empty `verdicts` for a blind item: none of them may reach the browser."""
    task: Json = {
        "data": {
            "external_id": variant.variant_id,
            "original": page_text(question.context, question.options, question.answer_index),
            "variant": page_text(variant.context, variant.options, variant.answer_index),
            "variant_type": type_name,
            "definition": definition,
        }
    }
    prediction = prediction_payload(verdicts)
    if prediction is not None:
        task["predictions"] = [prediction]
    return task


def prediction_payload(verdicts: Sequence[Verdict]) -> Json | None:
    """The verifier's answers; the score is their lowest probability. None if it answered nothing."""
    by_target = {verdict.target: verdict for verdict in verdicts if verdict.probability is not None}
    answered = [by_target[dimension.key] for dimension in DIMENSIONS if dimension.key in by_target]
    if not answered:
        return None
    return {
        "model_version": answered[0].verifier_version,
        "score": min(verdict.probability for verdict in answered if verdict.probability is not None),
        "result": [
            _choice(control_of(verdict.target), _yes_no(verdict.label))
            for verdict in answered
            if verdict.target != "valid"
        ],
    }


def annotation_payload(annotation: Annotation, *, completed_by: int) -> AnnotationPayload:
    result: list[Json] = []
    for dimension in DIMENSIONS:
        answer = annotation.answers.of(dimension.key)
        if answer is not None:
            result.append(_choice(control_of(dimension.key), _yes_no(answer)))
    if annotation.corrected_answer_index is not None:
        result.append(_choice(CORRECTED_ANSWER, OPTION_LETTERS[annotation.corrected_answer_index]))
    if annotation.corrected_text:
        result.append(_text(CORRECTED_TEXT, annotation.corrected_text))
    if annotation.comment:
        result.append(_text(COMMENT, annotation.comment))
    if annotation.is_flagged:
        result.append(_choice(FLAG, FLAGGED))
    result.append(_text(PROVENANCE, provenance_text(annotation)))
    return {
        "result": result,
        "was_cancelled": annotation.is_skipped,
        "ground_truth": False,
        "lead_time": annotation.lead_time_s,
        "completed_by": completed_by,
    }


def provenance_text(annotation: Annotation) -> str:
    """JSON for the hidden field: enough to recognise our own label when it comes back."""
    return json.dumps(
        {
            "annotation_id": annotation.annotation_id,
            "revision": annotation.revision,
            "is_blind": annotation.is_blind,
            "shown_verifier": annotation.shown_verifier,
            "guidelines_version": annotation.guidelines_version,
            "config_hash": annotation.config_hash,
        },
        sort_keys=True,
    )


def unique_id(annotation_id: AnnotationId, server: str) -> str:
    """The UUID by which Label Studio rejects a second copy of the same annotation (409)."""
    return str(uuid5(_NAMESPACE, f"{server} {annotation_id}"))


def page_text(context: str, options: Sequence[str], answer_index: int | None) -> str:
    """One page as a reviewer reads it: context, lettered options, the marked answer."""
    lines = [context, ""]
    for index, option in enumerate(options):
        lines.append(f"{_letter(index)}  {option}{'   <- marked answer' if index == answer_index else ''}")
    return storable("\n".join(lines))


def storable(text: str) -> str:
    """`text` with what JSON in PostgreSQL or UTF-8 cannot represent replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def _letter(index: int) -> str:
    return OPTION_LETTERS[index] if index < len(OPTION_LETTERS) else str(index + 1)


def _yes_no(answer: bool | None) -> str:
    return YES if answer else NO


def _choice(control: str, value: str) -> Json:
    return {
        "id": control,
        "from_name": control,
        "to_name": TO_NAME,
        "type": "choices",
        "value": {"choices": [value]},
    }


def _text(control: str, text: str) -> Json:
    return {
        "id": control,
        "from_name": control,
        "to_name": TO_NAME,
        "type": "textarea",
        "value": {"text": [storable(text)]},
    }
