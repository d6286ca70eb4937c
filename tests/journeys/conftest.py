"""A desk process of its own beside a real Label Studio, driven by the command line and by a browser."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

PATIENCE_S = 120.0
COMMAND_TIMEOUT_S = 900.0


class LabelStudio(Protocol):
    url: str

    @property
    def token(self) -> str: ...


@dataclass
class DeskProcess:
    """One state folder; the process on it can be killed and started again."""

    state: Path
    port: int
    environment: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = self.state / "desk.log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ui.web.asgi"],
                env=self.environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                pytest.fail(f"the desk ended with {self.process.returncode}:\n{log.read_text()[-3000:]}")
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        pytest.fail(f"the desk is not up after {PATIENCE_S:.0f} s:\n{log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def command(self, *words: str) -> Any:
        """`sagedesk WORDS --json`, which must end well; its answer."""
        ended = subprocess.run(
            [Path(sys.executable).with_name("sagedesk"), *words, "--json"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert ended.returncode == 0, f"sagedesk {' '.join(words)}: {ended.stderr}\n{ended.stdout}"
        return json.loads(ended.stdout)


@pytest.fixture
def desk_process(tmp_path: Path, label_studio: LabelStudio) -> Iterator[DeskProcess]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    state = tmp_path / "var"
    state.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SAGEDESK_")}
    for kept in ("SAGEDESK_CACHE",):
        if kept in os.environ:
            environment[kept] = os.environ[kept]
    environment |= {
        "SAGEDESK_STATE": str(state),
        "SAGEDESK_PORT": str(port),
        "SAGEDESK_SYNC_INTERVAL_S": "1",
        "SAGEDESK_BLIND_SHARE": "0.5",
        "LABEL_STUDIO_URL": label_studio.url,
        "LABEL_STUDIO_API_KEY": label_studio.token,
    }
    desk = DeskProcess(state, port, environment)
    yield desk
    desk.stop()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Ask again until the answer is true; its value. Fails with `what` after `within_s`."""

    def wait(question: Callable[[], Any], what: str, within_s: float = 300.0) -> Any:
        deadline = time.monotonic() + within_s
        pause_s = 0.5
        while time.monotonic() < deadline:
            answer = question()
            if answer:
                return answer
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 5.0)  # a command costs a second of CPU, which a training wants
        pytest.fail(f"not within {within_s:.0f} s: {what}")

    return wait
