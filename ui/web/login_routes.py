"""The routes of the door: sign-in by password or one-time link, sign-out, and the person's own password."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from data.errors import SagedeskError, SignInError
from ui.desk import sessions
from ui.desk.context import Actor, Desk
from ui.desk.usecases import accounts
from ui.web.login import COOKIE, Cookies, SignInThrottle, actor_of_token
from ui.web.login_pages import account_page, sign_in_page

MAX_FORM_BYTES: Final = 4096
_FOREIGN_FORM: Final = "the form came from another site; open this page again"


class Door:
    """Handlers over the desk that is up; `desk` and `cookies` are asked on every request."""

    def __init__(self, *, desk: Callable[[], Desk], cookies: Callable[[], Cookies], throttle: SignInThrottle) -> None:
        self._desk = desk
        self._cookies = cookies
        self._throttle = throttle

    def routes(self) -> list[Route]:
        """GET and POST /login, GET /login/link, GET /logout, GET and POST /account."""
        return [
            Route("/login", self.form, methods=["GET"]),
            Route("/login", self.submit, methods=["POST"]),
            Route("/login/link", self.by_link, methods=["GET"]),
            Route("/logout", self.leave, methods=["GET"]),
            Route("/account", self.account, methods=["GET"]),
            Route("/account", self.change_password, methods=["POST"]),
        ]

    def form(self, request: Request) -> Response:
        return _page(sign_in_page(next_path=_inner_path(request.query_params.get("next"))))

    async def submit(self, request: Request) -> Response:
        if not _is_same_origin(request):
            return _page(sign_in_page(error=_FOREIGN_FORM), 403)
        fields = await _fields(request, "name", "password", "next")
        if fields is None:
            return _page(sign_in_page(error="the form is too large"), 413)
        name, password, next_path = fields
        return await run_in_threadpool(
            self._try_password, request, name.strip().lower(), password, _inner_path(next_path)
        )

    def by_link(self, request: Request) -> Response:
        try:
            signed_in = sessions.sign_in_by_link(self._desk(), token=request.query_params.get("token", ""))
        except SignInError as exc:
            # A browser that loads an address twice (preview, reload) is already in.
            if actor_of_token(self._desk(), self._token(request)) is not None:
                return RedirectResponse("/", status_code=303)
            return _page(sign_in_page(error=str(exc)), 401)
        return self._enter(request, signed_in, "/")

    def leave(self, request: Request) -> Response:
        token = self._token(request)
        if token is not None:
            sessions.sign_out(self._desk(), token=token)
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE, path="/")
        return response

    def account(self, request: Request) -> Response:
        actor: Actor = request.scope["actor"]
        return _page(account_page(actor, has_password=accounts.has_password(self._desk(), actor)))

    async def change_password(self, request: Request) -> Response:
        actor: Actor = request.scope["actor"]
        fields = await _fields(request, "password", "again") if _is_same_origin(request) else []
        return await run_in_threadpool(self._set_password, actor, fields)

    def _set_password(self, actor: Actor, fields: list[str] | None) -> Response:
        """`fields` is None for a form that is too large and empty for one of another site."""
        error, status = "", 200
        if fields is None:
            error, status = "the form is too large", 413
        elif not fields:
            error, status = _FOREIGN_FORM, 403
        elif fields[0] != fields[1]:
            error, status = "the two passwords differ; type them again", 400
        else:
            try:
                accounts.set_password(self._desk(), actor, password=fields[0])
            except SagedeskError as exc:
                error, status = str(exc), 400
        has_password = accounts.has_password(self._desk(), actor)
        notice = "" if error else "Your password is set."
        return _page(account_page(actor, has_password=has_password, error=error, notice=notice), status)

    def _try_password(self, request: Request, name: str, password: str, next_path: str) -> Response:
        address = request.client.host if request.client else ""
        keys = [f"name:{name}", f"address:{address}"]
        wait_s = self._throttle.wait_s(keys)
        if wait_s > 0:
            error = f"too many failed attempts; wait {wait_s:.0f} s, or ask a lead for a sign-in link"
            response = _page(sign_in_page(error=error, name=name, next_path=next_path), 429)
            response.headers["retry-after"] = str(int(wait_s) + 1)
            return response
        try:
            signed_in = sessions.sign_in(self._desk(), name=name, password=password)
        except SignInError as exc:
            self._throttle.failed(keys)
            return _page(sign_in_page(error=str(exc), name=name, next_path=next_path), 401)
        self._throttle.succeeded(keys)
        return self._enter(request, signed_in, next_path)

    def _enter(self, request: Request, signed_in: sessions.SignedIn, address: str) -> Response:
        old = self._token(request)
        if old is not None:
            sessions.sign_out(self._desk(), token=old)
        response = RedirectResponse(address, status_code=303)
        response.set_cookie(
            COOKIE,
            self._cookies().signed(signed_in.token),
            max_age=int(sessions.SESSION_LIFETIME.total_seconds()),
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
            path="/",
        )
        return response

    def _token(self, request: Request) -> str | None:
        return self._cookies().token_in(request.cookies.get(COOKIE))


async def _fields(request: Request, *names: str) -> list[str] | None:
    """The named fields of the form, empty where absent; None for a body over MAX_FORM_BYTES or of unknown length."""
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > MAX_FORM_BYTES:
        return None
    async with request.form(max_files=0, max_fields=8) as fields:
        return [str(fields.get(name, "")) for name in names]


def _page(body: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(
        body,
        status_code=status,
        headers={
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
            "frame-ancestors 'none'; base-uri 'none'",
            "cache-control": "no-store",
            # Not "no-referrer": a browser then sends "Origin: null" with our own forms, and they would be refused.
            "referrer-policy": "same-origin",
            "x-content-type-options": "nosniff",
        },
    )


def _inner_path(path: str | None) -> str:
    """A path on this desk; anything else (another site, a scheme, `//host`) becomes the front page."""
    if not path or not path.isprintable() or not path.startswith("/") or path.startswith(("//", "/\\")):
        return "/"
    parts = urlsplit(path)
    return "/" if parts.scheme or parts.netloc else path


def _is_same_origin(request: Request) -> bool:
    """Browsers send Origin with every POST; a client without one holds no cookie to abuse."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
