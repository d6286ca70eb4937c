"""Makes what the project runs on; standard library only. `python3 .ci/bootstrap.py PART [PART ...]`

    desk           .venv: the desk, its jobs and the development tools
    label-studio   .venv-label-studio: the Label Studio server, whose pins hold back ours
    models         the embedded models, into the cache (see engine/embedded.py)
    browser        a Chromium for the browser tests: an installed one, else playwright's, else (Debian, root) apt's

Each part is skipped when it stands already. A failure is one line that says what to do.
"""

from __future__ import annotations  # an older Python must get as far as saying that it is too old

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESK = ROOT / ".venv"
LABEL_STUDIO = ROOT / ".venv-label-studio"
OLDEST_PYTHON = (3, 11)
FITTING_PYTHONS = ("python3.11", "python3.12", "python3.13")
NEEDED_GB = {"desk": 4.0, "label-studio": 1.5}
LITTLE_GB = 0.5
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class BootstrapError(Exception):
    """One line for a person."""


def say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def run(*command: str | Path, what: str, advice: str | Callable[[], str], timeout_s: float | None = None) -> None:
    """Run with its output in sight. Raises BootstrapError with `what` and `advice`, which may look before it tells."""
    try:
        subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment(), timeout=timeout_s)
        return
    except FileNotFoundError as exc:
        problem = f": {exc.filename} is not installed"
    except subprocess.TimeoutExpired as exc:
        problem = f": no end after {exc.timeout:.0f} s"
    except subprocess.CalledProcessError as exc:
        problem = f" failed (status {exc.returncode}, its own words are above)"
    raise BootstrapError(f"{what}{problem}; {advice if isinstance(advice, str) else advice()}")


def network_or_disk() -> str:
    """What to do about a failed installation, as far as it can be told from here."""
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if free_gb < LITTLE_GB:
        return f"only {free_gb:.1f} GB are free: make room, then run the same command again"
    return "check the network and the package index that pip is set to, then run the same command again"


def environment() -> dict[str, str]:
    """What pip was told holds for uv too."""
    ours = dict(os.environ)
    for pip, uv in (
        ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
        ("PIP_CERT", "SSL_CERT_FILE"),
    ):
        if ours.get(pip) and not ours.get(uv):
            ours[uv] = ours[pip]
    return ours


def stamp(*files: str) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update((ROOT / file).read_bytes())
    return digest.hexdigest()


def make_environment(part: str, place: Path, files: tuple[str, ...], *requirements: str) -> None:
    """A virtual environment filled by uv; done again only when one of `files` changed."""
    wanted, mark = stamp(*files), place / ".sagedesk-stamp"
    if mark.exists() and mark.read_text() == wanted:
        return
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if free_gb < NEEDED_GB[part]:
        raise BootstrapError(f"{place.name} needs about {NEEDED_GB[part]} GB and {free_gb:.1f} GB are free; make room")
    began = time.monotonic()
    has_pip = place == DESK
    if is_whole(place, has_pip=has_pip):
        say(f"bringing {place.name} up to date")
        mark.unlink(missing_ok=True)
    else:
        say(f"making {place.name} (some minutes, mostly downloads)")
        run(
            sys.executable,
            "-m",
            "venv",
            "--clear",
            *(() if has_pip else ("--without-pip",)),
            place,
            what=f"making {place.name}",
            advice="install Python's venv module (Debian: apt install python3-venv)",
        )
    run(
        installer(),
        "pip",
        "install",
        "--python",
        place / "bin" / "python",
        *requirements,
        what=f"installing into {place.name}",
        advice=network_or_disk,
    )
    mark.write_text(wanted)
    say(f"{place.name} is ready ({time.monotonic() - began:.0f} s)")


def is_whole(place: Path, *, has_pip: bool) -> bool:
    """False also for one that was broken off (pip comes last) and one whose Python has gone since."""
    return (
        (place / "pyvenv.cfg").exists()
        and (place / "bin" / ("pip" if has_pip else "python")).exists()
        and (place / "bin" / "python").exists()
    )


def installer() -> Path:
    """uv, in the desk's environment."""
    uv = DESK / "bin" / "uv"
    if not uv.exists():
        if not is_whole(DESK, has_pip=True):
            raise BootstrapError("the part `desk` comes first: it brings the installer")
        run(
            DESK / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "uv",
            what="installing uv",
            advice=network_or_disk,
        )
    return uv


def desk() -> None:
    make_environment(
        "desk", DESK, ("pyproject.toml", "constraints.txt"), "-c", "constraints.txt", "-e", ".[desk,ml,dev]"
    )


def label_studio() -> None:
    make_environment(
        "label-studio",
        LABEL_STUDIO,
        ("constraints-label-studio.txt",),
        "-c",
        "constraints-label-studio.txt",
        "label-studio",
    )


def models() -> None:
    run(
        DESK / "bin" / "python",
        "-m",
        "engine.embedded",
        what="fetching the embedded models",
        advice="mend that, then run the same command again",
    )


def browser() -> None:
    if any(shutil.which(name) for name in BROWSERS) or playwright_has_browser():
        return
    say("no Chromium or Chrome is installed; trying playwright's own download")
    try:
        run(
            DESK / "bin" / "python",
            "-m",
            "playwright",
            "install",
            "chromium",
            what="playwright's download",
            advice="it may not be reachable from here",
            timeout_s=300,
        )
    except BootstrapError as exc:
        say(str(exc))
    else:
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        run("apt-get", "update", "-qq", what="apt-get update", advice="check the network")
        run(
            "apt-get",
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            "chromium",
            "fonts-dejavu-core",
            what="installing chromium",
            advice="install Chromium or Chrome by hand",
        )
    else:
        raise BootstrapError("the browser tests need Chromium or Chrome; install one and run the same command again")


def playwright_has_browser() -> bool:
    question = (
        "from playwright.sync_api import sync_playwright as s\n"
        "import os\nwith s() as p: print(os.path.exists(p.chromium.executable_path))"
    )
    answer = subprocess.run([DESK / "bin" / "python", "-c", question], capture_output=True, text=True, check=False)
    return answer.stdout.strip() == "True"


PARTS = {"desk": desk, "label-studio": label_studio, "models": models, "browser": browser}


def main(parts: list[str]) -> int:
    unknown = [part for part in parts if part not in PARTS]
    if not parts or unknown:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what we run ends with us
    try:
        require_python()
        for part in parts:
            PARTS[part]()
    except BootstrapError as exc:
        say(str(exc))
        return 1
    except OSError as exc:
        say(f"{exc.filename or ROOT}: {exc.strerror}; mend that and run the same command again")
        return 1
    except KeyboardInterrupt:
        say("stopped; run the same command again to go on")
        return 130
    return 0


def require_python() -> None:
    """Where ours is too old, goes on with a fitting one of this machine. Raises BootstrapError where there is none."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return
    found = ".".join(map(str, sys.version_info[:2]))
    other = next(filter(None, map(shutil.which, FITTING_PYTHONS)), None)
    if other is None:
        raise BootstrapError(f"Python 3.11 or newer is needed and this is {found}; install one and run the same again")
    say(f"Python {found} is too old; going on with {other}")
    os.execv(other, [other, *sys.argv])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
