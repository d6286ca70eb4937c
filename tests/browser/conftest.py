"""A real desk process over a prepared store, and a real browser signed in to it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    Playwright,
    Route,
    StorageState,
    sync_playwright,
)

from annotation.queue import enqueue
from data import ids
from data.records import Annotation, ContractCheck, Question, Recipe, Role, Variant, VariantId, Verdict
from data.tables.annotations import AnnotationTable
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from ui.settings import Settings
from ui.usecases import accounts
from ui.usecases.context import OPERATOR, Desk
from ui.wiring import close_desk, open_desk

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000
VERIFIER = "secret-verifier-7"


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """An installed Chromium or Chrome, else playwright's own download; never a skip."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    installed = next((path for name in names if (path := shutil.which(name))), None)
    try:
        opened = playwright.chromium.launch(executable_path=installed, args=FLAGS)
    except Error as exc:
        pytest.fail(
            f"no browser for the browser tests ({str(exc).splitlines()[0]}): install chromium "
            f"(`apt-get install chromium`) or run `python -m playwright install chromium`"
        )
    yield opened
    opened.close()


@dataclass
class Console:
    """The running desk: its address, and pages of people who are signed in to it."""

    url: str
    links: dict[str, str]
    browser: Browser
    strays: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)
    signed_in: dict[str, StorageState] = field(default_factory=dict)

    def page(self, name: str, path: str = "/") -> Page:
        """A new browser of `name`, at `path` once the page has drawn itself. Requests elsewhere land in `strays`."""
        context = self.browser.new_context(
            viewport={"width": 1440, "height": 900}, storage_state=self.signed_in.get(name)
        )
        context.set_default_timeout(PATIENCE_MS)
        context.route("**/*", self._only_here)
        self.contexts.append(context)
        page = context.new_page()
        if name not in self.signed_in:  # the link works once
            page.goto(self.url + self.links[name])
            self.signed_in[name] = context.storage_state()
        page.goto(self.url + path)
        page.wait_for_selector(".sd-panel, .sd-title, .sd-empty")
        return page

    def _only_here(self, route: Route) -> None:
        address = route.request.url
        if address.startswith((self.url, "data:", "blob:")):
            route.continue_()
        else:
            self.strays.append(address)
            route.abort()


@dataclass(frozen=True)
class Place:
    """A state folder, prepared and looked at while no desk runs on it, and a desk process on it in between."""

    settings: Settings
    browser: Browser

    @contextmanager
    def stopped(self) -> Iterator[Desk]:
        desk = open_desk(self.settings, with_label_studio=False)
        try:
            yield desk
        finally:
            close_desk(desk)

    @contextmanager
    def running(self) -> Iterator[Console]:
        """The desk process until the end of the block, with an annotator `ana` and a lead `lea`."""
        people: dict[str, Role] = {"ana": "annotator", "lea": "lead"}
        links = {}
        with self.stopped() as desk:
            known = {account.name for account in accounts.list_accounts(desk, OPERATOR)}
            for name, role in people.items():
                if name not in known:
                    accounts.add_account(desk, OPERATOR, name=name, display_name=name.title(), role=role)
                links[name] = accounts.make_link(desk, OPERATOR, name=name).path
        log = self.settings.state / "desk.log"
        environment = {
            **os.environ,
            "SAGEDESK_STATE": str(self.settings.state),
            "SAGEDESK_PORT": str(self.settings.port),
        }
        with log.open("ab") as out:
            process = subprocess.Popen([sys.executable, "-m", "ui.asgi"], env=environment, stdout=out, stderr=out)
        console = Console(f"http://127.0.0.1:{self.settings.port}", links, self.browser)
        try:
            _wait_until_up(console.url, process, log)
            yield console
        finally:
            for context in console.contexts:
                context.close()
            process.terminate()
            process.wait(timeout=30)

    def queue(self, contexts: Sequence[str], *, blind_share: float = 0.0) -> list[VariantId]:
        """One variant a context before people, in this order; their verdicts are those of VERIFIER."""
        with self.stopped() as desk, desk.store.write() as connection:
            now = desk.now()
            names = []
            for number, context in enumerate(contexts):
                question, variant, verdicts = _item(context, number, now)
                QuestionTable(connection).upsert([question], now=now)
                VariantTable(connection).upsert([variant])
                ContractCheckTable(connection).upsert(
                    [ContractCheck(variant.variant_id, "option_count", holds=True, is_required=True, detail="")]
                )
                VerdictTable(connection).upsert(verdicts)
                names.append(variant.variant_id)
            enqueue(connection, variant_ids=names, blind_share=blind_share, seed=7, now=now)
        return names

    def labels(self, variant_id: VariantId, annotator: str = "ana") -> list[Annotation]:
        """Every revision of what this person said."""
        with self.stopped() as desk, desk.store.read() as connection:
            table = AnnotationTable(connection)
            current = table.current_by(variant_id, annotator)
            return [] if current is None else table.revisions(current.annotation_id)


@pytest.fixture
def place(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in [name for name in os.environ if name.startswith(("SAGEDESK_", "LABEL_STUDIO_"))]:
        monkeypatch.delenv(name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Place(Settings(state=tmp_path / "var", port=port), browser)


def _item(context: str, number: int, now: datetime) -> tuple[Question, Variant, list[Verdict]]:
    options = (f"takes bread {number} out.", "sells the oven.", "paints the door.", f"{context} <b>sleeps</b>")
    question = Question(ids.question_id(context, options, 0), context, options, 0, "bench", f"row {number}", "baking")
    changed = f"{context} will not"
    variant = Variant(
        ids.variant_id(question.question_id, "negation", changed, options, 3),
        question.question_id,
        "negation",
        changed,
        options,
        3,
        is_control=False,
        shuffle_seed=None,
        recipe=Recipe("rules", "rules", "1", "{}", 1),
        run_id=None,
        created_at=now,
    )
    verdicts = [
        Verdict(variant.variant_id, "TC", 0.93, True, VERIFIER, "feature", None, now),
        Verdict(variant.variant_id, "LC", 0.31, False, VERIFIER, "feature", None, now),
        Verdict(variant.variant_id, "AU", 0.52 + number / 100, True, VERIFIER, "feature", None, now),
    ]
    return question, variant, verdicts


def _wait_until_up(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the desk ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url + "/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the desk is not up after {PATIENCE_MS / 1000:.0f} s:\n{log.read_text()[-3000:]}")
