"""What the documents say is there: commands, options, files, targets, words."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from data.records import VARIANT_TYPE_KEYS
from engine.jobs.kinds import KINDS
from ui.commands.tree import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("data/**/*.md")])
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


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    named_ones = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))

    assert "up" in named_ones
    assert named_ones <= targets


def test_the_glossary_has_every_variant_type_and_job_kind() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")

    for word in (*VARIANT_TYPE_KEYS, *KINDS):
        assert word in glossary


def test_documents_name_no_path_of_a_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|Users|work)/", page.read_text("utf-8")), named(page)


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
