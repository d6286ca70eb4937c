"""A desk on a state folder of its own, and a disk so small that it is soon full."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ui.desk.context import Desk
from ui.desk.settings import Settings
from ui.desk.wiring import close_desk, open_desk

_DISK_BYTES = 2_000_000


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith(("SAGEDESK_", "LABEL_STUDIO_"))]:
        monkeypatch.delenv(name)
    return Settings(state=tmp_path / "var")


@pytest.fixture
def desk(settings: Settings) -> Iterator[Desk]:
    opened = open_desk(settings, with_label_studio=False)
    yield opened
    close_desk(opened, end_jobs=True)


@pytest.fixture
def idle(desk: Desk) -> Desk:
    """What is submitted stays queued."""
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    return desk


@dataclass(frozen=True)
class SmallDisk:
    """A disk of two megabytes."""

    path: Path

    def fill(self, *, but: int = 0) -> Path:
        """Leave `but` bytes free; the file that takes the rest."""
        free = os.statvfs(self.path)
        file = self.path / "filling"
        file.write_bytes(b"\0" * (free.f_bavail * free.f_bsize - but))
        return file


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(path)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk of its own can be mounted by root only")
    yield SmallDisk(path)
    subprocess.run(["umount", str(path)], check=True)
