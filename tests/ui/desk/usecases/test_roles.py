"""What an annotator may not do is refused in the use case, whoever called it, and the refusal is in the audit.

Every use case stands in one of the three lists below: a new one without an entry fails.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ui.desk.usecases
from data.errors import PermissionDeniedError
from data.tables.audit import AuditTable
from ui.desk.context import Actor, Desk
from ui.desk.usecases import (
    accounts,
    gates,
    generation,
    imports,
    learning,
    model_promotion,
    overview,
    releases,
    review,
    run_transfer,
    runs,
    samples,
    schedules,
    sync,
    training_data,
    verification,
)

ANA = Actor("ana", "annotator")

LEADS_ONLY: dict[str, tuple[str, Callable[[Desk], object]]] = {
    "accounts.add_account": (
        "account.add",
        lambda desk: accounts.add_account(desk, ANA, name="bob", role="annotator"),
    ),
    "accounts.list_accounts": ("account.list", lambda desk: accounts.list_accounts(desk, ANA)),
    "accounts.make_link": ("account.link", lambda desk: accounts.make_link(desk, ANA, name="bob")),
    "accounts.set_active": (
        "account.set-active",
        lambda desk: accounts.set_active(desk, ANA, name="bob", is_active=False),
    ),
    "gates.compare_models": ("model.compare", lambda desk: gates.compare_models(desk, ANA, model_id="m")),
    "gates.flipped": ("model.flips", lambda desk: gates.flipped(desk, ANA, run_id="r_1")),
    "generation.start_generation": (
        "generation.start",
        lambda desk: generation.start_generation(desk, ANA, backend="rules"),
    ),
    "imports.keep_upload": ("import.upload", lambda desk: imports.keep_upload(desk, ANA, name="x", content=b"{}")),
    "imports.preview_import": ("import.preview", lambda desk: imports.preview_import(desk, ANA, location="x.jsonl")),
    "imports.start_import": ("import.start", lambda desk: imports.start_import(desk, ANA, location="x.jsonl")),
    "learning.refresh_generator": ("generator.refresh", lambda desk: learning.refresh_generator(desk, ANA)),
    "learning.retrain_verifier": ("verifier.retrain", lambda desk: learning.retrain_verifier(desk, ANA)),
    "learning.train_as_before": (
        "verifier.retrain",
        lambda desk: learning.train_as_before(desk, ANA, role="verifier"),
    ),
    "model_promotion.promote_model": (
        "model.promote",
        lambda desk: model_promotion.promote_model(desk, ANA, model_id="m", note="better"),
    ),
    "model_promotion.rollback_model": (
        "model.rollback",
        lambda desk: model_promotion.rollback_model(desk, ANA, role="verifier", note="worse"),
    ),
    "overview.back_up": ("store.backup", lambda desk: overview.back_up(desk, ANA, to=Path("x"))),
    "releases.create_release": ("release.create", lambda desk: releases.create_release(desk, ANA, name="first")),
    "review.set_blind_share": ("queue.set_blind_share", lambda desk: review.set_blind_share(desk, ANA, share=0.5)),
    "run_transfer.collect_run": (
        "run.collect",
        lambda desk: run_transfer.collect_run(desk, ANA, run_id="r_1", source=Path("x")),
    ),
    "run_transfer.export_run": (
        "run.export",
        lambda desk: run_transfer.export_run(desk, ANA, run_id="r_1", to=Path("x")),
    ),
    "runs.cancel_run": ("run.cancel", lambda desk: runs.cancel_run(desk, ANA, run_id="r_1")),
    "runs.resume_run": ("run.resume", lambda desk: runs.resume_run(desk, ANA, run_id="r_1")),
    "samples.load_sample_project": ("sample.load", lambda desk: samples.load_sample_project(desk, ANA)),
    "samples.train_first_verifier": ("verifier.retrain", lambda desk: samples.train_first_verifier(desk, ANA)),
    "schedules.set_schedule": ("schedule.set", lambda desk: schedules.set_schedule(desk, ANA, role="verifier")),
    "sync.quarantined": ("sync.quarantine", lambda desk: sync.quarantined(desk, ANA)),
    "sync.sync_now": ("sync.now", lambda desk: sync.sync_now(desk, ANA)),
    "training_data.preview_training": (
        "training.preview",
        lambda desk: training_data.preview_training(desk, ANA, role="verifier"),
    ),
    "verification.start_verification": ("verification.start", lambda desk: verification.start_verification(desk, ANA)),
}
"""By use case: the action that the audit names, and a call by an annotator."""

OWN_WORK = {
    "accounts.set_password",
    "review.flag",
    "review.later",
    "review.next_item",
    "review.open_item",
    "review.renew",
    "review.save_draft",
    "review.skip",
    "review.submit",
    "review.undo",
}
"""Change only what is the actor's own: password, reservations, drafts, answers."""

READ_BY_ALL = {
    "accounts.has_password",
    "doctor.diagnose",
    "generation.estimate",
    "imports.refusals",
    "models.list_models",
    "models.show_model",
    "overview.overview",
    "questions.duplicate_questions",
    "questions.list_variants",
    "questions.search_questions",
    "questions.show_question",
    "questions.show_variant",
    "releases.list_releases",
    "releases.show_release",
    "releases.verify_release",
    "review.queue_status",
    "review.sync_state",
    "runs.list_runs",
    "runs.run_messages",
    "runs.run_log",
    "runs.run_metrics",
    "runs.run_progress",
    "runs.show_run",
    "samples.wants_sample_project",
    "schedules.due",
    "schedules.get_schedule",
    "schedules.list_schedules",
    "sync.sync_status",
}
"""Change nothing."""


def use_cases() -> Iterator[tuple[str, Callable[..., object]]]:
    for found in pkgutil.iter_modules(ui.desk.usecases.__path__):
        module = importlib.import_module(f"{ui.desk.usecases.__name__}.{found.name}")
        for name, function in vars(module).items():
            is_own = inspect.isfunction(function) and function.__module__ == module.__name__
            if is_own and not name.startswith("_"):
                yield f"{found.name}.{name}", function


def test_every_use_case_says_who_may_call_it():
    listed = [*LEADS_ONLY, *OWN_WORK, *READ_BY_ALL]

    assert sorted(listed) == sorted(name for name, _ in use_cases())


@pytest.mark.parametrize(("name", "function"), list(use_cases()))
def test_a_use_case_takes_the_desk_the_actor_and_named_arguments(name: str, function: Callable[..., object]) -> None:
    first, second, *others = inspect.signature(function).parameters.values()

    assert (first.name, second.name) == ("desk", "actor"), name
    assert all(other.kind is inspect.Parameter.KEYWORD_ONLY for other in others), name


@pytest.mark.parametrize("name", LEADS_ONLY)
def test_an_annotator_is_refused_and_the_refusal_is_audited(desk: Desk, name: str) -> None:
    action, call = LEADS_ONLY[name]

    with pytest.raises(PermissionDeniedError, match="ana is an annotator"):
        call(desk)

    with desk.store.read() as connection:
        (entry,) = AuditTable(connection).recent()
    assert (entry.actor, entry.action, entry.outcome) == ("ana", action, "denied")
