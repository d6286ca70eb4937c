"""The generator backend interface: requests in, replies out, in order, none dropped."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from data.records import VariantTypeKey
from engine.prompts import GenerationRequest


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are sampled. `temperature` 0 is greedy; `max_new_tokens` limits the reply."""

    temperature: float = 0.8
    top_p: float = 0.95
    max_new_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Reply:
    """A backend's answer to one request: raw text, or why there is none. Tokens are counted by the backend."""

    request_id: str
    text: str
    failure: Literal["", "unsupported", "error", "truncated"]
    detail: str
    prompt_tokens: int
    generated_tokens: int


class GeneratorBackend(Protocol):
    """A way of writing variants. `model` (name and version) and `prompt_version` are recorded in recipes."""

    model: str
    prompt_version: str

    @property
    def name(self) -> str: ...

    def supported_types(self) -> frozenset[VariantTypeKey]: ...

    def generate(self, requests: Iterable[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        """One reply per request, in the order of `requests`; on failure, a Reply with `failure` set.

        Raises:
            BackendError: nothing can be generated at all (no model, no server).
        """
        ...
