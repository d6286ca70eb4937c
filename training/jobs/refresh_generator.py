"""The generator refresh job: imitation of accepted variants (SFT), practice with a reward (GRPO), comparison.

inputs/                     see `training.refresh_inputs`
work/sft/, work/grpo/       checkpoints, to resume from
work/sft-model/, ...        a stage's model; once work/sft.json, ... exists the stage is finished and not repeated
outputs/samples.jsonl       groups of replies from GRPO, with their rewards
outputs/comparison.json     old and new generator on the same held-out questions
outputs/model/              safetensors, tokenizer and generator.json; complete or absent
outputs/report.json         the run's counts

Gate questions are only used for the comparison. The reward verifier and the judge of the comparison differ.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter

from data.errors import JobError
from data.files import write_json
from engine.embedded import model_folder
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings
from engine.model_safety import folder_fingerprint
from engine.report_json import dumped, loaded
from engine.verifiers import verifier_version
from training.comparison_report import GeneratorComparison
from training.judges import refuse_the_reward
from training.refresh_inputs import RefreshInputs, refresh_inputs
from training.refresh_report import (
    GeneratorTraining,
    Imitation,
    Practice,
    generator_training_as_json,
    generator_training_from,
)
from training.refresh_settings import RefreshGeneratorSettings
from training.refresh_stages import RefreshPlan, compare, imitate, practise, refuse_unfit_base, refuse_unfit_configs

T = TypeVar("T")

_IMITATION: Final = TypeAdapter(Imitation)
_PRACTICE: Final = TypeAdapter(Practice)
_COMPARISON: Final = TypeAdapter(GeneratorComparison)


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Returns a `GeneratorTraining` as JSON.

    Raises:
        JobError: a setting is invalid, or there is nothing to learn from, compare on or score.
        ModelError: a model cannot be loaded.
        JobCancelledError: a user stopped it; finished stages and checkpoints are kept for a resume.
    """
    spec = folder.spec()
    settings = parsed_settings("refresh-generator", RefreshGeneratorSettings, spec.settings)
    model, report_file, work = folder.outputs / "model", folder.outputs / "report.json", folder.path / "work"
    if model.is_dir() and report_file.is_file():  # stopped after the last file, before the result
        shutil.rmtree(work, ignore_errors=True)
        saved = generator_training_from(json.loads(report_file.read_text("utf-8")), source=f"the report {report_file}")
        return generator_training_as_json(saved)
    inputs = refresh_inputs(folder, frozenset(settings.types))
    _refuse_unusable(folder, settings, inputs)
    base = model_folder(None if settings.base_model is None else folder.model(settings.base_model))
    work.mkdir(exist_ok=True)
    plan = RefreshPlan(folder, settings, inputs, base, work, spec.seed, report)
    refuse_unfit_base(plan)
    refuse_unfit_configs(plan)
    made, imitated, practised = base, None, None
    if not settings.sft.skip:
        made = work / "sft-model"
        imitated = _once(_IMITATION, work / "sft.json", lambda: imitate(plan, work / "sft-model"))
        shutil.rmtree(work / "sft", ignore_errors=True)  # a checkpoint takes three times the model's space
    if settings.grpo.steps:
        start, made = made, work / "grpo-model"
        practised = _once(_PRACTICE, work / "grpo.json", lambda: practise(plan, start, work / "grpo-model"))
        shutil.rmtree(work / "grpo", ignore_errors=True)
    report.check_cancelled()
    compared = _once(_COMPARISON, folder.outputs / "comparison.json", lambda: compare(plan, made))
    training = GeneratorTraining(
        generator_version=f"generator:{folder_fingerprint(made)[:12]}",
        steps=0 if practised is None else practised.steps,
        stop_reason="" if practised is None else practised.stop_reason,
        comparison=compared,
        sft=imitated,
        grpo=practised,
    )
    counts = generator_training_as_json(training)
    write_json(report_file, counts)
    shutil.rmtree(model, ignore_errors=True)
    made.rename(model)
    shutil.rmtree(work, ignore_errors=True)
    return counts


def _once(adapter: TypeAdapter[T], kept: Path, stage: Callable[[], T]) -> T:
    """A stage's report, from now or from before the run was resumed."""
    if not kept.is_file():
        write_json(kept, dumped(adapter, stage()))
    return loaded(adapter, json.loads(kept.read_text("utf-8")), source=f"the stage's report {kept}")


def _refuse_unusable(folder: RunFolder, settings: RefreshGeneratorSettings, inputs: RefreshInputs) -> None:
    """Raises JobError for problems that would otherwise only appear after hours of training."""
    if settings.sft.skip and not settings.grpo.steps:
        raise JobError("refresh-generator: both training stages are switched off; switch at least one on")
    if not settings.sft.skip and not inputs.accepted:
        raise JobError("refresh-generator: there are no accepted variants of these types; accept some, or skip SFT")
    if settings.grpo.steps and not inputs.prompts:
        raise JobError("refresh-generator: there are no questions for GRPO; import more")
    if not inputs.held_out:
        raise JobError("refresh-generator: there are no held-out questions for the comparison; import more questions")
    reward = folder.model(settings.reward_verifier)
    verifier_version(reward)
    if settings.judge is not None:
        refuse_the_reward(folder.model(settings.judge), reward)
