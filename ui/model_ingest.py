"""What becomes of a trained model: registered with all that it came from, a challenger, and a verifier meets the gate.

The first verifier becomes champion by itself, for without one nothing is judged; every later change is a person's.
Runs inside the transaction that marks the training as done, and does the same again without a change.
"""

import json
from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from data.errors import JobError, ModelError, NotFoundError
from data.ids import content_hash
from data.records import PARTS, ModelRole, Run
from data.store import Connection
from data.tables import models as model_rows
from engine.jobs.folder import RunFolder
from engine.jobs.versions import VERSIONS_FILE
from engine.verifiers import verifier_method, verifier_version
from training.registry import RegisteredModel, aliases, promote, read_model, register, set_alias
from ui.settings import Settings
from ui.submission import Ingested
from ui.usecases.gates import gate_submission


def ingest_verifier(connection: Connection, settings: Settings, folder: RunFolder, run: Run, now: datetime) -> Ingested:
    """Champion where there is none yet, else a challenger, which the gate then compares with the champion.

    Raises:
        JobError: the run has not ended.
        ModelError: nothing was made, or it cannot be kept.
    """
    made = folder.outputs / "model"
    kind, version = verifier_method(made), verifier_version(made)
    model = _registered(connection, settings, folder, run, now, role="verifier", kind=kind, version=version)
    champion_id = aliases(settings.models, "verifier").get("champion")
    if champion_id is None:
        promote(settings.models, "verifier", model.model_id)
        return Ingested({"model_id": model.model_id, "is_champion": True})
    # The same labels and seed give the champion again: it is no challenger of itself.
    if champion_id == model.model_id:
        return Ingested({"model_id": model.model_id, "is_champion": True})
    set_alias(settings.models, "verifier", "challenger", model.model_id)
    counts: dict[str, object] = {"model_id": model.model_id, "is_champion": False}
    try:
        champion = read_model(settings.models, "verifier", champion_id)
        return Ingested(counts, gate_submission(connection, champion=champion, challenger=model))
    except (ModelError, NotFoundError) as exc:
        return Ingested({**counts, "not_compared": str(exc)})


def ingest_generator(
    connection: Connection, settings: Settings, folder: RunFolder, run: Run, now: datetime
) -> Ingested:
    """A challenger; what generates changes only when a lead promotes it.

    Raises:
        JobError: the run has not ended.
        ModelError: nothing was made, or it cannot be kept.
    """
    version = str(_counts(folder).get("generator_version", ""))
    model = _registered(connection, settings, folder, run, now, role="generator", kind="causal_lm", version=version)
    is_champion = aliases(settings.models, "generator").get("champion") == model.model_id
    if not is_champion:
        set_alias(settings.models, "generator", "challenger", model.model_id)
    return Ingested({"model_id": model.model_id, "is_champion": is_champion})


def _registered(
    connection: Connection,
    settings: Settings,
    folder: RunFolder,
    run: Run,
    now: datetime,
    *,
    role: ModelRole,
    kind: str,
    version: str,
) -> RegisteredModel:
    origin = _origin(folder, run)
    model = register(settings.models, folder.outputs / "model", role=role, kind=kind, version=version, origin=origin)
    model_rows.ModelTable(connection).put(
        model_rows.RegisteredModel(model.model_id, role, model.kind, str(model.folder), model.origin, now)
    )
    return model


def _origin(folder: RunFolder, run: Run) -> Mapping[str, object]:
    """`data` is one hash over all inputs; `versions` are the libraries of the interpreter that trained."""
    spec = folder.spec()
    return {
        "run_id": run.run_id,
        "parent": run.settings.get("parent"),
        "data": content_hash(sorted(spec.inputs.items())),
        "inputs": dict(spec.inputs),
        "splits": _splits(folder.read_input("labels")),
        "settings": dict(spec.settings),
        "seed": spec.seed,
        "code_version": spec.code_version,
        "versions": _versions(folder),
        "counts": dict(_counts(folder)),
    }


def _splits(labels: pa.Table) -> dict[str, dict[str, object]]:
    """By part: how many labels of how many question clusters, and one hash over these."""
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
        raise JobError(f"run folder {folder.path} has no result; resume the run")
    return result.counts
