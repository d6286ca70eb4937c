"""The table of generator backends. Heavy libraries are imported inside a backend's own module, when it is opened."""

import importlib
from collections.abc import Mapping
from typing import Final, Protocol, cast

from data.errors import BackendError
from engine.backends.protocol import GeneratorBackend

BACKENDS: Final[Mapping[str, str]] = {
    "rules": "engine.backends.rules:RulesBackend",
    "transformers": "engine.backends.transformers:TransformersBackend",
    "openai": "engine.backends.openai_http:OpenAIBackend",
    "vllm": "engine.backends.vllm:VllmBackend",
}


class BackendClass(Protocol):
    """What the table names: a class that opens itself from its own settings ("model", "base_url", ...)."""

    def open(self, settings: Mapping[str, object]) -> GeneratorBackend:
        """Raises BackendError or ModelError if a setting is missing or wrong, or the model cannot be loaded."""
        ...


def backend_class(name: str) -> BackendClass:
    """The class behind `name`.

    Raises:
        BackendError: the name is unknown (the message lists the known ones), or a required library is missing.
    """
    try:
        module, attribute = BACKENDS[name].split(":")
    except KeyError:
        raise BackendError(f"unknown generator backend {name!r}; use one of {', '.join(BACKENDS)}") from None
    try:
        # Only this table names classes by text; the backends' contract suite checks each of them.
        return cast(BackendClass, getattr(importlib.import_module(module), attribute))
    except ImportError as exc:
        raise BackendError(
            f"generator backend {name!r} cannot be used here: {exc}; install its extra, or use another backend"
        ) from exc
