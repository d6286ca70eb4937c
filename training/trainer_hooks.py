"""What all our trainers share: the run's metrics and progress, cancellation, and checkpoints to resume from.

Owns the marker of a complete checkpoint, and building a trainer's config from a run's settings. Refuses to train.
"""

import dataclasses
import json
import logging
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import transformers
from transformers.trainer import TRAINER_STATE_NAME

from data.errors import JobCancelledError, JobError, first_line
from data.files import write_json
from engine.jobs.report import Reporter

logger = logging.getLogger(__name__)

CHECKPOINT_MARK: Final = "complete"
"""A file in a checkpoint's folder, written after everything else; a folder without it is incomplete."""

METRIC_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "loss": "loss",
        "eval_loss": "validation_loss",
        "learning_rate": "learning_rate",
        "grad_norm": "grad_norm",
    }
)
"""The trainer's name of a metric -> the run's."""

_SET_BY_THE_RUN: Final = frozenset(
    {"output_dir", "seed", "report_to", "push_to_hub", "hub_token", "resume_from_checkpoint", "deepspeed", "fsdp"}
)

_Config = TypeVar("_Config", bound=transformers.TrainingArguments)


class RunHooks(transformers.TrainerCallback):
    """Turns a trainer's events into the run's, and a cancellation into a checkpoint and a stop.

    `names` selects which of the trainer's metrics are reported, and under which name. After `train()` the caller must
    call `raise_if_cancelled()`: the trainer itself ends a cancelled training as if it were done.
    """

    def __init__(
        self, report: Reporter, *, total_steps_text: str = "", names: Mapping[str, str] = METRIC_NAMES
    ) -> None:
        """`total_steps_text`: describes the steps in progress messages ("fine-tuning the generator")."""
        self._report = report
        self._text = total_steps_text
        self._names = names
        self.is_cancelled = False

    def on_log(
        self,
        args: transformers.TrainingArguments,  # noqa: ARG002  (the callback's own signature)
        state: transformers.TrainerState,
        control: transformers.TrainerControl,  # noqa: ARG002
        logs: Mapping[str, float | None] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        for name, value in (logs or {}).items():
            if name not in self._names or value is None:  # TRL's value for a step without such a figure
                continue
            if math.isfinite(value):
                self._report.metric(self._names[name], float(value), state.global_step)
            else:
                self._report.message(f"{self._names[name]} is {value} at step {state.global_step}", "warning")

    def on_step_end(
        self,
        args: transformers.TrainingArguments,  # noqa: ARG002  (the callback's own signature)
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        try:
            self._report.progress(state.global_step, state.max_steps, self._text)
        except JobCancelledError:
            self.is_cancelled = True
            control.should_save = True
            control.should_training_stop = True

    def on_save(
        self,
        args: transformers.TrainingArguments,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        (folder / CHECKPOINT_MARK).write_text(f"{state.global_step}\n", "utf-8")

    def raise_if_cancelled(self) -> None:
        """Raises JobCancelledError if a user stopped the training; its last checkpoint is kept for a resume."""
        if self.is_cancelled:
            raise JobCancelledError("cancelled by a user")


def last_checkpoint(work: Path) -> Path | None:
    """The latest complete checkpoint under `work`; incomplete ones are removed.

    Its reference to the best checkpoint is updated to `work`, because the run folder may have moved.
    """
    whole: dict[int, Path] = {}
    for folder in work.glob("checkpoint-*"):
        steps = folder.name.removeprefix("checkpoint-")
        if steps.isdigit() and (folder / CHECKPOINT_MARK).is_file():
            whole[int(steps)] = folder
        else:
            logger.warning("checkpoint %s is incomplete and was removed", folder)
            shutil.rmtree(folder, ignore_errors=True)
    if not whole:
        return None
    last = whole[max(whole)]
    file = last / TRAINER_STATE_NAME
    if file.is_file():
        state = json.loads(file.read_text("utf-8"))
        best = state.get("best_model_checkpoint")
        if best and best != (here := str(work / Path(best).name)):
            write_json(file, {**state, "best_model_checkpoint": here})
    return last


def trainer_config(
    config_class: type[_Config], work: Path, *, seed: int, defaults: Mapping[str, object], overrides: Mapping[str, Any]
) -> _Config:
    """The trainer's own config: our defaults, then the user's overrides under TRL's names.

    Uses one GPU, the first one visible through CUDA_VISIBLE_DEVICES.

    Raises:
        JobError: an unknown name, one that the run sets itself, or an invalid value.
    """
    kind = config_class.__name__
    known = {field.name for field in dataclasses.fields(config_class) if field.init}
    for name in overrides:
        if name in _SET_BY_THE_RUN:
            raise JobError(f"{kind}: {name} is set by the run itself; leave it out")
        if name not in known:
            near = sorted(other for other in known if name.lower() in other or other in name.lower())[:3]
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; use a name of TRL's {kind}"
            raise JobError(f"{kind}: there is no setting {name!r}{hint}")
    settings = {**defaults, **overrides, "output_dir": str(work), "seed": seed, "report_to": "none"}
    try:
        config = config_class(**settings)
    except (ValueError, TypeError, KeyError, ImportError) as exc:
        reason = first_line(exc)
        raise JobError(f"{kind}: the settings are invalid ({reason}); correct them") from exc
    config._n_gpu = min(config.n_gpu, 1)  # the library would use all visible GPUs, and has no setting for it
    return config
