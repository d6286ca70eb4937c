import httpx
import pytest

from annotation.labels import label_config
from data.errors import LabelStudioError, LabelStudioUnavailableError
from data.records import Answers
from data.tables.annotations import AnnotationTable
from data.tables.decisions import DecisionTable
from data.tables.sync_state import QuarantineTable
from tests.annotation.fake_label_studio import FakeLabelStudio, answers, choice
from tests.annotation.labelling import NO_AU, YES, Bench, sync_with


def test_queued_variants_become_tasks_once(bench: Bench, fake: FakeLabelStudio) -> None:
    ids = bench.add_variants(3)
    bench.queue(ids)
    sync = sync_with(fake, bench)

    first, second = sync.run_once(), sync.run_once()

    assert (first.tasks_pushed, second.tasks_pushed) == (3, 0)
    assert {task["data"]["external_id"] for task in fake.tasks.values()} == set(ids)
    assert fake.calls.count("POST /api/projects/1/import") == 1


def test_an_import_whose_answer_was_lost_makes_no_second_task(bench: Bench, fake: FakeLabelStudio) -> None:
    ids = bench.add_variants(3)
    fake.after = lambda request: httpx.ReadTimeout("lost") if request.url.path.endswith("/import") else None
    sync = sync_with(fake, bench)
    with pytest.raises(LabelStudioUnavailableError):
        sync.push_tasks(ids)
    assert len(fake.tasks) == 3
    fake.after = lambda request: None

    sync.push_tasks(ids)

    assert len(fake.tasks) == 3
    assert sync.push_tasks(ids) == 0


def test_a_second_copy_of_a_task_goes_with_the_sweep_unless_it_is_labelled(bench: Bench, fake: FakeLabelStudio) -> None:
    (one, two) = bench.add_variants(2)
    sync = sync_with(fake, bench)
    sync.push_tasks([one, two])
    for external_id in (one, two):
        fake._add_task(1, {"data": {"external_id": external_id}})
    fake.tasks[4]["annotations"].append(
        {
            "id": 77,
            "result": answers(),
            "completed_by": 1,
            "created_at": "2026-11-29T12:00:00Z",
            "updated_at": "2026-11-29T12:00:00Z",
        }
    )

    sync.sweep()

    assert sorted(fake.tasks) == [1, 2, 4]
    assert [each.answers for each in bench.current(two)] == [YES]


def test_verdicts_go_out_as_predictions_but_not_for_a_blind_item_before_its_answer(
    bench: Bench, fake: FakeLabelStudio
) -> None:
    seen, blind = bench.add_variants(2)
    bench.judge([seen, blind])
    bench.queue([seen])
    bench.queue([blind], is_blind=True)
    sync = sync_with(fake, bench)

    sync.run_once()
    before = {name: len(fake.task_of(name)["predictions"]) for name in (seen, blind)}
    bench.submit(blind, is_blind=True, shown_verifier=None)
    sync.run_once()
    after = {name: len(fake.task_of(name)["predictions"]) for name in (seen, blind)}

    assert before == {seen: 1, blind: 0}
    assert after == {seen: 1, blind: 1}
    assert fake.task_of(seen)["predictions"][0]["score"] == 0.4


def test_a_label_is_synced_only_after_it_was_read_back(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant, NO_AU, comment="Zwei sind richtig 😀", is_flagged=True, corrected_answer_index=2)
    sync = sync_with(fake, bench)
    assert bench.synced_at(label) is None

    sync.run_once()

    (there,) = fake.annotations()
    assert fake.users[there["completed_by"]] == "ana@sagedesk.local"
    assert bench.synced_at(label) is not None
    assert len(bench.revisions(label.annotation_id)) == 1
    (current,) = bench.current(variant)
    assert current.ls_annotation_id == there["id"]
    assert (current.answers, current.comment, current.corrected_answer_index) == (NO_AU, "Zwei sind richtig 😀", 2)


def test_a_create_whose_answer_was_lost_makes_no_second_annotation(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    fake.after = lambda request: (
        httpx.ReadError("lost") if request.method == "POST" and "annotations" in request.url.path else None
    )
    with pytest.raises(LabelStudioUnavailableError):
        sync.run_once()
    assert len(fake.annotations()) == 1
    fake.after = lambda request: None

    sync.run_once()

    assert len(fake.annotations()) == 1
    assert bench.synced_at(label) is not None
    assert len(bench.revisions(label.annotation_id)) == 1


def test_a_changed_mind_changes_the_same_annotation(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    bench.submit(variant, YES)
    sync.run_once()
    second = bench.submit(variant, NO_AU)

    sync.run_once()

    (there,) = fake.annotations()
    assert there["result"][2]["value"] == {"choices": ["no"]}
    assert bench.synced_at(second) is not None
    assert len(bench.revisions(second.annotation_id)) == 2


def test_labels_wait_while_label_studio_is_away_and_drain_when_it_is_back(bench: Bench, fake: FakeLabelStudio) -> None:
    ids = bench.add_variants(3)
    sync = sync_with(fake, bench)
    fake.before = lambda request: httpx.ConnectError("refused")
    labels = [bench.submit(variant) for variant in ids]
    with pytest.raises(LabelStudioUnavailableError):
        sync.run_once()
    away = sync.health()
    fake.before = lambda request: None

    sync.run_once()

    assert (away.outbox_open, away.stale_since is not None) == (3, True)
    assert sync.health().outbox_open == 0
    assert sync.health().stale_since is None
    assert all(bench.synced_at(label) is not None for label in labels)


def test_a_refused_label_waits_and_does_not_hold_up_the_others(bench: Bench, fake: FakeLabelStudio) -> None:
    first, second = bench.add_variants(2)
    sync = sync_with(fake, bench)
    refused, accepted = bench.submit(first, by="bo"), bench.submit(second)
    fake.before = lambda request: (
        httpx.Response(400, json={"detail": "no"}) if request.method == "POST" and b"bo@" in request.content else None
    )

    sync.run_once()

    assert bench.synced_at(refused) is None
    assert bench.synced_at(accepted) is not None


def test_a_label_made_in_label_studio_comes_with_its_author(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    bench.judge([variant])
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    fake.label(variant, answers(au="no"), user="li@sagedesk.local", lead_time=3.5)
    fake.label(variant, answers(au="no"), user="guest@example.org")

    counts = sync.pull_delta()

    assert counts.revisions == 2
    mine, guests = sorted(bench.current(variant), key=lambda each: each.annotator, reverse=True)
    assert (mine.annotator, mine.answers, mine.origin, mine.lead_time_s) == ("li", NO_AU, "label_studio", 3.5)
    assert (mine.is_blind, mine.shown_verifier) == (False, "feature-1")
    assert guests.annotator == "guest@example.org"
    with bench.store.read() as connection:
        decision = DecisionTable(connection).get(variant)
    assert decision is not None
    assert decision.outcome == "rejected"


def test_an_edit_in_label_studio_is_a_new_revision_with_both_names(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant, YES)
    sync = sync_with(fake, bench)
    sync.run_once()
    (there,) = fake.annotations()
    result = [each for each in there["result"] if each["from_name"] != "au"] + [choice("au", "no")]
    fake.edit(there["id"], user="li@sagedesk.local", result=result)

    sync.run_once()

    first, second = bench.revisions(label.annotation_id)
    assert (first.answers, second.answers) == (YES, NO_AU)
    assert (second.annotator, second.updated_by, second.origin) == ("ana", "li", "label_studio")
    assert bench.current(variant)[0].revision == 2


def test_an_edit_counts_as_later_even_when_label_studios_clock_is_behind(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    fake.now = bench.clock.at.replace(hour=11)
    bench.submit(variant, YES)
    sync = sync_with(fake, bench)
    sync.run_once()
    fake.edit(fake.annotations()[0]["id"], result=answers(au="no"))

    sync.run_once()

    assert [each.answers for each in bench.current(variant)] == [NO_AU]


def test_patched_back_to_the_first_value_is_three_revisions(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    number = fake.label(variant, answers())
    sync.pull_delta()
    for result in (answers(au="no"), answers()):
        fake.edit(number, result=result)
        sync.pull_delta()

    (current,) = bench.current(variant)

    assert [each.answers for each in bench.revisions(current.annotation_id)] == [YES, NO_AU, YES]


@pytest.mark.parametrize("is_late", [False, True])
def test_changed_on_both_sides_the_newest_counts_and_both_are_kept(
    bench: Bench, fake: FakeLabelStudio, is_late: bool
) -> None:
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant, YES)
    sync = sync_with(fake, bench)
    sync.run_once()
    fake.now = bench.clock.at
    fake.tick(20 if is_late else 5)
    fake.edit(fake.annotations()[0]["id"], user="li@sagedesk.local", result=answers(tc="no"))
    bench.clock.tick(10)
    bench.submit(variant, NO_AU)

    sync.run_once()
    sync.run_once()

    wins = Answers(False, True, True) if is_late else NO_AU
    assert [each.answers for each in bench.current(variant)] == [wins]
    assert {each.answers for each in bench.revisions(label.annotation_id)} == {YES, NO_AU, Answers(False, True, True)}
    there = {each["from_name"]: each["value"].get("choices") for each in fake.annotations()[0]["result"]}
    assert there["tc"] == (["no"] if is_late else ["yes"])
    assert sync.health().outbox_open == 0


def test_a_deletion_is_a_tombstone_and_takes_the_decision_back(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    bench.submit(variant)
    sync = sync_with(fake, bench)
    sync.run_once()
    with bench.store.read() as connection:
        assert DecisionTable(connection).get(variant) is not None
    fake.delete(fake.annotations()[0]["id"])

    sync.pull_delta()

    assert [each.is_deleted for each in bench.current(variant)] == [True]
    with bench.store.read() as connection:
        assert DecisionTable(connection).get(variant) is None


def test_a_deleted_task_is_found_by_the_sweep(bench: Bench, fake: FakeLabelStudio) -> None:
    kept, gone = bench.add_variants(2)
    sync = sync_with(fake, bench)
    for variant in (kept, gone):
        bench.submit(variant)
    sync.run_once()
    fake.delete_task(gone)
    assert sync.pull_delta().tombstones == 0

    report = sync.sweep()

    assert [each.is_deleted for each in bench.current(gone)] == [True]
    assert [each.is_deleted for each in bench.current(kept)] == [False]
    assert report["vanished"] == 1
    assert report["server_annotations"] == report["local_annotations"] == 1
    assert sync.sweep()["vanished"] == 0


def test_a_label_given_after_its_task_was_deleted_makes_the_task_anew(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    fake.delete_task(variant)
    label = bench.submit(variant)

    sync.run_once()

    assert bench.synced_at(label) is not None
    assert len(fake.annotations()) == 1


def test_an_answer_given_after_a_deletion_there_is_not_overruled(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    bench.submit(variant, YES)
    sync = sync_with(fake, bench)
    sync.run_once()
    fake.delete(fake.annotations()[0]["id"])
    bench.clock.tick(60)
    second = bench.submit(variant, NO_AU)

    sync.run_once()
    sync.run_once()

    assert [(each.is_deleted, each.answers) for each in bench.current(variant)] == [(False, NO_AU)]
    assert len(fake.annotations()) == 1
    assert bench.synced_at(second) is not None


def test_a_sweep_reads_what_the_delta_missed(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.run_once()
    sync.push_tasks([variant])
    sync.pull_delta()
    fake.tick(3600)
    fake.label(variant, answers())
    fake.task_of(variant)["updated_at"] = "2020-01-01T00:00:00.000000Z"
    assert sync.pull_delta().revisions == 0

    report = sync.sweep()

    assert report["missed"] == 1
    assert len(bench.current(variant)) == 1


def test_a_clock_set_back_ten_minutes_loses_nothing(bench: Bench, fake: FakeLabelStudio) -> None:
    one, two = bench.add_variants(2)
    sync = sync_with(fake, bench)
    sync.push_tasks([one, two])
    fake.label(one, answers())
    sync.pull_delta()
    fake.tick(-600)
    fake.label(two, answers())
    bench.clock.tick(5)

    counts = sync.pull_delta()

    assert counts.revisions == 1
    assert len(bench.current(two)) == 1


def test_a_quiet_server_is_not_read_again_and_again(bench: Bench, fake: FakeLabelStudio) -> None:
    ids = bench.add_variants(20)
    sync = sync_with(fake, bench)
    sync.push_tasks(ids)
    sync.pull_delta()
    for _ in range(3):
        fake.tick(30)
        bench.clock.tick(30)
        sync.pull_delta()

    report = sync.run_once()

    assert report.tasks_read == 0


def test_small_pages_and_equal_stamps_read_every_task(bench: Bench, fake: FakeLabelStudio) -> None:
    ids = bench.add_variants(9)
    sync = sync_with(fake, bench, page_size=2)
    sync.push_tasks(ids)
    for variant in ids:
        fake.label(variant, answers())
    for task in fake.tasks.values():
        task["updated_at"] = "2026-11-29T13:00:00.000000Z"

    assert sync.pull_delta().revisions == 9


def test_a_skipped_one_is_no_label_and_an_empty_one_needs_attention(bench: Bench, fake: FakeLabelStudio) -> None:
    skipped, empty = bench.add_variants(2)
    sync = sync_with(fake, bench)
    sync.push_tasks([skipped, empty])
    fake.label(skipped, [], was_cancelled=True)
    fake.label(empty, None)

    sync.pull_delta()

    assert [each.is_skipped for each in bench.current(skipped)] == [True]
    assert [each.answers.is_empty for each in bench.current(empty)] == [True]
    with bench.store.read() as connection:
        (odd,) = QuarantineTable(connection).open()
        assert DecisionTable(connection).by_ids([skipped, empty]) == {}
    assert "empty" in odd.reason


def test_an_odd_label_waits_in_quarantine_until_it_is_put_right(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    sync = sync_with(fake, bench)
    sync.push_tasks([variant])
    number = fake.label(variant, answers(tc="perhaps"))
    sync.pull_delta()
    sync.pull_delta()
    quarantined = sync.health().quarantine_open
    assert bench.current(variant) == []
    fake.edit(number, result=answers())

    sync.pull_delta()

    assert quarantined == 1
    assert sync.health().quarantine_open == 0
    assert [each.answers for each in bench.current(variant)] == [YES]


def test_a_label_on_a_strangers_task_is_kept_in_quarantine(bench: Bench, fake: FakeLabelStudio) -> None:
    sync = sync_with(fake, bench)
    sync.run_once()
    fake._add_task(1, {"data": {"external_id": "somebody else's"}})
    fake.label("somebody else's", answers())

    sync.pull_delta()

    assert sync.health().quarantine_open == 1


def test_a_copied_annotation_is_a_label_of_its_own(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    label = bench.submit(variant)
    sync = sync_with(fake, bench)
    sync.run_once()
    (there,) = fake.annotations()
    fake.label(variant, there["result"], user="li@sagedesk.local")

    sync.run_once()

    assert {each.annotator for each in bench.current(variant)} == {"ana", "li"}
    assert len(bench.revisions(label.annotation_id)) == 1


def test_a_new_server_at_the_old_address_is_not_taken_for_the_old_one(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    sync_with(fake, bench).push_tasks([variant])
    fake.label(variant, answers())
    sync_with(fake, bench).run_once()
    fresh = FakeLabelStudio()
    sync = sync_with(fresh, bench)
    sync._rng.seed(99)

    sync.run_once(with_sweep=True)

    assert [each.is_deleted for each in bench.current(variant)] == [False]


def test_a_config_changed_by_hand_is_shown_and_put_back(bench: Bench, fake: FakeLabelStudio) -> None:
    sync = sync_with(fake, bench)
    sync.run_once()
    fake.projects[1]["label_config"] = "<View><Text name='variant' value='$variant'/></View>"

    sync.run_once()

    assert fake.projects[1]["label_config"] == label_config()
    assert not sync.health().is_config_changed


def test_no_stranger_to_the_store_can_claim_a_label(bench: Bench, fake: FakeLabelStudio) -> None:
    one, two = bench.add_variants(2)
    label = bench.submit(one)
    sync = sync_with(fake, bench)
    sync.run_once()
    (there,) = fake.annotations()
    fake.label(one, answers(au="no"))
    sync.push_tasks([two])
    fake.label(two, there["result"])

    sync.run_once()

    with bench.store.read() as connection:
        assert AnnotationTable(connection).current(label.annotation_id) is not None
    assert bench.current(two)[0].annotation_id != label.annotation_id


def test_a_sweep_that_cannot_read_a_task_removes_nothing(bench: Bench, fake: FakeLabelStudio) -> None:
    (variant,) = bench.add_variants(1)
    bench.submit(variant)
    sync = sync_with(fake, bench)
    sync.run_once()
    fake.task_of(variant)["updated_at"] = "soon"

    with pytest.raises(LabelStudioError, match="sweep"):
        sync.sweep()

    assert [each.is_deleted for each in bench.current(variant)] == [False]
