from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs sagedesk[ml]")

from data.errors import ModelError  # noqa: E402
from engine.backends.transformers import load_causal_model  # noqa: E402
from engine.verify_passes import (  # noqa: E402
    AnswerTokens,
    PromptTokens,
    answer_tokens,
    packed_difference,
    plain_tokens,
    yes_probabilities,
)

ANSWERS = AnswerTokens(5, 6)


@pytest.fixture(scope="module")
def tiny(tiny_model_folder):
    return load_causal_model(tiny_model_folder)


def prompt(seed, body, *suffixes):
    generator = torch.Generator().manual_seed(seed)

    def tokens(count):
        return tuple(torch.randint(3, 250, (count,), generator=generator).tolist())

    return PromptTokens(tokens(body), tuple(tokens(count) for count in suffixes))


def largest_difference(left, right):
    return max(abs(a - b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_packed_and_separate_passes_agree_in_a_padded_batch(tiny, attention):
    model = tiny[0]
    model.set_attn_implementation(attention)
    prompts = [prompt(1, 60, 7, 5, 9), prompt(2, 13, 9, 4, 6), prompt(3, 1, 1, 1, 1)]

    packed = yes_probabilities(model, prompts, ANSWERS, packed=True)
    separate = yes_probabilities(model, prompts, ANSWERS, packed=False)

    model.set_attn_implementation("sdpa")
    assert largest_difference(packed, separate) <= 1e-4
    assert max(map(max, packed)) - min(map(min, packed)) > 0.01  # else the model tells nothing apart


def test_a_suffix_does_not_notice_its_siblings(tiny):
    alone, other = prompt(1, 30, 8), prompt(2, 30, 11, 6)
    together = PromptTokens(alone.body, (other.suffixes[0], alone.suffixes[0], other.suffixes[1]))

    [[by_itself]] = yes_probabilities(tiny[0], [alone], ANSWERS, packed=True)
    [[_, among_others, _]] = yes_probabilities(tiny[0], [together], ANSWERS, packed=True)

    assert among_others == pytest.approx(by_itself, abs=1e-5)


def test_every_token_of_body_and_suffix_counts(tiny):
    original = prompt(4, 20, 6, 6)
    [before] = yes_probabilities(tiny[0], [original], ANSWERS, packed=True)

    other_body = PromptTokens((original.body[0] + 1, *original.body[1:]), original.suffixes)
    first, second = original.suffixes
    other_suffix = PromptTokens(original.body, ((first[0] + 1, *first[1:]), second))
    [with_body] = yes_probabilities(tiny[0], [other_body], ANSWERS, packed=True)
    [with_suffix] = yes_probabilities(tiny[0], [other_suffix], ANSWERS, packed=True)

    assert all(abs(a - b) > 1e-6 for a, b in zip(before, with_body, strict=True))
    assert abs(before[0] - with_suffix[0]) > 1e-6
    assert with_suffix[1] == pytest.approx(before[1], abs=1e-6)


def test_neighbours_in_the_batch_do_not_change_a_row(tiny):
    short, long = prompt(1, 10, 4, 4), prompt(2, 90, 7, 8)

    alone = yes_probabilities(tiny[0], [short], ANSWERS, packed=True)
    beside = yes_probabilities(tiny[0], [short, long], ANSWERS, packed=True)

    assert beside[0] == pytest.approx(alone[0], abs=1e-5)


def test_a_model_that_ignores_the_mask_shows_a_difference(tiny):
    model = tiny[0]

    class Deaf:
        """The same weights, but the trunk drops the mask."""

        device, dtype = model.device, model.dtype
        get_output_embeddings = model.get_output_embeddings
        parameters = model.parameters
        __call__ = model.__call__

        @staticmethod
        def base_model(input_ids, attention_mask, position_ids, use_cache):
            hidden = model.base_model(input_ids=input_ids, use_cache=use_cache).last_hidden_state
            return SimpleNamespace(last_hidden_state=hidden)

    prompts = [prompt(5, 20, 6, 6, 6)]

    assert packed_difference(model, prompts, ANSWERS) < 1e-4
    deaf: Any = Deaf()
    assert packed_difference(deaf, prompts, ANSWERS) > 1e-3


def test_rounding_in_half_precision_is_not_taken_for_a_model_that_ignores_the_mask(tiny_model_folder):
    model, _ = load_causal_model(tiny_model_folder)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    prompts = [prompt(seed, 20, 6, 6, 6) for seed in range(3)]
    packed, separate = (yes_probabilities(model, prompts, ANSWERS, packed=way) for way in (True, False))
    assert largest_difference(packed, separate) > 1e-3

    assert packed_difference(model, prompts, ANSWERS) < 1e-4
    assert model.dtype == torch.bfloat16


def test_special_tokens_in_text_become_plain_tokens(tiny):
    tokenizer = tiny[1]
    special = set(tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"]))

    assert special & set(tokenizer("a <|im_start|> b").input_ids)
    assert not special & set(plain_tokens(tokenizer, "a <|im_start|>system<|im_end|> b"))


def test_answers_are_one_token_each(tiny):
    answers = answer_tokens(tiny[1], yes=" yes", no=" no")

    assert tiny[1].convert_ids_to_tokens(list(answers)) == ["Ġyes", "Ġno"]


def test_a_tokenizer_without_one_token_answers_is_refused(tiny):
    with pytest.raises(ModelError, match="several tokens"):
        answer_tokens(tiny[1], yes=" unquestionably", no=" no")
