from collections.abc import Iterator

import pytest

from data.store import Store
from tests.annotation.fake_label_studio import FakeLabelStudio
from tests.annotation.labelling import Bench, Clock


@pytest.fixture
def bench() -> Iterator[Bench]:
    clock = Clock()
    store = Store.in_memory(now=clock)
    yield Bench(store, clock)
    store.close()


@pytest.fixture
def fake() -> FakeLabelStudio:
    return FakeLabelStudio()
