"""Models as a person sees them: which are at hand, which is in use, training and promoting a verifier."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from data.arrow import questions_table, variants_table
from data.cache import cache_folder
from data.errors import InputError, NotFoundError
from data.records import ModelRole, Run
from data.samples import sample_questions
from data.store import Connection
from data.tables import models as model_rows
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, EMBEDDED_MODELS, embedded_folder, fetch
from engine.jobs.folder import RunFolder
from training.examples import labels_table, sample_labels, sample_split
from training.registry import RegisteredModel, aliased, all_models, promote, register, set_alias
from ui.settings import Settings
from ui.submission import Submission
from ui.usecases.context import Actor, Desk, audit, require_lead


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that the desk can use. `is_at_hand`: its files are here. `model_id` is empty for embedded ones."""

    model_id: str
    role: str
    kind: str
    version: str
    is_champion: bool
    is_at_hand: bool
    folder: str


@dataclass(frozen=True, slots=True)
class FetchedModel:
    name: str
    folder: str


def list_models(desk: Desk, actor: Actor) -> list[ModelInfo]:
    """The generator in force, the embedded encoder, and every registered verifier."""
    settings = desk.settings
    generator = embedded_folder(EMBEDDED_GENERATOR)
    encoder = embedded_folder(EMBEDDED_ENCODER)
    if settings.model is None:
        in_force = ModelInfo(
            "", "generator", "causal_lm", EMBEDDED_GENERATOR.title, True, generator is not None, str(generator or "")
        )
    else:
        is_here = Path(settings.model).expanduser().is_dir()
        in_force = ModelInfo(
            "", "generator", "causal_lm", settings.model, True, is_here, settings.model if is_here else ""
        )
    champion = champion_verifier(settings)
    return [
        in_force,
        ModelInfo("", "encoder", "embedding", EMBEDDED_ENCODER.title, True, encoder is not None, str(encoder or "")),
        *(
            ModelInfo(
                it.model_id,
                it.role,
                it.kind,
                it.version,
                is_champion=champion is not None and it.model_id == champion.model_id,
                is_at_hand=True,
                folder=str(it.folder),
            )
            for it in all_models(settings.models, "verifier")
        ),
    ]


def fetch_embedded(report: Callable[[str], None]) -> list[FetchedModel]:
    """Into the cache, without a desk. Raises ModelError."""
    return [FetchedModel(model.title, str(fetch(model, cache_folder(), report=report))) for model in EMBEDDED_MODELS]


def train_verifier(desk: Desk, actor: Actor, *, seed: int = 0) -> Run:
    """Train a feature verifier on the sample labels. The first becomes champion, a later one challenger.

    Raises:
        PermissionDeniedError, InputError (such a seed), ConflictError (one is being trained).
    """
    require_lead(desk, actor, "model.train", "verifier")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed {seed}: use 0 to {2**32 - 1}")
    encoder = embedded_folder(EMBEDDED_ENCODER)
    settings = {"verifier": "feature", "encoder": None if encoder is None else str(encoder)}
    wanted = Submission("train-verifier", settings, training_inputs(), seed=seed)
    run = desk.supervisor.submit(wanted, submitted_by=actor.name)
    audit(desk, actor, "model.train", run.run_id)
    return run


def promote_verifier(desk: Desk, actor: Actor, *, model_id: str) -> ModelInfo:
    """Make a registered verifier the champion; the one before stays as `previous`.

    Raises:
        PermissionDeniedError, NotFoundError, ModelError (its files are not what was registered).
    """
    require_lead(desk, actor, "model.promote", model_id)
    promote(desk.settings.models, "verifier", model_id)
    audit(desk, actor, "model.promote", model_id)
    for model in list_models(desk, actor):
        if model.model_id == model_id:
            return model
    raise NotFoundError(f"no verifier {model_id!r}; `sagedesk model list` shows all")


def champion_verifier(settings: Settings) -> RegisteredModel | None:
    """The verifier in use; None before the first is trained. Raises ModelError when its manifest is damaged."""
    return aliased(settings.models, "verifier", "champion")


def training_inputs() -> Mapping[str, pa.Table]:
    """What the training job reads: the sample's labels, without those of the questions that are held out for review."""
    questions, labelled = sample_questions(), sample_split().learnt
    return {
        "questions": questions_table(questions),
        "variants": variants_table(it.variant for it in labelled),
        "labels": labels_table(sample_labels(labelled, questions)),
    }


def ingest_model(
    connection: Connection, settings: Settings, folder: RunFolder, run: Run, counts: Mapping[str, object], now: datetime
) -> Mapping[str, object]:
    """Register what a training run made; champion where there is none yet, challenger where it is another.

    Raises:
        ModelError: nothing was made, or it cannot be kept.
    """
    role: ModelRole = "verifier"
    spec = folder.spec()
    model = register(
        settings.models,
        folder.outputs / "model",
        role=role,
        kind="feature",
        version=str(counts["verifier_version"]),
        origin={"run_id": run.run_id, "seed": spec.seed, "code_version": spec.code_version}
        | {"inputs": dict(spec.inputs), "counts": dict(counts)},
    )
    model_rows.ModelTable(connection).put(
        model_rows.RegisteredModel(model.model_id, role, model.kind, str(model.folder), model.origin, now)
    )
    champion = champion_verifier(settings)
    # The same labels and seed give the champion again: it is no challenger of itself.
    is_champion = champion is None or champion.model_id == model.model_id
    if champion is None:
        promote(settings.models, role, model.model_id)
    elif not is_champion:
        set_alias(settings.models, role, "challenger", model.model_id)
    return {"model_id": model.model_id, "is_champion": is_champion}
