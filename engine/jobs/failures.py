"""Why a job failed, in one line for the user. Refuses to hide a bug: an unknown cause is reported as unexpected."""

import errno
import sys
from collections.abc import Iterator
from typing import Final

from data.errors import SagedeskError
from engine.jobs.folder import RunFolder

NO_RESULT_STATUS: Final = 4
"""Exit status of a job that could not write its result."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# safetensors and PyTorch report a full disk in their own words, without an error number
_FULL_IN_WORDS: Final = ("No space left on device", "PytorchStreamWriter failed writing")
_NO_GPU_MEMORY: Final = ("OutOfMemoryError", "AcceleratorError")


def failure(exc: Exception, folder: RunFolder) -> str:
    """What went wrong, and what to do next."""
    if isinstance(exc, SagedeskError):
        return str(exc)
    if is_full_disk(exc):
        return f"the disk is full: nothing more can be written to {folder.path}; free disk space, then resume the run"
    if isinstance(exc, ModuleNotFoundError):
        missing = f"{exc.name} is not installed for {sys.executable}, which runs the jobs"
        return f"{missing}; install it there (docs/worker.md)"
    if isinstance(exc, MemoryError):
        return "out of memory; use a smaller batch or model"
    if isinstance(exc, OSError):
        return f"{exc.strerror or exc}: {exc.filename or folder.path}"
    if type(exc).__name__ in _NO_GPU_MEMORY and "out of memory" in str(exc):
        return (
            "out of GPU memory; use a smaller batch, shorter texts or a smaller model (docs/training.md), then resume"
        )
    return f"unexpected {type(exc).__name__}: {exc}; see {folder.log}"


def is_full_disk(exc: BaseException) -> bool:
    """Whether the error, or one of its causes, says so."""
    return any(
        (isinstance(one, OSError) and one.errno in _FULL) or any(words in str(one) for words in _FULL_IN_WORDS)
        for one in _chain(exc)
    )


def _chain(exc: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        exc = exc.__cause__ or exc.__context__
