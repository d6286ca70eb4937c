"""What is quoted of the log of a process that is gone."""

from pathlib import Path

import pytest

from data.log_tail import last_line


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("loading\nstep 7\n\n", "step 7"),
        ("Traceback (most recent call last):\n  File x\nValueError: three\n", "ValueError: three"),
        ("a.py:3: UserWarning: slow\n  warnings.warn(\n", "a.py:3: UserWarning: slow"),
        ("  0%|   | 0/9\rdone 5 of 9", "done 5 of 9"),
        ("x" * 300, "x" * 300),
        ("  indented only\n", "indented only"),
        ("\xff\xfe bad bytes", "\xff\xfe bad bytes"),
    ],
    ids=["blank end", "traceback", "warning", "progress bar", "long", "indented", "bytes"],
)
def test_the_last_line_that_begins_at_the_left_is_it(tmp_path: Path, log: str, line: str) -> None:
    (tmp_path / "log.txt").write_text(log, "utf-8")

    assert last_line(tmp_path / "log.txt") == line


@pytest.mark.parametrize("log", ["", "\n \n"])
def test_a_log_without_such_a_line_gives_nothing(tmp_path: Path, log: str) -> None:
    (tmp_path / "log.txt").write_text(log)

    assert last_line(tmp_path / "log.txt") == ""


def test_no_log_gives_nothing(tmp_path: Path) -> None:
    assert last_line(tmp_path / "log.txt") == ""


def test_what_stood_there_before_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("of the start before\n")

    assert last_line(log, after=log.stat().st_size) == ""
