"""The DuckDB store: opening, migrating, one write lock, read snapshots, backup. Refuses queries: see `data.tables`.

One process owns a store, with one connection and one cursor per reader. Writers take turns; readers see the last commit
and never wait. Disk and file errors become StoreError; a wrong statement is a bug and keeps its traceback.
"""

import errno
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import duckdb

from data.errors import StoreBusyError, StoreError, first_line
from data.files import whole_file
from data.store_owner import Ownership, busy_message, claim

Connection = duckdb.DuckDBPyConnection

MIGRATIONS: Final = Path(__file__).parent / "migrations"

# A blocked extension download hangs for seconds, so extensions are never looked up.
_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
# Failures of the machine or the file; wrong SQL and wrong values are not among them.
_OUTER_ERRORS: Final = (duckdb.OperationalError, duckdb.FatalException, duckdb.InternalError, duckdb.InterruptException)

# DuckDB 2.0 silently ignores a log without this beginning, and with it every commit since the last checkpoint.
_LOG_START: Final = b"\x64\x00\x62"

logger = logging.getLogger(__name__)


class Store:
    """An open store. `write` and `read` hand out connections for the tables; `close` releases the file."""

    def __init__(self, connection: Connection, *, file: Path | None, ownership: Ownership | None) -> None:
        self.file = file
        self._connection = connection
        self._ownership = ownership
        self._write_lock = threading.Lock()
        self._local = threading.local()

    @classmethod
    def open(cls, path: Path, *, now: Callable[[], datetime]) -> "Store":
        """Open the store file, creating it and its folder if needed, and migrate its schema.

        Raises:
            StoreBusyError: another process owns it.
            StoreError: it is damaged or newer than this code, or the disk fails; nothing is created in its place.
        """
        path = path.absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise StoreError(
                f"cannot create the store's folder {path.parent}: {exc.strerror}; choose a folder that you can write to"
            ) from exc
        ownership = claim(path, now=now)
        try:
            if not path.exists():
                _create(path, now=now)
            connection = _connect(path)
            try:
                with _translated("opening", path):
                    _require_tables(connection, path)
                    migrate(connection, now=now)
                    _lock_down(connection, path)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            ownership.release()
            raise
        return cls(connection, file=path, ownership=ownership)

    @classmethod
    def in_memory(cls, *, now: Callable[[], datetime]) -> "Store":
        """For tests and experiments: nothing survives `close`."""
        connection = duckdb.connect(":memory:", config=_CONFIG)
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        migrate(connection, now=now)
        return cls(connection, file=None, ownership=None)

    @property
    def schema_version(self) -> int:
        with self.read() as connection:
            return _schema_version(connection)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, rolled back if it raises. Writers take turns.

        Raises:
            RuntimeError: this thread is already writing; pass its connection on instead.
            StoreError: the disk or file failed; the transaction left nothing behind.
        """
        if getattr(self._local, "writing", None) is not None:
            raise RuntimeError("this thread is already inside Store.write; pass its connection on")
        with self._write_lock, _translated("writing to", self.file):
            cursor = self._connection.cursor()
            try:
                cursor.execute("BEGIN TRANSACTION")
                self._local.writing = cursor
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                with suppress(duckdb.Error):  # a failed commit has already ended the transaction
                    cursor.execute("ROLLBACK")
                raise
            finally:
                self._local.writing = None
                cursor.close()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A snapshot of the last commit, for queries only; inside `write` on the same thread, that transaction."""
        outer = getattr(self._local, "writing", None) or getattr(self._local, "reading", None)
        if outer is not None:
            yield outer
            return
        with _translated("reading", self.file):
            cursor = self._connection.cursor()
            try:
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                self._local.reading = cursor
                yield cursor
            finally:
                self._local.reading = None
                with suppress(duckdb.Error):
                    cursor.execute("ROLLBACK")
                cursor.close()

    def backup(self, to: Path) -> None:
        """A consistent copy of the last commit, given its final name only once complete. Writers wait meanwhile.

        Raises:
            StoreError: the copy cannot be written; `to` is unchanged.
        """
        to = to.absolute()
        with self._write_lock, _translated("backing up", self.file), _scratch(self.file) as scratch:
            cursor = self._connection.cursor()
            try:
                source = cursor.execute("SELECT current_database()").fetchall()[0][0]
                cursor.execute(f"ATTACH {_literal(str(scratch))} AS backup_copy")
                try:
                    cursor.execute(f"COPY FROM DATABASE {_identifier(source)} TO backup_copy")
                finally:
                    cursor.execute("DETACH backup_copy")
            finally:
                cursor.close()
            _move_whole(scratch, to)

    def close(self) -> None:
        """Waits for the writer, writes the log into the file and releases it; a second call does nothing."""
        with self._write_lock:
            with suppress(
                duckdb.Error
            ):  # a file that cannot be checkpointed keeps its log, which the next start replays
                self._connection.execute("CHECKPOINT")
            self._connection.close()
            if self._ownership is not None:
                self._ownership.release()
                self._ownership = None


def migrate(connection: Connection, *, now: Callable[[], datetime], migrations: Path = MIGRATIONS) -> int:
    """Apply the numbered files that the store lacks, each in its own transaction; returns the schema version.

    Raises:
        StoreError: the store is newer than the code.
    """
    files = {int(file.name[:4]): file for file in sorted(migrations.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migration "
        "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TIMESTAMPTZ NOT NULL)"
    )
    version = _schema_version(connection)
    newest = max(files)
    if version > newest:
        raise StoreError(
            f"the store has schema version {version}, but this sagedesk only knows versions up to {newest}; "
            f"use the newer sagedesk, or restore a backup made before the upgrade"
        )
    for number in range(version + 1, newest + 1):
        connection.execute("BEGIN TRANSACTION")
        try:
            connection.execute(files[number].read_text("utf-8"))
            connection.execute("INSERT INTO schema_migration VALUES (?, ?, ?)", [number, files[number].name, now()])
            connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):
                connection.execute("ROLLBACK")
            raise
        logger.debug("store migrated to schema version %d", number)
    return newest


def _schema_version(connection: Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM schema_migration").fetchall()[0][0])


def _create(path: Path, *, now: Callable[[], datetime]) -> None:
    """Create the file elsewhere and rename it, so that a store under its final name always has its tables."""
    log = _log_of(path)
    if log.exists():
        raise StoreError(
            f"the store {path} is missing, but its log {log.name} exists; put the store file back beside it "
            f"or restore a backup (remove the log only to start with an empty store)"
        )
    for leftover in path.parent.glob(path.name + ".new*"):
        leftover.unlink()
    new = path.with_name(path.name + ".new")
    with _translated("creating", path):
        connection = duckdb.connect(str(new), config=_CONFIG)
        try:
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            migrate(connection, now=now)
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        new.replace(path)


def _connect(path: Path) -> Connection:
    hint = "restore a backup, or copy the file together with its .wal again; nothing was changed"
    if path.stat().st_size == 0:
        raise StoreError(f"the store {path} is an empty file; {hint}")
    log = _log_of(path)
    if log.exists():
        with log.open("rb") as content:
            start = content.read(len(_LOG_START))
        if not _LOG_START.startswith(start):
            raise StoreError(f"the store's log {log} is damaged, so the last commits would be lost; {hint}")
    try:
        connection = duckdb.connect(str(path), config=_CONFIG)
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
    except duckdb.Error as exc:
        if "Could not set lock" in str(exc):
            raise StoreBusyError(busy_message(path, f"another program ({first_line(exc)})")) from exc
        raise StoreError(f"the store {path} cannot be read: {first_line(exc)}; {hint}") from exc
    return connection


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _require_tables(connection: Connection, path: Path) -> None:
    """DuckDB opens a file copied without its log as an empty database; it must not be taken for a new store."""
    found = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'schema_migration'").fetchall()
    if found[0][0] == 0:
        raise StoreError(
            f"the store {path} has no sagedesk tables, which happens to a copy made without its .wal; "
            f"restore a backup, or copy the file together with its .wal; nothing was changed"
        )


def _lock_down(connection: Connection, file: Path) -> None:
    """After this, no statement can reach any file but the store's own and copies in its backup folder."""
    shutil.rmtree(_backup_folder(file), ignore_errors=True)
    connection.execute(f"SET allowed_directories = [{_literal(str(_backup_folder(file)))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


@contextmanager
def _translated(doing: str, file: Path | None) -> Iterator[None]:
    try:
        yield
    except _OUTER_ERRORS as exc:
        if isinstance(exc, duckdb.TransactionException) and "Failed to commit" not in str(exc):
            raise  # a write in a reader, or a statement after a failed one: a bug
        raise StoreError(f"{doing} the store {file or 'in memory'} failed: {_advice(exc)}") from exc


def _advice(exc: Exception) -> str:
    text = str(exc)
    if os.strerror(errno.ENOSPC) in text or "disk" in text.lower():
        return f"no space left on its disk; free some space and try again ({first_line(exc)})"
    if isinstance(exc, duckdb.FatalException) or "invalidated" in text:
        return f"the store has to be reopened; restart the desk ({first_line(exc)})"
    if isinstance(exc, duckdb.OutOfMemoryException):
        return f"out of memory; request less data at a time ({first_line(exc)})"
    return f"{first_line(exc)}; nothing was saved, try again"


@contextmanager
def _scratch(file: Path | None) -> Iterator[Path]:
    """A path for a copy, in the only folder where the locked connection may attach files."""
    folder = Path(tempfile.mkdtemp()) if file is None else _backup_folder(file)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder / "copy.duckdb"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _backup_folder(file: Path) -> Path:
    return file.with_name(file.name + ".backup")


def _move_whole(scratch: Path, to: Path) -> None:
    """To another disk if necessary; synced before it gets its final name."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(to) as beside:
            shutil.move(scratch, beside)
    except OSError as exc:
        raise StoreError(f"the backup {to} cannot be written: {exc.strerror}; choose another location") from exc


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
