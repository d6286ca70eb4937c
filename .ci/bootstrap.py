"""Makes what the project runs on; standard library only. `python3 .ci/bootstrap.py PART [PART ...]`

    desk           .venv: the desk, its jobs and the development tools
    label-studio   .venv-label-studio: the Label Studio server, whose pins hold back ours
    models         the embedded models, into the cache (see engine/embedded.py)
    browser        a Chromium for the browser tests: an installed one, else playwright's, else (Debian, root) apt's

Each part is skipped when it stands already. A failure is one line that says what to do.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESK = ROOT / ".venv"
LABEL_STUDIO = ROOT / ".venv-label-studio"
OLDEST_PYTHON = (3, 11)
NEEDED_GB = {"desk": 4.0, "label-studio": 1.5}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class BootstrapError(Exception):
    """One line for a person."""


def say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def run(*command: str | Path, what: str, advice: str, timeout_s: float | None = None) -> None:
    """Run with its output in sight. Raises BootstrapError with `what` and `advice`."""
    try:
        subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment(), timeout=timeout_s)
    except FileNotFoundError as exc:
        raise BootstrapError(f"{what}: {exc.filename} is not installed; {advice}") from exc
    except subprocess.TimeoutExpired as exc:
        raise BootstrapError(f"{what}: no end after {exc.timeout:.0f} s; {advice}") from exc
    except subprocess.CalledProcessError as exc:
        raise BootstrapError(f"{what}: failed with status {exc.returncode} (its output is above); {advice}") from exc


def environment() -> dict[str, str]:
    """What pip was told holds for uv too."""
    ours = dict(os.environ)
    for pip, uv in (
        ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
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
    say(f"making {place.name} (first time: some minutes, mostly downloads)")
    if not (place / "bin" / "python").exists():
        run(
            sys.executable,
            "-m",
            "venv",
            place,
            what=f"making {place.name}",
            advice="install Python's venv module (Debian: apt install python3-venv)",
        )
    uv = DESK / "bin" / "uv"
    if not uv.exists():
        run(
            DESK / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "uv",
            what="installing uv",
            advice="check the network and pip's settings, then run the same command again",
        )
    run(
        uv,
        "pip",
        "install",
        "--python",
        place / "bin" / "python",
        *requirements,
        what=f"installing into {place.name}",
        advice="check the network and the free disk, then run the same command again",
    )
    mark.write_text(wanted)
    say(f"{place.name} is ready ({time.monotonic() - began:.0f} s)")


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
        advice="check the network, then run the same command again",
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
    if sys.version_info[:2] < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        print(
            f"set-up: Python 3.11 or newer is needed, this is {found}; run `make PYTHON=python3.11 ...`",
            file=sys.stderr,
        )
        return 1
    try:
        for part in parts:
            PARTS[part]()
    except BootstrapError as exc:
        print(f"set-up: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: stopped; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
