"""Generation through any OpenAI-compatible endpoint: concurrent requests, retries with backoff, cost estimates.

Owns one endpoint's HTTP. The key comes from the environment or the caller, is sent in one header and never shown.
If a server rejects an optional field (response_format, max_tokens, seed), the request is repeated without it.
"""

import logging
import math
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Annotated, ClassVar, Final

import httpx
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from data.errors import BackendError
from data.records import VARIANT_TYPE_KEYS, VariantTypeKey
from engine.backends.protocol import Reply, Sampling
from engine.backends.reply_schema import reply_schema
from engine.prompts import PROMPT_VERSION, GenerationRequest, request_messages

logger = logging.getLogger(__name__)

KEY_VARIABLE: Final = "SAGEDESK_OPENAI_API_KEY"
URL_VARIABLE: Final = "SAGEDESK_OPENAI_BASE_URL"

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_RETRIED: Final = frozenset({408, 409, 425, 429})
_REFUSED: Final = frozenset({401, 403, 404, 405})
_OPTIONAL_FIELDS: Final = ("response_format", "max_tokens", "seed")
_MESSAGE_TOKENS: Final = 4  # a chat message costs about four tokens beside its text


class OpenAISettings(BaseModel):
    """An endpoint's settings in a run. The key is not among them: a run folder contains no secrets."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: Annotated[str, Field(min_length=1)]
    base_url: Annotated[str, Field(pattern=r"^https?://")] = "https://api.openai.com/v1"
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    attempts: Annotated[int, Field(ge=1, le=20)] = 6


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """An estimate from text lengths, made before a run. `cost_at_most` is in the currency of the prices."""

    requests: int
    prompt_tokens_estimate: int
    generated_tokens_at_most: int
    cost_at_most: float


class _TryAgain(Exception):  # noqa: N818  (a signal inside this module, never seen outside)
    def __init__(self, reason: str, wait_s: float | None = None, *, is_unreachable: bool = False) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.is_unreachable = is_unreachable


class OpenAIBackend:
    """One endpoint and model; safe to iterate from one thread, while its requests run in several."""

    name: ClassVar[str] = "openai"
    prompt_version: ClassVar[str] = PROMPT_VERSION

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        api_key: SecretStr | None = None,
        sleep: Callable[[float], object] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.model = settings.model
        self._settings = settings
        self._key = api_key
        self._given_up = threading.Event()
        self._sleep = sleep or self._given_up.wait
        self._rng = rng or random.Random()  # noqa: S311  (spreads retries, not a secret)
        self._lock = threading.Lock()
        self._declined: frozenset[str] = frozenset()
        self._url = settings.base_url.rstrip("/") + "/chat/completions"
        self._shown_url = str(httpx.URL(self._url).copy_with(username=None, password=None, query=None))
        headers = {"Authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}
        limits = httpx.Limits(max_connections=settings.concurrency)
        self._client = httpx.Client(headers=headers, timeout=settings.timeout_s, limits=limits)

    @classmethod
    def open(cls, settings: Mapping[str, object]) -> "OpenAIBackend":
        """Settings as in OpenAISettings; address and key also from SAGEDESK_OPENAI_BASE_URL and _API_KEY.

        Raises:
            BackendError: a setting is missing or invalid.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        if "base_url" not in given and (address := os.environ.get(URL_VARIABLE)):
            given["base_url"] = address
        try:
            parsed = OpenAISettings.model_validate(given)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "settings"
            raise BackendError(f"backend openai: setting {where}: {first['msg']}; correct it") from exc
        key = os.environ.get(KEY_VARIABLE)
        return cls(parsed, api_key=SecretStr(key) if key else None)

    def supported_types(self) -> frozenset[VariantTypeKey]:
        return frozenset(VARIANT_TYPE_KEYS)

    def generate(self, requests: Iterable[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        """Replies in order, with `concurrency` requests at a time and a few more queued.

        Raises:
            BackendError: the key or address is rejected, or the server cannot be reached.
        """
        self._given_up.clear()
        pending = iter(requests)
        running: deque[Future[Reply]] = deque()
        pool = ThreadPoolExecutor(self._settings.concurrency, thread_name_prefix="openai")
        try:
            for request in islice(pending, 2 * self._settings.concurrency):
                running.append(pool.submit(self._reply, request, sampling))
            while running:
                yield running.popleft().result()
                for request in islice(pending, 1):
                    running.append(pool.submit(self._reply, request, sampling))
        finally:
            self._given_up.set()  # ends the waits between attempts if the caller stops early
            pool.shutdown(wait=False, cancel_futures=True)

    def _reply(self, request: GenerationRequest, sampling: Sampling) -> Reply:
        reason = ""
        for attempt in range(1, self._settings.attempts + 1):
            try:
                return self._ask(request, sampling)
            except _TryAgain as again:
                reason = self._redacted(str(again))
                if attempt == self._settings.attempts:
                    if again.is_unreachable:
                        raise BackendError(
                            f"backend openai: {self._shown_url} cannot be reached ({reason}); "
                            f"check the address and that the server is running"
                        ) from again
                    break
                wait_s = self._wait_s(attempt, again.wait_s)
                logger.info("request %s: %s; trying again in %.1f s", request.request_id, reason, wait_s)
                self._sleep(wait_s)
                if self._given_up.is_set():
                    break
        detail = f"no usable answer after {self._settings.attempts} attempts: {reason}"
        return Reply(request.request_id, "", "error", detail, 0, 0)

    def _wait_s(self, attempt: int, asked_s: float | None) -> float:
        """Doubling with jitter, but never shorter than the server asked for."""
        with self._lock:
            spread = self._rng.uniform(0.5, 1.5)
        own = min(_FIRST_WAIT_S * 2.0 ** (attempt - 1) * spread, _LONGEST_WAIT_S)
        return max(own, min(asked_s or 0.0, _LONGEST_WAIT_S))

    def _ask(self, request: GenerationRequest, sampling: Sampling) -> Reply:
        """One exchange, repeated at once while the server rejects optional fields. Raises _TryAgain, BackendError."""
        while True:
            declined = self._declined
            try:
                response = self._client.post(self._url, json=_body(request, sampling, self.model, declined))
            except httpx.TimeoutException as exc:
                raise _TryAgain(f"no answer within {self._settings.timeout_s:g} s ({type(exc).__name__})") from exc
            except (httpx.ConnectError, httpx.UnsupportedProtocol) as exc:
                raise _TryAgain(str(exc) or type(exc).__name__, is_unreachable=True) from exc
            except (httpx.HTTPError, httpx.InvalidURL) as exc:
                raise _TryAgain(str(exc) or type(exc).__name__) from exc
            if response.is_success:
                return self._reply_from(request, response, sampling)
            if response.status_code in {400, 422} and self._declines_more(response.text, declined):
                continue
            return self._failure(request, response)

    def _reply_from(self, request: GenerationRequest, response: httpx.Response, sampling: Sampling) -> Reply:
        try:
            completion = _Completion.model_validate_json(response.content)
        except ValidationError as exc:
            shown = response.text[:60].replace("\n", " ")
            raise _TryAgain(f"the server answered {shown!r}, which is not a chat completion") from exc
        choice, usage = completion.choices[0], completion.usage or _Usage()
        counts = (usage.prompt_tokens, usage.completion_tokens)
        text = choice.message.content or ""
        if choice.finish_reason == "length":
            detail = f"the reply has no end within {sampling.max_new_tokens} tokens; allow more"
            return Reply(request.request_id, text, "truncated", detail, *counts)
        if choice.finish_reason == "content_filter" or choice.message.refusal:
            detail = f"the model declined: {choice.message.refusal or 'content filter'}"
            return Reply(request.request_id, text, "error", self._redacted(detail), *counts)
        return Reply(request.request_id, text, "", "", *counts)

    def _failure(self, request: GenerationRequest, response: httpx.Response) -> Reply:
        answer = self._redacted(response.text[:200].replace("\n", " "))
        if response.status_code in _REFUSED:
            raise BackendError(
                f"backend openai: {self._shown_url} answered {response.status_code} ({answer}); "
                f"check {KEY_VARIABLE}, the address and the model name {self.model!r}"
            )
        if response.status_code in _RETRIED or response.status_code >= 500:
            raise _TryAgain(f"the server answered {response.status_code} ({answer})", retry_after_s(response.headers))
        return Reply(request.request_id, "", "error", f"the server answered {response.status_code} ({answer})", 0, 0)

    def _declines_more(self, answer: str, declined: frozenset[str]) -> bool:
        """Whether the answer complains about an optional field that was sent; it is omitted from now on."""
        named = next((field for field in _OPTIONAL_FIELDS if field not in declined and field in answer), None)
        if named is None:
            return False
        with self._lock:
            if named not in self._declined:
                self._declined |= {named}
                logger.warning("%s rejects %s; continuing without it", self._shown_url, named)
        return True

    def _redacted(self, text: str) -> str:
        key = self._key.get_secret_value() if self._key else ""
        return text.replace(key, "***") if key else text


def cost_estimate(
    requests: Iterable[GenerationRequest], sampling: Sampling, *, price_in: float, price_out: float
) -> CostEstimate:
    """A run's estimated cost; prices are per million tokens. A token is four ASCII characters or one other."""
    count = prompt_tokens = 0
    for request in requests:
        count += 1
        prompt_tokens += sum(_MESSAGE_TOKENS + _tokens(message["content"]) for message in request_messages(request))
    generated = count * sampling.max_new_tokens
    cost = (prompt_tokens * price_in + generated * price_out) / 1_000_000
    return CostEstimate(count, prompt_tokens, generated, cost)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header, in either of its forms; None if it is absent or invalid."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            then = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _tokens(text: str) -> int:
    ascii_characters = sum(character.isascii() for character in text)
    return math.ceil(ascii_characters / 4) + len(text) - ascii_characters


def _body(request: GenerationRequest, sampling: Sampling, model: str, declined: frozenset[str]) -> dict[str, object]:
    schema = {"name": "variant", "strict": True, "schema": reply_schema(request, sampling.max_new_tokens)}
    # newer OpenAI models reject the name that every other server knows
    length = "max_completion_tokens" if "max_tokens" in declined else "max_tokens"
    body: dict[str, object] = {
        "model": model,
        "messages": request_messages(request),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        length: sampling.max_new_tokens,
        "seed": request.seed,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    return {name: value for name, value in body.items() if name not in declined}


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None
