"""Label Studio's SDK for one server and token: the clients of four resources, and one listing that bypasses its models.

Never retries and translates no errors: `transport` does. Importing this module imports the SDK.

Built from the SDK's parts rather than `label_studio_sdk.LabelStudio`: importing that takes six times the CPU, for
pandas and a schema faker that the sync does not use, and the signed connection that the listing needs is private there.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import httpx
from label_studio_sdk.annotations.client import AnnotationsClient
from label_studio_sdk.core import ApiError, SyncClientWrapper
from label_studio_sdk.core.http_response import BaseHttpResponse
from label_studio_sdk.projects.client import ProjectsClient
from label_studio_sdk.tasks.client import TasksClient
from label_studio_sdk.users.client import UsersClient

from annotation.task_listing import TaskListing

if TYPE_CHECKING:
    from label_studio_sdk import ImportApiRequest, PredictionRequest

_SDK_RETRIES: Final = 0  # they would multiply ours, and repeat calls that must not run twice


class Sent(NamedTuple):
    """An answer as the server sent it; `body` is None if it is empty. Header names are in lower case."""

    body: object
    headers: Mapping[str, str]


class Sdk:
    """Every request is signed with the token; an access token that expires is renewed. The caller closes `http`."""

    def __init__(self, url: str, api_key: str, http: httpx.Client) -> None:
        wrapper = SyncClientWrapper(base_url=url, api_key=api_key, httpx_client=http, max_retries=_SDK_RETRIES)
        self.annotations = AnnotationsClient(client_wrapper=wrapper)
        self.projects = ProjectsClient(client_wrapper=wrapper)
        self.tasks = TasksClient(client_wrapper=wrapper)
        self.users = UsersClient(client_wrapper=wrapper)
        self._signed = wrapper.httpx_client

    def list_tasks(self, listing: TaskListing) -> BaseHttpResponse:
        """A raw page, because `tasks.list` gives no access to what was sent.

        Its models turn a task that does not fit them into None, and change odd ids (7.9 becomes 7, true becomes 1),
        where `inbound` quarantines the task; and they take 25 times the CPU of plain JSON (ADR 6).

        Raises:
            ApiError: anything but a 2xx, like the SDK's own calls.
        """
        answer = self._signed.request("api/tasks/", method="GET", params={**listing})
        if not answer.is_success:
            raise _error(answer)
        return BaseHttpResponse(response=answer)

    def import_tasks(
        self, project_id: int, tasks: Sequence[Mapping[str, object]], *, timeout_s: float
    ) -> BaseHttpResponse:
        # The SDK sends mappings unchanged. Its model of a task's prediction requires the id of a task not created yet.
        request = cast("Sequence[ImportApiRequest]", tasks)
        return self.projects.with_raw_response.import_tasks(
            project_id, request=request, return_task_ids=True, request_options={"timeout": timeout_s}
        )

    def import_predictions(self, project_id: int, predictions: Sequence[Mapping[str, object]]) -> None:
        request = cast("Sequence[PredictionRequest]", predictions)  # as with tasks
        self.projects.import_predictions(project_id, request=request)


def as_sent(answer: BaseHttpResponse) -> Sent:
    """The raw answer behind `with_raw_response`.

    Raises:
        ApiError: a 2xx without JSON; the SDK accepts even a login page as the answer to a deletion.
    """
    response = answer.response
    try:
        body = response.json() if response.content else None
    except ValueError as exc:
        raise _error(response) from exc
    return Sent(body, response.headers)


def _error(answer: httpx.Response) -> ApiError:
    try:
        body = answer.json()
    except ValueError:
        body = answer.text
    return ApiError(status_code=answer.status_code, headers=dict(answer.headers), body=body)
