"""The door: nothing behind it without a session, guessing is slow, links work once, signing out ends every tab."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from data.errors import ConflictError, InputError, PermissionDeniedError
from data.store import Store
from data.tables.audit import AuditTable
from ui.desk import sessions
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.runs.supervisor import Supervisor
from ui.desk.settings import Settings
from ui.desk.usecases import accounts
from ui.web.login import COOKIE, Cookies, SignInGuard, SignInThrottle
from ui.web.login_routes import Door

PASSWORD = "correct horse battery"


@dataclass
class Clock:
    at: datetime = field(default_factory=lambda: datetime(2026, 11, 29, 12, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same hash at the least cost: the real one takes most of the time of these tests."""
    monkeypatch.setattr(sessions, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def desk(tmp_path: Path, clock: Clock) -> Iterator[Desk]:
    store = Store.open(tmp_path / "store.duckdb", now=clock)
    supervisor = Supervisor(store, tmp_path / "runs", ingests={}, python="python", code_version="test", now=clock)
    yield Desk(Settings(state=tmp_path), store, supervisor, None, clock)
    store.close()


@pytest.fixture
def client(desk: Desk) -> TestClient:
    cookies = Cookies("a key for tests")
    seconds = iter(range(1_000_000))
    throttle = SignInThrottle(clock=lambda: float(next(seconds)))
    door = Door(desk=lambda: desk, cookies=lambda: cookies, throttle=throttle)

    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"page for {request.scope['actor'].name}")

    async def stream(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("open")
        await websocket.close()

    app = Starlette(
        routes=[*door.routes(), Route("/", page), WebSocketRoute("/_stcore/stream", stream)],
        middleware=[Middleware(SignInGuard, desk=lambda: desk, cookies=lambda: cookies)],
    )
    return TestClient(app, follow_redirects=False, client=("127.0.0.1", 50_000))


def link_of(desk: Desk, name: str = "ana") -> str:
    return accounts.add_account(desk, OPERATOR, name=name, role="annotator").path


def with_password(desk: Desk, client: TestClient) -> None:
    client.get(link_of(desk))
    assert client.post("/account", data={"password": PASSWORD, "again": PASSWORD}).status_code == 200
    client.get("/logout")


def test_without_a_session_pages_lead_to_the_form_and_the_websocket_stays_shut(client: TestClient) -> None:
    page = client.get("/?item=v_1", headers={"accept": "text/html"})
    call = client.get("/_stcore/host-config")

    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/")
    assert call.status_code == 401
    with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect("/_stcore/stream"):
        pass
    assert refused.value.code == 4401


def test_a_link_signs_in_once_for_pages_and_websocket(desk: Desk, client: TestClient) -> None:
    path = link_of(desk)

    entered = client.get(path)

    cookie = entered.headers["set-cookie"].lower()
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert client.get("/").text == "page for ana"
    with client.websocket_connect("/_stcore/stream") as stream:
        assert stream.receive_text() == "open"
    other_browser = TestClient(client.app, follow_redirects=False)
    assert other_browser.get(path).status_code == 401


def test_the_same_browser_may_load_its_used_link_again(desk: Desk, client: TestClient) -> None:
    path = link_of(desk)
    client.get(path)

    assert client.get(path).status_code == 303


def test_a_link_expires(desk: Desk, client: TestClient, clock: Clock) -> None:
    path = link_of(desk)
    clock.at += accounts.LINK_LIFETIME + timedelta(seconds=1)

    assert client.get(path).status_code == 401


def test_a_session_expires(desk: Desk, client: TestClient, clock: Clock) -> None:
    client.get(link_of(desk))
    clock.at += sessions.SESSION_LIFETIME + timedelta(seconds=1)

    assert client.get("/").status_code == 401


def test_a_password_set_by_its_owner_signs_in(desk: Desk, client: TestClient) -> None:
    with_password(desk, client)

    entered = client.post("/login", data={"name": " Ana ", "password": PASSWORD, "next": "/runs"})

    assert (entered.status_code, entered.headers["location"]) == (303, "/runs")
    assert client.get("/").text == "page for ana"


@pytest.mark.parametrize("fields", [{"name": "ana", "password": "wrong"}, {"name": "nobody", "password": PASSWORD}])
def test_a_wrong_password_and_an_unknown_name_get_the_same_answer(
    desk: Desk, client: TestClient, fields: dict[str, str]
) -> None:
    with_password(desk, client)

    refused = client.post("/login", data=fields)

    assert refused.status_code == 401
    assert "wrong name or password" in refused.text


def test_guessing_is_throttled_by_name_and_by_address(desk: Desk, client: TestClient) -> None:
    with_password(desk, client)
    tries = [client.post("/login", data={"name": "ana", "password": f"guess {n}"}).status_code for n in range(5)]

    blocked = client.post("/login", data={"name": "ana", "password": PASSWORD})
    other_name = client.post("/login", data={"name": "ben", "password": "guess"})

    assert tries == [401] * 5
    assert blocked.status_code == 429
    assert int(blocked.headers["retry-after"]) > 0
    assert other_name.status_code == 429


def test_signing_in_again_makes_a_new_session_and_ends_the_old_one(desk: Desk, client: TestClient) -> None:
    with_password(desk, client)
    fields = {"name": "ana", "password": PASSWORD}
    client.post("/login", data=fields)
    first = client.cookies[COOKIE]

    client.post("/login", data=fields)

    assert client.cookies[COOKIE] != first
    stale = TestClient(client.app, cookies={COOKIE: first})
    assert stale.get("/").status_code == 401


def test_signing_out_in_one_tab_ends_the_others(desk: Desk, client: TestClient) -> None:
    client.get(link_of(desk))
    other_tab = TestClient(client.app, cookies={COOKIE: client.cookies[COOKIE]})
    assert other_tab.get("/").status_code == 200

    client.get("/logout")

    assert other_tab.get("/").status_code == 401


def test_a_forged_cookie_opens_nothing(desk: Desk, client: TestClient) -> None:
    client.get(link_of(desk))
    forged = Cookies("another key").signed("token")

    for cookie in (forged, "x", client.cookies[COOKIE][:-2] + "xx"):
        assert TestClient(client.app, cookies={COOKIE: cookie}).get("/").status_code == 401


def test_a_closed_account_is_out_at_once(desk: Desk, client: TestClient) -> None:
    client.get(link_of(desk))

    accounts.set_active(desk, OPERATOR, name="ana", is_active=False)

    assert client.get("/").status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/a\nb"]
)
def test_the_way_on_after_sign_in_never_leads_to_another_site(desk: Desk, client: TestClient, target: str) -> None:
    with_password(desk, client)

    entered = client.post("/login", data={"name": "ana", "password": PASSWORD, "next": target})

    assert entered.headers["location"] == "/"


def test_a_form_from_another_site_is_refused(desk: Desk, client: TestClient) -> None:
    with_password(desk, client)

    posted = client.post(
        "/login", data={"name": "ana", "password": PASSWORD}, headers={"origin": "https://evil.example"}
    )

    assert posted.status_code == 403


def test_an_oversized_form_is_refused(client: TestClient) -> None:
    assert client.post("/login", data={"name": "a" * 10_000, "password": "b"}).status_code == 413


def test_a_name_on_the_form_is_shown_literally(client: TestClient) -> None:
    refused = client.post("/login", data={"name": '"><script>alert(1)</script>', "password": "b"})

    assert "<script>" not in refused.text
    assert "&lt;script&gt;" in refused.text


@pytest.mark.parametrize("password", ["short", "x" * 300])
def test_a_password_of_the_wrong_length_is_refused(desk: Desk, password: str) -> None:
    link_of(desk)

    with pytest.raises(InputError, match="10 to 256"):
        accounts.set_password(desk, Actor("ana", "annotator"), password=password)


def test_only_a_lead_makes_accounts_and_the_refusal_is_audited(desk: Desk) -> None:
    with pytest.raises(PermissionDeniedError, match="ask a lead"):
        accounts.add_account(desk, Actor("ana", "annotator"), name="eve", role="lead")

    with desk.store.read() as connection:
        [newest, *_] = AuditTable(connection).recent(1)
    assert (newest.actor, newest.action, newest.outcome) == ("ana", "account.add", "denied")


def test_names_are_checked_and_taken_once(desk: Desk) -> None:
    link_of(desk)

    with pytest.raises(ConflictError, match="already exists"):
        link_of(desk)
    for name in ("", "Ana", "../x", "a b", "x" * 65):
        with pytest.raises(InputError, match="account name"):
            link_of(desk, name)


def test_the_store_and_the_audit_hold_no_token_and_no_password(desk: Desk, client: TestClient, tmp_path: Path) -> None:
    path = link_of(desk)
    client.get(path)
    client.post("/account", data={"password": PASSWORD, "again": PASSWORD})
    token = path.partition("token=")[2]
    session = Cookies("a key for tests").token_in(client.cookies[COOKIE])
    assert session

    desk.store.close()

    content = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    for secret in (token, session, PASSWORD):
        assert secret.encode() not in content


def test_the_cursor_is_where_the_next_key_belongs(desk: Desk, client: TestClient) -> None:
    with_password(desk, client)

    fresh = client.get("/login").text
    failed = client.post("/login", data={"name": "ana", "password": "wrong password"}).text

    assert focused(fresh) == "name"
    assert focused(failed) == "password"


def test_the_account_page_says_what_is_so_also_beside_an_error(desk: Desk, client: TestClient) -> None:
    client.get(link_of(desk))
    before = client.post("/account", data={"password": PASSWORD, "again": "another one"}).text
    client.post("/account", data={"password": PASSWORD, "again": PASSWORD})
    after = client.post("/account", data={"password": PASSWORD, "again": "another one"}).text

    assert "the two passwords differ" in before
    assert "Set a password to sign in without a link." in before
    assert "You can change your password" in after
    assert "<strong>ana</strong>, an annotator" in after


def focused(page: str) -> str:
    (field,) = re.findall(r'<input id="(\w+)"[^>]*\bautofocus\b', page)
    return str(field)
