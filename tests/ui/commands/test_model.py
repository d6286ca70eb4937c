"""`sagedesk model ...`, on a store of its own and on a running desk."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ui.learning_desk import comparison_report
from tests.ui.registered import registered_generator, registered_verifier
from training.registry import RegisteredModel, promote
from ui.desk.context import Desk
from ui.desk.settings import Settings
from ui.desk.wiring import close_desk, open_desk

Sagedesk = Callable[..., Any]


@pytest.fixture
def pair(settings: Settings, tmp_path: Path) -> tuple[RegisteredModel, RegisteredModel]:
    """A champion verifier and another, in the store that the commands open."""
    desk = open_desk(settings, with_label_studio=False)
    champion, other = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(settings.models, "verifier", champion.model_id)
    close_desk(desk)
    return champion, other


def test_a_verifier_is_promoted_with_a_note_and_taken_back(
    sagedesk: Sagedesk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    champion, other = pair

    refused = sagedesk("model", "promote", other.model_id, "--note", "better")
    promoted = sagedesk("model", "promote", other.model_id, "--note", "better", "--despite-gate", "--json")
    shown = sagedesk("model", "show", other.model_id)
    back = sagedesk("model", "rollback", "verifier", "--note", "worse", "--json")
    listed = sagedesk("model", "list", "--json")

    assert refused.status == 1
    assert f"sagedesk model compare {other.model_id}" in refused.err
    assert (promoted.json["model_id"], promoted.json["aliases"]) == (other.model_id, ["champion"])
    assert "better" in shown.out
    assert (back.json["model_id"], back.json["aliases"]) == (champion.model_id, ["champion"])
    assert {it["model_id"]: it["aliases"] for it in listed.json if it["model_id"]} == {
        champion.model_id: ["champion"],
        other.model_id: ["previous"],
    }


def test_a_promotion_or_rollback_without_a_note_is_bad_usage(
    sagedesk: Sagedesk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    assert sagedesk("model", "promote", pair[1].model_id).status == 2
    assert sagedesk("model", "rollback", "verifier").status == 2
    assert sagedesk("model", "promote", pair[1].model_id, "--note", " ").status == 1


def test_a_generator_that_is_taken_back_leaves_none(sagedesk: Sagedesk, settings: Settings, tmp_path: Path) -> None:
    desk = open_desk(settings, with_label_studio=False)
    generator = registered_generator(desk, tmp_path / "g", "tuned", comparison=comparison_report())
    close_desk(desk)

    promoted = sagedesk("model", "promote", generator.model_id, "--note", "accepts more")
    back = sagedesk("model", "rollback", "generator", "--note", "nonsense")
    as_json = sagedesk("model", "rollback", "generator", "--note", "the prompt", "--json")

    assert promoted.status == 0, promoted.err
    assert (back.status, back.out) == (0, "")
    assert "no registered generator is in use" in back.err
    assert as_json.json["model_id"] == generator.model_id


def test_a_schedule_is_set_shown_and_taken_back(sagedesk: Sagedesk) -> None:
    none_yet = sagedesk("model", "schedule", "--json")
    first = sagedesk("model", "schedule", "verifier", "--after-decisions", "200", "--may-start", "--json")
    sagedesk("model", "schedule", "generator", "--weekly", "sunday@3")
    both = sagedesk("model", "schedule")
    never = sagedesk("model", "schedule", "verifier", "--never", "--json")

    assert none_yet.json == []
    assert [(it["after_decisions"], it["may_start"], it["updated_by"]) for it in first.json] == [
        (200, True, "operator")
    ]
    assert "sunday@3" in both.out
    assert re.search(r"verifier +200 .* starts ", both.out)
    assert [(it["after_decisions"], it["weekday"]) for it in never.json] == [(None, None)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "verifier", "--weekly", "someday@2"),
        ("schedule", "verifier", "--weekly", "monday"),
        ("schedule", "verifier", "--weekly", "monday@24"),
        ("schedule", "--after-decisions", "3"),
        ("retrain", "--sft", "learning_rate"),
        ("refresh",),
        ("compare", "0123456789abcdef"),
        ("show", "0123456789abcdef"),
        ("rollback", "verifier", "--note", "x"),
    ],
)
def test_what_cannot_be_is_one_line(sagedesk: Sagedesk, arguments: tuple[str, ...]) -> None:
    answer = sagedesk("model", *arguments)

    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith("sagedesk: ")
    assert answer.err.count("\n") == 1


def test_a_preview_counts_the_samples_labels_and_starts_nothing(sagedesk: Sagedesk) -> None:
    counted = sagedesk("model", "preview", "verifier", "--json")
    told = sagedesk("model", "preview", "verifier")
    runs = sagedesk("run", "list", "--json")

    assert counted.json["labels"] > 200
    assert [it["source"] for it in counted.json["sources"]] == ["sample"]
    assert "sample" in told.out
    assert runs.json == []


def test_a_running_desk_answers_as_the_store_does(served: str, desk: Desk, sagedesk: Sagedesk, tmp_path: Path) -> None:
    champion, other = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(desk.settings.models, "verifier", champion.model_id)

    promoted = sagedesk("model", "promote", other.model_id, "--note", "better", "--despite-gate", "--json")
    refused = sagedesk("model", "promote", other.model_id, "--note", "again", "--despite-gate")
    scheduled = sagedesk("model", "schedule", "verifier", "--after-decisions", "5", "--json")
    shown = sagedesk("model", "show", other.model_id, "--json")

    assert promoted.json["aliases"] == ["champion"], promoted.err
    assert (refused.status, "already the champion" in refused.err) == (1, True)
    assert scheduled.json[0]["after_decisions"] == 5
    assert [it["note"] for it in shown.json["sign_offs"]] == ["better"]


@pytest.mark.server
def test_a_verifier_is_trained_on_the_samples_labels_and_is_champion(
    sagedesk: Sagedesk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SAGEDESK_CACHE", str(tmp_path / "no-encoder"))

    run = sagedesk("model", "retrain", "--json")
    listed = sagedesk("model", "list", "--json")

    assert run.status == 0, run.err
    (verifier,) = [it for it in listed.json if it["role"] == "verifier"]
    assert (verifier["aliases"], verifier["run_id"]) == (["champion"], run.json["run_id"])
