"""Opening a trained verifier's folder, whatever its kind, with its calibration."""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from data.errors import ModelError
from data.records import Verdict, VerdictMethod, VerdictTarget
from engine.calibration import CALIBRATION_FILE, Calibration, Isotonic, Platt
from engine.feature_verifier import MODEL_FILE
from engine.verifiers import (
    METHOD_FILE,
    CalibratedVerifier,
    open_verifier,
    verifier_method,
    verifier_version,
    write_method,
)
from engine.verify import Pair
from tests.engine.sample_pairs import sample_rows
from training.feature_verifier import train

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = sample_rows()
HALVED = Isotonic((0.0, 1.0), (0.0, 0.5))
TARGETS: tuple[VerdictTarget, ...] = ("TC", "LC", "AU", "valid")


class FixedVerifier:
    """Gives every item the same probabilities; None is an item that it cannot judge."""

    version = "fixed:1"
    method: VerdictMethod = "era_packed"

    def __init__(self, **probabilities: float | None) -> None:
        self._probabilities = MappingProxyType(probabilities)

    def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
        return [
            Verdict(
                variant.variant_id,
                target,
                probability,
                None if probability is None else probability >= 0.5,
                self.version,
                self.method,
                "not judged" if probability is None else None,
                now,
            )
            for _, variant in pairs
            for target in TARGETS
            if target in self._probabilities
            for probability in [self._probabilities[target]]
        ]


def judged(verifier: FixedVerifier, calibration: Calibration, pairs: Sequence[Pair] = ROWS.pairs[:1]) -> list[Verdict]:
    return CalibratedVerifier(verifier, calibration).judge(pairs, now=NOW)


def answers(verdicts: Sequence[Verdict]) -> dict[str, tuple[Any, Any]]:  # compared with pytest.approx
    return {one.target: (one.probability, one.label) for one in verdicts}


@pytest.fixture(scope="module")
def feature_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feature")
    train(*ROWS, seed=3, encoder=None).verifier.save(folder)
    return folder


@pytest.fixture
def language_folder(tmp_path: Path, tiny_model_folder: Path) -> Path:
    folder = shutil.copytree(tiny_model_folder, tmp_path / "language")
    write_method(folder, "era_packed", base="tiny")
    return folder


def calibrated(folder: Path, calibration: Calibration, to: Path) -> Path:
    made = shutil.copytree(folder, to)
    calibration.save(made)
    return made


def test_validity_is_the_product_of_the_mapped_dimensions_and_is_mapped_in_turn() -> None:
    verifier = FixedVerifier(TC=0.8, LC=0.9, AU=0.7, valid=0.504)

    said = answers(judged(verifier, Calibration({"TC": HALVED, "valid": Isotonic((0.0, 1.0), (0.2, 1.0))})))

    assert said["TC"] == (pytest.approx(0.4), False)
    assert said["LC"] == (0.9, True)
    assert said["valid"] == (pytest.approx(0.2 + 0.8 * 0.4 * 0.9 * 0.7), False)


def test_without_a_threshold_of_its_own_validity_is_the_three_labels_together() -> None:
    verifier = FixedVerifier(TC=0.6, LC=0.6, AU=0.6, valid=0.216)

    assert answers(judged(verifier, Calibration()))["valid"] == (pytest.approx(0.216), True)
    assert answers(judged(verifier, Calibration(thresholds={"AU": 0.61})))["valid"] == (pytest.approx(0.216), False)
    assert answers(judged(verifier, Calibration(thresholds={"valid": 0.3})))["valid"] == (pytest.approx(0.216), False)
    assert answers(judged(verifier, Calibration(thresholds={"valid": 0.2})))["valid"] == (pytest.approx(0.216), True)


def test_validity_alone_is_mapped_from_the_verifiers_own_word() -> None:
    verifier = FixedVerifier(valid=0.9)

    said = judged(verifier, Calibration({"valid": HALVED, "TC": Platt(0.1, 0.0)}, {"valid": 0.4}))

    assert answers(said) == {"valid": (pytest.approx(0.45), True)}


def test_an_item_that_was_not_judged_stays_so_beside_one_that_was() -> None:
    class HalfBlind(FixedVerifier):
        def judge(self, pairs: Sequence[Pair], *, now: datetime) -> list[Verdict]:
            nothing = FixedVerifier(TC=None, LC=None, AU=None, valid=None)
            return [*nothing.judge(pairs[:1], now=now), *super().judge(pairs[1:], now=now)]

    verdicts = judged(HalfBlind(TC=0.8, LC=0.8, AU=0.8, valid=0.5), Calibration({"TC": HALVED}), ROWS.pairs[:2])

    assert [(one.probability, one.label, one.raw) for one in verdicts[:4]] == [(None, None, "not judged")] * 4
    assert answers(verdicts[4:])["valid"] == (pytest.approx(0.4 * 0.8 * 0.8), False)
    assert {one.verifier_version for one in verdicts} == {"fixed:1+c" + Calibration({"TC": HALVED}).content_hash}
    assert {one.method for one in verdicts} == {"era_packed"}


def test_a_feature_folder_opens_as_what_it_says_before_it_is_opened(feature_folder: Path) -> None:
    verifier = open_verifier(feature_folder, encoder=None)

    assert verifier_method(feature_folder) == verifier.method == "feature"
    assert verifier_version(feature_folder) == verifier.version
    assert len(verifier.judge(ROWS.pairs[:2], now=NOW)) == 8


def test_a_calibration_changes_version_and_verdicts_and_not_the_method(feature_folder: Path, tmp_path: Path) -> None:
    calibration = Calibration({"LC": HALVED}, {"LC": 0.2})
    folder = calibrated(feature_folder, calibration, tmp_path / "calibrated")

    verifier, plain = open_verifier(folder, encoder=None), open_verifier(feature_folder, encoder=None)

    assert verifier.version == verifier_version(folder) == f"{plain.version}+c{calibration.content_hash}"
    assert verifier.method == "feature"
    raw, mapped = (answers(one.judge(ROWS.pairs[:1], now=NOW)) for one in (plain, verifier))
    assert mapped["TC"] == raw["TC"]
    assert mapped["LC"][0] == pytest.approx(raw["LC"][0] / 2)


def test_a_changed_feature_file_has_no_version(feature_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(feature_folder, tmp_path / "changed")
    content = json.loads((folder / MODEL_FILE).read_text())
    content["model"]["dimensions"][0]["intercept"] += 1
    (folder / MODEL_FILE).write_text(json.dumps(content))

    with pytest.raises(ModelError, match="changed since it was saved"):
        verifier_version(folder)
    with pytest.raises(ModelError, match="changed since it was saved"):
        open_verifier(folder, encoder=None)


@pytest.mark.parametrize("method", ["era_packed", "era_separate", "ira"])
def test_a_language_folder_opens_with_the_method_that_it_was_trained_for(language_folder: Path, method: str) -> None:
    (language_folder / METHOD_FILE).write_text(json.dumps({"method": method, "base": "tiny"}))

    verifier = open_verifier(language_folder, encoder=None)

    assert verifier_method(language_folder) == verifier.method == method
    assert verifier_version(language_folder) == verifier.version
    targets = [one.target for one in verifier.judge(ROWS.pairs[:1], now=NOW)]
    assert targets == (["valid"] if method == "ira" else ["TC", "LC", "AU", "valid"])


def test_an_ira_folder_is_calibrated_on_validity_alone(language_folder: Path, tmp_path: Path) -> None:
    write_method(language_folder, "ira", base="tiny")
    calibration = Calibration({"valid": Platt(0.5, -1.0)}, {"valid": 0.3})
    folder = calibrated(language_folder, calibration, tmp_path / "calibrated")

    [raw] = open_verifier(language_folder, encoder=None).judge(ROWS.pairs[:1], now=NOW)
    [said] = open_verifier(folder, encoder=None).judge(ROWS.pairs[:1], now=NOW)

    assert raw.probability is not None
    assert said.probability == pytest.approx(calibration.probability("valid", raw.probability))
    assert said.label == (said.probability is not None and said.probability >= 0.3)
    assert said.method == "ira"
    assert said.verifier_version == verifier_version(folder) == f"{raw.verifier_version}+c{calibration.content_hash}"


def test_a_folder_that_is_no_verifier_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=rf"neither {MODEL_FILE} nor {METHOD_FILE}"):
        open_verifier(tmp_path, encoder=None)
    (tmp_path / METHOD_FILE).write_text('{"method": "oracle"}')
    with pytest.raises(ModelError, match="'oracle'"):
        verifier_version(tmp_path)
    (tmp_path / METHOD_FILE).write_text('["ira"]')
    with pytest.raises(ModelError, match="does not name a method"):
        verifier_method(tmp_path)


def test_a_language_folder_with_a_pickle_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    write_method(tmp_path, "ira", base="x")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")

    with pytest.raises(ModelError, match="pickle"):
        verifier_version(tmp_path)
    with pytest.raises(ModelError, match="pickle"):
        open_verifier(tmp_path, encoder=None)


def test_a_damaged_calibration_keeps_the_verifier_from_opening(feature_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(feature_folder, tmp_path / "damaged")
    (folder / CALIBRATION_FILE).write_text("{}")

    with pytest.raises(ModelError, match=CALIBRATION_FILE):
        open_verifier(folder, encoder=None)
