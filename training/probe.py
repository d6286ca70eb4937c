"""The probe: does the policy still find accepted items more likely than rejected ones?

Owns the score of a policy on human-labelled items that the reward never touches. Refuses to learn from them, and to
score if one of the two sides is missing. A policy that exploits the verifier's weak spots makes rejected items more
likely while its reward rises: `training.stop_rules` watches for that (ADR 9).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from data.ids import row_seed
from data.records import Question, Variant

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from training.sft import TokenRow

MOST_A_SIDE: Final = 16
"""Items per side: each score reads every item once, half a second each on a CPU."""


@dataclass(frozen=True, slots=True)
class ProbeItem:
    """A variant that people judged."""

    question: Question
    variant: Variant
    is_accepted: bool


class ProbeRows(NamedTuple):
    """Tokens of both sides, never empty."""

    accepted: "list[TokenRow]"
    rejected: "list[TokenRow]"


def probe_rows(
    items: Sequence[ProbeItem], tokenizer: "PreTrainedTokenizerBase", *, max_tokens: int, seed: int
) -> ProbeRows | None:
    """At most MOST_A_SIDE per side, drawn by seed; None if a side has no item of up to `max_tokens` tokens."""
    from training.sft import generator_rows

    drawn = sorted(items, key=lambda item: row_seed("probe", seed, item.variant.variant_id))
    sides = []
    for side in (True, False):
        pairs = [(item.question, item.variant) for item in drawn if item.is_accepted is side]
        sides.append(generator_rows(pairs, tokenizer, max_tokens=max_tokens)[:MOST_A_SIDE])
    return ProbeRows(*sides) if all(sides) else None


def probe_score(model: "torch.nn.Module", rows: ProbeRows) -> float:
    """Mean log-probability per token of the accepted replies minus that of the rejected ones, in nats."""
    return fmean(_token_log_probability(model, row) for row in rows.accepted) - fmean(
        _token_log_probability(model, row) for row in rows.rejected
    )


def _token_log_probability(model: "torch.nn.Module", row: "TokenRow") -> float:
    """Mean over the completion's tokens, in evaluation mode; restores the model's mode."""
    import torch

    was_training = model.training
    model.eval()
    try:
        # not inference_mode: tensors cached in it (rotary tables) could not be trained through afterwards
        with torch.no_grad():
            tokens = torch.tensor([row.tokens], device=next(model.parameters()).device)
            wanted = tokens[0, row.completion_start :]
            # the logits that predict the completion, and the one after it
            logits = model(input_ids=tokens, logits_to_keep=len(wanted) + 1, use_cache=False).logits[0, :-1]
            chosen = torch.log_softmax(logits.float(), dim=-1).gather(1, wanted[:, None])
            return float(chosen.mean())
    finally:
        model.train(was_training)
