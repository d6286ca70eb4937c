"""Freezing, reading back and proving releases; the store rows and the evidence that goes in."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data.arrow import QUESTION_SCHEMA
from data.errors import NotFoundError, ReleaseError
from data.export import ITEM_SCHEMA, ReleaseItem, ReleaseLabel
from data.ids import question_id, variant_id
from data.records import (
    Answers,
    ContractCheck,
    Decision,
    Question,
    Recipe,
    Release,
    Variant,
    VariantTypeKey,
    Verdict,
)
from data.releases import check_name, read_manifest, remove_unfinished, staged_release, verify_release
from data.store import Connection, Store
from data.tables.contract_checks import ContractCheckTable
from data.tables.overview import Backlog, Funnel, OverviewTable, TypeFunnel
from data.tables.questions import QuestionTable
from data.tables.releases import ReleaseTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
YES = Answers(True, True, True)


def an_item(number: int, variant_type: VariantTypeKey = "negation") -> ReleaseItem:
    options = ("tea", "coal")
    context = f"Ann boils water, case {number % 2}"
    question = Question(
        question_id(context, options, 0), context, options, 0, "mini `x`", f"dev/{number % 2}", "home", "ours"
    )
    made = f"What would Ann not make? {number}"
    variant = Variant(
        variant_id=variant_id(question.question_id, variant_type, made, options, 1),
        question_id=question.question_id,
        variant_type=variant_type,
        context=made,
        options=options,
        answer_index=1,
        is_control=number == 0,
        shuffle_seed=None if number == 0 else number,
        recipe=Recipe("rules", "rules-1", "p1", "{}", number),
        run_id=None,
        created_at=NOON,
    )
    return ReleaseItem(
        variant=variant,
        question=question,
        decision=Decision(variant.variant_id, "accepted", YES, "annotations", (), "ann@example.org", NOON),
        labels=(
            ReleaseLabel("ann@example.org", YES, True),
            ReleaseLabel("bo@example.org", Answers(True, True, None), False),
        ),
        verdicts=(Verdict(variant.variant_id, "TC", 0.75, True, "v1", "feature", None, NOON),),
        checks=(ContractCheck(variant.variant_id, "length", True, True, ""),),
    )


ITEMS = [an_item(0), an_item(1), an_item(2, "ordering")]


def released(root: Path, name: str = "mini-1", items: list[ReleaseItem] | None = None) -> tuple[Path, str]:
    with staged_release(
        root, name=name, number=1, items=ITEMS if items is None else items, created_at=NOON, code_version="0.1.0"
    ) as staged:
        staged.publish()
    return staged.folder, staged.manifest_sha256


def test_a_release_holds_every_item_with_its_evidence(tmp_path: Path) -> None:
    folder, _ = released(tmp_path)

    rows = pq.read_table(folder / "data/negation.parquet")
    first = rows.to_pylist()[0]
    assert rows.schema == ITEM_SCHEMA
    assert rows.num_rows == 2
    assert first["variant_id"] == ITEMS[0].variant.variant_id
    assert first["original_context"] == ITEMS[0].question.context
    assert (first["is_control"], first["shuffle_seed"], first["answer_index"]) == (True, None, 1)
    assert first["verdicts"][0]["probability"] == 0.75
    assert first["contract_checks"] == [{"check": "length", "holds": True, "is_required": True}]
    assert first["decision"] == {"tc": True, "lc": True, "au": True, "basis": "annotations", "decided_at": NOON}
    questions = pq.read_table(folder / "data/questions.parquet")
    assert questions.schema == QUESTION_SCHEMA
    assert questions.num_rows == 2


def test_no_account_name_leaves_the_desk(tmp_path: Path) -> None:
    folder, _ = released(tmp_path)

    labels = pq.read_table(folder / "data/ordering.parquet")["labels"].to_pylist()[0]
    assert [label["annotator"] for label in labels] == ["annotator-1", "annotator-2"]
    assert [label["is_blind"] for label in labels] == [True, False]
    for file in folder.rglob("*"):
        if file.is_file():
            assert b"example.org" not in file.read_bytes(), file


@pytest.mark.server
def test_datasets_loads_the_folder_and_each_config_offline(tmp_path: Path) -> None:
    folder, _ = released(tmp_path / "root")
    script = (
        "import json, sys; from datasets import load_dataset, get_dataset_config_names as names\n"
        "folder = sys.argv[1]\n"
        "print(json.dumps({'default': load_dataset(folder)['test'].num_rows,\n"
        "    **{name: load_dataset(folder, name, split='test').num_rows for name in names(folder)},\n"
        "    'probability': load_dataset(folder, 'negation', split='test')[0]['verdicts'][0]['probability']}))"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}

    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded == {"default": 3, "all": 3, "negation": 2, "ordering": 1, "questions": 2, "probability": 0.75}


def test_an_untouched_release_verifies_and_its_manifest_counts_it(tmp_path: Path) -> None:
    folder, manifest_sha256 = released(tmp_path)

    manifest = read_manifest(folder)

    assert verify_release(folder, manifest_sha256) == []
    assert (manifest.name, manifest.number, manifest.variants, manifest.questions) == ("mini-1", 1, 3, 2)
    assert manifest.by_type == {"negation": 2, "ordering": 1}
    assert manifest.verifier_versions == ("v1",)
    assert manifest.variant_ids == tuple(item.variant.variant_id for item in ITEMS)


def test_verify_names_every_file_that_was_changed_lost_or_added(tmp_path: Path) -> None:
    folder, manifest_sha256 = released(tmp_path)
    negation = folder / "data/negation.parquet"
    content = bytearray(negation.read_bytes())
    content[len(content) // 2] ^= 1
    negation.write_bytes(content)
    (folder / "data/ordering.parquet").unlink()
    (folder / "data/causal.parquet").symlink_to(folder / "README.md")

    problems = verify_release(folder, manifest_sha256)

    assert problems == [
        "data/causal.parquet: not part of the release",
        "data/negation.parquet: changed",
        "data/ordering.parquet: missing",
    ]


@pytest.mark.parametrize("damage", ["{}", "not json", None])
def test_verify_tells_a_changed_or_lost_manifest(tmp_path: Path, damage: str | None) -> None:
    folder, manifest_sha256 = released(tmp_path)
    if damage is None:
        (folder / "manifest.json").unlink()
    else:
        (folder / "manifest.json").write_text(damage)

    (problem,) = verify_release(folder, manifest_sha256)

    assert problem.startswith("manifest.json: ")
    with pytest.raises(ReleaseError, match=r"manifest\.json"):
        read_manifest(folder)


def test_verify_tells_that_the_folder_is_gone(tmp_path: Path) -> None:
    assert verify_release(tmp_path / "none", "0") == [f"{tmp_path / 'none'}: the folder is missing"]


@pytest.mark.parametrize("name", ["", "-a", ".a", "A", "a b", "a/b", "../a", "a" * 65, "é", "a\n"])
def test_a_name_that_cannot_be_a_folder_everywhere_is_refused(name: str) -> None:
    with pytest.raises(ReleaseError, match="release name"):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "1", "mini-1.0_b", "a" * 64])
def test_a_plain_name_is_taken(name: str) -> None:
    check_name(name)


def test_the_same_name_twice_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    folder, manifest_sha256 = released(tmp_path)

    with pytest.raises(ReleaseError, match="already exists"):
        released(tmp_path, items=ITEMS[:1])

    assert verify_release(folder, manifest_sha256) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["mini-1"]


def test_nothing_accepted_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="review variants"):
        released(tmp_path, items=[])

    assert list(tmp_path.iterdir()) == []


def test_a_staged_release_that_is_not_published_leaves_nothing(tmp_path: Path) -> None:
    with staged_release(tmp_path, name="mini", number=1, items=ITEMS, created_at=NOON, code_version="0") as staged:
        assert verify_release(staged.temporary, staged.manifest_sha256) == []

    assert list(tmp_path.iterdir()) == []


def test_a_store_that_says_no_after_publishing_takes_the_folder_back(tmp_path: Path) -> None:
    release = staged_release(tmp_path, name="mini", number=1, items=ITEMS, created_at=NOON, code_version="0")
    staged = release.__enter__()
    staged.publish()
    assert staged.folder.is_dir()

    assert not release.__exit__(RuntimeError, RuntimeError("commit failed"), None)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_appears_meanwhile_is_not_touched(tmp_path: Path) -> None:
    with staged_release(tmp_path, name="mini", number=1, items=ITEMS, created_at=NOON, code_version="0") as staged:
        (tmp_path / "mini").mkdir()
        (tmp_path / "mini" / "theirs").touch()
        with pytest.raises(ReleaseError, match="already exists"):
            staged.publish()

    assert [entry.name for entry in (tmp_path / "mini").iterdir()] == ["theirs"]


def python(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run in another process, with this module as `t` and `root` as a path."""
    here = Path(__file__)
    head = (
        f"import os, resource, signal, sys; sys.path[:0] = [{str(here.parents[2])!r}, {str(here.parent)!r}]\n"
        "from pathlib import Path; import test_releases as t; root = Path(sys.argv[1])\n"
    )
    return subprocess.run([sys.executable, "-c", head + script, str(root)], capture_output=True, text=True, check=False)


@pytest.mark.server
def test_a_killed_export_leaves_no_release_and_the_next_start_removes_its_rest(tmp_path: Path) -> None:
    script = (
        "with t.staged_release(root, name='mini', number=1, items=t.ITEMS, created_at=t.NOON, code_version='0') as s:\n"
        "    print(len(list(s.temporary.rglob('*.parquet'))), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = python(script, tmp_path)
    assert done.stdout.strip() == "3", done.stderr
    assert not (tmp_path / "mini").exists()
    assert len(list(tmp_path.iterdir())) == 1

    removed = remove_unfinished(tmp_path)

    assert len(removed) == 1
    assert list(tmp_path.iterdir()) == []
    assert remove_unfinished(tmp_path / "no such folder") == []


@pytest.mark.server
def test_a_full_disk_is_a_clean_error_and_leaves_nothing(tmp_path: Path) -> None:
    """The limit on the size of a file stands for the disk: it needs no mount."""
    script = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "for limit in (1_000, 1_000_000):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    try: t.released(root)\n"
        "    except Exception as e: print(type(e).__name__, e)\n"
        "    print(sorted(entry.name for entry in root.iterdir()))"
    )

    error, left_by_it, with_room = python(script, tmp_path).stdout.splitlines()

    assert error.startswith("ReleaseError release 'mini-1' cannot be written")
    assert left_by_it == "[]"
    assert with_room == "['mini-1']"


def test_a_disk_that_refuses_is_a_clean_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ReleaseError, match="free disk space"):
        released(tmp_path / "file")


def test_the_store_gives_accepted_variants_with_their_evidence_and_counts_them() -> None:
    store = Store.in_memory(now=lambda: NOON)
    unaccepted = an_item(3)
    with store.write() as connection:
        QuestionTable(connection).upsert([item.question for item in [*ITEMS, unaccepted]], now=NOON)
        VariantTable(connection).upsert([item.variant for item in [*ITEMS, unaccepted]])
        VerdictTable(connection).upsert([verdict for item in ITEMS for verdict in item.verdicts])
        ContractCheckTable(connection).upsert([check for item in [*ITEMS, unaccepted] for check in item.checks])
        for item in ITEMS:
            connection.execute(
                "INSERT INTO decision VALUES (?, 'accepted', true, true, true, 'annotations', [], ?, ?)",
                [item.variant.variant_id, item.decision.decided_by, NOON],
            )
            connection.execute(
                "INSERT INTO queue_item VALUES (?, true, 1, 0.3, 0, '', ?)", [item.variant.variant_id, NOON]
            )
        add_annotation(connection, ITEMS[0].variant.variant_id, "bo@example.org", is_skipped=False)
        add_annotation(connection, ITEMS[1].variant.variant_id, "bo@example.org", is_skipped=True)

    with store.read() as connection:
        items = ReleaseTable(connection).accepted_items()
        overview = OverviewTable(connection)
        assert overview.funnel() == Funnel(2, 4, 4, 3, 1, 3, 0)
        assert overview.yields() == [TypeFunnel("negation", 3, 3, 0, 2, 0), TypeFunnel("ordering", 1, 1, 0, 1, 0)]
        assert overview.backlog() == Backlog(unanswered=2, outbox_open=0, quarantined=0)

    by_id = {item.variant.variant_id: item for item in items}
    expected = replace(ITEMS[0], labels=(ReleaseLabel("bo@example.org", Answers(True, None, None), False),))
    assert by_id[ITEMS[0].variant.variant_id] == expected
    assert by_id[ITEMS[1].variant.variant_id].labels == ()
    assert len(items) == 3
    store.close()


def test_an_accepted_variant_without_its_question_stops_the_release() -> None:
    store = Store.in_memory(now=lambda: NOON)
    with store.write() as connection:
        VariantTable(connection).upsert([ITEMS[0].variant])
        connection.execute(
            "INSERT INTO decision VALUES (?, 'accepted', true, true, true, 'bulk', [], 'ann', ?)",
            [ITEMS[0].variant.variant_id, NOON],
        )

        with pytest.raises(ReleaseError, match=ITEMS[0].question.question_id):
            ReleaseTable(connection).accepted_items()


def test_release_rows_are_numbered_and_a_taken_name_or_number_is_refused() -> None:
    store = Store.in_memory(now=lambda: NOON)
    first = Release("one", 1, "/r/one", "0", 2, "ann", NOON)
    ids = [item.variant.variant_id for item in ITEMS[:2]]
    with store.write() as connection:
        table = ReleaseTable(connection)
        table.add(first, ids)

        with pytest.raises(ReleaseError, match="'one' already"):
            table.add(replace(first, number=2), ids)
        with pytest.raises(ReleaseError, match="try again"):
            table.add(replace(first, name="two"), ids)
        table.add(replace(first, name="two", number=table.next_number()), ids)

        assert [release.name for release in table.all()] == ["two", "one"]
        assert table.get("one") == first
        assert table.variant_ids("one") == sorted(ids)
        assert OverviewTable(connection).funnel().released == 2
        with pytest.raises(NotFoundError, match="releases: two, one"):
            table.get("three")


def add_annotation(connection: Connection, variant: str, annotator: str, *, is_skipped: bool) -> None:
    connection.execute(
        "INSERT INTO annotation (annotation_id, revision, variant_id, annotator, updated_by, tc, comment, "
        "is_flagged, is_skipped, is_deleted, is_blind, origin, config_hash, guidelines_version, created_at, "
        "updated_at, content_hash) VALUES (?, 1, ?, ?, ?, true, '', false, ?, false, false, 'console', '', '', "
        "?, ?, '')",
        [f"a_{variant}", variant, annotator, annotator, is_skipped, NOON, NOON],
    )
