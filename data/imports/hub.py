"""Rows of a Hugging Face dataset, by id or from a folder that `datasets` can read: `hf:ID[#CONFIG][:SPLIT]`."""

from collections.abc import Iterator
from typing import Final

from data.errors import InputError
from data.imports.files import RawItem, rows_of

HUB_PREFIX: Final = "hf:"
_SPLITS: Final = ("validation", "test", "train")


def hub_rows(location: str) -> Iterator[RawItem]:
    """Rows of one split in order; without a split, the first that exists of validation, test, train.

    Raises:
        InputError: the dataset cannot be loaded or has no such split, or `datasets` is not installed.
    """
    try:
        from datasets import load_dataset
    except ImportError as exc:
        raise InputError(f"{location}: {exc.name} is not installed; install sagedesk[ml]") from exc
    named, _, split = location.removeprefix(HUB_PREFIX).partition(":")
    name, _, config = named.partition("#")
    try:
        dataset = load_dataset(name, config or None)
    except Exception as exc:  # datasets raises its own errors, the hub's, and plain OSError and ValueError
        reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
        todo = "name a config, as in hf:ID#CONFIG" if "onfig" in reason else "check the id, the network and your access"
        raise InputError(f"{location}: cannot be loaded: {reason}; {todo}") from exc
    chosen = split or next((known for known in _SPLITS if known in dataset), next(iter(dataset)))
    if chosen not in dataset:
        raise InputError(f"{location} has no split {chosen!r}; use one of {', '.join(dataset)}")
    for number, values in enumerate(dataset[chosen], start=1):
        yield rows_of(values, location, number)
