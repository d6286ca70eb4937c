"""Putting a model in use: only with a note and a comparison that carries it, and back again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.errors import ConflictError, InputError, JobError, ModelError, NotFoundError
from data.records import Answers, Decision, Run, RunId, VariantId
from data.tables.audit import AuditTable
from data.tables.decisions import DecisionTable
from data.tables.queue import QueueTable
from data.tables.runs import RunTable
from data.tables.sign_offs import SignOffTable
from data.tables.verdicts import VerdictTable
from tests.ui.learning_desk import comparison_report, gate_report
from tests.ui.registered import registered_generator, registered_verifier
from training.gate_report import GateOutcome
from training.registry import RegisteredModel, aliases, promote
from ui.desk.context import Actor, Desk
from ui.desk.settings import Settings
from ui.desk.sign_offs import settle_sign_offs
from ui.desk.usecases.model_promotion import MAX_NOTE_CHARACTERS, promote_model, rollback_model
from ui.desk.usecases.models import show_model
from ui.desk.wiring import close_desk, open_desk

LEA = Actor("lea", "lead")


@pytest.fixture
def pair(desk: Desk, tmp_path: Path) -> tuple[RegisteredModel, RegisteredModel]:
    """A champion verifier that says 0.6 to everything, and another that says 0.9."""
    champion, other = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(desk.settings.models, "verifier", champion.model_id)
    return champion, other


def compared(
    desk: Desk, challenger: RegisteredModel, champion_id: str, outcome: GateOutcome, *, run: str = "r_gate"
) -> None:
    """A gate run that ended so."""
    report = gate_report(outcome, reasons=[f"it {outcome}, for a reason"])
    settings = {"champion_id": champion_id, "challenger_id": challenger.model_id}
    ended = Run(
        RunId(run), "gate-verifier", "done", "nowhere", settings, "lea", desk.now(), None, None, None, None, 0, None,
        "", {"gate": report},
    )  # fmt: skip
    with desk.store.write() as connection:
        RunTable(connection).add(ended)


def champion_of(desk: Desk, role: Any = "verifier") -> str | None:
    return aliases(desk.settings.models, role).get("champion")


def signed(desk: Desk, role: Any = "verifier") -> list[tuple[str, str | None, str | None, str, str]]:
    """Newest first: action, in use, before, outcome, note."""
    with desk.store.read() as connection:
        found = SignOffTable(connection).of_role(role)
    return [(it.action, it.model_id, it.previous_id, it.outcome, it.note) for it in found]


def test_a_verifier_that_passed_the_gate_is_champion_with_a_sign_off_that_stays(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    champion, other = pair
    compared(desk, other, champion.model_id, "passes")

    promoted = promote_model(desk, LEA, model_id=other.model_id, note="  better on LC ")

    detail = show_model(desk, LEA, model_id=other.model_id)
    assert (promoted.model_id, promoted.aliases) == (other.model_id, ("champion",))
    assert signed(desk) == [("promote", other.model_id, champion.model_id, "passes", "better on LC")]
    assert (detail.sign_offs[0].run_id, detail.sign_offs[0].signed_by) == ("r_gate", "lea")
    assert detail.gate is not None
    assert (detail.gate_run_id, detail.gate.outcome) == ("r_gate", "passes")
    with desk.store.read() as connection:
        entry = AuditTable(connection).recent()[0]
    assert (entry.actor, entry.action, entry.subject) == ("lea", "model.promote", other.model_id)


@pytest.mark.parametrize("outcome", ["fails", "cannot_say"])
def test_one_that_did_not_pass_is_refused_with_the_gates_words_and_may_be_promoted_despite_it(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel], outcome: GateOutcome
) -> None:
    champion, other = pair
    compared(desk, other, champion.model_id, outcome)

    with pytest.raises(ConflictError, match=f"{outcome}.*it {outcome}, for a reason.*despite"):
        promote_model(desk, LEA, model_id=other.model_id, note="I want it")
    refused = champion_of(desk), signed(desk)
    promote_model(desk, LEA, model_id=other.model_id, note="I want it", despite_gate=True)

    assert refused == (champion.model_id, [])
    assert champion_of(desk) == other.model_id
    assert signed(desk) == [("promote", other.model_id, champion.model_id, outcome, "I want it")]


def test_one_that_was_compared_with_an_earlier_champion_alone_is_refused(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel], tmp_path: Path
) -> None:
    champion, other = pair
    third = registered_verifier(desk, tmp_path / "c", 0.3)
    compared(desk, other, champion.model_id, "passes")
    promote(desk.settings.models, "verifier", third.model_id)

    with pytest.raises(ConflictError, match=f"current champion.*sagedesk model compare {other.model_id}"):
        promote_model(desk, LEA, model_id=other.model_id, note="better")

    assert champion_of(desk) == third.model_id
    assert show_model(desk, LEA, model_id=other.model_id).gate is None


def test_the_newest_comparison_counts(desk: Desk, pair: tuple[RegisteredModel, RegisteredModel]) -> None:
    champion, other = pair
    compared(desk, other, champion.model_id, "passes", run="r_gate_1")
    compared(desk, other, champion.model_id, "fails", run="r_gate_2")

    with pytest.raises(ConflictError, match="fails"):
        promote_model(desk, LEA, model_id=other.model_id, note="better")


@pytest.mark.parametrize(("note", "words"), [("", "write a note"), (" \n", "write a note"), ("x" * 2001, "2,001")])
def test_without_a_note_nothing_changes(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel], note: str, words: str
) -> None:
    champion, other = pair
    compared(desk, other, champion.model_id, "passes")

    with pytest.raises(InputError, match=words):
        promote_model(desk, LEA, model_id=other.model_id, note=note)
    with pytest.raises(InputError, match=words):
        rollback_model(desk, LEA, role="verifier", note=note)

    assert len("x" * 2001) > MAX_NOTE_CHARACTERS
    assert (champion_of(desk), signed(desk)) == (champion.model_id, [])


def test_a_flipped_bit_keeps_a_model_from_being_promoted_or_gone_back_to_and_the_champion_stays(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    champion, other = pair
    compared(desk, other, champion.model_id, "passes")
    file = other.folder / "feature-verifier.json"
    whole = file.read_bytes()

    file.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
    with pytest.raises(ModelError, match=r"feature-verifier\.json has changed since registration"):
        promote_model(desk, LEA, model_id=other.model_id, note="better", despite_gate=True)
    refused = champion_of(desk), signed(desk)
    file.write_bytes(whole)
    promote_model(desk, LEA, model_id=other.model_id, note="better")
    (champion.folder / "extra.bin").write_bytes(b"not ours")
    with pytest.raises(ModelError, match=r"extra\.bin"):
        rollback_model(desk, LEA, role="verifier", note="worse")

    assert refused == (champion.model_id, [])
    assert champion_of(desk) == other.model_id
    assert len(signed(desk)) == 1


def test_a_champion_is_not_promoted_again_and_what_is_not_there_is_told(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    with pytest.raises(ConflictError, match="already the champion"):
        promote_model(desk, LEA, model_id=pair[0].model_id, note="again", despite_gate=True)
    with pytest.raises(NotFoundError, match="model list"):
        promote_model(desk, LEA, model_id="0123456789abcdef", note="again", despite_gate=True)


def test_a_rollback_is_signed_and_a_second_one_undoes_it(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    champion, other = pair
    promote_model(desk, LEA, model_id=other.model_id, note="try", despite_gate=True)

    back = rollback_model(desk, LEA, role="verifier", note="worse")
    between = champion_of(desk)
    forth = rollback_model(desk, LEA, role="verifier", note="no, better")

    assert back is not None
    assert forth is not None
    assert (back.model_id, between, forth.model_id) == (champion.model_id, champion.model_id, other.model_id)
    assert [entry[:3] for entry in signed(desk)] == [
        ("rollback", other.model_id, champion.model_id),
        ("rollback", champion.model_id, other.model_id),
        ("promote", other.model_id, champion.model_id),
    ]


def test_without_an_earlier_verifier_there_is_no_way_back(
    desk: Desk, pair: tuple[RegisteredModel, RegisteredModel]
) -> None:
    with pytest.raises(ConflictError, match="no verifier to roll back to"):
        rollback_model(desk, LEA, role="verifier", note="worse")

    assert (champion_of(desk), signed(desk)) == (pair[0].model_id, [])


def test_a_generator_needs_its_comparison_and_goes_back_to_none(desk: Desk, tmp_path: Path) -> None:
    blind = registered_generator(desk, tmp_path / "a", "never-compared")
    compared_one = registered_generator(desk, tmp_path / "b", "compared", comparison=comparison_report())

    with pytest.raises(ConflictError, match="no comparison with its predecessor"):
        promote_model(desk, LEA, model_id=blind.model_id, note="looks good")
    promote_model(desk, LEA, model_id=compared_one.model_id, note="accepts more")
    back = rollback_model(desk, LEA, role="generator", note="writes nonsense")
    none_left = champion_of(desk, "generator")
    forth = rollback_model(desk, LEA, role="generator", note="it was the prompt")

    assert (back, none_left) == (None, None)
    assert forth is not None
    assert forth.model_id == compared_one.model_id == champion_of(desk, "generator")
    assert [entry[:4] for entry in signed(desk, "generator")] == [
        ("rollback", compared_one.model_id, None, ""),
        ("rollback", None, compared_one.model_id, ""),
        ("promote", compared_one.model_id, None, "compared"),
    ]


def test_a_desk_that_ended_between_sign_off_and_change_does_the_rest_at_its_next_start(
    settings: Settings, tmp_path: Path
) -> None:
    """And once more after a rollback; a further start changes nothing."""
    desk = open_desk(settings, with_label_studio=False)
    first, second = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(settings.models, "verifier", first.model_id)
    as_it_was = (settings.models / "verifier" / "aliases.json").read_bytes()
    promote_model(desk, LEA, model_id=second.model_id, note="try", despite_gate=True)
    promoted = (settings.models / "verifier" / "aliases.json").read_bytes()
    close_desk(desk)

    (settings.models / "verifier" / "aliases.json").write_bytes(as_it_was)
    desk = open_desk(settings, with_label_studio=False)
    finished = champion_of(desk)
    rollback_model(desk, LEA, role="verifier", note="worse")
    close_desk(desk)
    (settings.models / "verifier" / "aliases.json").write_bytes(promoted)
    for _ in range(2):
        close_desk(open_desk(settings, with_label_studio=False))

    assert finished == second.model_id
    assert aliases(settings.models, "verifier") == {"champion": first.model_id, "previous": second.model_id}


def test_a_sign_off_for_a_model_that_was_damaged_since_leaves_the_champion_and_the_desk_starts(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = open_desk(settings, with_label_studio=False)
    first, second = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(settings.models, "verifier", first.model_id)
    as_it_was = (settings.models / "verifier" / "aliases.json").read_bytes()
    promote_model(desk, LEA, model_id=second.model_id, note="try", despite_gate=True)
    close_desk(desk)
    (settings.models / "verifier" / "aliases.json").write_bytes(as_it_was)
    (second.folder / "feature-verifier.json").write_text("{}")

    desk = open_desk(settings, with_label_studio=False)

    assert champion_of(desk) == first.model_id
    assert "cannot be carried out" in caplog.text
    close_desk(desk)


def test_damaged_aliases_are_told_and_the_desk_starts(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = open_desk(settings, with_label_studio=False)
    model = registered_verifier(desk, tmp_path / "a", 0.6)
    promote_model(desk, LEA, model_id=model.model_id, note="the first")
    close_desk(desk)
    (settings.models / "verifier" / "aliases.json").write_text("{")

    close_desk(open_desk(settings, with_label_studio=False))

    assert "aliases.json is damaged" in caplog.text


@pytest.mark.server
def test_the_queue_is_judged_and_ordered_anew_by_each_champion_and_what_is_decided_is_left_alone(
    desk: Desk,
    pair: tuple[RegisteredModel, RegisteredModel],
    queue_variants: Callable[..., list[VariantId]],
) -> None:
    champion, other = pair
    waiting, decided = queue_variants(2)
    (blind,) = queue_variants(1, blind_share=1.0, context="A smith heats the iron. He")
    with desk.store.write() as connection:
        DecisionTable(connection).upsert(
            Decision(decided, "accepted", Answers(True, True, True), "annotations", (), "lea", desk.now())
        )
        blind_before = QueueTable(connection).find(blind)

    promote_model(desk, LEA, model_id=other.model_id, note="try", despite_gate=True)
    after_promotion = judged(desk, [waiting, decided, blind])
    rollback_model(desk, LEA, role="verifier", note="worse")
    after_rollback = judged(desk, [waiting, decided, blind])
    rollback_model(desk, LEA, role="verifier", note="no, better")
    after_both = judged(desk, [waiting, decided, blind])

    assert after_promotion[waiting] == (other.version, "confident; closest call AU (0.90)")
    assert after_rollback[waiting] == (champion.version, "AU uncertain (0.60)")
    assert after_both[waiting] == after_promotion[waiting]
    assert after_both[decided][0] == "secret-verifier-7"
    assert after_both[blind] == (other.version, "random check")
    with desk.store.read() as connection:
        assert QueueTable(connection).find(blind) == blind_before


def judged(desk: Desk, ids: list[VariantId]) -> dict[VariantId, tuple[str, str]]:
    """Once the newest run has ended: by whom each was judged last, and why it stands where it stands."""
    with desk.store.read() as connection:
        (newest,) = RunTable(connection).newest(limit=1)
    ended = desk.supervisor.wait(newest.run_id, timeout_s=120)
    assert (ended.kind, ended.state) == ("verify", "done"), ended.message
    with desk.store.read() as connection:
        latest = VerdictTable(connection).latest_for(ids)
        items = {one: QueueTable(connection).find(one) for one in ids}
    return {one: (latest[one][0].verifier_version, item.reason) for one, item in items.items() if item is not None}


def test_a_disk_that_is_full_after_the_sign_off_is_told_and_the_next_start_does_the_rest(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(settings, with_label_studio=False)
    first, second = registered_verifier(desk, tmp_path / "a", 0.6), registered_verifier(desk, tmp_path / "b", 0.9)
    promote(settings.models, "verifier", first.model_id)

    def no_room(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_room)
        with pytest.raises(ModelError, match="No space left on device; free disk space"):
            promote_model(desk, LEA, model_id=second.model_id, note="try", despite_gate=True)
    refused = champion_of(desk)
    close_desk(desk)
    close_desk(open_desk(settings, with_label_studio=False))

    assert refused == first.model_id
    assert aliases(settings.models, "verifier") == {"champion": second.model_id, "previous": first.model_id}


def test_a_queue_that_cannot_be_judged_is_told_and_the_promotion_stands(
    desk: Desk,
    pair: tuple[RegisteredModel, RegisteredModel],
    queue_variants: Callable[..., list[VariantId]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue_variants(1)
    desk.settings.runs.rmdir()
    desk.settings.runs.write_text("no folder can be made here")

    with pytest.raises(JobError, match=r"champion has changed, but .*cannot write its folder.*sagedesk variant verify"):
        promote_model(desk, LEA, model_id=pair[1].model_id, note="try", despite_gate=True)

    assert champion_of(desk) == pair[1].model_id
    assert len(signed(desk)) == 1


def test_a_queue_that_was_not_judged_after_a_sign_off_is_judged_once_at_the_next_start(
    desk: Desk,
    pair: tuple[RegisteredModel, RegisteredModel],
    queue_variants: Callable[..., list[VariantId]],
) -> None:
    queue_variants(1)
    desk.settings.runs.rmdir()
    desk.settings.runs.write_text("no folder can be made here")
    with pytest.raises(JobError, match="champion has changed"):
        promote_model(desk, LEA, model_id=pair[1].model_id, note="try", despite_gate=True)
    desk.settings.runs.unlink()
    desk.supervisor.stop(end_jobs=True)  # nothing starts any more: a run stays queued

    settle_sign_offs(desk)
    settle_sign_offs(desk)

    with desk.store.read() as connection:
        judging = RunTable(connection).newest(limit=9, kind="verify")
    assert [(run.state, run.submitted_by) for run in judging] == [("queued", "operator")]
