"""Reports on their way through JSON: those of version 0.1 still open, damaged ones are refused in one line.

`reports_0_1/` holds what version 0.1.0 wrote; of the types two are kept.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.errors import ReportError
from training.comparison_report import comparison_as_json, comparison_from
from training.gate_report import gate_report_as_json, gate_report_from
from training.refresh_report import generator_training_as_json, generator_training_from
from training.verifier_report import verifier_training_as_json, verifier_training_from

FOLDER = Path(__file__).with_name("reports_0_1")


def written(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "read", "dump"),
    [
        ("verifier_training", verifier_training_from, verifier_training_as_json),
        ("language_training", verifier_training_from, verifier_training_as_json),
        ("generator_training", generator_training_from, generator_training_as_json),
    ],
)
def test_a_training_of_version_0_1_is_read_and_written_as_it_was(
    name: str, read: Callable[..., Any], dump: Callable[[Any], Any]
) -> None:
    before = written(name)

    after = dump(read(before, source=name))

    assert rounded(after) == rounded(before)


def test_a_gate_of_version_0_1_is_read_and_gains_what_was_not_counted_then() -> None:
    before = written("gate")

    after = gate_report_as_json(gate_report_from(before, source="gate"))

    assert {target: of_it.pop("lost") for target, of_it in after["targets"].items()} == dict.fromkeys(
        after["targets"], 0
    )
    assert after == before


def test_undefined_figures_are_none_on_both_sides() -> None:
    report = gate_report_from(written("gate"), source="gate")

    tc = report.targets["TC"]
    assert tc.difference.balanced_accuracy is None
    assert tc.champion is not None
    assert tc.champion.kappa == 0.0


def test_what_a_newer_version_added_is_ignored() -> None:
    content = written("gate")
    content["cost"] = {"tokens": 4}
    content["targets"]["TC"]["champion"]["brier_score"] = 0.2

    assert gate_report_from(content, source="gate") == gate_report_from(written("gate"), source="gate")


def changed(content: Any, place: str, value: object) -> Any:
    *outer, last = place.split(".")
    part = content
    for name in outer:
        part = part[name]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return content


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("outcome", "perhaps", "outcome"),
        ("margin", ..., "margin"),
        ("labels", -1, "labels"),
        ("targets", [], "targets"),
        ("targets.TC.difference", None, "targets.TC.difference"),
        ("targets.TC.champion.ece", float("nan"), "targets.TC.champion.ece"),
        ("targets.TC.champion.base_rate", 1.2, "targets.TC.champion.base_rate"),
        ("targets.XX", {}, "targets.XX"),
        ("past_errors", "none", "past_errors"),
    ],
)
def test_a_damaged_report_is_refused_with_its_file_and_the_place(place: str, value: object, said: str) -> None:
    content = changed(written("gate"), place, value)

    with pytest.raises(ReportError, match=r"^the gate's report /r/result\.json cannot be read: ") as refused:
        gate_report_from(content, source="the gate's report /r/result.json")

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [None, [], "passes", 3, {}])
@pytest.mark.parametrize("read", [gate_report_from, comparison_from, verifier_training_from, generator_training_from])
def test_what_is_no_report_at_all_is_refused(read: Callable[..., object], content: object) -> None:
    with pytest.raises(ReportError, match="it cannot be read"):
        read(content, source="it")


def test_a_comparison_without_a_judge_says_nothing_of_acceptance() -> None:
    content = written("generator_training")["comparison"]
    content["judge"] = None
    for side in ("before", "after"):
        content[side] = {
            key: {**of_it, "accepted": None, "accepted_per_1000_tokens": None} for key, of_it in content[side].items()
        }

    again = comparison_as_json(comparison_from(content, source="it"))

    assert again["judge"] is None
    assert again["after"]["all"]["accepted"] is None


def rounded(value: Any) -> Any:
    """Version 0.1 rounded no figure of a generator."""
    match value:
        case dict():
            return {name: rounded(one) for name, one in value.items()}
        case list():
            return [rounded(one) for one in value]
        case float():
            return round(value, 4)
    return value
