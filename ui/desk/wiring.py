"""The composition root: the only place that turns settings into parts. Also reads secrets and configures logging."""

import importlib.metadata
import json
import logging
import os
import secrets as random_secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from annotation.client import LabelStudioClient
from annotation.loop import SyncLoop
from annotation.server import Credentials, new_credentials
from annotation.sync import LabelStudioSync
from data.errors import SetupError
from data.files import write_json
from data.records import Run
from data.releases import remove_unfinished
from data.store import Store
from training import registry
from ui.desk.context import Desk
from ui.desk.ingest import ingest_table
from ui.desk.model_ingest import prepare_table
from ui.desk.runs.supervisor import Supervisor
from ui.desk.scheduler import Scheduler
from ui.desk.settings import Settings
from ui.desk.sign_offs import settle_sign_offs

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# They log every request with its URL, including tokens in the query.
_TALKATIVE: Final = ("httpx", "httpcore", "urllib3", "watchdog", "asyncio")
# For the desk only; a job needs none of them.
_KEPT_FROM_JOBS: Final = ("LABEL_STUDIO_API_KEY",)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """Generated secrets. Never printed: there is no repr."""

    cookie_key: str
    label_studio: Credentials


def read_or_make_secrets(settings: Settings) -> Secrets:
    """The secrets file (mode 0600), created on first use.

    Raises:
        SetupError: it is damaged, open to others, or cannot be written.
    """
    file = settings.secrets_file
    try:
        if not file.exists():
            _write_secrets(file, Secrets(random_secrets.token_urlsafe(32), new_credentials()))
        if file.stat().st_mode & 0o077:
            raise SetupError(f"{file} can be read by others; run `chmod 600 {file}`")
        content = json.loads(file.read_text("utf-8"))
        made = Secrets(content["cookie_key"], Credentials(**content["label_studio"]))
        if not all(isinstance(value, str) for value in (made.cookie_key, *asdict(made.label_studio).values())):
            raise TypeError("a key is not text")  # noqa: TRY301 - reported like any other damage
        return made
    except OSError as exc:
        raise SetupError(f"{file}: {exc.strerror or exc}; make the state folder writable") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise SetupError(
            f"{file} is damaged; restore it, or delete it to create new secrets (everybody then has to sign in again)"
        ) from exc


def configure_logging(settings: Settings, *, is_command: bool = False) -> None:
    """To stderr, with secrets redacted. A command logs only warnings and errors.

    Raises:
        SetupError: SAGEDESK_LOG_LEVEL is invalid.
    """
    level = logging.getLevelNamesMapping().get(settings.log_level.upper())
    if level is None:
        raise SetupError(f"SAGEDESK_LOG_LEVEL is {settings.log_level!r}; use DEBUG, INFO, WARNING or ERROR")
    if is_command and level == logging.INFO:
        level = logging.WARNING
    handler = logging.StreamHandler()
    handler.setFormatter(_Discreet(_LOG_FORMAT, _known_secrets(settings)))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if is_command:
        logging.getLogger("ui.desk.runs.supervisor").setLevel(
            max(level, logging.ERROR)
        )  # the command reports the end of its run itself
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def open_desk(settings: Settings, *, with_label_studio: bool) -> Desk:
    """Opens the store and wires everything to it; runs that ended while the desk was down are ingested.

    Raises:
        StoreBusyError: another process owns the store.
        StoreError: it cannot be opened.
        SetupError: the state folder cannot be written.
    """
    try:
        for folder in (settings.state, settings.runs):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise SetupError(
            f"state folder {settings.state}: {exc.strerror}; set SAGEDESK_STATE to another folder"
        ) from exc
    store = Store.open(settings.store_file, now=utc_now)
    try:
        remove_unfinished(settings.releases)
        registry.remove_unfinished(settings.models)
        sync = _label_studio_sync(settings, store) if with_label_studio else None

        def after(run: Run) -> None:
            if sync is not None and run.state == "done" and run.result.get("queued"):
                sync.hint()

        supervisor = Supervisor(
            store,
            settings.runs,
            ingests=ingest_table(settings, utc_now),
            prepares=prepare_table(settings, utc_now),
            python=str(settings.worker_python or sys.executable),
            code_version=code_version(),
            now=utc_now,
            environment=job_environment(os.environ),
            after=after,
        )
        desk = Desk(settings, store, supervisor, sync, utc_now)
        supervisor.reconcile()
        settle_sign_offs(desk)
    except BaseException:
        store.close()
        raise
    return desk


def close_desk(desk: Desk, *, end_jobs: bool = False) -> None:
    """Stops following jobs (with `end_jobs`, cancels them first) and closes the store."""
    desk.supervisor.stop(end_jobs=end_jobs)
    desk.store.close()


class Background:
    """The background threads: the job supervisor, the scheduler and, with a Label Studio, the sync."""

    def __init__(self, desk: Desk) -> None:
        self._supervisor = desk.supervisor
        self._scheduler = Scheduler(desk)
        self._loop = None if desk.sync is None else SyncLoop(desk.sync, desk.settings.sync_interval_s)

    def start(self) -> None:
        self._supervisor.start()
        self._scheduler.start()
        if self._loop is not None:
            self._loop.start()

    def stop(self) -> None:
        """Ends the threads; jobs and queued runs are left to `close_desk`."""
        self._scheduler.stop()
        if self._loop is not None:
            self._loop.stop()
        self._supervisor.stop()


def utc_now() -> datetime:
    return datetime.now(UTC)


def job_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Our environment without what a job does not need; threads are limited so that two jobs and the desk fit."""
    environment = {name: value for name, value in ours.items() if name not in _KEPT_FROM_JOBS}
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def code_version() -> str:
    """The version of the distribution, with the commit if the code runs from a checkout."""
    try:
        version = importlib.metadata.version("sagedesk")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return version
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version}+{answer.stdout.strip()}"


def _label_studio_sync(settings: Settings, store: Store) -> LabelStudioSync | None:
    """None if no Label Studio is configured or was ever started for this state."""
    if settings.label_studio_url is not None:
        if settings.label_studio_api_key is None:
            raise SetupError("LABEL_STUDIO_URL is set without LABEL_STUDIO_API_KEY; set both, or neither")
        url, token = settings.label_studio_url, settings.label_studio_api_key.get_secret_value()
    elif settings.label_studio_state.exists():
        url = f"http://127.0.0.1:{settings.label_studio_port}"
        token = read_or_make_secrets(settings).label_studio.token
    else:
        return None
    rng = Random()  # noqa: S311 - jitter and the project's mark
    return LabelStudioSync(store, LabelStudioClient(url, token, rng=rng), now=utc_now, rng=rng)


class _Discreet(logging.Formatter):
    """Redacts known secrets in every line, including tracebacks."""

    def __init__(self, form: str, secrets: tuple[str, ...]) -> None:
        super().__init__(form)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        for secret in self._secrets:
            line = line.replace(secret, "[secret]")
        return line


def _known_secrets(settings: Settings) -> tuple[str, ...]:
    given = [key.get_secret_value() for key in (settings.label_studio_api_key, settings.openai_api_key) if key]
    if settings.secrets_file.exists():
        made = read_or_make_secrets(settings)
        given += [made.cookie_key, made.label_studio.password, made.label_studio.token]
    return tuple(secret for secret in given if secret)


def _write_secrets(file: Path, secrets: Secrets) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"cookie_key": secrets.cookie_key, "label_studio": asdict(secrets.label_studio)}, mode=0o600)
