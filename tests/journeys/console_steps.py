"""What a person does in the console, step by step, in a real browser."""

from playwright.sync_api import Browser, Page, expect

from data.records import VariantId


def signed_in(browser: Browser, link: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(60_000)
    page.goto(link)
    expect(page.locator(".sd-panel, .sd-title, .sd-empty").first).to_be_visible()
    return page


def item_of(page: Page) -> VariantId:
    """A fresh item; the address changes a moment before the panel does, which still shows the last answers then."""
    page.wait_for_url("**/?item=*")
    expect(page.locator(".sd-rows button[aria-pressed=true]")).to_have_count(0)
    expect(page.locator("button[data-do=submit]")).to_be_enabled()
    return VariantId(page.url.partition("item=")[2])


def comment_at(page: Page, link: str) -> str:
    """What stands in the comment of an item that is opened afresh."""
    page.goto(link)
    expect(page.locator("button[data-do=submit]")).to_be_enabled()
    return page.locator("[data-part=comment]").input_value()


def label_by_keyboard(page: Page, *keys: str) -> VariantId:
    variant = item_of(page)
    for key in keys:
        page.keyboard.press(key)
    submit(page, variant)
    return variant


def submit(page: Page, variant: VariantId) -> None:
    """By key. A blind item shows its verdicts after the answer and wants the same key again to go on."""
    page.keyboard.press("Control+s")
    gone = f"() => !location.href.includes('{variant}')"
    page.wait_for_function(
        f"() => ({gone})() || document.querySelector('button[data-do=submit]')?.innerText.includes('Next')"
    )
    if variant in page.url:
        page.keyboard.press("Control+s")
        page.wait_for_function(gone)
