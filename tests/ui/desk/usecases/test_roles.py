"""What an annotator may not do is refused in the use case, whoever called it, and the refusal is in the audit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from data.errors import PermissionDeniedError
from data.tables.audit import AuditTable
from ui.desk.context import Actor, Desk
from ui.desk.usecases import (
    gates,
    generation,
    imports,
    learning,
    model_promotion,
    overview,
    run_transfer,
    runs,
    samples,
    schedules,
    sync,
    training_data,
    verification,
)

ANA = Actor("ana", "annotator")

LEADS_ONLY: dict[str, Callable[[Desk], object]] = {
    "import.preview": lambda desk: imports.preview_import(desk, ANA, location="x.jsonl"),
    "import.start": lambda desk: imports.start_import(desk, ANA, location="x.jsonl"),
    "import.upload": lambda desk: imports.keep_upload(desk, ANA, name="x.jsonl", content=b"{}"),
    "generation.start": lambda desk: generation.start_generation(desk, ANA, backend="rules"),
    "verification.start": lambda desk: verification.start_verification(desk, ANA),
    "run.cancel": lambda desk: runs.cancel_run(desk, ANA, run_id="r_1"),
    "run.collect": lambda desk: run_transfer.collect_run(desk, ANA, run_id="r_1", source=Path("x")),
    "run.export": lambda desk: run_transfer.export_run(desk, ANA, run_id="r_1", to=Path("x")),
    "run.resume": lambda desk: runs.resume_run(desk, ANA, run_id="r_1"),
    "verifier.retrain": lambda desk: learning.retrain_verifier(desk, ANA),
    "generator.refresh": lambda desk: learning.refresh_generator(desk, ANA),
    "model.compare": lambda desk: gates.compare_models(desk, ANA, model_id="m"),
    "model.flips": lambda desk: gates.flipped(desk, ANA, run_id="r_1"),
    "model.promote": lambda desk: model_promotion.promote_model(desk, ANA, model_id="m", note="better"),
    "model.rollback": lambda desk: model_promotion.rollback_model(desk, ANA, role="verifier", note="worse"),
    "schedule.set": lambda desk: schedules.set_schedule(desk, ANA, role="verifier"),
    "training.preview": lambda desk: training_data.preview_training(desk, ANA, role="verifier"),
    "sample.load": lambda desk: samples.load_sample_project(desk, ANA),
    "store.backup": lambda desk: overview.back_up(desk, ANA, to=Path("x")),
    "sync.now": lambda desk: sync.sync_now(desk, ANA),
    "sync.quarantine": lambda desk: sync.quarantined(desk, ANA),
}


@pytest.mark.parametrize("action", LEADS_ONLY)
def test_an_annotator_is_refused_and_the_refusal_is_audited(desk: Desk, action: str) -> None:
    with pytest.raises(PermissionDeniedError, match="ana is an annotator"):
        LEADS_ONLY[action](desk)

    with desk.store.read() as connection:
        (entry,) = AuditTable(connection).recent()
    assert (entry.actor, entry.action, entry.outcome) == ("ana", action, "denied")
