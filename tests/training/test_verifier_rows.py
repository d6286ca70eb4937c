"""A verifier's training rows are what it reads when it judges, and the answer that a person gave."""

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

from data.dimensions import DIMENSIONS
from data.errors import InputError, ModelError
from data.records import Answers, VerdictTarget
from engine.backends.transformers import load_causal_model
from engine.verify import LanguageModelVerifier
from engine.verify_passes import answer_tokens
from tests.engine.sample_pairs import sample_rows
from training.verifier_rows import ClassWeights, class_weights, era_rows, ira_rows

pytestmark = pytest.mark.model

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SAMPLE = sample_rows()
PAIRS = SAMPLE.pairs[:6]
EVEN: dict[VerdictTarget, ClassWeights] = {target: ClassWeights(1.0, 1.0) for target in get_args(VerdictTarget)}


@pytest.fixture(scope="module")
def loaded(tiny_model_folder):
    return load_causal_model(tiny_model_folder)


def read_by(loaded, pairs, method):
    """The sequences that the model is given while a verifier judges, without their padding."""
    model, tokenizer = loaded
    seen = []

    def note(_module, _arguments, named):
        seen.extend(named["input_ids"].tolist())

    hook = model.base_model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        judge = LanguageModelVerifier(model, tokenizer, version="lm:test", method=method, batch_tokens=1)
        judge.judge(pairs, now=NOW)
    finally:
        hook.remove()
    return seen


def trimmed(sequence):
    """Without the padding, token 0 on the right."""
    while sequence and sequence[-1] == 0:
        sequence = sequence[:-1]
    return tuple(sequence)


def test_an_era_row_without_its_answer_is_what_the_model_reads(loaded):
    rows = era_rows(PAIRS, [Answers(True, False, True)] * len(PAIRS), loaded[1], EVEN)

    read = {trimmed(sequence) for sequence in read_by(loaded, PAIRS, "era_separate")}

    assert len(rows) == 3 * len(PAIRS)
    assert {row.tokens[: row.completion_start] for row in rows} == read


def test_an_ira_row_without_its_answer_is_what_the_model_reads(loaded):
    rows = ira_rows(PAIRS, [Answers(True, True, True)] * len(PAIRS), loaded[1], EVEN)

    read = [trimmed(sequence) for sequence in read_by(loaded, PAIRS, "ira")]

    assert {row.tokens[: row.completion_start] for row in rows} == set(read)
    assert len(rows) == len(PAIRS)


def test_the_packed_pass_reads_the_same_tokens_side_by_side(loaded):
    pair = PAIRS[:1]
    rows = era_rows(pair, [Answers(True, True, True)], loaded[1], EVEN)

    packed = trimmed(read_by(loaded, pair, "era_packed")[-1])

    prompts = [row.tokens[:-1] for row in rows]
    body = next(n for n in range(len(prompts[0])) if len({prompt[: n + 1] for prompt in prompts}) > 1)
    suffixes = sum(len(prompt) for prompt in prompts) - len(packed)
    assert suffixes % 2 == 0  # the body stands once instead of three times
    assert suffixes // 2 <= body
    assert packed[: suffixes // 2] == prompts[0][: suffixes // 2]


def test_the_answer_is_the_one_token_that_is_read_at_inference(loaded):
    said = answer_tokens(loaded[1], yes=" yes", no=" no")
    answers = [Answers(True, False, None)]

    era = era_rows(PAIRS[:1], answers, loaded[1], EVEN)
    ira = ira_rows(PAIRS[:1], answers, loaded[1], EVEN)

    assert [row.tokens[row.completion_start :] for row in era] == [(said.yes,), (said.no,)]
    assert [row.tokens[row.completion_start :] for row in ira] == [(said.no,)]


def test_what_was_not_answered_gives_no_row(loaded):
    open_answers = [Answers(True, None, True), Answers(None, None, None)]

    assert len(era_rows(PAIRS[:2], open_answers, loaded[1], EVEN)) == 2
    assert ira_rows(PAIRS[:2], open_answers, loaded[1], EVEN) == []


def test_both_answers_of_a_dimension_count_the_same_together(loaded):
    answers = [Answers(n % 4 != 0, n % 2 == 0, n % 5 != 0) for n in range(40)]
    groups = [f"c_{n}" for n in range(40)]
    weights = class_weights(answers, groups, "era")

    rows = era_rows([PAIRS[0]] * 40, answers, loaded[1], weights)

    said = answer_tokens(loaded[1], yes=" yes", no=" no")
    for place in range(len(DIMENSIONS)):
        of_dimension = rows[place :: len(DIMENSIONS)]
        yes = sum(row.weight for row in of_dimension if row.tokens[-1] == said.yes)
        no = sum(row.weight for row in of_dimension if row.tokens[-1] == said.no)
        assert yes == pytest.approx(no)
        assert yes + no == pytest.approx(40)


def test_a_rare_answer_counts_ten_times_at_most():
    answers = [Answers(n > 1, True, n % 2 == 0) for n in range(400)]

    weights = class_weights([Answers(it.tc, it.au, it.au) for it in answers], [f"c_{n}" for n in range(400)], "era")

    assert weights["TC"].no == 10.0
    assert weights["TC"].yes == pytest.approx(400 / 398 / 2)
    assert weights["LC"] == ClassWeights(1.0, 1.0)


@pytest.mark.parametrize(
    ("answers", "method", "said"),
    [
        ([Answers(n % 2 == 0, n % 2 == 0, True) for n in range(8)], "era", "AU is answered no for 0 questions"),
        ([Answers(True, True, True)] * 8, "ira", "valid is answered no for 0 questions"),
        ([Answers(n % 2 == 0, None, n % 2 == 0) for n in range(8)], "era", "LC is answered yes for 0 questions"),
    ],
)
def test_one_answer_only_is_refused_by_the_name_of_its_target(answers, method, said):
    with pytest.raises(InputError, match=said):
        class_weights(answers, [f"c_{n}" for n in range(8)], method)


def test_a_tokenizer_that_splits_the_answer_is_refused(loaded):
    class Spelling:
        """Every character is a token."""

        bos_token_id = None

        def __call__(self, text, **_further):
            return type("Encoded", (), {"input_ids": [ord(one) for one in text]})()

    spelling: Any = Spelling()

    with pytest.raises(ModelError, match="cannot be a verifier"):
        era_rows(PAIRS[:1], [Answers(True, True, True)], spelling, EVEN)
