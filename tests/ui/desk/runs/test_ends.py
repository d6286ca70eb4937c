"""The last words of a job that said no more."""

from pathlib import Path

import pytest

from ui.desk.runs.ends import last_words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("loading\nstep 7\n\n", "step 7"),
        ("Traceback (most recent call last):\n  File x\nValueError: three\n", "ValueError: three"),
        ("a.py:3: UserWarning: slow\n  warnings.warn(\n", "a.py:3: UserWarning: slow"),
        ("  0%|   | 0/9\rdone 5 of 9", "done 5 of 9"),
        ("x" * 9_000, "x" * 240),
        ("\xff\xfe bad bytes", "\xff\xfe bad bytes"),
    ],
    ids=["blank end", "traceback", "warning", "progress bar", "long", "bytes"],
)
def test_the_last_line_that_says_something_is_told(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log.txt").write_text(log, "utf-8")

    assert last_words(tmp_path / "log.txt") == f"; its log ends with: {words}"


@pytest.mark.parametrize("log", ["", "\n \n", "   indented only"])
def test_a_log_that_says_nothing_adds_nothing(tmp_path: Path, log: str) -> None:
    (tmp_path / "log.txt").write_text(log)

    assert last_words(tmp_path / "log.txt") == ""


def test_a_job_that_never_began_has_no_log(tmp_path: Path) -> None:
    assert last_words(tmp_path / "log.txt") == ""
