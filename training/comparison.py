"""Compares two generators on the same questions with the same seeds, with intervals for the differences.

The judge is never the verifier that rewarded one of them. Owns the trial of one generator and the comparison of two
trials; decides nothing: a lead does. The cost of a reply is the number of tokens that the backend generated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.errors import ReplyError
from data.records import Question, Recipe, Variant, VariantId, VariantTypeKey
from engine.backends.protocol import GeneratorBackend, Reply, Sampling
from engine.candidate import candidate_from_reply
from engine.distinct import distinct_n, opening_entropy, self_similarity
from engine.executors.local import LocalExecutor
from engine.generate import (
    candidate_fingerprint,
    canonical_sampling,
    generation_requests,
    replies_in_order,
    variant_from_candidate,
)
from engine.jobs.generate import GenerateStep, replies_from, requests_table
from engine.jobs.report import Reporter
from engine.prompts import GenerationRequest
from engine.shortcuts import shortcut_accuracies
from engine.variant_types.table import contract_checks, contract_passes
from engine.verify import Verifier
from training.comparison_report import GeneratorComparison, GeneratorDifference, GeneratorFigures, Slice
from training.paired_bootstrap import Interval, Measure, Weights, difference_interval

VARIETY_TEXTS: Final = 10

_BATCH_REQUESTS: Final = 32
_PER_TOKENS: Final = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request's outcome. `is_accepted`: contract passed, not a repetition, judged valid; None without a judge."""

    question_id: str
    variant_type: VariantTypeKey
    is_parsed: bool
    passes_contract: bool
    is_accepted: bool | None
    generated_tokens: int
    variant: Variant | None
    failed_checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One generator's outcomes in the order of the requests; `judge` is the judge's version."""

    model: str
    judge: str | None
    outcomes: tuple[Outcome, ...]


def compare_generators(
    before: GeneratorBackend,
    after: GeneratorBackend,
    questions: Sequence[Question],
    types: Sequence[VariantTypeKey],
    *,
    per_question: int,
    sampling: Sampling,
    judge: Verifier | None,
    seed: int,
    report: Reporter,
    parts: Path | None = None,
) -> GeneratorComparison:
    """Requests the same variants from both and compares the results.

    Args:
        judge: None if there is no judge other than the reward; then nothing counts as accepted.
        parts: folder for replies, so that a resumed run does not ask again; None keeps nothing.

    Raises:
        BackendError: a generator cannot generate at all.
        JobCancelledError: a user stopped it.
    """
    requests = list(generation_requests(questions, types, per_question=per_question, seed=seed))
    trials = [
        generator_trial(
            backend,
            requests,
            sampling=sampling,
            judge=judge,
            report=report,
            parts=None if parts is None else parts / name,
            text=f"the {name} generator on held-out questions",
        )
        for name, backend in (("earlier", before), ("new", after))
    ]
    return compared(*trials, per_question=per_question, seed=seed)


def generator_trial(
    backend: GeneratorBackend,
    requests: Sequence[GenerationRequest],
    *,
    sampling: Sampling,
    judge: Verifier | None,
    report: Reporter,
    parts: Path | None = None,
    text: str = "",
) -> Trial:
    """The generator's outcomes for the requests. An exact repetition within the trial is never accepted."""
    replies = _replies(backend, requests, sampling, report, parts, text)
    recipe = Recipe(backend.name, backend.model, backend.prompt_version, canonical_sampling(sampling), 0)
    made = [_made(request, reply, recipe) for request, reply in zip(requests, replies, strict=True)]
    seen: set[str] = set()
    to_judge: dict[VariantId, tuple[Question, Variant]] = {}
    rows = []
    for request, (variant, fingerprint) in zip(requests, made, strict=True):
        failed = () if variant is None else _failed_checks(request.question, variant)
        is_new = fingerprint not in seen
        seen.add(fingerprint)
        passes = variant is not None and not failed
        if variant is not None and passes and is_new:
            to_judge[variant.variant_id] = (request.question, variant)
        rows.append((variant, failed, passes, is_new))
    valid = _judged_valid(judge, list(to_judge.values()))
    return Trial(
        backend.model,
        None if judge is None else judge.version,
        tuple(
            Outcome(
                question_id=request.question.question_id,
                variant_type=request.variant_type,
                is_parsed=variant is not None,
                passes_contract=passes,
                is_accepted=None if judge is None else variant is not None and is_new and variant.variant_id in valid,
                generated_tokens=reply.generated_tokens,
                variant=variant,
                failed_checks=failed,
            )
            for request, reply, (variant, failed, passes, is_new) in zip(requests, replies, rows, strict=True)
        ),
    )


def compared(before: Trial, after: Trial, *, per_question: int, seed: int) -> GeneratorComparison:
    """The comparison of two trials of the same requests.

    Raises:
        ValueError: the trials have different requests.
    """
    keys = [[(o.question_id, o.variant_type) for o in trial.outcomes] for trial in (before, after)]
    if keys[0] != keys[1]:
        raise ValueError("the two trials answer different requests; give both the same")
    slices: list[Slice] = ["all", *dict.fromkeys(outcome.variant_type for outcome in before.outcomes)]
    return GeneratorComparison(
        before_model=before.model,
        after_model=after.model,
        judge=after.judge,
        questions=len({question for question, _ in keys[0]}),
        per_question=per_question,
        before={name: figures(_sliced(before, name)) for name in slices},
        after={name: figures(_sliced(after, name)) for name in slices},
        difference={name: _difference(_sliced(before, name), _sliced(after, name), seed) for name in slices},
    )


def figures(outcomes: Sequence[Outcome]) -> GeneratorFigures:
    """The figures of one generator on these requests."""
    accepted = _total([outcome.is_accepted for outcome in outcomes])
    tokens = sum(outcome.generated_tokens for outcome in outcomes)
    passed = [outcome.variant for outcome in outcomes if outcome.passes_contract and outcome.variant is not None]
    contexts = [variant.context for variant in passed]
    groups: dict[tuple[str, str], list[str]] = {}
    for variant in passed:
        groups.setdefault((variant.question_id, variant.variant_type), []).append(variant.context)
    return GeneratorFigures(
        requested=len(outcomes),
        parsed=sum(outcome.is_parsed for outcome in outcomes),
        contract_passed=len(passed),
        accepted=accepted,
        generated_tokens=tokens,
        contract_pass_rate=len(passed) / len(outcomes) if outcomes else 0.0,
        accepted_per_1000_tokens=_PER_TOKENS * accepted / tokens if accepted is not None and tokens else None,
        distinct_1=_in_batches(partial(distinct_n, n=1), contexts),
        distinct_2=_in_batches(partial(distinct_n, n=2), contexts),
        distinct_3=_in_batches(partial(distinct_n, n=3), contexts),
        self_similarity=self_similarity(list(groups.values())),
        opening_entropy=_in_batches(opening_entropy, contexts),
        shortcuts=shortcut_accuracies(passed),
    )


def own_interval(outcomes: Sequence[Outcome], figure: str, *, seed: int) -> Interval | None:
    """One generator's figure with its own interval; `figure` is a field of `GeneratorDifference`."""
    measure = _measures(outcomes)[figure]
    if measure is None:
        return None
    return difference_interval(_nothing, measure, [outcome.question_id for outcome in outcomes], seed=seed)


def _in_batches(measure: Callable[[Sequence[str]], float | None], texts: Sequence[str]) -> float | None:
    starts = range(0, len(texts) - VARIETY_TEXTS + 1, VARIETY_TEXTS)
    found = [value for start in starts if (value := measure(texts[start : start + VARIETY_TEXTS])) is not None]
    return fmean(found) if found else None


def _replies(
    backend: GeneratorBackend,
    requests: Sequence[GenerationRequest],
    sampling: Sampling,
    report: Reporter,
    parts: Path | None,
    text: str,
) -> list[Reply]:
    if parts is not None:
        executor = LocalExecutor(_BATCH_REQUESTS)
        step = GenerateStep(backend, sampling, {})
        tables = executor.run(
            step, requests_table(requests), parts, lambda done, total: report.progress(done, total, text)
        )
        return [reply for table in tables for reply in replies_from(table)]
    replies: list[Reply] = []
    for start in range(0, len(requests), _BATCH_REQUESTS):
        report.progress(start, len(requests), text)
        replies.extend(replies_in_order(backend, requests[start : start + _BATCH_REQUESTS], sampling))
    return replies


def _made(request: GenerationRequest, reply: Reply, recipe: Recipe) -> tuple[Variant | None, str]:
    """The variant and the fingerprint to detect repetitions; (None, "") if the reply is not a variant."""
    if reply.failure:
        return None, ""
    try:
        candidate = candidate_from_reply(reply.text)
    except ReplyError:
        return None, ""
    variant = variant_from_candidate(request, candidate, recipe=recipe, run_id=None, now=datetime.now(UTC))
    return variant, candidate_fingerprint(request.question.question_id, request.variant_type, candidate)


def _failed_checks(question: Question, variant: Variant) -> tuple[str, ...]:
    checks = contract_checks(question, variant)
    return () if contract_passes(checks) else tuple(c.check for c in checks if c.is_required and not c.holds)


def _judged_valid(judge: Verifier | None, pairs: Sequence[tuple[Question, Variant]]) -> frozenset[str]:
    if judge is None or not pairs:
        return frozenset()
    verdicts = judge.judge(pairs, now=datetime.now(UTC))
    return frozenset(v.variant_id for v in verdicts if v.target == "valid" and v.label is True)


def _sliced(trial: Trial, name: Slice) -> list[Outcome]:
    return [outcome for outcome in trial.outcomes if name in ("all", outcome.variant_type)]


def _difference(before: Sequence[Outcome], after: Sequence[Outcome], seed: int) -> GeneratorDifference:
    groups = [outcome.question_id for outcome in before]
    earlier, later = _measures(before), _measures(after)
    found: dict[str, Interval | None] = {}
    for name, measure in later.items():
        other = earlier[name]
        found[name] = (
            None if measure is None or other is None else difference_interval(other, measure, groups, seed=seed)
        )
    return GeneratorDifference(**found)


def _measures(outcomes: Sequence[Outcome]) -> dict[str, Measure | None]:
    passed = np.array([outcome.passes_contract for outcome in outcomes], dtype=float)
    tokens = np.array([outcome.generated_tokens for outcome in outcomes], dtype=float)
    has_judge = all(outcome.is_accepted is not None for outcome in outcomes)
    accepted = np.array([bool(outcome.is_accepted) for outcome in outcomes], dtype=float)
    return {
        "contract_pass_rate": _ratio(passed, np.ones(len(outcomes))),
        "accepted_per_1000_tokens": _ratio(_PER_TOKENS * accepted, tokens) if has_judge else None,
    }


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> Measure:
    def measure(weights: Weights) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore", divide="ignore"):
            shares: NDArray[np.float64] = (weights @ above) / (weights @ below)
        return np.where(np.isfinite(shares), shares, np.nan)

    return measure


def _nothing(weights: Weights) -> NDArray[np.float64]:
    return np.zeros(len(weights))


def _total(given: Sequence[bool | None]) -> int | None:
    return None if None in given else sum(bool(one) for one in given)
