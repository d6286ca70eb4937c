"""The verifier training job: trains on people's labels and measures the verifier on unseen questions.

inputs/questions.parquet, variants.parquet
inputs/labels.parquet               LABEL_SCHEMA; variants without a label are not used
work/                               checkpoints of a language model's training, to resume from; removed at the end
outputs/model/                      what `engine.verifiers.open_verifier` opens; complete or absent
outputs/report.json                 the run's counts

Weights are trained on the part `train`, early stopping uses `validation`, maps and thresholds `calibration`. Refuses
gate labels.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from data.dimensions import DIMENSIONS
from data.files import write_json
from data.records import Part
from engine.calibration import Calibration
from engine.embedded import EMBEDDED_GENERATOR, is_hub_id, model_folder
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings
from engine.verifiers import verifier_version
from training.labelled_rows import LabelledRows, labelled_parts
from training.verifier_report import VerifierTraining, verifier_training_as_json, verifier_training_from


class TrainVerifierSettings(BaseModel):
    """Settings of a `train-verifier` run.

    `encoder`: for a feature verifier, the sentence encoder's folder; without it there are fewer features. All others
    except `target_precision` are for language models: `base_model` is a folder or hub id, or None for the embedded one;
    `lora_rank` None trains all weights; `sft` holds TRL's own options; `compare_methods` trains both ERA and IRA.
    """

    model_config = ConfigDict(extra="forbid")

    verifier: Literal["feature", "language"] = "feature"
    encoder: str | None = None
    method: Literal["era", "ira"] = "era"
    base_model: str | None = None
    lora_rank: Annotated[int | None, Field(ge=1)] = 16
    target_precision: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    sft: Mapping[str, object] = {}
    compare_methods: bool = False


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Returns a `VerifierTraining` as JSON.

    Raises:
        JobError: a setting is invalid, or a label has no variant or question, or is in the gate part.
        InputError: no labels, too few labels of one answer, or no validation labels.
        ModelError: the encoder or base model cannot be loaded, or the base model cannot be a verifier.
        JobCancelledError: a user stopped it; checkpoints are kept for a resume, and there is no model.
    """
    spec = folder.spec()
    settings = parsed_settings("train-verifier", TrainVerifierSettings, spec.settings)
    model, report_file = folder.outputs / "model", folder.outputs / "report.json"
    if model.is_dir() and report_file.is_file():  # stopped after the last file, before the result
        saved = verifier_training_from(json.loads(report_file.read_text("utf-8")), source=f"the report {report_file}")
        return verifier_training_as_json(saved)
    parts = labelled_parts(folder)
    work = folder.path / "work"
    if settings.verifier == "feature":
        made, measured = _feature(folder, settings, parts, work, spec.seed, report)
    else:
        made, measured = _language(folder, settings, parts, work, spec.seed, report)
    report.check_cancelled()
    counts = verifier_training_as_json(replace(measured, verifier_version=verifier_version(made)))
    write_json(report_file, counts)
    shutil.rmtree(model, ignore_errors=True)
    made.rename(model)
    shutil.rmtree(work, ignore_errors=True)
    return counts


def _feature(
    folder: RunFolder,
    settings: TrainVerifierSettings,
    parts: Mapping[Part, LabelledRows],
    work: Path,
    seed: int,
    report: Reporter,
) -> tuple[Path, VerifierTraining]:
    from engine.embeddings import Encoder
    from training.calibrate import fit_calibration
    from training.feature_verifier import train
    from training.held_out import held_out, held_out_metrics, scored_labels

    if settings.encoder is None:
        report.message("no sentence encoder: training without embeddings", "warning")
    report.progress(0, None, "opening the sentence encoder")
    learnt = parts["train"]
    trained = train(
        learnt.pairs,
        learnt.answers,
        learnt.groups,
        seed=seed,
        encoder=None if settings.encoder is None else Encoder.open(folder.model(settings.encoder)),
        progress=report.progress,
    )
    made = work / "model"
    shutil.rmtree(made, ignore_errors=True)
    trained.verifier.save(made)
    now, asked = datetime.now(UTC), [dimension.key for dimension in DIMENSIONS]
    calibration, validation = (
        scored_labels(trained.verifier, parts[part], asked, now=now, report=report, text=f"judging the {part} labels")
        for part in ("calibration", "validation")
    )
    fit = fit_calibration(calibration, target_precision=settings.target_precision)
    if fit.calibration == Calibration():
        report.message(
            f"{len(parts['calibration'])} calibration labels are too few: the verifier keeps the out-of-fold "
            f"calibration from its own training labels, and 0.5 as threshold"
        )
    else:
        fit.calibration.save(made)
        for it in fit.targets.values():
            if it.note:
                report.message(it.note)
    metrics = None
    if parts["calibration"] or parts["validation"]:
        metrics = held_out_metrics(held_out(fit, parts["calibration"], calibration, parts["validation"], validation))
    return made, VerifierTraining(
        variants=trained.report.variants,
        groups=trained.report.groups,
        targets=trained.report.targets,
        types=trained.report.types,
        with_embeddings=trained.report.with_embeddings,
        held_out=metrics,
        calibration=None if metrics is None else fit.targets,
    )


def _language(
    folder: RunFolder,
    settings: TrainVerifierSettings,
    parts: Mapping[Part, LabelledRows],
    work: Path,
    seed: int,
    report: Reporter,
) -> tuple[Path, VerifierTraining]:
    from training.language_verifier import LanguagePlan, train_language_verifier

    base = settings.base_model
    plan = LanguagePlan(
        base=model_folder(None if base is None else folder.model(base)),
        base_name=_base_name(base),
        method=settings.method,
        compare_methods=settings.compare_methods,
        lora_rank=settings.lora_rank,
        target_precision=settings.target_precision,
        overrides=settings.sft,
        seed=seed,
    )
    return train_language_verifier(parts, plan, work=work, report=report)


def _base_name(base: str | None) -> str:
    """The name of the base in the model's files: not a local path, which would change the model's id."""
    if base is None:
        return EMBEDDED_GENERATOR.title
    return base if is_hub_id(base) else Path(base).name
