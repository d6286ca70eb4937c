import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

pytest.importorskip("trl", reason="needs sagedesk[ml]")

import torch
from transformers import AutoTokenizer

from data.errors import JobCancelledError, JobError
from data.records import Recipe, Variant, VariantId
from engine.backends.transformers import TransformersBackend, load_causal_model
from engine.candidate import candidate_from_reply
from engine.jobs.report import Reporter
from engine.prompts import GenerationRequest, in_prompt_order
from engine.tuned_generator import write_mark
from engine.variant_types.demonstration import ORIGINAL
from engine.variant_types.table import VARIANT_TYPES
from training.sft import TokenRow, fine_tune, generator_rows, sft_config
from training.trainer_hooks import last_checkpoint

pytestmark = pytest.mark.model

ROWS = [TokenRow((5, 6, 7, 300 + n % 3, 2), 3) for n in range(16)]
STEPS = {"per_device_train_batch_size": 4, "max_steps": 6, "eval_steps": 2, "save_steps": 2, "learning_rate": 1e-2}


class CancelledAt(Reporter):
    """A person cancels while the step of this number is under way."""

    def __init__(self, events, step):
        super().__init__(events)
        self._step = step

    def progress(self, done, total, message=""):
        if done == self._step:
            self.cancel()
        super().progress(done, total, message)


def tuned(
    base, tmp_path, rows=ROWS, validation=ROWS[:3], *, report=None, lora_rank=4, name="one", stage="", **overrides
):
    return fine_tune(
        base,
        rows,
        validation,
        config=sft_config(tmp_path / f"work-{name}", seed=1, overrides={**STEPS, **overrides}),
        lora_rank=lora_rank,
        goal=tmp_path / name,
        report=report or Reporter(tmp_path / "events.jsonl"),
        stage=stage,
    )


def variant_of(kind):
    shown = VARIANT_TYPES[kind].demonstration
    recipe = Recipe("test", "", "", "{}", 0)
    return Variant(
        VariantId("v"), ORIGINAL.question_id, kind, shown.context, shown.options, shown.answer_index,
        shown.is_control, 0, recipe, None, datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize("lora_rank", [None, 4])
def test_training_lowers_the_loss_and_leaves_a_model_that_loads(tiny_model_folder, tmp_path, lora_rank):
    done = tuned(tiny_model_folder, tmp_path, lora_rank=lora_rank)

    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]
    losses = [event["value"] for event in told if event.get("name") == "validation_loss"]
    model, _ = load_causal_model(tmp_path / "one")
    whole = sum(parameter.numel() for parameter in load_causal_model(tiny_model_folder)[0].parameters())
    assert done.steps == 6
    assert losses[-1] < losses[0]
    assert done.best_validation_loss == min(losses)
    assert (done.trainable_parameters == whole) == (lora_rank is None)
    assert sum(parameter.numel() for parameter in model.parameters()) == whole
    assert model.config.use_cache == load_causal_model(tiny_model_folder)[0].config.use_cache
    assert not list(tmp_path.glob("*.writing"))


def test_figures_of_a_stage_are_no_other_trainings(tiny_model_folder, tmp_path):
    tuned(tiny_model_folder, tmp_path, max_steps=2, stage="imitation")

    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]
    names = {event["name"] for event in told if event["kind"] == "metric"}
    assert {"imitation/loss", "imitation/validation_loss"} <= names
    assert all(name.startswith("imitation/") for name in names)


@pytest.mark.parametrize("step", [3, 5], ids=["in the first epoch", "in a later epoch"])
def test_a_cancelled_training_goes_on_where_it_was_and_ends_as_if_uninterrupted(tiny_model_folder, tmp_path, step):
    tuned(tiny_model_folder, tmp_path, name="whole")
    with pytest.raises(JobCancelledError):
        tuned(tiny_model_folder, tmp_path, report=CancelledAt(tmp_path / "e.jsonl", step))
    assert not (tmp_path / "one").exists()
    assert last_checkpoint(tmp_path / "work-one") == tmp_path / "work-one" / f"checkpoint-{step}"

    done = tuned(tiny_model_folder, tmp_path)

    assert (done.resumed_from_step, done.steps) == (step, 6)
    one, whole = (load_causal_model(tmp_path / name)[0].state_dict() for name in ("one", "whole"))
    assert all(torch.allclose(one[name], whole[name], atol=1e-5) for name in whole)


def test_a_row_that_weighs_nothing_teaches_nothing(tiny_model_folder, tmp_path):
    wrong = [TokenRow((5, 6, 7, 400, 2), 3, weight=0.0) for _ in ROWS]
    with pytest.raises(JobError, match="changed no weight"):
        tuned(tiny_model_folder, tmp_path, wrong, [])

    tuned(
        tiny_model_folder,
        tmp_path,
        [*(replace(row, weight=2.0) for row in ROWS), *wrong],
        [],
        name="both",
        max_steps=40,
    )

    model, _ = load_causal_model(tmp_path / "both")
    last = model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1]
    assert int(last.argmax()) in {300, 301, 302}


def test_training_stops_once_the_validation_loss_rises(tiny_model_folder, tmp_path):
    other = [TokenRow((5, 6, 7, 500, 2), 3)]

    done = tuned(tiny_model_folder, tmp_path, validation=other, max_steps=60, eval_steps=1)

    assert done.steps < 60


def test_the_early_stop_counts_on_after_a_resume(tiny_model_folder, tmp_path):
    other = [TokenRow((5, 6, 7, 500, 2), 3)]
    rising = {"validation": other, "max_steps": 60, "eval_steps": 1}
    whole = tuned(tiny_model_folder, tmp_path, name="whole", **rising)
    with pytest.raises(JobCancelledError):
        tuned(tiny_model_folder, tmp_path, report=CancelledAt(tmp_path / "e.jsonl", whole.steps - 1), **rising)

    done = tuned(tiny_model_folder, tmp_path, **rising)

    assert (done.resumed_from_step, done.steps) == (whole.steps - 1, whole.steps)


def test_a_training_that_diverges_says_so_and_leaves_no_model(tiny_model_folder, tmp_path):
    with pytest.raises(JobError, match="validation loss was never finite; lower the learning rate"):
        tuned(tiny_model_folder, tmp_path, learning_rate=1e30, max_grad_norm=1e30)

    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no row"),
        ([TokenRow((1, 2), 2)], "no completion"),
        ([TokenRow((1, 2), 1, weight=float("nan"))], "weighs nan"),
    ],
)
def test_rows_that_cannot_be_learnt_from_are_refused_before_a_model_is_loaded(tmp_path, rows, message):
    with pytest.raises(JobError, match=message):
        tuned(tmp_path / "no model", tmp_path, rows, [])


@pytest.mark.parametrize("kind", VARIANT_TYPES)
def test_a_generators_row_is_what_inference_reads_and_then_the_reply_with_its_end(tiny_model_folder, tmp_path, kind):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    write_mark(tmp_path, base="tiny")
    backend = TransformersBackend(
        *load_causal_model(tiny_model_folder), model_name="tiny", shares_prefixes=False, is_tuned=True
    )
    variant = variant_of(kind)

    [row] = generator_rows([(ORIGINAL, variant)], tokenizer, max_tokens=4000)

    read = backend._prompt(GenerationRequest("g", ORIGINAL, kind, seed=2))
    text = tokenizer.decode(list(row.tokens[row.completion_start : -1]))
    assert isinstance(text, str)
    said = candidate_from_reply(text)
    assert row.tokens[: row.completion_start] == read.rest
    assert said == in_prompt_order(ORIGINAL, VARIANT_TYPES[kind].demonstration)
    assert row.tokens[-1] == tokenizer.eos_token_id


def test_rows_that_are_too_long_are_left_out(tiny_model_folder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)

    assert generator_rows([(ORIGINAL, variant_of("negation"))], tokenizer, max_tokens=50) == []
