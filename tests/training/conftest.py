from pathlib import Path

import pytest

from tests.training.small_worlds import BROKEN, CONTROL, QUESTION, variant_of


@pytest.fixture(scope="session")
def writer(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model after it learnt two replies by heart: one passes its contract, the other lacks an option."""
    pytest.importorskip("trl", reason="needs sagedesk[ml]")
    from engine.backends.transformers import load_causal_model
    from engine.jobs.report import Reporter
    from training.sft import fine_tune, generator_rows, sft_config

    folder = tmp_path_factory.mktemp("writer")
    _, tokenizer = load_causal_model(tiny_model_folder)
    pairs = [(QUESTION, variant_of(CONTROL)), (QUESTION, variant_of(BROKEN))]
    overrides = {"max_steps": 150, "learning_rate": 5e-3, "save_strategy": "no", "lr_scheduler_type": "linear"}
    fine_tune(
        tiny_model_folder,
        generator_rows(pairs, tokenizer, max_tokens=999),
        [],
        config=sft_config(folder / "work", seed=0, overrides=overrides),
        lora_rank=None,
        goal=folder / "model",
        report=Reporter(folder / "events.jsonl"),
    )
    return folder / "model"
