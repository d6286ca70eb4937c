from pathlib import Path
from typing import Final

import pytest

from data import samples
from data.records import Question

TORCH_FILES: Final = ("test_verify.py", "test_verify_passes.py", "test_row_sampling.py", "test_transformers.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where models are left out, files that import torch are not even read: it takes seconds."""
    is_left_out = "not model" in config.option.markexpr and collection_path.parent.name != "jobs"
    return True if is_left_out and collection_path.name in TORCH_FILES else None


@pytest.fixture(scope="session")
def sample_questions() -> list[Question]:
    """Our own sample questions: stories first, then knowledge questions."""
    return samples.sample_questions()
