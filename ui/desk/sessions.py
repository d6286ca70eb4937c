"""Sign-in, sign-out and sessions: what happens before there is an actor. Tokens are stored as SHA-256 only."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from data.errors import SignInError
from data.records import Account
from data.tables.accounts import AccountTable, SessionTable, SignInLinkTable
from ui.desk.context import Actor, Desk, audit

SESSION_LIFETIME: Final = timedelta(days=7)
_HASHER: Final = PasswordHasher()


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session: `token` goes into the browser's cookie and nowhere else."""

    actor: Actor
    token: str
    expires_at: datetime


def sign_in(desk: Desk, *, name: str, password: str) -> SignedIn:
    """Raises SignInError with the same message for an unknown name and a wrong password."""
    with desk.store.read() as connection:
        account = AccountTable(connection).find(name)
    is_right = _matches(password, account.password_hash if account else None)
    if account is None or not is_right or not account.is_active:
        _audit_refusal(desk, account, "password")
        raise SignInError("wrong name or password; a lead can give you a new sign-in link")
    return _open_session(desk, account, "password")


def sign_in_by_link(desk: Desk, *, token: str) -> SignedIn:
    """Raises SignInError if the link is used, expired or unknown."""
    with desk.store.write() as connection:
        name = SignInLinkTable(connection).use(token_hash(token), desk.now())
        account = AccountTable(connection).find(name) if name else None
    if account is None or not account.is_active:
        _audit_refusal(desk, account, "link")
        raise SignInError(
            "this sign-in link has already been used or has expired; sign in with your password, "
            "or ask a lead for a new one (`sagedesk account link NAME`)"
        )
    return _open_session(desk, account, "link")


def sign_out(desk: Desk, *, token: str) -> None:
    """Ends the session on the server, and so in every tab of that browser."""
    with desk.store.write() as connection:
        account = SessionTable(connection).account_of(token_hash(token), desk.now())
        SessionTable(connection).remove(token_hash(token))
    if account is not None:
        audit(desk, Actor(account.name, account.role), "session.end", account.name)


def actor_of_session(desk: Desk, *, token: str) -> Actor | None:
    """The actor a session token belongs to; None if it has ended."""
    with desk.store.read() as connection:
        account = SessionTable(connection).account_of(token_hash(token), desk.now())
    return None if account is None else Actor(account.name, account.role)


def password_hash(password: str) -> str:
    """Argon2, with its salt and cost inside."""
    return _HASHER.hash(password)


def _open_session(desk: Desk, account: Account, way: str) -> SignedIn:
    token = secrets.token_urlsafe(32)
    now = desk.now()
    expires_at = now + SESSION_LIFETIME
    with desk.store.write() as connection:
        sessions = SessionTable(connection)
        sessions.remove_expired(now)
        sessions.add(token_hash(token), account.name, created_at=now, expires_at=expires_at)
    actor = Actor(account.name, account.role)
    audit(desk, actor, "session.start", account.name, way=way)
    return SignedIn(actor, token, expires_at)


def _audit_refusal(desk: Desk, account: Account | None, way: str) -> None:
    # An unknown name is not recorded, because people type passwords into the wrong field.
    who = Actor("unknown", "annotator") if account is None else Actor(account.name, account.role)
    audit(desk, who, "session.start", who.name, outcome="denied", way=way)


def _matches(password: str, stored_hash: str | None) -> bool:
    try:
        return _HASHER.verify(stored_hash or _nobodys_hash(), password) and stored_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobodys_hash() -> str:
    """Checked against if the name is unknown, so that both answers take equally long."""
    return password_hash(secrets.token_hex(16))


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
