"""What the client makes of single answers; how it bears broken ones is in `faults/test_sync_faults.py`."""

import json
import subprocess
import sys
from collections.abc import Callable
from random import Random

import httpx
import pytest

from annotation.client import LabelStudioClient
from data.errors import LabelStudioError, LabelStudioRejectedError, LabelStudioUnavailableError
from data.tables.sync_state import QuarantineTable
from tests.annotation.fake_label_studio import FakeLabelStudio, answers
from tests.annotation.labelling import YES, Bench, jwt, sync_with

ONCE: dict[str, Callable[[LabelStudioClient], object]] = {
    "import": lambda client: client.import_tasks(1, [{"data": {}}]),
    "predictions": lambda client: client.import_predictions(1, [{"task": 1, "result": []}]),
    "project": lambda client: client.ensure_project("new", "<View/>", new_key="0" * 12),
    "user": lambda client: client.ensure_user("ana@sagedesk.local", "Ana"),
}
TOO_EARLY: list[httpx.Response | Exception] = [
    httpx.Response(500, json={"detail": "database is locked"}),
    httpx.Response(429, json={}),
    httpx.Response(409, json={"detail": "conflict"}),
    httpx.Response(502, text="<html>"),
    httpx.Response(201, text="<html>"),
    httpx.ConnectError("refused"),
    httpx.RemoteProtocolError("cut"),
    httpx.ReadTimeout("silent"),
]


@pytest.mark.parametrize("call", ONCE)
@pytest.mark.parametrize("answer", TOO_EARLY, ids=str)
def test_what_must_not_run_twice_is_sent_once_whatever_comes_back(
    call: str, answer: httpx.Response | Exception
) -> None:
    sent = []

    def server(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=[] if request.url.path == "/api/users/" else {"results": [], "count": 0})
        sent.append(request.url.path)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(LabelStudioError):
        ONCE[call](client_of(server))

    assert len(sent) == 1


def test_a_conflict_on_a_label_is_one_request_and_no_error() -> None:
    sent = []

    def server(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(409, json={"detail": "Annotation with this unique id already exists"})

    assert client_of(server).create_annotation(1, {"result": [], "unique_id": "u"}) is None
    assert len(sent) == 1


@pytest.mark.parametrize("call", ["delete_task", "delete_annotation"])
def test_a_log_in_page_is_no_answer_to_a_deletion(call: str) -> None:
    sent = []

    def server(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, html="<title>Log in</title>")

    with pytest.raises(LabelStudioUnavailableError, match="not JSON"):
        getattr(client_of(server), call)(7)

    assert len(sent) > 1


def test_tasks_are_handed_on_as_they_were_sent() -> None:
    odd = [{"id": 7.9}, {"id": True}, "no task", None, [1], {"id": "7", "updated_at": 5, "annotations": ["x"]}]
    client = client_of(lambda request: httpx.Response(200, json={"tasks": odd, "total": 6}))

    page = client.tasks_since(1, None)

    assert json.dumps(page.tasks) == json.dumps(odd)


def test_one_odd_task_of_a_page_is_quarantined_and_its_neighbours_come_in(bench: Bench, fake: FakeLabelStudio) -> None:
    one, two = bench.add_variants(2)
    sync = sync_with(fake, bench)
    sync.push_tasks([one, two])
    fake.label(one, answers())
    fake.label(two, answers())
    odd = fake.task_of(one)
    kept, odd["id"] = odd["id"], odd["id"] + 0.5

    sync.pull_delta()

    assert [each.answers for each in bench.current(two)] == [YES]
    assert bench.current(one) == []
    with bench.store.read() as connection:
        (row,) = QuarantineTable(connection).open()
    assert str(kept + 0.5) in row.payload


@pytest.mark.parametrize("body", [{"detail": "x"}, ["ana"], [None], [{"id": None, "email": "a"}], 7, "x"], ids=str)
def test_an_answer_of_another_shape_is_said_to_be_one(body: object) -> None:
    client = client_of(lambda request: httpx.Response(200, json=body))

    with pytest.raises(LabelStudioError, match="check its version"):
        client.users()


def test_a_failed_renewal_of_the_token_does_not_pass_for_a_missing_annotation() -> None:
    client = client_of(lambda request: httpx.Response(404, json={"detail": "no such page"}), jwt("refresh", 1))

    with pytest.raises(LabelStudioRejectedError, match="rejects the token"):
        client.get_annotation(1)


def test_a_name_that_is_no_text_makes_a_user_all_the_same() -> None:
    client = LabelStudioClient("http://fake.test", "ab" * 20, rng=Random(1), transport=FakeLabelStudio().transport())

    assert client.ensure_user("ana@sagedesk.local", "Ana \ud800") == 2


@pytest.mark.server
def test_the_sdk_is_imported_by_the_first_call_and_brings_no_pandas() -> None:
    code = (
        "import sys; import annotation.sync; assert 'label_studio_sdk' not in sys.modules; "
        "import annotation.transport; assert 'label_studio_sdk.core.client_wrapper' in sys.modules; "
        "assert 'pandas' not in sys.modules"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-500:]


def client_of(server: Callable[[httpx.Request], httpx.Response], token: str = "ab" * 20) -> LabelStudioClient:
    return LabelStudioClient(
        "http://fake.test", token, rng=Random(1), transport=httpx.MockTransport(server), sleep=lambda seconds: None
    )
