"""The command line, on a store of its own and on a running desk."""

import json
import os
import re
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from data import processes
from data.ids import question_id
from data.records import Question
from data.store import Store
from data.tables.questions import QuestionTable
from ui.commands import reference
from ui.desk.context import Desk
from ui.desk.desk_file import RunningDesk, write_desk_file
from ui.desk.wiring import close_desk

Sagedesk = Callable[..., Any]


def test_an_import_is_one_command_and_accounts_for_every_row(sagedesk: Sagedesk, rows_file: Path) -> None:
    first = sagedesk("question", "import", str(rows_file), "--json")
    again = sagedesk("question", "import", str(rows_file), "--json")
    run_id = first.json["run_id"]
    refused = sagedesk("question", "refusals", run_id, "--json")
    listed = sagedesk("question", "list", "--search", "BROKEN BICYCLE", "--json")
    shown = sagedesk("question", "show", listed.json["items"][0]["question_id"])

    assert first.status == 0, first.err
    assert first.json["result"]["questions"] == {"new": 4, "same": 0, "changed": 0, "refused": 1}
    assert first.json["result"]["variants"] == {"new": 0, "same": 0, "changed": 0, "refused": 0}
    assert again.json["result"]["questions"] == {"new": 0, "same": 4, "changed": 0, "refused": 1}
    assert [(row["file"], row["row"]) for row in refused.json["rows"]] == [("jars.jsonl", 5)]
    assert listed.json["total"] == 1
    assert "takes the chain off the wheel." in shown.out


def test_a_dry_run_of_an_import_shows_the_mapping_and_keeps_nothing(sagedesk: Sagedesk, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("frage,a,b,richtig\nWhat is wet?,Water,Stone,A\n")

    preview = sagedesk(
        *("question", "import", str(file), "--dry-run", "--json"),
        *("--map", "context=frage", "--map", "options=a,b", "--map", "answer=richtig"),
    )
    kept = sagedesk("question", "list", "--json")

    (source,) = preview.json["sources"]
    assert source["mapping"]["context"] == "frage"
    assert source["questions"][0]["answer_index"] == 0
    assert kept.json["total"] == 0


def test_questions_that_are_there_twice_are_listed_in_groups(sagedesk: Sagedesk, desk: Desk) -> None:
    options = ("a", "b")
    twice = [
        Question(question_id(context, options, 0), context, options, 0, "quiz", key, subject)
        for context, key, subject in (("Why so?", "1", "law"), ("why  SO?", "2", "ethics"), ("How?", "3", "law"))
    ]
    with desk.store.write() as connection:
        QuestionTable(connection).upsert(twice, now=desk.now())
    close_desk(desk)

    listed = sagedesk("question", "duplicates")
    answer = sagedesk("question", "duplicates", "--json").json

    assert isinstance(answer, dict)
    assert answer["total"] == 1
    assert {one["subject"] for one in answer["groups"][0]} == {"law", "ethics"}
    assert listed.out.count(" quiz ") == 2


def test_an_estimate_of_a_generation_starts_nothing(sagedesk: Sagedesk, stocked: None) -> None:
    prices = ("--prompt-price", "1", "--generated-price", "2", "--max-new-tokens", "100")

    free = sagedesk("variant", "generate", "--type", "reverse", "--dry-run", "--json")
    paid = sagedesk("variant", "generate", "--backend", "openai", "--type", "causal", "--dry-run", "--json", *prices)
    runs = sagedesk("run", "list", "--json")

    assert (free.json["questions"], free.json["requests"], free.json["cost"]) == (4, 4, None)
    assert paid.json["generated_tokens"] == 400
    assert paid.json["cost"] == pytest.approx(paid.json["prompt_tokens"] / 1e6 + 800 / 1e6)
    assert runs.json == []


def test_generation_says_what_a_backend_cannot_make(sagedesk: Sagedesk, stocked: None) -> None:
    made = sagedesk("variant", "generate", "--type", "causal", "--no-verify")

    assert made.status == 0, made.err
    assert "cannot invent reasons" in made.err


def test_runs_can_be_listed_shown_and_read(sagedesk: Sagedesk, stocked: None) -> None:
    run_id = sagedesk("variant", "generate", "--type", "reverse", "--no-verify", "--json").json["run_id"]

    listed = sagedesk("run", "list", "--kind", "generate", "--state", "done")
    log = sagedesk("run", "log", run_id, "--json")
    resumed = sagedesk("run", "resume", run_id)
    variants = sagedesk("variant", "list", "--type", "reverse", "--run", run_id, "--json")
    shown = sagedesk("variant", "show", variants.json["items"][0]["variant"]["variant_id"], "--json")

    assert run_id in listed.out
    assert variants.json["total"] == 4
    assert shown.json["passes_contract"] is True
    assert shown.json["variant"]["recipe"]["backend"] == "rules"
    assert log.json["run_id"] == run_id
    assert (resumed.status, resumed.out) == (1, "")
    assert "only a lost, failed, cancelled or away run can be resumed" in resumed.err


def test_a_known_error_is_one_line_and_status_1(sagedesk: Sagedesk) -> None:
    answer = sagedesk("run", "show", "r_nowhere")

    assert answer.status == 1
    assert answer.err == "sagedesk: no run 'r_nowhere'; `sagedesk run list` shows all runs\n"


@pytest.mark.parametrize("arguments", [("run", "show"), ("nonsense",), ("run", "list", "--limit", "many")])
def test_bad_usage_is_status_2(sagedesk: Sagedesk, arguments: tuple[str, ...]) -> None:
    assert sagedesk(*arguments).status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("question", "import", "nowhere.jsonl"),
        ("variant", "verify"),
        ("variant", "generate", "--question", "q_none"),
        ("variant", "generate", "--limit", "99999999999999999999"),
        ("model", "retrain", "--seed", "-1"),
        ("release", "create", "first"),
        ("release", "verify", "none"),
        ("account", "add", "Bad Name"),
        ("sync", "now"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(sagedesk: Sagedesk, arguments: tuple[str, ...]) -> None:
    answer = sagedesk(*arguments)

    assert (answer.status, answer.out) == (1, "")
    assert re.fullmatch(r"sagedesk: [^\n]+\n", answer.err), answer.err


def test_an_account_gets_a_link_and_is_listed(sagedesk: Sagedesk) -> None:
    link = sagedesk("account", "add", "ana")
    listed = sagedesk("account", "list", "--json")

    assert link.out.startswith(f"http://127.0.0.1:{os.environ['SAGEDESK_PORT']}/login/link?token=")
    assert [(it["name"], it["role"]) for it in listed.json] == [("ana", "annotator")]


def test_an_account_is_closed_and_opened_again(sagedesk: Sagedesk) -> None:
    sagedesk("account", "add", "ana")

    closed = sagedesk("account", "close", "ana", "--json")
    nobody = sagedesk("account", "close", "ben")
    opened = sagedesk("account", "reopen", "ana", "--json")

    assert (closed.json["is_active"], opened.json["is_active"]) == (False, True)
    assert (nobody.status, "no account 'ben'" in nobody.err) == (1, True)


def test_overview_queue_sync_models_and_settings_answer_on_an_empty_store(sagedesk: Sagedesk) -> None:
    answers = [
        sagedesk(*words, "--json")
        for words in (
            ("overview", "show"),
            ("queue", "status"),
            ("sync", "status"),
            ("model", "list"),
            ("release", "list"),
        )
    ]

    assert [answer.status for answer in answers] == [0] * 5
    assert answers[0].json["funnel"]["questions"] == 0
    assert answers[2].json["is_configured"] is False


def test_settings_do_not_show_keys(sagedesk: Sagedesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGEDESK_OPENAI_API_KEY", "sk-very-secret")

    plain, as_json = sagedesk("settings"), sagedesk("settings", "--json")

    assert "sk-very-secret" not in plain.out + as_json.out
    assert as_json.json["openai_api_key"] == "(set)"


def test_a_backup_is_a_whole_store_and_never_overwrites(sagedesk: Sagedesk, tmp_path: Path, stocked: None) -> None:
    made = sagedesk("store", "backup", str(tmp_path / "copy.duckdb"), "--json")
    again = sagedesk("store", "backup", str(tmp_path / "copy.duckdb"))

    assert made.status == 0
    assert again.status == 1
    copy = Store.open(tmp_path / "copy.duckdb", now=lambda: datetime.now(UTC))
    with copy.read() as connection:
        assert connection.execute("SELECT count(*) FROM question").fetchall() == [(4,)]
    copy.close()


def test_a_store_in_use_is_one_line_that_says_by_whom(sagedesk: Sagedesk, desk: Desk) -> None:
    answer = sagedesk("run", "list")

    assert answer.status == 1
    assert f"process {os.getpid()}" in answer.err


def test_a_running_desk_answers_as_the_store_itself_would(
    sagedesk: Sagedesk, served: str, rows_file: Path, desk: Desk
) -> None:
    imported = sagedesk("question", "import", str(rows_file), "--json")
    remote = [
        sagedesk(*words, "--json")
        for words in (
            ("question", "list"),
            ("run", "list"),
            ("overview", "show"),
            ("queue", "status"),
            ("account", "list"),
        )
    ]
    unknown = sagedesk("question", "show", "q_x")
    desk.settings.desk_file.rename(desk.settings.state / "put-away.json")
    desk.supervisor.stop()
    desk.store.close()
    local = [
        sagedesk(*words, "--json")
        for words in (
            ("question", "list"),
            ("run", "list"),
            ("overview", "show"),
            ("queue", "status"),
            ("account", "list"),
        )
    ]
    (desk.settings.state / "put-away.json").rename(desk.settings.desk_file)

    assert imported.json["result"]["questions"]["new"] == 4
    assert [answer.status for answer in remote] == [0] * 5
    assert [answer.json for answer in remote] == [answer.json for answer in local]
    assert unknown.err == "sagedesk: no question q_x; `sagedesk question list` shows all questions\n"


def test_the_desk_file_of_a_desk_that_is_gone_counts_for_nothing(sagedesk: Sagedesk, state: Path) -> None:
    state.mkdir()
    write_desk_file(state / "desk.json", RunningDesk("http://127.0.0.1:9", "t", os.getpid(), 1.0))

    assert sagedesk("run", "list").status == 0


def test_a_desk_that_does_not_answer_is_one_line(sagedesk: Sagedesk, state: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        state.mkdir()
        start = processes.started_at(os.getpid())
        assert start is not None
        write_desk_file(state / "desk.json", RunningDesk(url, "t", os.getpid(), start))

        answer = sagedesk("run", "list")

    assert answer.status == 1
    assert url in answer.err
    assert "does not answer" in answer.err


def test_the_token_of_another_desk_is_refused(sagedesk: Sagedesk, served: str, desk: Desk) -> None:
    told = json.loads(desk.settings.desk_file.read_text())
    desk.settings.desk_file.write_text(json.dumps({**told, "token": "another"}))

    answer = sagedesk("run", "list")

    assert answer.status == 1
    assert "Bearer" in answer.err
    assert "another" not in answer.err


def test_the_doctor_says_what_is_well_and_what_to_do(
    sagedesk: Sagedesk, stocked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken, monkeypatch.context() as patch:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        patch.setenv("SAGEDESK_PORT", str(taken.getsockname()[1]))

        ill = sagedesk("doctor", "--json")
    well = sagedesk("doctor", "--json")

    by_level = {finding["subject"]: finding for finding in ill.json if finding["level"] == "fail"}
    assert ill.status == 1
    assert [finding["advice"] for finding in by_level.values()] == [
        "stop what uses it, or set SAGEDESK_PORT to another port"
    ]
    assert well.status == 0
    assert {"store", "verifier", "sync", "disk"} <= {finding["subject"] for finding in well.json}


def test_a_sign_in_link_leads_to_the_desk_that_runs_wherever_it_listens(sagedesk: Sagedesk, served: str) -> None:
    added = sagedesk("account", "add", "ana")

    assert added.out.startswith(f"{served}/login/link?token=")


def test_the_doctor_looks_at_an_empty_place_and_leaves_it_empty(sagedesk: Sagedesk, state: Path) -> None:
    answer = sagedesk("doctor", "--json")

    assert next(finding for finding in answer.json if finding["subject"] == "store")["level"] == "ok"
    assert not state.exists()


def test_the_doctor_tells_where_the_running_desk_is(sagedesk: Sagedesk, served: str) -> None:
    answer = sagedesk("doctor", "--json")

    assert next(finding for finding in answer.json if finding["subject"] == "desk")["detail"] == f"running at {served}"
    assert {"store", "sync"} <= {finding["subject"] for finding in answer.json}


def test_the_doctor_asks_a_label_studio_that_should_be_there(
    sagedesk: Sagedesk, stocked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("LABEL_STUDIO_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "a key")

    answer = sagedesk("doctor", "--json")

    sync = next(finding for finding in answer.json if finding["subject"] == "sync")
    assert sync["level"] == "warn"
    assert "refused" in sync["detail"]
    assert "LABEL_STUDIO_URL" in sync["advice"]


def test_the_doctor_fails_a_model_that_will_not_load(
    sagedesk: Sagedesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model" / "model.safetensors").write_bytes(b"half a downloa")
    monkeypatch.setenv("SAGEDESK_MODEL", str(tmp_path / "model"))

    answer = sagedesk("doctor", "--json")

    assert answer.status == 1
    assert any("model.safetensors is damaged" in finding["detail"] for finding in answer.json)


def test_the_doctor_reports_a_store_that_is_in_use(sagedesk: Sagedesk, desk: Desk) -> None:
    answer = sagedesk("doctor", "--json")

    assert answer.status == 1
    assert any("in use by" in finding["detail"] for finding in answer.json)


def test_control_characters_of_an_imported_text_do_not_reach_the_terminal(sagedesk: Sagedesk, tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_text(json.dumps({"question": "Is \x1b[2J red?", "options": ["yes", "no"], "answer": 0}) + "\n")

    shown = sagedesk("question", "import", str(file), "--dry-run")

    assert "\\x1b[2J red?" in shown.out
    assert "\x1b" not in shown.out


def test_the_generated_pages_are_up_to_date() -> None:
    for name, text in reference.pages().items():
        assert (reference.DOCS / name).read_text("utf-8") == text, f"docs/{name} is stale; run `make docs`"
