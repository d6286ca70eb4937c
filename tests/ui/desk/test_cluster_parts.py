"""Parts are drawn when first needed, kept for good, and what is asked of a gate question enters the queue blind."""

from pathlib import Path

from data.arrow import contract_checks_table, verdicts_table
from data.records import ContractCheck, Run, RunId, Verdict
from data.store import Connection
from data.tables.cluster_parts import ClusterPartTable
from data.tables.queue import QueueTable
from engine.jobs.folder import RunFolder
from tests.ui.labelled_store import NOON, LabelledStore, cluster_of
from ui.desk.cluster_parts import draw_seed, ensure_parts, parts
from ui.desk.ingest import ingest_table
from ui.desk.settings import Settings


def test_the_seed_is_made_once_for_a_store(connection: Connection) -> None:
    assert draw_seed(connection, NOON) == draw_seed(connection, NOON)


def test_only_the_questions_that_were_named_get_their_part(people: LabelledStore) -> None:
    [named], [broken] = people.ask("Question 1"), people.ask("Question 2", passes=False)
    people.ask("Question 3")

    ensure_parts(people.connection, NOON, variant_ids=[named, broken])

    assert set(ClusterPartTable(people.connection).standing()) == {cluster_of("Question 1")}


def test_parts_as_they_would_be_drawn_now_are_those_that_are_drawn(people: LabelledStore) -> None:
    people.ask_many([f"Question {number}" for number in range(30)], variants=1)
    draw_seed(people.connection, NOON)
    before = parts(people.connection)
    assert ClusterPartTable(people.connection).standing() == {}

    ensure_parts(people.connection, NOON)

    standing = ClusterPartTable(people.connection).standing()
    assert before == parts(people.connection) == {cluster: it.part for cluster, it in standing.items()}
    assert len(before) == 30


def test_what_is_judged_gets_its_part_and_is_queued_blind_if_that_is_the_gate(
    people: LabelledStore, tmp_path: Path
) -> None:
    asked = people.ask_many([f"Question {number}" for number in range(20)], variants=2)
    variants = [variant for of_one in asked for variant in of_one]
    folder = RunFolder.create(
        tmp_path / "r_1", run_id="r_1", kind="verify", settings={}, seed=0, code_version="1", inputs={}
    )
    folder.write_output(
        "verdicts",
        verdicts_table(Verdict(variant, "TC", 0.5, True, "v1", "feature", None, NOON) for variant in variants),
    )
    folder.write_output(
        "contract_checks", contract_checks_table(ContractCheck(one, "options", True, True, "") for one in variants)
    )
    run = Run(
        run_id=RunId("r_1"),
        kind="verify",
        state="running",
        folder=str(folder.path),
        settings={"then_queue": True},
        submitted_by="lea",
        created_at=NOON,
        started_at=NOON,
        ended_at=None,
        pid=None,
        pid_started_at=None,
        done=0,
        total=None,
        message="",
        result={},
    )
    ingest = ingest_table(Settings(state=tmp_path / "var", blind_share=0.0), lambda: NOON)["verify"]

    told = ingest(people.connection, folder, run)

    standing = ClusterPartTable(people.connection).standing()
    in_gate = {f"Question {n}" for n in range(20) if standing[cluster_of(f"Question {n}")].part == "gate"}
    assert told.counts["queued"] == 40
    assert len(in_gate) == 5
    for number, of_one in enumerate(asked):
        for variant in of_one:
            item = QueueTable(people.connection).find(variant)
            assert item is not None
            assert item.is_blind == (f"Question {number}" in in_gate)
    assert ingest(people.connection, folder, run).counts["queued"] == 0
    assert ClusterPartTable(people.connection).standing() == standing
