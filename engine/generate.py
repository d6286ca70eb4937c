"""From questions to variants: sends requests, reads replies, checks contracts and accounts for every reply.

Nothing is dropped silently: requested = unsupported + failed + malformed + duplicates + made. Refuses to run a model:
a backend does. Ids and seeds come from content, so batching, order and restarts do not change the result.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from random import Random
from typing import Final, Literal

from data.errors import ReplyError
from data.ids import cluster_id, content_hash, normal_form, row_seed, variant_id
from data.records import ContractCheck, Question, QuestionId, Recipe, RunId, Variant, VariantTypeKey
from engine.backends.protocol import GeneratorBackend, Reply, Sampling
from engine.candidate import Candidate, candidate_from_reply, is_abstain
from engine.prompts import GenerationRequest
from engine.report_json import Count
from engine.variant_types.table import VARIANT_TYPES, contract_checks, contract_passes

NO_ANSWER: Final = "the question has no answer for a variant to keep or change"
_ID_HEX_DIGITS: Final = 20


@dataclass(slots=True)
class GenerationYield:
    """Outcomes of one type's requests. `failed_checks` counts variants per failed check, advisory ones included."""

    requested: Count = 0
    unsupported: Count = 0
    failed: Count = 0
    malformed: Count = 0
    duplicates: Count = 0
    made: Count = 0
    passed: Count = 0
    controls: Count = 0
    prompt_tokens: Count = 0
    generated_tokens: Count = 0
    failed_checks: Counter[str] = field(default_factory=Counter)
    unsupported_reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class LostReply:
    """A reply that did not become a variant: its raw text, and why."""

    request_id: str
    question_id: QuestionId
    variant_type: VariantTypeKey
    failure: Literal["malformed", "truncated", "error"]
    raw: str
    reason: str


@dataclass(frozen=True, slots=True)
class Generated:
    """One run's result, variants in the order of their requests."""

    variants: tuple[Variant, ...]
    checks: tuple[ContractCheck, ...]
    lost: tuple[LostReply, ...]
    yields: dict[VariantTypeKey, GenerationYield]


def generation_requests(
    questions: Sequence[Question], types: Sequence[VariantTypeKey], *, per_question: int, seed: int
) -> Iterator[GenerationRequest]:
    """One request per question, type and sample; questions vary slowest.

    Types that borrow from other questions (reverse) get some from `questions`, drawn by the request's own seed;
    near-duplicates (by case, space or option order) are never used.
    """
    pool = sorted(questions, key=lambda question: question.question_id)
    clusters = {question.question_id: cluster_id(question.context, question.options) for question in pool}
    for question in questions:
        for variant_type in types:
            for sample in range(per_question):
                own_seed = row_seed(question.question_id, variant_type, sample, seed)
                wanted = VARIANT_TYPES[variant_type].foreign_wanted
                lent = _foreign(question, pool, clusters, wanted, own_seed) if wanted else ()
                digest = content_hash("request", question.question_id, variant_type, sample, seed)
                yield GenerationRequest("g_" + digest[:_ID_HEX_DIGITS], question, variant_type, own_seed, lent)


def replies_in_order(
    backend: GeneratorBackend, requests: Sequence[GenerationRequest], sampling: Sampling
) -> Iterator[Reply]:
    """The backend's reply to each request; questions without an answer are refused beforehand.

    Raises:
        BackendError: the backend cannot generate at all.
    """
    supported = backend.supported_types()
    sent = [r for r in requests if r.question.answer_index is not None and r.variant_type in supported]
    replies = iter(backend.generate(sent, sampling)) if sent else iter(())
    for request in requests:
        if request.question.answer_index is None:
            yield _unsupported(request, NO_ANSWER)
        elif request.variant_type not in supported:
            kind = VARIANT_TYPES[request.variant_type]
            why = f": {kind.write_refusal}" if backend.name == "rules" else ""
            yield _unsupported(request, f"{backend.name} cannot make {kind.name}{why}")
        else:
            yield next(replies)


def variants_from_replies(
    requests: Iterable[GenerationRequest],
    replies: Iterable[Reply],
    *,
    backend: str,
    model: str,
    prompt_version: str,
    sampling: Sampling,
    run_id: RunId | None,
    now: datetime,
) -> Generated:
    """Parse, shuffle, identify and check; exact duplicates within the run are counted and dropped.

    Args:
        replies: one per request, in the same order.

    Raises:
        ValueError: `replies` is shorter, longer or in another order: a bug in the backend.
    """
    yields: dict[VariantTypeKey, GenerationYield] = {}
    variants: list[Variant] = []
    checks: list[ContractCheck] = []
    lost: list[LostReply] = []
    seen: set[str] = set()
    settings = canonical_sampling(sampling)
    for request, reply in zip(requests, replies, strict=True):
        if request.request_id != reply.request_id:
            raise ValueError(f"got reply {reply.request_id} where {request.request_id} was expected")
        counts = yields.setdefault(request.variant_type, GenerationYield())
        counts.requested += 1
        counts.prompt_tokens += reply.prompt_tokens
        counts.generated_tokens += reply.generated_tokens
        outcome = _candidate_or_loss(request, reply)
        if outcome is None:
            counts.unsupported += 1
            counts.unsupported_reasons[reply.detail] += 1
            continue
        if isinstance(outcome, LostReply):
            counts.failed += outcome.failure == "error"
            counts.malformed += outcome.failure != "error"
            lost.append(outcome)
            continue
        fingerprint = candidate_fingerprint(request.question.question_id, request.variant_type, outcome)
        if fingerprint in seen:
            counts.duplicates += 1
            continue
        seen.add(fingerprint)
        recipe = Recipe(backend, model, prompt_version, settings, request.seed)
        variant = variant_from_candidate(request, outcome, recipe=recipe, run_id=run_id, now=now)
        found = contract_checks(request.question, variant)
        counts.made += 1
        counts.passed += contract_passes(found)
        counts.controls += variant.is_control
        counts.failed_checks.update(check.check for check in found if not check.holds)
        variants.append(variant)
        checks.extend(found)
    return Generated(tuple(variants), tuple(checks), tuple(lost), yields)


def variant_from_candidate(
    request: GenerationRequest, candidate: Candidate, *, recipe: Recipe, run_id: RunId | None, now: datetime
) -> Variant:
    """The candidate with shuffled options and an id; the shuffle seed is derived from the request's seed."""
    shuffle_seed = row_seed("shuffle", request.seed)
    shuffled = shuffled_options(candidate, shuffle_seed)
    question = request.question.question_id
    return Variant(
        variant_id=variant_id(
            question, request.variant_type, shuffled.context, shuffled.options, shuffled.answer_index
        ),
        question_id=question,
        variant_type=request.variant_type,
        context=shuffled.context,
        options=shuffled.options,
        answer_index=shuffled.answer_index,
        is_control=shuffled.is_control,
        shuffle_seed=shuffle_seed,
        recipe=recipe,
        run_id=run_id,
        created_at=now,
    )


def shuffled_options(candidate: Candidate, seed: int) -> Candidate:
    """Options in the order given by `seed`, with the answer index updated; an abstain option stays last."""
    options = candidate.options
    movable = len(options) - 1 if is_abstain(options[-1]) else len(options)
    order = list(range(movable))
    Random(seed).shuffle(order)  # noqa: S311  (a reproducible order, not a secret)
    order += range(movable, len(options))
    return Candidate(
        candidate.context,
        tuple(options[i] for i in order),
        order.index(candidate.answer_index),
        candidate.is_control,
    )


def candidate_fingerprint(question: QuestionId, variant_type: VariantTypeKey, candidate: Candidate) -> str:
    """Equal for candidates that differ only in case, space, Unicode form or option order."""
    options = list(map(normal_form, candidate.options))
    return content_hash(
        question, variant_type, normal_form(candidate.context), sorted(options), options[candidate.answer_index]
    )


def canonical_sampling(sampling: Sampling) -> str:
    """The sampling settings as stored in a recipe: JSON with sorted keys."""
    return json.dumps(asdict(sampling), sort_keys=True, separators=(",", ":"))


def _foreign(
    question: Question, pool: Sequence[Question], clusters: dict[QuestionId, str], wanted: int, seed: int
) -> tuple[Question, ...]:
    rng = Random(row_seed("foreign", seed))  # noqa: S311  (a reproducible draw, not a secret)
    # A few extra, in case some belong to the question's own cluster.
    drawn = [pool[i] for i in rng.sample(range(len(pool)), min(len(pool), wanted + 8))]
    own = clusters[question.question_id]
    return tuple(other for other in drawn if clusters[other.question_id] != own)[:wanted]


def _candidate_or_loss(request: GenerationRequest, reply: Reply) -> Candidate | LostReply | None:
    """None for "unsupported"."""
    if reply.failure == "unsupported":
        return None
    about = (request.request_id, request.question.question_id, request.variant_type)
    if reply.failure in ("error", "truncated"):
        failure: Literal["error", "truncated"] = "error" if reply.failure == "error" else "truncated"
        return LostReply(*about, failure, reply.text, reply.detail or failure)
    try:
        return candidate_from_reply(reply.text)
    except ReplyError as exc:
        return LostReply(*about, "malformed", reply.text, str(exc))


def _unsupported(request: GenerationRequest, reason: str) -> Reply:
    return Reply(request.request_id, "", "unsupported", reason, prompt_tokens=0, generated_tokens=0)
