"""Trains a language model as a verifier, by ERA, IRA or both on the same rows; reads from top to bottom.

    WORK/METHOD/checkpoints/    to resume from
    WORK/METHOD/model/          fine-tuned; with verifier.json and calibration.json once evaluated
    WORK/METHOD/fine_tuned.json, counts.json     written when a stage is complete, which is then not repeated

Refuses models that cannot answer yes or no in one token, before any training.
"""

import dataclasses
import gc
import json
import logging
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import TypeAdapter

from data.errors import InputError, ModelError
from data.files import write_json
from data.records import Part
from engine.backends.transformers import load_tokenizer
from engine.calibration import Calibration
from engine.jobs.report import Reporter
from engine.report_json import dumped, loaded
from engine.rubric_prompts import NO, YES
from engine.verifier_metrics import TargetQuality
from engine.verifiers import write_method
from engine.verify import LanguageModelVerifier
from engine.verify_passes import answer_tokens
from training.calibrate import fit_calibration, truths_of
from training.held_out import HeldOut, held_out, held_out_metrics, held_out_quality, scored_labels
from training.labelled_rows import LabelledRows
from training.sft import FineTuned, TokenRow, fine_tune, sft_config
from training.verifier_report import CalibrationReport, TrainingMethod, VerifierTraining
from training.verifier_rows import class_weights, era_rows, ira_rows, method_targets

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

DEFAULTS: Final[Mapping[str, object]] = {"num_train_epochs": 3.0}
"""In addition to those of `training.sft`: an answer is one token, and validation stops overfitting."""


@dataclass(frozen=True, slots=True)
class LanguagePlan:
    """What is trained and how; `base_name` is recorded in the model's files."""

    base: Path
    base_name: str
    method: TrainingMethod
    compare_methods: bool
    lora_rank: int | None
    target_precision: float
    overrides: Mapping[str, object]
    seed: int


@dataclass(frozen=True, slots=True)
class _Judged:
    """One method's figures and its probabilities of validity on the held-out labels, as kept in `counts.json`.

    `valid`: before and after any map, in the order of the labels; None if there was no verdict.
    """

    counts: VerifierTraining
    valid: tuple[tuple[float, float] | None, ...]


_JUDGED: Final = TypeAdapter(_Judged)
_FINE_TUNED: Final = TypeAdapter(FineTuned)


def train_language_verifier(
    parts: Mapping[Part, LabelledRows], plan: LanguagePlan, *, work: Path, report: Reporter
) -> tuple[Path, VerifierTraining]:
    """The folder of the model by `plan.method` inside `work`, and what was measured; its version is still empty.

    With `compare_methods` both methods learn from the same variants, those of which validity is known, and `methods`
    holds what each says of the validity of the same held-out variants.

    Raises:
        InputError: a target has only one answer, or there are no validation labels or no rows that fit the model.
        JobError: an override that TRL does not know.
        ModelError: the base cannot be loaded or cannot be a verifier.
        JobCancelledError: a user stopped it.
    """
    tokenizer = verifier_tokenizer(plan.base)
    parts = _with_known_validity(parts) if plan.compare_methods else parts
    methods: tuple[TrainingMethod, ...] = (plan.method,)
    if plan.compare_methods:
        methods = (plan.method, "ira" if plan.method == "era" else "era")
    for method in methods:
        class_weights(parts["train"].answers, parts["train"].groups, method)  # before hours spent on the other method
    judged = {method: _one_method(parts, plan, method, tokenizer, work / method, report) for method in methods}
    counts = judged[plan.method].counts
    if plan.compare_methods:
        unseen = [*parts["calibration"].answers, *parts["validation"].answers]
        methods_compared = _compared({method: it.valid for method, it in judged.items()}, truths_of(unseen, "valid"))
        counts = dataclasses.replace(counts, methods=methods_compared)
    return work / plan.method / "model", counts


def verifier_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model that can be a verifier.

    Raises:
        ModelError: it cannot be read, or splits yes or no into several tokens.
    """
    tokenizer = load_tokenizer(folder)
    answer_tokens(tokenizer, yes=YES, no=NO)
    return tokenizer


def _one_method(
    parts: Mapping[Part, LabelledRows],
    plan: LanguagePlan,
    method: TrainingMethod,
    tokenizer: "PreTrainedTokenizerBase",
    work: Path,
    report: Reporter,
) -> _Judged:
    """Fine-tuned, evaluated on held-out labels, calibrated; stages finished by an earlier start are reused."""
    work.mkdir(parents=True, exist_ok=True)
    model, kept_file = work / "model", work / "counts.json"
    if kept_file.is_file():
        return loaded(_JUDGED, json.loads(kept_file.read_text("utf-8")), source=f"the stage's report {kept_file}")
    train, validation = parts["train"], parts["validation"]
    weights = class_weights(train.answers, train.groups, method)
    make = ira_rows if method == "ira" else era_rows
    longest = _longest(plan.base)
    rows = _fitting(make(train.pairs, train.answers, tokenizer, weights), longest, "train", report)
    unseen = _fitting(make(validation.pairs, validation.answers, tokenizer, weights), longest, "validation", report)
    if not unseen:
        raise InputError(
            "training a verifier: there are no validation labels, so early stopping is impossible; "
            "label variants of more questions, or train a feature verifier"
        )
    fine_tuned = _fine_tuned(plan, rows, unseen, model, work, report)
    found, calibration = _calibrate(parts, plan, method, model, report)
    metrics = held_out_metrics(found)
    counts = VerifierTraining(
        variants=len(train),
        groups=len(set(train.groups)),
        targets=metrics.targets,
        types=metrics.types,
        method=method,
        rows=len(rows),
        steps=fine_tuned.steps,
        best_validation_loss=fine_tuned.best_validation_loss,
        trainable_parameters=fine_tuned.trainable_parameters,
        resumed_from_step=fine_tuned.resumed_from_step,
        held_out=metrics,
        calibration=calibration,
    )
    both = zip(found.raw["valid"].tolist(), found.mapped["valid"].tolist(), strict=True)
    judged = _Judged(counts, tuple(None if math.isnan(raw) else (raw, mapped) for raw, mapped in both))
    write_json(kept_file, dumped(_JUDGED, judged))
    return judged


def _fine_tuned(
    plan: LanguagePlan,
    rows: Sequence[TokenRow],
    validation: Sequence[TokenRow],
    model: Path,
    work: Path,
    report: Reporter,
) -> FineTuned:
    kept_file = work / "fine_tuned.json"
    if kept_file.is_file():
        return loaded(_FINE_TUNED, json.loads(kept_file.read_text("utf-8")), source=f"the stage's report {kept_file}")
    config = sft_config(work / "checkpoints", seed=plan.seed, overrides={**DEFAULTS, **plan.overrides})
    fine_tuned = fine_tune(
        plan.base,
        rows,
        validation,
        config=config,
        lora_rank=plan.lora_rank,
        goal=model,
        report=report,
        stage=work.name if plan.compare_methods else "",
    )
    write_json(kept_file, dumped(_FINE_TUNED, fine_tuned))
    shutil.rmtree(work / "checkpoints", ignore_errors=True)
    gc.collect()  # a trainer is full of reference cycles, and the next model needs its memory
    return fine_tuned


def _calibrate(
    parts: Mapping[Part, LabelledRows],
    plan: LanguagePlan,
    method: TrainingMethod,
    model: Path,
    report: Reporter,
) -> tuple[HeldOut, CalibrationReport]:
    """Writes `verifier.json` and `calibration.json`."""
    verifier = _opened(model, method, plan.base_name, report)
    asked, now = method_targets(method), datetime.now(UTC)
    calibration, validation = (
        scored_labels(verifier, parts[part], asked, now=now, report=report, text=f"judging the {part} labels")
        for part in ("calibration", "validation")
    )
    fit = fit_calibration(calibration, target_precision=plan.target_precision)
    if fit.calibration != Calibration():
        fit.calibration.save(model)
    for it in fit.targets.values():
        if it.note:
            report.message(it.note)
    return held_out(fit, parts["calibration"], calibration, parts["validation"], validation), fit.targets


def _opened(model: Path, method: TrainingMethod, base_name: str, report: Reporter) -> LanguageModelVerifier:
    """With `verifier.json` beside it: packed if the model's attention respects our mask, otherwise separate."""
    if method == "ira":
        write_method(model, "ira", base=base_name)
        return LanguageModelVerifier.load(model, "ira")
    try:
        write_method(model, "era_packed", base=base_name)
        return LanguageModelVerifier.load(model, "era_packed")
    except ModelError as exc:
        report.message(f"{exc}; using era_separate", "warning")
        write_method(model, "era_separate", base=base_name)
        return LanguageModelVerifier.load(model, "era_separate")


def _with_known_validity(parts: Mapping[Part, LabelledRows]) -> dict[Part, LabelledRows]:
    return {
        part: rows.chosen([row for row, answer in enumerate(rows.answers) if answer.is_valid is not None])
        for part, rows in parts.items()
    }


def _fitting(rows: Sequence[TokenRow], longest: int, part: str, report: Reporter) -> list[TokenRow]:
    fitting = [row for row in rows if len(row.tokens) <= longest]
    if len(fitting) < len(rows):
        report.message(
            f"{len(rows) - len(fitting)} of {len(rows)} {part} rows are longer than the model's {longest} tokens "
            f"and are left out",
            "warning",
        )
    return fitting


def _longest(base: Path) -> int:
    """The maximum number of tokens the model reads."""
    positions: Any = json.loads((base / "config.json").read_text("utf-8")).get("max_position_embeddings")
    return positions if isinstance(positions, int) else 1 << 30


def _compared(
    valid: Mapping[TrainingMethod, Sequence[tuple[float, float] | None]], truths: Sequence[bool | None]
) -> dict[TrainingMethod, TargetQuality]:
    """Each method's figures on validity, for the variants that all methods judged."""
    rows = [
        n for n, truth in enumerate(truths) if truth is not None and all(it[n] is not None for it in valid.values())
    ]
    if not rows:
        return {}
    answers = np.array([bool(truths[row]) for row in rows])
    figures: dict[TrainingMethod, TargetQuality] = {}
    for method, of_method in valid.items():
        both = np.array([of_method[row] for row in rows], dtype=float)
        figures[method] = held_out_quality("valid", answers, both[:, 0], both[:, 1])
    return figures
