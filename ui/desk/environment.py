"""What this machine has of what a desk needs, seen without opening the store. Looks only; fixes nothing."""

import importlib.metadata
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from annotation.server import port_of_running_server
from annotation.server_template import server_version
from data.cache import cache_folder
from data.errors import SagedeskError
from engine.embedded import (
    EMBEDDED_ENCODER,
    EMBEDDED_GENERATOR,
    EmbeddedModel,
    embedded_folder,
    is_hub_id,
    model_folder,
)
from ui.desk.settings import Settings

Level = Literal["ok", "warn", "fail"]
_ROOT: Final = Path(__file__).resolve().parents[2]
OLDEST_PYTHON: Final = (3, 11)
MIN_FREE_BYTES: Final = 1_000_000_000
AMPLE_FREE_BYTES: Final = 3_000_000_000
_PARTS: Final = {
    "desk": ("duckdb", "streamlit", "starlette", "uvicorn", "label-studio-sdk", "argon2-cffi"),
    "ml": ("torch", "transformers", "scikit-learn", "datasets"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` is empty if nothing needs to be done."""

    subject: str
    level: Level
    detail: str
    advice: str = ""


def examine_environment(settings: Settings, *, desk_url: str | None) -> list[Finding]:
    """All checks that need no open store; `desk_url` is the address of this state's running desk, if any."""
    return [
        _python(),
        *_packages(),
        _state_folder(settings),
        _disk(settings),
        *_ports(settings, desk_url),
        _generator(settings),
        _embedded(EMBEDDED_ENCODER, "run `sagedesk model fetch`; without it the feature verifier has fewer features"),
        _label_studio_environment(settings),
    ]


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
        advice = "make it writable, or set SAGEDESK_STATE to another folder"
        return Finding("state folder", "fail", f"{existing} is not writable", advice)
    return Finding("state folder", "ok", str(settings.state) if settings.state.exists() else f"{settings.state} (new)")


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(_nearest_existing(settings.state)).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < MIN_FREE_BYTES:
        return Finding("disk", "fail", detail, "free disk space, or set SAGEDESK_STATE to another disk")
    if free < AMPLE_FREE_BYTES:
        return Finding(
            "disk", "warn", detail, "enough to work with, but little for models and releases; free some soon"
        )
    return Finding("disk", "ok", detail)


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _ports(settings: Settings, desk_url: str | None) -> Iterator[Finding]:
    if desk_url is not None:
        yield Finding("desk", "ok", f"running at {desk_url}")
    else:
        yield _port("the desk", settings.host, settings.port, "SAGEDESK_PORT")
    if settings.label_studio_url is not None:
        return
    running = port_of_running_server(settings.label_studio_state)
    if running is not None:
        yield Finding(f"port {running}", "ok", "used by the desk's Label Studio")
    else:
        yield _port("Label Studio", "127.0.0.1", settings.label_studio_port, "SAGEDESK_LABEL_STUDIO_PORT")


def _port(name: str, host: str, port: int, variable: str) -> Finding:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            advice = f"stop what uses it, or set {variable} to another port"
            return Finding(f"port {port}", "fail", f"{host}:{port} for {name}: {exc.strerror}", advice)
    return Finding(f"port {port}", "ok", f"free for {name}")


def _generator(settings: Settings) -> Finding:
    if settings.model is None:
        return _embedded(EMBEDDED_GENERATOR, "run `sagedesk model fetch`; the backend `rules` works without it")
    if is_hub_id(settings.model) and not Path(settings.model).is_dir():
        return Finding("model", "ok", f"SAGEDESK_MODEL {settings.model} is a hub id; downloaded when needed")
    try:
        folder = model_folder(settings.model)
    except SagedeskError as exc:
        return Finding(
            "model", "fail", str(exc), "set SAGEDESK_MODEL to another model; the backend `rules` works without it"
        )
    return Finding("model", "ok", f"{folder}")


def _embedded(model: EmbeddedModel, advice: str) -> Finding:
    folder = embedded_folder(model)
    if folder is None:
        return Finding("model", "warn", f"{model.title} is not in {cache_folder() / 'models'}", advice)
    return Finding("model", "ok", f"{model.title} in {folder}")


def _label_studio_environment(settings: Settings) -> Finding:
    if settings.label_studio_url is not None:
        if settings.label_studio_api_key is None:
            advice = "set LABEL_STUDIO_API_KEY to a token of that server"
            return Finding(
                "Label Studio", "fail", f"LABEL_STUDIO_URL is {settings.label_studio_url}, without a token", advice
            )
        return Finding("Label Studio", "ok", f"existing server at {settings.label_studio_url}")
    python = settings.label_studio_python or _ROOT / ".venv-label-studio" / "bin" / "python"
    advice = "run `make setup`, or set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY; `sagedesk up` needs one of them"
    if not python.exists():
        return Finding("Label Studio", "warn", f"no environment at {python}", advice)
    try:
        version = server_version(python.absolute())
    except SagedeskError as exc:
        return Finding("Label Studio", "warn", str(exc), advice)
    return Finding("Label Studio", "ok", f"{'.'.join(map(str, version))} in {python.parent.parent}")
