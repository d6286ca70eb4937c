"""Accounts, their sessions and their one-time sign-in links. Holds hashes only: no password, no token."""

from datetime import datetime

from data.errors import ConflictError, NotFoundError
from data.records import Account, Role
from data.store import Connection

_COLUMNS = "name, display_name, role, password_hash, is_active, ls_user_id, created_at"


class AccountTable:
    """Users of the desk."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, account: Account) -> None:
        """Raises ConflictError if the name is taken."""
        if self.find(account.name) is not None:
            raise ConflictError(f"account {account.name!r} already exists; choose another name")
        self._connection.execute(
            f"INSERT INTO account ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                account.name,
                account.display_name,
                account.role,
                account.password_hash,
                account.is_active,
                account.ls_user_id,
                account.created_at,
            ],
        )

    def find(self, name: str) -> Account | None:
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM account WHERE name = ?", [name]).fetchone()
        return None if row is None else Account(*row)

    def get(self, name: str) -> Account:
        """Raises NotFoundError."""
        account = self.find(name)
        if account is None:
            raise NotFoundError(f"no account {name!r}; `sagedesk account list` shows all accounts")
        return account

    def all(self) -> list[Account]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM account ORDER BY name").fetchall()
        return [Account(*row) for row in rows]

    def set_password_hash(self, name: str, password_hash: str) -> None:
        self._connection.execute("UPDATE account SET password_hash = ? WHERE name = ?", [password_hash, name])

    def set_role(self, name: str, role: Role) -> None:
        self._connection.execute("UPDATE account SET role = ? WHERE name = ?", [role, name])

    def set_active(self, name: str, *, is_active: bool) -> None:
        self._connection.execute("UPDATE account SET is_active = ? WHERE name = ?", [is_active, name])


class SessionTable:
    """Signed-in browsers, by the hash of their token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, session_hash: str, account: str, *, created_at: datetime, expires_at: datetime) -> None:
        self._connection.execute(
            "INSERT INTO session (session_hash, account, created_at, expires_at) VALUES (?, ?, ?, ?)",
            [session_hash, account, created_at, expires_at],
        )

    def account_of(self, session_hash: str, now: datetime) -> Account | None:
        """The active account of an unexpired session."""
        row = self._connection.execute(
            f"""
            SELECT {", ".join("account." + column.strip() for column in _COLUMNS.split(","))}
            FROM session JOIN account ON account.name = session.account
            WHERE session_hash = ? AND expires_at > ? AND account.is_active
            """,
            [session_hash, now],
        ).fetchone()
        return None if row is None else Account(*row)

    def remove(self, session_hash: str) -> None:
        self._connection.execute("DELETE FROM session WHERE session_hash = ?", [session_hash])

    def remove_of_account(self, account: str) -> None:
        self._connection.execute("DELETE FROM session WHERE account = ?", [account])

    def remove_expired(self, now: datetime) -> None:
        self._connection.execute("DELETE FROM session WHERE expires_at <= ?", [now])


class SignInLinkTable:
    """One-time links, by the hash of their token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, link_hash: str, account: str, *, expires_at: datetime) -> None:
        self._connection.execute(
            "INSERT INTO sign_in_link (link_hash, account, expires_at, used_at) VALUES (?, ?, ?, NULL)",
            [link_hash, account, expires_at],
        )

    def use(self, link_hash: str, now: datetime) -> str | None:
        """The account of an unused, unexpired link, which is then spent; None otherwise."""
        row = self._connection.execute(
            "UPDATE sign_in_link SET used_at = ? WHERE link_hash = ? AND used_at IS NULL AND expires_at > ? "
            "RETURNING account",
            [now, link_hash, now],
        ).fetchone()
        return None if row is None else str(row[0])
