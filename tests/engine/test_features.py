"""Features of a pair: named, complete, and blind to what the two records do not say."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from data.ids import question_id, variant_id
from data.records import Question, Recipe, Variant
from engine.features import CONTRACT_NAMES, EMBEDDING_NAMES, FEATURE_NAMES, PLAIN_NAMES, can_be_judged, features
from engine.variant_types.table import contract_checks
from tests.engine.sample_pairs import BagOfWords, sample_rows
from training.feature_verifier import DIMENSION_FEATURES

OPTIONS = ("waits for the green light.", "paints the road blue.", "sleeps on the kerb.", "eats the traffic sign.")
CONTEXT = "A boy stands at the edge of a busy road. The light for walkers is red. The boy"
QUESTION = Question(question_id(CONTEXT, OPTIONS, 0), CONTEXT, OPTIONS, 0, "test", "1")


def variant(
    context: str = "A busy road lies before a boy, and the walkers' light is red. The boy",
    options: tuple[str, ...] = ("stays until the light turns green.", *OPTIONS[1:]),
    answer_index: int = 0,
) -> Variant:
    return Variant(
        variant_id(QUESTION.question_id, "restatement", context, options, answer_index),
        QUESTION.question_id,
        "restatement",
        context,
        options,
        answer_index,
        is_control=False,
        shuffle_seed=None,
        recipe=Recipe("test", "", "", "{}", 0),
        run_id=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def row(changed: Variant, encoder: BagOfWords | None = None) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, features([(QUESTION, changed)], encoder)[0].tolist(), strict=True))


def test_every_check_of_every_contract_is_a_feature_and_every_feature_is_learnt_from() -> None:
    met = {f"check_{check.check}" for pair in sample_rows().pairs for check in contract_checks(*pair)}

    assert met == set(CONTRACT_NAMES) - {"required_failed", "advisory_failed"}
    assert set().union(*DIMENSION_FEATURES.values()) == set(FEATURE_NAMES)
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)


def test_without_an_encoder_the_embedding_columns_are_nan_and_the_others_are_the_same() -> None:
    pairs = sample_rows().pairs[:40]

    without, with_encoder = features(pairs, None), features(pairs, BagOfWords())

    plain, embedded = len(PLAIN_NAMES), len(EMBEDDING_NAMES)
    assert without.shape == with_encoder.shape == (40, plain + embedded)
    assert np.isnan(without[:, plain:]).all()
    np.testing.assert_array_equal(without[:, :plain], with_encoder[:, :plain])
    assert np.isfinite(with_encoder[:, plain:]).all()


def test_checks_of_other_types_are_missing_and_not_failed() -> None:
    of_restatement = row(variant())

    assert of_restatement["type_restatement"] == 1.0
    assert of_restatement["type_ordering"] == 0.0
    assert of_restatement["check_other_options_kept"] == 1.0
    assert np.isnan(of_restatement["check_options_are_orders"])


def test_a_duplicated_option_and_a_moved_key_change_the_features_that_speak_of_them() -> None:
    sound = row(variant())
    doubled = row(variant(options=("stays until the light turns green.", OPTIONS[1], OPTIONS[1], OPTIONS[3])))
    moved = row(variant(options=(OPTIONS[1], "stays until the light turns green.", *OPTIONS[2:]), answer_index=0))

    assert doubled["option_pair_max"] == 1.0 > sound["option_pair_max"]
    assert doubled["required_failed"] > sound["required_failed"]
    assert moved["original_answer_margin"] < 0 < sound["original_answer_margin"]


def test_an_answer_that_the_context_gives_away_shows() -> None:
    leaking = row(variant("A busy road lies before a boy. He stays until the light turns green, always. The boy"))

    assert leaking["answer_in_added"] > row(variant())["answer_in_added"]
    assert leaking["answer_in_context"] == 1.0


def test_an_option_from_elsewhere_is_least_at_home() -> None:
    options = (
        "stays at the road until the light is green.",
        "paints the road.",
        "sleeps at the road.",
        "quantum lemma",
    )
    near = row(variant(options=(*options[:3], "eats the road sign.")), BagOfWords())

    assert row(variant(options=options), BagOfWords())["option_least_at_home"] < near["option_least_at_home"]


def test_nothing_but_question_and_variant_counts() -> None:
    other_recipe = replace(variant(), recipe=Recipe("openai", "some-model", "9", "{}", 77), shuffle_seed=3)

    np.testing.assert_array_equal(features([(QUESTION, variant())], None), features([(QUESTION, other_recipe)], None))


@pytest.mark.parametrize(
    ("changed_question", "changed_variant", "expected"),
    [
        (QUESTION, variant(), True),
        (replace(QUESTION, answer_index=None), variant(), False),
        (QUESTION, variant(answer_index=4), False),
        (QUESTION, variant(options=("alone",)), False),
        (replace(QUESTION, options=(), answer_index=None, final_answer="7"), variant(), False),
    ],
)
def test_what_marks_no_answer_among_options_cannot_be_judged(
    changed_question: Question, changed_variant: Variant, *, expected: bool
) -> None:
    assert can_be_judged(changed_question, changed_variant) is expected


def test_odd_texts_still_have_finite_features() -> None:
    odd = variant("\u202e?!", ("。", "…", "\u200b", "$$$"))

    values = features([(QUESTION, odd)], BagOfWords())[0]

    assert not np.isinf(values).any()
    assert np.isfinite(values[len(PLAIN_NAMES) :]).all()


def test_no_pairs_make_no_rows() -> None:
    assert features([], None).shape == (0, len(FEATURE_NAMES))
