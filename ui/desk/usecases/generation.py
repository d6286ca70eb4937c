"""Starting a generation: which types, from which questions, with which backend; and a cost estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

import pyarrow as pa

from data.arrow import questions_from
from data.errors import InputError, NotFoundError
from data.records import VARIANT_TYPE_KEYS, QuestionId, Run, VariantTypeKey
from data.tables.questions import QuestionTable
from engine.backends.openai_http import cost_estimate
from engine.backends.protocol import Sampling
from engine.generate import generation_requests
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.models_in_use import generator_in_use
from ui.desk.runs.submission import Submission

BackendName = Literal["rules", "transformers", "openai", "vllm"]
BACKENDS: Final[tuple[BackendName, ...]] = get_args(BackendName)
_LOCAL_BACKENDS: Final[tuple[BackendName, ...]] = ("transformers", "vllm")
MAX_PER_QUESTION: Final = 64
MAX_LIMIT: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A generation's estimated size. Token counts are 0 for `rules`, otherwise rough; `generated_tokens` is a bound.

    `cost` is also a bound, in the currency of the given prices; None without prices.
    """

    questions: int
    requests: int
    prompt_tokens: int
    generated_tokens: int
    cost: float | None


def estimate(
    desk: Desk,
    actor: Actor,
    *,
    backend: BackendName,
    types: Sequence[VariantTypeKey] = VARIANT_TYPE_KEYS,
    benchmark: str | None = None,
    question_ids: Sequence[QuestionId] | None = None,
    limit: int | None = None,
    per_question: int = 1,
    max_new_tokens: int = 256,
    prompt_price_per_million: float | None = None,
    generated_price_per_million: float | None = None,
) -> Estimate:
    """Estimates a generation before anything is spent.

    Raises:
        InputError, NotFoundError: like `start_generation`.
    """
    _check(backend, types, per_question, limit)
    questions = _questions(desk, benchmark, question_ids, limit)
    if backend == "rules":
        return Estimate(questions.num_rows, questions.num_rows * len(types) * per_question, 0, 0, None)
    is_priced = prompt_price_per_million is not None and generated_price_per_million is not None
    found = cost_estimate(
        generation_requests(list(questions_from(questions)), types, per_question=per_question, seed=0),
        Sampling(max_new_tokens=max_new_tokens),
        price_in=prompt_price_per_million or 0.0,
        price_out=generated_price_per_million or 0.0,
    )
    return Estimate(
        questions.num_rows,
        found.requests,
        found.prompt_tokens_estimate,
        found.generated_tokens_at_most,
        found.cost_at_most if is_priced else None,
    )


def start_generation(
    desk: Desk,
    actor: Actor,
    *,
    backend: BackendName,
    types: Sequence[VariantTypeKey] = VARIANT_TYPE_KEYS,
    benchmark: str | None = None,
    question_ids: Sequence[QuestionId] | None = None,
    limit: int | None = None,
    per_question: int = 1,
    temperature: float = 0.8,
    top_p: float = 0.95,
    max_new_tokens: int = 256,
    seed: int = 0,
    model: str | None = None,
    then_verify: bool = True,
) -> Run:
    """Queues a generation over the current questions with an answer, all of them unless filtered.

    Args:
        per_question: candidates per question and type.
        model: a folder or hub id. None means, for `transformers` and `vllm`, the generator in use: the one named in the
            settings (SAGEDESK_MODEL), else the champion, else the embedded one; for `openai`, the one in the settings.
        then_verify: afterwards, verify the new variants with the champion and queue them for review.

    Raises:
        PermissionDeniedError, InputError (an invalid setting), NotFoundError (no such question).
        ModelError: the champion is not what was registered.
    """
    require_lead(desk, actor, "generation.start", backend)
    _check(backend, types, per_question, limit)
    if not 0 <= temperature <= 2 or not 0 < top_p <= 1 or not 1 <= max_new_tokens <= 8192:
        raise InputError("use a temperature from 0 to 2, a top-p above 0 and up to 1, and 1 to 8192 new tokens")
    base_url = desk.settings.openai_base_url
    if backend == "openai" and not base_url:
        raise InputError(
            "backend openai: set SAGEDESK_OPENAI_BASE_URL to an OpenAI-compatible endpoint and restart the desk"
        )
    if backend == "openai" and "@" in urlsplit(base_url or "").netloc:
        raise InputError("SAGEDESK_OPENAI_BASE_URL contains a password; use SAGEDESK_OPENAI_API_KEY instead")
    if backend == "openai" and not (model or desk.settings.model):
        raise InputError("backend openai: name the model")
    questions = _questions(desk, benchmark, question_ids, limit)
    named_model = model or (generator_in_use(desk.settings) if backend in _LOCAL_BACKENDS else desk.settings.model)
    backend_settings: dict[str, object] = {} if named_model is None else {"model": named_model}
    if backend == "openai":
        backend_settings["base_url"] = base_url
    settings: dict[str, object] = {
        "backend": backend,
        "types": list(types),
        "per_question": per_question,
        "sampling": {"temperature": temperature, "top_p": top_p, "max_new_tokens": max_new_tokens},
        "backend_settings": backend_settings,
    }
    wanted = Submission("generate", settings, {"questions": questions}, seed, {"then_verify": then_verify})
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "generation.start", run.run_id, backend=backend, questions=questions.num_rows)
    return run


def _check(backend: str, types: Sequence[str], per_question: int, limit: int | None) -> None:
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r}: use one of {', '.join(BACKENDS)}")
    if unknown := [one for one in types if one not in VARIANT_TYPE_KEYS]:
        raise InputError(f"variant type {unknown[0]!r}: use one of {', '.join(VARIANT_TYPE_KEYS)}")
    if not types:
        raise InputError(f"name at least one variant type of {', '.join(VARIANT_TYPE_KEYS)}")
    if not 1 <= per_question <= MAX_PER_QUESTION:
        raise InputError(f"request 1 to {MAX_PER_QUESTION} candidates per question and type")
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit {limit}: use 1 to {MAX_LIMIT:,} questions, or leave the limit out")


def _questions(
    desk: Desk, benchmark: str | None, question_ids: Sequence[QuestionId] | None, limit: int | None
) -> pa.Table:
    with desk.store.read() as connection:
        table = QuestionTable(connection)
        known = table.by_ids(question_ids or ())
        if unknown := [one for one in question_ids or () if one not in known]:
            raise NotFoundError(f"no question {unknown[0]}; `sagedesk question list` shows all questions")
        found = table.arrow(ids=question_ids, benchmark=benchmark, limit=limit, answered_only=True)
    if found.num_rows == 0:
        of = f" in benchmark {benchmark!r}" if benchmark else ""
        raise NotFoundError(
            f"no questions with an answer{of} to generate from; import some, or see `sagedesk question list`"
        )
    return found
