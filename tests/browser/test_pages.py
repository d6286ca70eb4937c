"""Navigation by role, and the pages around the review, in a real browser."""

from contextlib import AbstractContextManager
from typing import Protocol

import pytest
from playwright.sync_api import Page, expect

from data.records import VariantId

pytestmark = pytest.mark.server


class Console(Protocol):
    url: str

    def page(self, name: str, path: str = "/") -> Page: ...


class Place(Protocol):
    def running(self) -> AbstractContextManager[Console]: ...
    def queue(self, contexts: list[str], *, blind_share: float = 0.0) -> list[VariantId]: ...


def tabs(page: Page) -> list[str]:
    links = page.locator("[data-testid=stTopNavLink]")
    expect(links.first).to_be_visible()
    return [text.strip() for text in links.all_inner_texts()]


def test_an_annotator_has_three_pages_and_cannot_reach_a_leads_by_address(place: Place) -> None:
    place.queue(["A baker opens the oven. She"])
    with place.running() as console:
        page = console.page("ana")
        assert tabs(page) == ["Review", "Questions", "Overview"]

        for name in ("generate", "runs", "releases"):
            page.goto(f"{console.url}/{name}")
            expect(page.get_by_text("Page not found")).to_be_visible()
            assert page.locator("[data-testid=stBaseButton-primary]").count() == 0


def test_signing_out_in_one_tab_ends_the_other(place: Place) -> None:
    place.queue(["A baker opens the oven. She", "A boy opens the door. He"])
    with place.running() as console:
        page = console.page("ana")
        other = page.context.new_page()
        other.goto(console.url + "/logout")

        page.keyboard.press("a")
        page.keyboard.press("Control+s")

        expect(page.get_by_text("no longer signed in").first).to_be_visible()


def test_a_lead_finds_a_question_and_reads_it_with_its_variants(place: Place) -> None:
    place.queue(["A baker opens the oven. She", "A boy kneels beside his bicycle. He"])
    with place.running() as console:
        page = console.page("lea", "/questions")
        assert tabs(page) == ["Review", "Questions", "Generate", "Runs", "Releases", "Overview"]
        page.get_by_label("Search").fill("bicycle")
        page.keyboard.press("Enter")
        expect(page.get_by_text("1 questions")).to_be_visible()

        page.locator("tr", has_text="bicycle").focus()
        page.keyboard.press("Enter")

        expect(page.locator(".sd-card").first).to_contain_text("A boy kneels beside his bicycle")
        expect(page.locator("details.sd-card")).to_contain_text("negative transformation")
