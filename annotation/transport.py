"""One call to Label Studio through its SDK: retried where that helps, with every failure in our own words.

No answer, 5xx, 429, and HTML or a truncated body instead of JSON are retried a limited number of times with jitter,
then raise LabelStudioUnavailableError. A 401 is retried once with a fresh token. Other 4xx are left to the caller.
"""

from collections.abc import Callable, Mapping
from json import JSONDecodeError
from random import Random
from typing import Final, TypeVar

import httpx
from label_studio_sdk.core import ApiError, ParsingError
from label_studio_sdk.core.http_response import BaseHttpResponse
from pydantic import ValidationError

from annotation.sdk import Sdk, Sent, as_sent
from data.errors import LabelStudioError, LabelStudioRejectedError, LabelStudioUnavailableError

ATTEMPTS: Final = 4
_CONNECT_TIMEOUT_S: Final = 5.0
_SILENCES_AT_MOST: Final = 2  # each costs a full timeout
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 20.0
_ADVICE: Final[Mapping[int, str]] = {
    httpx.codes.UNAUTHORIZED: "the token is rejected; set LABEL_STUDIO_API_KEY to a valid one",
    httpx.codes.FORBIDDEN: "the token's user may not do this; use an administrator's token",
    httpx.codes.NOT_FOUND: "not found; check LABEL_STUDIO_URL",
}

T = TypeVar("T")


class Transport:
    """Calls to one server with one token."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        rng: Random,
        transport: httpx.BaseTransport | None,
        sleep: Callable[[float], None],
        read_timeout_s: float,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._rng = rng
        self._sleep = sleep
        timeout = httpx.Timeout(read_timeout_s, connect=_CONNECT_TIMEOUT_S)
        self._http = httpx.Client(transport=transport, timeout=timeout, follow_redirects=False)
        self._sdk: Sdk | None = None

    def close(self) -> None:
        self._http.close()

    def call(self, what: str, ask: Callable[[Sdk], T], *, attempts: int = ATTEMPTS) -> T:
        """Returns the result of `ask`.

        Args:
            what: what is being done, for the error's message.
            ask: makes one call of the SDK; may be run again. The SDK's models are unchecked: an AttributeError or
                TypeError from reading one means an answer of an unexpected shape.
            attempts: 1 for a call that must not run twice.

        Raises:
            LabelStudioUnavailableError: no final answer within the attempts; a call with `attempts` 1 may
                have been carried out nevertheless.
            LabelStudioRejectedError: a 4xx, or the token cannot be renewed.
            LabelStudioError: an answer of an unexpected shape.
        """
        try:
            return self._ask(what, ask, attempts)
        except ApiError as exc:
            raise self._rejected(
                what, exc
            ) from None  # its text contains the answer's headers, including a session cookie

    def sent(self, what: str, ask: Callable[[Sdk], BaseHttpResponse], *, attempts: int = ATTEMPTS) -> Sent:
        """Like `call`, but returns the answer as it was sent."""
        return self.call(what, lambda sdk: as_sent(ask(sdk)), attempts=attempts)

    def sent_or_none(self, what: str, ask: Callable[[Sdk], BaseHttpResponse], *, none_at: int | None) -> Sent | None:
        """Like `sent`; None if the server answers with the status `none_at`."""
        try:
            return self._ask(what, lambda sdk: as_sent(ask(sdk)), ATTEMPTS)
        except ApiError as exc:
            if exc.status_code == none_at and not _is_from_renewal(exc):
                return None
            raise self._rejected(what, exc) from None

    def _ask(self, what: str, ask: Callable[[Sdk], T], attempts: int) -> T:
        """Raises ApiError if the answer is final."""
        silences = 0
        has_fresh_token = False
        attempt = 0
        while True:
            attempt += 1
            wait_s = _FIRST_WAIT_S * 2 ** (attempt - 1)
            try:
                if self._sdk is None:
                    self._sdk = Sdk(self._url, self._api_key, self._http)
                return ask(self._sdk)
            except httpx.TimeoutException as exc:
                silences += 1
                problem = f"no answer within the timeout ({type(exc).__name__})"
            except httpx.HTTPError as exc:
                problem = f"no complete answer ({type(exc).__name__}: {exc})"
            except ApiError as exc:
                if exc.status_code == httpx.codes.UNAUTHORIZED and not has_fresh_token:
                    # An access token is valid for 300 s by the server's clock, which may differ from ours.
                    has_fresh_token = True
                    self._sdk = None
                    attempt -= 1
                    continue
                problem = _passing_problem(exc)
                if not problem:
                    raise
                wait_s = max(wait_s, _retry_after_s(exc))
            except (JSONDecodeError, UnicodeDecodeError, ValidationError) as exc:
                # From the SDK's token renewal, or bytes that are not text.
                problem = f"an answer that is not JSON ({type(exc).__name__})"
            except (ParsingError, AttributeError, KeyError, TypeError) as exc:
                error = LabelStudioError(
                    f"{what}: Label Studio's answer has an unexpected shape ({type(exc).__name__}); check its version"
                )
                raise error from (None if isinstance(exc, ParsingError) else exc)
            if attempt >= attempts or silences >= _SILENCES_AT_MOST:
                raise LabelStudioUnavailableError(f"{what}: {problem} from Label Studio at {self._url}; will try again")
            self._sleep(min(wait_s, _LONGEST_WAIT_S) * (0.5 + self._rng.random()))

    def _rejected(self, what: str, exc: ApiError) -> LabelStudioRejectedError:
        status = exc.status_code
        if _is_from_renewal(exc):
            return LabelStudioRejectedError(
                f"Label Studio at {self._url} rejects the token (HTTP {status}); "
                "set LABEL_STUDIO_API_KEY to a valid one"
            )
        detail = _ADVICE.get(status or 0) or _detail(exc)
        return LabelStudioRejectedError(f"{what}: Label Studio answered HTTP {status}: {detail}")


def _is_from_renewal(exc: ApiError) -> bool:
    """Whether the token was rejected, not the call: only then does the SDK (2.1.2) raise without headers."""
    return exc.headers is None


def _passing_problem(exc: ApiError) -> str:
    """What is wrong with an answer that may succeed on retry; empty if nothing is."""
    status = exc.status_code or 0
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return f"HTTP {status} ({_detail(exc)})"
    if httpx.codes.is_success(status):
        return f"{len(str(exc.body))} characters of {_header(exc, 'content-type') or 'no type'} that are not JSON"
    return ""


def _detail(exc: ApiError) -> str:
    """The server's message; for an HTML page only its content type."""
    body, content_type = exc.body, _header(exc, "content-type")
    if isinstance(body, str) and "json" not in content_type:
        return content_type or "no content type"
    detail = (body.get("validation_errors") or body.get("detail") or body) if isinstance(body, dict) else body
    return str(detail)[:500]


def _retry_after_s(exc: ApiError) -> float:
    try:
        return max(0.0, float(_header(exc, "retry-after") or "0"))
    except ValueError:  # the date form; use our own wait
        return 0.0


def _header(exc: ApiError, name: str) -> str:
    return (exc.headers or {}).get(name, "")
