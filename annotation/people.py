"""Who is who: accounts of the desk and users of Label Studio, joined by email. Knows nothing of passwords or roles."""

from typing import Final

from annotation.client import LabelStudioClient

_DOMAIN: Final = "@sagedesk.local"


def email_of(account: str) -> str:
    """The address of an account's user in Label Studio; an account may itself be named by an address."""
    return account if "@" in account else account + _DOMAIN


def account_of(email: str) -> str:
    """Inverse of `email_of`; people whom only Label Studio knows keep their address."""
    return email.removesuffix(_DOMAIN)


class People:
    """Users of one server, asked for when an unknown one turns up."""

    def __init__(self, client: LabelStudioClient) -> None:
        self._client = client
        self._email_by_id: dict[int, str] = {}

    def user_id(self, account: str, display_name: str) -> int:
        """The account's user, made where there is none."""
        email = email_of(account)
        for user_id, address in self._email_by_id.items():
            if address == email:
                return user_id
        user_id = self._client.ensure_user(email, display_name)
        self._email_by_id[user_id] = email
        return user_id

    def learn(self, user_ids: set[int]) -> None:
        """Ask once for those that are not known yet."""
        if not user_ids <= self._email_by_id.keys():
            self._email_by_id.update(self._client.users())

    def account(self, user_id: int | None) -> str:
        """The account behind a user id; a user who is gone is named by the number."""
        email = None if user_id is None else self._email_by_id.get(user_id)
        return f"label-studio-user-{user_id}" if not email else account_of(email)
