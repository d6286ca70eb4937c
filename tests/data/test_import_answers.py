"""Answer cells as files really write them: each spelling has one outcome."""

import pytest

from data.errors import InputError
from data.imports.answers import AnswerScheme, answer_index, final_answer
from data.imports.options import Options, options_from_cell, options_from_cells

FRUIT = Options(("apple", "pear", "plum", "fig"))
ARC_NUMBERED = Options(("rock", "sand", "clay", "loam"), ("1", "2", "3", "4"))
ARC_LETTERED = Options(("rock", "sand", "clay", "loam"), ("A", "B", "C", "D"))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("B", 1), ("(B)", 1), ("B.", 1), (" b", 1), ("[b]", 1), ("Ｂ", 1), ("B. pear", 1), ("(B) PEAR", 1),
        ("pear", 1), (" Pear ", 1), (1, 1), (1.0, 1), ("1", 1), ("0", 0), ("3", 3),
    ],
)  # fmt: skip
def test_every_spelling_of_the_second_option_is_read(cell: object, expected: int) -> None:
    assert answer_index(cell, FRUIT, "auto") == expected


@pytest.mark.parametrize("cell", [None, "", "  "])
def test_an_empty_answer_is_an_unlabelled_row(cell: object) -> None:
    assert answer_index(cell, FRUIT, "auto") is None


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("E", "out of range for 4 options"), (4, "index1"), ("4", "index1"),
        (-1, "out of range"), ("quince", "matches no option"),
        (True, "true or false"), ("B. plum", "different options"), ([1], "list"), (1.5, "float"),
    ],
)  # fmt: skip
def test_an_answer_that_fits_no_option_is_refused_with_its_reason(cell: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        answer_index(cell, FRUIT, "auto")


def test_numbered_and_lettered_answers_in_one_file_go_through_the_labels_of_their_row() -> None:
    assert answer_index("4", ARC_NUMBERED, "auto") == 3
    assert answer_index("D", ARC_LETTERED, "auto") == 3
    with pytest.raises(InputError, match="not one of the option labels"):
        answer_index("D", ARC_NUMBERED, "auto")


def test_a_number_that_is_both_a_text_and_an_index_is_refused_until_the_scheme_is_declared() -> None:
    options = Options(("2", "1", "0", "7"))

    with pytest.raises(InputError, match="declare --map answer_scheme="):
        answer_index("2", options, "auto")

    schemes: list[tuple[AnswerScheme, int]] = [("text", 0), ("index0", 2), ("index1", 1)]
    assert [answer_index("2", options, scheme) for scheme, _ in schemes] == [index for _, index in schemes]


def test_answers_counted_from_one_are_read_when_declared() -> None:
    assert [answer_index(cell, FRUIT, "index1") for cell in (1, "4")] == [0, 3]
    with pytest.raises(InputError, match="out of range"):
        answer_index(0, FRUIT, "index1")


def test_the_first_of_two_equal_options_is_keyed() -> None:
    assert answer_index("pear", Options(("apple", "pear", "pear")), "auto") == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("He has 5 + 3.\n#### 1,234", "1234"), (r"so \boxed{$9{,}500}", "9500"), ("#### 3 or\n#### 4", "4"),
        ("72, altogether", "72"), ("1/2", "1/2"), ("#### -7", "-7"), ("#### $18", "18"), ("3.50", "3.50"),
        ("#### 12.", "12"),
    ],
)  # fmt: skip
def test_the_final_number_is_read(text: str, number: str) -> None:
    assert final_answer(text) == number


@pytest.mark.parametrize("text", ["1,2", "#### none", "", "about twelve"])
def test_what_is_no_single_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="does not end in a number"):
        final_answer(text)


@pytest.mark.parametrize(
    "cell",
    [
        ["rock", "sand"],
        '["rock", "sand"]',
        "['rock', 'sand']",
        "\nA. rock\nB. sand",
        {"text": ["rock", "sand"], "label": ["A", "B"]},
        [{"label": "A", "text": "rock"}, {"label": "B", "text": "sand"}],
        {"A": "rock", "B": "sand"},
    ],
)
def test_every_way_to_write_options_gives_the_same_texts(cell: object) -> None:
    assert options_from_cell(cell).texts == ("rock", "sand")


def test_a_null_last_option_is_no_option_and_an_empty_middle_one_is_refused() -> None:
    cells = [("A", "rock"), ("B", "sand"), ("C", "clay"), ("D", "loam")]

    assert len(options_from_cells([*cells, ("E", None)]).texts) == 4
    assert len(options_from_cells([*cells, ("E", "peat")]).texts) == 5
    with pytest.raises(InputError, match="'B' is empty"):
        options_from_cells([("A", "rock"), ("B", " "), ("C", "clay")])


@pytest.mark.parametrize("cell", [[], ["only one"], ["a", ""], "no list at all", 7, "__import__('os').getcwd()", "[1+"])
def test_options_that_cannot_be_read_are_refused(cell: object) -> None:
    with pytest.raises(InputError):
        options_from_cell(cell)
