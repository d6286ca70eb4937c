"""Task queries for Label Studio: filters, order and fields in its Data Manager's format. Pure."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, TypedDict

PAGE_SIZE: Final = 500
WHOLE_PAGE: Final = 1000
EXTERNAL_IDS_AT_MOST: Final = 20  # per listing
_STAMP_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"  # any other time format in a filter gets HTTP 500
_DELTA_FIELDS: Final = (  # with all fields it takes four to six times as long
    "id,updated_at,created_at,annotations,result,completed_by,was_cancelled,ground_truth,lead_time,updated_by,"
    "parent_prediction"
)
_FOUND_FIELDS: Final = "id,data,predictions_model_versions"


class TaskListing(TypedDict):
    """The query for one page. `include` names fields, including those inside annotations; `query` is JSON."""

    project: int
    page: int
    page_size: int
    fields: Literal["all"]
    include: str
    query: str


def changed_since(project_id: int, since: datetime | None, *, page: int, page_size: int) -> TaskListing:
    """Tasks with `updated_at >= since`, oldest change first; all of them for None."""
    stamp = None if since is None else since.astimezone(UTC).strftime(_STAMP_FORMAT)
    filters = [] if stamp is None else [_filter("updated_at", "greater_or_equal", "Datetime", stamp)]
    listing = _listing(project_id, filters, order="tasks:updated_at", include=_DELTA_FIELDS)
    return {**listing, "page": page, "page_size": page_size}


def ids_after(project_id: int, ls_task_id: int) -> TaskListing:
    """Tasks with a greater id, lowest first, with only ids and time stamps."""
    return _listing(project_id, [_after(ls_task_id)], include="id,updated_at,annotations")


def data_after(project_id: int, ls_task_id: int) -> TaskListing:
    """Tasks with a greater id, lowest first, with their external ids."""
    return _listing(project_id, [_after(ls_task_id)], include=_FOUND_FIELDS)


def with_external_ids(project_id: int, external_ids: Sequence[str]) -> TaskListing:
    """The tasks with those ids, at most EXTERNAL_IDS_AT_MOST."""
    filters = [_filter("data.external_id", "equal", "String", each) for each in external_ids]
    return _listing(project_id, filters, include=_FOUND_FIELDS, conjunction="or")


def _listing(
    project_id: int,
    filters: Sequence[Mapping[str, object]],
    *,
    include: str,
    order: str = "tasks:id",
    conjunction: str = "and",
) -> TaskListing:
    query = {"filters": {"conjunction": conjunction, "items": filters}, "ordering": [order]}
    return {
        "project": project_id,
        "page": 1,
        "page_size": WHOLE_PAGE,
        "fields": "all",
        "include": include,
        "query": json.dumps(query),
    }


def _after(ls_task_id: int) -> Mapping[str, object]:
    return _filter("id", "greater", "Number", ls_task_id)


def _filter(field: str, operator: str, kind: str, value: object) -> Mapping[str, object]:
    return {"filter": f"filter:tasks:{field}", "operator": operator, "type": kind, "value": value}
