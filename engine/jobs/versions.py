"""The libraries that affect a job's results, with their versions in the interpreter that runs it."""

import importlib.metadata
import platform
from contextlib import suppress
from typing import Final

VERSIONS_FILE: Final = "versions.json"
"""Written to a run's outputs by the process that worked there last."""

LIBRARIES: Final = ("numpy", "scipy", "scikit-learn", "torch", "transformers", "tokenizers", "trl", "peft", "vllm")


def library_versions() -> dict[str, str]:
    """Installed versions by distribution, and Python's own."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
