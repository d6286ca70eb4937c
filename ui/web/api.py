"""Routes for programs on this machine: `/healthz` for anyone, `/api/...` with the desk's bearer token.

The command line calls use cases through `/api/call/NAME`; `/api/jobs` is the same for scripts in other languages.
Errors answer as `{"error": one line, "kind": class of data.errors}`. Refuses bodies over a bound.
"""

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from data.errors import (
    ConflictError,
    InputError,
    LabelStudioUnavailableError,
    NotFoundError,
    PermissionDeniedError,
    ReleaseError,
    SagedeskError,
    SetupError,
    SignInError,
)
from ui.desk.context import OPERATOR, Desk
from ui.desk.use_case_table import use_case

MAX_BODY_BYTES: Final = 1_000_000
_STARTERS: Final[Mapping[str, str]] = {
    "import": "import.start",
    "generate": "generation.start",
    "verify": "verification.start",
    "train-verifier": "verifier.retrain",
    "refresh-generator": "generator.refresh",
    "gate-verifier": "model.compare",
}
_STATUS: Final[tuple[tuple[type[SagedeskError], int], ...]] = (
    (SignInError, 401),
    (PermissionDeniedError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (InputError, 400),
    (ReleaseError, 409),
    (LabelStudioUnavailableError, 503),
    (SetupError, 503),
)

_BUG: Final = "the desk hit a bug ({}); its log has the traceback"

Handler = Callable[[Request], Awaitable[object]]

logger = logging.getLogger(__name__)


def api_routes(get_desk: Callable[[], Desk], token: str) -> list[Route]:
    """Every route under `/api/` compares the bearer token in constant time and acts as the operator."""

    async def call(name: str, arguments: Mapping[str, object]) -> object:
        return await run_in_threadpool(lambda: use_case(name).call(get_desk(), OPERATOR, arguments))

    async def call_by_name(request: Request) -> object:
        return await call(request.path_params["name"], await _json_object(request))

    async def submit(request: Request) -> object:
        body = await _json_object(request)
        kind, settings = body.get("kind"), body.get("settings", {})
        if not isinstance(kind, str) or kind not in _STARTERS or not isinstance(settings, dict):
            raise InputError(f'send {{"kind": one of {", ".join(_STARTERS)}, "settings": {{...}}}}')
        return await call(_STARTERS[kind], settings)

    async def runs(request: Request) -> object:
        return await call("run.list", dict(request.query_params))

    async def run(request: Request) -> object:
        return await call("run.show", {"run_id": request.path_params["run_id"]})

    async def cancel(request: Request) -> object:
        return await call("run.cancel", {"run_id": request.path_params["run_id"]})

    async def resume(request: Request) -> object:
        return await call("run.resume", {"run_id": request.path_params["run_id"]})

    def guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if not _is_bearer(request, token):
                return _error(SignInError("send the token of desk.json as `Authorization: Bearer TOKEN`"))
            try:
                return JSONResponse(await handler(request))
            except SagedeskError as exc:
                return _error(exc)
            except Exception as exc:  # the border of the process: the caller gets one line, the log the rest
                logger.exception("%s %s hit a bug", request.method, request.url.path)
                return JSONResponse({"error": _BUG.format(type(exc).__name__), "kind": "SagedeskError"}, 500)

        return answer

    def healthz(_: Request) -> Response:
        try:
            get_desk()
        except SetupError:
            return JSONResponse({"status": "starting"}, 503)
        return JSONResponse({"status": "ok"})

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/api/call/{name}", guarded(call_by_name), methods=["POST"]),
        Route("/api/jobs", guarded(submit), methods=["POST"]),
        Route("/api/jobs", guarded(runs), methods=["GET"]),
        Route("/api/jobs/{run_id}", guarded(run), methods=["GET"]),
        Route("/api/jobs/{run_id}/cancel", guarded(cancel), methods=["POST"]),
        Route("/api/jobs/{run_id}/resume", guarded(resume), methods=["POST"]),
    ]


def _is_bearer(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode())


async def _json_object(request: Request) -> Mapping[str, object]:
    """Raises InputError for a body that is too large or no JSON object."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise InputError(f"the request's body is over {MAX_BODY_BYTES} bytes; send less in one request")
    try:
        parsed = json.loads(body or b"{}")
    except (ValueError, RecursionError) as exc:
        raise InputError(f"the request's body is not JSON: {exc}") from exc
    if not isinstance(parsed, dict):
        raise InputError("the request's body must be a JSON object")
    return parsed


def _error(exc: SagedeskError) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(exc, kind)), 500)
    if status == 500:
        logger.warning("%s", exc)
    return JSONResponse({"error": str(exc), "kind": type(exc).__name__}, status)
