import pytest

from data import samples
from data.records import Question


@pytest.fixture(scope="session")
def sample_questions() -> list[Question]:
    """Our own sample questions: stories first, then knowledge questions."""
    return samples.sample_questions()
