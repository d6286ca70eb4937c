"""A migrated, empty Label Studio database, built once per version and copied into every new state folder.

Its migrations take minutes on a busy machine; copying takes a moment. Contains no user and no secret: each copy's
account, token and signing key are created by the server's first start.
"""

import errno
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from data.cache import cache_folder
from data.errors import SetupError

_DATABASE: Final = "label_studio.sqlite3"
_BUILD_TIMEOUT_S: Final = 1800.0
_SIGN_OF_LIFE_S: Final = 10.0
_NEEDED_BYTES: Final = 50_000_000


def server_version(python: Path) -> tuple[int, ...]:
    """Version of the Label Studio behind `python`.

    Raises:
        SetupError: the interpreter does not exist, or has no Label Studio.
    """
    asked = "import importlib.metadata; print(importlib.metadata.version('label-studio'))"
    try:
        answer = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise SetupError(f"Label Studio's interpreter {python} cannot be run: {exc}; run `make setup`") from exc
    if answer.returncode != 0:
        raise SetupError(f"Label Studio is not installed for {python}; run `make setup`")
    return tuple(int(part) for part in re.findall(r"\d+", answer.stdout)[:3])


def copy_template(python: Path, version: tuple[int, ...], data: Path, report: Callable[[str], None]) -> None:
    """Copies a migrated database into `data`, building the template first if necessary.

    Raises:
        SetupError: the migrations fail; includes their last line.
        OSError: the disk fails.
    """
    try:
        template = _template(python, version, report)
    except OSError as exc:
        raise SetupError(
            f"building Label Studio's database in {cache_folder()}: {exc.strerror or exc}; "
            f"free disk space, make it writable, or set SAGEDESK_CACHE to another folder"
        ) from exc
    unfinished = data / f"{_DATABASE}.copying"
    shutil.copyfile(template / _DATABASE, unfinished)
    unfinished.chmod(0o600)
    unfinished.replace(data / _DATABASE)


def _template(python: Path, version: tuple[int, ...], report: Callable[[str], None]) -> Path:
    """The folder of the migrated database, built if necessary. Raises SetupError, or OSError for the cache."""
    name = f"label-studio-template-{'.'.join(map(str, version))}"
    cache = cache_folder()
    template = cache / name
    if (template / _DATABASE).exists():  # complete, because it is renamed into place
        return template
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{name}.lock"):
        if not (template / _DATABASE).exists():
            if shutil.disk_usage(cache).free < _NEEDED_BYTES:
                raise OSError(errno.ENOSPC, f"less than {_NEEDED_BYTES // 1_000_000} MB are free")
            report("building Label Studio's database (once per version; takes a few minutes)")
            with tempfile.TemporaryDirectory(dir=cache, prefix=name) as scratch:
                _migrate(python, Path(scratch), report)
                template.mkdir(exist_ok=True)
                (Path(scratch) / _DATABASE).replace(template / _DATABASE)
    return template


def _migrate(python: Path, folder: Path, report: Callable[[str], None]) -> None:
    # `version` migrates the database before printing, and creates no user.
    environment = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}} | {
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "LABEL_STUDIO_DJANGO_DB": "sqlite",
        "LABEL_STUDIO_COLLECT_ANALYTICS": "false",
        "LABEL_STUDIO_LATEST_VERSION_CHECK": "false",
        "LABEL_STUDIO_SENTRY_DSN": "",
        "LABEL_STUDIO_FRONTEND_SENTRY_DSN": "",
        "LABEL_STUDIO_LOG_LEVEL": "WARNING",
    }
    begun = time.monotonic()
    with (
        (folder / "migrations.log").open("w+b") as log,
        subprocess.Popen(
            [python, "-m", "label_studio.server", "version"], cwd=folder, env=environment, stdout=log, stderr=log
        ) as child,
    ):
        try:
            while True:
                try:
                    status = child.wait(_SIGN_OF_LIFE_S)
                    break
                except subprocess.TimeoutExpired:
                    passed_s = time.monotonic() - begun
                    if passed_s > _BUILD_TIMEOUT_S:
                        raise SetupError(
                            f"Label Studio's migrations took over {_BUILD_TIMEOUT_S:.0f} s; try again"
                        ) from None
                    report(f"building Label Studio's database ({passed_s:.0f} s)")
        finally:
            child.kill()
        if status != 0 or not (folder / _DATABASE).exists():
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").strip().splitlines() or ["no output"]
            # The log's last lines may not be about the failure.
            reason = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise SetupError(f"Label Studio's migrations failed with status {status}: {reason.strip()}")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One builder at a time per machine; the others wait and then find the template."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
