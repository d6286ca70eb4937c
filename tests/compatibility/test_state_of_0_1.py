"""A desk of version 0.1 is updated and goes on: it shows what it showed, and people, trainings and releases go on."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from annotation.forms import form_of_draft
from data.errors import SignInError
from data.records import Answers, Run, VariantId
from data.tables.queue import QueueTable
from data.tables.variants import VariantTable
from tests.compatibility.old_state import ANSWERS, answered, losses, portable, runs_of, unpacked
from tests.compatibility.test_names import now_called
from tests.ui.drawn_pages import page, shown
from training.comparison_report import comparison_as_json, comparison_from
from training.gate_report import gate_report_as_json, gate_report_from
from training.refresh_report import generator_training_as_json, generator_training_from
from training.verifier_report import verifier_training_as_json, verifier_training_from
from ui.commands.tree import app
from ui.desk import sessions
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.settings import Settings
from ui.desk.use_case_table import use_case
from ui.desk.usecases import learning, model_promotion, review, run_transfer, runs, verification
from ui.desk.wiring import close_desk, open_desk, read_or_make_secrets

LEA, ANA = Actor("lea", "lead"), Actor("ana", "annotator")
PASSWORD = "a dummy of the fixture"
GATE, *_ = runs_of("gate-verifier")
TRAINED, FIRST_TRAINED = runs_of("train-verifier")
REFRESHED, *_ = runs_of("refresh-generator")
MODELS: Final[Mapping[str, Any]] = {it["run_id"]: it for it in answered("model.list") if it["model_id"]}
RESULTS: Final[Mapping[str, Any]] = {run["run_id"]: run["result"] for run in answered("run.list")}
ADDED_BY_THE_DESK: Final = frozenset({"model_id", "is_champion", "followed_by"})

WORDED_ANEW: Final = frozenset({"blockers", "warnings", "reason"})
"""Parts of `training.preview` that are written when they are asked for: their wording may change."""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache without the sentence encoder: the trainings take a second, and no torch."""
    monkeypatch.setenv("SAGEDESK_CACHE", str(tmp_path / "empty-cache"))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Shared: to look only."""
    desk = open_desk(Settings(state=unpacked(tmp_path_factory.mktemp("looked-at"))), with_label_studio=False)
    yield desk
    close_desk(desk, end_jobs=True)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A test's own."""
    desk = open_desk(Settings(state=unpacked(tmp_path)), with_label_studio=False)
    yield desk
    close_desk(desk, end_jobs=True)


def named(asked: Mapping[str, Any]) -> str:
    return " ".join([asked["use_case"], *map(str, asked["arguments"].values())])


@pytest.mark.parametrize("asked", ANSWERS, ids=named)
def test_it_answers_what_version_0_1_answered(opened: Desk, asked: Mapping[str, Any]) -> None:
    name, arguments = now_called(asked["use_case"]), asked["arguments"]

    now = portable(use_case(name).call(opened, OPERATOR, arguments), opened.settings.state)

    assert list(losses(_comparable(name, asked["answer"]), _comparable(name, now))) == []


def test_what_it_answered_says_much(opened: Desk) -> None:
    """The comparison above is worth what is in it: reports with figures, flips, refused rows, runs of every end."""
    gate = answered("model.show", model_id=MODELS[TRAINED]["model_id"])["gate"]
    comparison = answered("model.show", model_id=MODELS[REFRESHED]["model_id"])["comparison"]
    ends = {run["state"] for run in answered("run.list")}

    assert gate["targets"]["valid"]["difference"]["balanced_accuracy"]["low"] is not None
    assert gate["past_errors"]["count"] > 0
    assert RESULTS[TRAINED]["calibration"]["TC"]["threshold"]["probability"] > 0
    assert comparison["difference"]["all"]["contract_pass_rate"]["mean"] is not None
    assert comparison["after"]["all"]["accepted"] is not None
    assert len(answered("model.flips", run_id=GATE, limit=3)) == 3
    assert ends == {"done", "failed", "cancelled", "lost", "away"}


@pytest.mark.parametrize(
    ("read", "write", "report"),
    [
        (gate_report_from, gate_report_as_json, RESULTS[GATE]["gate"]),
        (verifier_training_from, verifier_training_as_json, RESULTS[FIRST_TRAINED]),
        (verifier_training_from, verifier_training_as_json, RESULTS[TRAINED]),
        (generator_training_from, generator_training_as_json, RESULTS[REFRESHED]),
        (comparison_from, comparison_as_json, RESULTS[REFRESHED]["comparison"]),
    ],
)
def test_its_reports_are_read_whole(
    read: Callable[..., Any], write: Callable[[Any], Mapping[str, Any]], report: Mapping[str, Any]
) -> None:
    of_the_job = {key: value for key, value in report.items() if key not in ADDED_BY_THE_DESK}

    again = write(read(report, source="version 0.1"))

    assert list(losses(of_the_job, again)) == []


@pytest.mark.parametrize(
    ("name", "query", "figures"),
    [
        ("overview", {}, "26"),
        ("questions", {}, "168"),
        ("review", {}, ""),
        ("generate", {}, ""),
        ("releases", {}, "first-plums"),
        ("training", {"role": "verifier"}, "80 50"),
        ("training", {"role": "generator"}, ""),
        ("runs", {}, ""),
        ("runs", {"run": GATE}, "0.67 0.17 0.06 0.26"),
        ("runs", {"run": TRAINED}, "383 0.04 0.88 0.85"),
        ("runs", {"run": REFRESHED}, ""),
        ("models", {}, ""),
        ("models", {"model": MODELS[FIRST_TRAINED]["model_id"]}, ""),
        ("models", {"model": MODELS[TRAINED]["model_id"]}, "46 27 0.28 0.06 0.44 100% 10"),
        ("models", {"model": MODELS[REFRESHED]["model_id"]}, "92% 2.5 1,177 0.20 0.35 0.39"),
    ],
)
def test_its_pages_show_its_figures(opened: Desk, name: str, query: dict[str, str], figures: str) -> None:
    drawn = page(name, opened, LEA, **query)

    assert not drawn.error
    words = [word.lstrip("+(") for word in re.sub(r"<[^>]*>", " ", shown(drawn)).split()]
    assert [figure for figure in figures.split() if not any(word.startswith(figure) for word in words)] == []


def test_commands_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_logging: None) -> None:
    monkeypatch.setenv("SAGEDESK_STATE", str(unpacked(tmp_path)))
    commands = ["model list", "run list", "release verify first-plums", "overview show", "queue status", "account list"]
    commands += [f"model show {it['model_id']}" for it in MODELS.values()]
    commands += [f"run show {run}" for run in (GATE, TRAINED, REFRESHED)]

    ended = {command: CliRunner().invoke(app, command.split()) for command in commands}

    assert {command: str(it.exception or it.output) for command, it in ended.items() if it.exit_code} == {}
    assert "yes" in ended["release verify first-plums"].stdout


def test_who_was_known_signs_in_and_a_closed_account_does_not(desk: Desk) -> None:
    signed_in = sessions.sign_in(desk, name="lea", password=PASSWORD)

    assert signed_in.actor == LEA
    assert sessions.actor_of_session(desk, token=signed_in.token) == LEA
    with pytest.raises(SignInError):
        sessions.sign_in(desk, name="cem", password=PASSWORD)


def test_its_secrets_stay_so_that_nobody_is_signed_out(desk: Desk) -> None:
    kept = json.loads((desk.settings.state / "secrets.json").read_text("utf-8"))

    read = read_or_make_secrets(desk.settings)

    assert read.cookie_key == kept["cookie_key"]
    assert read.label_studio.token == kept["label_studio"]["token"]


def test_a_reviewer_goes_on_with_the_answer_that_was_begun(desk: Desk) -> None:
    before = review.queue_status(desk, ANA)
    item = review.next_item(desk, ANA)
    assert item is not None
    assert item.draft is not None
    form = form_of_draft(item.draft)

    saved = review.submit(
        desk,
        ANA,
        variant_id=item.variant.variant_id,
        token=item.token,
        form=replace(form, answers=replace(form.answers, au=True)),
    )

    assert form.answers == Answers(True, False, None)
    assert (form.comment, form.corrected_text) == ("The lid is on the table?", "lid of the jar")
    assert review.undo(desk, ANA, variant_id=None).variant.variant_id == saved.variant_id
    after = review.queue_status(desk, ANA)
    assert (after.mine, after.waiting) == (before.mine + 1, before.waiting - 1)


def test_what_was_drawn_blind_stays_blind(desk: Desk) -> None:
    with desk.store.read() as connection:
        found = [
            QueueTable(connection).find(variant.variant_id) for variant in VariantTable(connection).page(limit=80).items
        ]
    of_blind = {item.variant_id: item.is_blind for item in found if item is not None}
    assert {*of_blind.values()} == {True, False}

    opened = {one: review.open_item(desk, LEA, variant_id=one) for one in of_blind}

    assert {one: it.is_blind for one, it in opened.items()} == of_blind
    assert {one: not it.verdicts for one, it in opened.items()} == of_blind


def test_a_run_that_waits_for_a_worker_goes_there_with_its_models(desk: Desk, tmp_path: Path) -> None:
    (away,) = runs_of("refresh-generator", "away")

    exported = run_transfer.export_run(desk, LEA, run_id=away, to=tmp_path / "worker")

    assert {Path(reference).name for reference in exported.models} == {_model("verifier"), _model("generator")}


@pytest.mark.server
@pytest.mark.parametrize("state", ["lost", "cancelled"])
def test_a_run_that_was_broken_off_is_done_when_it_is_resumed(desk: Desk, state: str) -> None:
    (broken_off,) = runs_of("generate", state)

    runs.resume_run(desk, LEA, run_id=broken_off)

    assert _done(desk, broken_off).result["variants"]


@pytest.mark.server
def test_its_champion_judges_and_gives_the_verdicts_that_it_gave(desk: Desk) -> None:
    shown = answered("variant.list", limit=4)["items"]
    ids = [VariantId(it["variant"]["variant_id"]) for it in shown if it["verdicts"]]
    assert ids

    run = verification.start_verification(desk, LEA, variant_ids=ids, scope="all")

    assert _done(desk, run.run_id).result["verifier_version"] == MODELS[FIRST_TRAINED]["version"]
    for before in (it for it in shown if it["verdicts"]):
        now = use_case("variant.show").call(desk, OPERATOR, {"variant_id": before["variant"]["variant_id"]})
        assert isinstance(now, dict)
        assert _probabilities(now) == pytest.approx(_probabilities(before))


@pytest.mark.server
def test_its_comparison_carries_a_promotion_and_the_next_training_goes_as_that_one_did(desk: Desk) -> None:
    challenger = MODELS[TRAINED]

    info = model_promotion.promote_model(desk, LEA, model_id=challenger["model_id"], note="The gate passed.")
    run = learning.train_as_before(desk, LEA, role="verifier")

    assert info.is_champion
    (judging,) = {one.run_id for one in runs.list_runs(desk, LEA, kind="verify")} - {*runs_of("verify")}
    assert _done(desk, judging).result["verifier_version"] == challenger["version"]
    asked = {key: run.settings[key] for key in ("parent", "max_labels", "target_precision")}
    assert asked == {"parent": challenger["model_id"], "max_labels": 400, "target_precision": 0.65}
    trained = _done(desk, run.run_id).result
    assert trained["is_champion"] is False
    report = _done(desk, str(trained["followed_by"])).result["gate"]
    assert isinstance(report, dict)
    assert report["labels"] == answered("training.preview", role="verifier")["gate_labels"]


def _comparable(name: str, answer: Any) -> Any:
    if name == "model.list":  # the others are the machine's, not the state's
        return [it for it in answer if it["model_id"]]
    return _without_wording(answer) if name == "training.preview" else answer


def _without_wording(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_wording(one) for key, one in value.items() if key not in WORDED_ANEW}
    return [_without_wording(one) for one in value] if isinstance(value, list) else value


def _probabilities(variant: Mapping[str, Any]) -> dict[str, float]:
    return {it["target"]: it["probability"] for it in variant["verdicts"]}


def _model(role: str) -> str:
    return next(it["model_id"] for it in MODELS.values() if it["role"] == role and "champion" in it["aliases"])


def _done(desk: Desk, run_id: str) -> Run:
    ended = desk.supervisor.wait(run_id, timeout_s=300)
    assert ended.state == "done", ended.message
    return ended
