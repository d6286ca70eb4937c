"""GRPO of a generator with a verifier as the reward, using TRL's GRPOTrainer; reads from top to bottom.

TRL's defaults suit rule-based rewards: here the KL to the start is on, the reward is one function, rewards are scaled
within their group, and truncated replies are masked. Replies are sampled in this process, or by vLLM beside it or on a
server (`vllm_overrides`); the verifier always judges in this process, on its device.
Refuses a training that changes nothing although it had a signal.
Left out: multiple processes; constrained decoding, because a policy has to learn the format itself.
Source: GRPO, arXiv 2402.03300; the reward is ours (`docs/adr/0009-the-reward.md`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from data.errors import JobError, first_line
from data.ids import row_seed
from engine.backends.protocol import Sampling
from engine.backends.transformers import load_causal_model
from engine.jobs.report import Reporter
from engine.prompts import GenerationRequest, Message, asks_for_control, tuned_messages
from engine.variant_types.table import VARIANT_TYPES
from engine.verify import Verifier
from training.grpo_hooks import GRPO_NAMES, Watch
from training.grpo_reward import GroupReward, SampleFile
from training.probe import ProbeItem, probe_rows
from training.rewards import RewardSettings
from training.sft import lora_adapters, save_model, weights_digest
from training.stop_rules import StopRules
from training.trainer_hooks import RunHooks, last_checkpoint, trainer_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

VllmMode = Literal["off", "colocate", "server"]

_LONGEST_PROBE: Final = 1024
_GROUPS_A_STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Tuned:
    """`stop_reason` is empty if all steps were completed. Probe scores are None without a probe before and after."""

    steps: int
    stop_reason: str
    trainable_parameters: int
    resumed_from_step: int
    probe_before: float | None
    probe_after: float | None


def grpo_config(work: Path, *, seed: int, overrides: Mapping[str, Any], has_adapters: bool = False) -> GRPOConfig:
    """Our defaults under TRL's names, updated by `overrides`; checkpoints go to `work`.

    A step is two groups of `num_generations` replies, one per micro-batch, sampled at the inference temperature.

    Args:
        has_adapters: LoRA needs ten times the learning rate of training all weights.

    Raises:
        JobError: GRPOConfig does not know an override, or its value is invalid.
    """
    is_gpu = torch.cuda.is_available()
    group_size = overrides.get("num_generations", 8)
    defaults: dict[str, object] = {
        "max_steps": 100,
        "num_generations": group_size,
        "per_device_train_batch_size": group_size,
        "gradient_accumulation_steps": _GROUPS_A_STEP,
        "beta": 0.02,
        "scale_rewards": "group",
        "mask_truncated_completions": True,
        "temperature": Sampling().temperature,
        "max_completion_length": Sampling().max_new_tokens,
        "learning_rate": 1e-4 if has_adapters else 1e-5,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 0.05,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "save_strategy": "steps",
        "save_steps": 5,  # on a CPU a step takes minutes, and a kill loses everything since the last checkpoint
        "save_total_limit": 2,
        "logging_steps": 1,
        "shuffle_dataset": False,
        "use_cpu": not is_gpu,
        "bf16": is_gpu,
        "gradient_checkpointing": is_gpu,
        "dataloader_pin_memory": is_gpu,
        "disable_tqdm": True,
    }
    return trainer_config(GRPOConfig, work, seed=seed, defaults=defaults, overrides=overrides)


def vllm_overrides(mode: VllmMode, url: str | None) -> dict[str, object]:
    """TRL's settings for sampling replies with vLLM, in the trainer's own process or on a server (docs/training.md).

    Raises:
        JobError: server mode without an address, or an address in another mode.
    """
    if (mode == "server") != (url is not None):
        raise JobError("GRPO: vLLM server mode needs the server's address, and no other mode accepts one; correct vllm")
    if mode == "off":
        return {}
    return {"use_vllm": True, "vllm_mode": mode, **({"vllm_server_base_url": url} if url is not None else {})}


def train_grpo(
    base: Path,
    prompts: Sequence[GenerationRequest],
    verifier: Verifier,
    *,
    config: GRPOConfig,
    settings: RewardSettings,
    lora_rank: int | None,
    stop: StopRules,
    probe: Sequence[ProbeItem],
    goal: Path,
    samples: Path,
    report: Reporter,
    probe_every: int = 10,
) -> Tuned:
    """Trains `base` for `config.max_steps` or until a stop rule applies; saves the merged model in `goal`.

    Continues from the last complete checkpoint in `config.output_dir`; on the CPU a resumed training ends with the same
    result as an uninterrupted one.

    Args:
        prompts: what to sample replies for; the seed of a critical one decides whether it asks for a control.
        probe: human-labelled items, scored every `probe_every` steps; samples are kept at the same interval.
        samples: the JSON Lines file for kept groups.

    Raises:
        JobError: no prompts, nothing scorable, a gradient that is not finite, or weights unchanged despite a signal.
        ModelError: `base` must not or cannot be loaded.
        JobCancelledError: a user stopped it; the checkpoint is kept for a resume.
    """
    if not prompts:
        raise JobError("GRPO: there are no prompts; import more questions, or train on more variant types")
    group_size = config.num_generations
    assert config.output_dir is not None and group_size is not None  # noqa: S101, PT018  (`grpo_config` sets both)
    model, tokenizer = load_causal_model(base)
    if lora_rank is None:
        # half-precision weights would lose small updates; bf16 is then left to autocast
        model.float()  # type: ignore[no-untyped-call]
    prompts = _fitting(prompts, model, tokenizer, config, report)
    checkpoint = last_checkpoint(Path(config.output_dir))
    resumed = int(checkpoint.name.removeprefix("checkpoint-")) if checkpoint else 0
    rows = probe_rows(probe, tokenizer, max_tokens=_LONGEST_PROBE, seed=config.seed)
    if rows is None:
        report.message("no probe: it needs both accepted and rejected items", "warning")
    watch = Watch(stop, report, probe=rows, probe_every=probe_every, verifier=verifier.version)
    hooks = RunHooks(report, total_steps_text="reinforcement (GRPO)", names=GRPO_NAMES)
    reward = GroupReward(
        prompts,
        verifier,
        settings,
        group_size=group_size,
        samples=SampleFile(samples, every=probe_every, after_step=resumed),
    )
    try:
        trainer = GRPOTrainer(
            model,
            reward_funcs=reward,
            args=config,
            train_dataset=_dataset(prompts, config, group_size),
            processing_class=tokenizer,
            peft_config=lora_adapters(lora_rank) if lora_rank is not None else None,
            callbacks=[hooks, watch],
        )
    except (ImportError, OSError) as exc:
        if not config.use_vllm:
            raise
        # no vLLM in this environment, or no server at the address; errors of requests are OSErrors
        reason = first_line(exc)
        raise JobError(
            f"GRPO: vLLM cannot sample replies ({reason}); see docs/training.md, or set vllm to off"
        ) from exc
    trainer.remove_callback(PrinterCallback)  # the run's events contain what it would print
    policy = trainer.model
    assert isinstance(policy, torch.nn.Module)  # noqa: S101  (the trainer has just been given it)
    trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    trainable = sum(parameter.numel() for parameter in trained)
    if not trainable:
        raise JobError(f"GRPO of {base.name}: no parameter is trainable; use another LoRA rank, or none")
    before = weights_digest(trained)
    if checkpoint:
        report.message(f"reinforcement continues after step {resumed}")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    hooks.raise_if_cancelled()
    taught = any(share is not None and share < 1 for share in (e.get("zero_variance_share") for e in watch.history))
    if taught and weights_digest(trained) == before:
        raise JobError(
            f"GRPO of {base.name}: {trainer.state.global_step} steps changed no weights; raise the learning rate"
        )
    save_model(policy, tokenizer, goal)
    probes = [value for entry in watch.history if (value := entry.get("probe")) is not None and math.isfinite(value)]
    return Tuned(
        steps=trainer.state.global_step,
        stop_reason=watch.reason,
        trainable_parameters=trainable,
        resumed_from_step=resumed,
        probe_before=probes[0] if probes else None,
        probe_after=probes[-1] if probes else None,
    )


def prompt_order(prompts: Sequence[GenerationRequest], *, seed: int) -> Iterator[int]:
    """An endless sequence of indices into `prompts`: types take turns, each with its own prompt order.

    Determined by content and seed, so that a resumed training sees the same prompts.
    """
    places: dict[str, list[int]] = {}
    for place, request in enumerate(prompts):
        places.setdefault(request.variant_type, []).append(place)
    for of_type in places.values():
        of_type.sort(key=lambda place: row_seed("prompt order", seed, prompts[place].request_id))
    turn = 0
    while True:
        types = sorted(places)
        Random(row_seed("type order", seed, turn)).shuffle(types)  # noqa: S311  (a reproducible order, not a secret)
        for variant_type in types:
            yield places[variant_type][turn % len(places[variant_type])]
        turn += 1


def _fitting(
    prompts: Sequence[GenerationRequest],
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    config: GRPOConfig,
    report: Reporter,
) -> list[GenerationRequest]:
    """Prompts that leave room for a reply within the model's positions; reports how many do not.

    Raises:
        JobError: none fits.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    room = positions - (config.max_completion_length or 0) if isinstance(positions, int) else math.inf
    kept = [
        request
        for request in prompts
        if len(tokenizer(_prompt_text(tokenizer, request), add_special_tokens=False).input_ids) <= room
    ]
    if not kept:
        raise JobError(
            f"GRPO: no prompt fits into {positions} positions with a reply of {config.max_completion_length} tokens; "
            f"use a smaller max_completion_length, or another base model"
        )
    if left := len(prompts) - len(kept):
        report.message(f"{left} of {len(prompts)} prompts are too long for the model and are left out", "warning")
    return kept


def _prompt_text(tokenizer: "PreTrainedTokenizerBase", request: GenerationRequest) -> str:
    return str(tokenizer.apply_chat_template(_messages(request), add_generation_prompt=True, tokenize=False))


def _messages(request: GenerationRequest) -> list[Message]:
    return tuned_messages(request.question, VARIANT_TYPES[request.variant_type], as_control=asks_for_control(request))


def _dataset(prompts: Sequence[GenerationRequest], config: GRPOConfig, group_size: int) -> Dataset:
    """One row per group and step, in order: a second epoch would be shuffled differently after a resume."""
    a_draw, steps_a_draw = config.generation_batch_size, config.steps_per_generation
    assert a_draw is not None and steps_a_draw is not None  # noqa: S101, PT018  (GRPOConfig derives both)
    draws = math.ceil(config.max_steps * config.gradient_accumulation_steps / (steps_a_draw * config.num_iterations))
    order = prompt_order(prompts, seed=config.seed)
    return Dataset.from_list(
        [
            {"prompt": _messages(prompts[place]), "request": place}
            for place in islice(order, draws * a_draw // group_size)
        ]
    )
