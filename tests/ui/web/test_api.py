"""The routes for programs."""

from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from data.tables.audit import AuditTable
from ui.desk.context import Desk
from ui.desk.use_case_table import USE_CASES, use_case
from ui.web.api import MAX_BODY_BYTES, api_routes

HEADERS = {"Authorization": "Bearer token-of-this-test"}


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp4"}]
)
def test_without_the_token_nothing_is_answered_or_done(served: str, desk: Desk, headers: dict[str, str]) -> None:
    answers = [
        httpx.get(f"{served}/api/jobs", headers=headers),
        httpx.post(f"{served}/api/call/account.add", json={"name": "eve", "role": "lead"}, headers=headers),
        httpx.post(f"{served}/api/jobs/r_1/cancel", headers=headers),
    ]

    assert [answer.status_code for answer in answers] == [401] * 3
    assert answers[0].json()["kind"] == "SignInError"
    with desk.store.read() as connection:
        assert AuditTable(connection).recent() == []


def test_health_needs_no_token(served: str) -> None:
    assert httpx.get(f"{served}/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("call/nonsense", {}, 404, "use one of"),
        ("call/run.show", {}, 400, "'run_id' is missing"),
        ("call/run.show", {"run_id": "r_1", "x": 1}, 400, "unknown argument 'x'"),
        ("call/run.list", {"limit": "many"}, 400, "'limit'"),
        ("call/run.show", {"run_id": "r_1"}, 404, "r_1"),
        ("call/run.show", [], 400, "must be a JSON object"),
        ("jobs", {"kind": "mischief"}, 400, "one of import"),
        ("jobs", {"kind": ["verify"]}, 400, "one of import"),
        ("jobs", {"kind": "verify"}, 404, "no verifier"),
        ("jobs/r_1/resume", {}, 404, "r_1"),
    ],
)
def test_an_error_has_its_status_and_one_line(served: str, path: str, body: object, status: int, words: str) -> None:
    answer = httpx.post(f"{served}/api/{path}", json=body, headers=HEADERS)

    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_body_without_bound_is_refused(served: str) -> None:
    answer = httpx.post(f"{served}/api/call/run.list", content=b"x" * (MAX_BODY_BYTES + 1), headers=HEADERS)

    assert answer.status_code == 400
    assert str(MAX_BODY_BYTES) in answer.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000], ids=["cut", "no text", "deep"])
def test_a_body_that_is_no_json_is_refused(served: str, body: bytes) -> None:
    answer = httpx.post(f"{served}/api/call/run.list", content=body, headers=HEADERS)

    assert (answer.status_code, "is not JSON" in answer.json()["error"]) == (400, True)


def test_a_page_past_every_end_is_empty(served: str) -> None:
    answer = httpx.post(f"{served}/api/call/question.list", json={"offset": 10**30}, headers=HEADERS)

    assert (answer.status_code, answer.json()["items"]) == (200, [])


def test_a_bug_is_told_in_json_and_sends_to_the_log(desk: Desk) -> None:
    def broken() -> Desk:
        raise RuntimeError("the secret inside")

    client = TestClient(Starlette(routes=api_routes(broken, "token-of-this-test")))

    answer = client.get("/api/jobs", headers=HEADERS)

    assert answer.status_code == 500
    assert answer.json() == {
        "error": "the desk hit a bug (RuntimeError); its log has the traceback",
        "kind": "SagedeskError",
    }


def test_a_job_is_submitted_and_followed_over_http(served: str, desk: Desk, rows_file: Path) -> None:
    submitted = httpx.post(
        f"{served}/api/jobs", json={"kind": "import", "settings": {"location": str(rows_file)}}, headers=HEADERS
    )
    run_id = submitted.json()["run_id"]
    desk.supervisor.wait(run_id, timeout_s=60)
    shown = httpx.get(f"{served}/api/jobs/{run_id}", headers=HEADERS)
    listed = httpx.get(f"{served}/api/jobs", params={"kind": "import", "limit": 5}, headers=HEADERS)

    assert submitted.status_code == 200
    assert shown.json()["state"] == "done"
    assert shown.json()["result"]["questions"]["new"] == 4
    assert [run["run_id"] for run in listed.json()] == [run_id]
    with desk.store.read() as connection:
        (entry,) = AuditTable(connection).recent()
    assert (entry.actor, entry.action, entry.subject) == ("operator", "import.start", run_id)


@pytest.mark.parametrize("name", sorted(USE_CASES))
def test_every_use_case_in_the_table_is_there_with_types_that_json_can_carry(name: str) -> None:
    found = use_case(name)

    assert found.function.__module__.startswith("ui.desk.usecases.")
    found.result.json_schema()


def test_a_training_is_submitted_over_http_and_a_second_is_a_conflict(served: str, desk: Desk) -> None:
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    wanted = {"kind": "train-verifier", "settings": {"seed": 3}}

    with httpx.Client(base_url=served, headers=HEADERS, timeout=60) as client:
        first = client.post("/api/jobs", json=wanted)
        second = client.post("/api/jobs", json=wanted)
        unknown = client.post("/api/jobs", json={"kind": "train-verifier", "settings": {"sed": 3}})

    assert (first.status_code, first.json()["kind"]) == (200, "train-verifier")
    assert (second.status_code, first.json()["run_id"] in second.json()["error"]) == (409, True)
    assert (unknown.status_code, "unknown argument 'sed'" in unknown.json()["error"]) == (400, True)
