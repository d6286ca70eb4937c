"""The reviewer's form: its limits, and the annotation it becomes. Pure; refuses the store."""

import math
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from annotation.tasks import answer_hash
from data.errors import InputError
from data.records import Annotation, AnnotationId, Answers, Draft, Variant, VariantId

MAX_TEXT_CHARACTERS: Final = 20_000
MAX_LEAD_TIME_S: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """A filled-in form.

    `lead_time_s` is how long the item was shown; `shown_verifier` names the verifier whose verdicts were shown with it.
    """

    answers: Answers
    corrected_answer_index: int | None = None
    corrected_text: str | None = None
    comment: str = ""
    is_flagged: bool = False
    lead_time_s: float | None = None
    shown_verifier: str | None = None


EMPTY_FORM: Final = AnswerForm(Answers(None, None, None))
"""A form without any answers."""


def form_of_draft(draft: Draft) -> AnswerForm:
    return AnswerForm(
        draft.answers, draft.corrected_answer_index, draft.corrected_text, draft.comment, draft.is_flagged
    )


def form_of_annotation(annotation: Annotation) -> AnswerForm:
    return AnswerForm(
        annotation.answers,
        annotation.corrected_answer_index,
        annotation.corrected_text,
        annotation.comment,
        annotation.is_flagged,
    )


def check_form(form: AnswerForm, variant: Variant) -> None:
    """Raises InputError if the form does not fit the variant or is too long to store."""
    index = form.corrected_answer_index
    if index is not None and not 0 <= index < len(variant.options):
        raise InputError(
            f"corrected answer {index + 1}: the variant has only {len(variant.options)} options; choose one of them"
        )
    for name, text in (("comment", form.comment), ("corrected text", form.corrected_text or "")):
        if len(text) > MAX_TEXT_CHARACTERS:
            raise InputError(f"the {name} has {len(text):,} characters; shorten it to {MAX_TEXT_CHARACTERS:,}")
        if "\x00" in text:
            raise InputError(f"the {name} contains a NUL character; remove it")
    seconds = form.lead_time_s
    if seconds is not None and not (math.isfinite(seconds) and 0 <= seconds <= MAX_LEAD_TIME_S):
        raise InputError(f"lead time {seconds} s is not between 0 and {MAX_LEAD_TIME_S:.0f}; open the item again")


def console_annotation(
    variant_id: VariantId,
    form: AnswerForm,
    *,
    annotator: str,
    previous: Annotation | None,
    revision: int,
    is_skipped: bool,
    is_blind: bool,
    config_hash: str,
    guidelines_version: str,
    now: datetime,
) -> Annotation:
    """A new annotation, or the next revision of `previous`, with the same id, creation time and Label Studio ids."""
    return Annotation(
        annotation_id=AnnotationId("a_" + secrets.token_hex(10)) if previous is None else previous.annotation_id,
        revision=revision,
        variant_id=variant_id,
        annotator=annotator,
        updated_by=annotator,
        answers=form.answers,
        corrected_answer_index=form.corrected_answer_index,
        corrected_text=form.corrected_text or None,
        comment=form.comment,
        is_flagged=form.is_flagged,
        is_skipped=is_skipped,
        is_deleted=False,
        is_blind=is_blind,
        shown_verifier=None if is_blind else form.shown_verifier,
        origin="console",
        ls_server=None if previous is None else previous.ls_server,
        ls_task_id=None if previous is None else previous.ls_task_id,
        ls_annotation_id=None if previous is None else previous.ls_annotation_id,
        config_hash=config_hash,
        guidelines_version=guidelines_version,
        lead_time_s=form.lead_time_s,
        created_at=now if previous is None else previous.created_at,
        updated_at=now,
        content_hash=answer_hash(
            form.answers,
            corrected_answer_index=form.corrected_answer_index,
            corrected_text=form.corrected_text,
            comment=form.comment,
            is_flagged=form.is_flagged,
            is_skipped=is_skipped,
        ),
    )
