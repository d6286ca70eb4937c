"""Fetching the embedded models into the cache. Needs no open desk."""

from collections.abc import Callable
from dataclasses import dataclass

from data.cache import cache_folder
from engine.embedded import EMBEDDED_MODELS, fetch


@dataclass(frozen=True, slots=True)
class FetchedModel:
    name: str
    folder: str


def fetch_embedded(report: Callable[[str], None]) -> list[FetchedModel]:
    """Fetches into the cache, without a desk. Raises ModelError."""
    return [FetchedModel(model.title, str(fetch(model, cache_folder(), report=report))) for model in EMBEDDED_MODELS]
