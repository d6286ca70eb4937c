"""Navigation by role, and the pages around the review, in a real browser."""

from typing import Protocol

import pytest
from playwright.sync_api import Page, expect

from data.records import Role, VariantId

pytestmark = pytest.mark.server


class Console(Protocol):
    links: dict[str, str]

    @property
    def url(self) -> str: ...
    def page(self, name: str | None, path: str = "/") -> Page: ...
    def queue(self, contexts: list[str], *, blind_share: float = 0.0) -> list[VariantId]: ...
    def set_role(self, name: str, role: Role) -> None: ...
    def add_failed_run(self) -> None: ...
    def run_states(self) -> list[str]: ...


def tabs(page: Page) -> list[str]:
    links = page.locator("[data-testid=stTopNavLink]")
    expect(links.first).to_be_visible()
    return [text.strip() for text in links.all_inner_texts()]


def test_an_annotator_has_three_pages_and_cannot_reach_a_leads_by_address(console: Console) -> None:
    console.queue(["A baker opens the oven. She"])
    page = console.page("ana")
    assert tabs(page) == ["Review", "Questions", "Overview"]

    for name in ("generate", "runs", "training", "models", "releases"):
        page.goto(f"{console.url}/{name}")
        expect(page.get_by_text("Page not found")).to_be_visible()
        assert page.locator("[data-testid=stBaseButton-primary]").count() == 0


def test_who_is_no_lead_any_more_is_refused_by_the_use_case_behind_an_open_page(console: Console) -> None:
    console.add_failed_run()
    page = console.page("lea", "/runs")
    expect(page.get_by_text("the disk is full").first).to_be_visible()

    console.set_role("lea", "annotator")
    page.get_by_role("button", name="Resume run").click()

    expect(page.get_by_text("lea is an annotator")).to_be_visible()
    assert console.run_states() == ["failed"]


def test_a_password_set_after_the_link_opens_the_desk_from_then_on(console: Console) -> None:
    page = console.page(None, console.links["ana"])
    expect(page.locator(".sd-empty")).to_be_visible()
    page.goto(console.url + "/account")
    for field in ("New password", "Repeat the password"):
        page.get_by_label(field).fill("correct horse 9")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("status")).to_contain_text("Your password is set.")

    again = console.page(None, "/overview")
    again.get_by_label("Account").fill("ana")
    again.get_by_label("Password").fill("wrong horse 9")
    again.get_by_role("button", name="Sign in").click()
    expect(again.get_by_role("alert")).to_contain_text("wrong name or password")
    again.get_by_label("Password").fill("correct horse 9")
    again.get_by_role("button", name="Sign in").click()

    expect(again.locator(".sd-title")).to_have_text("Overview")


def test_signing_out_in_one_tab_ends_the_other(console: Console) -> None:
    console.queue(["A baker opens the oven. She", "A boy opens the door. He"])
    page = console.page("ana")
    other = page.context.new_page()
    other.goto(console.url + "/logout")

    page.keyboard.press("a")
    page.keyboard.press("Control+s")

    expect(page.get_by_text("you are signed out").first).to_be_visible()


def test_a_lead_finds_a_question_and_reads_it_with_its_variants(console: Console) -> None:
    console.queue(["A baker opens the oven. She", "A boy kneels beside his bicycle. He"])
    page = console.page("lea", "/questions")
    assert tabs(page) == ["Review", "Questions", "Generate", "Runs", "Training", "Models", "Releases", "Overview"]
    page.get_by_label("Search").fill("bicycle")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 question.")).to_be_visible()

    page.locator("tr", has_text="bicycle").focus()
    page.keyboard.press("Enter")

    expect(page.locator(".sd-card").first).to_contain_text("A boy kneels beside his bicycle")
    expect(page.locator("details.sd-card")).to_contain_text("negative transformation")
