"""The whole loop on real parts: Label Studio, a desk process, a browser, the embedded model, DuckDB on disk."""

import json
import urllib.request
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, expect

from data.records import VariantId
from data.samples import sample_questions
from data.store import Store
from data.tables.annotations import AnnotationTable
from tests.journeys.console_steps import comment_at, item_of, label_by_keyboard, signed_in, submit

pytestmark = [pytest.mark.server, pytest.mark.model]

QUESTIONS = 20
Eventually = Callable[[Callable[[], Any], str], Any]


class Desk(Protocol):
    state: Path
    url: str

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def command(self, *words: str) -> Any: ...


class LabelStudio(Protocol):
    url: str

    @property
    def token(self) -> str: ...


def test_the_loop_runs_from_rows_to_a_release_that_datasets_loads(
    desk_process: Desk, label_studio: LabelStudio, browser: Browser, tmp_path: Path, eventually: Eventually
) -> None:
    desk = desk_process
    desk.start()

    # Import: every row accounted for, and nothing twice.
    rows = write_rows(tmp_path / "rows.jsonl")
    imported = desk.command("question", "import", str(rows), "--benchmark", "journey")
    again = desk.command("question", "import", str(rows), "--benchmark", "journey")
    assert imported["result"]["questions"] == {"new": QUESTIONS, "same": 0, "changed": 0, "refused": 0}
    assert again["result"]["questions"] == {"new": 0, "same": QUESTIONS, "changed": 0, "refused": 0}

    # Generate with rules and with the embedded model; the first run is verified and queued by itself.
    trained = desk.command("model", "retrain")
    assert trained["state"] == "done"
    by_rules = desk.command("variant", "generate", "--backend", "rules", "--type", "reverse", "--type", "ordering")
    made = desk.command("variant", "list", "--run", by_rules["run_id"])
    assert made["total"] >= 6
    by_model = desk.command(
        "variant", "generate", "--backend", "transformers", "--type", "negation", "--limit", "1", "--no-verify",
        "--max-new-tokens", "160",
    )  # fmt: skip
    assert (by_model["state"], by_model["result"]["types"]["negation"]["requested"]) == ("done", 1)
    queue = eventually(lambda: waiting(desk, at_least=6), "the queue is filled by the verification that followed")
    for item in made["items"]:
        detail = desk.command("variant", "show", item["variant"]["variant_id"])
        assert {verdict["target"] for verdict in detail["verdicts"]} == {"TC", "LC", "AU", "valid"}

    # Every queued variant becomes one task.
    ours = {item["variant"]["variant_id"] for item in made["items"]}
    tasks = eventually(
        lambda: (found := tasks_of(label_studio, ours)) and len(found) == queue and found,
        "each queued variant is a task",
    )

    # Label three by keyboard; the desk is killed while the third is half done, and nothing said is lost.
    link = desk.command("account", "add", "ana", "--role", "annotator")["path"]
    page = signed_in(browser, desk.url + link)
    first = label_by_keyboard(page, "1", "3", "5")
    second = label_by_keyboard(page, "1", "3", "6")
    third = item_of(page)
    for key in ("2", "3", "5", "m"):
        page.keyboard.press(key)
    page.keyboard.type("half a thought")
    other = page.context.new_page()
    eventually(lambda: comment_at(other, f"{desk.url}/?item={third}") == "half a thought", "the desk has the draft")
    other.close()
    desk.kill()
    desk.start()
    page.goto(f"{desk.url}/?item={third}")
    expect(page.locator("[data-part=comment]")).to_have_value("half a thought")
    expect(page.locator("button[aria-pressed=true][data-do='2']")).to_have_count(1)
    submit(page, third)

    # Each is in Label Studio under its author, and in the store with Label Studio's id.
    said = {variant: eventually(partial(synced_label, desk, variant), "synced") for variant in (first, second, third)}
    ana = next(user for user in ask(label_studio, "/api/users/") if user["email"].startswith("ana@"))
    by_variant = {task["data"]["external_id"]: task["id"] for task in tasks}
    for variant, label in said.items():
        [annotation] = ask(label_studio, f"/api/tasks/{by_variant[variant]}/annotations/")
        assert annotation["completed_by"] == ana["id"]
        assert annotation["id"] == label["ls_annotation_id"]
    assert [said[variant]["answers"]["tc"] for variant in (first, second, third)] == [True, True, False]
    assert said[third]["comment"] == "half a thought"

    # A label made in Label Studio comes to the console; deleted there, it ends with a tombstone here.
    elsewhere = next(variant for variant in by_variant if variant not in said)
    [pattern] = ask(label_studio, f"/api/tasks/{by_variant[first]}/annotations/")
    result = [part for part in pattern["result"] if part["from_name"] != "provenance"]
    foreign = ask(
        label_studio, f"/api/tasks/{by_variant[elsewhere]}/annotations/", {"result": result, "lead_time": 9.0}
    )
    label = eventually(
        lambda: next(iter(labels_of(desk, elsewhere)), None), "the label from Label Studio is in the store"
    )
    assert (label["origin"], label["ls_annotation_id"]) == ("label_studio", foreign["id"])
    question = desk.command("variant", "show", elsewhere)["question"]["question_id"]
    lead = desk.command("account", "add", "lea", "--role", "lead")["path"]
    lead_page = signed_in(browser, desk.url + lead)
    lead_page.goto(f"{desk.url}/questions?question={question}")
    for summary in lead_page.locator("details.sd-card > summary").all():
        summary.click()
    expect(lead_page.locator("details.sd-card", has_text=elsewhere)).to_contain_text("in Label Studio")
    ask(label_studio, f"/api/annotations/{foreign['id']}/", method="DELETE")
    desk.command("sync", "now")
    assert labels_of(desk, elsewhere) == []

    # Release what was accepted, and load it as anybody would.
    assert desk.command("variant", "show", first)["decision"]["outcome"] == "accepted"
    assert desk.command("variant", "show", second)["decision"]["outcome"] == "rejected"
    released = desk.command("release", "create", "journey-1")
    desk.command("release", "verify", "journey-1")
    desk.stop()
    from datasets import load_dataset  # seconds, also for those who leave this test out

    loaded = load_dataset(released["release"]["folder"], cache_dir=str(tmp_path / "datasets"))
    assert [row["variant_id"] for row in loaded["test"]] == [first]
    with (
        closing(Store.open(desk.state / "sagedesk.duckdb", now=lambda: datetime.now(UTC))) as store,
        store.read() as rows_,
    ):
        [tombstone] = AnnotationTable(rows_).current_of_variant(elsewhere)
    assert tombstone.is_deleted


def write_rows(file: Path) -> Path:
    """The first questions of the sample that tell a story: rules can put those in order."""
    told = [question for question in sample_questions() if question.context.count(".") >= 2][:QUESTIONS]
    assert len(told) == QUESTIONS
    lines = [
        {"id": it.source_key, "question": it.context, "choices": list(it.options), "answer": it.answer_index}
        for it in told
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def waiting(desk: Desk, *, at_least: int) -> int:
    status = desk.command("queue", "status")
    return int(status["total"]) if status["total"] >= at_least else 0


def labels_of(desk: Desk, variant: VariantId) -> list[dict[str, Any]]:
    return [label["annotation"] for label in desk.command("variant", "show", variant)["labels"]]


def synced_label(desk: Desk, variant: VariantId) -> dict[str, Any] | None:
    [label] = desk.command("variant", "show", variant)["labels"]
    return label["annotation"] if label["synced_at"] else None


def tasks_of(label_studio: LabelStudio, variants: Collection[str]) -> list[dict[str, Any]]:
    projects = ask(label_studio, "/api/projects/")["results"]
    if not projects:
        return []
    answer = ask(label_studio, f"/api/tasks/?project={projects[0]['id']}&page_size=500&fields=all")
    # another desk of this test run may have put its own into the same project
    return [task for task in answer["tasks"] if task["data"]["external_id"] in variants]


def ask(label_studio: LabelStudio, path: str, body: Mapping[str, object] | None = None, method: str = "") -> Any:
    """As a program of somebody else's would."""
    request = urllib.request.Request(
        label_studio.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Token {label_studio.token}", "Content-Type": "application/json"},
        method=method or ("GET" if body is None else "POST"),
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        content = answer.read()
    return json.loads(content) if content else None
