"""The feature verifier as a thing that is saved, loaded and asked."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from data.errors import ModelError
from engine.feature_verifier import MODEL_FILE, FeatureVerifier
from tests.engine.sample_pairs import BagOfWords, sample_rows
from training.feature_verifier import train

NOW = datetime(2026, 3, 4, tzinfo=UTC)
ROWS = sample_rows()


@pytest.fixture(scope="module")
def verifier() -> FeatureVerifier:
    return train(*ROWS, seed=3, encoder=None).verifier


def test_a_loaded_verifier_judges_as_the_one_that_was_saved(verifier: FeatureVerifier, tmp_path: Path) -> None:
    verifier.save(tmp_path)
    loaded = FeatureVerifier.load(tmp_path, None)

    assert loaded.version == verifier.version
    assert loaded.version.startswith("feature:")
    assert loaded.judge(ROWS.pairs[:50], now=NOW) == verifier.judge(ROWS.pairs[:50], now=NOW)


def test_saving_the_same_verifier_twice_gives_the_same_bytes(verifier: FeatureVerifier, tmp_path: Path) -> None:
    verifier.save(tmp_path / "one")
    FeatureVerifier.load(tmp_path / "one", None).save(tmp_path / "two")

    assert (tmp_path / "one" / MODEL_FILE).read_bytes() == (tmp_path / "two" / MODEL_FILE).read_bytes()
    assert [file.name for file in (tmp_path / "one").iterdir()] == [MODEL_FILE]


def test_each_pair_gets_three_dimensions_and_their_product(verifier: FeatureVerifier) -> None:
    verdicts = verifier.judge(ROWS.pairs[:30], now=NOW)

    for start in range(0, len(verdicts), 4):
        tc, lc, au, valid = verdicts[start : start + 4]
        assert [verdict.target for verdict in (tc, lc, au, valid)] == ["TC", "LC", "AU", "valid"]
        assert {verdict.variant_id for verdict in (tc, lc, au, valid)} == {ROWS.pairs[start // 4][1].variant_id}
        assert valid.probability == pytest.approx(math.prod(one.probability or 0 for one in (tc, lc, au)))
        assert valid.label == all(one.label for one in (tc, lc, au))
        assert {(one.method, one.created_at, one.raw) for one in (tc, lc, au, valid)} == {("feature", NOW, None)}


def test_a_verdict_does_not_depend_on_what_is_judged_beside_it(verifier: FeatureVerifier) -> None:
    together = verifier.judge(ROWS.pairs[:20], now=NOW)
    alone = [verdict for pair in reversed(ROWS.pairs[:20]) for verdict in verifier.judge([pair], now=NOW)]

    by_key = {(verdict.variant_id, verdict.target): verdict for verdict in alone}
    assert len(by_key) == 80
    for verdict in together:
        assert verdict.probability == pytest.approx(by_key[verdict.variant_id, verdict.target].probability, abs=1e-12)


def test_an_item_without_a_usable_answer_is_said_to_be_so_in_its_place(verifier: FeatureVerifier) -> None:
    question, variant = ROWS.pairs[0]
    pairs = [
        ROWS.pairs[1],
        (replace(question, answer_index=None), variant),
        (question, replace(variant, answer_index=9)),
    ]

    verdicts = verifier.judge(pairs, now=NOW)

    assert [verdict.label is None for verdict in verdicts] == [False] * 4 + [True] * 8
    assert {verdict.probability for verdict in verdicts[4:]} == {None}
    assert "original does not have a marked answer" in str(verdicts[4].raw)
    assert "variant does not have a marked answer" in str(verdicts[8].raw)


def test_nothing_to_judge_is_no_verdict(verifier: FeatureVerifier) -> None:
    assert verifier.judge([], now=NOW) == []


def test_a_changed_weight_is_refused(verifier: FeatureVerifier, tmp_path: Path) -> None:
    verifier.save(tmp_path)
    saved = json.loads((tmp_path / MODEL_FILE).read_text())
    saved["model"]["dimensions"][0]["intercept"] += 0.001
    (tmp_path / MODEL_FILE).write_text(json.dumps(saved))

    with pytest.raises(ModelError, match="has changed since it was saved"):
        FeatureVerifier.load(tmp_path, None)


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95", b"[]", b'{"version": "feature:0"}', b'{"model": 1e999}'])
def test_what_is_no_feature_verifier_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).write_bytes(content)

    with pytest.raises(ModelError, match="is not a feature verifier"):
        FeatureVerifier.load(tmp_path, None)


def test_an_empty_folder_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="train one first"):
        FeatureVerifier.load(tmp_path, None)


@pytest.mark.slow
def test_a_verifier_that_knows_an_encoder_is_not_loaded_without_it(tmp_path: Path) -> None:
    trained = train(*ROWS, seed=3, encoder=BagOfWords()).verifier
    trained.save(tmp_path)

    with pytest.raises(ModelError, match=r"engine\.embedded"):
        FeatureVerifier.load(tmp_path, None)


def test_a_verifier_without_embeddings_does_not_open_the_encoder(verifier: FeatureVerifier, tmp_path: Path) -> None:
    verifier.save(tmp_path)

    assert FeatureVerifier.load(tmp_path, tmp_path / "no such folder").version == verifier.version
