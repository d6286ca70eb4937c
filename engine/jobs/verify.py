"""The verification job: reads questions and variants, writes verdicts by any kind of verifier.

inputs/questions.parquet, variants.parquet
inputs/contract_checks.parquet      optional
outputs/parts/*.parquet             verdicts so far; a resumed run does not judge them again
outputs/verdicts.parquet
outputs/contract_checks.parquet     of variants that had none, such as imported ones
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from data.arrow import (
    QUESTION_SCHEMA,
    contract_checks_from,
    contract_checks_table,
    questions_from,
    questions_table,
    variants_from,
    variants_table,
    verdicts_from,
    verdicts_table,
)
from data.errors import JobError
from data.ids import content_hash
from data.records import ContractCheck, Question, Variant, VariantId, Verdict, VerdictTarget
from engine.embedded import EMBEDDED_ENCODER, embedded_folder, model_folder
from engine.executors.local import LocalExecutor
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings
from engine.report_json import Count, dumped, loaded
from engine.variant_types.table import contract_checks, contract_passes
from engine.verifiers import open_verifier, verifier_method, verifier_version
from engine.verify import LanguageMethod, LanguageModelVerifier, Pair, Verifier, language_verifier_version

# A cancel waits for the batch to end, and a crash repeats it: on two cores the feature verifier judges 30 variants per
# second, a small language model one or two.
_FEATURE_BATCH_ROWS: Final = 128
_LANGUAGE_BATCH_ROWS: Final = 16
_ORIGINAL: Final = "original_"


class VerifySettings(BaseModel):
    """Settings of a `verify` run.

    `registered` is a trained verifier of any kind: `model` is its folder, which says how it judges. Otherwise it is
    an untrained language model: a folder or hub id, or None for the embedded one.
    `batch_rows`: variants between saves; None to suit the verifier's speed.
    """

    model_config = ConfigDict(extra="forbid")

    verifier: LanguageMethod | Literal["registered"] = "registered"
    model: str | None = None
    batch_rows: Annotated[int | None, Field(ge=1, le=10_000)] = None


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """How many variants the verifier says yes to, no to, and how many answers could not be read."""

    yes: Count
    no: Count
    unparsed: Count


_VERDICT_COUNTS: Final = TypeAdapter(Mapping[VerdictTarget, VerdictCounts])


class VerifyStep:
    """Rows of `pairs_table` in, verdicts out; the verifier is opened for the first batch that is not saved yet."""

    name: Final = "verify"

    def __init__(self, version: str, open_verifier: Callable[[], Verifier], now: datetime) -> None:
        """`version` must cover weights, prompts and method."""
        self.version = version
        self._open = open_verifier
        self._now = now
        self._verifier: Verifier | None = None

    def setup(self) -> None:
        self._verifier = self._open()

    def __call__(self, rows: pa.Table) -> pa.Table:
        if self._verifier is None:
            self.setup()
        assert self._verifier is not None  # noqa: S101  (set by `setup`)
        return verdicts_table(self._verifier.judge(list(pairs_from(rows)), now=self._now))


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Returns the counts `variants` and `contract_passed`, the verifier's version, and yes/no/unparsed by target.

    Raises:
        JobError: a setting is invalid, there are no variants, or one has no question.
        ModelError: the verifier's model is missing, unsafe or cannot be loaded.
        JobCancelledError: a user stopped it; the verdicts so far are kept for a resume.
    """
    settings = parsed_settings("verify", VerifySettings, folder.spec().settings)
    pairs = pair_up(questions_from(folder.read_input("questions")), variants_from(folder.read_input("variants")))
    if not pairs:
        raise JobError("verify: the run has no variants; generate or import some, or relax the filter")
    known = _known_checks(folder)
    made = {v.variant_id: contract_checks(q, v) for q, v in pairs if v.variant_id not in known}
    report.progress(0, len(pairs), f"opening the {settings.verifier} verifier")
    step, batch_rows = _step(settings, folder)
    executor = LocalExecutor(settings.batch_rows or batch_rows)
    verdicts = [
        verdict
        for part in executor.run(
            step,
            pairs_table(pairs),
            folder.outputs / "parts",
            lambda done, total: report.progress(done, total, f"{done} of {total} variants judged"),
        )
        for verdict in verdicts_from(part)
    ]
    folder.write_output("verdicts", verdicts_table(verdicts))
    folder.write_output("contract_checks", contract_checks_table(check for of_it in made.values() for check in of_it))
    return {
        "variants": len(pairs),
        "contract_passed": sum(map(contract_passes, [*known.values(), *made.values()])),
        "verifier_version": verdicts[0].verifier_version,
        "targets": dumped(_VERDICT_COUNTS, verdict_counts(verdicts)),
    }


def registered_step(verifier: Path, now: datetime) -> tuple[VerifyStep, int]:
    """The step for the verifier in a folder, of any kind, and its batch size in rows.

    Raises:
        ModelError: the folder is not a verifier, or is unsafe.
    """
    encoder = embedded_folder(EMBEDDED_ENCODER)
    step = VerifyStep(content_hash(verifier_version(verifier)), lambda: open_verifier(verifier, encoder=encoder), now)
    return step, _FEATURE_BATCH_ROWS if verifier_method(verifier) == "feature" else _LANGUAGE_BATCH_ROWS


def pair_up(questions: Iterator[Question], variants: Iterator[Variant]) -> list[Pair]:
    """Each variant with its question. Raises JobError if one has none."""
    by_id = {question.question_id: question for question in questions}
    pairs = []
    for variant in variants:
        original = by_id.get(variant.question_id)
        if original is None:
            raise JobError(
                f"verify: variant {variant.variant_id} lacks its question {variant.question_id} in the run's inputs; "
                f"start the run again from the desk"
            )
        pairs.append((original, variant))
    return pairs


def pairs_table(pairs: Sequence[Pair]) -> pa.Table:
    """One row per variant with its complete original: a worker needs nothing else. `row_id` is the variant id."""
    table = variants_table(variant for _, variant in pairs)
    originals = questions_table(question for question, _ in pairs)
    for name in QUESTION_SCHEMA.names:
        table = table.append_column(_ORIGINAL + name, originals[name])
    return table.append_column("row_id", table["variant_id"])


def pairs_from(rows: pa.Table) -> Iterator[Pair]:
    """Inverse of `pairs_table`."""
    columns = [rows[_ORIGINAL + name] for name in QUESTION_SCHEMA.names]
    originals = pa.Table.from_arrays(columns, schema=QUESTION_SCHEMA)
    return zip(questions_from(originals), variants_from(rows), strict=True)


def verdict_counts(verdicts: Sequence[Verdict]) -> dict[VerdictTarget, VerdictCounts]:
    """Number of yes, no and unparsed for each target, in order of appearance."""
    labels: dict[VerdictTarget, list[bool | None]] = {}
    for verdict in verdicts:
        labels.setdefault(verdict.target, []).append(verdict.label)
    return {
        target: VerdictCounts(said.count(True), said.count(False), said.count(None)) for target, said in labels.items()
    }


def verdict_counts_from(content: object, *, source: str) -> Mapping[VerdictTarget, VerdictCounts]:
    """The `targets` of a run's counts. Raises ReportError, which names the source."""
    return loaded(_VERDICT_COUNTS, content, source=source)


def _step(settings: VerifySettings, folder: RunFolder) -> tuple[VerifyStep, int]:
    """The step and its batch size in rows."""
    now = datetime.now(UTC)
    named = None if settings.model is None else folder.model(settings.model)
    if settings.verifier == "registered":
        if named is None:
            raise JobError(
                "verify: setting model: missing; give the folder of the registered verifier and start the run again"
            )
        return registered_step(named, now)
    method = settings.verifier
    model = model_folder(settings.model if named is None or not named.is_dir() else named)
    version = content_hash(language_verifier_version(model), method)
    return VerifyStep(version, lambda: LanguageModelVerifier.load(model, method), now), _LANGUAGE_BATCH_ROWS


def _known_checks(folder: RunFolder) -> dict[VariantId, list[ContractCheck]]:
    known: dict[VariantId, list[ContractCheck]] = {}
    if (folder.inputs / "contract_checks.parquet").exists():
        for check in contract_checks_from(folder.read_input("contract_checks")):
            known.setdefault(check.variant_id, []).append(check)
    return known
