"""What is well and what is not, one line each, with what to do. Looks only; mends nothing."""

import importlib.metadata
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from annotation.server_template import server_version
from data.errors import SagedeskError
from data.tables.overview import OverviewTable
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, EmbeddedModel, default_cache, embedded_folder
from engine.model_safety import refuse_unsafe_folder
from ui.settings import Settings
from ui.usecases.context import Actor, Desk
from ui.usecases.models import champion_verifier
from ui.usecases.sync import status_from

Level = Literal["ok", "warn", "fail"]

_ROOT: Final = Path(__file__).resolve().parents[2]
OLDEST_PYTHON: Final = (3, 11)
MIN_FREE_BYTES: Final = 1_000_000_000
_PARTS: Final = {
    "desk": ("duckdb", "streamlit", "starlette", "uvicorn", "label-studio-sdk", "argon2-cffi"),
    "ml": ("torch", "transformers", "scikit-learn", "datasets"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` is empty where nothing is to be done."""

    subject: str
    level: Level
    detail: str
    advice: str = ""


def examine_environment(settings: Settings, *, is_desk_running: bool) -> list[Finding]:
    """All that can be seen without opening the store."""
    return [
        _python(),
        *_packages(),
        _state_folder(settings),
        _disk(settings),
        _port("desk", settings.host, settings.port, "SAGEDESK_PORT", is_ours=is_desk_running),
        _generator(settings),
        _embedded(EMBEDDED_ENCODER, "the feature verifier works without sentence similarities; run `make setup`"),
        _label_studio_environment(settings),
    ]


def diagnose(desk: Desk, actor: Actor) -> list[Finding]:
    """What only the open desk knows: store, verifier, Label Studio, jobs."""
    return [_store(desk), _verifier(desk), *_label_studio(desk)]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", "fail", version, f"use Python {'.'.join(map(str, OLDEST_PYTHON))} or later")
    return Finding("python", "ok", f"{version} in {sys.prefix}")


def _packages() -> Iterator[Finding]:
    for extra, names in _PARTS.items():
        missing = [name for name in names if _version(name) is None]
        if missing:
            level: Level = "fail" if extra == "desk" else "warn"
            yield Finding(f"packages [{extra}]", level, f"missing: {', '.join(missing)}", "run `make setup`")
        else:
            yield Finding(f"packages [{extra}]", "ok", ", ".join(f"{name} {_version(name)}" for name in names))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _state_folder(settings: Settings) -> Finding:
    existing = _nearest_existing(settings.state)
    if not os.access(existing, os.W_OK):
        advice = "make it writable or set SAGEDESK_STATE to another"
        return Finding("state folder", "fail", f"{existing} is not writable", advice)
    return Finding("state folder", "ok", str(settings.state) if settings.state.exists() else f"{settings.state} (new)")


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(_nearest_existing(settings.state)).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < MIN_FREE_BYTES:
        return Finding("disk", "fail", detail, "free some, or set SAGEDESK_STATE to another disk")
    return Finding("disk", "ok", detail)


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _port(name: str, host: str, port: int, variable: str, *, is_ours: bool) -> Finding:
    if is_ours:
        return Finding(f"port {port}", "ok", f"the {name} listens there")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            advice = f"stop what uses it or set {variable} to another"
            return Finding(f"port {port}", "fail", f"{host}:{port}: {exc.strerror}", advice)
    return Finding(f"port {port}", "ok", f"free for the {name}")


def _generator(settings: Settings) -> Finding:
    if settings.model is None:
        return _embedded(EMBEDDED_GENERATOR, "run `sagedesk model fetch`; `rules` generates without it")
    folder = Path(settings.model).expanduser()
    if not folder.is_dir():
        detail = f"SAGEDESK_MODEL {settings.model} is no folder here; it is taken as a hub id"
        return Finding("model", "ok" if "/" in settings.model else "warn", detail, "check its spelling")
    try:
        refuse_unsafe_folder(folder)
    except SagedeskError as exc:
        return Finding("model", "fail", str(exc), "set SAGEDESK_MODEL to another")
    return Finding("model", "ok", f"{folder}")


def _embedded(model: EmbeddedModel, advice: str) -> Finding:
    folder = embedded_folder(model)
    if folder is None:
        return Finding("model", "warn", f"{model.title} is not in {default_cache() / 'models'}", advice)
    return Finding("model", "ok", f"{model.title} in {folder}")


def _label_studio_environment(settings: Settings) -> Finding:
    if settings.label_studio_url is not None:
        if settings.label_studio_api_key is None:
            advice = "set LABEL_STUDIO_API_KEY to a token of that server"
            return Finding(
                "Label Studio", "fail", f"LABEL_STUDIO_URL {settings.label_studio_url} without a key", advice
            )
        return Finding("Label Studio", "ok", f"your own at {settings.label_studio_url}")
    python = settings.label_studio_python or _ROOT / ".venv-label-studio" / "bin" / "python"
    advice = "run `make setup`; until then labels are kept here and go there later"
    if not python.exists():
        return Finding("Label Studio", "warn", f"no environment at {python}", advice)
    try:
        version = server_version(python.absolute())
    except SagedeskError as exc:
        return Finding("Label Studio", "warn", str(exc), advice)
    return Finding("Label Studio", "ok", f"{'.'.join(map(str, version))} in {python.parent.parent}")


def _store(desk: Desk) -> Finding:
    with desk.store.read() as connection:
        funnel = OverviewTable(connection).funnel()
    detail = f"schema {desk.store.schema_version}, {funnel.questions} questions, {funnel.generated} variants"
    return Finding("store", "ok", detail)


def _verifier(desk: Desk) -> Finding:
    champion = champion_verifier(desk.settings)
    if champion is None:
        return Finding("verifier", "warn", "none trained yet", "run `sagedesk model train`")
    return Finding("verifier", "ok", f"champion {champion.version}")


def _label_studio(desk: Desk) -> Iterator[Finding]:
    """From what the sync has met so far; a desk that has just started has met nothing."""
    with desk.store.read() as connection:
        status = status_from(desk, connection)
    if not status.is_configured:
        advice = "start the desk with `make up`, or set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY"
        yield Finding("sync", "warn", f"no Label Studio; {status.outbox_open} labels wait for one", advice)
        return
    if status.stale_since is not None:
        detail = f"{status.server} is stale since {status.stale_since:%Y-%m-%d %H:%M} UTC: {status.last_error}"
        yield Finding("sync", "warn", detail, "labels are kept here; see that Label Studio is up")
    else:
        last = "never" if status.last_delta_at is None else f"{status.last_delta_at:%Y-%m-%d %H:%M:%S} UTC"
        yield Finding("sync", "ok", f"{status.server}, last read {last}, {status.outbox_open} labels on their way")
    if status.is_config_changed:
        yield Finding(
            "sync", "warn", "the label config was changed in Label Studio", "set it back, or labels are kept apart"
        )
    if status.quarantined:
        yield Finding("sync", "warn", f"{status.quarantined} arrivals in quarantine", "see `sagedesk sync status`")
