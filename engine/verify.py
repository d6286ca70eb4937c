"""Verdicts by a language model: P(yes) against no at one position, for each rubric (ERA) or once (IRA).

Owns how an item becomes rows of tokens and how probabilities become verdicts. The forward passes are in
`engine.verify_passes`. Refuses folders that `engine.model_safety` refuses, and models whose packed pass differs from
separate ones. Source: SAGE, arXiv 2605.12022 (ERA, IRA); the packed pass is ours.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

from data.dimensions import DIMENSIONS
from data.errors import ModelError
from data.records import Question, Variant, Verdict, VerdictMethod, VerdictTarget
from engine.calibration import CALIBRATION_FILE
from engine.model_safety import folder_fingerprint, refuse_unsafe_folder
from engine.rubric_prompts import (
    NO,
    VERIFICATION_PROMPT_VERSION,
    YES,
    era_suffix,
    ira_suffix,
    verification_body,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from engine.verify_passes import PromptTokens

logger = logging.getLogger(__name__)

LanguageMethod = Literal["era_packed", "era_separate", "ira"]
LANGUAGE_METHODS: Final[tuple[LanguageMethod, ...]] = get_args(LanguageMethod)

Pair = tuple[Question, Variant]


class Verifier(Protocol):
    """A way to judge variants. `version` identifies weights and prompts and is recorded in every verdict."""

    version: str
    method: VerdictMethod

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        """All verdicts of the first pair, then of the second, and so on; `now` is their `created_at`.

        An item that cannot be judged gets verdicts without probability or label, and the reason in `raw`.
        """
        ...


class LanguageModelVerifier:
    """A causal language model as verifier; keeps model and tokenizer in memory.

    ERA yields TC, LC, AU and their product `valid`; IRA yields `valid` alone.
    """

    method: VerdictMethod

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        version: str,
        method: LanguageMethod,
        batch_tokens: int = 4096,
    ) -> None:
        """`batch_tokens` limits the size of a batch, padding included.

        Raises:
            ModelError: " yes" and " no" are not single tokens, or the packed pass differs from separate ones.
        """
        from engine.verify_passes import answer_tokens, packed_difference

        self.version = version
        self.method = method
        self._language_method: LanguageMethod = method
        self._model = model
        self._tokenizer = tokenizer
        self._batch_tokens = batch_tokens
        self._answers = answer_tokens(tokenizer, yes=YES, no=NO)
        positions = getattr(model.config, "max_position_embeddings", None)
        self._longest = positions if isinstance(positions, int) else 1 << 30
        if method == "era_packed":
            probe = [_tokens(tokenizer, "Two and two are four.\n", [d.rubric + " Answer:" for d in DIMENSIONS])]
            if (difference := packed_difference(self._model, probe, self._answers)) > 1e-3:
                raise ModelError(
                    f"verifier {version}: the packed pass differs from separate passes by {difference:.2g} "
                    f"on this model (its attention ignores our mask); use the method era_separate"
                )

    @classmethod
    def load(cls, folder: Path, method: LanguageMethod, *, batch_tokens: int = 4096) -> "LanguageModelVerifier":
        """Load a safetensors folder in fp32 on the CPU, or in bf16 on a GPU if there is one.

        Raises:
            ModelError: the folder must not or cannot be loaded, or the model does not support the method.
        """
        refuse_unsafe_folder(folder)
        from engine.backends.transformers import load_causal_model

        model, tokenizer = load_causal_model(folder)
        return cls(
            model, tokenizer, version=language_verifier_version(folder), method=method, batch_tokens=batch_tokens
        )

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        """Verdicts in the order of `pairs`; internally, batches are formed by length."""
        from engine.verify_passes import yes_probabilities

        method = self._language_method
        prompts = [prompt_tokens(self._tokenizer, question, variant, method) for question, variant in pairs]
        packed = self._language_method == "era_packed"
        probabilities: list[list[float] | None] = [None] * len(pairs)
        for batch in self._batches(prompts):
            rows = yes_probabilities(self._model, [prompts[index] for index in batch], self._answers, packed=packed)
            for index, judged in zip(batch, rows, strict=True):
                probabilities[index] = judged
        verdicts: list[Verdict] = []
        for (_, variant), prompt, row in zip(pairs, prompts, probabilities, strict=True):
            reason = "" if row is not None else self._too_long(prompt)
            verdicts.extend(self._verdicts(variant, row, reason, now))
        return verdicts

    def _batches(self, prompts: Sequence["PromptTokens"]) -> Iterator[list[int]]:
        """Indices of prompts that fit the model, by length, in batches of at most `batch_tokens`, padding included."""
        packed = self._language_method == "era_packed"
        width = [prompt.packed_length if packed else prompt.longest_separate for prompt in prompts]
        rows = [1 if packed else len(prompt.suffixes) for prompt in prompts]
        fitting = [i for i, prompt in enumerate(prompts) if prompt.longest_separate <= self._longest]
        batch: list[int] = []
        for index in sorted(fitting, key=lambda i: (width[i], i)):
            if batch and (sum(rows[i] for i in batch) + rows[index]) * width[index] > self._batch_tokens:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _too_long(self, prompt: "PromptTokens") -> str:
        return f"not judged: the item has {prompt.longest_separate} tokens, and the model takes {self._longest}"

    def _verdicts(self, variant: Variant, row: list[float] | None, reason: str, now: datetime) -> Iterator[Verdict]:
        targets: tuple[VerdictTarget, ...] = ("valid",) if self.method == "ira" else ("TC", "LC", "AU", "valid")
        if row is not None and not all(map(math.isfinite, row)):
            row, reason = None, "not judged: the model's logits are not finite"
        if row is None:
            outcomes: list[tuple[float | None, bool | None]] = [(None, None)] * len(targets)
        else:
            outcomes = [(probability, probability >= 0.5) for probability in row]
            if self.method != "ira":
                outcomes.append((math.prod(row), all(probability >= 0.5 for probability in row)))
        for target, (probability, label) in zip(targets, outcomes, strict=True):
            yield Verdict(
                variant_id=variant.variant_id,
                target=target,
                probability=probability,
                label=label,
                verifier_version=self.version,
                method=self.method,
                raw=reason or None,
                created_at=now,
            )


def prompt_tokens(
    tokenizer: "PreTrainedTokenizerBase", question: Question, variant: Variant, method: LanguageMethod
) -> "PromptTokens":
    """The model's input for an item: one suffix per dimension, in order, or IRA's single one; the answer comes next.

    Training rows consist of the same tokens.
    """
    if method == "ira":
        suffixes = [ira_suffix(variant.variant_type)]
    else:
        suffixes = [era_suffix(dimension, variant.variant_type) for dimension in DIMENSIONS]
    return _tokens(tokenizer, verification_body(question, variant), suffixes)


def language_verifier_version(folder: Path) -> str:
    """`lm:` and 12 hex digits over the folder's files and the prompt version, leaving out any calibration."""
    import hashlib

    fingerprint = folder_fingerprint(folder, leaving_out=[CALIBRATION_FILE])
    digest = hashlib.sha256(f"{fingerprint} {VERIFICATION_PROMPT_VERSION}".encode()).hexdigest()
    return f"lm:{digest[:12]}"


def _tokens(tokenizer: "PreTrainedTokenizerBase", body: str, suffixes: Sequence[str]) -> "PromptTokens":
    from engine.verify_passes import PromptTokens, plain_tokens

    return PromptTokens(
        body=(*_start_tokens(tokenizer), *plain_tokens(tokenizer, body)),
        suffixes=tuple(plain_tokens(tokenizer, suffix) for suffix in suffixes),
    )


def _start_tokens(tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """The beginning-of-text token if the tokenizer puts one before every text, otherwise nothing."""
    ids = tokenizer("x").input_ids
    return (ids[0],) if ids and ids[0] == tokenizer.bos_token_id else ()
