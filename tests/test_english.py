"""Texts that people read: the worst patterns of translated English stay out of pages, commands, errors and docs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
TEXTS_OF = ("ui/views", "ui/widgets", "ui/commands", "ui/web", "ui/app.py", "ui/cli.py")
"""Every string in here may be shown to a person."""
ERRORS_OF = ("ui", "annotation", "data", "engine", "training")
"""Only what is raised in here is shown to a person."""
MARKUP = ("ui/widgets/*.html", "ui/widgets/*.js")
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/adr/*.md")

PATTERNS = {
    r"\bso (many|much)\b(?! \w+ that)": "Learn from at most so many labels.",
    r"\bonce an? (dimension|field|person|question|type)\b": "Once a type; all if omitted.",
    r"\ban? (million|1,000)\b(?! of)": "Price a million prompt tokens",
    r"\b(candidates|column|loss|nats|one|price|question|suffix|tokens|value`) an? "
    r"(dimension|line|option|prompt|question|token|type)\b": "Candidates a question and type",
    r"(^|[.:;] )(?-i:Of) (it|the|these|those|what)\b": "Of what it accepts, 95 % must be right",
    r"\bsets? (the )?\w+ right\b": "sets the probabilities right",
    r"\btimes through\b": "Times through them",
    r"\btry and be judged\b": "Try and be judged (GRPO)",
    r"\bleave out at the beginning\b": "Rows to leave out at the beginning.",
    r"\bsave when\b": "Save when",
    r"\banew\b": "the queue is judged anew",
    r"\bin step with\b": "In step with Label Studio.",
    r"\b(are|is) at hand\b|^at hand$": "at hand",
    r"\b(are|be|is) had\b": "the address cannot be had",
    r"\b(are|is) told by\b": "flips are told by a gate-verifier run",
}
"""Pattern, without regard to case -> a text that it must catch."""


class Text(NamedTuple):
    path: str
    line: int
    words: str


@pytest.mark.parametrize(("pattern", "example"), PATTERNS.items())
def test_each_pattern_catches_its_example(pattern: str, example: str) -> None:
    assert _caught(example) == [pattern]


@pytest.mark.parametrize(
    "words", ["There are so many labels that it takes an hour.", "It says one a day.", "Of 3 runs, 2"]
)
def test_plain_english_passes(words: str) -> None:
    assert _caught(words) == []


def test_no_text_for_people_has_a_pattern_of_translated_english() -> None:
    found = [
        f"{text.path}:{text.line}: {text.words.strip()[:120]!r} ({', '.join(caught)})"
        for text in _texts()
        if (caught := _caught(text.words))
    ]

    assert found == []


def test_strings_command_help_errors_markup_and_documents_are_read() -> None:
    words = {(text.path, text.words) for text in _texts()}

    for path, expected in (
        ("ui/views/training_forms.py", "Maximum labels"),
        ("ui/commands/run.py", "List runs, newest first."),
        ("data/store.py", "restore a backup"),
        ("ui/widgets/answer_panel.html", "Your answers"),
        ("README.md", "# sagedesk"),
    ):
        assert any(where == path and expected in text for where, text in words), (path, expected)


def _caught(words: str) -> list[str]:
    return [pattern for pattern in PATTERNS if re.search(pattern, words, re.IGNORECASE)]


def _texts() -> Iterator[Text]:
    for path in _files(TEXTS_OF):
        yield from _strings(path, _tree(path), with_help="commands" in path.parts)
    for path in _files(ERRORS_OF):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                yield from _strings(path, node.exc, with_help=False)
    for pattern in (*MARKUP, *DOCUMENTS):
        for path in sorted(ROOT.glob(pattern)):
            for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
                yield Text(_name(path), number, line)


def _files(places: tuple[str, ...]) -> Iterator[Path]:
    for place in places:
        yield from sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _strings(path: Path, root: ast.AST, *, with_help: bool) -> Iterator[Text]:
    """String literals, an f-string as one with `{}` for its values; docstrings only where they are a command's help."""
    seen: set[int] = set()
    for node in ast.walk(root):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            seen.add(id(node.value))
        elif with_help and isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield Text(_name(path), node.lineno, ast.get_docstring(node) or "")
        elif isinstance(node, ast.JoinedStr):
            parts = [it.value if isinstance(it, ast.Constant) else "{}" for it in node.values]
            seen |= {id(it) for it in node.values if isinstance(it, ast.Constant)}
            yield Text(_name(path), node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield Text(_name(path), node.lineno, node.value)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
