import pytest

pytest.importorskip("torch", reason="needs sagedesk[ml]")

import torch

from data.samples import sample_questions, sample_variants
from engine.backends.transformers import load_causal_model
from training.probe import MOST_A_SIDE, ProbeItem, ProbeRows, probe_rows, probe_score
from training.sft import generator_rows

pytestmark = pytest.mark.model

QUESTIONS = {question.question_id: question for question in sample_questions()}
ITEMS = [
    ProbeItem(QUESTIONS[it.variant.question_id], it.variant, bool(it.answers.is_valid)) for it in sample_variants()
]


@pytest.fixture(scope="module")
def loaded(tiny_model_folder):
    return load_causal_model(tiny_model_folder)


def test_the_score_is_the_difference_of_the_mean_log_probabilities_a_token(loaded):
    model, tokenizer = loaded
    good, bad = (next(item for item in ITEMS if item.is_accepted is side) for side in (True, False))
    rows = ProbeRows(*(generator_rows([(it.question, it.variant)], tokenizer, max_tokens=2000) for it in (good, bad)))

    expected = []
    for [row] in rows:
        tokens = torch.tensor([row.tokens])
        with torch.no_grad():
            log_probabilities = torch.log_softmax(model(tokens).logits[0], dim=-1)
        places = range(row.completion_start, len(row.tokens))
        expected.append(sum(float(log_probabilities[p - 1, row.tokens[p]]) for p in places) / len(places))

    assert probe_score(model, rows) == pytest.approx(expected[0] - expected[1], abs=1e-5)


def test_a_policy_that_finds_rejected_items_likelier_scores_below_one_that_does_not(loaded):
    model, tokenizer = loaded
    rows = probe_rows(ITEMS, tokenizer, max_tokens=2000, seed=0)
    assert rows is not None

    assert probe_score(model, rows) == pytest.approx(-probe_score(model, ProbeRows(rows.rejected, rows.accepted)))


def test_both_sides_are_drawn_by_seed_and_bounded(loaded):
    _, tokenizer = loaded

    rows = probe_rows(ITEMS, tokenizer, max_tokens=2000, seed=0)
    assert rows is not None

    assert (len(rows.accepted), len(rows.rejected)) == (MOST_A_SIDE, MOST_A_SIDE)
    assert rows == probe_rows(ITEMS[::-1], tokenizer, max_tokens=2000, seed=0)
    assert rows != probe_rows(ITEMS, tokenizer, max_tokens=2000, seed=1)


@pytest.mark.parametrize("side", [True, False])
def test_without_one_of_the_sides_there_is_no_probe(loaded, side):
    _, tokenizer = loaded

    assert probe_rows([item for item in ITEMS if item.is_accepted is side], tokenizer, max_tokens=2000, seed=0) is None
    assert probe_rows(ITEMS, tokenizer, max_tokens=5, seed=0) is None


def test_a_score_leaves_the_policy_in_training_mode(loaded):
    model, tokenizer = loaded
    rows = probe_rows(ITEMS[:40], tokenizer, max_tokens=2000, seed=0)
    assert rows is not None
    model.train()

    probe_score(model, rows)

    assert model.training
    model.eval()
