"""The sync's calls to Label Studio, through its SDK. For failures see `transport`.

Missing things (404) are None or False. A call that must not run twice is never repeated here: its caller looks first.
Projects and users are read from the SDK's models. Tasks and annotations are passed on as they were sent: `inbound`
validates them, and its quarantine keeps the original, not what a model made of it (ADR 6).
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from annotation.task_listing import (
    EXTERNAL_IDS_AT_MOST,
    PAGE_SIZE,
    WHOLE_PAGE,
    TaskListing,
    changed_since,
    data_after,
    ids_after,
    with_external_ids,
)
from annotation.tasks import AnnotationPayload, storable
from data.errors import LabelStudioError, LabelStudioRejectedError

if TYPE_CHECKING:
    from annotation.sdk import Sdk, Sent
    from annotation.transport import Transport

_READ_TIMEOUT_S: Final = 30.0
_IMPORT_TIMEOUT_S: Final = 300.0
_ONCE: Final = 1  # attempts of a call that must not run twice
_FILTERED_LISTINGS_AT_MOST: Final = 10  # beyond that, going through all tasks is cheaper
_SERVER_KEY: Final = re.compile(r"sagedesk:([0-9a-f]{12})")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LabelStudioProject:
    """The desk's project. `server_key`, in its description, identifies it permanently.

    An address would not do: ports change, and a new server at the same address numbers its ids from 1 again.
    """

    project_id: int
    server_key: str
    label_config: str


class FoundTask(NamedTuple):
    """`verifier_version` is that of the predictions shown; None if it shows none."""

    ls_task_id: int
    verifier_version: str | None


@dataclass(frozen=True, slots=True)
class TasksPage:
    """Raw tasks. `server_now` is the server's clock, to the second; None if unknown."""

    tasks: Sequence[object]
    total: int
    server_now: datetime | None


class LabelStudioClient:
    """Calls to one server with one token; safe to use from one thread at a time."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        rng: Random,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        read_timeout_s: float = _READ_TIMEOUT_S,
    ) -> None:
        """`transport` replaces the network in tests."""
        self.url = url.rstrip("/")
        self._connected: Transport | None = None

        def connect() -> "Transport":
            from annotation.transport import Transport  # imports the SDK, so not before the first call

            return Transport(
                self.url, api_key, rng=rng, transport=transport, sleep=sleep, read_timeout_s=read_timeout_s
            )

        self._connect = connect

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()

    def ensure_project(self, title: str, config: str, *, new_key: str) -> LabelStudioProject:
        """The project with that title, created with `config` if there is none; an existing config is left unchanged.

        Args:
            new_key: 12 hex digits to mark the project with, if it has no mark yet.
        """
        found = self._oldest_project(title)
        if found is None:
            marked = f"Created by sagedesk; please keep this mark: sagedesk:{new_key}"
            # Not repeated if the answer is lost: the next run finds the project by its title.
            found = self._make_project(title, marked, config)
        mark = _SERVER_KEY.search(found.description)
        if mark is None:
            marked = f"{found.description} sagedesk:{new_key}".strip()
            self._transport.call(
                "marking the project", lambda sdk: sdk.projects.update(found.project_id, description=marked)
            )
        return LabelStudioProject(found.project_id, new_key if mark is None else mark.group(1), found.label_config)

    def update_label_config(self, project_id: int, config: str) -> bool:
        """False if Label Studio refuses because existing labels would not fit."""
        try:
            self._transport.call(
                "updating the label config", lambda sdk: sdk.projects.update(project_id, label_config=config)
            )
        except LabelStudioRejectedError as exc:
            logger.warning("the label config was not updated: %s", exc)
            return False
        return True

    def users(self) -> dict[int, str]:
        """Email by user id."""
        return self._transport.call(
            "listing users", lambda sdk: {_number(user.id): str(user.email or "") for user in sdk.users.list()}
        )

    def ensure_user(self, email: str, display_name: str) -> int:
        """Id of the user with that email, created if there is none; users created here cannot log in."""
        known = {address: user_id for user_id, address in self.users().items()}
        if email in known:
            return known[email]
        try:
            return self._transport.call(
                "making a user",
                lambda sdk: _number(
                    sdk.users.create(email=email, username=email, first_name=storable(display_name)).id
                ),
                attempts=_ONCE,
            )
        except LabelStudioRejectedError:
            known = {address: user_id for user_id, address in self.users().items()}
            if email in known:
                return known[email]
            raise

    def import_tasks(self, project_id: int, tasks: Sequence[Mapping[str, object]]) -> list[int]:
        """Import all in one call; returns ids in order. Never repeated: search by external id before trying again."""
        # As it was sent: the SDK's model of the answer does not know the ids.
        answer = self._transport.sent(
            f"importing {len(tasks)} tasks",
            lambda sdk: sdk.import_tasks(project_id, tasks, timeout_s=_IMPORT_TIMEOUT_S),
            attempts=_ONCE,
        )
        ids = _object(answer.body).get("task_ids")
        if not isinstance(ids, list) or len(ids) != len(tasks):
            raise LabelStudioError(f"importing {len(tasks)} tasks: Label Studio returned the ids {ids!r}; sync again")
        return [int(each) for each in ids]

    def import_predictions(self, project_id: int, predictions: Sequence[Mapping[str, object]]) -> None:
        """Each names its `task`. Never repeated: that would create a second copy."""
        self._transport.call(
            f"importing {len(predictions)} predictions",
            lambda sdk: sdk.import_predictions(project_id, predictions),
            attempts=_ONCE,
        )

    def find_tasks_by_external_id(self, project_id: int, external_ids: Sequence[str]) -> dict[str, list[FoundTask]]:
        """The tasks, lowest id first, of those external ids that have one."""
        wanted = set(external_ids)
        found: dict[str, list[FoundTask]] = {}
        for task in self._tasks_with_data(project_id, external_ids):
            data = task.get("data")
            external_id = data.get("external_id") if isinstance(data, Mapping) else None
            if isinstance(external_id, str) and external_id in wanted:
                versions = str(task.get("predictions_model_versions") or "")
                found.setdefault(external_id, []).append(FoundTask(_number(task.get("id")), versions or None))
        return {external_id: sorted(tasks, key=lambda task: task.ls_task_id) for external_id, tasks in found.items()}

    def tasks_since(
        self, project_id: int, since: datetime | None, *, page: int = 1, page_size: int = PAGE_SIZE
    ) -> TasksPage:
        """A page of tasks with `updated_at >= since`, oldest change first, each with its annotations.

        Past the end the page is empty. Annotations contain only the fields that the sync reads.
        """
        return self._page(changed_since(project_id, since, page=page, page_size=page_size))

    def ids_after(self, project_id: int, ls_task_id: int) -> TasksPage:
        """Tasks with a greater id, lowest first: id, time stamp, and the ids and stamps of their annotations.

        Continuing from the last id instead of by page number, no task is skipped if others are deleted meanwhile.
        """
        return self._page(ids_after(project_id, ls_task_id))

    def get_task(self, ls_task_id: int) -> Mapping[str, object] | None:
        return _object_or_none(
            self._transport.sent_or_none(
                "reading a task",
                lambda sdk: sdk.tasks.with_raw_response.get(str(ls_task_id)),
                none_at=HTTPStatus.NOT_FOUND,
            )
        )

    def get_annotation(self, ls_annotation_id: int) -> Mapping[str, object] | None:
        return _object_or_none(
            self._transport.sent_or_none(
                "reading an annotation",
                lambda sdk: sdk.annotations.with_raw_response.get(ls_annotation_id),
                none_at=HTTPStatus.NOT_FOUND,
            )
        )

    def create_annotation(self, ls_task_id: int, payload: AnnotationPayload) -> Mapping[str, object] | None:
        """With a `unique_id` in `payload`; None if there already is an annotation with that id.

        Raises:
            LabelStudioRejectedError: also if the task is gone.
        """
        return _object_or_none(
            self._transport.sent_or_none(
                "saving an annotation",
                lambda sdk: sdk.annotations.with_raw_response.create(ls_task_id, **payload),
                none_at=HTTPStatus.CONFLICT,
            )
        )

    def update_annotation(self, ls_annotation_id: int, payload: AnnotationPayload) -> Mapping[str, object] | None:
        """None if it is gone."""
        return _object_or_none(
            self._transport.sent_or_none(
                "changing an annotation",
                lambda sdk: sdk.annotations.with_raw_response.update(ls_annotation_id, **payload),
                none_at=HTTPStatus.NOT_FOUND,
            )
        )

    def delete_annotation(self, ls_annotation_id: int) -> bool:
        """False if it was already gone."""
        gone = self._transport.sent_or_none(
            "deleting an annotation",
            lambda sdk: sdk.annotations.with_raw_response.delete(ls_annotation_id),
            none_at=HTTPStatus.NOT_FOUND,
        )
        return gone is not None

    def delete_task(self, ls_task_id: int) -> bool:
        """False if it was already gone."""
        gone = self._transport.sent_or_none(
            "deleting a task",
            lambda sdk: sdk.tasks.with_raw_response.delete(str(ls_task_id)),
            none_at=HTTPStatus.NOT_FOUND,
        )
        return gone is not None

    def project_url(self, project_id: int) -> str:
        return f"{self.url}/projects/{project_id}/data"

    @property
    def _transport(self) -> "Transport":
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def _oldest_project(self, title: str) -> "_Project | None":
        def of_that_title(sdk: "Sdk") -> list[_Project]:
            listed = sdk.projects.list(title=title, page_size=1000).items or []
            return [_project(each.id, each.description, each.label_config) for each in listed if each.title == title]

        same = self._transport.call("listing projects", of_that_title)
        return min(same, key=lambda project: project.project_id, default=None)

    def _make_project(self, title: str, description: str, config: str) -> "_Project":
        def make(sdk: "Sdk") -> _Project:
            made = sdk.projects.create(
                title=title, description=description, label_config=config, enable_empty_annotation=False
            )
            return _project(made.id, made.description, made.label_config)

        return self._transport.call("making the project", make, attempts=_ONCE)

    def _tasks_with_data(self, project_id: int, external_ids: Sequence[str]) -> Iterator[Mapping[str, object]]:
        if len(external_ids) <= EXTERNAL_IDS_AT_MOST * _FILTERED_LISTINGS_AT_MOST:
            for start in range(0, len(external_ids), EXTERNAL_IDS_AT_MOST):
                some = external_ids[start : start + EXTERNAL_IDS_AT_MOST]
                yield from _objects(self._page(with_external_ids(project_id, some)).tasks)
            return
        last_id = 0
        while True:
            tasks = list(_objects(self._page(data_after(project_id, last_id)).tasks))
            yield from tasks
            if len(tasks) < WHOLE_PAGE:
                return
            last_id = max(_number(task.get("id")) for task in tasks)

    def _page(self, listing: TaskListing) -> TasksPage:
        past_the_end = HTTPStatus.NOT_FOUND if listing["page"] > 1 else None
        sent = self._transport.sent_or_none("listing tasks", lambda sdk: sdk.list_tasks(listing), none_at=past_the_end)
        if sent is None:
            return TasksPage((), 0, None)
        body = _object(sent.body)
        tasks, total = body.get("tasks"), body.get("total")
        if not isinstance(tasks, list) or not isinstance(total, int):
            raise LabelStudioError("listing tasks: Label Studio's answer has no list of tasks; check its version")
        return TasksPage(tasks, total, _clock(sent))


class _Project(NamedTuple):
    project_id: int
    description: str
    label_config: str


def _project(project_id: int | None, description: str | None, label_config: str | None) -> _Project:
    return _Project(_number(project_id), description or "", label_config or "")


def _clock(sent: "Sent") -> datetime | None:
    try:
        return parsedate_to_datetime(sent.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None


def _object(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise LabelStudioError(f"Label Studio answered {str(value)[:80]!r} instead of an object; check its version")


def _object_or_none(sent: "Sent | None") -> Mapping[str, object] | None:
    return None if sent is None else _object(sent.body)


def _objects(values: Sequence[object]) -> Iterator[Mapping[str, object]]:
    return (value for value in values if isinstance(value, Mapping))


def _number(value: object) -> int:
    if isinstance(value, int):
        return value
    raise LabelStudioError(f"Label Studio sent {value!r} instead of an id; check its version")
