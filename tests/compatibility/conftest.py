import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ui.desk.context import Desk
from ui.desk.settings import Settings
from ui.desk.wiring import close_desk, open_desk


@pytest.fixture(autouse=True)
def _quick_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit reads the metadata of every installed package for each page of `AppTest`: half of a test's time."""
    monkeypatch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a desk that has no variable set; not there yet."""
    for name in [name for name in os.environ if name.startswith(("SAGEDESK_", "LABEL_STUDIO_"))]:
        monkeypatch.delenv(name)
    return tmp_path / "var"


@pytest.fixture
def desk(state: Path) -> Iterator[Desk]:
    opened = open_desk(Settings(state=state), with_label_studio=False)
    yield opened
    close_desk(opened, end_jobs=True)


@pytest.fixture
def quiet_logging() -> Iterator[None]:
    """A command sets logging up for its process; here others come after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
