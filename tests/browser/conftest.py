"""One real desk process for all browser tests, emptied before each, and real browsers signed in to it."""

import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, StorageState

from data.records import Annotation, Role, VariantId

PATIENCE_MS = 60_000


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class DeskProcess:
    """The desk on one state folder; `ask` runs a function of desk_process.py in it."""

    state: Path
    port: int = field(default_factory=_free_port)
    door: int = field(default_factory=_free_port)
    key: str = field(default_factory=secrets.token_hex)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SAGEDESK_", "LABEL_STUDIO_"))
        }
        ours = {"SAGEDESK_STATE": str(self.state), "SAGEDESK_PORT": str(self.port), "SAGEDESK_TEST_DOOR_KEY": self.key}
        ours["SAGEDESK_WORKER_PYTHON"] = str(self._idle_worker())
        ours["PYTHONPATH"] = str(Path(__file__).parents[2])  # for what these tests share with others
        script = Path(__file__).with_name("desk_process.py")
        log = self.state / "desk.log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(self.door)], env=inherited | ours, stdout=out, stderr=out
            )
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                pytest.fail(f"the desk ended with {self.process.returncode}:\n{log.read_text()[-3000:]}")
            try:
                with urllib.request.urlopen(self.url + "/healthz", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        pytest.fail(f"the desk is not up after {PATIENCE_MS / 1000:.0f} s:\n{log.read_text()[-3000:]}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)
            self.process = None

    def until(self, name: str, answer: object, *arguments: object) -> None:
        """Ask again until it is this."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while (found := self.ask(name, *arguments)) != answer:
            assert time.monotonic() < deadline, f"{name} is {found!r}, not {answer!r}"
            time.sleep(0.02)

    def _idle_worker(self) -> Path:
        """An interpreter that runs no job: these tests are about pages, and a training takes the machine from them."""
        worker = self.state / "idle-worker"
        worker.write_text("#!/bin/sh\nexec sleep 3600\n")
        worker.chmod(0o700)
        return worker

    def ask(self, name: str, *arguments: object) -> Any:
        with Client(("127.0.0.1", self.door), authkey=self.key.encode()) as connection:
            connection.send((name, arguments))
            return connection.recv()


@dataclass
class Console:
    """The desk as people see it: pages of those who are signed in, and what came of their work in the store."""

    desk: DeskProcess
    links: dict[str, str]
    browser: Browser
    strays: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)
    signed_in: dict[str, StorageState] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.desk.url

    def page(self, name: str | None, path: str = "/", *, scheme: Literal["light", "dark"] = "light") -> Page:
        """A new browser of `name`, at `path` once the page has drawn itself. Requests elsewhere land in `strays`."""
        context = self.browser.new_context(
            viewport={"width": 1440, "height": 900},
            storage_state=self.signed_in.get(name or ""),
            color_scheme=scheme,
        )
        context.set_default_timeout(PATIENCE_MS)
        context.route("**/*", self._only_here)
        self.contexts.append(context)
        page = context.new_page()
        if name is not None and name not in self.signed_in:  # the link works once
            context.request.get(self.url + self.links[name])
            self.signed_in[name] = context.storage_state()
        page.goto(self.url + path)
        page.wait_for_selector(".sd-panel button[data-do=submit]:enabled, .sd-title, .sd-empty, form")
        return page

    def queue(self, contexts: Sequence[str], *, blind_share: float = 0.0) -> list[VariantId]:
        names: list[VariantId] = self.desk.ask("queue", contexts, blind_share)
        return names

    def labels(self, variant_id: VariantId, annotator: str = "ana") -> list[Annotation]:
        revisions: list[Annotation] = self.desk.ask("labels", variant_id, annotator)
        return revisions

    def set_role(self, name: str, role: Role) -> None:
        self.desk.ask("set_role", name, role)

    def add_failed_run(self) -> None:
        self.desk.ask("add_failed_run")

    def run_states(self) -> list[str]:
        states: list[str] = self.desk.ask("run_states")
        return states

    def restart(self) -> None:
        self.desk.stop()
        self.desk.start()

    def _only_here(self, route: Route) -> None:
        address = route.request.url
        if address.startswith((self.url, "data:", "blob:")):
            route.continue_()
        else:
            self.strays.append(address)
            route.abort()


@pytest.fixture(scope="session")
def desk_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskProcess]:
    started = DeskProcess(tmp_path_factory.mktemp("desk"))
    started.start()
    yield started
    started.stop()


@pytest.fixture
def console(desk_process: DeskProcess, browser: Browser) -> Iterator[Console]:
    opened = Console(desk_process, desk_process.ask("begin"), browser)
    yield opened
    for context in opened.contexts:
        context.close()
