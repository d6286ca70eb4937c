"""Buttons that start something: two clicks are one act, and the person always sees what came of it.

Each is clicked twice at once, and twice while the desk is held up in the midst of what the first click asked for.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from playwright.sync_api import Locator, Page, expect

from data.records import VariantId

pytestmark = pytest.mark.server

CONTEXTS = ["A baker opens the oven. She takes the bread out. Then she", "A boy kneels beside his bicycle. He"]

Clicks = Callable[["Console", Locator], None]


class Desk(Protocol):
    def ask(self, name: str, *arguments: object) -> Any: ...
    def until(self, name: str, answer: object, *arguments: object) -> None: ...


class Console(Protocol):
    desk: Desk

    def page(self, name: str | None, path: str = "/", *, scheme: Literal["light", "dark"] = "light") -> Page: ...
    def queue(self, contexts: list[str], *, blind_share: float = 0.0) -> list[VariantId]: ...


def at_once(console: Console, button: Locator) -> None:
    expect(button).to_have_count(1)  # what is drawn anew stands beside what it takes the place of, for a moment
    button.dblclick()


def while_it_is_slow(console: Console, button: Locator) -> None:
    expect(button).to_have_count(1)
    console.desk.until("drawing", 0)
    console.desk.ask("hold_writes")
    button.click()
    console.desk.until("writing", 1)
    button.click()
    console.desk.until("drawing", 2)
    console.desk.ask("let_writes_go")


twice = pytest.mark.parametrize("click", [at_once, while_it_is_slow])


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def leads_to_one_run(console: Console, page: Page, kind: str) -> None:
    page.wait_for_url(re.compile(r"/runs\?run=r_"))
    expect(page.locator(".sd-line").first).to_contain_text(kind)
    console.desk.until("drawing", 0)
    assert console.desk.ask("run_kinds") == [kind]


@twice
def test_a_training(console: Console, click: Clicks) -> None:
    page = console.page("lea", "/training")

    click(console, button(page, "Train the verifier"))

    leads_to_one_run(console, page, "train-verifier")


@twice
def test_a_generation(console: Console, click: Clicks) -> None:
    console.queue(CONTEXTS)
    page = console.page("lea", "/generate")

    click(console, button(page, "Start generating"))

    leads_to_one_run(console, page, "generate")


@twice
def test_a_training_from_the_overview(console: Console, click: Clicks) -> None:
    console.queue(CONTEXTS)
    console.desk.ask("unjudge")
    page = console.page("lea", "/overview")

    click(console, button(page, "Train a verifier on the sample labels"))

    leads_to_one_run(console, page, "train-verifier")


@twice
def test_a_comparison(console: Console, click: Clicks) -> None:
    _, challenger = console.desk.ask("train_two_verifiers", "none", [])
    page = console.page("lea", f"/models?model={challenger}")

    click(console, button(page, "Compare with the champion"))

    leads_to_one_run(console, page, "gate-verifier")


@twice
def test_an_import(console: Console, click: Clicks, tmp_path: Path) -> None:
    rows = tmp_path / "own.jsonl"
    rows.write_text('{"question": "A cook opens a jar. She", "choices": ["eats.", "sings."], "answer": 0}\n')
    page = console.page("lea", "/questions")
    page.get_by_role("tab", name="Import").click()
    page.get_by_test_id("stFileUploaderDropzone").locator("input").set_input_files(rows)

    click(console, button(page, "Import as “own”"))

    expect(page.locator(".sd-line").first).to_contain_text("import")
    expect(button(page, "Import something else")).to_be_visible()
    assert console.desk.ask("run_kinds") == ["import"]


@twice
def test_a_promotion_and_the_way_back(console: Console, click: Clicks) -> None:
    champion, challenger = console.desk.ask("train_two_verifiers", "passes", [])
    page = console.page("lea", f"/models?model={challenger}")
    page.get_by_label("Reason (kept in the history)").fill("it sees two right answers")
    page.keyboard.press("Tab")

    click(console, button(page, "Promote to champion"))

    expect(page.get_by_text(f"{challenger} is now the champion")).to_be_visible()
    assert console.desk.ask("sign_offs") == ["promote"]
    console.desk.until("drawing", 0)
    expect(button(page, "Promote to champion")).to_have_count(0)
    expect(button(page, "Roll back")).to_have_count(1)
    page.get_by_label("Reason (kept in the history)").fill("it rejects too much")
    page.keyboard.press("Tab")

    click(console, button(page, "Roll back"))

    expect(page.get_by_text(f"{champion} is the champion again")).to_be_visible()
    assert console.desk.ask("sign_offs") == ["promote", "rollback"]


@twice
def test_a_release(console: Console, click: Clicks) -> None:
    (variant, _) = console.queue(CONTEXTS)
    console.desk.ask("accept", variant)
    page = console.page("lea", "/releases")
    page.get_by_label("New release").fill("first")
    page.keyboard.press("Tab")

    click(console, button(page, "Create release"))

    expect(page.get_by_text("Created release first (number 1)")).to_be_visible()
    expect(page.locator(".sd-message-error")).to_have_count(0)


def test_a_refusal_is_shown_whichever_click_it_answers(console: Console) -> None:
    (variant, _) = console.queue(CONTEXTS)
    console.desk.ask("accept", variant)
    page = console.page("lea", "/releases")
    page.get_by_label("New release").fill("No good name!")
    page.keyboard.press("Tab")

    button(page, "Create release").dblclick()

    expect(page.locator(".sd-message-error")).to_be_visible()
