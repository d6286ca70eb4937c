"""The generator's stages: the embedded model as it is, after fine-tuning, after training by reward.

Questions are split once: those learnt from, those that prompt training by reward, those that the reward verifier and
those that the judge learnt from, and the held-out ones on which the three generators are compared.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from data.records import VARIANT_TYPE_KEYS, Question, Variant
from engine.embedded import EMBEDDED_GENERATOR, embedded_folder
from engine.jobs.report import Reporter
from engine.tuned_generator import write_mark
from tests.bench.learning.corruption import accepted, of_questions, question_ids
from tests.bench.learning.stages import Stage

SEED: Final = 7
TUNED_ON: Final = slice(0, 400)
VALIDATED_ON: Final = slice(400, 420)
PROMPTED_WITH: Final = slice(420, 520)
REWARD_LEARNT_FROM: Final = slice(520, 600)
JUDGE_LEARNT_FROM: Final = slice(600, 700)
HELD_OUT: Final = slice(700, 800)

_ROWS_A_TYPE: Final = 92
_VALIDATION_ROWS: Final = 28
_MOST_TOKENS: Final = 280
_SFT: Final[Mapping[str, object]] = {
    "num_train_epochs": 1,
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 4,
    "learning_rate": 2e-4,
    "warmup_steps": 4,
    "eval_steps": 20,
    "save_steps": 20,
}


def base_folder() -> Path:
    """Raises FileNotFoundError until `make setup` has fetched the embedded model."""
    folder = embedded_folder(EMBEDDED_GENERATOR)
    if folder is None:
        raise FileNotFoundError("the embedded generator is not there; run `make setup`")
    return folder


def questions(part: slice) -> list[Question]:
    """One record a question, in the order of the split."""
    return list({pair[0].question_id: pair[0] for pair in of_questions(accepted(), question_ids()[part])}.values())


def sft(folder: Path) -> Mapping[str, Any]:
    """Fine-tunes every weight on accepted variants, as many of each type; leaves `sft-model`."""
    from transformers import AutoTokenizer

    from training.sft import fine_tune, generator_rows, sft_config

    base = base_folder()
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    learnt = _of_each_type(of_questions(accepted(), question_ids()[TUNED_ON]), _ROWS_A_TYPE)
    validated = _of_each_type(
        of_questions(accepted(), question_ids()[VALIDATED_ON]), _VALIDATION_ROWS // len(VARIANT_TYPE_KEYS)
    )
    rows = generator_rows(learnt, tokenizer, max_tokens=_MOST_TOKENS)
    validation = generator_rows(validated, tokenizer, max_tokens=_MOST_TOKENS)
    done = fine_tune(
        base,
        rows,
        validation,
        config=sft_config(folder / "sft-work", seed=SEED, overrides=dict(_SFT)),
        lora_rank=None,
        goal=folder / "sft-model",
        report=Reporter(folder / "sft-events.jsonl"),
    )
    write_mark(folder / "sft-model", base=base.name)
    return {
        "rows": len(rows),
        "questions": len({question.question_id for question, _ in learnt}),
        "tokens": sum(len(row.tokens) for row in rows),
        "rows_by_type": dict(Counter(variant.variant_type for _, variant in learnt)),
        "steps": done.steps,
        "best_validation_loss": done.best_validation_loss,
        "trainable_parameters": done.trainable_parameters,
    }


def _of_each_type(pairs: Sequence[tuple[Question, Variant]], each: int) -> list[tuple[Question, Variant]]:
    rng = Random(SEED)
    chosen = []
    for kind in VARIANT_TYPE_KEYS:
        of_type = [pair for pair in pairs if pair[1].variant_type == kind]
        chosen += rng.sample(of_type, min(each, len(of_type)))
    return chosen


STAGES: Final[Mapping[str, Stage]] = {"sft": sft}
