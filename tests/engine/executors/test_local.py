import pyarrow as pa
import pytest

from engine.executors.local import LocalExecutor


class Doubling:
    """Counts what it is asked, so that a test sees repeated work."""

    def __init__(self, version="1"):
        self.name = "double"
        self.version = version
        self.asked = []
        self.setups = 0

    def setup(self):
        self.setups += 1

    def __call__(self, rows):
        self.asked += rows["row_id"].to_pylist()
        return pa.table({"row_id": rows["row_id"], "twice": [2 * n for n in rows["n"].to_pylist()]})


def rows_table(numbers):
    return pa.table({"row_id": [f"r{n}" for n in numbers], "n": list(numbers)})


def run_all(step, rows, parts, report=lambda done, total: None, batch_rows=3):
    tables = list(LocalExecutor(batch_rows).run(step, rows, parts, report))
    return [n for table in tables for n in table["twice"].to_pylist()]


def test_rows_come_back_in_order_with_progress_after_each_batch(tmp_path):
    seen = []

    result = run_all(Doubling(), rows_table(range(7)), tmp_path, lambda done, total: seen.append((done, total)))

    assert result == [0, 2, 4, 6, 8, 10, 12]
    assert seen == [(3, 7), (6, 7), (7, 7)]


def test_a_run_stopped_in_the_middle_repeats_no_finished_batch(tmp_path):
    def stop_at_six(done, total):
        if done == 6:
            raise KeyboardInterrupt

    first, second = Doubling(), Doubling()
    with pytest.raises(KeyboardInterrupt):
        run_all(first, rows_table(range(9)), tmp_path, stop_at_six)

    result = run_all(second, rows_table(range(9)), tmp_path)

    assert first.asked == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert second.asked == ["r6", "r7", "r8"]
    assert result == [2 * n for n in range(9)]


def test_a_step_that_dies_inside_a_batch_repeats_that_batch_only(tmp_path):
    class Dying(Doubling):
        def __call__(self, rows):
            if "r4" in rows["row_id"].to_pylist():
                raise MemoryError
            return super().__call__(rows)

    with pytest.raises(MemoryError):
        run_all(Dying(), rows_table(range(9)), tmp_path)
    again = Doubling()
    run_all(again, rows_table(range(9)), tmp_path)

    assert again.asked == ["r3", "r4", "r5", "r6", "r7", "r8"]


def test_a_new_version_or_changed_row_is_done_anew(tmp_path):
    run_all(Doubling(), rows_table(range(6)), tmp_path)
    newer, changed = Doubling("2"), Doubling()

    run_all(newer, rows_table(range(6)), tmp_path)
    rows = pa.table({"row_id": [f"r{n}" for n in range(6)], "n": [0, 1, 2, 3, 99, 5]})
    result = run_all(changed, rows, tmp_path)

    assert newer.asked == [f"r{n}" for n in range(6)]
    assert changed.asked == ["r3", "r4", "r5"]
    assert result[4] == 198


def test_a_cut_part_is_done_again(tmp_path):
    run_all(Doubling(), rows_table(range(6)), tmp_path)
    part = sorted(tmp_path.glob("*.parquet"))[1]
    part.write_bytes(part.read_bytes()[:50])
    again = Doubling()

    result = run_all(again, rows_table(range(6)), tmp_path)

    assert again.asked == ["r3", "r4", "r5"]
    assert result == [0, 2, 4, 6, 8, 10]


def test_setup_runs_once_and_only_where_there_is_work(tmp_path):
    first, second = Doubling(), Doubling()

    run_all(first, rows_table(range(6)), tmp_path)
    run_all(second, rows_table(range(6)), tmp_path)

    assert (first.setups, second.setups) == (1, 0)


def test_no_rows_make_no_parts(tmp_path):
    empty = pa.schema([("row_id", pa.string()), ("n", pa.int64())]).empty_table()

    assert run_all(Doubling(), empty, tmp_path) == []
    assert not list(tmp_path.glob("*.parquet"))
