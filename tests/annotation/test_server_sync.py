"""The sync against a real server: the ways of a label, there and back."""

from collections.abc import Iterator
from random import Random
from typing import Any

import httpx
import pytest

from annotation.client import LabelStudioClient
from annotation.sync import LabelStudioSync
from data.errors import LabelStudioUnavailableError
from tests.annotation.fake_label_studio import answers
from tests.annotation.labelling import NO_AU, YES, Bench
from tests.conftest import RunningLabelStudio

pytestmark = pytest.mark.server


class Real:
    """A project of its own on the running server, and its API as somebody else would use it."""

    def __init__(self, url: str, token: str, bench: Bench, title: str) -> None:
        self.url = url
        self.token = token
        self.title = title
        self.client = LabelStudioClient(url, token, rng=Random(1))
        self.sync = LabelStudioSync(bench.store, self.client, now=bench.clock, rng=Random(title), project_title=title)

    def tasks(self) -> list[dict]:
        project = self.client.ensure_project(self.title, "", new_key="0" * 12)
        return [task for task in self.client.tasks_since(project.project_id, None).tasks if isinstance(task, dict)]

    def predictions(self, ls_task_id: int) -> list[dict]:
        task: Any = self.client.get_task(ls_task_id)
        return list(task["predictions"])

    def annotations(self) -> list[dict]:
        return [annotation for task in self.tasks() for annotation in task["annotations"]]


@pytest.fixture
def real(label_studio: RunningLabelStudio, bench: Bench, request: pytest.FixtureRequest) -> Iterator[Real]:
    real = Real(label_studio.url, label_studio.token, bench, request.node.name[:45])
    yield real
    real.client.close()


def test_a_label_goes_there_under_its_authors_name_and_an_edit_and_a_deletion_come_back(
    real: Real, bench: Bench
) -> None:
    (variant,) = bench.add_variants(1)
    bench.judge([variant])
    bench.queue([variant])
    label = bench.submit(variant, YES, by="ana", comment="fine <b>&amp; 😀")

    real.sync.run_once()

    (there,) = real.annotations()
    assert real.client.users()[there["completed_by"]] == "ana@sagedesk.local"
    assert bench.synced_at(label) is not None
    assert bench.current(variant)[0].ls_annotation_id == there["id"]

    real.client.update_annotation(there["id"], {"result": answers(au="no")})
    real.sync.run_once()

    (edited,) = bench.current(variant)
    assert (edited.answers, edited.annotator, edited.revision) == (NO_AU, "ana", 2)

    real.client.delete_annotation(there["id"])
    real.sync.run_once()

    assert [each.is_deleted for each in bench.current(variant)] == [True]


def test_a_label_made_there_comes_here_and_its_deleted_task_is_swept(real: Real, bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    real.sync.push_tasks([variant])
    (task,) = real.tasks()
    author = real.client.ensure_user("li@sagedesk.local", "Li")
    real.client.create_annotation(task["id"], {"result": answers(), "completed_by": author, "lead_time": 2.5})

    real.sync.run_once()

    (label,) = bench.current(variant)
    assert (label.annotator, label.answers, label.lead_time_s) == ("li", YES, 2.5)

    real.client.delete_task(task["id"])
    report = real.sync.sweep()

    assert report["vanished"] == 1
    assert [each.is_deleted for each in bench.current(variant)] == [True]


def test_lost_answers_make_no_second_task_and_no_second_annotation(real: Real, bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    lossy = Lossy()
    client = LabelStudioClient(real.url, real.token, rng=Random(1), transport=lossy, sleep=lambda seconds: None)
    sync = LabelStudioSync(bench.store, client, now=bench.clock, rng=Random(real.title), project_title=real.title)
    sync.pull_delta()
    label = bench.submit(variant)
    lossy.is_losing = True
    losses = 0
    while bench.synced_at(label) is None and losses < 10:
        try:
            sync.run_once()
        except LabelStudioUnavailableError:
            losses += 1

    assert losses > 0
    assert {"/import", "/annotations/"} <= {path[path.rindex("/", 0, -1) :] for path in lossy.lost}
    assert (len(real.tasks()), len(real.annotations())) == (1, 1)
    assert len(bench.revisions(label.annotation_id)) == 1
    client.close()


def test_a_server_that_is_away_costs_nothing_but_the_word_synced(real: Real, bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    dead = LabelStudioClient("http://127.0.0.1:9", real.token, rng=Random(1), sleep=lambda seconds: None)
    away = LabelStudioSync(bench.store, dead, now=bench.clock, rng=Random(1), project_title=real.title)
    label = bench.submit(variant)
    with pytest.raises(LabelStudioUnavailableError):
        away.run_once()
    assert bench.synced_at(label) is None

    real.sync.run_once()

    assert bench.synced_at(label) is not None


def test_a_blind_item_shows_no_verdict_until_it_is_answered(real: Real, bench: Bench) -> None:
    (variant,) = bench.add_variants(1)
    bench.judge([variant])
    bench.queue([variant], is_blind=True)
    real.sync.run_once()
    (task,) = real.tasks()
    before = real.predictions(task["id"])
    bench.submit(variant, is_blind=True, shown_verifier=None)

    real.sync.run_once()

    assert before == []
    assert len(real.predictions(task["id"])) == 1


class Lossy(httpx.BaseTransport):
    """The network after which the first answer to every call that makes something is lost."""

    def __init__(self) -> None:
        self._network = httpx.HTTPTransport()
        self.is_losing = False
        self.lost: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._network.handle_request(request)
        if self.is_losing and request.method == "POST" and request.url.path not in self.lost:
            answer.read()
            self.lost.append(request.url.path)
            raise httpx.ReadError("the answer is lost")
        return answer

    def close(self) -> None:
        self._network.close()
