"""kill -9 at every commit boundary of a sync: the next desk ends where the server is."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import httpx
import pytest

from annotation.client import LabelStudioClient
from annotation.inbound import InboundAnnotation, annotation_from
from annotation.sync import LabelStudioSync
from data.records import Annotation, AnnotationId, VariantId
from data.store import Store
from data.tables.annotations import AnnotationTable
from data.tables.outbox import OutboxTable
from data.tables.sync_state import SyncCursorTable
from tests.annotation.fake_label_studio import FakeLabelStudio, answers
from tests.annotation.labelling import Bench, Clock

ROUNDS = 52
ROOT = Path(__file__).parents[2]


@pytest.mark.server
def test_fifty_kills_at_commit_boundaries_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    fake = FakeLabelStudio(now=datetime.now(UTC))
    lock = threading.Lock()
    store_file, acks = tmp_path / "desk.duckdb", tmp_path / "acks"
    store = Store.open(store_file, now=Clock())
    ids = Bench(store, Clock()).add_variants(6)
    with_queue = Bench(store, Clock())
    with_queue.queue(ids)
    store.close()
    chance = Random(5)
    outcomes = []

    with served(fake, lock) as url, crashing_desk(url, store_file, acks) as order:
        for number in range(ROUNDS):
            with lock:
                fake.now = datetime.now(UTC)
                act(fake, chance)
            fault = "before" if number % 2 else "after"
            outcomes.append(order(f"{fault} {1 + number // 4} {chance.choice(ids)}"))
        last = [order(f"never {number} ") for number in range(4)]

    assert last == ["done"] * 4
    assert outcomes.count("killed") >= 20, outcomes
    assert not [outcome for outcome in outcomes if outcome.startswith("failed")]
    acknowledged = acks.read_text().splitlines()
    assert len(acknowledged) >= 20
    assert_converged(fake, store_file, acknowledged)


def assert_converged(fake: FakeLabelStudio, store_file: Path, acknowledged: list[str]) -> None:
    externals = [task["data"]["external_id"] for task in fake.tasks.values()]
    assert len(externals) == len(set(externals)), "a task was made twice"
    there = {annotation["id"]: read(annotation) for annotation in fake.annotations()}
    origins = [each.provenance.annotation_id for each in there.values() if each.provenance is not None]
    assert len(origins) == len(set(origins)), "a label was pushed twice"
    store = Store.open(store_file, now=Clock())
    with store.read() as connection:
        table = AnnotationTable(connection)
        current = [each for external in set(externals) for each in table.current_of_variant(external)]
        cursor = SyncCursorTable(connection).newest()
        assert OutboxTable(connection).open_count() == 0
        for line in acknowledged:
            annotation_id, revision, said = line.split(" ")
            kept = [each for each in table.revisions(AnnotationId(annotation_id)) if each.revision == int(revision)]
            assert [each.content_hash for each in kept] == [said], "an acknowledged label was lost"
    store.close()
    assert spoken(current) == sorted((number, each.content_hash) for number, each in there.items())
    assert cursor is not None
    assert cursor.watermark is not None
    assert cursor.watermark <= max(datetime.fromisoformat(task["updated_at"]) for task in fake.tasks.values())
    assert spoken(clean_run(fake, externals)) == spoken(current)


def clean_run(fake: FakeLabelStudio, externals: list[VariantId]) -> list[Annotation]:
    """The same server brought into a fresh store, without a fault."""
    fresh = Bench(Store.in_memory(now=Clock()), Clock())
    fresh.add_variants(6)
    client = LabelStudioClient("http://fake.test", "ab" * 20, rng=Random(1), transport=fake.transport())
    sync = LabelStudioSync(fresh.store, client, now=fresh.clock, rng=Random(7))
    sync.push_tasks(externals)
    sync.run_once(with_sweep=True)
    return [each for external in externals for each in fresh.current(external)]


def spoken(annotations: list[Annotation]) -> list[tuple[int | None, str]]:
    return sorted((each.ls_annotation_id, each.content_hash) for each in annotations if not each.is_deleted)


def read(annotation: dict) -> InboundAnnotation:
    outcome = annotation_from(annotation, option_count=4)
    assert isinstance(outcome, InboundAnnotation)
    return outcome


def act(fake: FakeLabelStudio, chance: Random) -> None:
    """What somebody does in Label Studio between two crashes."""
    if not fake.tasks:
        return
    task = chance.choice(list(fake.tasks.values()))
    annotations = task["annotations"]
    what = chance.choice(["label", "edit", "edit", "delete", "nothing"])
    if what == "label":
        fake.label(task["data"]["external_id"], answers(au=chance.choice(["yes", "no"])), user="li@sagedesk.local")
    elif what == "edit" and annotations:
        annotation = chance.choice(annotations)
        kept = [each for each in annotation["result"] if each["from_name"] not in {"tc", "lc", "au"}]
        fake.edit(annotation["id"], result=[*answers(tc=chance.choice(["yes", "no"])), *kept])
    elif what == "delete" and annotations:
        fake.delete(chance.choice(annotations)["id"])


@contextmanager
def served(fake: FakeLabelStudio, lock: threading.Lock) -> Iterator[str]:
    """The fake behind real HTTP, so that it outlives the desks."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with lock:
                answer = fake._handle(httpx.Request(self.command, f"http://fake.test{self.path}", content=body))
            self.send_response_only(answer.status_code)
            self.send_header("date", answer.headers["date"])
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the base class looks for these

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class names it

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def crashing_desk(url: str, store_file: Path, acks: Path) -> Iterator["Order"]:
    command = [sys.executable, "-m", "tests.faults.crashing_desk", url, str(store_file), str(acks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as desk:
        yield Order(desk)
        assert desk.stdin is not None
        desk.stdin.close()


class Order:
    def __init__(self, desk: "subprocess.Popen[str]") -> None:
        self._desk = desk

    def __call__(self, line: str) -> str:
        assert self._desk.stdin is not None
        assert self._desk.stdout is not None
        self._desk.stdin.write(line + "\n")
        self._desk.stdin.flush()
        return self._desk.stdout.readline().strip()
