"""Creating, listing, showing and proving releases through the desk; who may, and what the audit says of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from data.errors import NotFoundError, PermissionDeniedError, ReleaseError
from data.ids import question_id, variant_id
from data.records import Question, Recipe, Variant
from data.store import Store
from data.tables.audit import AuditTable
from data.tables.questions import QuestionTable
from data.tables.releases import ReleaseTable
from data.tables.variants import VariantTable
from ui.desk.context import Actor, Desk
from ui.desk.runs.supervisor import Supervisor
from ui.desk.settings import Settings
from ui.desk.usecases.releases import create_release, list_releases, show_release, verify_release

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEAD = Actor("ann", "lead")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = Store.open(tmp_path / "sagedesk.duckdb", now=lambda: NOON)
    supervisor = Supervisor(
        store, tmp_path / "runs", ingests={}, python="python", code_version="0.1.0+abc", now=lambda: NOON
    )
    yield Desk(Settings(state=tmp_path), store, supervisor, None, lambda: NOON)
    store.close()


def accept(desk: Desk, count: int) -> None:
    options = ("tea", "coal")
    question = Question(question_id("Ann boils water", options, 0), "Ann boils water", options, 0, "mini", "1")
    recipe = Recipe("rules", "rules-1", "p1", "{}", 0)
    contexts = [f"What would Ann not make? {number}" for number in range(count)]
    variants = [
        Variant(
            variant_id(question.question_id, "negation", context, options, 1),
            question.question_id,
            "negation",
            context,
            options,
            1,
            is_control=False,
            shuffle_seed=1,
            recipe=recipe,
            run_id=None,
            created_at=NOON,
        )
        for context in contexts
    ]
    with desk.store.write() as connection:
        QuestionTable(connection).upsert([question], now=NOON)
        VariantTable(connection).upsert(variants)
        for variant in variants:
            connection.execute(
                "INSERT OR IGNORE INTO decision VALUES (?, 'accepted', true, true, true, 'annotations', [], 'ann', ?)",
                [variant.variant_id, NOON],
            )


def audited(desk: Desk) -> list[tuple[str, str, str]]:
    with desk.store.read() as connection:
        return [(entry.action, entry.subject, entry.outcome) for entry in AuditTable(connection).recent()]


def test_a_lead_freezes_what_is_accepted_and_it_is_numbered_listed_and_proven(desk: Desk) -> None:
    accept(desk, 3)

    created = create_release(desk, LEAD, name="mini-1")
    create_release(desk, LEAD, name="mini-2")

    folder = desk.settings.releases / "mini-1"
    assert created.release.folder == str(folder)
    assert (created.release.number, created.release.items, created.variants, created.questions) == (1, 3, 3, 1)
    assert created.code_version == "0.1.0+abc"
    assert [release.name for release in list_releases(desk, LEAD)] == ["mini-2", "mini-1"]
    assert show_release(desk, LEAD, name="mini-1") == created
    assert verify_release(desk, LEAD, name="mini-1").is_intact
    assert audited(desk)[-1] == ("release.create", "mini-1", "done")
    with desk.store.read() as connection:
        assert len(ReleaseTable(connection).variant_ids("mini-1")) == 3


def test_an_edited_file_is_named(desk: Desk) -> None:
    accept(desk, 1)
    create_release(desk, LEAD, name="mini")
    card = desk.settings.releases / "mini" / "README.md"
    card.write_text(card.read_text() + "\nOne more line.\n")

    proof = verify_release(desk, LEAD, name="mini")

    assert (proof.is_intact, proof.problems) == (False, ("README.md: changed",))


def test_what_is_accepted_later_does_not_enter_an_old_release(desk: Desk) -> None:
    accept(desk, 1)
    create_release(desk, LEAD, name="first")
    accept(desk, 2)

    second = create_release(desk, LEAD, name="second")

    assert second.variants == 2
    assert verify_release(desk, LEAD, name="first").is_intact
    assert show_release(desk, LEAD, name="first").variants == 1


def test_the_same_name_twice_is_refused_even_when_only_the_folder_is_left(desk: Desk) -> None:
    accept(desk, 1)
    create_release(desk, LEAD, name="mini")
    (desk.settings.releases / "orphan").mkdir()

    for name in ("mini", "orphan"):
        with pytest.raises(ReleaseError, match="already"):
            create_release(desk, LEAD, name=name)

    assert [release.name for release in list_releases(desk, LEAD)] == ["mini"]
    assert verify_release(desk, LEAD, name="mini").is_intact


def test_nothing_accepted_makes_no_release_and_says_what_to_do(desk: Desk) -> None:
    with pytest.raises(ReleaseError, match="review variants"):
        create_release(desk, LEAD, name="mini")

    assert list_releases(desk, LEAD) == []
    assert not (desk.settings.releases / "mini").exists()


def test_an_annotator_is_refused_and_the_refusal_audited(desk: Desk) -> None:
    accept(desk, 1)

    with pytest.raises(PermissionDeniedError, match="ask a lead"):
        create_release(desk, Actor("bo", "annotator"), name="mini")

    assert audited(desk) == [("release.create", "mini", "denied")]
    assert not (desk.settings.releases / "mini").exists()


def test_an_unknown_release_is_named_with_those_that_exist(desk: Desk) -> None:
    accept(desk, 1)
    create_release(desk, LEAD, name="mini")

    for use_case in (show_release, verify_release):
        with pytest.raises(NotFoundError, match=r"'other'.*mini"):
            use_case(desk, LEAD, name="other")


def test_a_store_that_refuses_at_the_end_leaves_no_folder(desk: Desk) -> None:
    accept(desk, 1)
    with desk.store.write() as connection:
        connection.execute("CREATE UNIQUE INDEX one_release_a_day ON release (created_at)")
    create_release(desk, LEAD, name="first")

    with pytest.raises(Exception, match="Constraint"):
        create_release(replace(desk), LEAD, name="second")

    assert [entry.name for entry in desk.settings.releases.iterdir()] == ["first"]
    assert [release.name for release in list_releases(desk, LEAD)] == ["first"]
