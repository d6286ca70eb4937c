"""The loop's second half on real parts: labels, retrain, gate, promote, queue in new order, refresh, compare, rollback.

A desk process with Label Studio, a browser at 1440x900, the sample project, the feature verifier, and the embedded
model on the CPU in sizes that say nothing of quality: two steps of each stage.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.queue import priority_and_reason
from data.samples import sample_variants
from data.store import Store
from data.tables.queue import QueueTable
from tests.journeys.console_steps import item_of, label_by_keyboard, signed_in

pytestmark = [pytest.mark.server, pytest.mark.model]

LABELLED = 30
Eventually = Callable[..., Any]


class Desk(Protocol):
    state: Path
    url: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def command(self, *words: str) -> Any: ...


def test_labels_make_the_verifier_and_the_generator_better_and_a_lead_decides(
    desk_process: Desk, browser: Browser, eventually: Eventually
) -> None:
    desk = desk_process
    desk.start()
    sample = desk.command("question", "sample")
    link = desk.command("account", "add", "lea", "--role", "lead")["path"]
    page = signed_in(browser, desk.url + link)

    # Labels, by keyboard; the others are left, so that there is a queue to put in a new order.
    label_some(page)
    preview = desk.command("model", "preview", "verifier")
    assert preview["gate_labels"] > 0
    assert not preview["blockers"]

    # Retrain from the page; the gate follows by itself.
    page.goto(f"{desk.url}/training?role=verifier")
    page.get_by_role("button", name="Train the verifier").click()
    page.wait_for_url("**/runs?run=*")
    training = eventually(lambda: ended(desk, "train-verifier", but=sample["training_run"]), "the verifier is trained")
    challenger = training["result"]["model_id"]
    gate = eventually(lambda: ended(desk, "gate-verifier"), "the gate has said its word")
    report = gate["result"]["gate"]
    assert report["labels"] == preview["gate_labels"]
    assert report["outcome"] in ("passes", "fails", "cannot_say")
    assert models(desk, "verifier")["challenger"]["model_id"] == challenger

    # Promote with a note: what waits is judged by the new champion and put in order.
    before = models(desk, "verifier")["champion"]
    page.goto(f"{desk.url}/models?model={challenger}")
    page.get_by_label("Reason (kept in the history)").first.fill("it has learnt from our labels")
    if report["outcome"] != "passes":
        page.get_by_text("Promote without a passed gate", exact=True).click()
    page.get_by_role("button", name="Promote to champion").click()
    expect(page.get_by_text(f"{challenger} is now the champion", exact=False).first).to_be_visible()
    after = models(desk, "verifier")
    assert (after["champion"]["model_id"], after["previous"]["model_id"]) == (challenger, before["model_id"])
    judged = eventually(lambda: ended(desk, "verify", but=sample["verification_run"]), "the queue is judged again")
    assert judged["result"]["verifier_version"] == after["champion"]["version"]

    # Refresh the generator from the page, in the smallest sizes; it ends with the comparison on the same questions.
    page.goto(f"{desk.url}/training?role=generator")
    keep_only_type(page, "sentence ordering")
    for label, value in (("Steps", "2"), ("Candidates per prompt", "2"), ("Comparison questions", "1")):
        fill_number(page, label, value)
    page.get_by_text("Advanced: vLLM and TRL settings").click()
    page.get_by_role("textbox", name="TRL SFT settings").fill("max_steps = 2\nper_device_train_batch_size = 2")
    page.get_by_role("textbox", name="TRL GRPO settings").fill("max_completion_length = 64")
    page.get_by_role("button", name="Train the generator").click()
    page.wait_for_url("**/runs?run=*")
    refresh = eventually(lambda: ended(desk, "refresh-generator"), "the generator is refreshed", 900)
    generator = refresh["result"]["model_id"]
    assert refresh["result"]["steps"] == 2
    page.goto(f"{desk.url}/runs?run={refresh['run_id']}")
    expect(page.get_by_text("Distance from the start", exact=False).first).to_be_visible()

    # Compare, promote, and take both back.
    page.goto(f"{desk.url}/models?model={generator}")
    expect(page.get_by_text("accepted per 1,000 tokens", exact=False).first).to_be_visible()
    page.get_by_label("Reason (kept in the history)").first.fill("a trial")
    page.get_by_role("button", name="Promote to champion").click()
    expect(page.get_by_text(f"{generator} is now the champion", exact=False).first).to_be_visible()
    assert models(desk, "generator")["champion"]["model_id"] == generator
    roll_back(page, "it was a trial")
    expect(page.get_by_text("no registered generator is in use now", exact=False).first).to_be_visible()
    assert "champion" not in models(desk, "generator")
    page.goto(f"{desk.url}/models?model={challenger}")
    roll_back(page, "the one before was as good")
    expect(page.get_by_text("is the champion again", exact=False).first).to_be_visible()
    again = models(desk, "verifier")
    assert (again["champion"]["model_id"], again["previous"]["model_id"]) == (before["model_id"], challenger)
    seen = (sample["verification_run"], judged["run_id"])
    back = eventually(lambda: ended(desk, "verify", but=seen), "the queue is judged by the one before again")
    assert back["result"]["verifier_version"] == before["version"]
    signed = desk.command("model", "show", challenger)["sign_offs"]
    assert [(it["action"], it["note"]) for it in signed] == [
        ("rollback", "the one before was as good"), ("promote", "it has learnt from our labels"),
    ]  # fmt: skip
    desk.stop()
    assert_ordered_by_its_latest_verdicts(desk.state / "sagedesk.duckdb")


def label_some(page: Page) -> None:
    """Each as the sample's own label says."""
    truths = {it.variant.variant_id: it.answers for it in sample_variants()}
    for _ in range(LABELLED):
        answers = truths[item_of(page)]
        keys = zip((answers.tc, answers.lc, answers.au), ("12", "34", "56"), strict=True)
        label_by_keyboard(page, *(yes_no[0] if holds else yes_no[1] for holds, yes_no in keys))


def keep_only_type(page: Page, name: str) -> None:
    """All types are chosen at first: a click on each other one takes it out."""
    pills = page.get_by_test_id("stButtonGroup").filter(has_text=name).get_by_role("button")
    expect(pills.first).to_be_visible()
    for text in pills.all_inner_texts():
        if text.strip() != name:
            pills.filter(has_text=text.strip()).first.click()


def fill_number(page: Page, label: str, value: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(value)
    box.press("Tab")


def roll_back(page: Page, note: str) -> None:
    page.get_by_label("Reason (kept in the history)").last.fill(note)
    page.get_by_role("button", name="Roll back").click()


def ended(desk: Desk, kind: str, *, but: str | tuple[str, ...] = ()) -> Mapping[str, Any] | None:
    """The newest run of a kind, but those named, once it is done."""
    known = (but,) if isinstance(but, str) else but
    found = [run for run in desk.command("run", "list", "--kind", kind) if run["run_id"] not in known]
    if not found or found[0]["state"] in ("queued", "running"):
        return None
    run: Mapping[str, Any] = found[0]
    assert run["state"] == "done", run["message"]
    return run


def models(desk: Desk, role: str) -> dict[str, Any]:
    """The registered ones of a role by alias."""
    listed = [it for it in desk.command("model", "list") if it["role"] == role and it["model_id"]]
    return {alias: it for it in listed for alias in it["aliases"]}


def assert_ordered_by_its_latest_verdicts(file: Path) -> None:
    with closing(Store.open(file, now=lambda: datetime.now(UTC))) as store, store.read() as connection:
        table = QueueTable(connection)
        waiting = table.undecided()
        candidates = {it.variant_id: it for it in table.candidates(waiting)}
        items = {variant_id: table.find(variant_id) for variant_id in waiting}
    assert waiting
    for variant_id, item in items.items():
        assert item is not None
        if not item.is_blind:
            assert (item.priority, item.reason) == priority_and_reason(candidates[variant_id])
