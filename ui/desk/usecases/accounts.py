"""Accounts: adding, closing, passwords, sign-in links. Signing in is `ui.desk.sessions`."""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from data.errors import InputError
from data.records import Account, Role
from data.tables.accounts import AccountTable, SessionTable, SignInLinkTable
from ui.desk.context import Actor, Desk, audit, require_lead
from ui.desk.sessions import password_hash, token_hash

LINK_LIFETIME: Final = timedelta(days=1)
MIN_PASSWORD_CHARACTERS: Final = 10
MAX_PASSWORD_CHARACTERS: Final = 256
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_ROLES: Final = ("annotator", "lead")


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """An account as visible to others."""

    name: str
    display_name: str
    role: Role
    is_active: bool
    has_password: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SignInLink:
    """`path` is relative to the desk's address and works once, until `expires_at`."""

    account: str
    path: str
    expires_at: datetime


def add_account(desk: Desk, actor: Actor, *, name: str, role: Role, display_name: str = "") -> SignInLink:
    """Adds a person, who signs in with the returned link and sets a password there.

    Raises:
        PermissionDeniedError, ConflictError (name taken), InputError (invalid name or role).
    """
    require_lead(desk, actor, "account.add", name)
    if not _NAME.fullmatch(name):
        raise InputError(
            f"account name {name!r}: use 1 to 64 of a-z, 0-9, '.', '_', '-', '@', starting with a letter or digit"
        )
    if role not in _ROLES:
        raise InputError(f"role {role!r}: use {' or '.join(_ROLES)}")
    account = Account(name, display_name or name, role, None, is_active=True, ls_user_id=None, created_at=desk.now())
    with desk.store.write() as connection:
        AccountTable(connection).add(account)
    audit(desk, actor, "account.add", name, role=role)
    return make_link(desk, actor, name=name)


def make_link(desk: Desk, actor: Actor, *, name: str) -> SignInLink:
    """A new one-time link for an existing account.

    Raises:
        PermissionDeniedError, NotFoundError.
    """
    require_lead(desk, actor, "account.link", name)
    token = secrets.token_urlsafe(32)
    expires_at = desk.now() + LINK_LIFETIME
    with desk.store.write() as connection:
        account = AccountTable(connection).get(name)
        SignInLinkTable(connection).add(token_hash(token), account.name, expires_at=expires_at)
    audit(desk, actor, "account.link", name)
    return SignInLink(name, f"/login/link?token={token}", expires_at)


def list_accounts(desk: Desk, actor: Actor) -> list[AccountInfo]:
    """All accounts by name. Raises PermissionDeniedError."""
    require_lead(desk, actor, "account.list")
    with desk.store.read() as connection:
        accounts = AccountTable(connection).all()
    return [_info(account) for account in accounts]


def set_active(desk: Desk, actor: Actor, *, name: str, is_active: bool) -> AccountInfo:
    """Closes or reopens an account; closing ends its sessions. Labels are kept.

    Raises:
        PermissionDeniedError, NotFoundError, InputError (a lead closing their own account).
    """
    require_lead(desk, actor, "account.set-active", name)
    if name == actor.name and not is_active:
        raise InputError(f"account {name!r} is your own; ask another lead to close it")
    with desk.store.write() as connection:
        table = AccountTable(connection)
        table.get(name)
        table.set_active(name, is_active=is_active)
        if not is_active:
            SessionTable(connection).remove_of_account(name)
        account = table.get(name)
    audit(desk, actor, "account.set-active", name, is_active=is_active)
    return _info(account)


def set_password(desk: Desk, actor: Actor, *, password: str) -> None:
    """Sets the actor's own password. Raises InputError if it is too short or too long."""
    if not MIN_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
        raise InputError(f"password: use {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters")
    hashed = password_hash(password)
    with desk.store.write() as connection:
        AccountTable(connection).get(actor.name)
        AccountTable(connection).set_password_hash(actor.name, hashed)
    audit(desk, actor, "account.set-password", actor.name)


def has_password(desk: Desk, actor: Actor) -> bool:
    with desk.store.read() as connection:
        account = AccountTable(connection).find(actor.name)
    return account is not None and account.password_hash is not None


def _info(account: Account) -> AccountInfo:
    return AccountInfo(
        account.name,
        account.display_name,
        account.role,
        account.is_active,
        account.password_hash is not None,
        account.created_at,
    )
