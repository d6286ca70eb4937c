"""The door: who is signed in, for pages, routes and the websocket alike. Refuses everything else without a session.

The cookie holds a signed random token; the session itself is a row in the store, so that signing out in one
tab ends every tab. Sign-in always makes a new session and ends the old one (no fixation).
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from http.cookies import SimpleCookie
from typing import Final
from urllib.parse import quote

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ui.desk import sessions
from ui.desk.context import Actor, Desk

COOKIE: Final = "sagedesk_session"
OPEN_PATHS: Final = ("/healthz", "/login", "/login/link", "/logout")
"""Reached without a session. `/api/` checks its own bearer token."""


class Cookies:
    """Signs and reads the session cookie."""

    def __init__(self, key: str) -> None:
        self._serializer = URLSafeSerializer(key, salt="sagedesk-session")

    def signed(self, token: str) -> str:
        return str(self._serializer.dumps(token))

    def token_in(self, cookie: str | None) -> str | None:
        """The token of a cookie that we signed; None for any other."""
        if not cookie:
            return None
        try:
            token = self._serializer.loads(cookie)
        except BadSignature:
            return None
        return token if isinstance(token, str) else None


class SignInThrottle:
    """Slows guessing: after `most` failures within `window_s`, a name or an address must wait.

    State is in memory: a restart of the desk forgives.
    """

    def __init__(self, *, most: int = 5, window_s: float = 300.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._window_s = window_s
        self._clock = clock
        self._failures: defaultdict[str, deque[float]] = defaultdict(deque)

    def wait_s(self, keys: Sequence[str]) -> float:
        """Seconds until the next try; 0 when one is free now."""
        now = self._clock()
        return max((self._wait_of(key, now) for key in keys), default=0.0)

    def failed(self, keys: Sequence[str]) -> None:
        now = self._clock()
        for key in keys:
            self._failures[key].append(now)
        if len(self._failures) > 10_000:  # a flood of made-up names must not eat the memory
            self._failures = defaultdict(deque, {key: self._failures[key] for key in keys})

    def succeeded(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._failures.pop(key, None)

    def _wait_of(self, key: str, now: float) -> float:
        failures = self._failures.get(key)
        if not failures:
            return 0.0
        while failures and failures[0] <= now - self._window_s:
            failures.popleft()
        return failures[0] + self._window_s - now if len(failures) >= self._most else 0.0


class SignInGuard:
    """ASGI middleware: a request or websocket without a live session reaches nothing behind it."""

    def __init__(self, app: ASGIApp, *, desk: Callable[[], Desk], cookies: Callable[[], Cookies]) -> None:
        self._app = app
        self._desk = desk
        self._cookies = cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or _is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        token = self._cookies().token_in(_cookie_of(scope))
        actor = await run_in_threadpool(actor_of_token, self._desk(), token)
        if actor is not None:
            scope["actor"] = actor
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4401, "reason": "sign in first"})
        elif "text/html" in _header_of(scope, b"accept"):
            address = "/login?next=" + quote(scope["path"], safe="/")
            await RedirectResponse(address, status_code=303)(scope, receive, send)
        else:
            await PlainTextResponse("sign in first", status_code=401)(scope, receive, send)


def actor_of_token(desk: Desk, token: str | None) -> Actor | None:
    return None if token is None else sessions.actor_of_session(desk, token=token)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith("/api/")


def _header_of(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _cookie_of(scope: Scope) -> str | None:
    jar: SimpleCookie = SimpleCookie(_header_of(scope, b"cookie"))
    return jar[COOKIE].value if COOKIE in jar else None
