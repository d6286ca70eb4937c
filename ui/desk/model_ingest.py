"""Registers a trained model with its provenance, makes it a challenger, and starts the gate for a verifier.

The first verifier becomes champion automatically, since nothing is judged without one; every later change is made by
people. A model is copied in, and the first one hashed again, before the transaction that marks its training as done;
both are idempotent.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from data.errors import JobError, ModelError, NotFoundError
from data.ids import content_hash
from data.records import PARTS, ModelRole, Run
from data.store import Connection
from data.tables import models as model_rows
from engine.jobs.folder import RunFolder
from engine.jobs.versions import VERSIONS_FILE
from engine.verifiers import verifier_method, verifier_version
from training.refresh_report import generator_training_from
from training.registry import RegisteredModel, aliased, aliases, register, set_alias, verified
from ui.desk.runs.submission import Ingest, Ingested, Prepare
from ui.desk.settings import Settings
from ui.desk.submissions import gate_submission


def prepare_table(settings: Settings, now: Callable[[], datetime]) -> Mapping[str, Prepare]:
    """Prepare functions by job kind; for the supervisor."""
    return {
        "train-verifier": lambda folder, run: prepare_verifier(settings, folder, run, now),
        "refresh-generator": lambda folder, run: prepare_generator(settings, folder, run, now),
    }


def prepare_verifier(settings: Settings, folder: RunFolder, run: Run, now: Callable[[], datetime]) -> Ingest:
    """The first verifier becomes champion; a later one challenger, which the gate then compares with the champion.

    Raises:
        JobError: the run has not ended.
        ModelError: the run made no model, or it cannot be stored.
    """
    made = folder.outputs / "model"
    kind, version = verifier_method(made), verifier_version(made)
    model = _registered(settings, folder, run, role="verifier", kind=kind, version=version)
    rival = _Rival.of(settings, model)
    if "champion" not in aliases(settings.models, "verifier"):
        verified(model)

    def ingest(connection: Connection, _folder: RunFolder, _run: Run) -> Ingested:
        _tell_store(connection, model, now())
        champion_id = aliases(settings.models, "verifier").get("champion")
        if champion_id is None:
            set_alias(settings.models, "verifier", "champion", model.model_id)
        # The same labels and seed give the champion again, which cannot be its own challenger.
        if champion_id in (None, model.model_id):
            return Ingested({"model_id": model.model_id, "is_champion": True})
        set_alias(settings.models, "verifier", "challenger", model.model_id)
        counts: dict[str, object] = {"model_id": model.model_id, "is_champion": False}
        if rival.champion is None:
            return Ingested({**counts, "not_compared": rival.why_not})
        return Ingested(counts, gate_submission(connection, champion=rival.champion, challenger=model))

    return ingest


def prepare_generator(settings: Settings, folder: RunFolder, run: Run, now: Callable[[], datetime]) -> Ingest:
    """The model becomes a challenger; the generator in use changes only when a lead promotes it.

    Raises:
        JobError: the run has not ended.
        ModelError: the run made no model, or it cannot be stored.
        ReportError: its counts are not those of a generator's training.
    """
    source = f"the training report of run {run.run_id} ({folder.path}/result.json)"
    version = generator_training_from(_counts(folder), source=source).generator_version
    model = _registered(settings, folder, run, role="generator", kind="causal_lm", version=version)

    def ingest(connection: Connection, _folder: RunFolder, _run: Run) -> Ingested:
        _tell_store(connection, model, now())
        is_champion = aliases(settings.models, "generator").get("champion") == model.model_id
        if not is_champion:
            set_alias(settings.models, "generator", "challenger", model.model_id)
        return Ingested({"model_id": model.model_id, "is_champion": is_champion})

    return ingest


class _Rival(NamedTuple):
    """The champion to compare a new verifier with, its files hashed again, or why there is no comparison."""

    champion: RegisteredModel | None
    why_not: str

    @classmethod
    def of(cls, settings: Settings, model: RegisteredModel) -> "_Rival":
        try:
            champion = aliased(settings.models, "verifier", "champion")
            if champion is None or champion.model_id == model.model_id:
                return cls(None, f"no other verifier was in use; run `sagedesk model compare {model.model_id}`")
            return cls(verified(champion), "")
        except (ModelError, NotFoundError) as exc:
            return cls(None, str(exc))


def _registered(
    settings: Settings, folder: RunFolder, run: Run, *, role: ModelRole, kind: str, version: str
) -> RegisteredModel:
    origin = _origin(folder, run)
    return register(settings.models, folder.outputs / "model", role=role, kind=kind, version=version, origin=origin)


def _tell_store(connection: Connection, model: RegisteredModel, now: datetime) -> None:
    model_rows.ModelTable(connection).put(
        model_rows.ModelRecord(model.model_id, model.role, model.kind, str(model.folder), model.origin, now)
    )


def _origin(folder: RunFolder, run: Run) -> Mapping[str, object]:
    """`data` is one hash over all inputs; `versions` are the libraries of the interpreter that trained.

    `max_labels` is the requested maximum, which the job itself does not get.
    """
    spec = folder.spec()
    return {
        "run_id": run.run_id,
        "parent": run.settings.get("parent"),
        "data": content_hash(sorted(spec.inputs.items())),
        "inputs": dict(spec.inputs),
        "splits": _splits(folder.read_input("labels")),
        "settings": dict(spec.settings),
        "max_labels": run.settings.get("max_labels"),
        "seed": spec.seed,
        "code_version": spec.code_version,
        "versions": _versions(folder),
        "counts": dict(_counts(folder)),
    }


def _splits(labels: pa.Table) -> dict[str, dict[str, object]]:
    """By part: the number of labels and question clusters, and one hash over the clusters."""
    groups: dict[str, list[str]] = {}
    for part, group in zip(labels["part"].to_pylist(), labels["group"].to_pylist(), strict=True):
        groups.setdefault(part, []).append(group)
    return {
        part: {
            "labels": len(groups[part]),
            "clusters": len(set(groups[part])),
            "clusters_hash": content_hash(sorted(set(groups[part]))),
        }
        for part in PARTS
        if part in groups
    }


def _versions(folder: RunFolder) -> dict[str, str]:
    try:
        found = json.loads((folder.outputs / VERSIONS_FILE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {str(name): str(version) for name, version in found.items()}


def _counts(folder: RunFolder) -> Mapping[str, object]:
    result = folder.result()
    if result is None:
        raise JobError(f"the run folder {folder.path} has no result; resume the run")
    return result.counts
