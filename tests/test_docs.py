"""What the documents say is there: commands, options, files, targets, words."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from data.dimensions import DIMENSIONS
from data.ids import question_id
from data.records import VARIANT_TYPE_KEYS, Question, VariantTypeKey
from engine.candidate import Candidate, is_abstain
from engine.jobs.kinds import KINDS
from engine.variant_types.table import VARIANT_TYPES
from ui.commands.tree import app
from ui.desk.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("data/**/*.md"), *ROOT.glob(".github/**/*.md")]
)
ANNOTATORS = ROOT / "docs" / "annotators.md"
OPERATIONS = ROOT / "docs" / "operations.md"
VARIABLES = {str(field.validation_alias or f"SAGEDESK_{name.upper()}") for name, field in Settings.model_fields.items()}
VARIABLES |= {"SAGEDESK_CACHE", "LABEL_STUDIO_DJANGO_DB"}  # of `data.cache` and `annotation.server`
_COMMAND = re.compile(r"(?:^|[\s`/])sagedesk((?: [a-z][a-z-]*| --?[a-z][a-z-]*)+)")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))

    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_in_a_document_exists(page: Path) -> None:
    blocks = re.findall(r"```(?:\w*)\n(.*?)```|`([^`\n]+)`", page.read_text("utf-8"), re.DOTALL)
    lines = [line for block in blocks for part in block for line in part.splitlines()]

    for line in lines:
        for words in _COMMAND.findall(line):
            _require_command(words.split())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_make_target_in_a_document_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    named_ones = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE))

    assert named_ones <= targets


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_of_ours_that_a_document_names_exists(page: Path) -> None:
    """Words in capitals stand for a name: `engine/variant_types/KEY.py`."""
    paths = re.findall(r"`((?:ui|annotation|engine|training|data|tests|docs|\.ci)/[^`\s]*)`", page.read_text("utf-8"))

    missing = [path for path in paths if not re.search(r"\b[A-Z]{2,}\b", path) and not (ROOT / path).exists()]

    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_name_that_a_document_places_in_a_module_is_there(page: Path) -> None:
    placed = re.findall(r"`(\w+)` (?:in|of) `([\w/.]+\.py)`", page.read_text("utf-8"))

    assert not [(name, file) for name, file in placed if name not in (ROOT / file).read_text("utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_variable_in_a_document_is_read_somewhere(page: Path) -> None:
    named_ones = set(re.findall(r"\b(?:SAGEDESK|LABEL_STUDIO)_[A-Z_]*[A-Z]\b", page.read_text("utf-8")))

    unknown = {one for one in named_ones - VARIABLES if not one.startswith("LABEL_STUDIO_POSTGRE_")}

    assert not unknown


def test_operations_explain_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", OPERATIONS.read_text("utf-8"), re.MULTILINE)
    told = {variable: default.strip("` ") for cell, default in rows for variable in re.findall(r"`(\w+)`", cell)}

    assert VARIABLES - {"LABEL_STUDIO_DJANGO_DB"} <= set(told)
    for name, field in Settings.model_fields.items():
        if field.default is not None:
            assert told[f"SAGEDESK_{name.upper()}"] == str(field.default).removesuffix(".0"), name


def test_annotators_are_told_every_key_of_the_panel() -> None:
    script = (ROOT / "ui" / "widgets" / "answer_panel.js").read_text("utf-8")
    letters = re.search(r"const what = \{(.*?)\}\[key\]", script)
    numbers = re.search(r"ANSWER_KEYS = \{(.*?)\};", script)
    assert letters
    assert numbers
    keys = {key.upper() for key in re.findall(r"(\w): ", letters[1] + numbers[1])}

    told = ANNOTATORS.read_text("utf-8").split("## Keys")[1].split("\n## ")[0]

    assert keys <= set(re.findall(r"`(\w)`", told))


def test_annotators_are_asked_the_questions_of_the_panel() -> None:
    page = ANNOTATORS.read_text("utf-8")

    for dimension in DIMENSIONS:
        assert f"**{dimension.name} ({dimension.key}).** *{dimension.question}*" in page


@pytest.mark.parametrize("key", VARIANT_TYPE_KEYS)
def test_annotators_see_a_good_and_a_failing_example_of_every_type_that_its_contract_lets_through(
    key: VariantTypeKey,
) -> None:
    """Nobody is asked about a variant that breaks its contract, so one would be a misleading example."""
    section = re.search(rf"^### [^\n]*\(`{key}`\)\n(.*?)^##", ANNOTATORS.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*", section[1], re.M)]
    (head, _, *body) = rows
    columns = list(zip(*body, strict=True))
    original = candidate_of(columns[1])
    question = Question(
        question_id(original.context, original.options, original.answer_index),
        original.context,
        original.options,
        original.answer_index,
        "annotators",
        key,
    )

    for column in columns[2:]:
        outcomes = VARIANT_TYPES[key].check(question, candidate_of(column))
        assert not [it for it in outcomes if it.is_required and not it.holds]

    assert VARIANT_TYPES[key].definition.rstrip(".") in section[1]
    assert {"holds": "yes, yes, yes"}.items() <= dict(zip(head, body[-1], strict=True)).items()
    assert "**no**" in dict(zip(head, body[-1], strict=True))["fails"]


def test_the_glossary_has_every_variant_type_and_job_kind() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")

    for word in (*VARIANT_TYPE_KEYS, *KINDS):
        assert word in glossary


def test_documents_name_no_path_of_a_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|Users|work)/", page.read_text("utf-8")), named(page)


def candidate_of(column: Sequence[str]) -> Candidate:
    """A column of an example's table: context, options with the marked one, answers."""
    (context, *options, _) = column
    shown = [option for option in options if option]
    (answer,) = [place for place, option in enumerate(shown) if option.startswith("✓")]
    texts = tuple(option.removeprefix("✓ ") for option in shown)
    return Candidate(context, texts, answer, is_abstain(texts[-1]) and answer != len(texts) - 1)


def _require_command(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    for word in words:
        inner = getattr(command, "commands", {})
        if word.startswith("-"):
            known = {option for it in command.params for option in (*it.opts, *it.secondary_opts)} | {"--help"}
            assert word in known, f"sagedesk {' '.join(words)}: {word} is no option"
        elif word in inner:
            command = inner[word]
        else:
            assert not inner, f"sagedesk {' '.join(words)}: {word} is no command"


def walks() -> list[tuple[str, str]]:
    """(importer, imported) of every indented line in the walks of docs/architecture.md."""
    chapter = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("## Three walks down the house")[1]
    pairs, above = [], [""] * 10
    for block in chapter.split("\n## ")[0].split("```")[1::2]:
        for line in block.strip("\n").splitlines():
            depth = (len(line) - len(line.lstrip())) // 2
            above[depth] = line.split()[0]
            if depth:
                pairs.append((above[depth - 1], above[depth]))
    return pairs


@pytest.mark.parametrize(("importer", "imported"), walks())
def test_the_walks_in_the_architecture_are_imports_of_the_code(importer: str, imported: str) -> None:
    package, _, module = imported.rpartition(".")
    code = (ROOT / importer.replace(".", "/")).with_suffix(".py").read_text("utf-8")

    assert (ROOT / imported.replace(".", "/")).with_suffix(".py").exists()
    assert re.search(
        rf"^from {re.escape(imported)} import |^from {re.escape(package)} import .*\b{module}\b", code, re.M
    )


def test_the_architecture_draws_three_walks() -> None:
    assert len(walks()) > 20
