"""One call to Label Studio through its SDK: tried again where that helps, every failure in our words.

Outcomes: no answer, 5xx, 429, HTML or a cut body in place of JSON are tried again, a bounded number of times with
jitter, and then LabelStudioUnavailableError. A 401 is tried once with a fresh token. Any other 4xx is the caller's.
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
_SILENCES_AT_MOST: Final = 2  # each costs a whole time-out
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 20.0
_ADVICE: Final[Mapping[int, str]] = {
    httpx.codes.UNAUTHORIZED: "the token is refused; put a valid one into LABEL_STUDIO_API_KEY",
    httpx.codes.FORBIDDEN: "the token's user may not do this; use that of an administrator",
    httpx.codes.NOT_FOUND: "it is not there; is LABEL_STUDIO_URL right?",
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
        """What `ask` makes of the server's answer.

        Args:
            what: what is being done, for the error's message.
            ask: makes one call of the SDK; may be run again. The SDK's models are unchecked: an AttributeError or
                TypeError from reading one means an answer of another shape.
            attempts: 1 for a call that must not run twice.

        Raises:
            LabelStudioUnavailableError: there was no answer that another try would not change; a call with `attempts`
                1 may have been carried out all the same.
            LabelStudioRejectedError: a 4xx, or the token cannot be renewed.
            LabelStudioError: an answer of another shape.
        """
        try:
            return self._ask(what, ask, attempts)
        except ApiError as exc:
            raise self._rejected(what, exc) from None  # its text holds the answer's headers, a session's cookie too

    def sent(self, what: str, ask: Callable[[Sdk], BaseHttpResponse], *, attempts: int = ATTEMPTS) -> Sent:
        """As `call`, and the answer as it was sent."""
        return self.call(what, lambda sdk: as_sent(ask(sdk)), attempts=attempts)

    def sent_or_none(self, what: str, ask: Callable[[Sdk], BaseHttpResponse], *, none_at: int | None) -> Sent | None:
        """As `sent`; None where the server answers with the status `none_at`."""
        try:
            return self._ask(what, lambda sdk: as_sent(ask(sdk)), ATTEMPTS)
        except ApiError as exc:
            if exc.status_code == none_at and not _is_from_renewal(exc):
                return None
            raise self._rejected(what, exc) from None

    def _ask(self, what: str, ask: Callable[[Sdk], T], attempts: int) -> T:
        """Raises ApiError where the answer is final."""
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
                problem = f"no answer within the time-out ({type(exc).__name__})"
            except httpx.HTTPError as exc:
                problem = f"no whole answer ({type(exc).__name__}: {exc})"
            except ApiError as exc:
                if exc.status_code == httpx.codes.UNAUTHORIZED and not has_fresh_token:
                    # An access token lives 300 s by the server's clock, which need not be ours.
                    has_fresh_token = True
                    self._sdk = None
                    attempt -= 1
                    continue
                problem = _passing_problem(exc)
                if not problem:
                    raise
                wait_s = max(wait_s, _retry_after_s(exc))
            except (JSONDecodeError, UnicodeDecodeError, ValidationError) as exc:
                # From the SDK's renewal of the token, or bytes that are no text.
                problem = f"an answer that is not JSON ({type(exc).__name__})"
            except (ParsingError, AttributeError, KeyError, TypeError) as exc:
                said = LabelStudioError(
                    f"{what}: Label Studio's answer has another shape ({type(exc).__name__}); is it another version?"
                )
                raise said from (None if isinstance(exc, ParsingError) else exc)
            if attempt >= attempts or silences >= _SILENCES_AT_MOST:
                raise LabelStudioUnavailableError(f"{what}: {problem} from Label Studio at {self._url}; will try again")
            self._sleep(min(wait_s, _LONGEST_WAIT_S) * (0.5 + self._rng.random()))

    def _rejected(self, what: str, exc: ApiError) -> LabelStudioRejectedError:
        status = exc.status_code
        if _is_from_renewal(exc):
            return LabelStudioRejectedError(
                f"Label Studio at {self._url} refuses the token (HTTP {status}); "
                "put a valid one into LABEL_STUDIO_API_KEY"
            )
        said = _ADVICE.get(status or 0) or _detail(exc)
        return LabelStudioRejectedError(f"{what}: Label Studio answered HTTP {status}: {said}")


def _is_from_renewal(exc: ApiError) -> bool:
    """Whether the token was refused, and not the call: only then does the SDK (2.1.2) raise without headers."""
    return exc.headers is None


def _passing_problem(exc: ApiError) -> str:
    """What is wrong with an answer that may be right next time; empty where nothing is."""
    status = exc.status_code or 0
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return f"HTTP {status} ({_detail(exc)})"
    if httpx.codes.is_success(status):
        return f"{len(str(exc.body))} characters of {_header(exc, 'content-type') or 'no type'} that are not JSON"
    return ""


def _detail(exc: ApiError) -> str:
    """The server's words; of a page made for a browser only its type."""
    body, content_type = exc.body, _header(exc, "content-type")
    if isinstance(body, str) and "json" not in content_type:
        return content_type or "no content type"
    said = (body.get("validation_errors") or body.get("detail") or body) if isinstance(body, dict) else body
    return str(said)[:500]


def _retry_after_s(exc: ApiError) -> float:
    try:
        return max(0.0, float(_header(exc, "retry-after") or "0"))
    except ValueError:  # the form with a date; our own wait will do
        return 0.0


def _header(exc: ApiError, name: str) -> str:
    return (exc.headers or {}).get(name, "")
