"""One request to Label Studio: signed by its SDK, tried again where that helps, every failure in our words.

The only importer of the SDK. Of the SDK only the signing is used (either kind of token, renewed when it expires): its
typed answers break on one invalid task of a page, and are objects in one place and dicts in another (2.1.2).

Outcomes: no answer, 5xx, 429, HTML or a cut body in place of JSON are tried again, a bounded number of times with
jitter, and then LabelStudioUnavailableError. A 401 is tried once with a fresh token. Any other 4xx is the caller's.
"""

import json
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

import httpx
from pydantic import ValidationError

from data.errors import LabelStudioRejectedError, LabelStudioUnavailableError

if TYPE_CHECKING:
    from label_studio_sdk.client import LabelStudio

ATTEMPTS: Final = 4
READ_TIMEOUT_S: Final = 30.0
_CONNECT_TIMEOUT_S: Final = 5.0
_SILENCES_AT_MOST: Final = 2  # each costs a whole time-out
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 20.0


class Transport:
    """Requests to one server with one token."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        rng: Random,
        transport: httpx.BaseTransport | None,
        sleep: Callable[[float], None] = time.sleep,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._rng = rng
        self._sleep = sleep
        self._read_timeout_s = read_timeout_s
        timeout = httpx.Timeout(read_timeout_s, connect=_CONNECT_TIMEOUT_S)
        self._http = httpx.Client(transport=transport, timeout=timeout, follow_redirects=False)
        self._sdk: LabelStudio | None = None

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        what: str,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        """An answer that another try would not change: a 2xx that holds JSON or nothing, or a 4xx.

        Args:
            what: what is being done, for the error's message.
            attempts: 1 for a call that must not run twice.

        Raises:
            LabelStudioUnavailableError: there was none; a call with `attempts` 1 may have been done all the same.
            LabelStudioRejectedError: the token cannot be renewed.
        """
        silences = 0
        has_fresh_token = False
        attempt = 0
        while True:
            attempt += 1
            wait_s = _FIRST_WAIT_S * 2 ** (attempt - 1)
            try:
                answer = self._once(method, path, params, body, timeout_s or self._read_timeout_s)
            except httpx.TimeoutException as exc:
                silences += 1
                problem = f"no answer within the time-out ({type(exc).__name__})"
            except httpx.HTTPError as exc:
                problem = f"no whole answer ({type(exc).__name__}: {exc})"
            else:
                if answer.status_code == httpx.codes.UNAUTHORIZED and not has_fresh_token:
                    # An access token lives 300 s by the server's clock, which need not be ours.
                    has_fresh_token = True
                    self._sdk = None
                    attempt -= 1
                    continue
                problem = _passing_problem(answer)
                if not problem:
                    return answer
                wait_s = max(wait_s, _retry_after_s(answer))
            if attempt >= attempts or silences >= _SILENCES_AT_MOST:
                raise LabelStudioUnavailableError(f"{what}: {problem} from Label Studio at {self._url}; will try again")
            self._sleep(min(wait_s, _LONGEST_WAIT_S) * (0.5 + self._rng.random()))

    def json(
        self,
        what: str,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> object:
        """As `send`, and the JSON of its 2xx."""
        answer = self.send(what, method, path, params=params, body=body, attempts=attempts, timeout_s=timeout_s)
        return json_of(what, answer)

    def _once(
        self, method: str, path: str, params: Mapping[str, object] | None, body: object, timeout_s: float
    ) -> httpx.Response:
        from label_studio_sdk.core.api_error import ApiError

        try:
            if self._sdk is None:
                self._sdk = self._connect()
            # The SDK's own retries are off: it would repeat calls that must not run twice.
            answer: httpx.Response = self._sdk._client_wrapper.httpx_client.request(
                path,
                method=method,
                params=None if params is None else dict(params),
                content=None if body is None else json.dumps(body).encode("ascii"),
                headers=None if body is None else {"content-type": "application/json"},
                request_options={"max_retries": 0, "timeout_in_seconds": max(1, round(timeout_s))},
            )
        except ApiError as exc:  # from renewing an expired token
            if exc.status_code is not None and exc.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                raise httpx.RemoteProtocolError(f"HTTP {exc.status_code} while renewing the token") from exc
            raise LabelStudioRejectedError(
                f"Label Studio at {self._url} refuses the token (HTTP {exc.status_code}); "
                "put a valid one into LABEL_STUDIO_API_KEY"
            ) from exc
        except (json.JSONDecodeError, ValidationError) as exc:  # HTML where the renewed token should be
            raise httpx.RemoteProtocolError(f"no JSON while renewing the token: {exc}") from exc
        return answer

    def _connect(self) -> "LabelStudio":
        from label_studio_sdk.client import LabelStudio  # costs 3 s of CPU, so not before it is needed

        return LabelStudio(base_url=self._url, api_key=self._api_key, httpx_client=self._http)  # type: ignore[no-untyped-call]


def json_of(what: str, answer: httpx.Response) -> object:
    """The JSON of a 2xx; None where it holds nothing.

    Raises:
        LabelStudioRejectedError: anything else.
    """
    if answer.is_success:
        return answer.json() if answer.content else None
    advice: dict[int, str] = {
        httpx.codes.UNAUTHORIZED: "the token is refused; put a valid one into LABEL_STUDIO_API_KEY",
        httpx.codes.FORBIDDEN: "the token's user may not do this; use that of an administrator",
        httpx.codes.NOT_FOUND: "it is not there; is LABEL_STUDIO_URL right?",
    }
    said = advice.get(answer.status_code) or _detail(answer)
    raise LabelStudioRejectedError(f"{what}: Label Studio answered HTTP {answer.status_code}: {said}")


def _passing_problem(answer: httpx.Response) -> str:
    """What is wrong with an answer that may be right next time; empty where nothing is."""
    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS or answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return f"HTTP {answer.status_code} ({_detail(answer)})"
    if answer.is_success and answer.content:
        try:
            answer.json()
        except ValueError:
            return f"{len(answer.content)} bytes of {answer.headers.get('content-type', 'no type')} that are not JSON"
    return ""


def _detail(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return str(answer.headers.get("content-type", "no content type"))
    said = (body.get("validation_errors") or body.get("detail") or body) if isinstance(body, dict) else body
    return str(said)[:500]


def _retry_after_s(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "0")))
    except ValueError:  # the form with a date; our own wait will do
        return 0.0
