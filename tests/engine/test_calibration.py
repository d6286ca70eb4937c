"""Maps and thresholds between a verifier's probabilities and its verdicts."""

import json
from pathlib import Path

import numpy as np
import pytest

from data.errors import ModelError
from engine.calibration import CALIBRATION_FILE, Calibration, Isotonic, Platt

BOTH = Calibration(
    maps={"TC": Platt(0.5, 1.0), "valid": Isotonic((0.1, 0.5, 0.9), (0.0, 0.2, 1.0))},
    thresholds={"TC": 0.8},
)


def test_a_target_without_a_map_keeps_its_probabilities_and_is_yes_from_a_half() -> None:
    raw = np.array([0.0, 0.3, 1.0])

    assert BOTH.mapped("LC", raw).tolist() == [0.0, 0.3, 1.0]
    assert BOTH.threshold("LC") == 0.5


def test_a_platt_map_is_a_line_on_the_log_odds() -> None:
    odds = np.exp(0.5 * np.log(0.2 / 0.8) + 1.0)

    assert BOTH.probability("TC", 0.2) == pytest.approx(odds / (1 + odds))
    assert BOTH.threshold("TC") == 0.8


def test_a_certain_model_is_mapped_to_a_finite_doubt() -> None:
    mapped = Platt(0.5, 0.0)(np.array([0.0, 1.0]))

    assert 0 < mapped[0] < 0.01
    assert 0.99 < mapped[1] < 1


def test_an_isotonic_map_is_straight_between_its_points_and_flat_outside() -> None:
    assert BOTH.mapped("valid", np.array([0.0, 0.1, 0.3, 0.7, 0.95])) == pytest.approx([0.0, 0.0, 0.1, 0.6, 1.0])


def test_what_is_saved_is_what_is_loaded_and_has_the_same_hash(tmp_path: Path) -> None:
    BOTH.save(tmp_path)

    loaded = Calibration.load(tmp_path)

    assert loaded == BOTH
    assert loaded is not None
    assert loaded.content_hash == BOTH.content_hash
    assert [file.name for file in tmp_path.iterdir()] == [CALIBRATION_FILE]


def test_a_file_and_its_hash_are_those_of_version_0_1(tmp_path: Path) -> None:
    """The hash is part of a verifier's version: another one would make every stored verdict a stranger's."""
    (tmp_path / CALIBRATION_FILE).write_text(
        """{
 "format": 1,
 "maps": {
  "TC": {"kind": "platt", "offset": 1.0, "slope": 0.5},
  "valid": {"kind": "isotonic", "xs": [0.1, 0.5, 0.9], "ys": [0.0, 0.2, 1.0]}
 },
 "thresholds": {"TC": 0.8}
}"""
    )

    assert Calibration.load(tmp_path) == BOTH
    assert BOTH.content_hash == "fa685aaa4f06"


def test_another_threshold_is_another_hash() -> None:
    assert Calibration(BOTH.maps, {"TC": 0.81}).content_hash != BOTH.content_hash


def test_a_folder_without_a_calibration_has_none(tmp_path: Path) -> None:
    assert Calibration.load(tmp_path) is None


def with_map(**of_tc: object) -> str:
    return json.dumps({"format": 1, "maps": {"TC": of_tc}, "thresholds": {}})


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        json.dumps({"maps": {}, "thresholds": {}}),
        json.dumps({"format": 2, "maps": {}, "thresholds": {}}),
        json.dumps({"format": 1, "maps": {}, "thresholds": {}, "shrinkage": {"TC": 0.5}}),
        json.dumps({"format": 1, "maps": {"XX": {"kind": "platt", "slope": 1, "offset": 0}}, "thresholds": {}}),
        json.dumps({"format": 1, "maps": {}, "thresholds": {"TC": 2}}),
        json.dumps({"format": 1, "maps": {}, "thresholds": {"TC": "high"}}),
        with_map(kind="pickle"),
        with_map(kind="platt", slope=-1, offset=0),
        with_map(kind="platt", slope=1, offset=0, power=2),
        with_map(kind="platt", slope=float("nan"), offset=0),
        with_map(kind="isotonic", xs=[0.5, 0.4], ys=[0, 1]),
        with_map(kind="isotonic", xs=[0.4, 0.5], ys=[1, 0]),
        with_map(kind="isotonic", xs=[0.4, 0.5], ys=[0.5]),
    ],
)
def test_a_file_that_is_no_calibration_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / CALIBRATION_FILE).write_text(content)

    with pytest.raises(ModelError, match=r"calibration\.json"):
        Calibration.load(tmp_path)
