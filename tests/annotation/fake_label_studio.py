"""Label Studio as far as the client speaks to it, in memory, behind an httpx transport: the real client runs on top.

Stamps come from a clock that the test moves. `before` and `after` break answers. What it does is held to the
real server by `test_server_contract.py`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs

import httpx

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
Before = Callable[[httpx.Request], httpx.Response | Exception | None]
After = Callable[[httpx.Request], Exception | None]


@dataclass
class FakeLabelStudio:
    """`before` answers in the server's place; `after` loses the answer of a call that was carried out."""

    now: datetime = START
    projects: dict[int, dict] = field(default_factory=dict)
    users: dict[int, str] = field(default_factory=lambda: {1: "desk@label-studio.local"})
    tasks: dict[int, dict] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    before: Before = lambda request: None
    after: After = lambda request: None
    _last: dict[str, int] = field(default_factory=dict)

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    def tick(self, seconds: float = 1.0) -> None:
        self.now += timedelta(seconds=seconds)

    # -- what people do in Label Studio's own pages

    def label(
        self, external_id: str, result: list | None, *, user: str = "ana@sagedesk.local", **fields: object
    ) -> int:
        task = self.task_of(external_id)
        return self._add_annotation(task, {"result": result, "completed_by": self.user(user), **fields})["id"]

    def edit(self, annotation_id: int, *, user: str | None = None, **fields: object) -> None:
        task, annotation = self._find(annotation_id)
        annotation |= fields | {"updated_at": self._stamp()}
        if user is not None:
            annotation["updated_by"] = self.user(user)
        task["updated_at"] = self._stamp()

    def delete(self, annotation_id: int) -> None:
        task, annotation = self._find(annotation_id)
        task["annotations"].remove(annotation)
        task["updated_at"] = self._stamp()

    def delete_task(self, external_id: str) -> None:
        del self.tasks[self.task_of(external_id)["id"]]

    def task_of(self, external_id: str) -> dict:
        return next(task for task in self.tasks.values() if task["data"]["external_id"] == external_id)

    def annotations(self) -> list[dict]:
        return [annotation for task in self.tasks.values() for annotation in task["annotations"]]

    def user(self, email: str) -> int:
        for user_id, address in self.users.items():
            if address == email:
                return user_id
        self.users[len(self.users) + 1] = email
        return len(self.users)

    # -- the server

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(f"{request.method} {request.url.path}")
        broken = self.before(request)
        if isinstance(broken, Exception):
            raise broken
        if broken is not None:
            return broken
        status, body = self._route(request)
        lost = self.after(request)
        if lost is not None:
            raise lost
        headers = {"date": format_datetime(self.now.replace(microsecond=0), usegmt=True)}
        if status == 204:
            return httpx.Response(status, headers=headers)
        return httpx.Response(status, json=body, headers=headers)

    def _route(self, request: httpx.Request) -> tuple[int, object]:  # noqa: PLR0912 - one branch a route
        path = request.url.path
        query = {name: values[0] for name, values in parse_qs(request.url.query.decode()).items()}
        body = json.loads(request.content or b"{}")
        match (request.method, *path.strip("/").split("/")[1:]):
            case ("GET", "projects"):
                found = [each for each in self.projects.values() if query.get("title", "") in each["title"]]
                return 200, {"results": found, "count": len(found)}
            case ("POST", "projects"):
                number = self._next("project")
                self.projects[number] = {**body, "id": number}
                return 201, self.projects[number]
            case ("PATCH", "projects", number):
                self.projects[int(number)] |= body
                return 200, self.projects[int(number)]
            case ("GET", "users"):
                return 200, [{"id": number, "email": email} for number, email in self.users.items()]
            case ("POST", "users"):
                if body["email"] in self.users.values():
                    return 400, {"validation_errors": {"email": ["exists"]}}
                return 201, {"id": self.user(body["email"]), "email": body["email"]}
            case ("POST", "projects", number, "import"):
                return 201, {"task_ids": [self._add_task(int(number), each) for each in body]}
            case ("POST", "projects", _, "import", "predictions"):
                for each in body:
                    task = self.tasks[each["task"]]
                    task["predictions"].append(each)
                    task["updated_at"] = self._stamp()
                return 201, {"created": len(body)}
            case ("GET", "tasks"):
                return self._list(query)
            case ("GET", "tasks", number):
                known = self.tasks.get(int(number))
                return (404, {"detail": "no task"}) if known is None else (200, self._whole(known))
            case ("DELETE", "tasks", number):
                return (404, {"detail": "no task"}) if self.tasks.pop(int(number), None) is None else (204, None)
            case ("POST", "tasks", number, "annotations"):
                if int(number) not in self.tasks:
                    return 404, {"detail": "no task"}
                task = self.tasks[int(number)]
                taken = {each.get("unique_id") for each in self.annotations()} - {None}
                if body.get("unique_id") in taken:
                    return 409, {"detail": "Annotation with this unique id already exists"}
                return 201, self._add_annotation(task, body)
            case (method, "annotations", number):
                return self._annotation(method, int(number), body)
        raise AssertionError(f"the fake has no {request.method} {path}")

    def _annotation(self, method: str, number: int, body: dict) -> tuple[int, object]:
        try:
            task, annotation = self._find(number)
        except KeyError:
            return 404, {"detail": "no annotation"}
        if method == "DELETE":
            self.delete(number)
            return 204, None
        if method == "PATCH":
            annotation |= body | {"updated_at": self._stamp(), "updated_by": 1}
            task["updated_at"] = self._stamp()
        return 200, annotation

    def _list(self, query: dict[str, str]) -> tuple[int, object]:
        asked = json.loads(query["query"])
        tasks = [task for task in self.tasks.values() if task["project"] == int(query["project"])]
        tests = [_condition(item) for item in asked["filters"]["items"]]
        if tests:
            how = any if asked["filters"]["conjunction"] == "or" else all
            tasks = [task for task in tasks if how(test(task) for test in tests)]
        order = asked["ordering"][0].removeprefix("tasks:")
        tasks.sort(key=lambda task: (task[order], task["id"]))
        size, page = int(query["page_size"]), int(query["page"])
        if page > 1 and (page - 1) * size >= len(tasks):
            return 404, {"detail": "Invalid page."}
        fields = set(query["include"].split(","))
        shown = [_only(self._whole(task, lists=True), fields) for task in tasks[(page - 1) * size : page * size]]
        return 200, {"total": len(tasks), "tasks": shown}

    def _whole(self, task: dict, *, lists: bool = False) -> dict:
        versions = sorted({each["model_version"] for each in task["predictions"]})
        annotations = [dict(annotation) for annotation in task["annotations"]]
        if not lists:
            for annotation in annotations:
                number = annotation["completed_by"]
                annotation["completed_by"] = {"id": number, "email": self.users.get(number)}
                annotation["created_ago"] = "a while"
        return {**task, "annotations": annotations, "predictions_model_versions": ",".join(versions)}

    def _add_task(self, project: int, payload: dict) -> int:
        number = self._next("task")
        stamp = self._stamp()
        self.tasks[number] = {
            "id": number,
            "project": project,
            "data": payload["data"],
            "predictions": payload.get("predictions", []),
            "annotations": [],
            "created_at": stamp,
            "updated_at": stamp,
        }
        return number

    def _add_annotation(self, task: dict, body: dict) -> dict:
        stamp = self._stamp()
        annotation = {
            "result": None,
            "was_cancelled": False,
            "ground_truth": False,
            "lead_time": None,
            "completed_by": 1,
            "updated_by": None,
            **body,
            "id": self._next("annotation"),
            "created_at": stamp,
            "updated_at": stamp,
        }
        task["annotations"].append(annotation)
        task["updated_at"] = self._stamp()
        return annotation

    def _find(self, annotation_id: int) -> tuple[dict, dict]:
        for task in self.tasks.values():
            for annotation in task["annotations"]:
                if annotation["id"] == annotation_id:
                    return task, annotation
        raise KeyError(annotation_id)

    def _next(self, kind: str) -> int:
        self._last[kind] = self._last.get(kind, 0) + 1
        return self._last[kind]

    def _stamp(self) -> str:
        self.now += timedelta(microseconds=1)
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _condition(item: dict) -> Callable[[dict], bool]:
    field_name = item["filter"].removeprefix("filter:tasks:")
    value = item["value"]
    if field_name == "updated_at":
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", value), f"the server answers 500 to {value}"
        return lambda task: task["updated_at"] >= value
    if field_name == "id":
        return lambda task: task["id"] > value
    assert field_name == "data.external_id"
    return lambda task: task["data"].get("external_id") == value


def _only(task: dict, fields: set[str]) -> dict:
    shown = {name: value for name, value in task.items() if name in fields}
    if "annotations" in shown:
        shown["annotations"] = [
            {name: value for name, value in annotation.items() if name in fields} for annotation in task["annotations"]
        ]
    return shown


def choice(control: str, *values: str) -> dict:
    return {
        "id": control,
        "from_name": control,
        "to_name": "variant",
        "type": "choices",
        "value": {"choices": list(values)},
    }


def answers(tc: str = "yes", lc: str = "yes", au: str = "yes") -> list[dict]:
    return [choice("tc", tc), choice("lc", lc), choice("au", au)]
