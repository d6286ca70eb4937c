"""The real server, and the fake, behind the same client: what the sync relies on holds for both."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import httpx
import pytest

from annotation.client import LabelStudioClient, LabelStudioProject
from annotation.inbound import InboundAnnotation, annotation_from
from annotation.labels import label_config, label_config_hash
from annotation.tasks import annotation_payload, task_payload, unique_id
from data.errors import LabelStudioRejectedError
from data.records import VariantId
from tests.annotation.fake_label_studio import FakeLabelStudio, answers
from tests.annotation.labelling import NOW, a_question, a_variant, an_annotation
from tests.annotation.test_tasks import VERDICTS
from tests.conftest import RunningLabelStudio


class World:
    """One project on one server."""

    def __init__(self, client: LabelStudioClient, title: str) -> None:
        self.client = client
        self.title = title
        self.project: LabelStudioProject = client.ensure_project(title, label_config(), new_key="0123456789ab")
        self.number = self.project.project_id

    def import_variants(self, count: int, *, first: int = 0) -> dict[str, int]:
        question = a_question()
        variants = [a_variant(question, first + number) for number in range(count)]
        payloads = [
            task_payload(each, question, VERDICTS, type_name="Negation", definition="definition") for each in variants
        ]
        ids = self.client.import_tasks(self.number, payloads)
        return dict(zip([variant.variant_id for variant in variants], ids, strict=True))


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.server)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        transport: httpx.BaseTransport | None = FakeLabelStudio(now=datetime.now(UTC)).transport()
        url, token = "http://label-studio.test", "ab" * 20
    else:
        running = request.getfixturevalue("label_studio")
        transport, url, token = None, running.url, running.token
    client = LabelStudioClient(url, token, rng=Random(1), transport=transport)
    yield World(client, f"contract {request.node.name} {request.param}"[:50])
    client.close()


def test_a_project_is_made_once_and_keeps_its_mark_and_config(world: World) -> None:
    again = world.client.ensure_project(world.title, label_config(), new_key="ffffffffffff")

    assert again.server_key == "0123456789ab"
    assert again.project_id == world.number
    assert label_config_hash(again.label_config) == label_config_hash()


def test_tasks_are_found_by_external_id_with_the_version_that_they_show(world: World) -> None:
    ids = world.import_variants(3)

    found = world.client.find_tasks_by_external_id(world.number, [*ids, "nobody"])

    assert {name: [task.ls_task_id for task in tasks] for name, tasks in found.items()} == {
        name: [number] for name, number in ids.items()
    }
    assert {task.verifier_version for tasks in found.values() for task in tasks} == {"feature-1"}


def test_many_external_ids_are_found_by_a_listing(world: World) -> None:
    ids = world.import_variants(3)

    found = world.client.find_tasks_by_external_id(world.number, [*ids, *(f"nobody {n}" for n in range(300))])

    assert set(found) == set(ids)


def test_a_users_label_is_created_once_and_read_back(world: World) -> None:
    (ls_task_id,) = world.import_variants(1).values()
    user = world.client.ensure_user("ana@sagedesk.local", "Ana")
    label = an_annotation("a_1", VariantId("v"), comment="“quoted” 😀 <b>$5</b>", is_flagged=True)
    payload = annotation_payload(label, completed_by=user) | {"unique_id": unique_id(label.annotation_id, world.title)}

    made = world.client.create_annotation(ls_task_id, payload)
    again = world.client.create_annotation(ls_task_id, payload)

    assert world.client.ensure_user("ana@sagedesk.local", "Ana") == user
    assert again is None
    assert made is not None
    back = annotation_from(world.client.get_annotation(int(str(made["id"]))), option_count=4)
    assert isinstance(back, InboundAnnotation)
    assert (back.content_hash, back.completed_by, back.lead_time_s) == (label.content_hash, user, 4.5)
    assert back.provenance is not None


def test_the_delta_shows_a_change_once_and_the_wait_is_over_after_it(world: World) -> None:
    ids = list(world.import_variants(3).values())
    before = _newest(world)
    world.client.create_annotation(ids[1], {"result": answers(), "was_cancelled": False})

    page = world.client.tasks_since(world.number, before + timedelta(microseconds=1))

    assert [_id(task) for task in page.tasks] == [ids[1]]
    assert page.server_now is not None
    annotation = _annotations(page.tasks[0])[0]
    assert isinstance(annotation_from(annotation, option_count=4), InboundAnnotation)
    assert world.client.tasks_since(world.number, _newest(world) + timedelta(microseconds=1)).tasks == []


def test_the_delta_shows_updates_deletes_and_skips(world: World) -> None:
    (ls_task_id,) = world.import_variants(1).values()
    made = world.client.create_annotation(ls_task_id, {"result": answers()})
    skipped = world.client.create_annotation(ls_task_id, {"result": [], "was_cancelled": True})
    assert made is not None
    assert skipped is not None
    stamps = [_newest(world)]
    world.client.update_annotation(_id(made), {"result": answers(au="no")})
    stamps.append(_newest(world))
    assert world.client.delete_annotation(_id(made))
    stamps.append(_newest(world))

    (task,) = world.client.tasks_since(world.number, None).tasks

    assert stamps[0] < stamps[1] < stamps[2]
    assert [(_id(each), each["was_cancelled"]) for each in _annotations(task)] == [(_id(skipped), True)]


def test_pages_end_with_nothing(world: World) -> None:
    world.import_variants(3)

    first = world.client.tasks_since(world.number, None, page=1, page_size=2)
    past = world.client.tasks_since(world.number, None, page=9, page_size=2)

    assert (len(first.tasks), first.total, list(past.tasks)) == (2, 3, [])


def test_a_sweep_page_goes_on_from_the_last_id(world: World) -> None:
    ids = sorted(world.import_variants(3).values())
    world.client.create_annotation(ids[2], {"result": answers()})

    page = world.client.ids_after(world.number, ids[0])

    assert [_id(task) for task in page.tasks] == ids[1:]
    assert [len(_annotations(task)) for task in page.tasks] == [0, 1]
    assert set(_annotations(page.tasks[1])[0]) == {"id", "updated_at"}


def test_what_is_gone_is_none_or_false(world: World) -> None:
    (ls_task_id,) = world.import_variants(1).values()

    assert world.client.get_annotation(999_999) is None
    assert world.client.get_task(999_999) is None
    assert world.client.update_annotation(999_999, {"result": []}) is None
    assert world.client.delete_annotation(999_999) is False
    assert world.client.delete_task(ls_task_id) is True
    assert world.client.delete_task(ls_task_id) is False
    with pytest.raises(LabelStudioRejectedError):
        world.client.create_annotation(ls_task_id, {"result": []})


def test_predictions_can_be_added_later_and_move_the_tasks_stamp(world: World) -> None:
    question = a_question()
    (ls_task_id,) = world.client.import_tasks(
        world.number, [task_payload(a_variant(question, 1), question, [], type_name="Negation", definition="")]
    )
    before = _newest(world)

    world.client.import_predictions(
        world.number, [{"task": ls_task_id, "model_version": "feature-2", "score": 0.5, "result": answers()}]
    )

    found = world.client.find_tasks_by_external_id(world.number, [a_variant(question, 1).variant_id])
    assert [task.verifier_version for tasks in found.values() for task in tasks] == ["feature-2"]
    assert _newest(world) >= before


@pytest.mark.server
def test_the_real_server_says_no_to_a_wrong_token(label_studio: RunningLabelStudio) -> None:
    client = LabelStudioClient(label_studio.url, "0" * 40, rng=Random(1))

    with pytest.raises(LabelStudioRejectedError, match="token"):
        client.users()


@pytest.mark.server
def test_the_real_server_takes_a_personal_token(label_studio: RunningLabelStudio) -> None:
    legacy = {"authorization": f"Token {label_studio.token}"}
    made = httpx.post(f"{label_studio.url}/api/token/", headers=legacy)
    assert made.status_code == 201, made.text[:200]

    client = LabelStudioClient(label_studio.url, made.json()["token"], rng=Random(1))

    assert label_studio.credentials.email in client.users().values()


def _newest(world: World) -> datetime:
    stamps = [str(_fields(task)["updated_at"]) for task in world.client.tasks_since(world.number, None).tasks]
    return max((datetime.fromisoformat(stamp) for stamp in stamps), default=NOW)


def _id(raw: object) -> int:
    return int(_fields(raw)["id"])


def _annotations(task: object) -> list[dict[str, Any]]:
    return list(_fields(task)["annotations"])


def _fields(raw: object) -> dict[str, Any]:
    assert isinstance(raw, dict)
    return raw
