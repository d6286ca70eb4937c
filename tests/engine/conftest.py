import json
from pathlib import Path

import pytest

from data.ids import question_id
from data.records import Question

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "questions.jsonl"


@pytest.fixture(scope="session")
def sample_questions() -> list[Question]:
    """Our own sample questions: stories first, then knowledge questions."""
    rows = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    return [
        Question(
            question_id(row["context"], row["options"], row["answer"]),
            row["context"],
            tuple(row["options"]),
            row["answer"],
            "sample",
            row["key"],
        )
        for row in rows
    ]
