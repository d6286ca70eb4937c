"""Verdicts of the embedded model on three dimensions: one packed pass beside three separate ones, on the same items."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final

from data.records import Verdict
from data.samples import sample_questions, sample_variants
from engine.backends.transformers import load_causal_model
from engine.embedded import model_folder
from engine.verify import LanguageModelVerifier, Pair

NAME: Final = "ERA packed (one pass, tree mask)"
BESIDE: Final = "three separate passes, last-position logits"
BAR: Final = ">= 2.0x"

ITEMS: Final = 4
_LARGEST_DIFFERENCE: Final = 1e-4
_NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)


def measure(run: int) -> tuple[float, float]:
    """CPU seconds of this process for four items: packed, separate; a wall clock would measure the neighbours too.

    Raises:
        AssertionError: the verdicts differ.
    """
    packed, separate = _verifiers()
    pairs = _pairs(run)
    order = (packed, separate) if run % 2 == 0 else (separate, packed)
    timed = {verifier: _judged(verifier, pairs) for verifier in order}
    (packed_s, packed_verdicts), (separate_s, separate_verdicts) = timed[packed], timed[separate]
    for ours, beside in zip(packed_verdicts, separate_verdicts, strict=True):
        if abs((ours.probability or 0) - (beside.probability or 0)) > _LARGEST_DIFFERENCE or ours.label != beside.label:
            raise AssertionError(f"{ours.variant_id} {ours.target}: packed {ours}, separate {beside}")
    return packed_s, separate_s


@cache
def _verifiers() -> tuple[LanguageModelVerifier, LanguageModelVerifier]:
    """Both on one model in memory, and warm: the first pass of a process pays for the pages of its weights."""
    model, tokenizer = load_causal_model(model_folder(None))
    packed = LanguageModelVerifier(model, tokenizer, version="bench", method="era_packed")
    separate = LanguageModelVerifier(model, tokenizer, version="bench", method="era_separate")
    for verifier in (packed, separate):
        verifier.judge(_pairs(0)[:1], now=_NOW)
    return packed, separate


def _pairs(run: int) -> list[Pair]:
    questions = {question.question_id: question for question in sample_questions()}
    labelled = sample_variants()
    chosen = [one.variant for one in labelled[run :: len(labelled) // ITEMS][:ITEMS]]
    return [(questions[variant.question_id], variant) for variant in chosen]


def _judged(verifier: LanguageModelVerifier, pairs: Sequence[Pair]) -> tuple[float, list[Verdict]]:
    started = time.process_time()
    verdicts = verifier.judge(pairs, now=_NOW)
    return time.process_time() - started, verdicts
