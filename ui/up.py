"""`sagedesk up`: from nothing to a desk that works: Label Studio, models, sample project, desk, sign-in link.

Owns the order of starts and stops. Everything that it started ends with it; everything that it says it waits for.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import httpx

from annotation.server import LabelStudioServer
from data.errors import ModelError, SagedeskError, SetupError
from data.records import Run
from engine.embedded import model_folder
from ui.asgi import bound_socket, desk_url
from ui.desk_file import read_desk_file
from ui.processes import is_same_process
from ui.settings import Settings
from ui.usecases import accounts
from ui.usecases.context import OPERATOR, Desk
from ui.usecases.samples import load_sample_project, train_first_verifier, wants_sample_project
from ui.wiring import close_desk, open_desk, read_or_make_secrets

LEAD: Final = "lead"
LABEL_STUDIO_TIMEOUT_S: Final = 900.0
DESK_TIMEOUT_S: Final = 120.0
STOP_GRACE_S: Final = 15.0
NEEDED_BYTES: Final = 1_000_000_000
_POLL_S: Final = 0.5

Report = Callable[[str], None]


def main(settings: Settings, environment: Mapping[str, str], *, report: Report, answer: Report) -> int:
    """Run until Ctrl-C, SIGTERM or the desk's own end. `report` hears the progress, `answer` the addresses.

    Raises:
        SetupError: something that a person must mend first: busy port, no disk, no Label Studio environment.
    """
    _require_no_other_desk(settings)
    _require_disk(settings)
    bound_socket(settings).close()
    with ExitStack() as running, _stopped_by_sigterm():
        try:
            server = _start_label_studio(settings, running, report)
            _fetch_models(settings, report)
            link = _prepare_store(settings, report)
            if server is not None:
                server.wait_ready(LABEL_STUDIO_TIMEOUT_S, report)
            desk = _start_desk(settings, environment, running, report)
            url = desk_url(settings)
            answer(f"The desk is up:         {url}")
            answer(f"Sign in (works once):   {url}{link}")
            if server is not None:
                answer(f"Label Studio behind it: {server.url}")
            answer("Ctrl-C ends everything.")
            return _watch(desk, server, settings, report)
        except KeyboardInterrupt:
            report("stopping")
            return 0


def _require_no_other_desk(settings: Settings) -> None:
    running = read_desk_file(settings.desk_file)
    if running is not None and is_same_process(running.pid, running.pid_started_at):
        raise SetupError(
            f"a desk runs already at {running.url} (process {running.pid}) on {settings.state}; "
            f"use it (`sagedesk account link {LEAD}` makes a sign-in link), stop it, or set SAGEDESK_STATE"
        )


def _require_disk(settings: Settings) -> None:
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(settings.state).free
    except OSError as exc:
        raise SetupError(f"state folder {settings.state}: {exc.strerror}; set SAGEDESK_STATE to another") from exc
    if free < NEEDED_BYTES:
        raise SetupError(
            f"{settings.state} has {free // 1_000_000} MB free and a desk needs {NEEDED_BYTES // 1_000_000} MB; "
            f"make room or set SAGEDESK_STATE to another disk"
        )


def _start_label_studio(settings: Settings, running: ExitStack, report: Report) -> LabelStudioServer | None:
    """None where a server that is already there is used."""
    if settings.label_studio_url:
        report(f"using the Label Studio at {settings.label_studio_url}")
        return None
    python = settings.label_studio_python or Path(__file__).parent.parent / ".venv-label-studio" / "bin" / "python"
    if not python.exists():
        raise SetupError(
            f"no Label Studio environment at {python}; run `make up`, "
            f"or set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY to a server that is already there"
        )
    credentials = read_or_make_secrets(settings).label_studio
    server = LabelStudioServer(python, settings.label_studio_state, settings.label_studio_port, credentials)
    report(f"starting Label Studio on port {settings.label_studio_port}")
    server.start(report)
    running.callback(server.stop)
    return server


def _fetch_models(settings: Settings, report: Report) -> None:
    """In a process of its own: the desk never holds a language model. Without them the desk still works, with less."""
    fetched = subprocess.run([sys.executable, "-m", "engine.embedded"], check=False, stdout=subprocess.DEVNULL)
    try:
        model_folder(settings.model)
    except ModelError as exc:
        report(f"{exc}")
        report("going on without a language model: the rule-based generator and the feature verifier work")
    else:
        if fetched.returncode != 0:
            report("going on without the embedding model: the feature verifier works with fewer features")


def _prepare_store(settings: Settings, report: Report) -> str:
    """The sample project into an empty store, an account for the first lead; the path of a fresh sign-in link."""
    desk = open_desk(settings, with_label_studio=False)
    try:
        try:
            _fill_store(desk, report)
        except SagedeskError as exc:
            report(f"{exc}; going on without it")
        if all(account.name != LEAD for account in accounts.list_accounts(desk, OPERATOR)):
            return accounts.add_account(desk, OPERATOR, name=LEAD, role="lead", display_name="Lead").path
        return accounts.make_link(desk, OPERATOR, name=LEAD).path
    finally:
        close_desk(desk)


def _fill_store(desk: Desk, report: Report) -> None:
    if wants_sample_project(desk):
        report("loading the sample project and training the first verifier (about a minute)")
        sample = load_sample_project(desk, OPERATOR, on_progress=_progress_lines(report))
        report(
            f"sample project: {sample.questions} questions, {sample.variants} variants, "
            f"{sample.queued} of them waiting for review"
        )
    else:
        train_first_verifier(desk, OPERATOR, on_progress=_progress_lines(report))


def _progress_lines(report: Report) -> Callable[[Run], None]:
    """One line whenever a run has something new to say."""
    said: set[str] = set()

    def tell(run: Run) -> None:
        line = f"  {run.kind}: {run.message or run.state}" + (f" ({run.done} of {run.total})" if run.total else "")
        if line not in said:
            said.add(line)
            report(line)

    return tell


def _start_desk(
    settings: Settings, environment: Mapping[str, str], running: ExitStack, report: Report
) -> "subprocess.Popen[bytes]":
    """Raises SetupError with the desk's last line when it ends before it answers."""
    log_file = settings.state / "desk.log"
    log = running.enter_context(log_file.open("ab"))
    desk = subprocess.Popen(
        [sys.executable, "-m", "ui.asgi"],
        env={**environment, "SAGEDESK_STATE": str(settings.state)},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    running.callback(_stop, desk)
    report(f"starting the desk on port {settings.port}")
    deadline = time.monotonic() + DESK_TIMEOUT_S
    while not _answers(desk_url(settings)):
        if desk.poll() is not None:
            raise SetupError(f"the desk ended while starting: {_last_line(log_file)} (whole log: {log_file})")
        if time.monotonic() > deadline:
            raise SetupError(f"the desk does not answer after {DESK_TIMEOUT_S:.0f} s; see {log_file}")
        time.sleep(_POLL_S)
    return desk


def _watch(
    desk: "subprocess.Popen[bytes]", server: LabelStudioServer | None, settings: Settings, report: Report
) -> int:
    """Until the desk ends. Label Studio is started again when it ends: labels wait in the store meanwhile."""
    while desk.poll() is None:
        if server is not None and not server.is_running():
            report(f"Label Studio ended (see {server.log}); starting it again, labels are kept meanwhile")
            try:
                server.start(report)
            except SetupError as exc:
                report(f"{exc}; the desk goes on without it")
                server = None
        time.sleep(_POLL_S)
    log_file = settings.state / "desk.log"
    report(f"the desk ended with status {desk.returncode}: {_last_line(log_file)} (whole log: {log_file})")
    return 1


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _last_line(log_file: Path) -> str:
    lines = log_file.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the desk like Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
