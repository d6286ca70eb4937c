"""Models in a registry that were never trained: verifiers that say one thing to everything, a generator for show."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from data.dimensions import DIMENSIONS
from data.records import VARIANT_TYPE_KEYS, Run, RunId
from engine.feature_verifier import DimensionModel, FeatureVerifier
from engine.features import FEATURE_NAMES
from engine.jobs.folder import RunFolder, RunResult
from training.comparison_report import GeneratorComparison, comparison_as_json
from training.examples import labels_table
from training.registry import RegisteredModel, register
from ui.desk.context import Desk


def saying(folder: Path, probability: float) -> FeatureVerifier:
    """A feature verifier saved in `folder` that says `probability` to each dimension, for want of weights."""
    places = len(VARIANT_TYPE_KEYS)
    offset = float(np.log(probability / (1 - probability)))
    models = [
        DimensionModel(
            dimension.key, FEATURE_NAMES[:1], np.zeros((places, 1)), np.ones((places, 1)), np.zeros(1), 0.0, 1.0, offset
        )
        for dimension in DIMENSIONS
    ]
    made = FeatureVerifier(models, encoder=None)
    made.save(folder)
    return made


def registered_verifier(
    desk: Desk, folder: Path, probability: float, *, settings: Mapping[str, object] | None = None
) -> RegisteredModel:
    """Neither champion nor challenger yet."""
    made = saying(folder, probability)
    return register(
        desk.settings.models,
        folder,
        role="verifier",
        kind="feature",
        version=made.version,
        origin={"settings": settings},
    )


def registered_generator(
    desk: Desk,
    folder: Path,
    text: str,
    *,
    comparison: GeneratorComparison | None = None,
    settings: Mapping[str, object] | None = None,
) -> RegisteredModel:
    """Its files are no model; nothing here loads them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": text}))
    counts = {} if comparison is None else {"comparison": comparison_as_json(comparison)}
    return register(
        desk.settings.models,
        folder,
        role="generator",
        kind="causal_lm",
        version=text,
        origin={"run_id": "r_refresh", "counts": counts, "settings": settings},
    )


def ended_run(
    desk: Desk, folder: Path, kind: str, *, counts: Mapping[str, object], settings: Mapping[str, object] | None = None
) -> tuple[RunFolder, Run]:
    """A run that its job has ended, with an empty set of labels; its model is the caller's to put there."""
    made = RunFolder.create(
        folder,
        run_id=folder.name,
        kind=kind,
        settings={"verifier": "feature"},
        seed=1,
        code_version="test",
        inputs={"labels": labels_table([])},
    )
    made.finish(RunResult("done", counts, ""))
    run = Run(
        RunId(folder.name), kind, "running", str(folder), dict(settings or {}), "lea", desk.now(), None, None, None,
        None, 0, None, "", {},
    )  # fmt: skip
    return made, run
