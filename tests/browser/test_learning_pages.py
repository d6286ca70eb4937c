"""Training, models and charts in a real browser: one run for two clicks, live figures, promotion and the way back."""

import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.server

HOSTILE = [
    "<script>alert('script')</script> A cook",
    "<img src=http://beacon.test/i onerror=alert('img')> A cook",
    "![pixel](http://beacon.test/md.png) A cook pays $5 and $6",
    "</div></details><style>body{display:none}</style> A cook",
]


class Desk(Protocol):
    def ask(self, name: str, *arguments: object) -> Any: ...


class Console(Protocol):
    strays: list[str]
    desk: Desk

    def page(self, name: str | None, path: str = "/", *, scheme: Literal["light", "dark"] = "light") -> Page: ...
    def run_states(self) -> list[str]: ...


def train_two_verifiers(console: Console, outcome: str, contexts: Sequence[str] = ()) -> tuple[str, str]:
    champion, challenger = console.desk.ask("train_two_verifiers", outcome, contexts)
    return str(champion), str(challenger)


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def test_two_clicks_train_one_verifier_and_lead_to_its_run(console: Console) -> None:
    page = console.page("lea", "/training")

    button(page, "Train the verifier").dblclick()

    page.wait_for_url(re.compile(r"/runs\?run=r_"))
    expect(page.locator(".sd-line").first).to_contain_text("train-verifier")
    assert len(console.run_states()) == 1
    button(page, "Cancel run").click()
    expect(page.locator(".sd-line").first).to_contain_text("cancelled")
    expect(button(page, "Resume run")).to_be_visible()


def test_the_role_stays_in_the_address_and_a_refusal_stands_beside_its_button(console: Console) -> None:
    page = console.page("lea", "/training")
    page.get_by_role("radio", name="Generator").click()
    page.wait_for_url("**/training?role=generator")

    page.reload()

    expect(button(page, "Train the generator")).to_be_disabled()
    expect(
        page.get_by_text("No verifier is in use, which GRPO needs as its reward; train one first.").last
    ).to_be_visible()


def test_the_charts_of_a_run_grow_while_it_works(console: Console) -> None:
    console.desk.ask("add_training", "running", [("kl", 1, 0.11), ("reward", 1, 0.21), ("reward/TC", 1, 0.31)])
    page = console.page("lea", "/runs?run=r_training")
    expect(page.locator("canvas, svg.marks").first).to_be_visible()
    chart = page.locator(".st-key-chart_run_kl")
    chart.get_by_text("Show the numbers").click()
    expect(chart.locator("td").nth(1)).to_have_text("0.11")

    console.desk.ask("add_figures", [("kl", 2, 0.47), ("entropy", 2, 1.3)])

    expect(chart.locator("td").nth(1)).to_have_text("0.47")  # no reload, and the table is still open
    expect(page.locator(".st-key-chart_run_entropy")).to_be_visible()


def test_a_lead_promotes_past_the_gate_only_by_saying_so_and_goes_back(console: Console) -> None:
    champion, challenger = train_two_verifiers(console, "fails")
    page = console.page("lea", f"/models?model={challenger}")
    expect(page.get_by_text("Keep the champion: the challenger is worse on type consistency.")).to_be_visible()
    page.get_by_label("Reason (kept in the history)").fill("it sees two right answers")
    button(page, "Promote to champion").click()
    expect(page.get_by_text("did not pass the gate")).to_be_visible()
    assert console.desk.ask("champion") == champion

    page.locator("label", has_text="Promote without a passed gate").click()
    button(page, "Promote to champion").click()

    expect(page.get_by_text(f"{challenger} is now the champion")).to_be_visible()
    assert console.desk.ask("champion") == challenger
    expect(page.get_by_role("cell", name="it sees two right answers")).to_be_visible()
    page.get_by_label("Reason (kept in the history)").fill("it rejects too much")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{champion} is the champion again")).to_be_visible()
    assert console.desk.ask("champion") == champion


def test_flips_show_hostile_texts_literally_and_can_be_folded_by_key(console: Console) -> None:
    _, challenger = train_two_verifiers(console, "passes", HOSTILE)

    page = console.page("lea", f"/models?model={challenger}", scheme="dark")

    for text in HOSTILE:
        expect(page.get_by_text(text).first).to_be_visible()
    first = page.locator("details.sd-flip").first
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(first.locator(".sd-pair")).to_be_hidden()
    page.get_by_role("radio", name="Champion right").click()
    expect(page.locator("details.sd-flip")).not_to_have_count(len(HOSTILE))
    expect(page.locator("details.sd-flip").first).to_contain_text("champion right")
    assert console.strays == []


def test_another_model_is_opened_by_key(console: Console) -> None:
    champion, challenger = train_two_verifiers(console, "passes")
    page = console.page("lea", "/models")
    page.wait_for_selector(f"text=Verifier {challenger}")

    page.locator("tr", has_text=champion).focus()
    page.keyboard.press("Enter")

    expect(page.get_by_text(f"Verifier {champion}")).to_be_visible()
    page.wait_for_url(f"**/models?model={champion}")
