"""The domain records as frozen values. Standard library only; refuses behaviour beyond derived properties.

All timestamps are timezone-aware UTC. Ids come from `data.ids`. Words: `docs/glossary.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NewType, get_args

from data.dimensions import DimensionKey

QuestionId = NewType("QuestionId", str)
VariantId = NewType("VariantId", str)
AnnotationId = NewType("AnnotationId", str)
RunId = NewType("RunId", str)

VariantTypeKey = Literal["restatement", "reverse", "causal", "ordering", "refinement", "negation", "critical"]
VARIANT_TYPE_KEYS: Final[tuple[VariantTypeKey, ...]] = get_args(VariantTypeKey)
VerdictTarget = Literal["TC", "LC", "AU", "valid"]
VerdictMethod = Literal["feature", "era_packed", "era_separate", "ira"]
VariantOutcome = Literal["accepted", "rejected", "undecided"]
VARIANT_OUTCOMES: Final[tuple[VariantOutcome, ...]] = get_args(VariantOutcome)
Role = Literal["annotator", "lead"]
RunState = Literal["queued", "running", "away", "done", "failed", "cancelled", "lost"]
RUN_STATES: Final[tuple[RunState, ...]] = get_args(RunState)
Part = Literal["train", "validation", "calibration", "gate"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""The split that a question cluster belongs to for good: only `train` is trained on; `gate` judges verifiers."""
LabelSource = Literal["sample", "annotations", "adjudication"]
ModelRole = Literal["verifier", "generator"]
MODEL_ROLES: Final[tuple[ModelRole, ...]] = get_args(ModelRole)
SignOffAction = Literal["promote", "rollback"]


@dataclass(frozen=True, slots=True)
class Question:
    """An imported benchmark item; `answer_index` is 0-based, None where the source has no label.

    An open question has no options and a `final_answer` instead (a number as plain text, such as "1234").
    `benchmark` and `source_key` say where the row came from; the id depends on the content alone.
    """

    question_id: QuestionId
    context: str
    options: tuple[str, ...]
    answer_index: int | None
    benchmark: str
    source_key: str
    subject: str = ""
    source_note: str = ""
    final_answer: str | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a variant was generated. `sampling` is canonical JSON; `seed` is the row's own seed."""

    backend: str
    model: str
    prompt_version: str
    sampling: str
    seed: int


@dataclass(frozen=True, slots=True)
class Variant:
    """A question derived from another. `shuffle_seed` is None where options keep their original order (imports).

    `is_control`: a critical variant whose original answer remains correct (see `docs/glossary.md`).
    """

    variant_id: VariantId
    question_id: QuestionId
    variant_type: VariantTypeKey
    context: str
    options: tuple[str, ...]
    answer_index: int
    is_control: bool
    shuffle_seed: int | None
    recipe: Recipe
    run_id: RunId | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """The result of one check of a type's contract on one variant; a variant passes when every required check holds."""

    variant_id: VariantId
    check: str
    holds: bool
    is_required: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The machine's answer on one dimension, or on validity as a whole (IRA and products).

    `probability` is P(the dimension holds) in 0..1; it and `label` are None for a reply that could not be parsed,
    and `raw` then holds its text.
    """

    variant_id: VariantId
    target: VerdictTarget
    probability: float | None
    label: bool | None
    verifier_version: str
    method: VerdictMethod
    raw: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Answers:
    """A person's three answers; None where a dimension was not answered."""

    tc: bool | None
    lc: bool | None
    au: bool | None

    @property
    def is_complete(self) -> bool:
        return None not in (self.tc, self.lc, self.au)

    @property
    def is_empty(self) -> bool:
        return self.tc is None and self.lc is None and self.au is None

    @property
    def is_valid(self) -> bool | None:
        """v = TC x LC x AU; None while a missing answer could still change it."""
        given = (self.tc, self.lc, self.au)
        if False in given:
            return False
        return None if None in given else True

    def of(self, dimension: DimensionKey) -> bool | None:
        return {"TC": self.tc, "LC": self.lc, "AU": self.au}[dimension]


@dataclass(frozen=True, slots=True)
class Annotation:
    """One revision of one person's answers on one variant; revisions are appended, never overwritten.

    `is_skipped` is a separate state, never a negative label. `is_deleted` marks a tombstone.
    `revision` counts from 1 within an annotation. `content_hash` covers the answers and texts, not the times.
    `config_hash` identifies the label config it was given under.
    `shown_verifier` names the verifier whose verdicts were shown; None for a blind label.
    """

    annotation_id: AnnotationId
    revision: int
    variant_id: VariantId
    annotator: str
    updated_by: str
    answers: Answers
    corrected_answer_index: int | None
    corrected_text: str | None
    comment: str
    is_flagged: bool
    is_skipped: bool
    is_deleted: bool
    is_blind: bool
    shown_verifier: str | None
    origin: Literal["console", "label_studio"]
    ls_server: str | None
    ls_task_id: int | None
    ls_annotation_id: int | None
    config_hash: str
    guidelines_version: str
    lead_time_s: float | None
    created_at: datetime
    updated_at: datetime
    content_hash: str


@dataclass(frozen=True, slots=True)
class Draft:
    """What an annotator has entered but not yet submitted; one per variant and account."""

    variant_id: VariantId
    account: str
    answers: Answers
    corrected_answer_index: int | None
    corrected_text: str | None
    comment: str
    is_flagged: bool
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """The team's final answers on a variant. `basis` says what they rest on."""

    variant_id: VariantId
    outcome: Literal["accepted", "rejected"]
    answers: Answers
    basis: Literal["annotations", "adjudication", "bulk"]
    annotation_ids: tuple[AnnotationId, ...]
    decided_by: str
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class TrainingLabel:
    """A variant's answers for training or evaluating a verifier: those of its decision, or the sample's own.

    `group` is the cluster of its question, which belongs to one `part` only. `is_blind`: nobody whose answer it rests
    on had seen a verdict.
    """

    variant_id: VariantId
    answers: Answers
    group: str
    part: Part
    source: LabelSource
    is_blind: bool
    labelled_at: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a job. `settings` and `result` are JSON objects; `folder` is absolute.

    `pid` with `pid_started_at` (seconds since the epoch) identifies the process; a pid alone does not. A run that is
    `away` was moved to another machine and has no process here.
    """

    run_id: RunId
    kind: str
    state: RunState
    folder: str
    settings: Mapping[str, object]
    submitted_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    pid: int | None
    pid_started_at: float | None
    done: int
    total: int | None
    message: str
    result: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SignOff:
    """A lead's approval of the model in use from then on: `model_id`, which replaced `previous_id`.

    Either is None where no registered model was in use, only the desk's own. `run_id` names the comparison behind it
    and `outcome` its result; None and empty if there was none.
    """

    sign_off_id: int
    role: ModelRole
    action: SignOffAction
    model_id: str | None
    previous_id: str | None
    run_id: RunId | None
    outcome: str
    note: str
    signed_by: str
    signed_at: datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a training of the role is due: after a number of new decisions, or weekly; None switches a rule off.

    `weekday` 0 is Monday; `hour` is in UTC. `may_start`: the training starts when due; otherwise it is proposed.
    """

    role: ModelRole
    after_decisions: int | None
    weekday: int | None
    hour: int | None
    may_start: bool
    updated_by: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Release:
    """A frozen, numbered set of variants. `manifest_sha256` proves that the folder is unchanged."""

    name: str
    number: int
    folder: str
    manifest_sha256: str
    items: int
    created_by: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the desk. `ls_user_id` is their user id in Label Studio, once known."""

    name: str
    display_name: str
    role: Role
    password_hash: str | None
    is_active: bool
    ls_user_id: int | None
    created_at: datetime
