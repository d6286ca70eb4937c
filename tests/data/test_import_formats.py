"""Whole files of each format to questions and variants; guessed mappings; warnings about a file."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from data.errors import InputError
from data.imports.items import Notice, Parsed, RawRow, Refusal
from data.imports.mapping import ColumnMapping, guess_mapping
from data.imports.table import FormatName, Source, benchmark_name, detect, inspect, read

NOW = datetime(2026, 11, 29, tzinfo=UTC)
PUBLIC = Path(__file__).parents[2].parent / "shared" / "data"


def written(file: Path, rows: Sequence[Mapping[str, object]]) -> Source:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    [source] = inspect(str(file))
    return source


def imported(source: Source, mapping: Mapping[str, object] | None = None) -> list[Parsed | Refusal | Notice]:
    return list(read(source, benchmark="test", now=NOW, mapping=mapping))


def parsed(items: Sequence[object]) -> list[Parsed]:
    return [item for item in items if isinstance(item, Parsed)]


def test_hellaswag_labels_are_text_and_the_test_split_has_none(tmp_path: Path) -> None:
    row = {"ind": 4, "activity_label": "Roof", "ctx": "A man sits on a roof. he", "endings": ["a", "b", "c", "d"]}
    source = written(tmp_path / "a.jsonl", [{**row, "label": "3"}, {**row, "label": ""}, {**row, "label": "9"}])

    items = imported(source)

    assert source.format_name == "hellaswag"
    assert [item.question.answer_index for item in parsed(items)] == [3, None]
    assert parsed(items)[0].question.subject == "Roof"
    assert isinstance(items[2], Refusal)


PRO_VARIANT: dict[str, Any] = {
    "id": 7, "original_context": "The kettle boils. The cook",
    "original_choices": ["pours tea.", "sails.", "swims.", "flies."],
    "original_label": 0, "perturbation_type": "negative_testing", "context": "The kettle boils. The cook will not",
    "choices": ["pour tea.", "fly.", "stir.", "sit."], "label": 1,
}  # fmt: skip


def test_a_pro_variant_carries_its_original_and_keeps_its_published_order(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [PRO_VARIANT])

    [item] = parsed(imported(source))

    assert source.format_name == "hellaswag-pro-variants"
    assert item.variant is not None
    assert (item.variant.variant_type, item.variant.answer_index, item.variant.shuffle_seed) == ("negation", 1, None)
    assert item.variant.options == ("pour tea.", "fly.", "stir.", "sit.")
    assert item.variant.question_id == item.question.question_id
    assert item.question.options[item.question.answer_index or 0] == "pours tea."


def test_a_critical_variant_whose_answer_is_not_to_abstain_is_a_control(tmp_path: Path) -> None:
    choices = [*PRO_VARIANT["original_choices"], "None of the above four options are suitable"]
    rows = [
        {**PRO_VARIANT, "perturbation_type": "critical_thinking", "choices": choices, "label": label}
        for label in (0, 4)
    ]

    items = parsed(imported(written(tmp_path / "a.jsonl", rows)))

    assert [item.variant.is_control for item in items if item.variant] == [True, False]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"perturbation_type": "rhyming"}, "unknown perturbation_type 'rhyming'; use one of"),
        ({"label": 9}, "out of range for 4"),
        ({"choices": ["a", ""]}, "option 2 is empty"),
        ({"context": ""}, "context"),
        ({"choices": "abc"}, "choices"),
        ({"label": None}, "label"),
    ],
)
def test_a_pro_row_that_cannot_be_used_is_refused_and_the_next_one_stays(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    items = imported(written(tmp_path / "a.jsonl", [PRO_VARIANT, {**PRO_VARIANT, **change}, PRO_VARIANT]))

    assert [type(item) for item in items] == [Parsed, Refusal, Parsed]
    assert isinstance(items[1], Refusal)
    assert reason in items[1].reason
    assert items[1].number == 2


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (["question", "A", "B", "C", "D", "answer"], ("A", "B", "C", "D")),
        (["id", "question", "opa", "opb", "opc", "opd", "cop"], ("opa", "opb", "opc", "opd")),
        (["Question", "Option A", "Option B", "Answer"], ("Option A", "Option B")),
        (["prompt", "choice1", "choice2", "label"], ("choice1", "choice2")),
        (["ctx", "ending0", "ending1", "label"], ("ending0", "ending1")),
        (["题目", "选项A", "选项B", "答案"], ("选项A", "选项B")),
        (["stem", "choices", "answerKey"], ("choices",)),
    ],
)
def test_the_mapping_of_common_tables_is_guessed(columns: list[str], options: tuple[str, ...]) -> None:
    guess = guess_mapping([RawRow("a.csv", 2, dict.fromkeys(columns, "x"))])

    assert guess.mapping is not None
    assert guess.mapping.context == next(name for name in columns if name not in {"id"})
    assert guess.mapping.options == options
    assert guess.mapping.answer == columns[-1]


def test_a_table_without_a_question_column_is_not_guessed_and_its_import_says_what_to_name(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [{"colour": "red"}])

    assert source.guess.mapping is None
    with pytest.raises(InputError, match="--map"):
        imported(source)


def test_integers_in_a_file_with_zeros_are_indexes_even_where_an_option_reads_the_same(tmp_path: Path) -> None:
    rows = [
        {"question": "one", "choices": ["red", "blue"], "answer": 0},
        {"question": "two", "choices": ["1", "0"], "answer": 1},
    ]
    source = written(tmp_path / "a.jsonl", rows)

    assert source.guess.mapping is not None
    assert source.guess.mapping.answer_scheme == "index0"
    assert [item.question.answer_index for item in parsed(imported(source))] == [0, 1]


def test_a_file_that_counts_from_one_is_warned_about_and_read_when_declared(tmp_path: Path) -> None:
    rows = [{"question": f"q{n}", "A": "w", "B": "x", "C": "y", "D": "z", "answer": n} for n in (1, 2, 3, 4)]
    source = written(tmp_path / "a.jsonl", rows)

    items = imported(source)
    declared = imported(source, {"answer_scheme": "index1"})

    assert [type(item) for item in items] == [Parsed, Parsed, Parsed, Refusal, Notice]
    assert isinstance(items[-1], Notice)
    assert "index1" in items[-1].text
    assert [item.question.answer_index for item in parsed(declared)] == [0, 1, 2, 3]


def test_two_equal_options_are_imported_and_suspected(tmp_path: Path) -> None:
    rows = [{"question": "q", "choices": ["red", "Red ", "blue"], "answer": "A"}]

    [item] = parsed(imported(written(tmp_path / "a.jsonl", rows)))

    assert "one marked as the answer" in item.suspicions[0]


def test_open_questions_take_the_final_number(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "answer": "2 + 2\n#### 1,004"}, {"question": "Which?", "answer": "none"}]

    items = imported(written(tmp_path / "a.jsonl", rows))

    assert parsed(items)[0].question.final_answer == "1004"
    assert parsed(items)[0].question.options == ()
    assert isinstance(items[1], Refusal)


def test_rows_with_other_columns_are_refused_by_what_they_lack(tmp_path: Path) -> None:
    rows = [{"question": "q", "choices": ["a", "b"], "answer": "A"}, {"stem": "q", "choices": ["a", "b"]}]

    items = imported(written(tmp_path / "a.jsonl", rows))

    assert isinstance(items[1], Refusal)
    assert "no column 'question'" in items[1].reason


def test_a_mapping_from_settings_is_checked() -> None:
    assert ColumnMapping.from_settings({"context": "q", "options": "o"}).options == ("o",)
    for settings, reason in (
        ({"context": "q", "colour": "x"}, "unknown field colour"),
        ({"context": "q", "options": [], "answer_scheme": "guess"}, "answer_scheme"),
        ({"options": ["a"]}, "context"),
    ):
        with pytest.raises(InputError, match=reason):
            ColumnMapping.from_settings(settings)


def test_a_mapping_names_what_was_guessed_wrong_and_the_rest_is_as_guessed(tmp_path: Path) -> None:
    rows = [{"question": "q", "choices": ["a", "b"], "answer": 0, "gold_letter": "B"}]
    source = written(tmp_path / "a.jsonl", rows)

    [item] = parsed(imported(source, {"answer": "gold_letter"}))
    [unlabelled] = parsed(imported(source, {"answer": None}))

    assert (item.question.context, item.question.answer_index) == ("q", 1)
    assert unlabelled.question.answer_index is None


def test_a_mapping_reads_a_table_that_looks_like_a_known_format_and_goes_with_no_other(tmp_path: Path) -> None:
    row = {"ind": 4, "ctx": "A man sits on a roof. he", "endings": ["a", "b"], "label": "0", "best": "b"}
    source = written(tmp_path / "a.jsonl", [row])

    [item] = parsed(imported(source, {"answer": "best"}))

    assert (source.format_name, item.question.answer_index) == ("hellaswag", 1)
    with pytest.raises(InputError, match="has fixed columns; leave out --map"):
        list(read(source, benchmark="t", now=NOW, format_name="hellaswag", mapping={"answer": "best"}))


def test_an_answer_that_is_a_list_is_refused_and_no_crash(tmp_path: Path) -> None:
    rows = [{"question": "q", "choices": ["a", "b"], "answer": ["a"]}]

    [item] = imported(written(tmp_path / "a.jsonl", rows))

    assert isinstance(item, Refusal)
    assert "is a list" in item.reason


def test_a_key_of_zero_is_a_key(tmp_path: Path) -> None:
    rows = [{"id": number, "subject": 0, "question": f"q{number}", "choices": ["a", "b"]} for number in range(3)]

    items = parsed(imported(written(tmp_path / "a.jsonl", rows)))

    assert [item.question.source_key for item in items] == ["0", "1", "2"]
    assert items[0].question.subject == "0"


def test_rows_without_a_key_are_told_apart_by_file_and_number(tmp_path: Path) -> None:
    for name in ("dev", "test"):
        (tmp_path / f"{name}.csv").write_text(f"question,A,B,answer\n{name} one,x,y,A\n{name} two,x,y,B\n")

    keys = [item.question.source_key for source in inspect(str(tmp_path)) for item in parsed(imported(source))]

    assert keys == ["dev/2", "dev/3", "test/2", "test/3"]


def test_files_of_one_folder_may_each_count_their_keys_anew(tmp_path: Path) -> None:
    for name in ("dev", "test"):
        written(tmp_path / f"{name}.jsonl", [{"id": 1, "question": f"{name} one", "choices": ["x", "y"]}])

    keys = [item.question.source_key for source in inspect(str(tmp_path)) for item in parsed(imported(source))]

    assert keys == ["dev/1", "test/1"]


def test_rows_of_one_hellaswag_video_are_questions_of_their_own(tmp_path: Path) -> None:
    row = {"activity_label": "High jump", "endings": ["a", "b"], "label": 0, "source_id": "activitynet~v_x"}
    rows = [{**row, "ind": ind, "ctx": f"An athlete runs {ind} steps. She"} for ind in (114, 116)]

    items = parsed(imported(written(tmp_path / "a.jsonl", rows)))

    assert [item.question.source_key for item in items] == ["114", "116"]


def test_a_damaged_file_of_a_folder_is_a_source_that_says_why_and_alone_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "b.jsonl").write_text('{"question": "q", "choices": ["a", "b"]}\n')

    damaged, sound = inspect(str(tmp_path))

    assert "a.parquet cannot be read" in damaged.guess.notes[0]
    assert len(sound.rows_seen) == 1
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        inspect(str(tmp_path / "a.parquet"))


def test_a_data_set_that_datasets_can_read_is_imported_by_hf(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "test.jsonl").write_text('{"question": "q", "choices": ["a", "b"], "answer": 1}\n')

    [source] = inspect(f"hf:{tmp_path / 'set'}")

    assert parsed(imported(source))[0].question.answer_index == 1
    with pytest.raises(InputError, match="has no split 'gold'"):
        inspect(f"hf:{tmp_path / 'set'}:gold")


def test_a_config_of_a_data_set_is_named_after_its_id(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("easy", "hard"):
        (folder / f"{name}.jsonl").write_text(json.dumps({"question": name, "choices": ["a", "b"], "answer": 1}) + "\n")
    configs = "".join(f"- config_name: {name}\n  data_files: {name}.jsonl\n" for name in ("easy", "hard"))
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")

    [source] = inspect(f"hf:{folder}#hard")

    assert [item.question.context for item in parsed(imported(source))] == ["hard"]
    with pytest.raises(InputError, match="name a config, as in hf:ID#CONFIG"):
        inspect(f"hf:{folder}")


def test_the_default_benchmark_name_is_that_of_the_file_folder_or_data_set(tmp_path: Path) -> None:
    assert benchmark_name(str(tmp_path / "arc.jsonl")) == "arc"
    assert benchmark_name(str(tmp_path)) == tmp_path.name
    assert benchmark_name("hf:somebody/swag:test") == "swag"
    assert benchmark_name("hf:somebody/swag#easy:test") == "swag"


def test_a_file_without_rows_is_detected_as_generic() -> None:
    expected: FormatName = "generic"
    assert detect([]) == expected


@pytest.mark.parametrize(
    ("folder", "rows", "most_refused"),
    [("mmlu", 570, 0), ("commonsenseqa", 1221, 10), ("gsm8k", 1319, 0), ("mmlu_redux", 5800, 0)],
)
def test_public_files_are_read_with_every_row_accounted_for(folder: str, rows: int, most_refused: int) -> None:
    if not (PUBLIC / folder).is_dir():
        pytest.skip(f"the public data folder {folder} is absent")
    items = [item for source in inspect(str(PUBLIC / folder)) for item in imported(source)]

    refused = [item for item in items if isinstance(item, Refusal)]
    assert len(parsed(items)) + len(refused) == rows
    assert len(refused) <= most_refused, refused[:3]
