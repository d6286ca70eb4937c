"""Uploads stay where they belong."""

from pathlib import Path

import pytest

from data.errors import InputError, SetupError
from ui.desk.context import OPERATOR, Desk
from ui.desk.usecases.imports import keep_upload, preview_import


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../x.jsonl", "x.jsonl"),
        ("/etc/passwd.csv", "passwd.csv"),
        ("..\\..\\y.csv", "y.csv"),
        ("a b;rm -rf.json", "a_b_rm_-rf.json"),
        ("题目.csv", "题目.csv"),
    ],
)
def test_an_upload_keeps_only_the_last_part_of_its_name(desk: Desk, name: str, kept: str) -> None:
    file = Path(keep_upload(desk, OPERATOR, name=name, content=b"x"))

    assert file.name == kept
    assert file.resolve().is_relative_to((desk.settings.state / "uploads").resolve())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("x.zip", b"PK", "not supported"), ("x.csv", b"", "empty"), ("..", b"x", "not supported")],
)
def test_an_upload_that_cannot_be_read_is_refused(desk: Desk, name: str, content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        keep_upload(desk, OPERATOR, name=name, content=content)

    assert not (desk.settings.state / "uploads").exists()


def test_an_upload_that_the_disk_does_not_take_is_one_clear_line(desk: Desk) -> None:
    (desk.settings.state / "uploads").write_text("a file where the folder should be")

    with pytest.raises(SetupError, match=r"upload 'x\.csv' cannot be stored in"):
        keep_upload(desk, OPERATOR, name="x.csv", content=b"question\n")


def test_a_preview_shows_what_would_be_refused(desk: Desk, rows_file: Path) -> None:
    preview = preview_import(desk, OPERATOR, location=str(rows_file))

    (source,) = preview.sources
    assert (preview.benchmark, source.format_name, source.is_readable) == ("jars", "hellaswag", True)
    assert len(source.questions) == 4
    assert [issue.row for issue in source.refused] == [5]
