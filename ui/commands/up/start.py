"""`sagedesk up`: from nothing to a desk that works: Label Studio, models, sample project, desk, sign-in link.

Owns the order of starts and stops. Everything that it started ends with it; everything that it waits for it says.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx

from annotation.server import LabelStudioServer
from data.errors import ModelError, SagedeskError, SetupError
from data.records import Run
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, embedded_folder, model_folder
from ui.commands.up.checks import label_studio_python, only_start, require_startable
from ui.commands.up.interruptions import Interruptions
from ui.commands.up.watch import DeskProcess, Report, Watch
from ui.desk.context import OPERATOR, Desk
from ui.desk.settings import Settings
from ui.desk.usecases import accounts
from ui.desk.usecases.samples import load_sample_project, train_first_verifier, wants_sample_project
from ui.desk.wiring import close_desk, open_desk, read_or_make_secrets, utc_now
from ui.web.address import desk_url

LEAD: Final = "lead"
LABEL_STUDIO_TIMEOUT_S: Final = 900.0
DESK_TIMEOUT_S: Final = 180.0
# The desk ends its sync (10 s), cancels its jobs (12 s) and closes its store; killed earlier, it would leave jobs.
DESK_GRACE_S: Final = 45.0
_POLL_S: Final = 0.5
_SIGN_OF_LIFE_S: Final = 10.0


def main(settings: Settings, environment: Mapping[str, str], *, report: Report, answer: Report) -> int:
    """Run until Ctrl-C, SIGTERM or the desk's own end. `report` hears the progress, `answer` the addresses.

    Raises:
        SetupError: something that a person must mend first: busy port, no disk, no Label Studio environment.
        StoreError, StoreBusyError: the store cannot be opened.
    """
    with only_start(settings), Interruptions() as interruptions, ExitStack() as running:
        try:
            require_startable(settings)
            start = _Start(settings, environment, interruptions, running, report)
            server = start.label_studio()
            start.models()
            link = start.store()
            if server is not None:
                server.wait_ready(LABEL_STUDIO_TIMEOUT_S, report)
            desk = start.desk()
            url = desk_url(settings)
            answer(f"The desk is ready:      {url}")
            answer(f"Sign in (works once):   {url}{link}")
            if server is not None:
                answer(f"Label Studio:           {server.url}")
            answer("Ctrl-C stops everything.")
            return Watch(settings, desk, server, interruptions, report).until_the_desk_ends()
        except KeyboardInterrupt:
            report("stopping everything (a running job has ten seconds to end)")
            return 0
        finally:
            interruptions.hold()


class _Start:
    """The starts, in the order of `main`; each leaves in `running` how it is ended."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        interruptions: Interruptions,
        running: ExitStack,
        report: Report,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._interruptions = interruptions
        self._running = running
        self._report = report

    def label_studio(self) -> LabelStudioServer | None:
        """None where a server that is already there is used."""
        python = label_studio_python(self._settings)
        if python is None:
            self._report(f"using the Label Studio at {self._settings.label_studio_url}")
            return None
        credentials = read_or_make_secrets(self._settings).label_studio
        port = self._settings.label_studio_port
        server = LabelStudioServer(python, self._settings.label_studio_state, port, credentials)
        self._report(f"starting Label Studio on port {port}")
        self._running.callback(server.stop)
        server.start(self._report, undisturbed=self._interruptions.deferred)
        return server

    def models(self) -> None:
        """What is not there yet is fetched; without the models the desk still works, with less, and that is said."""
        own = self._settings.model
        if own is None:
            has_generator = self._has_embedded(EMBEDDED_GENERATOR.name)
        else:
            has_generator = self._has_own(own)
        if not has_generator:
            self._report(
                "continuing without a language model: the rule-based generator and the feature verifier work; "
                "start again once this is fixed"
            )
        if embedded_folder(EMBEDDED_ENCODER) is None and not self._fetched(EMBEDDED_ENCODER.name):
            self._report(
                "continuing without the embedding model: the feature verifier works with fewer features; "
                "once the model is available, retrain with `sagedesk model retrain`"
            )

    def store(self) -> str:
        """The sample project into an empty store, an account for the first lead; the path of a fresh sign-in link."""
        desk = open_desk(self._settings, with_label_studio=False)
        # In its thread jobs are started and noted without an interruption in between.
        desk.supervisor.start()
        try:
            try:
                _fill_store(desk, self._report)
            except SagedeskError as exc:
                self._report(f"{exc}; continuing without it")
            if all(account.name != LEAD for account in accounts.list_accounts(desk, OPERATOR)):
                link = accounts.add_account(desk, OPERATOR, name=LEAD, role="lead", display_name="Lead")
            else:
                link = accounts.make_link(desk, OPERATOR, name=LEAD)
        except BaseException as exc:
            self._interruptions.hold()
            if isinstance(exc, KeyboardInterrupt):
                self._report("stopping the running job (up to 12 s)")
            close_desk(desk, end_jobs=True)
            raise
        close_desk(desk)
        return link.path

    def desk(self) -> DeskProcess:
        """Raises SetupError with the desk's last line when it ends before it answers."""
        url, log_file, began_at = desk_url(self._settings), self._settings.state / "desk.log", utc_now()
        self._report(f"starting the desk on port {self._settings.port}")
        with log_file.open("ab") as log:
            offset = log.tell()
            process = self._process("-m", "ui.web.asgi", output=log.fileno(), grace_s=DESK_GRACE_S)
        desk = DeskProcess(process, log_file, offset, began_at)
        begun = reported = time.monotonic()
        while not _answers(url):
            now = time.monotonic()
            if process.poll() is not None:
                raise SetupError(f"the desk stopped while starting: {desk.last_log_line()}")
            if now - begun > DESK_TIMEOUT_S:
                raise SetupError(f"the desk did not answer within {DESK_TIMEOUT_S:.0f} s; see {log_file}")
            if now - reported > _SIGN_OF_LIFE_S:
                reported = now
                self._report(f"waiting for the desk on {url} ({now - begun:.0f} s)")
            time.sleep(_POLL_S)
        return desk

    def _has_embedded(self, name: str) -> bool:
        try:
            model_folder(None)
        except ModelError:
            return self._fetched(name)
        return True

    def _has_own(self, model: str) -> bool:
        """A folder is looked at here; a hub id is downloaded by a process of its own, which can be stopped."""
        if not Path(model).expanduser().is_dir():
            return self._fetched(model)
        try:
            model_folder(model)
        except ModelError as exc:
            self._report(f"{exc}")
            return False
        return True

    def _fetched(self, name: str) -> bool:
        """Whether `engine.embedded` could get it; it talks for itself."""
        child = self._process("-m", "engine.embedded", name, output=None, grace_s=15.0)
        return child.wait() == 0

    def _process(self, *arguments: str, output: int | None, grace_s: float) -> "subprocess.Popen[bytes]":
        """One of ours in a session of its own: Ctrl-C reaches it through us only, in order."""
        with self._interruptions.deferred():
            process = subprocess.Popen(
                [sys.executable, "-P", *arguments],
                env={**self._environment, "SAGEDESK_STATE": str(self._settings.state)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if output is None else output,
                stderr=None if output is None else subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.callback(_stop, process, grace_s)
        return process


def _fill_store(desk: Desk, report: Report) -> None:
    if wants_sample_project(desk, OPERATOR):
        report("loading the sample project and training the first verifier (about a minute)")
        sample = load_sample_project(desk, OPERATOR, on_progress=_progress_lines(report))
        report(
            f"sample project: {sample.questions} questions, {sample.variants} variants, "
            f"{sample.queued} waiting for review"
        )
    else:
        train_first_verifier(desk, OPERATOR, on_progress=_progress_lines(report))


def _progress_lines(report: Report) -> Callable[[Run], None]:
    """One line whenever a run has something new to say, and a sign of life while it has not."""
    reported: set[str] = set()
    new_at = told_at = time.monotonic()

    def tell(run: Run) -> None:
        nonlocal new_at, told_at
        line = f"  {run.kind}: {run.message or run.state}" + (f" ({run.done} of {run.total})" if run.total else "")
        now = time.monotonic()
        if line not in reported:
            reported.add(line)
            new_at = told_at = now
            report(line)
        elif now - told_at > _SIGN_OF_LIFE_S:
            told_at = now
            report(f"{line} ({now - new_at:.0f} s)")

    return tell


def _stop(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    """TERM, which all of ours end on in good order; KILL to the whole group, which it leads, after `grace_s`."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
