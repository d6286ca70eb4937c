"""The generator's stages: the embedded model as it is, after fine-tuning, after reinforcement (GRPO).

Questions are split once: those learnt from, those that prompt GRPO, those that the reward verifier and
those that the judge learnt from, and the held-out ones on which the three generators are compared.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from pydantic import TypeAdapter

from data.records import VARIANT_TYPE_KEYS, Question, Variant, VariantTypeKey
from engine.backends.protocol import Sampling
from engine.embedded import EMBEDDED_ENCODER, EMBEDDED_GENERATOR, embedded_folder
from engine.generate import generation_requests
from engine.jobs.report import Reporter
from engine.report_json import dumped
from engine.tuned_generator import write_mark
from engine.verifier_metrics import TargetQuality
from tests.bench.learning.corruption import accepted, labelled, of_questions, question_ids, rows_by_corruption
from tests.bench.learning.stages import Stage, told_s
from training.comparison import Trial, compared, figures, generator_trial, own_interval
from training.probe import ProbeItem

_QUALITY: Final = TypeAdapter(TargetQuality)
SEED: Final = 7
TUNED_ON: Final = slice(0, 400)
VALIDATED_ON: Final = slice(400, 420)
PROMPTED_WITH: Final = slice(420, 520)
REWARD_LEARNT_FROM: Final = slice(520, 600)
JUDGE_LEARNT_FROM: Final = slice(600, 700)
HELD_OUT: Final = slice(700, 800)

HELD_OUT_QUESTIONS: Final = 24
SAMPLING: Final = Sampling()
"""As the desk draws by default."""
GENERATORS: Final = ("base", "sft", "grpo")
RATES: Final = ("contract_pass_rate", "accepted_per_1000_tokens")
GRPO_TYPES: Final[tuple[VariantTypeKey, ...]] = ("reverse", "causal", "refinement", "negation")
"""Those of which a fine-tuned model passes some replies of a group and fails others: nothing else teaches."""

_ROWS_A_TYPE: Final = 130
_VALIDATION_ROWS: Final = 28
_MOST_TOKENS: Final = 260
_SFT: Final[Mapping[str, object]] = {
    "num_train_epochs": 1,
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 4,
    "learning_rate": 3e-4,
    "warmup_steps": 4,
    "eval_steps": 20,
    "save_steps": 20,
}
_GRPO: Final[Mapping[str, object]] = {
    "max_steps": 45,
    "num_generations": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-5,
    "warmup_steps": 2,
    "top_p": 0.95,
    "max_completion_length": 200,
    "bf16": True,
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
        "trained_s": told_s(folder / "sft-events.jsonl"),
        "trainable_parameters": done.trainable_parameters,
    }


def verifiers(folder: Path) -> Mapping[str, Any]:
    """Trains the reward verifier and the judge, on corruptions of questions that nothing else here has seen."""
    from engine.embeddings import Encoder
    from training.feature_verifier import train

    encoder = Encoder.open(_encoder_folder())
    told: dict[str, Any] = {}
    for name, part, seed in (("reward", REWARD_LEARNT_FROM, SEED), ("judge", JUDGE_LEARNT_FROM, SEED + 1)):
        rows = labelled(question_ids()[part], seed=seed)
        trained = train(
            [(row.question, row.variant) for row in rows],
            [row.answers for row in rows],
            [row.question.question_id for row in rows],
            seed=seed,
            encoder=encoder,
        )
        trained.verifier.save(folder / name)
        told[name] = {
            "labels": len(rows),
            "questions": len({row.question.question_id for row in rows}),
            "by_corruption": dict(rows_by_corruption(rows)),
            "targets": {target: dumped(_QUALITY, quality) for target, quality in trained.report.targets.items()},
            "version": trained.verifier.version,
        }
    return told


def grpo(folder: Path) -> Mapping[str, Any]:
    """Trains the fine-tuned model by the reward verifier; leaves `grpo-model` and `grpo-samples.jsonl`."""
    from engine.verifiers import open_verifier
    from training.grpo import grpo_config, train_grpo
    from training.rewards import RewardSettings
    from training.stop_rules import StopRules

    prompts = list(generation_requests(questions(PROMPTED_WITH), GRPO_TYPES, per_question=1, seed=SEED))
    done = train_grpo(
        folder / "sft-model",
        prompts,
        open_verifier(folder / "reward", encoder=_encoder_folder()),
        config=grpo_config(folder / "grpo-work", seed=SEED, overrides=dict(_GRPO)),
        settings=RewardSettings(),
        lora_rank=None,
        stop=StopRules(),
        probe=_probe(),
        goal=folder / "grpo-model",
        samples=folder / "grpo-samples.jsonl",
        report=Reporter(folder / "grpo-events.jsonl"),
    )
    write_mark(folder / "grpo-model", base=base_folder().name)
    return {
        **asdict(done),
        "settings": dict(_GRPO),
        "types": list(GRPO_TYPES),
        "prompts": len(prompts),
        "trained_s": told_s(folder / "grpo-events.jsonl"),
    }


def compare_sft(folder: Path) -> Mapping[str, Any]:
    """What fine-tuning changed, question by question."""
    return {"sft over base": _differences(folder, "base", "sft")}


def compare_grpo(folder: Path) -> Mapping[str, Any]:
    """What GRPO changed, and both together."""
    return {
        "grpo over sft": _differences(folder, "sft", "grpo"),
        "grpo over sft, trained types": _differences(folder, "sft", "grpo", only=GRPO_TYPES),
        "grpo over base": _differences(folder, "base", "grpo"),
    }


def trial_base(folder: Path) -> Mapping[str, Any]:
    """The embedded model as it comes, with the desk's prompt and its demonstration."""
    return _as_json(_trial(folder, "base"))


def trial_sft(folder: Path) -> Mapping[str, Any]:
    return _as_json(_trial(folder, "sft"))


def trial_grpo(folder: Path) -> Mapping[str, Any]:
    return _as_json(_trial(folder, "grpo"))


def _trial(folder: Path, generator: str) -> Trial:
    """Replies are kept in `trial-GENERATOR`, so that a second call asks nothing again."""
    from engine.backends.transformers import TransformersBackend
    from engine.verifiers import open_verifier

    model = base_folder() if generator == "base" else folder / f"{generator}-model"
    # the demonstration's states are copied for every row: 32 rows of them took more memory than a small machine has
    backend = TransformersBackend.open({"model": str(model), "batch_size": 8 if generator == "base" else 32})
    held_out = questions(HELD_OUT)[:HELD_OUT_QUESTIONS]
    return generator_trial(
        backend,
        list(generation_requests(held_out, VARIANT_TYPE_KEYS, per_question=1, seed=SEED)),
        sampling=SAMPLING,
        judge=open_verifier(folder / "judge", encoder=_encoder_folder()),
        report=Reporter(folder / f"trial-{generator}-events.jsonl"),
        parts=folder / f"trial-{generator}",
        text=generator,
    )


def _differences(
    folder: Path, before: str, after: str, *, only: Sequence[VariantTypeKey] = VARIANT_TYPE_KEYS
) -> Mapping[str, Any]:
    trials = [
        replace(trial, outcomes=tuple(it for it in trial.outcomes if it.variant_type in only))
        for trial in (_trial(folder, name) for name in (before, after))
    ]
    return {key: asdict(change) for key, change in compared(*trials, per_question=1, seed=SEED).difference.items()}


def _as_json(trial: Trial) -> Mapping[str, Any]:
    told: dict[str, Any] = {}
    for key in ("all", *VARIANT_TYPE_KEYS):
        outcomes = [outcome for outcome in trial.outcomes if key in ("all", outcome.variant_type)]
        intervals = {name: own_interval(outcomes, name, seed=SEED) for name in RATES}
        told[key] = {
            **asdict(figures(outcomes)),
            "intervals": {name: None if found is None else asdict(found) for name, found in intervals.items()},
            "failed_checks": dict(Counter(check for outcome in outcomes for check in outcome.failed_checks)),
        }
    return told


def _probe() -> list[ProbeItem]:
    """Accepted and corrupted variants of questions that are no prompts and no verifier has learnt from."""
    rows = labelled(question_ids()[VALIDATED_ON], seed=SEED)
    return [ProbeItem(row.question, row.variant, bool(row.answers.is_valid)) for row in rows]


def _encoder_folder() -> Path:
    folder = embedded_folder(EMBEDDED_ENCODER)
    if folder is None:
        raise FileNotFoundError("the embedded encoder is not there; run `make setup`")
    return folder


def _of_each_type(pairs: Sequence[tuple[Question, Variant]], each: int) -> list[tuple[Question, Variant]]:
    rng = Random(SEED)
    chosen = []
    for kind in VARIANT_TYPE_KEYS:
        of_type = [pair for pair in pairs if pair[1].variant_type == kind]
        chosen += rng.sample(of_type, min(each, len(of_type)))
    return chosen


STAGES: Final[Mapping[str, Stage]] = {
    "verifiers": verifiers,
    "trial_base": trial_base,
    "sft": sft,
    "trial_sft": trial_sft,
    "compare_sft": compare_sft,
    "grpo": grpo,
    "trial_grpo": trial_grpo,
    "compare_grpo": compare_grpo,
}
