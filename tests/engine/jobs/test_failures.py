"""Why a job failed, in words for a person."""

import errno
from pathlib import Path

import pytest

from data.errors import ModelError
from engine.jobs.failures import failure, is_full_disk
from engine.jobs.folder import RunFolder


class OutOfMemoryError(RuntimeError):
    """As PyTorch's own is called."""


def chained(outer: Exception, inner: Exception) -> Exception:
    outer.__context__ = inner
    return outer


@pytest.mark.parametrize(
    ("exc", "says"),
    [
        (ModelError("no model at x; fetch it"), "no model at x; fetch it"),
        (ModuleNotFoundError("No module named 'vllm'", name="vllm"), "vllm is not installed for "),
        (MemoryError(), "out of memory; use a smaller batch or model"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "Permission denied: /x"),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB"), "out of GPU memory; use a smaller batch"),
        (ValueError("three"), "unexpected ValueError: three; see "),
    ],
)
def test_a_failure_is_one_line_that_says_what_to_do(tmp_path: Path, exc: Exception, says: str) -> None:
    told = failure(exc, RunFolder(tmp_path))

    assert told.startswith(says)
    assert "\n" not in told


@pytest.mark.parametrize(
    "exc",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        Exception("Error while serializing: I/O error: No space left on device (os error 28)"),
        chained(RuntimeError("unexpected pos 576 vs 534"), RuntimeError("PytorchStreamWriter failed writing file d")),
    ],
    ids=["full", "quota", "safetensors", "torch"],
)
def test_a_full_disk_is_told_whoever_met_it(tmp_path: Path, exc: Exception) -> None:
    assert is_full_disk(exc)
    assert failure(exc, RunFolder(tmp_path)).startswith("the disk is full")


def test_another_error_is_no_full_disk() -> None:
    assert not is_full_disk(chained(RuntimeError("one"), OSError(errno.EACCES, "Permission denied")))
