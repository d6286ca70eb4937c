"""The passes of a language-model verifier: three rubrics in one sequence under a tree mask, or one sequence each.

Packed: [body | suffix 1 | suffix 2 | suffix 3 | padding]. A suffix sees only the body and its own past, and its
positions restart after the body, so it cannot tell that it has siblings. Both ways read only the two rows " yes" and
" no" of the output head, at each suffix's last token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from data.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """One item's tokens: the shared body and each rubric suffix."""

    body: tuple[int, ...]
    suffixes: tuple[tuple[int, ...], ...]

    @property
    def packed_length(self) -> int:
        return len(self.body) + sum(map(len, self.suffixes))

    @property
    def longest_separate(self) -> int:
        return len(self.body) + max(map(len, self.suffixes))


class AnswerTokens(NamedTuple):
    """Token ids of the two answers."""

    yes: int
    no: int


class _Batch(NamedTuple):
    """One right-padded forward pass, and where each answer is read, by item, then by suffix.

    `tokens`: (rows, length) int64. `positions`: the same shape, and `mask`: (rows, 1, length, length), 0 or a large
    negative number to add; both None if every row is a plain causal sequence.
    """

    tokens: torch.Tensor
    positions: torch.Tensor | None
    mask: torch.Tensor | None
    read_rows: torch.Tensor
    read_columns: torch.Tensor


def plain_tokens(tokenizer: "PreTrainedTokenizerBase", text: str) -> tuple[int, ...]:
    """Tokens of `text` as plain text: special tokens in it are split, and none is added."""
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
    return tuple(int(token) for token in ids)


def answer_tokens(tokenizer: "PreTrainedTokenizerBase", *, yes: str, no: str) -> AnswerTokens:
    """Raises ModelError unless each word is a single token after "Answer:"."""
    before = plain_tokens(tokenizer, "Answer:")
    found = []
    for word in (yes, no):
        joined = plain_tokens(tokenizer, "Answer:" + word)
        if joined[:-1] != before:
            raise ModelError(
                f"the tokenizer splits {word!r} into several tokens; use another model, this one cannot be a verifier"
            )
        found.append(joined[-1])
    return AnswerTokens(*found)


def yes_probabilities(
    model: "PreTrainedModel", prompts: Sequence[PromptTokens], answers: AnswerTokens, *, packed: bool
) -> list[list[float]]:
    """P(yes) against no: per prompt, one number per suffix; all prompts in one forward pass."""
    batch = _packed_batch(prompts) if packed else _separate_batch(prompts)
    logits = _two_row_logits(model, batch, answers)
    flat = torch.sigmoid(logits[:, 0] - logits[:, 1]).tolist()
    pending = iter(flat)
    return [[next(pending) for _ in prompt.suffixes] for prompt in prompts]


def packed_difference(model: "PreTrainedModel", prompts: Sequence[PromptTokens], answers: AnswerTokens) -> float:
    """Largest difference in P(yes) between the packed pass and plain passes (one row each, full output head).

    In fp32, whatever the model's precision: in bf16 rounding alone causes 0.02 on a model that respects our mask.
    """
    plain = []
    with _in_fp32(model), torch.inference_mode():
        packed = [p for row in yes_probabilities(model, prompts, answers, packed=True) for p in row]
        for prompt in prompts:
            for suffix in prompt.suffixes:
                ids = torch.tensor([[*prompt.body, *suffix]], device=model.device)
                logits = model(input_ids=ids).logits[0, -1].float()
                plain.append(torch.sigmoid(logits[answers.yes] - logits[answers.no]).item())
    return max(abs(a - b) for a, b in zip(packed, plain, strict=True))


@contextmanager
def _in_fp32(model: "PreTrainedModel") -> Iterator[None]:
    """Parameters only: casting the whole model back and forth would round its position buffers."""
    kept = [(parameter, parameter.dtype) for parameter in model.parameters()]
    for parameter, _ in kept:
        parameter.data = parameter.data.float()
    try:
        yield
    finally:
        for parameter, precision in kept:
            parameter.data = parameter.data.to(precision)  # exact: the values came from there


def _two_row_logits(model: "PreTrainedModel", batch: _Batch, answers: AnswerTokens) -> torch.Tensor:
    """(answers read, 2) float32 on the CPU: logits of yes and no."""
    with torch.inference_mode():
        device = model.device
        hidden: torch.Tensor = model.base_model(
            input_ids=batch.tokens.to(device),
            attention_mask=None if batch.mask is None else batch.mask.to(device=device, dtype=model.dtype),
            position_ids=None if batch.positions is None else batch.positions.to(device),
            use_cache=False,
        ).last_hidden_state
        at_answers = hidden[batch.read_rows.to(device), batch.read_columns.to(device)].float()
        head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        weight: torch.Tensor = head.weight
        bias: torch.Tensor | None = getattr(head, "bias", None)
        two = list(answers)
        logits = torch.nn.functional.linear(
            at_answers, weight[two].float(), None if bias is None else bias[two].float()
        )
        return logits.cpu()


def _packed_batch(prompts: Sequence[PromptTokens]) -> _Batch:
    rows, length = len(prompts), max(prompt.packed_length for prompt in prompts)
    tokens = torch.zeros(rows, length, dtype=torch.long)
    positions = torch.zeros(rows, length, dtype=torch.long)
    # padding attends to itself: a softmax over nothing is not finite
    sees = torch.eye(length, dtype=torch.bool).repeat(rows, 1, 1)
    read_rows, read_columns = [], []
    for row, prompt in enumerate(prompts):
        body = len(prompt.body)
        tokens[row, :body] = torch.tensor(prompt.body)
        positions[row, :body] = torch.arange(body)
        sees[row, :body, :body] = _triangle(body)
        start = body
        for suffix in prompt.suffixes:
            end = start + len(suffix)
            tokens[row, start:end] = torch.tensor(suffix)
            positions[row, start:end] = torch.arange(body, body + len(suffix))
            sees[row, start:end, :body] = True
            sees[row, start:end, start:end] = _triangle(len(suffix))
            read_rows.append(row)
            read_columns.append(end - 1)
            start = end
    # bf16 has the smallest range of the dtypes in use, so its minimum survives every conversion
    hidden = torch.finfo(torch.bfloat16).min
    mask = torch.zeros(sees.shape).masked_fill_(~sees, hidden).unsqueeze(1)
    return _Batch(tokens, positions, mask, torch.tensor(read_rows), torch.tensor(read_columns))


def _separate_batch(prompts: Sequence[PromptTokens]) -> _Batch:
    """Padding comes after every answer that is read, so causal attention alone hides it."""
    sequences = [(*prompt.body, *suffix) for prompt in prompts for suffix in prompt.suffixes]
    tokens = torch.zeros(len(sequences), max(map(len, sequences)), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = torch.tensor(sequence)
    ends = torch.tensor([len(sequence) - 1 for sequence in sequences])
    return _Batch(tokens, None, None, torch.arange(len(sequences)), ends)


def _triangle(size: int) -> torch.Tensor:
    return torch.ones(size, size, dtype=torch.bool).tril()
