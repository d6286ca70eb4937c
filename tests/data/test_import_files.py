"""Files as people really save them: kept to the letter, or refused with file, row and what to do."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.errors import InputError
from data.imports.files import MAX_LINE_BYTES, RawItem, importable_files, read_rows
from data.imports.items import RawRow, Refusal


def rows_in(file: Path, content: bytes, encoding: str | None = None) -> list[RawItem]:
    file.write_bytes(content)
    return list(read_rows(file, encoding=encoding))


def values_in(file: Path, content: bytes, encoding: str | None = None) -> list[dict[str, object]]:
    items = rows_in(file, content, encoding)
    assert all(isinstance(item, RawRow) for item in items), items
    return [dict(item.values) for item in items if isinstance(item, RawRow)]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert values_in(tmp_path / "a.csv", "\ufeffquestion,A\nwhy,so\n".encode()) == [{"question": "why", "A": "so"}]
    assert values_in(tmp_path / "a.jsonl", '\ufeff{"question": "why"}\n'.encode()) == [{"question": "why"}]
    assert values_in(tmp_path / "a.json", '\ufeff[{"question": "why"}]'.encode()) == [{"question": "why"}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_cuts_the_header(tmp_path: Path, delimiter: str) -> None:
    content = delimiter.join(["question", "A", "B"]) + "\n" + delimiter.join(["why", "so", "no"]) + "\n"

    assert values_in(tmp_path / "a.csv", content.encode()) == [{"question": "why", "A": "so", "B": "no"}]


def test_cells_stay_the_text_that_they_are(tmp_path: Path) -> None:
    cells = ["NA", "None", "TRUE", "007", "1e3", "=1+1", "NULL", "nan"]

    [row] = values_in(tmp_path / "a.csv", (",".join("abcdefgh") + "\n" + ",".join(cells) + "\n").encode())

    assert list(row.values()) == cells


def test_quoted_cells_keep_delimiters_line_ends_and_rare_characters(tmp_path: Path) -> None:
    text = 'first, "second"\nthird\u2028fourth 👩‍👩‍👧 $5 and $6 <script> _x_ ~'

    [row] = values_in(tmp_path / "a.csv", ('question,A\n"' + text.replace('"', '""') + '",x\n').encode())

    assert row["question"] == text


def test_a_csv_row_of_another_width_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    items = rows_in(tmp_path / "a.csv", b"question,A\nwhy,so\nhow,so,what\nwho,me\n")

    assert [type(item) for item in items] == [RawRow, Refusal, RawRow]
    assert isinstance(items[1], Refusal)
    assert (items[1].number, "3 cells" in items[1].reason) == (3, True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": NaN}', "NaN"), (b'{"a": Infinity}', "Infinity"), (b'{"a": 1e309}', "too large"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": "cut', "not JSON"), (b"[1, 2]", "list, not an object"), (b'{"a": "\\u0000"}', "NUL"),
        (b'{"a": "\\ud83d"}', "surrogate"), (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "' + b"x" * 1_200_000 + b'"}', "1200000 characters"), (b"[" * 100_000, "not JSON"),
        (b'{"a": "' + b"x" * MAX_LINE_BYTES + b'"}', "longer than"),
    ],
    ids=lambda value: value[:12].decode("latin-1") if isinstance(value, bytes) else value,
)  # fmt: skip
def test_a_bad_line_is_refused_with_its_number_and_the_others_stay(tmp_path: Path, line: bytes, reason: str) -> None:
    items = rows_in(tmp_path / "a.jsonl", b'{"a": "one"}\r\n\r\n' + line + b'\r\n{"a": "two"}\r\n')

    assert [type(item) for item in items] == [RawRow, Refusal, RawRow]
    assert isinstance(items[1], Refusal)
    assert items[1].number == 3
    assert reason in items[1].reason
    assert len(items[1].text) <= 400


def test_a_cut_last_line_is_refused_and_the_rest_kept(tmp_path: Path) -> None:
    items = rows_in(tmp_path / "a.jsonl", b'{"a": 1}\n{"a": 2')

    assert [type(item) for item in items] == [RawRow, Refusal]


def test_an_exported_object_gives_its_one_list(tmp_path: Path) -> None:
    assert values_in(tmp_path / "a.json", b'{"version": 1, "examples": [{"q": "x"}]}') == [{"q": "x"}]
    with pytest.raises(InputError, match="exactly one list"):
        rows_in(tmp_path / "b.json", b'{"a": [{"q": 1}], "b": [{"q": 2}]}')


def test_parquet_lists_come_as_lists(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"question": ["why"], "options": [["so", "no"]]}), file)

    [item] = read_rows(file)

    assert isinstance(item, RawRow)
    assert item.values == {"question": "why", "options": ["so", "no"]}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.csv", b"", "is empty"),
        ("wide.csv", "question,A\n".encode("utf-16"), "UTF-16"),
        ("zero.csv", b"question,A\nwh\x00y,so\n", "NUL"),
        ("mac.csv", b"question,A\nwhy,\xd2so\xd3\n", "not UTF-8"),
        ("twice.csv", b"question,A,A\nwhy,so,no\n", "twice"),
        ("broken.parquet", b"PAR1 not really", "Parquet"),
        ("broken.json", b'[{"a": NaN}]', "NaN"),
        ("bare.json", b'"text"', "list of objects"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        rows_in(tmp_path / name, content)

    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_declared_encoding_is_used(tmp_path: Path) -> None:
    content = "question,A\nwhy,“so”\n".encode("mac_roman")

    assert values_in(tmp_path / "a.csv", content, "mac_roman") == [{"question": "why", "A": "“so”"}]
    with pytest.raises(InputError, match="unknown encoding"):
        rows_in(tmp_path / "a.csv", content, "klingon")


def test_utf_16_lines_are_read_where_declared(tmp_path: Path) -> None:
    content = '{"a": "één"}\n{"a": "\u2028"}\n'.encode("utf-16")

    assert values_in(tmp_path / "a.jsonl", content, "utf-16") == [{"a": "één"}, {"a": "\u2028"}]


def test_a_csv_cell_of_a_megabyte_costs_its_own_row_only(tmp_path: Path) -> None:
    items = rows_in(tmp_path / "a.csv", b"question,A\nwhy,so\n" + b"x" * 1_200_000 + b",so\nwho,me\n")

    assert [type(item) for item in items] == [RawRow, Refusal, RawRow]
    assert isinstance(items[1], Refusal)
    assert (items[1].number, "1200000 characters" in items[1].reason) == (3, True)


def test_a_name_that_no_disk_takes_is_one_clear_line() -> None:
    with pytest.raises(InputError, match="cannot be opened: File name too long; check the path"):
        importable_files(Path("x" * 300 + ".csv"))


@pytest.mark.parametrize("name", ["archive.zip", "notes.txt", "weights.bin"])
def test_other_kinds_of_file_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")

    with pytest.raises(InputError, match="is not supported"):
        importable_files(tmp_path / name)


def test_a_folder_gives_its_readable_files_by_name_and_an_empty_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no readable file"):
        importable_files(tmp_path)
    for name in ("b.csv", "a.jsonl", "SOURCE.txt"):
        (tmp_path / name).write_text("x")

    assert [file.name for file in importable_files(tmp_path)] == ["a.jsonl", "b.csv"]
    with pytest.raises(InputError, match="no such file"):
        importable_files(tmp_path / "absent.csv")
