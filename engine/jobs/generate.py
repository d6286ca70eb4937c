"""The generation job: reads `questions.parquet`, writes variants with their contract checks and yields.

inputs/questions.parquet
outputs/parts/*.parquet            replies so far; a resumed run does not ask for them again
outputs/variants.parquet
outputs/contract_checks.parquet
outputs/malformed.parquet          replies that did not become variants, with their raw text and the reason
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Final

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from data.arrow import contract_checks_table, questions_from, variants_table
from data.errors import JobError
from data.ids import content_hash
from data.records import Question, QuestionId, RunId, VariantTypeKey
from engine.backends import backend_class
from engine.backends.protocol import GeneratorBackend, Reply, Sampling
from engine.executors.local import LocalExecutor
from engine.generate import (
    Generated,
    GenerationYield,
    LostReply,
    canonical_sampling,
    generation_requests,
    replies_in_order,
    variants_from_replies,
)
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings
from engine.prompts import GenerationRequest
from engine.report_json import dumped, loaded

REQUEST_SCHEMA: Final = pa.schema(
    [
        ("row_id", pa.string()),
        ("question", pa.string()),
        ("variant_type", pa.string()),
        ("seed", pa.int64()),
        ("foreign", pa.string()),
    ]
)
REPLY_SCHEMA: Final = pa.schema(
    [
        ("request_id", pa.string()),
        ("text", pa.string()),
        ("failure", pa.string()),
        ("detail", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("generated_tokens", pa.int64()),
    ]
)
MALFORMED_SCHEMA: Final = pa.schema(
    [
        ("request_id", pa.string()),
        ("question_id", pa.string()),
        ("variant_type", pa.string()),
        ("failure", pa.string()),
        ("raw", pa.string()),
        ("reason", pa.string()),
    ]
)


# Cancellation and progress wait for the end of a batch: rules answer a thousand requests per second, vLLM needs many
# at once, a small model on two busy cores needs ten seconds or more per reply.
_BATCH_ROWS: Final[Mapping[str, int]] = {"rules": 1000, "openai": 64, "vllm": 512}
_BATCH_ROWS_OF_OTHERS: Final = 8


_DEFAULT_SAMPLING: Final = Sampling()
_YIELDS: Final = TypeAdapter(Mapping[VariantTypeKey, GenerationYield])


class SamplingSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    temperature: Annotated[float, Field(ge=0, le=2)] = _DEFAULT_SAMPLING.temperature
    top_p: Annotated[float, Field(gt=0, le=1)] = _DEFAULT_SAMPLING.top_p
    max_new_tokens: Annotated[int, Field(ge=1, le=8192)] = _DEFAULT_SAMPLING.max_new_tokens


class GenerateSettings(BaseModel):
    """Settings of a `generate` run. `batch_rows`: requests between saves; None to suit the backend's speed."""

    model_config = ConfigDict(extra="forbid")

    backend: str
    types: Annotated[list[VariantTypeKey], Field(min_length=1)]
    per_question: Annotated[int, Field(ge=1, le=100)] = 1
    sampling: SamplingSettings = SamplingSettings()
    backend_settings: dict[str, object] = {}
    batch_rows: Annotated[int | None, Field(ge=1, le=10_000)] = None


class GenerateStep:
    """Requests in, replies out; the backend's model is loaded for the first batch that is not saved yet."""

    name: Final = "generate"

    def __init__(self, backend: GeneratorBackend, sampling: Sampling, backend_settings: Mapping[str, object]) -> None:
        self._backend = backend
        self._sampling = sampling
        self.version = content_hash(
            backend.name, backend.model, backend.prompt_version, canonical_sampling(sampling), backend_settings
        )

    def setup(self) -> None:
        """Nothing to do: the backend is already open and loads what it needs on its first request."""

    def __call__(self, rows: pa.Table) -> pa.Table:
        replies = replies_in_order(self._backend, list(requests_from(rows)), self._sampling)
        return pa.Table.from_pylist([asdict(reply) for reply in replies], schema=REPLY_SCHEMA)


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Returns totals over the types, and under `types` each type's yield.

    Raises:
        JobError: a setting is invalid, or there are no questions.
        BackendError: the backend is unknown or cannot run.
        JobCancelledError: a user stopped it; the replies so far are kept for a resume.
    """
    spec = folder.spec()
    settings = parsed_settings("generate", GenerateSettings, spec.settings)
    questions = list(questions_from(folder.read_input("questions")))
    if not questions:
        raise JobError("generate: the run has no questions; import some, or relax the filter")
    sampling = Sampling(**settings.sampling.model_dump())
    backend = backend_class(settings.backend).open(settings.backend_settings)
    types = list(dict.fromkeys(settings.types))
    requests = list(generation_requests(questions, types, per_question=settings.per_question, seed=spec.seed))
    report.progress(0, len(requests), f"requesting {len(requests)} variants from {backend.name} ({backend.model})")
    executor = LocalExecutor(settings.batch_rows or _BATCH_ROWS.get(settings.backend, _BATCH_ROWS_OF_OTHERS))
    replies = [
        reply
        for part in executor.run(
            GenerateStep(backend, sampling, settings.backend_settings),
            requests_table(requests),
            folder.outputs / "parts",
            lambda done, total: report.progress(done, total, f"{done} of {total} requests answered"),
        )
        for reply in replies_from(part)
    ]
    generated = variants_from_replies(
        requests,
        replies,
        backend=backend.name,
        model=backend.model,
        prompt_version=backend.prompt_version,
        sampling=sampling,
        run_id=RunId(spec.run_id),
        now=datetime.now(UTC),
    )
    _write(folder, generated)
    return yields_as_json(generated.yields)


def requests_table(requests: Iterable[GenerationRequest]) -> pa.Table:
    """One complete row per request: a worker needs nothing else. `row_id` is the request id."""
    return pa.Table.from_pylist([_request_row(request) for request in requests], schema=REQUEST_SCHEMA)


def requests_from(rows: pa.Table) -> Iterable[GenerationRequest]:
    """Inverse of `requests_table`."""
    for row in rows.to_pylist():
        yield GenerationRequest(
            row["row_id"],
            _question_from(json.loads(row["question"])),
            row["variant_type"],
            row["seed"],
            tuple(map(_question_from, json.loads(row["foreign"]))),
        )


def yields_as_json(yields: Mapping[VariantTypeKey, GenerationYield]) -> dict[str, object]:
    """Totals over the types and each type's own counts, for `result.json` and the pages."""
    names = ("requested", "unsupported", "failed", "malformed", "duplicates", "made", "passed", "controls")
    tokens = ("prompt_tokens", "generated_tokens")
    totals: dict[str, object] = {name: sum(getattr(y, name) for y in yields.values()) for name in (*names, *tokens)}
    return {**totals, "types": dumped(_YIELDS, yields)}


def yields_from(content: object, *, source: str) -> Mapping[VariantTypeKey, GenerationYield]:
    """The `types` of what `yields_as_json` gives. Raises ReportError, which names the source."""
    return loaded(_YIELDS, content, source=source)


def _write(folder: RunFolder, generated: Generated) -> None:
    folder.write_output("variants", variants_table(generated.variants))
    folder.write_output("contract_checks", contract_checks_table(generated.checks))
    folder.write_output("malformed", _malformed_table(generated.lost))


def _malformed_table(lost: Sequence[LostReply]) -> pa.Table:
    return pa.Table.from_pylist([asdict(reply) for reply in lost], schema=MALFORMED_SCHEMA)


def replies_from(part: pa.Table) -> Iterable[Reply]:
    return (Reply(**row) for row in part.to_pylist())


def _request_row(request: GenerationRequest) -> dict[str, object]:
    return {
        "row_id": request.request_id,
        "question": json.dumps(asdict(request.question), ensure_ascii=False),
        "variant_type": request.variant_type,
        "seed": request.seed,
        "foreign": json.dumps([asdict(other) for other in request.distractor_questions], ensure_ascii=False),
    }


def _question_from(row: dict[str, object]) -> Question:
    options = row.pop("options")
    question_id = QuestionId(str(row.pop("question_id")))
    return Question(question_id=question_id, options=tuple(options), **row)  # type: ignore[arg-type]
