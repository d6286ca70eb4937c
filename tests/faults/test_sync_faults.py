"""What a broken, slow or lying Label Studio does to the sync."""

import json
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import httpx
import pytest

from annotation.client import LabelStudioClient
from annotation.loop import SyncLoop
from data.errors import LabelStudioError, LabelStudioRejectedError, LabelStudioUnavailableError
from data.store import Store
from data.tables.sync_state import SyncCursorTable
from tests.annotation.fake_label_studio import FakeLabelStudio, answers
from tests.annotation.labelling import NO_AU, YES, Bench, Clock, jwt, sync_with


@pytest.fixture
def bench() -> Iterator[Bench]:
    clock = Clock()
    store = Store.in_memory(now=clock)
    yield Bench(store, clock)
    store.close()


def http(status: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


HTML = http("502 Bad Gateway", b"<html>bad gateway</html>", "content-type: text/html")
LOGIN_PAGE = http("200 OK", b"<!doctype html><title>Log in</title>", "content-type: text/html")
CUT = http("200 OK", b'[{"id": 1, "em', "content-type: application/json", length=500)
LOCKED = http("500 Internal Server Error", b'{"detail": "database is locked"}', "content-type: application/json")
BUSY = http("429 Too Many Requests", b"{}", "retry-after: 1")
USERS = http("200 OK", b'[{"id": 1, "email": "ana@sagedesk.local"}]', "content-type: application/json")


@pytest.mark.parametrize(
    "broken",
    [HTML, LOGIN_PAGE, CUT, LOCKED, BUSY, b"", "reset"],
    ids=["502 html", "login page", "cut body", "locked", "429", "no answer", "reset"],
)
def test_a_passing_fault_is_tried_again_with_growing_waits(broken: bytes | str) -> None:
    waits: list[float] = []
    with scripted_server([broken, broken, USERS]) as (url, requests):
        client = LabelStudioClient(url, "ab" * 20, rng=Random(1), sleep=waits.append)

        assert client.users() == {1: "ana@sagedesk.local"}

    assert len(requests) == 3
    assert len(waits) == 2
    assert waits[0] != waits[1]


@pytest.mark.parametrize(
    "broken",
    [HTML, LOGIN_PAGE, CUT, LOCKED, b"", "reset"],
    ids=["502 html", "login page", "cut body", "locked", "no answer", "reset"],
)
def test_a_lasting_fault_ends_after_a_bounded_number_of_tries(broken: bytes | str) -> None:
    with scripted_server([broken] * 20) as (url, requests):
        client = LabelStudioClient(url, "ab" * 20, rng=Random(1), sleep=lambda seconds: None)

        with pytest.raises(LabelStudioUnavailableError, match="listing users"):
            client.users()

    assert 2 <= len(requests) <= 5


def test_a_hanging_server_costs_two_time_outs_and_no_more() -> None:
    with scripted_server(["hang"] * 5) as (url, requests):
        client = LabelStudioClient(url, "ab" * 20, rng=Random(1), sleep=lambda seconds: None, read_timeout_s=1.0)

        with pytest.raises(LabelStudioUnavailableError, match="timeout"):
            client.users()

    assert len(requests) == 2


def test_a_call_that_must_not_run_twice_is_not_repeated() -> None:
    with scripted_server([HTML] * 5) as (url, requests):
        client = LabelStudioClient(url, "ab" * 20, rng=Random(1), sleep=lambda seconds: None)

        with pytest.raises(LabelStudioUnavailableError):
            client.import_tasks(1, [{"data": {}}])

    assert len(requests) == 1


@pytest.mark.parametrize(
    ("status", "advice"), [("401 Unauthorized", "LABEL_STUDIO_API_KEY"), ("403 Forbidden", "administrator")]
)
def test_a_refusal_is_no_matter_of_patience_and_says_what_to_do(status: str, advice: str) -> None:
    waits: list[float] = []
    with scripted_server([http(status, b"{}")] * 5) as (url, requests):
        client = LabelStudioClient(url, "ab" * 20, rng=Random(1), sleep=waits.append)

        with pytest.raises(LabelStudioRejectedError, match=advice):
            client.users()

    assert waits == []
    assert len(requests) <= 2


def test_a_personal_token_is_exchanged_and_renewed_when_the_server_stops_taking_it() -> None:
    refresh, first, second = jwt("refresh", 1), jwt("access", 2), jwt("access", 3)

    def access(token: str) -> bytes:
        return http("200 OK", json.dumps({"access": token}).encode(), "content-type: application/json")

    with scripted_server([access(first), USERS, http("401 Unauthorized", b"{}"), access(second), USERS]) as (
        url,
        requests,
    ):
        client = LabelStudioClient(url, refresh, rng=Random(1), sleep=lambda seconds: None)
        client.users()

        assert client.users() == {1: "ana@sagedesk.local"}

    assert [request.split(b" ")[1] for request in requests].count(b"/api/token/refresh/") == 2
    assert f"Bearer {second}".encode() in requests[-1]


def test_no_secret_is_in_an_error() -> None:
    token = "c0ffee" * 6 + "abcd"
    refusal = http("401 Unauthorized", json.dumps(token).encode(), f"set-cookie: sessionid={token}")
    odd = http("200 OK", b'["no user"]', f"set-cookie: sessionid={token}")
    with scripted_server([refusal] * 4 + [odd] + [HTML] * 9) as (url, _):
        client = LabelStudioClient(url, token, rng=Random(1), sleep=lambda seconds: None)
        for _ in range(4):
            with pytest.raises(LabelStudioError) as refused:
                client.users()

            assert token not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("step", range(8))
def test_a_run_that_breaks_at_any_call_leaves_nothing_half_done(bench: Bench, step: int) -> None:
    fake = FakeLabelStudio()
    one, two = bench.add_variants(2)
    bench.queue([one, two])
    label = bench.submit(one, NO_AU)
    calls = 0

    def break_from(request: httpx.Request) -> httpx.Response | None:
        nonlocal calls
        calls += 1
        return httpx.Response(502, text="<html>") if calls > step else None

    fake.before = break_from
    sync = sync_with(fake, bench)
    with pytest.raises(LabelStudioUnavailableError):
        sync.run_once()
    assert sync.health().stale_since is not None
    assert watermark(bench) is None
    fake.before = lambda request: None

    sync.run_once()
    bench.clock.tick(31)
    sync.run_once()

    assert bench.synced_at(label) is not None
    assert (len(fake.tasks), len(fake.annotations())) == (2, 1)
    assert sync.health().stale_since is None


def test_a_page_that_cannot_be_stored_does_not_move_the_watermark(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeLabelStudio()
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    sync.pull_delta()
    before = watermark(bench)
    fake.label(variant, answers())

    def full_disk(table: SyncCursorTable, cursor: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SyncCursorTable, "put", full_disk)
        with pytest.raises(OSError, match="no space"):
            sync.pull_delta()
    assert watermark(bench) == before
    assert bench.current(variant) == []

    sync.pull_delta()

    assert len(bench.current(variant)) == 1


def test_an_older_version_after_a_newer_one_is_ignored_and_counted(bench: Bench) -> None:
    fake = FakeLabelStudio()
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    number = fake.label(variant, answers())
    old = dict(fake.annotations()[0])
    fake.edit(number, result=answers(au="no"))
    sync.pull_delta()
    fake.annotations()[0] |= old
    fake.task_of(variant)["updated_at"] = fake._stamp()

    counts = sync.pull_delta()

    assert (counts.late, counts.revisions) == (1, 0)
    assert [each.answers for each in bench.current(variant)] == [NO_AU]


@pytest.mark.parametrize("first", ["yes", "no"])
def test_equal_stamps_with_different_content_end_the_same_in_either_order(first: str) -> None:
    ends = []
    for order in ((first, "no" if first == "yes" else "yes"), ("no" if first == "yes" else "yes", first)):
        bench = Bench(Store.in_memory(now=Clock()), Clock())
        fake = FakeLabelStudio()
        (variant,) = bench.add_variants(1)
        sync = sync_with(fake, bench)
        sync.push_tasks([variant])
        fake.label(variant, answers(au=order[0]))
        sync.pull_delta()
        fake.annotations()[0]["result"] = answers(au=order[1])
        sync.pull_delta()
        ends.append(bench.current(variant)[0].answers)

    assert ends[0] == ends[1]


def test_the_newer_of_two_versions_in_one_page_is_kept_wherever_it_stands(bench: Bench) -> None:
    fake = FakeLabelStudio()
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    number = fake.label(variant, answers())
    old = json.loads(json.dumps(fake.task_of(variant)))
    fake.edit(number, result=answers(au="no"))
    fake.tasks[99] = old | {"updated_at": fake._stamp()}

    counts = sync.pull_delta()

    assert counts.late == 1
    assert [each.answers for each in bench.current(variant)] == [NO_AU]


def test_reviewing_goes_on_while_label_studio_hangs(bench: Bench) -> None:
    fake = FakeLabelStudio()
    (variant,) = bench.add_variants(1)
    reached, let_go = threading.Event(), threading.Event()

    def hang(request: httpx.Request) -> None:
        reached.set()
        assert let_go.wait(120)

    fake.before = hang
    sync = sync_with(fake, bench)
    run = threading.Thread(target=sync.run_once)
    run.start()
    assert reached.wait(120)

    label = bench.submit(variant)

    assert bench.current(variant) == [label]
    assert sync.health().outbox_open == 1
    let_go.set()
    run.join(120)
    sync.run_once()
    assert bench.synced_at(label) is not None


def test_ten_thousand_hints_in_a_burst_are_one_more_run(bench: Bench) -> None:
    fake = FakeLabelStudio()
    sync = sync_with(fake, bench)
    loop = SyncLoop(sync, interval_s=3600)
    runs = lambda: fake.calls.count("GET /api/projects/")  # noqa: E731
    loop.start()
    eventually(lambda: runs() == 1 and sync.health().last_delta_at is not None)

    for _ in range(10_000):
        sync.hint()
    eventually(lambda: runs() >= 2)
    time.sleep(0.3)
    loop.stop()

    assert 2 <= runs() <= 4


def test_the_loop_outlives_every_error_and_recovers(bench: Bench) -> None:
    fake = FakeLabelStudio()
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant)
    troubles: list[Exception] = [httpx.ConnectError("down"), ZeroDivisionError("a bug"), httpx.ReadError("cut")] * 3
    fake.before = lambda request: troubles.pop() if troubles else None
    loop = SyncLoop(sync_with(fake, bench), interval_s=0.01)
    loop.start()

    eventually(lambda: bench.synced_at(label) is not None)
    loop.stop()

    assert troubles == []


def test_callers_that_come_during_a_run_share_one_more(bench: Bench) -> None:
    fake = FakeLabelStudio()
    sync = sync_with(fake, bench)
    reached, let_go = threading.Event(), threading.Event()

    def hold_the_first(request: httpx.Request) -> None:
        if not reached.is_set():
            reached.set()
            assert let_go.wait(120)

    fake.before = hold_the_first
    threads = [threading.Thread(target=sync.run_once) for _ in range(6)]
    threads[0].start()
    assert reached.wait(120)
    for thread in threads[1:]:
        thread.start()
    eventually(lambda: all(map(waits_its_turn, threads[1:])))
    let_go.set()
    for thread in threads:
        thread.join(120)

    assert fake.calls.count("GET /api/projects/") == 2


def test_a_skew_between_the_clocks_does_not_hide_the_last_word(bench: Bench) -> None:
    fake = FakeLabelStudio(now=Clock().at.replace(year=2025))
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    bench.submit(variant, YES)
    sync.run_once()
    second = bench.submit(variant, NO_AU)
    sync.run_once()

    assert bench.synced_at(second) is not None
    assert [each.answers for each in bench.current(variant)] == [NO_AU]


def waits_its_turn(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return (
        any(it.f_code is threading.Condition.wait.__code__ for it, _ in traceback.walk_stack(frame)) if frame else False
    )


def watermark(bench: Bench) -> object:
    with bench.store.read() as connection:
        cursor = SyncCursorTable(connection).newest()
    return None if cursor is None else cursor.watermark


def eventually(claim: Callable[[], bool], *, within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


@contextmanager
def scripted_server(script: Sequence[bytes | str]) -> Iterator[tuple[str, list[bytes]]]:
    """Answers the n-th request with the n-th entry: bytes as they are, "reset" or "hang"."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []
    held: list[socket.socket] = []

    def serve() -> None:
        for entry in script:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            requests.append(read_request(connection))
            if entry == "hang":
                held.append(connection)
                continue
            if entry == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif isinstance(entry, bytes):
                connection.sendall(entry.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    listener.close()
    for connection in held:
        connection.close()


def read_request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65536)
        if not chunk:
            return received
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += connection.recv(65536)
    return received
