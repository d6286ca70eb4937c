"""The marker of a generator tuned here: `generator.json` in its folder says how to prompt it.

Refuses to guess: a folder without the marker is prompted with a demonstration, like any chat model.
"""

import json
import logging
from pathlib import Path
from typing import Final

from data.errors import ModelError
from engine.prompts import PROMPT_VERSION, TUNED_PROMPT_VERSION

logger = logging.getLogger(__name__)

MARK_NAME: Final = "generator.json"


def write_mark(folder: Path, *, base: str) -> None:
    """Marks the model in `folder` as tuned on the short prompts; `base` is the model it was tuned from."""
    mark = {"prompt": "tuned", "prompt_version": TUNED_PROMPT_VERSION, "base": base}
    (folder / MARK_NAME).write_text(json.dumps(mark, indent=1) + "\n", "utf-8")


def is_tuned(folder: Path) -> bool:
    """Whether the model in `folder` gets the short prompts.

    Raises:
        ModelError: the marker cannot be read, or names an unknown kind of prompt.
    """
    file = folder / MARK_NAME
    if not file.is_file():
        return False
    try:
        mark = json.loads(file.read_text("utf-8"))
        prompt, version = mark["prompt"], mark["prompt_version"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"model folder {folder}: {MARK_NAME} cannot be read ({exc}); train or copy it again") from exc
    if prompt != "tuned":
        raise ModelError(
            f"model folder {folder}: {MARK_NAME} names the prompts {prompt!r}, but only 'tuned' exists; train it again"
        )
    if version != TUNED_PROMPT_VERSION:
        logger.warning(
            "%s was tuned on prompts %s and now gets %s; refresh the generator", folder, version, TUNED_PROMPT_VERSION
        )
    return True


def prompt_version(*, tuned: bool) -> str:
    """The prompt version recorded in recipes."""
    return TUNED_PROMPT_VERSION if tuned else PROMPT_VERSION
