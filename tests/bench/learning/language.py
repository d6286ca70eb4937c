"""The embedded language model as a verifier: as it comes, and fine-tuned by ERA and IRA on the same drawn labels.

Training, early stop and calibration are the desk's own. Of the labels four fifths of the questions are learnt from; the
others say when to stop, and then calibrate. Figures are of a part of the test rows, with the feature verifier (which
learns from all of the labels) and the base rate on the very same rows.
"""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from data.records import Part, VerdictTarget
from engine.embeddings import Encoder
from engine.jobs.report import Reporter
from engine.verifiers import open_verifier
from engine.verify import LanguageModelVerifier, Verifier
from tests.bench.learning.generator import base_folder
from tests.bench.learning.stages import Stage, found
from tests.bench.learning.verifier import SEED, by_contract, label_draw, majority, trained
from tests.bench.learning.verifier_figures import Judgements, differences, figures, said_by
from tests.bench.learning.verifier_rows import Drawn, encoder_folder, sides
from training.calibrate import FEWEST_LABELS
from training.held_out import scored_labels
from training.labelled_rows import LabelledRows
from training.language_verifier import LanguagePlan, train_language_verifier
from training.verifier_report import TrainingMethod
from training.verifier_rows import method_targets

TRAININGS: Final[tuple[tuple[TrainingMethod, int], ...]] = (("ira", 100), ("era", 100), ("ira", 300))
"""As far as an hour of two cores goes: a label is three rows of 340 tokens for ERA and one of 420 for IRA."""
SUBSET: Final = 100
EPOCHS: Final = 1
_SFT: Final[Mapping[str, object]] = {
    "num_train_epochs": EPOCHS,
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 4,
    "learning_rate": 1e-4,
    "warmup_steps": 2,
    "eval_steps": 0.5,
    "save_steps": 0.5,
}


def verifier_zero_shot_era(folder: Path) -> Mapping[str, Any]:
    return zero_shot(folder, "era")


def verifier_zero_shot_ira(folder: Path) -> Mapping[str, Any]:
    return zero_shot(folder, "ira")


def zero_shot(folder: Path, method: TrainingMethod) -> Mapping[str, Any]:
    """P(yes) of the embedded model, asked each rubric or all at once, of the subset of test rows."""
    begun = time.process_time()
    opened = LanguageModelVerifier.load(base_folder(), "ira" if method == "ira" else "era_packed")
    said = _asked(opened, subset(folder), method, folder)
    return {"said": said, "cpu_s": round(time.process_time() - begun, 1)}


def verifier_ira_100(folder: Path) -> Mapping[str, Any]:
    return tuned(folder, base_folder(), "ira", 100, _SFT)


def verifier_era_100(folder: Path) -> Mapping[str, Any]:
    return tuned(folder, base_folder(), "era", 100, _SFT)


def verifier_ira_300(folder: Path) -> Mapping[str, Any]:
    return tuned(folder, base_folder(), "ira", 300, _SFT)


def tuned(
    folder: Path, base: Path, method: TrainingMethod, labels: int, overrides: Mapping[str, object]
) -> Mapping[str, Any]:
    """Trains, then asks it of the subset, before its calibration and after."""
    pool, _ = sides(folder, "all")
    parts = _parts(pool.chosen(label_draw(pool, labels, 0)))
    plan = LanguagePlan(
        base=base,
        base_name=base.name,
        method=method,
        compare_methods=False,
        lora_rank=None,
        target_precision=0.95,
        overrides=overrides,
        seed=SEED,
    )
    work = folder / f"verifier-{method}-{labels}"
    begun = time.process_time()
    model, training = train_language_verifier(
        parts, plan, work=work, report=Reporter(folder / f"{work.name}-events.jsonl")
    )
    trained_s = time.process_time() - begun
    opened = open_verifier(model, encoder=None)
    return {
        "method": method,
        "labels": labels,
        "learnt_from": len(parts["train"]),
        "rows": training.rows,
        "steps": training.steps,
        "best_validation_loss": training.best_validation_loss,
        "calibrated_targets": sorted(_calibrated_targets(model)),
        "settings": dict(overrides),
        "training_cpu_s": round(trained_s, 1),
        "said": _asked(opened, subset(folder), method, folder),
        "cpu_s": round(time.process_time() - begun, 1),
    }


def verifier_language(folder: Path) -> Mapping[str, Any]:
    """All of them side by side on the subset, those included that have been run."""
    pool, _ = sides(folder, "all")
    rows, encoder = subset(folder), Encoder.open(encoder_folder())
    asked = {
        **{f"zero-shot {method}": f"verifier_zero_shot_{method}" for method in ("era", "ira")},
        **{f"{method} {labels}": f"verifier_{method}_{labels}" for method, labels in TRAININGS},
    }
    told = {name: found(folder, stage) for name, stage in asked.items() if (folder / f"{stage}.json").exists()}
    tables: dict[str, Judgements] = {"majority": majority(pool, len(rows)), "contract": by_contract(rows)}
    tables |= {name: _arrays(one["said"]) for name, one in told.items()}
    for labels in sorted({labels for _, labels in TRAININGS}):
        drawn = pool.chosen(label_draw(pool, labels, 0))
        tables[f"feature {labels}"] = said_by(trained(drawn, seed=SEED, encoder=encoder), rows)
    untrained = {name: f"zero-shot {name.split()[0]}" for name in told}
    return {
        "rows": len(rows),
        "questions": len(set(rows.groups)),
        "verifiers": {name: figures(rows, [said], seed=SEED) for name, said in tables.items()},
        "spread": {
            name: {target: round(float(np.nanstd(values)), 4) for target, values in said.items()}
            for name, said in tables.items()
        },
        "mean": {
            name: {target: round(float(np.nanmean(values)), 4) for target, values in said.items()}
            for name, said in tables.items()
        },
        "over_zero_shot": {
            name: differences(rows, [tables[before]], [tables[name]], seed=SEED)
            for name, before in untrained.items()
            if before in told
        },
        "language": {name: {key: value for key, value in one.items() if key != "said"} for name, one in told.items()},
    }


def subset(folder: Path) -> Drawn:
    test = sides(folder, "all").test
    return test.chosen(sorted(Random(SEED).sample(range(len(test)), SUBSET)))


def _parts(drawn: Drawn) -> Mapping[Part, LabelledRows]:
    """A fifth of the questions, at random, validates, and calibrates where its labels are enough for a map."""
    names = sorted(set(drawn.groups))
    kept = set(Random(SEED).sample(names, len(names) // 5))
    rows = LabelledRows(drawn.pairs, drawn.answers, drawn.groups)
    held_out = rows.chosen([place for place, group in enumerate(drawn.groups) if group in kept])
    learnt = rows.chosen([place for place, group in enumerate(drawn.groups) if group not in kept])
    calibration = held_out if len(held_out) >= FEWEST_LABELS else held_out.chosen([])
    return {"train": learnt, "validation": held_out, "calibration": calibration}


def _asked(verifier: Verifier, rows: Drawn, method: TrainingMethod, folder: Path) -> Mapping[str, list[float | None]]:
    """P(yes) by target as JSON takes it, None where it was not judged."""
    targets: Sequence[VerdictTarget] = (*method_targets(method), "valid")
    scored = scored_labels(
        verifier,
        LabelledRows(rows.pairs, rows.answers, rows.groups),
        tuple(dict.fromkeys(targets)),
        now=datetime.now(UTC),
        report=Reporter(folder / "verifier-asked-events.jsonl"),
        text=f"asking {verifier.version}",
    )
    return {
        target: [None if np.isnan(one) else round(float(one), 6) for one in values]
        for target, values in scored.probabilities.items()
    }


def _arrays(said: Mapping[VerdictTarget, Sequence[float | None]]) -> Judgements:
    return {target: np.array([np.nan if one is None else one for one in values]) for target, values in said.items()}


def _calibrated_targets(model: Path) -> Sequence[str]:
    file = model / "calibration.json"
    maps: Mapping[str, object] = json.loads(file.read_text("utf-8"))["maps"] if file.exists() else {}
    return list(maps)


STAGES: Final[Mapping[str, Stage]] = {
    "verifier_zero_shot_era": verifier_zero_shot_era,
    "verifier_ira_100": verifier_ira_100,
    "verifier_zero_shot_ira": verifier_zero_shot_ira,
    "verifier_era_100": verifier_era_100,
    "verifier_ira_300": verifier_ira_300,
    "verifier_language": verifier_language,
}
