"""Opening, migrating, locking, reading beside a writer, backing up, and what faults of disk and file become."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from data.errors import StoreBusyError, StoreError
from data.store import MIGRATIONS, Connection, Store, migrate
from data.tables.batches import insert_missing, upsert
from data.tables.policies import PolicyTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPOSITORY = Path(__file__).parents[2]


def now() -> datetime:
    return NOON


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sagedesk.duckdb"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    store = Store.open(file, now=now)
    yield store
    store.close()


def set_policies(store: Store, *names: str) -> None:
    with store.write() as connection:
        for name in names:
            PolicyTable(connection).set(name, 1, "ann", NOON)


def policies(store: Store) -> set[str]:
    with store.read() as connection:
        return {row[0] for row in connection.execute("SELECT name FROM policy").fetchall()}


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run in another process with the store's names imported; `arguments` are sys.argv[1:]."""
    head = (
        f"import os, resource, signal, sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from datetime import datetime, UTC; from pathlib import Path\n"
        "from data.store import Store; from data.tables.policies import PolicyTable\n"
        "now = lambda: datetime.now(UTC)\n"
        "def put(store, name, value='x'):\n"
        "    with store.write() as c: PolicyTable(c).set(name, value, 'ann', now())\n"
    )
    command = [sys.executable, "-c", head + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_new_store_has_its_schema_and_keeps_what_is_written(file: Path) -> None:
    store = Store.open(file, now=now)
    newest = max(int(migration.name[:4]) for migration in MIGRATIONS.glob("*.sql"))
    set_policies(store, "kept")
    assert store.schema_version == newest
    store.close()

    again = Store.open(file, now=now)

    assert policies(again) == {"kept"}
    assert again.schema_version == newest
    again.close()
    again.close()


def test_a_block_that_raises_leaves_nothing_behind(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.write() as connection:
        PolicyTable(connection).set("lost", 1 // 0, "ann", NOON)

    writing = store.write()
    PolicyTable(writing.__enter__()).set("lost", 1, "ann", NOON)
    assert not writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    assert policies(store) == set()
    set_policies(store, "next")
    assert policies(store) == {"next"}


def test_wrong_sql_is_a_bug_and_not_a_store_error(store: Store) -> None:
    with pytest.raises(duckdb.CatalogException), store.read() as connection:
        connection.execute("SELECT * FROM no_such_table")


def test_writing_inside_a_write_of_the_same_thread_is_refused_at_once(store: Store) -> None:
    with store.write(), pytest.raises(RuntimeError, match="pass its connection on"), store.write():
        pass

    set_policies(store, "after")
    assert policies(store) == {"after"}


def test_a_read_inside_a_write_sees_what_was_written(store: Store) -> None:
    with store.write() as connection:
        PolicyTable(connection).set("fresh", 1, "ann", NOON)
        assert policies(store) == {"fresh"}


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(duckdb.TransactionException, match="read-only"), store.read() as connection:
        PolicyTable(connection).set("sneaked", 1, "ann", NOON)

    assert policies(store) == set()


def test_readers_see_the_last_commit_and_never_wait_for_a_writer(store: Store) -> None:
    set_policies(store, "committed")
    seen: list[set[str]] = []

    with store.write() as connection:
        PolicyTable(connection).set("pending", 1, "ann", NOON)
        reader = threading.Thread(target=lambda: seen.append(policies(store)))
        reader.start()
        reader.join(timeout=60)
        assert not reader.is_alive()

    assert seen == [{"committed"}]
    assert policies(store) == {"committed", "pending"}


def test_a_read_is_one_snapshot_though_others_commit_meanwhile(store: Store) -> None:
    set_policies(store, "before")

    with store.read() as connection:
        before = connection.execute("SELECT count(*) FROM policy").fetchall()
        other = threading.Thread(target=set_policies, args=(store, "meanwhile"))
        other.start()
        other.join(timeout=60)
        assert policies(store) == {"before"}
        assert connection.execute("SELECT count(*) FROM policy").fetchall() == before

    assert policies(store) == {"before", "meanwhile"}


def test_many_threads_that_count_up_one_row_lose_nothing(store: Store) -> None:
    def count_up() -> None:
        for _ in range(20):
            with store.write() as connection:
                table = PolicyTable(connection)
                table.set("counter", table.get("counter", 0) + 1, "ann", NOON)

    threads = [threading.Thread(target=count_up) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    with store.read() as connection:
        assert PolicyTable(connection).get("counter", 0) == 160


def test_stamps_come_back_as_utc_wherever_the_machine_stands(file: Path) -> None:
    script = (
        "s = Store.open(Path(sys.argv[1]), now=now); put(s, 'a')\n"
        "with s.read() as c: print(c.execute('SELECT updated_at FROM policy').fetchall()[0][0].isoformat()[-6:])"
    )
    os.environ["TZ"] = "Asia/Tokyo"
    try:
        done = python(script, file)
    finally:
        del os.environ["TZ"]

    assert done.stdout.strip() == "+00:00", done.stderr


def test_no_statement_reaches_a_file_outside_the_store(store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "state" / "secrets.csv"
    secret.write_text("key\nhidden\n")

    for statement in (f"SELECT * FROM '{secret}'", f"ATTACH '{tmp_path / 'other.db'}'", "SET threads = 1"):
        with (
            pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException)),
            store.read() as connection,
        ):
            connection.execute(statement)


def test_a_second_process_is_told_who_owns_the_store_and_since_when(store: Store, file: Path) -> None:
    set_policies(store, "mine")

    done = python("Store.open(Path(sys.argv[1]), now=now)", file)

    last_line = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last_line.startswith("data.errors.StoreBusyError: ")
    assert f"process {os.getpid()} since 2026-03-01T12:00:00+00:00" in last_line
    assert "desk running there" in last_line
    assert policies(store) == {"mine"}


def test_the_same_process_cannot_open_it_twice_but_again_after_closing(store: Store, file: Path) -> None:
    with pytest.raises(StoreBusyError, match="in use by process"):
        Store.open(file, now=now)

    store.close()
    Store.open(file, now=now).close()


def test_another_program_that_holds_the_file_is_named(store: Store, file: Path) -> None:
    store.close()
    script = "import duckdb, time; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import sys; {script}", str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    try:
        with pytest.raises(StoreBusyError, match=f"PID {holder.pid}"):
            Store.open(file, now=now)
    finally:
        holder.communicate()

    Store.open(file, now=now).close()


def test_a_killed_owner_loses_no_acknowledged_commit_and_blocks_nobody(file: Path) -> None:
    script = (
        "s = Store.open(Path(sys.argv[1]), now=now)\n"
        "for i in range(30): put(s, f'p{i}'); print(i, flush=True)\n"
        "writing = s.write(); PolicyTable(writing.__enter__()).set('half', 1, 'ann', now())\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = python(script, file)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == [str(number) for number in range(30)]

    store = Store.open(file, now=now)

    assert policies(store) == {f"p{number}" for number in range(30)}
    store.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty commits in the file and twenty in the log, as a crash leaves them; for copying."""
    script = (
        "s = Store.open(Path(sys.argv[1]), now=now)\n"
        "for i in range(20): put(s, f'a{i}', 'x' * 1000)\n"
        "s._connection.execute('CHECKPOINT')\n"
        "for i in range(20): put(s, f'b{i}', 'x' * 1000)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    folder = tmp_path_factory.mktemp("killed")
    assert python(script, folder / "sagedesk.duckdb").returncode == -signal.SIGKILL
    return folder


def log_of(file: Path) -> Path:
    return file.with_name(file.name + ".wal")


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x55
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda file: flip(log_of(file), log_of(file).read_bytes().rfind(b"xxxx") - 5_000), "WAL"),
        (lambda file: flip(log_of(file), 1), "last commits would be lost"),
        (lambda file: file.unlink(), "is missing, but its log"),
        (lambda file: cut(file, 0), "empty file"),
        (lambda file: cut(file, 0.02), "cannot be read"),
        (lambda file: flip(file, 5000), "cannot be read"),
        (lambda file: file.write_bytes(b"hello" * 10_000), "not a valid DuckDB"),
    ],
)
def test_a_damaged_store_is_refused_with_a_hint_and_left_as_it_is(
    killed: Path, file: Path, damage: Callable[[Path], None], told: str
) -> None:
    shutil.copytree(killed, file.parent)
    damage(file)
    before = {path.name: path.read_bytes() for path in (file, log_of(file)) if path.exists()}

    with pytest.raises(StoreError, match=told) as caught:
        Store.open(file, now=now)

    assert "backup" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in (file, log_of(file)) if path.exists()} == before


def test_a_log_that_a_crash_cut_short_recovers_to_the_last_whole_commit(killed: Path, file: Path) -> None:
    shutil.copytree(killed, file.parent)
    cut(log_of(file), 0.6)

    store = Store.open(file, now=now)

    found = policies(store)
    assert {f"a{number}" for number in range(20)} < found
    kept = {int(name[1:]) for name in found if name.startswith("b")}
    assert kept == set(range(len(kept)))
    assert 5 < len(kept) < 20
    store.close()


def test_a_file_copied_without_its_log_does_not_pass_for_a_new_store(tmp_path: Path) -> None:
    original = duckdb.connect(str(tmp_path / "original.db"))
    original.execute("CREATE TABLE policy (name TEXT)")
    copied = tmp_path / "sagedesk.duckdb"
    copied.write_bytes((tmp_path / "original.db").read_bytes())

    with pytest.raises(StoreError, match=r"has no sagedesk tables.*\.wal"):
        Store.open(copied, now=now)

    original.close()


def test_a_creation_that_was_killed_half_way_is_started_over(file: Path) -> None:
    file.parent.mkdir()
    (file.parent / "sagedesk.duckdb.new").write_bytes(b"half")
    (file.parent / "sagedesk.duckdb.new.wal").write_bytes(b"half")

    store = Store.open(file, now=now)

    assert policies(store) == set()
    assert sorted(path.name for path in file.parent.iterdir()) == ["sagedesk.duckdb", "sagedesk.duckdb.owner"]
    store.close()


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="cannot create the store's folder"):
        Store.open(tmp_path / "file" / "sagedesk.duckdb", now=now)


def test_a_full_disk_is_a_clean_error_and_the_earlier_state_stays(file: Path) -> None:
    """The limit on the size of a file stands for the disk: it needs no mount."""
    script = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "s = Store.open(Path(sys.argv[1]), now=now); put(s, 'small')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "try: put(s, 'big', os.urandom(200_000).hex())\n"
        "except Exception as e: print(type(e).__name__, e)\n"
        "with s.read() as c: print(PolicyTable(c).get('small', ''), PolicyTable(c).get('big', 'absent'))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "put(s, 'after'); s.close()"
    )

    done = python(script, file)

    error, read = done.stdout.splitlines()
    assert error.startswith("StoreError writing to the store")
    assert read == "x absent"
    store = Store.open(file, now=now)
    assert policies(store) == {"small", "after"}
    store.close()


def test_a_backup_under_writes_equals_one_commit_point(store: Store, tmp_path: Path) -> None:
    """Every commit adds the next name to two tables, so any mixture of two commits would show."""
    stop = threading.Event()
    written: list[str] = []

    def keep_writing() -> None:
        while not stop.is_set():
            with store.write() as connection:
                name = f"p{len(written)}"
                PolicyTable(connection).set(name, 1, "ann", NOON)
                connection.execute("INSERT INTO release_item VALUES ('r', ?)", [name])
            written.append(name)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    while len(written) < 5:
        stop.wait(0.01)
    copies = [tmp_path / "backups" / f"{number}.duckdb" for number in range(3)]
    for copy in copies:
        store.backup(copy)
    stop.set()
    writer.join(timeout=60)

    for copy in copies:
        restored = Store.open(copy, now=now)
        with restored.read() as connection:
            items = {row[0] for row in connection.execute("SELECT variant_id FROM release_item").fetchall()}
        assert items == policies(restored)
        assert items == {f"p{number}" for number in range(len(items))}
        assert len(items) >= 5
        assert restored.schema_version == store.schema_version
        restored.close()
    assert {path.suffix for path in copies[0].parent.iterdir()} == {".duckdb", ".owner"}
    assert store.file is not None
    assert not list(store.file.parent.glob("*.backup"))


def test_a_backup_that_cannot_be_written_leaves_the_earlier_one(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="choose another location"):
        store.backup(tmp_path / "file" / "copy.duckdb")

    set_policies(store, "still works")


def test_a_store_of_a_newer_sagedesk_is_refused(file: Path) -> None:
    store = Store.open(file, now=now)
    with store.write() as connection:
        connection.execute("INSERT INTO schema_migration VALUES (9999, 'later', now())")
    store.close()

    with pytest.raises(StoreError, match="schema version 9999"):
        Store.open(file, now=now)


def test_each_migration_is_applied_once_and_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "0001_one.sql").write_text("CREATE TABLE one (a INTEGER); INSERT INTO one VALUES (1);")
    (tmp_path / "0002_two.sql").write_text("INSERT INTO one VALUES (2); SELECT * FROM no_such_table;")
    connection = duckdb.connect()

    for _ in range(2):
        with pytest.raises(duckdb.CatalogException):
            migrate(connection, now=now, migrations=tmp_path)
    (tmp_path / "0002_two.sql").write_text("INSERT INTO one VALUES (3);")
    version = migrate(connection, now=now, migrations=tmp_path)

    assert version == 2
    assert connection.execute("SELECT a FROM one ORDER BY a").fetchall() == [(1,), (3,)]


@pytest.mark.parametrize("version", range(1, max(int(file.name[:4]) for file in MIGRATIONS.glob("*.sql")) + 1))
def test_a_store_of_every_earlier_version_becomes_what_a_new_one_is(tmp_path: Path, version: int) -> None:
    earlier = tmp_path / "migrations"
    earlier.mkdir()
    for migration in MIGRATIONS.glob("*.sql"):
        if int(migration.name[:4]) <= version:
            shutil.copy(migration, earlier)
    old = duckdb.connect(str(tmp_path / "old.duckdb"))
    migrate(old, now=now, migrations=earlier)
    old.execute("INSERT INTO policy VALUES ('kept', '1', 'ann', now())")
    old.close()

    migrated, new = Store.open(tmp_path / "old.duckdb", now=now), Store.in_memory(now=now)

    assert policies(migrated) == {"kept"}
    assert columns(migrated) == columns(new)
    migrated.close()


def columns(store: Store) -> set[tuple[str, ...]]:
    with store.read() as connection:
        return set(
            connection.execute(
                "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            ).fetchall()
        )


def rows(*values: tuple[str, str, int]) -> pa.Table:
    """(name, value, minute of the stamp)."""
    names, texts, minutes = zip(*values, strict=True)
    stamps = pa.array([NOON.replace(minute=minute) for minute in minutes], pa.timestamp("us", tz="UTC"))
    return pa.table({"name": names, "value": texts, "updated_by": ["ann"] * len(names), "updated_at": stamps})


def stored(connection: Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM policy").fetchall())


def test_of_two_versions_in_one_batch_the_newer_is_kept_wherever_it_stands(store: Store) -> None:
    with store.write() as connection:
        for batch in (rows(("a", "1", 1), ("a", "2", 2)), rows(("b", "2", 2), ("b", "1", 1))):
            assert upsert(connection, "policy", batch, key=["name"], newest=["updated_at"]) == 1

        assert stored(connection) == {"a": "2", "b": "2"}


def test_an_older_or_equal_version_that_comes_later_changes_nothing(store: Store) -> None:
    with store.write() as connection:
        upsert(connection, "policy", rows(("a", "5", 5)), key=["name"], newest=["updated_at"])
        written = [
            upsert(connection, "policy", rows(("a", str(minute), minute)), key=["name"], newest=["updated_at"])
            for minute in (4, 5, 6)
        ]

        assert written == [0, 0, 1]
        assert stored(connection) == {"a": "6"}


def test_insert_missing_keeps_what_is_there_and_the_first_of_a_batch(store: Store) -> None:
    with store.write() as connection:
        insert_missing(connection, "policy", rows(("a", "1", 1)), key=["name"])
        new = insert_missing(connection, "policy", rows(("a", "9", 9), ("b", "2", 2), ("b", "3", 3)), key=["name"])

        assert new == 1
        assert stored(connection) == {"a": "1", "b": "2"}
