"""Supervised fine-tuning of a causal language model on token rows, using TRL's SFTTrainer; reads from top to bottom.

Used for generators and language verifiers: a row is the tokens that inference would read, then the tokens it should
generate. Owns loss weights, early stopping, resuming and the resulting folder. Refuses a training that changes nothing.
Left out: packing and padding-free batches, which need FlashAttention; multi-turn rows, which we do not have.
"""

import hashlib
import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from datasets import Dataset
from transformers import EarlyStoppingCallback, PrinterCallback
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from data.errors import InputError, JobError
from data.ids import row_seed
from data.records import Question, Variant
from engine.backends.transformers import load_causal_model
from engine.candidate import Candidate
from engine.jobs.report import Reporter
from engine.prompts import training_messages
from engine.variant_types.table import VARIANT_TYPES
from training.trainer_hooks import METRIC_NAMES, RunHooks, last_checkpoint, trainer_config

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

_IGNORED: Final = -100
"""PyTorch's label for tokens that the loss ignores."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """`tokens[completion_start:]` is what the model should generate after `tokens[:completion_start]`.

    `weight` multiplies the loss of its tokens; weights that average 1 preserve the meaning of the learning rate.
    """

    tokens: tuple[int, ...]
    completion_start: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class FineTuned:
    """`best_validation_loss` is None without validation rows; `resumed_from_step` is 0 for a fresh start."""

    steps: int
    best_validation_loss: float | None
    trainable_parameters: int
    resumed_from_step: int


def sft_config(work: Path, *, seed: int, overrides: Mapping[str, Any]) -> SFTConfig:
    """Our defaults for CPU and GPU under TRL's names, updated by `overrides`; checkpoints go to `work`.

    Raises:
        JobError: SFTConfig does not know an override, or its value is invalid.
    """
    is_gpu = torch.cuda.is_available()
    defaults = {
        "num_train_epochs": 1.0,
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 8,
        "learning_rate": 2e-4,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.05,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "eval_strategy": "steps",
        "eval_steps": 0.1,
        "save_strategy": "steps",
        "save_steps": 0.1,
        "save_total_limit": 2,
        "restore_callback_states_from_checkpoint": True,  # early stopping continues its count after a resume
        "logging_steps": 1,
        # rows of similar length share a batch: on a CPU padding costs as much as text
        "train_sampling_strategy": "group_by_length",
        "max_length": None,
        "use_cpu": not is_gpu,
        "bf16": is_gpu or _has_fast_bf16(),
        "gradient_checkpointing": is_gpu,
        "dataloader_pin_memory": is_gpu,
        "disable_tqdm": True,
        "dataset_kwargs": {"skip_prepare_dataset": True},
    }
    return trainer_config(SFTConfig, work, seed=seed, defaults=defaults, overrides=overrides)


def generator_rows(
    pairs: Sequence[tuple[Question, Variant]], tokenizer: "PreTrainedTokenizerBase", *, max_tokens: int
) -> list[TokenRow]:
    """One row per variant: exactly the tokens that inference reads for a tuned model, the reply, and its end token.

    Rows longer than `max_tokens` are left out, because a truncated reply teaches the model not to end.

    Raises:
        InputError: the tokenizer has no end-of-reply token.
    """
    rows = []
    for question, variant in pairs:
        candidate = Candidate(variant.context, variant.options, variant.answer_index, variant.is_control)
        messages = training_messages(question, VARIANT_TYPES[variant.variant_type], candidate)
        asked = str(tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, tokenize=False))
        prompt = tuple(tokenizer(asked, add_special_tokens=False).input_ids)
        # an imported variant that contains a special token's text must not teach it
        reply = tuple(tokenizer(messages[-1]["content"], add_special_tokens=False, split_special_tokens=True).input_ids)
        whole = str(tokenizer.apply_chat_template(messages, tokenize=False))
        closing = whole.removeprefix(asked + messages[-1]["content"])
        tokens = (*prompt, *reply, _end_token(tokenizer, closing if closing != whole else ""))
        if len(tokens) <= max_tokens:
            rows.append(TokenRow(tokens, len(prompt)))
    if len(rows) < len(pairs):
        logger.warning("%d of %d rows are longer than %d tokens and are left out", *_left(pairs, rows), max_tokens)
    return rows


def fine_tune(
    base: Path,
    rows: Sequence[TokenRow],
    validation: Sequence[TokenRow],
    *,
    config: SFTConfig,
    lora_rank: int | None,
    goal: Path,
    report: Reporter,
    stage: str = "",
    patience: int = 3,
) -> FineTuned:
    """Trains `base` on `rows` and saves the merged model with its tokenizer in `goal`, completely or not at all.

    Continues from the last complete checkpoint in `config.output_dir`. With validation rows it stops once their loss
    has not improved for `patience` evaluations, and keeps the best weights.

    Args:
        lora_rank: rank of the adapters on all linear layers, merged at the end; None trains every weight.
        stage: for runs with several trainings: metrics are then named `STAGE/loss`, and so on.

    Raises:
        JobError: no rows, a row without a completion, or nothing was trained.
        ModelError: `base` must not or cannot be loaded.
        JobCancelledError: a user stopped it; the checkpoint is kept for a resume.
    """
    _refuse_unusable(rows, validation)
    model, tokenizer = load_causal_model(base)
    if lora_rank is None:
        model.float()  # type: ignore[no-untyped-call]  # half-precision weights would lose small updates; bf16 is then left to autocast
    work = Path(str(config.output_dir))
    if not validation or config.eval_strategy == "no":
        validation = ()
        config.eval_strategy, config.load_best_model_at_end = "no", False
    else:
        config.load_best_model_at_end, config.metric_for_best_model = True, "eval_loss"
        config.greater_is_better = False
        # so that the best checkpoint is saved, whatever was overridden
        config.save_strategy = config.eval_strategy
        config.save_steps = config.eval_steps or config.save_steps
    names = {name: f"{stage}/{ours}" if stage else ours for name, ours in METRIC_NAMES.items()}
    hooks = RunHooks(report, total_steps_text=f"fine-tuning on {len(rows)} rows", names=names)
    trainer = WeightedTrainer(
        model,
        config,
        train_dataset=_dataset(rows),
        eval_dataset=_dataset(validation) if validation else None,
        processing_class=tokenizer,
        peft_config=lora_adapters(lora_rank) if lora_rank is not None else None,
        callbacks=[hooks, *([EarlyStoppingCallback(patience)] if validation else [])],
        data_collator=_Collator(tokenizer),
    )
    trainer.remove_callback(PrinterCallback)  # the run's events contain what it would print
    trained_model: Any = trainer.model
    trained = [parameter for parameter in trained_model.parameters() if parameter.requires_grad]
    trainable = sum(parameter.numel() for parameter in trained)
    if not trainable:
        raise JobError(f"fine-tuning {base.name}: no parameter is trainable; use another LoRA rank, or none")
    before = weights_digest(trained)
    checkpoint = last_checkpoint(work)
    resumed = int(checkpoint.name.removeprefix("checkpoint-")) if checkpoint else 0
    if checkpoint:
        report.message(f"fine-tuning continues after step {resumed}")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    hooks.raise_if_cancelled()
    if weights_digest(trained) == before:
        raise JobError(
            f"fine-tuning {base.name}: {trainer.state.global_step} steps changed no weights; raise the learning rate"
        )
    best = trainer.state.best_metric
    if best is not None and not math.isfinite(best):
        raise JobError(f"fine-tuning {base.name}: the validation loss was never finite; lower the learning rate")
    save_model(trained_model, tokenizer, goal)
    return FineTuned(trainer.state.global_step, None if best is None else float(best), trainable, resumed)


def save_model(model: Any, tokenizer: "PreTrainedTokenizerBase", goal: Path) -> None:
    """Safetensors, tokenizer, chat template and generation settings in `goal`, by rename; adapters are merged."""
    plain = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    scratch = goal.with_name(goal.name + ".writing")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    plain.config.use_cache = True  # the trainer turned it off, and the saved config would pass that on
    plain.save_pretrained(str(scratch), safe_serialization=True)
    tokenizer.save_pretrained(str(scratch))
    shutil.rmtree(goal, ignore_errors=True)
    scratch.rename(goal)


class WeightedTrainer(SFTTrainer):
    """SFTTrainer with weighted rows, whose loss covers completions only.

    Without Triton, TRL's fused head projects every position to the vocabulary, including prompts: a quarter of a step
    on a CPU. `logits_to_keep` goes through the model's own forward, so that adapters and wrappers still apply.
    """

    def _set_signature_columns_if_needed(self) -> None:
        if self._signature_columns is None:
            self._signature_columns = ["input_ids", "labels", "weight"]  # type: ignore[assignment]  # typed None

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> torch.utils.data.Sampler[int] | None:
        sampler = super()._get_train_sampler(train_dataset)
        return _OrderOfEpoch(sampler, self.args.seed) if isinstance(sampler, LengthGroupedSampler) else sampler

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Weighted negative log-likelihood, summed and divided by the tokens of the whole step (all micro-batches)."""
        if return_outputs:
            raise NotImplementedError("only the loss is computed; none of our metrics needs logits")
        labels, weights = inputs["labels"], inputs["weight"]
        first = int((labels != _IGNORED).any(dim=0).nonzero()[0])
        kept = torch.arange(first - 1, labels.shape[1] - 1, device=labels.device)
        logits = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            logits_to_keep=kept,
            use_cache=False,
        ).logits
        losses = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), labels[:, first:].flatten(), ignore_index=_IGNORED, reduction="none"
        ).view(len(labels), -1)
        tokens = (labels != _IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        loss = (losses * weights[:, None]).sum() / tokens
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return loss


def _has_fast_bf16() -> bool:
    """Whether this CPU has native bf16: a step then takes 40 % of its fp32 time, on other CPUs five times as long."""
    asked = [getattr(torch.cpu, f"_is_{kind}_supported", None) for kind in ("avx512_bf16", "amx_tile")]
    return any(bool(ask()) for ask in asked if ask is not None)


class _OrderOfEpoch(torch.utils.data.Sampler[int]):
    """Batches rows of similar length in an order drawn from seed and epoch, so that a resumed epoch reads the rest.

    The library draws it from the global generator, whose state at the start of the epoch is in no checkpoint.
    """

    def __init__(self, grouped: LengthGroupedSampler, seed: int) -> None:
        self._grouped = grouped
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The trainer calls it before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._grouped)

    def __iter__(self) -> Iterator[int]:
        self._grouped.generator = torch.Generator().manual_seed(row_seed("order of rows", self._seed, self._epoch))
        return iter(self._grouped)


class _Collator:
    """Pads rows on the right to the longest in the batch."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in rows)

        def padded(values: Sequence[Sequence[int]], filler: int) -> torch.Tensor:
            return torch.tensor([[*value, *[filler] * (width - len(value))] for value in values])

        return {
            "input_ids": padded([row["input_ids"] for row in rows], self._filler),
            "attention_mask": padded([[1] * len(row["input_ids"]) for row in rows], 0),
            "labels": padded([row["labels"] for row in rows], _IGNORED),
            "weight": torch.tensor([row["weight"] for row in rows], dtype=torch.float32),
        }


def _end_token(tokenizer: "PreTrainedTokenizerBase", closing: str) -> int:
    """The special token with which the chat template ends a turn, otherwise the end-of-text token."""
    after = tokenizer(closing, add_special_tokens=False).input_ids[:1] if closing else []
    if after and after[0] in tokenizer.all_special_ids:
        return int(after[0])
    if tokenizer.eos_token_id is None:
        raise InputError("fine-tuning: the tokenizer has no end-of-text token; use an instruction-tuned model")
    return int(tokenizer.eos_token_id)


def _dataset(rows: Sequence[TokenRow]) -> Dataset:
    return Dataset.from_list(
        [
            {
                "input_ids": list(row.tokens),
                "labels": [_IGNORED] * row.completion_start + list(row.tokens[row.completion_start :]),
                "weight": row.weight,
            }
            for row in rows
        ]
    )


def lora_adapters(rank: int) -> Any:
    """Adapters on all linear layers except the head. Raises JobError for a rank below 1."""
    from peft import LoraConfig

    if rank < 1:
        raise JobError(f"fine-tuning: the LoRA rank is {rank}; use 1 or more, or none to train all weights")
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def _refuse_unusable(rows: Sequence[TokenRow], validation: Sequence[TokenRow]) -> None:
    if not rows:
        raise JobError("fine-tuning: there are no rows to learn from; accept or label more variants")
    for row in (*rows, *validation):
        if not 0 < row.completion_start < len(row.tokens):
            raise JobError("fine-tuning: a row has no prompt or no completion; its tokens are not what inference reads")
        if not (math.isfinite(row.weight) and row.weight >= 0):
            raise JobError(f"fine-tuning: a row weighs {row.weight}; weights are finite and not negative")


def weights_digest(parameters: Sequence[torch.nn.Parameter]) -> str:
    """SHA-256 over the values, used to prove that a training changed them."""
    total = hashlib.sha256()
    for parameter in parameters:
        total.update(parameter.detach().float().cpu().numpy().tobytes())
    return total.hexdigest()


def _left(pairs: Sequence[object], rows: Sequence[object]) -> tuple[int, int]:
    return len(pairs) - len(rows), len(pairs)
