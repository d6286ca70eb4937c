"""A desk on a state folder of its own, and the command line called as a person calls it."""

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from annotation.queue import enqueue
from data import ids, processes
from data.dimensions import DIMENSIONS
from data.ids import question_id
from data.records import ContractCheck, Question, Recipe, Variant, VariantId, Verdict
from data.store import Connection, Store
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from tests.ui.labelled_store import NOON, LabelledStore
from ui.cli import main
from ui.desk.context import Desk
from ui.desk.desk_file import RunningDesk, write_desk_file
from ui.desk.settings import Settings
from ui.desk.wiring import close_desk, open_desk
from ui.web.api import api_routes

TOKEN = "token-of-this-test"
DIMENSION_KEYS = [dimension.key for dimension in DIMENSIONS]
ROWS: list[dict[str, Any]] = [
    {
        "ind": number,
        "ctx": context,
        "endings": [ending, "flies over the sea.", "eats a lamp.", "paints the moon."],
        "label": "0",
    }
    for number, (context, ending) in enumerate(
        [
            ("A cook opens a jar of plums in the kitchen. She", "puts the lid on the table."),
            ("A boy kneels beside his broken bicycle. He", "takes the chain off the wheel."),
            ("Two gardeners carry a young tree across the lawn. They", "lower its roots into a hole."),
            ("A tailor measures the sleeve of a jacket. He", "marks the cloth with chalk."),
        ]
    )
]


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


Sagedesk = Callable[..., Answer]


@pytest.fixture
def connection() -> Iterator[Connection]:
    store = Store.in_memory(now=lambda: NOON)
    with store.write() as connection:
        yield connection
    store.close()


@pytest.fixture
def people(connection: Connection) -> LabelledStore:
    return LabelledStore(connection)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is not there yet, with ports that nobody else has, whatever runs on this machine."""
    for name in [name for name in os.environ if name.startswith(("SAGEDESK_", "LABEL_STUDIO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SAGEDESK_STATE", str(tmp_path / "var"))
    with socket.socket() as desk, socket.socket() as label_studio:
        for name, kept in (("SAGEDESK_PORT", desk), ("SAGEDESK_LABEL_STUDIO_PORT", label_studio)):
            # Bound and never listening: who asks for any port gets another, who asks for this one with the same
            # option gets it.
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(("127.0.0.1", 0))
            monkeypatch.setenv(name, str(kept.getsockname()[1]))
        yield tmp_path / "var"


@pytest.fixture
def settings(state: Path) -> Settings:
    return Settings(state=state)


@pytest.fixture
def desk(settings: Settings) -> Iterator[Desk]:
    opened = open_desk(settings, with_label_studio=False)
    yield opened
    close_desk(opened, end_jobs=True)


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    """Four good HellaSwag rows and one whose label points nowhere."""
    file = tmp_path / "jars.jsonl"
    bad = {**ROWS[0], "ind": 99, "ctx": "Nobody opens anything. She", "label": "7"}
    file.write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, bad]))
    return file


@pytest.fixture
def stocked(settings: Settings) -> None:
    """A store that holds the four good rows, without the second that an import's process takes."""
    questions = [
        Question(
            question_id(row["ctx"], row["endings"], 0), row["ctx"], tuple(row["endings"]), 0, "jars", str(row["ind"])
        )
        for row in ROWS
    ]
    opened = open_desk(settings, with_label_studio=False)
    with opened.store.write() as connection:
        QuestionTable(connection).upsert(questions, now=opened.now())
    close_desk(opened)


@pytest.fixture
def sagedesk(state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Sagedesk]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["sagedesk", *arguments])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as exc:
            status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
        said = capsys.readouterr()
        return Answer(status, said.out, said.err)

    yield call
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def served(desk: Desk) -> Iterator[str]:
    """The desk behind its API on a port of its own, as `desk.json` tells; its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(
        uvicorn.Config(Starlette(routes=api_routes(lambda: desk, TOKEN)), log_level="critical", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    desk.supervisor.start()
    write_desk_file(
        desk.settings.desk_file, RunningDesk(url, TOKEN, os.getpid(), processes.started_at(os.getpid()) or 0.0)
    )
    yield url
    desk.settings.desk_file.unlink()
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture
def quick_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit reads the metadata of every installed package for each page of `AppTest`: half of a test's time."""
    monkeypatch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", list)


QueueVariants = Callable[..., list[VariantId]]


@pytest.fixture
def queue_variants(desk: Desk) -> QueueVariants:
    """Put variants before people: `queue_variants(3, blind_share=1.0, context="...")`, ids in the order of review.

    Verdicts get ever surer, so that the first is the most uncertain one; their verifier is called `secret-verifier-7`.
    """

    def queue(count: int, *, blind_share: float = 0.0, context: str = "A baker opens the oven. She") -> list[VariantId]:
        now = desk.now()
        recipe = Recipe("rules", "rules", "1", "{}", 1)
        made: list[Variant] = []
        with desk.store.write() as connection:
            for number in range(count):
                options = (f"takes bread {number} out.", "sells the oven.", "paints the door.", "sleeps in the flour.")
                question = Question(
                    ids.question_id(context, options, 0), context, options, 0, "bench", f"row {number}", "baking"
                )
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
                    recipe=recipe,
                    run_id=None,
                    created_at=now,
                )
                made.append(variant)
                QuestionTable(connection).upsert([question], now=now)
                VariantTable(connection).upsert([variant])
                ContractCheckTable(connection).upsert(
                    [
                        ContractCheck(variant.variant_id, "option_count", holds=True, is_required=True, detail=""),
                        ContractCheck(variant.variant_id, "length", holds=False, is_required=False, detail="long"),
                    ]
                )
                VerdictTable(connection).upsert(
                    [
                        Verdict(
                            variant.variant_id,
                            target,
                            probability,
                            probability >= 0.5,
                            "secret-verifier-7",
                            "feature",
                            None,
                            now,
                        )
                        for target, probability in zip(DIMENSION_KEYS, (0.93, 0.31, 0.52 + number / 100), strict=True)
                    ]
                )
            names = [variant.variant_id for variant in made]
            enqueue(connection, variant_ids=names, blind_share=blind_share, seed=7, now=now)
        return names

    return queue
