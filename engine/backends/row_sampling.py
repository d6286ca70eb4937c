"""Sampling with one random generator per row, so that a row depends on its own seed and not on its neighbours.

A logits processor that also picks the token: it leaves one finite score, and greedy decoding takes it. Equal seeds
give equal replies in any batch, up to rounding: the logits' last bits depend on the shape of the matrix product.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from llguidance import LLMatcher

# The nucleus is nearly always within the top 256 tokens; sorting the whole vocabulary costs 20 times as much.
_FIRST_TOKENS: Final = 256


class SeededRows:
    """Temperature and nucleus sampling for a batch whose rows have their own seeds and, if given, grammars."""

    def __init__(
        self,
        seeds: Sequence[int],
        *,
        temperature: float,
        top_p: float,
        end_tokens: frozenset[int],
        matchers: Sequence["LLMatcher"] | None = None,
    ) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._top_p = top_p
        self._end_tokens = end_tokens
        self._matchers = matchers
        self._is_finished = [False] * len(seeds)

    def __call__(self, _input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """`scores` (rows, vocabulary) -> the same shape, minus infinity except for each row's chosen token."""
        scores = scores.float()
        if self._matchers is not None:
            scores = self._allowed(scores)
        chosen = scores.argmax(dim=-1) if self._temperature <= 0 else self._drawn(scores)
        for row, token in enumerate(chosen.tolist()):
            if self._is_finished[row]:
                continue
            if token in self._end_tokens:
                self._is_finished[row] = True
            elif self._matchers is not None:
                self._matchers[row].consume_token(token)
        only = torch.full_like(scores, -torch.inf)
        return only.scatter_(1, chosen[:, None], 0.0)

    def _drawn(self, scores: torch.Tensor) -> torch.Tensor:
        """One token per row: inverse transform sampling from the nucleus with the row's own generator."""
        probabilities = torch.softmax(scores / self._temperature, dim=-1)
        ordered, tokens = probabilities.topk(min(_FIRST_TOKENS, scores.shape[1]), dim=-1)
        if bool((ordered.sum(dim=-1) < self._top_p).any()):
            ordered, tokens = probabilities.sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered
        ordered = ordered.masked_fill(before >= self._top_p, 0.0)  # always keep the most probable token
        draws = torch.stack([torch.rand(1, generator=generator) for generator in self._generators]).to(scores.device)
        cumulative = ordered.cumsum(dim=-1)
        at = torch.searchsorted(cumulative, draws * cumulative[:, -1:], right=True)
        last = (ordered > 0).sum(dim=-1, keepdim=True) - 1
        return tokens.gather(1, torch.minimum(at, last)).squeeze(1)

    def _allowed(self, scores: torch.Tensor) -> torch.Tensor:
        """`scores` without the tokens that a row's grammar forbids.

        A finished row keeps all of its scores, as does one whose grammar failed: the strict parser then decides.
        """
        for row, matcher in enumerate(self._matchers or ()):
            if not self._is_finished[row] and not matcher.is_error():
                # llguidance.torch would do this too, but compiles a kernel at first use and so needs a C++ compiler
                bias = torch.frombuffer(bytearray(matcher.compute_logit_bias()), dtype=torch.uint8)
                forbidden = torch.ones(scores.shape[1], dtype=torch.bool)
                width = min(len(bias), scores.shape[1])
                forbidden[:width] = bias[:width] == 0
                scores[row].masked_fill_(forbidden.to(scores.device), -torch.inf)
        return scores
