"""The review page in a real browser: keys, drafts, double clicks, blindness on the wire, hostile text."""

from typing import Any, Protocol

import pytest
from playwright.sync_api import Dialog, Page, WebSocket, expect

from data.records import Annotation, Answers, VariantId

pytestmark = pytest.mark.server

CONTEXT = "A baker opens the oven. She"
SECRET = b"secret-verifier-7"
STATUS = b"answered today"
HOSTILE = [
    "<script>alert('script')</script> A cook",
    "<img src=http://beacon.test/i onerror=alert('img')> A cook",
    "[click](javascript:alert('link')) A cook",
    "![pixel](http://beacon.test/md.png) A cook pays $5 and $6",
    "\\frac{1}{0 $$x^2$$ :material/bolt: :red[warm] `code` ~a~ _x_ A cook",
    "right to left \u202ekcab\u202c and zero\u200bwidth A cook",
    "طبخ 12 بيضة و 3 تفاحات 厨师打开烤箱 👩‍🍳 A cook",
    "</div></details><style>body{display:none}</style> A cook",
]


class Desk(Protocol):
    def ask(self, name: str, *arguments: object) -> Any: ...
    def until(self, name: str, answer: object, *arguments: object) -> None: ...


class Console(Protocol):
    desk: Desk
    strays: list[str]

    def page(self, name: str | None, path: str = "/") -> Page: ...
    def queue(self, contexts: list[str], *, blind_share: float = 0.0) -> list[VariantId]: ...
    def labels(self, variant_id: VariantId, annotator: str = "ana") -> list[Annotation]: ...
    def restart(self) -> None: ...


def line_says(page: Page, text: str) -> None:
    expect(page.locator(".sd-line").first).to_contain_text(text)


def at_item(page: Page, variant_id: str) -> None:
    page.wait_for_url(f"**/?item={variant_id}")
    expect(page.locator("button[data-do=submit]")).to_be_enabled()


def comment(page: Page) -> str:
    return page.input_value("[data-part=comment]")


def pressed(page: Page) -> list[str]:
    keys = page.eval_on_selector_all(
        ".sd-rows button[aria-pressed=true]", "buttons => buttons.map(button => button.dataset.do)"
    )
    return [str(key) for key in keys]


def test_three_items_are_labelled_by_keyboard_alone(console: Console) -> None:
    first, second, third = console.queue([CONTEXT, CONTEXT + " 2", CONTEXT + " 3"])
    page = console.page("ana")
    at_item(page, first)

    for key in ("1", "3", "5", "Control+s"):
        page.keyboard.press(key)
    at_item(page, second)
    line_says(page, "saved")
    for key in ("1", "4", "6", "m"):
        page.keyboard.press(key)
    page.keyboard.type("two right answers")
    page.keyboard.press("Control+s")
    at_item(page, third)
    page.keyboard.press("a")
    page.keyboard.press("f")
    page.keyboard.press("Control+s")
    expect(page.locator(".sd-empty")).to_contain_text("Nothing left to review")
    line_says(page, "3 of 3")

    ((one,), (two,), (three,)) = (console.labels(name) for name in (first, second, third))
    assert one.answers == Answers(True, True, True)
    assert (two.answers, two.comment) == (Answers(True, False, False), "two right answers")
    assert (three.answers, three.is_flagged) == (Answers(True, True, True), True)
    assert all(label.lead_time_s is not None and 0 < label.lead_time_s < 60 for label in (one, two, three))
    assert all(label.shown_verifier == SECRET.decode() for label in (one, two, three))


def test_keys_pressed_at_once_all_count(console: Console) -> None:
    (only,) = console.queue([CONTEXT])
    page = console.page("ana")
    at_item(page, only)

    page.evaluate(
        """() => [["2", false], ["3", false], ["6", false], ["s", true]].forEach(([key, ctrlKey]) => {
            const press = {key, ctrlKey, bubbles: true, cancelable: true, composed: true};
            document.body.dispatchEvent(new KeyboardEvent("keydown", press));
        })"""
    )
    expect(page.locator(".sd-empty")).to_be_visible()

    (label,) = console.labels(only)
    assert label.answers == Answers(False, True, False)


def test_a_refresh_in_the_middle_of_an_item_keeps_everything_that_was_filled_in(console: Console) -> None:
    first, second = console.queue([CONTEXT, CONTEXT + " 2"])
    page = console.page("ana")
    page.keyboard.press("l")
    at_item(page, second)
    page.keyboard.press("1")
    page.keyboard.press("4")
    page.keyboard.press("e")
    page.select_option("[data-part=corrected_answer_index]", "2")
    page.fill("[data-part=comment]", "half a thought, الفكرة")
    page.reload()
    at_item(page, second)

    expect(page.locator("[data-part=comment]")).to_have_value("half a thought, الفكرة")
    assert pressed(page) == ["1", "4"]
    assert page.input_value("[data-part=corrected_answer_index]") == "2"

    elsewhere = console.page("ana", f"/?item={second}")
    expect(elsewhere.locator("[data-part=comment]")).to_have_value("half a thought, الفكرة")
    assert pressed(elsewhere) == ["1", "4"]
    assert console.labels(first) == []


def test_a_draft_survives_a_restart_of_the_desk(console: Console) -> None:
    (only,) = console.queue([CONTEXT])
    page = console.page("ana")
    page.keyboard.press("2")
    page.fill("[data-part=comment]", "before the restart")
    console.desk.until("draft_comment", "before the restart", only, "ana")
    page.context.close()

    console.restart()

    page = console.page("ana", f"/?item={only}")
    expect(page.locator("[data-part=comment]")).to_have_value("before the restart")
    assert pressed(page) == ["2"]


def test_a_double_click_on_submit_is_one_label(console: Console) -> None:
    first, second = console.queue([CONTEXT, CONTEXT + " 2"])
    page = console.page("ana")
    page.keyboard.press("a")

    page.locator("button[data-do=submit]").dblclick()
    at_item(page, second)
    console.desk.until("drawing", 0)
    at_item(page, second)

    assert len(console.labels(first)) == 1
    assert console.labels(second) == []


def test_an_action_that_takes_long_is_not_given_up_with_the_one_before(console: Console) -> None:
    first, second, _ = console.queue([CONTEXT, CONTEXT + " 2", CONTEXT + " 3"])
    page = console.page("ana")
    page.clock.install()
    page.reload()
    at_item(page, first)
    for key in ("a", "Control+s"):
        page.keyboard.press(key)
    at_item(page, second)
    page.clock.fast_forward(10_000)
    console.desk.ask("hold_writes")
    for key in ("a", "Control+s"):
        page.keyboard.press(key)
    submit = page.locator("button[data-do=submit]")
    expect(submit).to_contain_text("Saving")

    page.clock.fast_forward(10_000)  # the first has had its time by now

    expect(submit).to_be_disabled()
    console.desk.ask("let_writes_go")
    expect(submit).to_be_enabled()
    assert [len(console.labels(name)) for name in (first, second)] == [1, 1]


def test_keys_do_nothing_while_somebody_types(console: Console) -> None:
    (only, _) = console.queue([CONTEXT, CONTEXT + " 2"])
    page = console.page("ana")
    at_item(page, only)
    typed = "as fluke dumps 123456 ASFLUDKEMN cr"

    page.click("[data-part=comment]")
    page.keyboard.type(typed)
    page.wait_for_timeout(1000)

    assert comment(page) == typed
    assert pressed(page) == []
    at_item(page, only)
    expect(page.locator("button[data-do=flag]")).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("document.documentElement.dataset.sdDiff") is None
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    assert pressed(page) == ["1"]
    assert console.labels(only) == []


def test_undo_brings_the_last_item_back_with_its_answers_and_a_change_is_a_new_revision(console: Console) -> None:
    first, second = console.queue([CONTEXT, CONTEXT + " 2"])
    page = console.page("ana")
    for key in ("1", "3", "6", "Control+s"):
        page.keyboard.press(key)
    at_item(page, second)

    page.keyboard.press("u")
    at_item(page, first)
    expect(page.locator(".sd-notice")).to_contain_text("Changes are saved as a new revision")
    assert pressed(page) == ["1", "3", "6"]
    page.keyboard.press("5")
    page.keyboard.press("Control+s")
    at_item(page, second)

    assert [label.answers.au for label in console.labels(first)] == [False, True]


def test_a_missing_answer_is_asked_for_and_nothing_is_sent(console: Console) -> None:
    (only,) = console.queue([CONTEXT])
    page = console.page("ana")
    page.keyboard.press("1")
    page.keyboard.press("Control+s")

    expect(page.locator(".sd-notice")).to_contain_text("Answer all three questions first")
    assert console.labels(only) == []


def test_a_blind_verdict_is_never_on_the_wire_before_the_answer(console: Console) -> None:
    (only,) = console.queue([CONTEXT], blind_share=1.0)
    received: list[bytes] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: received.append(frame if isinstance(frame, bytes) else frame.encode()))

    page = console.page("ana")
    page.on("websocket", listen)
    page.reload()
    at_item(page, only)
    expect(page.locator(".sd-rows")).to_contain_text("hidden until you answer")
    page.keyboard.press("a")
    page.fill("[data-part=comment]", "a draft goes out and comes back")
    refreshed = 2 + sum(STATUS in frame for frame in received)
    while sum(STATUS in frame for frame in received) < refreshed:  # the line above the item draws itself again
        page.wait_for_timeout(200)
    before = b"".join(received)
    assert CONTEXT.encode() in before
    for secret in (SECRET, b"0.93", b"0.31", b"0.52"):
        assert secret not in before
        assert secret.decode() not in page.content()

    page.keyboard.press("Escape")
    page.keyboard.press("Control+s")
    expect(page.locator(".sd-rows")).to_contain_text("yes 0.93")
    expect(page.locator(".sd-notice")).to_contain_text("Your blind answer is saved")
    page.keyboard.press("4")
    page.keyboard.press("Control+s")
    expect(page.locator(".sd-empty")).to_be_visible()
    assert SECRET in b"".join(received)

    first, second = console.labels(only)
    assert (first.is_blind, first.answers.lc, first.shown_verifier) == (True, True, None)
    assert (second.is_blind, second.answers.lc, second.shown_verifier) == (False, False, SECRET.decode())


def test_after_a_blind_answer_the_same_keys_go_on(console: Console) -> None:
    names = console.queue([CONTEXT, CONTEXT + " 2"], blind_share=1.0)
    page = console.page("ana")
    for name in names:
        page.keyboard.press("a")
        page.keyboard.press("Control+s")
        expect(page.locator("button[data-do=submit]")).to_contain_text("Next")
        page.keyboard.press("Control+s")
        if name == names[-1]:
            expect(page.locator(".sd-empty")).to_be_visible()
        else:
            expect(page.locator("button[data-do=submit]")).to_contain_text("Submit")

    assert [len(console.labels(name)) for name in names] == [1, 1]


@pytest.mark.parametrize("path", ["/", "/questions"])
def test_hostile_text_shows_literally_and_does_nothing(console: Console, path: str) -> None:
    console.queue(HOSTILE)
    dialogs: list[str] = []

    def note_dialog(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page = console.page("lea", path)
    page.on("dialog", note_dialog)
    if path == "/":
        for context in HOSTILE:
            shows_literally(page, context)
            expect(page.locator("button[data-do=submit]")).to_be_enabled()
            page.keyboard.press("s")
        expect(page.locator(".sd-empty")).to_be_visible()
    else:
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(len(HOSTILE))
        assert sorted(rows.locator("td:first-child").all_inner_texts()) == sorted(
            as_named(one, "⟨", "⟩") for one in HOSTILE
        )
        assert rows.locator("script, img, a, style").count() == 0
    page.wait_for_timeout(1000)

    assert dialogs == []
    assert console.strays == []


def as_named(text: str, before: str = "", after: str = "") -> str:
    names = {"\u202e": "RLO", "\u202c": "PDF", "\u200b": "ZWSP"}
    return "".join(before + names[one] + after if one in names else one for one in text)


def shows_literally(page: Page, context: str) -> None:
    """The original's text, as a reader sees it: hidden characters are replaced by their names."""
    shown = page.locator(".sd-side .sd-text").first
    expect(shown).to_have_text(as_named(context))
    assert shown.evaluate("element => element.querySelectorAll('script, img, a, style, iframe').length") == 0
    assert shown.get_attribute("dir") == "auto"
