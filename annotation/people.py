"""Matches the desk's accounts with Label Studio's users by email. Knows nothing of passwords or roles."""

from typing import Final

from annotation.client import LabelStudioClient

_DOMAIN: Final = "@sagedesk.local"


def email_of(account: str) -> str:
    """The email of an account's user in Label Studio; an account's name may itself be an email address."""
    return account if "@" in account else account + _DOMAIN


def account_of(email: str) -> str:
    """Inverse of `email_of`; users known only to Label Studio keep their address."""
    return email.removesuffix(_DOMAIN)


class People:
    """One server's users, fetched when an unknown one appears."""

    def __init__(self, client: LabelStudioClient) -> None:
        self._client = client
        self._email_by_id: dict[int, str] = {}

    def user_id(self, account: str, display_name: str) -> int:
        """The account's user, created if there is none."""
        email = email_of(account)
        for user_id, address in self._email_by_id.items():
            if address == email:
                return user_id
        user_id = self._client.ensure_user(email, display_name)
        self._email_by_id[user_id] = email
        return user_id

    def learn(self, user_ids: set[int]) -> None:
        """Fetches the users if any of these is unknown."""
        if not user_ids <= self._email_by_id.keys():
            self._email_by_id.update(self._client.users())

    def account(self, user_id: int | None) -> str:
        """The account behind a user id; a deleted user is named by the number."""
        email = None if user_id is None else self._email_by_id.get(user_id)
        return f"label-studio-user-{user_id}" if not email else account_of(email)
