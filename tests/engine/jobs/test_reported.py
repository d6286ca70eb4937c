"""What a run has reported, for many who look: read once, and again only where the file is another one."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.jobs.folder import RunFolder
from engine.jobs.reported import MOST_MESSAGES, Message, Reported

AT = "2026-03-01T12:00:00+00:00"


class CountingFolder(RunFolder):
    """Counts the bytes of events that were read from it."""

    read_bytes = 0

    def read_events(self, offset: int = 0) -> Iterator[tuple[int, Mapping[str, object]]]:
        for read_to, event in super().read_events(offset):
            self.read_bytes += read_to - offset
            offset = read_to
            yield read_to, event


@pytest.fixture
def folder(tmp_path: Path) -> CountingFolder:
    return CountingFolder(tmp_path)


def metric(step: int, value: float, name: str = "loss") -> str:
    return json.dumps({"at": AT, "kind": "metric", "name": name, "step": step, "value": value}) + "\n"


def message(text: str) -> str:
    return json.dumps({"at": AT, "kind": "message", "level": "info", "text": text}) + "\n"


def progress(done: int) -> str:
    return json.dumps({"at": AT, "kind": "progress", "done": done, "total": 9, "message": ""}) + "\n"


def write(folder: RunFolder, *lines: str, how: str = "a") -> int:
    """The bytes that are new."""
    with folder.events.open(how) as out:
        return out.write("".join(lines))


def test_every_look_of_every_viewer_costs_only_what_is_new(folder: CountingFolder) -> None:
    reported = Reported()
    first = write(folder, *(metric(step, step / 10) for step in range(5_000)), message("half of it"), progress(4))

    for _ in range(3):  # viewers, each of whom looks at all three
        assert len(reported.figures(folder)) == 5_000
        assert reported.messages(folder) == [Message(AT, "info", "half of it")]
        assert [step.done for step in reported.steps(folder)] == [4]
    assert folder.read_bytes == first
    new = write(folder, metric(5_000, 0.5), progress(5))

    assert [len(reported.steps(folder)) for _ in range(3)] == [2, 2, 2]
    assert folder.read_bytes == first + new


def test_many_viewers_at_once_read_each_line_once(folder: CountingFolder) -> None:
    reported = Reported()
    size = write(folder, *(metric(step, 0.5) for step in range(2_000)))

    with ThreadPoolExecutor(8) as viewers:
        seen = list(viewers.map(lambda _: reported.figures(folder), range(32)))

    assert all(len(figures) == 2_000 for figures in seen)
    assert folder.read_bytes == size


def test_half_a_line_waits_for_its_rest(folder: RunFolder) -> None:
    reported = Reported()
    line = metric(2, 0.4)
    write(folder, metric(1, 0.5), line[:20])
    assert reported.figures(folder) == {("loss", 1): 0.5}

    write(folder, line[20:])

    assert reported.figures(folder) == {("loss", 1): 0.5, ("loss", 2): 0.4}


def test_a_step_that_was_done_again_counts_as_it_went_the_last_time(folder: RunFolder) -> None:
    reported = Reported()
    write(folder, metric(1, 0.5), metric(2, 9.0))
    reported.figures(folder)

    write(folder, metric(2, float("nan")), metric(1, 0.4))

    assert reported.figures(folder) == {("loss", 1): 0.4}


def test_a_torn_end_that_is_cut_off_before_a_resume_changes_nothing(folder: CountingFolder) -> None:
    reported = Reported()
    whole = write(folder, metric(1, 0.5))
    write(folder, '{"at": "20')
    reported.figures(folder)

    with folder.events.open("r+b") as events:
        events.truncate(whole)
    new = write(folder, metric(2, 0.4))

    assert reported.figures(folder) == {("loss", 1): 0.5, ("loss", 2): 0.4}
    assert folder.read_bytes == whole + new


@pytest.mark.parametrize("longer", [0, 30], ids=["a shorter file", "a longer file"])
def test_a_file_that_took_the_place_of_the_first_is_read_whole(folder: RunFolder, longer: int) -> None:
    reported = Reported()
    write(folder, *(metric(step, 0.5) for step in range(20)), message("here"))
    reported.figures(folder)

    write(folder, metric(7, 0.7, "kl"), message("there"), *(metric(step, 0.1) for step in range(longer)), how="w")

    assert reported.figures(folder)["kl", 7] == 0.7
    assert len(reported.figures(folder)) == 1 + longer
    assert [it.text for it in reported.messages(folder)] == ["there"]


def test_a_file_that_is_gone_holds_nothing(folder: RunFolder) -> None:
    reported = Reported()
    assert reported.steps(folder) == []
    write(folder, progress(1))
    assert len(reported.steps(folder)) == 1

    folder.events.unlink()

    assert reported.steps(folder) == []


def test_only_the_last_messages_and_the_last_runs_are_kept(tmp_path: Path) -> None:
    reported = Reported()
    folders = [CountingFolder(tmp_path / str(number)) for number in range(40)]
    sizes = []
    for folder in folders:
        folder.path.mkdir()
        sizes.append(write(folder, *(message(f"{number}") for number in range(MOST_MESSAGES + 5))))
        reported.messages(folder)

    assert [it.text for it in reported.messages(folders[-1])][:2] == ["5", "6"]
    assert len(reported.messages(folders[0], limit=3)) == 3
    assert folders[-1].read_bytes == sizes[-1]
    assert folders[0].read_bytes == 2 * sizes[0]  # forgotten meanwhile, and read anew
