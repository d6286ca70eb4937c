"""The model-free backend: instant variants of the types that a program can write faithfully. Refuses all others."""

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import ClassVar, Final

from data.records import VariantTypeKey
from engine.backends.protocol import Reply, Sampling
from engine.candidate import reply_text
from engine.prompts import PROMPT_VERSION, GenerationRequest
from engine.variant_types.table import VARIANT_TYPES
from engine.variant_types.variant_type import Refusal

RULES_VERSION: Final = "rules-1"
"""Incremented whenever a recipe makes a different candidate from the same request."""


class RulesBackend:
    """The recipes of `engine.variant_types`; uses a request's seed and ignores the sampling settings."""

    name: ClassVar[str] = "rules"
    prompt_version: ClassVar[str] = PROMPT_VERSION

    def __init__(self) -> None:
        self.model = RULES_VERSION

    @classmethod
    def open(cls, settings: Mapping[str, object]) -> "RulesBackend":  # noqa: ARG003  (every backend's signature)
        """Has no settings; all keys are ignored."""
        return cls()

    def supported_types(self) -> frozenset[VariantTypeKey]:
        return frozenset(key for key, kind in VARIANT_TYPES.items() if kind.write is not None)

    def generate(self, requests: Iterable[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:  # noqa: ARG002  (GeneratorBackend)
        """One reply per request, in order; what it cannot write faithfully is "unsupported", with the reason."""
        return map(_reply, requests)


def _reply(request: GenerationRequest) -> Reply:
    kind = VARIANT_TYPES[request.variant_type]
    if kind.write is None:
        return _unsupported(request, f"the rules backend cannot make {kind.name}: {kind.write_refusal}")
    made = kind.write(request.question, request.distractor_questions, Random(request.seed))  # noqa: S311  (samples, not secrets)
    if isinstance(made, Refusal):
        return _unsupported(request, f"{kind.name}: {made.reason}")
    return Reply(request.request_id, reply_text(made), "", "", prompt_tokens=0, generated_tokens=0)


def _unsupported(request: GenerationRequest, reason: str) -> Reply:
    return Reply(request.request_id, "", "unsupported", reason, prompt_tokens=0, generated_tokens=0)
