"""Parses Label Studio's JSON into a person's answers, or why it cannot be read. Pure; drops nothing silently.

Label Studio does not validate results (unknown choices and odd scores get 201), so everything is checked here against
the controls in `labels`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from annotation.labels import (
    CHOICE_CONTROLS,
    COMMENT,
    CORRECTED_ANSWER,
    CORRECTED_TEXT,
    FLAG,
    OPTION_LETTERS,
    PROVENANCE,
    TEXT_CONTROLS,
    YES,
    control_of,
)
from annotation.tasks import answer_hash, storable
from data.dimensions import AU, LC, TC
from data.records import AnnotationId, Answers


@dataclass(frozen=True, slots=True)
class Provenance:
    """The content of our hidden field, for a label created in the console."""

    annotation_id: AnnotationId
    revision: int
    is_blind: bool
    shown_verifier: str | None
    guidelines_version: str
    config_hash: str


@dataclass(frozen=True, slots=True)
class InboundAnnotation:
    """An annotation as stored in Label Studio. `completed_by` and `updated_by` are its user ids.

    `is_empty`: neither skipped nor answered; kept, and shown as needing attention.
    """

    ls_annotation_id: int
    completed_by: int | None
    updated_by: int | None
    answers: Answers
    corrected_answer_index: int | None
    corrected_text: str | None
    comment: str
    is_flagged: bool
    is_skipped: bool
    lead_time_s: float | None
    created_at: datetime
    updated_at: datetime
    provenance: Provenance | None

    @property
    def content_hash(self) -> str:
        return answer_hash(
            self.answers,
            corrected_answer_index=self.corrected_answer_index,
            corrected_text=self.corrected_text,
            comment=self.comment,
            is_flagged=self.is_flagged,
            is_skipped=self.is_skipped,
        )

    @property
    def is_empty(self) -> bool:
        has_remark = self.corrected_answer_index is not None or self.corrected_text or self.comment or self.is_flagged
        return not self.is_skipped and self.answers.is_empty and not has_remark


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an annotation or task is quarantined; `reason` is one line for people.

    Id and time stamp are None if even they cannot be read.
    """

    ls_annotation_id: int | None
    updated_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class InboundTask:
    """A task on a page. `annotations` has the outcome for each; `ls_annotation_ids` all annotation ids of the task."""

    ls_task_id: int
    updated_at: datetime
    annotations: tuple[tuple[InboundAnnotation | Unreadable, Mapping[str, object]], ...]
    ls_annotation_ids: frozenset[int]

    @property
    def stamps(self) -> dict[int, datetime]:
        """`updated_at` by annotation id, even for annotations with no other content on the page."""
        read = [(each.ls_annotation_id, each.updated_at) for each, _ in self.annotations]
        return {each: stamp for each, stamp in read if each is not None and stamp is not None}


def task_from(payload: object, *, option_count: int) -> InboundTask | Unreadable:
    """One task with its annotations; an unreadable annotation does not affect the others.

    Args:
        option_count: number of options of the task's variant, the limit for a corrected answer.
    """
    try:
        task = _Task.model_validate(payload)
    except ValidationError as exc:
        return Unreadable(None, None, f"task: {_first(exc)}")
    annotations = tuple((annotation_from(each, option_count=option_count), _object(each)) for each in task.annotations)
    ids = [_id_of(each) for each in task.annotations]
    return InboundTask(task.id, task.updated_at, annotations, frozenset(each for each in ids if each is not None))


def task_id_of(payload: object) -> int | None:
    """Just the id, even of a task that cannot be read otherwise."""
    return _id_of(payload)


def annotation_from(payload: object, *, option_count: int) -> InboundAnnotation | Unreadable:
    """The person's answers, or why they do not fit the label config."""
    try:
        raw = _Annotation.model_validate(payload)
        given = _by_control(raw.result or ())
        index = _corrected_index(given, option_count)
        provenance = _provenance(given)
    except ValidationError as exc:
        return Unreadable(_id_of(payload), _stamp_of(payload), _first(exc))
    except _DoesNotFitError as exc:
        return Unreadable(_id_of(payload), _stamp_of(payload), str(exc))
    answers = [given.get(control_of(dimension.key)) for dimension in (TC, LC, AU)]
    return InboundAnnotation(
        ls_annotation_id=raw.id,
        completed_by=raw.completed_by,
        updated_by=raw.updated_by,
        answers=Answers(*(None if answer is None else answer == YES for answer in answers)),
        corrected_answer_index=index,
        corrected_text=given.get(CORRECTED_TEXT) or None,
        comment=given.get(COMMENT, ""),
        is_flagged=FLAG in given,
        is_skipped=raw.was_cancelled or False,
        lead_time_s=raw.lead_time,
        created_at=raw.created_at,
        updated_at=raw.updated_at,
        provenance=provenance,
    )


def kept_json(payload: object) -> str:
    """The original payload in JSON that every parser accepts: NaN and infinities as text, no lone surrogates."""
    return json.dumps(_plain(payload), ensure_ascii=False, sort_keys=True)


class _DoesNotFitError(Exception):
    """The result has the right JSON shape but does not match the label config."""


def _utc(stamp: datetime) -> datetime:
    """Naive time stamps are UTC, as Label Studio means them."""
    return stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)


def _user_id(user: object) -> object:
    """A number in listings, an object with an id in single annotations."""
    return user.get("id") if isinstance(user, Mapping) else user


def _seconds(lead_time: object) -> float | None:
    """An invalid duration must not cost a label: it is ignored."""
    if isinstance(lead_time, bool) or not isinstance(lead_time, int | float):
        return None
    return float(lead_time) if math.isfinite(lead_time) and lead_time >= 0 else None


Stamp = Annotated[datetime, AfterValidator(_utc)]
Id = Annotated[int, Field(ge=0, lt=2**63)]  # the range of a BIGINT
UserId = Annotated[Id | None, BeforeValidator(_user_id)]


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")

    from_name: str
    value: Mapping[str, object]


class _Annotation(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: Id
    result: list[_Item] | None = None
    completed_by: UserId = None
    updated_by: UserId = None
    was_cancelled: bool | None = False
    lead_time: Annotated[float | None, BeforeValidator(_seconds)] = None
    created_at: Stamp
    updated_at: Stamp


class _Stamped(BaseModel):
    model_config = ConfigDict(extra="ignore")

    updated_at: Stamp


class _Task(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: Id
    updated_at: Stamp
    annotations: list[object] = Field(default_factory=list)


class _ProvenanceField(BaseModel):
    model_config = ConfigDict(extra="ignore")

    annotation_id: str
    revision: int
    is_blind: bool
    shown_verifier: str | None
    guidelines_version: str
    config_hash: str


def _by_control(items: Sequence[_Item]) -> dict[str, str]:
    """The single value of each control that has one."""
    given: dict[str, str] = {}
    for item in items:
        name = item.from_name
        if name in given:
            raise _DoesNotFitError(f"control {name!r} occurs twice")
        if name in CHOICE_CONTROLS:
            given[name] = _single_choice(name, item.value)
        elif name in TEXT_CONTROLS:
            given[name] = _text(name, item.value)
        else:
            raise _DoesNotFitError(f"control {name!r} is not in the label config")
    return given


def _single_choice(name: str, value: Mapping[str, object]) -> str:
    choices = value.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise _DoesNotFitError(f"control {name!r} takes one choice but has {choices!r}")
    if choices[0] not in CHOICE_CONTROLS[name]:
        raise _DoesNotFitError(f"choice {choices[0]!r} of control {name!r} is not in the label config")
    return str(choices[0])


def _text(name: str, value: Mapping[str, object]) -> str:
    text = value.get("text")
    lines = [text] if isinstance(text, str) else text
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise _DoesNotFitError(f"control {name!r} should have a text but has {text!r}")
    return storable("\n".join(lines))


def _corrected_index(given: Mapping[str, str], option_count: int) -> int | None:
    letter = given.get(CORRECTED_ANSWER)
    if letter is None:
        return None
    index = OPTION_LETTERS.index(letter)
    if index >= option_count:
        raise _DoesNotFitError(f"corrected answer {letter}: the variant has only {option_count} options")
    return index


def _provenance(given: Mapping[str, str]) -> Provenance | None:
    """None if the hidden field is absent or was tampered with: the label then counts as Label Studio's own."""
    try:
        field = _ProvenanceField.model_validate_json(given.get(PROVENANCE, ""))
    except ValidationError:
        return None
    return Provenance(
        AnnotationId(field.annotation_id),
        field.revision,
        field.is_blind,
        field.shown_verifier,
        field.guidelines_version,
        field.config_hash,
    )


def _id_of(payload: object) -> int | None:
    number = payload.get("id") if isinstance(payload, Mapping) else None
    is_id = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
    return number if is_id else None


def _stamp_of(payload: object) -> datetime | None:
    try:
        return _Stamped.model_validate(payload).updated_at
    except ValidationError:
        return None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {storable(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return storable(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _object(payload: object) -> Mapping[str, object]:
    return payload if isinstance(payload, Mapping) else {"payload": payload}


def _first(exc: ValidationError) -> str:
    error = exc.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, error['loc'])) or 'payload'}: {error['msg']}"
