"""Pages drawn by Streamlit's own test runner: what they show, to whom, and what they must not send."""

import re
from collections.abc import Callable

import pytest

from annotation.forms import AnswerForm
from data.records import Answers, Run, RunId, RunState, VariantId
from data.tables.runs import RunTable
from tests.ui.drawn_pages import ANA, LEA, page, sent
from ui.desk.context import Desk
from ui.desk.usecases import review

pytestmark = pytest.mark.usefixtures("quick_pages")
HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> $5 and $6 `code` ![b](http://beacon.test/x) _x_ :red[y]"
)

QueueVariants = Callable[..., list[VariantId]]


def test_the_review_page_shows_both_sides_the_verdicts_and_the_panel(desk: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)

    wire = sent(page("review", desk, ANA))

    assert "Original" in wire
    assert "negative transformation" in wire
    assert "contract: 1 of 2 checks passed; failed: length" in wire
    assert wire.count('class=\\"sd-key\\"') == 2
    assert "secret-verifier" in wire
    assert "0 of 1" in wire


def test_a_blind_page_sends_no_verdict_before_the_answer(desk: Desk, queue_variants: QueueVariants) -> None:
    (only,) = queue_variants(1, blind_share=1.0)

    wire = sent(page("review", desk, ANA))

    assert "hidden until you answer" in wire
    for secret in ("secret-verifier", "0.93", "0.31", "0.52", "feature"):
        assert secret not in wire
    item = review.open_item(desk, ANA, variant_id=only)
    review.submit(
        desk, ANA, variant_id=only, token=item.token, form=AnswerForm(Answers(True, True, True), lead_time_s=1.0)
    )
    assert "secret-verifier" in sent(page("review", desk, ANA, item=only))


def test_the_question_page_sends_no_verdict_of_an_item_that_is_blind_to_the_reader(
    desk: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(1, blind_share=1.0)
    item = review.next_item(desk, ANA)
    assert item is not None

    wire = sent(page("questions", desk, LEA, question=item.question.question_id))

    assert "verdicts hidden" in wire
    assert "secret-verifier" not in wire
    assert "0.93" not in wire


@pytest.mark.parametrize("name", ["review", "questions"])
def test_hostile_text_is_escaped_and_never_markdown(desk: Desk, queue_variants: QueueVariants, name: str) -> None:
    queue_variants(1, context=HOSTILE)
    item = review.next_item(desk, ANA)
    assert item is not None
    query = {"question": item.question.question_id} if name == "questions" else {}

    drawn = page(name, desk, ANA, **query)

    shown = "".join(element.proto.body for element in drawn.get("html"))
    assert "&lt;script&gt;alert" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "![b](http://beacon.test/x)" in shown.replace("<ins>", "").replace("</ins>", "")
    for element in [*drawn.markdown, *drawn.caption, *drawn.subheader]:
        assert "beacon" not in element.value


def test_an_address_of_an_item_that_is_not_there_says_so_and_goes_on_with_the_next(
    desk: Desk, queue_variants: QueueVariants
) -> None:
    (only,) = queue_variants(1)

    drawn = page("review", desk, ANA, item="v_<b>nowhere</b>")

    assert drawn.query_params["item"] == only
    assert "is not in the review queue" in sent(drawn)


def test_an_empty_queue_says_what_to_do_next_to_each_role(desk: Desk) -> None:
    assert "A lead has to generate variants first" in sent(page("review", desk, ANA))
    assert "Import questions and generate variants" in sent(page("review", desk, LEA))


def test_a_finished_queue_leads_back_to_the_last_item(desk: Desk, queue_variants: QueueVariants) -> None:
    (only,) = queue_variants(1)
    item = review.next_item(desk, ANA)
    assert item is not None
    review.submit(desk, ANA, variant_id=only, token=item.token, form=AnswerForm(Answers(True, True, True)))
    drawn = page("review", desk, ANA)
    assert "Nothing left to review" in sent(drawn)

    drawn.button(key="review_back").click().run()

    assert drawn.query_params["item"] == only
    assert "Changes are saved as a new revision" in sent(drawn)


def test_only_a_lead_sees_the_import_and_the_blind_share(desk: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)

    assert [tab.label for tab in page("questions", desk, LEA).tabs] == ["Browse", "Import"]
    assert not page("questions", desk, ANA).tabs
    assert len(page("overview", desk, LEA).slider) == 1
    assert len(page("overview", desk, ANA).slider) == 0


def test_a_lead_sets_the_blind_share_on_the_overview(desk: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(1)
    drawn = page("overview", desk, LEA)

    drawn.slider[0].set_value(50)
    drawn.button[0].click().run()

    assert review.queue_status(desk, LEA).blind_share == 0.5
    assert "share of new items is now 50 %" in sent(drawn)


@pytest.mark.parametrize("name", ["overview", "questions", "generate", "runs", "releases"])
def test_every_page_of_an_empty_desk_says_what_to_do_next(desk: Desk, name: str) -> None:
    wire = sent(page(name, desk, LEA))

    assert "sd-empty" in wire


def test_an_import_path_that_does_not_exist_is_one_clear_line(desk: Desk) -> None:
    drawn = page("questions", desk, LEA)

    drawn.radio(key="import_from").set_value("Path on the desk's machine or Hugging Face id").run()
    drawn.text_input(key="import_path").set_value("/nowhere/at/all.jsonl").run()

    assert not drawn.exception
    assert "/nowhere/at/all.jsonl" in sent(drawn)


def test_rules_offer_only_what_a_program_can_make_honestly_and_say_why(
    desk: Desk, queue_variants: QueueVariants
) -> None:
    queue_variants(3)

    wire = sent(page("generate", desk, LEA))

    assert "not available: a program cannot invent reasons" in wire
    assert "candidates requested" in wire


def test_variants_that_nobody_has_judged_show_the_way_to_a_verifier(desk: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(2)
    with desk.store.write() as connection:
        connection.execute("DELETE FROM verdict")

    as_lead, as_annotator = sent(page("overview", desk, LEA)), sent(page("overview", desk, ANA))

    assert "2 variants are not verified yet, and there is no verifier" in as_lead
    assert "not verified" not in as_annotator
    assert "There is no verifier yet" in sent(page("generate", desk, LEA))


def put_run(desk: Desk, *, kind: str, state: RunState, message: str = "", result: dict[str, object]) -> None:
    now = desk.now()
    folder = str(desk.settings.runs / "r_1")
    run = Run(RunId("r_1"), kind, state, folder, {}, "lea", now, now, now, None, None, 0, None, message, result)
    with desk.store.write() as connection:
        RunTable(connection).add(run)


def test_a_verification_shows_a_row_a_dimension_and_a_column_an_outcome(desk: Desk) -> None:
    said = {
        "valid": {"no": 11, "unparsed": 2, "yes": 78},
        "AU": {"no": 0, "unparsed": 0, "yes": 91},
        "TC": {"no": 11, "unparsed": 2, "yes": 78},
    }
    put_run(desk, kind="verify", state="done", result={"targets": said, "verdicts": 273})

    wire = sent(page("runs", desk, LEA))

    rows = re.findall(r"<tr><td[^>]*>(Type consistency|Answer uniqueness|Validity \(all three\))</td>(.*?)</tr>", wire)
    cells = {name: re.findall(r">(\d+)<", row) for name, row in rows}
    assert list(cells) == ["Type consistency", "Answer uniqueness", "Validity (all three)"]
    assert cells["Type consistency"] == ["78", "11", "2"]
    assert "AU no" not in wire


def test_a_failed_run_says_why_and_offers_to_go_on(desk: Desk) -> None:
    put_run(desk, kind="verify", state="failed", message="the disk is full", result={})

    drawn = page("runs", desk, LEA)

    assert re.search(r"sd-message-error.*the disk is full", sent(drawn))
    assert [button.label for button in drawn.button] == ["Resume run"]


def test_a_search_is_still_there_after_a_question_was_read(desk: Desk, queue_variants: QueueVariants) -> None:
    queue_variants(3)
    item = review.next_item(desk, ANA)
    assert item is not None
    drawn = page("questions", desk, ANA)
    drawn.text_input[0].set_value("baker").run()

    drawn.query_params["question"] = item.question.question_id
    drawn.run()
    assert not drawn.text_input
    drawn.button(key="question_back").click().run()

    assert not drawn.exception
    assert drawn.text_input[0].value == "baker"


def test_a_run_on_another_machine_can_be_given_up_or_brought_home(desk: Desk) -> None:
    put_run(desk, kind="verify", state="away", message="exported to run.tar", result={})
    drawn = page("runs", desk, LEA, run="r_1")

    wire = sent(drawn)
    assert "exported to run.tar" in wire
    assert drawn.button(key="run_resume").label == "Run it here instead"
    drawn.button(key="run_cancel").click().run()

    assert not drawn.exception
    assert desk.supervisor.get("r_1").state == "cancelled"
