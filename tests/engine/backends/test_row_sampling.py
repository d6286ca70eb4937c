import json
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs sagedesk[ml]")

from engine.backends.row_sampling import SeededRows  # noqa: E402

WORDS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))


def chosen(scores, seeds, *, temperature=1.0, top_p=1.0, end_tokens=frozenset()):
    rows = SeededRows(seeds, temperature=temperature, top_p=top_p, end_tokens=end_tokens)
    return rows(torch.zeros(len(seeds), 1, dtype=torch.long), scores.repeat(len(seeds), 1)).argmax(dim=-1).tolist()


def test_tokens_come_as_often_as_their_probability_says():
    counts = Counter(chosen(WORDS, range(4000)))

    shares = [counts[token] / 4000 for token in range(4)]
    assert shares == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)


def test_temperature_zero_is_greedy():
    assert set(chosen(WORDS, range(50), temperature=0.0)) == {0}


def test_a_low_temperature_prefers_the_likely_token():
    assert Counter(chosen(WORDS, range(500), temperature=0.2))[0] > 400


def test_the_nucleus_leaves_out_the_tail():
    assert set(chosen(WORDS, range(2000), top_p=0.75)) == {0, 1}
    assert set(chosen(WORDS, range(50), top_p=0.01)) == {0}


def test_a_flat_distribution_is_drawn_from_the_whole_vocabulary():
    flat = torch.zeros(1, 1000)

    assert max(chosen(flat, range(500), top_p=1.0)) > 900


def test_a_row_does_not_depend_on_its_neighbours():
    scores = torch.randn(1, 400, generator=torch.Generator().manual_seed(1))

    alone = [chosen(scores, [seed], top_p=0.9)[0] for seed in range(20)]

    assert chosen(scores, range(20), top_p=0.9) == alone
    assert len(set(alone)) > 5


def test_only_the_chosen_token_keeps_a_finite_score():
    rows = SeededRows([1], temperature=1.0, top_p=1.0, end_tokens=frozenset())

    left = rows(torch.zeros(1, 1, dtype=torch.long), WORDS.clone())

    assert int(torch.isfinite(left).sum()) == 1


def test_a_grammar_decides_what_may_be_said(tiny_model_folder):
    llguidance = pytest.importorskip("llguidance", reason="needs sagedesk[ml]")
    from llguidance.hf import from_tokenizer
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_model_folder)
    end = tokenizer.eos_token_id
    answer = {"properties": {"a": {"enum": ["yes", "no"]}}, "required": ["a"], "additionalProperties": False}
    schema = json.dumps({"type": "object", **answer})
    matcher = llguidance.LLMatcher(from_tokenizer(tokenizer), llguidance.LLMatcher.grammar_from_json_schema(schema))
    rows = SeededRows([3], temperature=1.0, top_p=1.0, end_tokens=frozenset({end}), matchers=[matcher])
    width = len(tokenizer) + 10  # a head may be wider than the vocabulary

    said: list[int] = []
    while not said or said[-1] != end:
        noise = torch.randn(1, width, generator=torch.Generator().manual_seed(len(said)))
        said.append(int(rows(torch.zeros(1, 1, dtype=torch.long), noise).argmax()))
        assert len(said) < 200

    assert json.loads(tokenizer.decode(said[:-1]))["a"] in ("yes", "no")
