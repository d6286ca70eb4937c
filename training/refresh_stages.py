"""The three stages of a refresh: imitation (SFT), practice (GRPO), comparison. Each returns its part of the report.

Owns translating settings into TRL's, and which verifier does what. Checks nothing itself: the job and the trainers do.
Libraries that take seconds to load are imported by the stage that needs them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from data.ids import row_seed
from data.records import Question
from engine.backends.protocol import Sampling
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, embedded_folder, is_hub_id
from engine.generate import generation_requests
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.tuned_generator import write_mark
from engine.verifiers import open_verifier
from training.comparison_report import GeneratorComparison
from training.judges import given_or_trained
from training.refresh_inputs import RefreshInputs
from training.refresh_report import Imitation, Practice
from training.refresh_settings import RefreshGeneratorSettings
from training.rewards import RewardSettings
from training.stop_rules import StopRules

if TYPE_CHECKING:
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.sft_config import SFTConfig

_LONGEST_ROW: Final = 1024
"""Tokens of a prompt with its reply; HellaSwag-Pro's longest take about 600."""


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """What the stages share. `base` is the verified folder of the old model; `work` has what a resume needs."""

    folder: RunFolder
    settings: RefreshGeneratorSettings
    inputs: RefreshInputs
    base: Path
    work: Path
    seed: int
    report: Reporter

    @property
    def reward_verifier(self) -> Path:
        return self.folder.model(self.settings.reward_verifier)

    @property
    def base_name(self) -> str:
        """The name of the base in the model's files: not a local path, which would change the model's id."""
        named = self.settings.base_model
        if named is None:
            return EMBEDDED_GENERATOR.title
        return named if is_hub_id(named) else Path(named).name


def refuse_unfit_configs(plan: RefreshPlan) -> None:
    """Raises JobError for options unknown to or rejected by TRL, in any stage: before hours of training."""
    if not plan.settings.sft.skip:
        imitation_config(plan)
    if plan.settings.grpo.steps:
        practice_config(plan)


def refuse_unfit_base(plan: RefreshPlan) -> None:
    """Raises ModelError for a base without a tokenizer or a chat template."""
    from engine.backends.transformers import load_tokenizer, require_chat_template

    require_chat_template(load_tokenizer(plan.base), plan.base)


def imitate(plan: RefreshPlan, goal: Path) -> Imitation:
    """Fine-tunes the base on accepted variants, with early stopping on those of validation questions, if any."""
    from engine.backends.transformers import load_tokenizer
    from training.sft import fine_tune, generator_rows

    tokenizer = load_tokenizer(plan.base)
    rows, validation = (
        generator_rows(pairs, tokenizer, max_tokens=_LONGEST_ROW)
        for pairs in (plan.inputs.accepted, plan.inputs.validation)
    )
    if too_long := len(plan.inputs.accepted) - len(rows):
        plan.report.message(
            f"{too_long} of {len(plan.inputs.accepted)} accepted variants are longer than {_LONGEST_ROW} tokens and "
            f"are left out of supervised training",
            "warning",
        )
    if not validation:
        plan.report.message(
            "no accepted variant of a validation question: supervised training runs without early stopping", "warning"
        )
    tuned = fine_tune(
        plan.base,
        rows,
        validation,
        config=imitation_config(plan),
        lora_rank=plan.settings.sft.lora_rank,
        goal=goal,
        report=plan.report,
        stage="imitation",
    )
    write_mark(goal, base=plan.base_name)
    return Imitation(**asdict(tuned), rows=len(rows), validation_rows=len(validation))


def practise(plan: RefreshPlan, start: Path, goal: Path) -> Practice:
    """Trains `start` with GRPO on questions of the train part."""
    from training.grpo import train_grpo

    verifier = open_verifier(plan.reward_verifier, encoder=embedded_folder(EMBEDDED_ENCODER))
    prompts = list(generation_requests(plan.inputs.prompts, plan.settings.types, per_question=2, seed=plan.seed))
    tuned = train_grpo(
        start,
        prompts,
        verifier,
        config=practice_config(plan),
        settings=RewardSettings(),
        lora_rank=plan.settings.sft.lora_rank,
        stop=StopRules(),
        probe=plan.inputs.probe,
        goal=goal,
        samples=plan.folder.outputs / "samples.jsonl",
        report=plan.report,
    )
    write_mark(goal, base=plan.base_name)
    return Practice(**asdict(tuned), prompts=len(prompts), reward_verifier=verifier.version)


def imitation_config(plan: RefreshPlan) -> "SFTConfig":
    """TRL's settings of the imitation. Raises JobError if they are invalid."""
    from training.sft import sft_config

    return sft_config(plan.work / "sft", seed=plan.seed, overrides=plan.settings.sft.model_extra or {})


def practice_config(plan: RefreshPlan) -> "GRPOConfig":
    """TRL's settings of the practice. Raises JobError if they are invalid."""
    from training.grpo import grpo_config, vllm_overrides

    settings = plan.settings.grpo
    overrides = {
        "max_steps": settings.steps,
        "num_generations": settings.group_size,
        **vllm_overrides(settings.vllm.mode, settings.vllm.url),
        **settings.overrides,
    }
    return grpo_config(
        plan.work / "grpo", seed=plan.seed, overrides=overrides, has_adapters=plan.settings.sft.lora_rank is not None
    )


def compare(plan: RefreshPlan, made: Path) -> GeneratorComparison:
    """Compares the base and the new model on the same held-out questions, with a judge other than the reward."""
    from engine.backends import backend_class
    from training.comparison import compare_generators

    judge = given_or_trained(
        None if plan.settings.judge is None else plan.folder.model(plan.settings.judge),
        plan.reward_verifier,
        plan.inputs.judge_labels,
        encoder=embedded_folder(EMBEDDED_ENCODER),
        seed=plan.seed,
        warn=partial(plan.report.message, level="warning"),
    )
    opened = backend_class("transformers").open
    before, after = (opened({"model": str(folder)}) for folder in (plan.base, made))
    return compare_generators(
        before,
        after,
        held_out_questions(plan.inputs.held_out, plan.settings.comparison.questions, seed=plan.seed),
        plan.settings.types,
        per_question=plan.settings.comparison.per_question,
        sampling=Sampling(),
        judge=judge,
        seed=plan.seed,
        report=plan.report,
        parts=plan.work / "comparison",
    )


def held_out_questions(questions: Sequence[Question], count: int, *, seed: int) -> list[Question]:
    """At most `count`, chosen by content and seed."""
    return sorted(questions, key=lambda question: row_seed("comparison", seed, question.question_id))[:count]
