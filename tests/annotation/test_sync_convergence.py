"""Promise 1: whatever the order, the repeats and the sizes in which pages come, the store ends where the server is."""

import copy
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotation.client import LabelStudioClient
from annotation.ingest import IngestCounts, Origin
from annotation.labels import label_config, label_config_hash
from annotation.people import People
from annotation.pull import bring_in, pull_delta, sweep
from annotation.push import SyncParts, push_tasks
from annotation.sync import DELTA_OVERLAP
from data.records import VariantId
from data.store import Store
from data.tables.annotations import AnnotationTable
from data.tables.label_studio_maps import AnnotationMapTable
from tests.annotation.fake_label_studio import FakeLabelStudio, answers
from tests.annotation.labelling import Bench, Clock

pytestmark = pytest.mark.slow

VARIANTS = 3
ACTIONS = st.tuples(
    st.sampled_from(["label", "edit", "skip", "delete", "spoil"]),
    st.integers(0, VARIANTS - 1),
    st.sampled_from(["ana@sagedesk.local", "li@sagedesk.local"]),
    st.sampled_from(["yes", "no"]),
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Bench]:
    """One store for all examples: each has variants and a server of its own."""
    clock = Clock()
    store = Store.in_memory(now=clock)
    yield Bench(store, clock)
    store.close()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    actions=st.lists(ACTIONS, min_size=1, max_size=8),
    page_size=st.integers(2, 4),
    shuffle=st.randoms(use_true_random=False),
    repeats=st.integers(0, 5),
)
def test_shuffled_repeated_and_cut_pages_end_in_the_servers_state(
    shared: Bench, actions: list[tuple[str, int, str, str]], page_size: int, shuffle: Random, repeats: int
) -> None:
    fake = FakeLabelStudio()
    parts = parts_of(fake, shared)
    ids = shared.add_variants(VARIANTS)
    push_tasks(parts, ids)
    pages = []
    for action in actions:
        act(fake, ids, *action)
        tasks = copy.deepcopy(list(parts.client.tasks_since(1, None).tasks))
        pages += [tasks[start : start + page_size] for start in range(0, len(tasks), page_size)]
    pages += [shuffle.choice(pages) for _ in range(repeats)]
    shuffle.shuffle(pages)

    for page in pages:
        bring_in(parts, page, IngestCounts())
    pull_delta(parts, IngestCounts(), overlap=DELTA_OVERLAP, page_size=page_size)
    sweep(parts, IngestCounts())

    assert state_here(parts) == state_there(fake)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=1, max_size=8), page_size=st.integers(1, 4))
def test_deltas_alone_follow_the_server_without_a_sweep(
    shared: Bench, actions: list[tuple[str, int, str, str]], page_size: int
) -> None:
    fake = FakeLabelStudio()
    parts = parts_of(fake, shared)
    ids = shared.add_variants(VARIANTS)
    push_tasks(parts, ids)

    for action in actions:
        act(fake, ids, *action)
        shared.clock.tick(7)
        fake.tick(7)
        pull_delta(parts, IngestCounts(), overlap=DELTA_OVERLAP, page_size=page_size)

        assert state_here(parts) == state_there(fake)


def parts_of(fake: FakeLabelStudio, bench: Bench) -> SyncParts:
    client = LabelStudioClient("http://fake.test", "ab" * 20, rng=Random(1), transport=fake.transport())
    key = f"{len(bench.variants):012x}"
    project = client.ensure_project("sagedesk", label_config(), new_key=key)
    origin = Origin(key, project.project_id, label_config_hash())
    return SyncParts(bench.store, client, origin, People(client), bench.clock, Random(2))


def act(fake: FakeLabelStudio, ids: list[VariantId], what: str, number: int, user: str, answer: str) -> None:
    there = fake.task_of(ids[number])["annotations"]
    if what == "label" or not there:
        fake.label(ids[number], answers(au=answer), user=user)
    elif what == "edit":
        fake.edit(there[-1]["id"], user=user, result=answers(au=answer), was_cancelled=False)
    elif what == "skip":
        fake.edit(there[0]["id"], user=user, result=[], was_cancelled=True)
    elif what == "spoil":
        fake.edit(there[0]["id"], user=user, result=answers(au="perhaps"), was_cancelled=False)
    else:
        fake.delete(there[0]["id"])


def state_there(fake: FakeLabelStudio) -> dict[int, tuple[str, str] | None]:
    """What each annotation says, by its id; None for one that cannot be read."""
    return {annotation["id"]: said(annotation) for annotation in fake.annotations()}


def said(annotation: dict) -> tuple[str, str] | None:
    if annotation["was_cancelled"]:
        return ("skipped", "")
    answer = annotation["result"][-1]["value"]["choices"][0]
    return None if answer == "perhaps" else ("answered", answer)


def state_here(parts: SyncParts) -> dict[int, tuple[str, str] | None]:
    """The same by the store; an unreadable one is compared as unreadable whatever it said before."""
    with parts.store.read() as connection:
        links = AnnotationMapTable(connection, parts.origin.ls_server).all()
        current = AnnotationTable(connection).current_by_ids([link.annotation_id for link in links])
        odd = {
            row[0]
            for row in connection.execute(
                "SELECT ls_annotation_id FROM quarantine WHERE ls_server = ? AND resolved_at IS NULL",
                [parts.origin.ls_server],
            ).fetchall()
        }
    state: dict[int, tuple[str, str] | None] = {}
    for link in links:
        annotation = current.get(link.annotation_id)
        if link.ls_annotation_id in odd:
            state[link.ls_annotation_id] = None
        elif annotation is not None and not annotation.is_deleted:
            answer = "yes" if annotation.answers.au else "no"
            state[link.ls_annotation_id] = ("skipped", "") if annotation.is_skipped else ("answered", answer)
    return state
