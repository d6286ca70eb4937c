"""Files that stand whole or not at all."""

import hashlib
import json
from pathlib import Path

import pytest

from data.files import file_sha256, scratch_beside, sync_tree, whole_file, write_json, write_text


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"one": 1})

    write_json(file, {"two": "zwölf"})

    assert json.loads(file.read_text("utf-8")) == {"two": "zwölf"}
    assert list(tmp_path.iterdir()) == [file]


def test_the_same_value_gives_the_same_bytes(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"x": 1, "y": [2.5]})
    write_json(tmp_path / "b", {"y": [2.5], "x": 1})

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_block_that_raises_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "before")

    def break_off() -> None:
        with whole_file(file) as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        break_off()

    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_disk_that_refuses_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "before")

    def no_room(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_room)
    with pytest.raises(OSError, match="No space"):
        write_text(file, "after")

    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_secret_is_readable_by_its_owner_alone_while_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    leftover = file.with_name(f".{file.name}.tmp")
    leftover.write_text("of a killed process, readable by all")
    leftover.chmod(0o644)

    with whole_file(file, mode=0o600) as temporary:
        mode_before = temporary.stat().st_mode & 0o777
        temporary.write_text("key")

    assert temporary == leftover
    assert (mode_before, file.stat().st_mode & 0o777) == (0o600, 0o600)


def test_what_is_not_renamed_out_of_a_scratch_folder_is_gone(tmp_path: Path) -> None:
    goal = tmp_path / "model"

    with scratch_beside(goal) as scratch:
        (scratch / "made").mkdir()
        write_text(scratch / "made" / "a", "a")
        sync_tree(scratch / "made")
        (scratch / "made").rename(goal)
        (scratch / "left").write_text("b")

    assert list(tmp_path.iterdir()) == [goal]
    assert (goal / "a").read_text() == "a"


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"sage")

    assert file_sha256(tmp_path / "a") == hashlib.sha256(b"sage").hexdigest()
