"""The desk's own process with a door beside it: prepares and reads the store from within, since only one process may.

`python desk_process.py DOOR_PORT` runs `ui.web.asgi` and answers (name, arguments) of ANSWERS on the door.
"""

import inspect
import json
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from multiprocessing.connection import Listener
from typing import Literal

from annotation.forms import AnswerForm
from annotation.queue import enqueue
from data import ids
from data.errors import ConflictError
from data.records import (
    Annotation,
    Answers,
    ContractCheck,
    Question,
    Recipe,
    Role,
    Run,
    RunId,
    RunState,
    Variant,
    VariantId,
    Verdict,
)
from data.store import Store
from data.tables.annotations import AnnotationTable
from data.tables.contract_checks import ContractCheckTable
from data.tables.drafts import DraftTable
from data.tables.questions import QuestionTable
from data.tables.runs import RunTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from tests.ui.learning_desk import Differing, comparison_report, gate_report, put_gate_run, put_model, put_run
from training.gate_report import GateOutcome
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.usecases import accounts, review
from ui.desk.usecases.models import list_models
from ui.web import asgi, serving

DOOR_KEY = "SAGEDESK_TEST_DOOR_KEY"
PEOPLE: dict[str, Role] = {"ana": "annotator", "lea": "lead"}
VERIFIER = "secret-verifier-7"


def begin(desk: Desk) -> dict[str, str]:
    """An empty store with the annotator `ana` and the lead `lea`; their sign-in links by name."""
    let_writes_go(desk)
    _end_runs(desk)
    with desk.store.write() as connection:
        tables = connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND table_name <> 'schema_migration'"
        ).fetchall()
        for (table,) in tables:
            connection.execute(f'DELETE FROM "{table}"')
    for folder in (desk.settings.models, desk.settings.runs, desk.settings.releases):
        shutil.rmtree(folder, ignore_errors=True)
    return {
        name: accounts.add_account(desk, OPERATOR, name=name, display_name=name.title(), role=role).path
        for name, role in PEOPLE.items()
    }


def queue(desk: Desk, contexts: Sequence[str], blind_share: float) -> list[VariantId]:
    """One variant a context before people, in this order; their verdicts are those of VERIFIER."""
    now = desk.now()
    names = []
    with desk.store.write() as connection:
        for number, context in enumerate(contexts):
            question, variant, verdicts = _item(context, number, now)
            QuestionTable(connection).upsert([question], now=now)
            VariantTable(connection).upsert([variant])
            ContractCheckTable(connection).upsert(
                [ContractCheck(variant.variant_id, "option_count", holds=True, is_required=True, detail="")]
            )
            VerdictTable(connection).upsert(verdicts)
            names.append(variant.variant_id)
        enqueue(connection, variant_ids=names, blind_share=blind_share, seed=7, now=now)
    return names


def labels(desk: Desk, variant_id: VariantId, annotator: str) -> list[Annotation]:
    """Every revision of what this person said."""
    with desk.store.read() as connection:
        table = AnnotationTable(connection)
        current = table.current_by(variant_id, annotator)
        return [] if current is None else table.revisions(current.annotation_id)


def set_role(desk: Desk, name: str, role: Role) -> None:
    with desk.store.write() as connection:
        connection.execute("UPDATE account SET role = ? WHERE name = ?", [role, name])


def add_failed_run(desk: Desk) -> None:
    now = desk.now()
    run = Run(
        RunId("r_failed"),
        "verify",
        "failed",
        str(desk.settings.runs / "r_failed"),
        {},
        "lea",
        created_at=now,
        started_at=now,
        ended_at=now,
        pid=None,
        pid_started_at=None,
        done=0,
        total=None,
        message="the disk is full",
        result={},
    )
    with desk.store.write() as connection:
        RunTable(connection).add(run)


def train_two_verifiers(desk: Desk, outcome: GateOutcome | Literal["none"], contexts: Sequence[str]) -> tuple[str, str]:
    """Ids of a champion and a challenger that differ on one variant per context; `none` leaves them uncompared."""
    champion = put_model(desk, "feature-verifier-1", alias="champion")
    challenger = put_model(
        desk, "feature-verifier-2-with-a-name-that-is-longer-than-anybody-would-like", alias="challenger"
    )
    flips = [Differing(text, truth=number % 3 > 0, challenger=number % 2 == 0) for number, text in enumerate(contexts)]
    reasons = ["Type consistency: balanced accuracy 0.81 to 0.76, 95 % interval -0.101 to -0.004, below -0.03."]
    if outcome != "none":
        report = gate_report(outcome, reasons=reasons)
        put_gate_run(desk, champion=champion, challenger=challenger, report=report, flips=flips)
    return champion, challenger


def train_a_generator(desk: Desk) -> str:
    """A challenger that was compared with what it was trained from. Its id."""
    return put_model(desk, "generator-1", role="generator", alias="challenger", comparison=comparison_report())


def add_training(desk: Desk, state: RunState, metrics: Sequence[tuple[str, int, float]]) -> None:
    """Run r_training of a generator, with these figures (name, step, value)."""
    events: list[dict[str, object]] = [{"kind": "message", "level": "info", "text": "the first stage begins"}]
    events += [{"kind": "metric", "name": name, "step": step, "value": value} for name, step, value in metrics]
    put_run(desk, "r_training", kind="refresh-generator", state=state, events=events, message="step 3")


def add_figures(desk: Desk, metrics: Sequence[tuple[str, int, float]]) -> None:
    """What r_training reports next."""
    with (desk.settings.runs / "r_training" / "events.jsonl").open("a") as out:
        for name, step, value in metrics:
            event = {"at": desk.now().isoformat(), "kind": "metric", "name": name, "step": step, "value": value}
            out.write(json.dumps(event) + "\n")


def champion(desk: Desk) -> str:
    return next(
        model.model_id for model in list_models(desk, OPERATOR) if model.role == "verifier" and model.is_champion
    )


def draft_comment(desk: Desk, variant_id: VariantId, account: str) -> str | None:
    with desk.store.read() as connection:
        draft = DraftTable(connection).find(variant_id, account)
    return None if draft is None else draft.comment


def unjudge(desk: Desk) -> None:
    """As if all variants had been made before there was a verifier."""
    with desk.store.write() as connection:
        connection.execute("DELETE FROM verdict")


def accept(desk: Desk, variant_id: VariantId) -> None:
    """Ana says yes to everything."""
    ana = Actor("ana", "annotator")
    item = review.open_item(desk, ana, variant_id=variant_id)
    form = AnswerForm(Answers(True, True, True), lead_time_s=1.0)
    review.submit(desk, ana, variant_id=variant_id, token=item.token, form=form)


def hold_writes(desk: Desk) -> None:
    """From now on everything that writes waits, as on a slow machine, until `let_writes_go`."""
    is_held = threading.Event()

    def hold() -> None:
        with desk.store.write():
            is_held.set()
            _LET_GO.wait()

    _LET_GO.clear()
    holder = threading.Thread(target=hold, daemon=True)
    _HOLDERS.append(holder)
    holder.start()
    is_held.wait()


def let_writes_go(desk: Desk) -> None:
    _LET_GO.set()
    while _HOLDERS:
        _HOLDERS.pop().join()


def drawing(desk: Desk) -> int:
    """How many runs of the pages' script are under way."""
    return len(_script_threads())


def writing(desk: Desk) -> int:
    """How many of them stand before the store and want to write."""
    frames = sys._current_frames()
    write = inspect.unwrap(Store.write)  # what runs inside the context manager
    return sum(
        any(frame.f_code is write.__code__ for frame, _ in traceback.walk_stack(frames[thread]))
        for thread in _script_threads()
        if thread in frames
    )


def run_kinds(desk: Desk) -> list[str]:
    with desk.store.read() as connection:
        return [kind for (kind,) in connection.execute("SELECT kind FROM run").fetchall()]


def sign_offs(desk: Desk) -> list[str]:
    with desk.store.read() as connection:
        return [action for (action,) in connection.execute("SELECT action FROM sign_off").fetchall()]


def run_states(desk: Desk) -> list[str]:
    with desk.store.read() as connection:
        return [state for (state,) in connection.execute("SELECT state FROM run").fetchall()]


def _script_threads() -> list[int]:
    return [it.ident for it in threading.enumerate() if it.name == "ScriptRunner.scriptThread" and it.ident]


def _end_runs(desk: Desk) -> None:
    with desk.store.read() as connection:
        going_on = RunTable(connection).in_states(["queued", "running"])
    for run in going_on:
        with suppress(ConflictError):  # of those that were only written down there is no process to end
            desk.supervisor.cancel(run.run_id)
            desk.supervisor.wait(run.run_id, timeout_s=30)


_LET_GO = threading.Event()
_HOLDERS: list[threading.Thread] = []

_TOLD = (
    *(begin, queue, labels, draft_comment, accept, set_role, add_failed_run, run_states, run_kinds, sign_offs),
    *(unjudge, hold_writes, let_writes_go, drawing, writing),
    *(train_two_verifiers, train_a_generator, add_training, add_figures, champion),
)
ANSWERS: dict[str, Callable[..., object]] = {one.__name__: one for one in _TOLD}


def _item(context: str, number: int, now: datetime) -> tuple[Question, Variant, list[Verdict]]:
    options = (f"takes bread {number} out.", "sells the oven.", "paints the door.", f"{context} <b>sleeps</b>")
    question = Question(ids.question_id(context, options, 0), context, options, 0, "bench", f"row {number}", "baking")
    changed = f"{context} will not"
    variant = Variant(
        ids.variant_id(question.question_id, "negation", changed, options, 3),
        question.question_id,
        "negation",
        changed,
        options,
        3,
        is_control=False,
        shuffle_seed=None,
        recipe=Recipe("rules", "rules", "1", "{}", 1),
        run_id=None,
        created_at=now,
    )
    verdicts = [
        Verdict(variant.variant_id, "TC", 0.93, True, VERIFIER, "feature", None, now),
        Verdict(variant.variant_id, "LC", 0.31, False, VERIFIER, "feature", None, now),
        Verdict(variant.variant_id, "AU", 0.52 + number / 100, True, VERIFIER, "feature", None, now),
    ]
    return question, variant, verdicts


def _answer_all(listener: Listener) -> None:
    while True:
        with listener.accept() as connection:
            name, arguments = connection.recv()
            connection.send(ANSWERS[name](serving.current_desk(), *arguments))


if __name__ == "__main__":
    door = Listener(("127.0.0.1", int(sys.argv[1])), authkey=os.environ[DOOR_KEY].encode())
    threading.Thread(target=_answer_all, args=(door,), daemon=True).start()
    raise SystemExit(asgi.main())
