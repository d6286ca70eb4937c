"""What the sync asks of Label Studio, call by call. Answers are raw JSON, read by `inbound`; failures see `transport`.

What is not there (404) is None or False. A call that must not run twice is never repeated here: its caller looks first.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Final, NamedTuple

import httpx

from annotation.transport import READ_TIMEOUT_S, Transport, json_of
from data.errors import LabelStudioError, LabelStudioRejectedError

_STAMP_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"  # any other form of a stamp in a filter is answered with HTTP 500
_DELTA_FIELDS: Final = (
    "id,updated_at,created_at,annotations,result,completed_by,was_cancelled,ground_truth,lead_time,updated_by,"
    "parent_prediction"
)
_FOUND_FIELDS: Final = "id,data,predictions_model_versions"
_IMPORT_TIMEOUT_S: Final = 300.0
_IDS_A_FILTER: Final = 20
_FILTERS_AT_MOST: Final = 10  # beyond that, one listing is cheaper
_PAGE_SIZE: Final = 500
_IDS_PAGE_SIZE: Final = 1000
_SERVER_KEY: Final = re.compile(r"sagedesk:([0-9a-f]{12})")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LabelStudioProject:
    """The desk's project. `server_key` stands in its description and names it for good.

    An address would not do: ports change, and a server set up anew at the same address counts its ids from 1 again.
    """

    project_id: int
    server_key: str
    label_config: str


class FoundTask(NamedTuple):
    """`verifier_version` is that of the predictions that it shows; None where it shows none."""

    ls_task_id: int
    verifier_version: str | None


@dataclass(frozen=True, slots=True)
class TasksPage:
    """Raw tasks. `server_now` is the server's clock, to the second; None where it does not say."""

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
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        """`transport` replaces the network in tests."""
        self.url = url.rstrip("/")
        self._transport = Transport(
            self.url, api_key, rng=rng, transport=transport, sleep=sleep, read_timeout_s=read_timeout_s
        )

    def close(self) -> None:
        self._transport.close()

    def ensure_project(self, title: str, config: str, *, new_key: str) -> LabelStudioProject:
        """The project of that title, made with `config` where there is none; an existing config is left as it is.

        Args:
            new_key: 12 hex digits that mark the project if it has no mark yet.
        """
        listed = self._transport.json(
            "listing projects", "GET", "api/projects/", params={"title": title, "page_size": 1000}
        )
        same = [each for each in _objects(_field(listed, "results")) if each.get("title") == title]
        found = min(same, key=lambda each: _number(each, "id"), default=None)
        if found is None:
            marked = f"Made by sagedesk; keep this mark: sagedesk:{new_key}"
            body = {"title": title, "description": marked, "label_config": config, "enable_empty_annotation": False}
            # Not repeated after a lost answer: the next run finds the project by its title.
            found = _object(self._transport.json("making the project", "POST", "api/projects/", body=body, attempts=1))
        mark = _SERVER_KEY.search(str(found.get("description") or ""))
        project_id = _number(found, "id")
        if mark is None:
            marked = f"{found.get('description') or ''} sagedesk:{new_key}".strip()
            self._transport.json(
                "marking the project", "PATCH", f"api/projects/{project_id}/", body={"description": marked}
            )
        key = new_key if mark is None else mark.group(1)
        return LabelStudioProject(project_id, key, str(found.get("label_config") or ""))

    def update_label_config(self, project_id: int, config: str) -> bool:
        """False where Label Studio refuses because existing labels would not fit."""
        try:
            self._transport.json(
                "updating the label config", "PATCH", f"api/projects/{project_id}/", body={"label_config": config}
            )
        except LabelStudioRejectedError as exc:
            logger.warning("label config not updated: %s", exc)
            return False
        return True

    def users(self) -> dict[int, str]:
        """Email by user id."""
        users = self._transport.json("listing users", "GET", "api/users/")
        return {_number(user, "id"): str(user.get("email", "")) for user in _objects(users)}

    def ensure_user(self, email: str, display_name: str) -> int:
        """Id of the user with that email, made where there is none; one made here cannot log in."""
        known = {address: user_id for user_id, address in self.users().items()}
        if email in known:
            return known[email]
        body = {"email": email, "username": email, "first_name": display_name}
        try:
            return _number(
                _object(self._transport.json("making a user", "POST", "api/users/", body=body, attempts=1)), "id"
            )
        except LabelStudioRejectedError:
            known = {address: user_id for user_id, address in self.users().items()}
            if email in known:
                return known[email]
            raise

    def import_tasks(self, project_id: int, tasks: Sequence[Mapping[str, object]]) -> list[int]:
        """Import all in one call; returns task ids in order. Never repeated: look by external id before another try."""
        answer = self._transport.json(
            f"importing {len(tasks)} tasks",
            "POST",
            f"api/projects/{project_id}/import",
            params={"return_task_ids": "true"},
            body=tasks,
            attempts=1,
            timeout_s=_IMPORT_TIMEOUT_S,
        )
        ids = _field(answer, "task_ids")
        if not isinstance(ids, list) or len(ids) != len(tasks):
            raise LabelStudioError(f"importing {len(tasks)} tasks: Label Studio named {ids!r} as their ids; look again")
        return [int(each) for each in ids]

    def import_predictions(self, project_id: int, predictions: Sequence[Mapping[str, object]]) -> None:
        """Each names its `task`. Never repeated: a second copy would stand beside the first."""
        path = f"api/projects/{project_id}/import/predictions"
        self._transport.json(f"importing {len(predictions)} predictions", "POST", path, body=predictions, attempts=1)

    def find_tasks_by_external_id(self, project_id: int, external_ids: Sequence[str]) -> dict[str, list[FoundTask]]:
        """The tasks, lowest id first, of those external ids that have any."""
        wanted = set(external_ids)
        found: dict[str, list[FoundTask]] = {}
        for task in self._tasks_with_data(project_id, external_ids):
            data = task.get("data")
            external_id = data.get("external_id") if isinstance(data, Mapping) else None
            if isinstance(external_id, str) and external_id in wanted:
                versions = str(task.get("predictions_model_versions") or "")
                found.setdefault(external_id, []).append(FoundTask(_number(task, "id"), versions or None))
        return {external_id: sorted(tasks, key=lambda task: task.ls_task_id) for external_id, tasks in found.items()}

    def tasks_since(
        self, project_id: int, since: datetime | None, *, page: int = 1, page_size: int = _PAGE_SIZE
    ) -> TasksPage:
        """A page of tasks with `updated_at >= since`, oldest change first, each with its annotations.

        An empty page past the end. Annotations hold only the fields that the sync reads.
        """
        items = [] if since is None else [_filter("updated_at", "greater_or_equal", "Datetime", stamp_text(since))]
        return self._page(project_id, items, order="tasks:updated_at", include=_DELTA_FIELDS, page=page, size=page_size)

    def ids_after(self, project_id: int, ls_task_id: int) -> TasksPage:
        """Tasks with a greater id, lowest first: id, stamp and the ids and stamps of their annotations.

        Going on from the last id instead of by page numbers, no task is passed over when others vanish meanwhile.
        """
        items = [_filter("id", "greater", "Number", ls_task_id)]
        return self._page(
            project_id, items, order="tasks:id", include="id,updated_at,annotations", page=1, size=_IDS_PAGE_SIZE
        )

    def get_task(self, ls_task_id: int) -> Mapping[str, object] | None:
        return self._object_or_none("reading a task", f"api/tasks/{ls_task_id}/")

    def get_annotation(self, ls_annotation_id: int) -> Mapping[str, object] | None:
        return self._object_or_none("reading an annotation", f"api/annotations/{ls_annotation_id}/")

    def create_annotation(self, ls_task_id: int, payload: Mapping[str, object]) -> Mapping[str, object] | None:
        """With a `unique_id` in `payload`; None where an annotation with that id is there already.

        Raises:
            LabelStudioRejectedError: also when the task is gone.
        """
        answer = self._transport.send(
            "saving an annotation", "POST", f"api/tasks/{ls_task_id}/annotations/", body=payload
        )
        if answer.status_code == httpx.codes.CONFLICT:
            return None
        return _object(json_of("saving an annotation", answer))

    def update_annotation(self, ls_annotation_id: int, payload: Mapping[str, object]) -> Mapping[str, object] | None:
        """None where it is gone."""
        answer = self._transport.send(
            "changing an annotation", "PATCH", f"api/annotations/{ls_annotation_id}/", body=payload
        )
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return _object(json_of("changing an annotation", answer))

    def delete_annotation(self, ls_annotation_id: int) -> bool:
        """False where it was gone already."""
        return self._delete("deleting an annotation", f"api/annotations/{ls_annotation_id}/")

    def delete_task(self, ls_task_id: int) -> bool:
        """False where it was gone already."""
        return self._delete("deleting a task", f"api/tasks/{ls_task_id}/")

    def project_url(self, project_id: int) -> str:
        return f"{self.url}/projects/{project_id}/data"

    def _tasks_with_data(self, project_id: int, external_ids: Sequence[str]) -> Iterator[Mapping[str, object]]:
        if len(external_ids) <= _IDS_A_FILTER * _FILTERS_AT_MOST:
            for start in range(0, len(external_ids), _IDS_A_FILTER):
                some = external_ids[start : start + _IDS_A_FILTER]
                items = [_filter("data.external_id", "equal", "String", each) for each in some]
                yield from _objects(
                    self._page(
                        project_id,
                        items,
                        order="tasks:id",
                        include=_FOUND_FIELDS,
                        page=1,
                        size=_IDS_PAGE_SIZE,
                        conjunction="or",
                    ).tasks
                )
            return
        last_id = 0
        while True:
            items = [_filter("id", "greater", "Number", last_id)]
            tasks = list(
                _objects(
                    self._page(
                        project_id, items, order="tasks:id", include=_FOUND_FIELDS, page=1, size=_IDS_PAGE_SIZE
                    ).tasks
                )
            )
            yield from tasks
            if len(tasks) < _IDS_PAGE_SIZE:
                return
            last_id = max(_number(task, "id") for task in tasks)

    def _page(
        self,
        project_id: int,
        items: Sequence[Mapping[str, object]],
        *,
        order: str,
        include: str,
        page: int,
        size: int,
        conjunction: str = "and",
    ) -> TasksPage:
        query = {"filters": {"conjunction": conjunction, "items": list(items)}, "ordering": [order]}
        params: dict[str, object] = {
            "project": project_id,
            "page": page,
            "page_size": size,
            "fields": "all",
            "include": include,
            "query": json.dumps(query),
        }
        answer = self._transport.send("listing tasks", "GET", "api/tasks/", params=params)
        if answer.status_code == httpx.codes.NOT_FOUND and page > 1:  # past the end
            return TasksPage((), 0, _clock(answer))
        body = json_of("listing tasks", answer)
        tasks, total = _field(body, "tasks"), _field(body, "total")
        if not isinstance(tasks, list) or not isinstance(total, int):
            raise LabelStudioError(
                "listing tasks: Label Studio's answer holds no list of tasks; is it another version?"
            )
        return TasksPage(tasks, total, _clock(answer))

    def _object_or_none(self, what: str, path: str) -> Mapping[str, object] | None:
        answer = self._transport.send(what, "GET", path)
        return None if answer.status_code == httpx.codes.NOT_FOUND else _object(json_of(what, answer))

    def _delete(self, what: str, path: str) -> bool:
        answer = self._transport.send(what, "DELETE", path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return False
        if not answer.is_success:
            json_of(what, answer)
        return True


def stamp_text(stamp: datetime) -> str:
    """As a filter takes it."""
    return stamp.astimezone(UTC).strftime(_STAMP_FORMAT)


def _clock(answer: httpx.Response) -> datetime | None:
    try:
        return parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None


def _filter(field: str, operator: str, kind: str, value: object) -> dict[str, object]:
    return {"filter": f"filter:tasks:{field}", "operator": operator, "type": kind, "value": value}


def _object(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise LabelStudioError(
        f"Label Studio answered {str(value)[:80]!r} where an object should be; is it another version?"
    )


def _objects(values: object) -> Iterator[Mapping[str, object]]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise LabelStudioError(
            f"Label Studio answered {str(values)[:80]!r} where a list should be; is it another version?"
        )
    return (value for value in values if isinstance(value, Mapping))


def _field(value: object, name: str) -> object:
    return _object(value).get(name)


def _number(value: Mapping[str, object], name: str) -> int:
    number = value.get(name)
    if isinstance(number, int):
        return number
    raise LabelStudioError(f"Label Studio sent {name}={number!r} where a number should be; is it another version?")
