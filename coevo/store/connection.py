"""Opening the database file: brought up to date, or refused with the reason."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from coevo.errors import StoreError

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

BUSY_TIMEOUT_S = 60.0
"""How long a write waits for another process that is writing."""

_WAL_LIMIT_BYTES = 64 * 2**20
# Most of the file is texts of a few kilobytes, and SQLite leaves the rest of a page empty behind each: with its usual
# 4,096 bytes a third of the file was air. The WAL is folded in by pages, so that number goes up as the size goes down.
_PAGE_BYTES = 1024
_CHECKPOINT_PAGES = 4096


def connect_writer(path: Path, *, create: bool = True) -> sqlite3.Connection:
    """A connection in autocommit mode to an up-to-date database in WAL mode.

    `synchronous=NORMAL`: a killed process loses nothing that was committed; a power cut may lose the last moments, and
    never damages the file. Raises `StoreError` when the file is missing (`create=False`), is not a coevo database, or
    was written by a newer coevo.
    """
    if not path.exists():
        if not create:
            raise _missing(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the folder of {path}: {error.strerror}", hint="choose another place"
            ) from error
    connection = _connect(path, f"{path.absolute().as_uri()}?mode=rwc")
    try:
        _check(connection, path, empty_is_fine=True)
        connection.execute(
            f"PRAGMA page_size={_PAGE_BYTES}"
        )  # of no effect on a file that has a size already
        _retry_locked(connection, "PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA journal_size_limit={_WAL_LIMIT_BYTES}")
        # One transaction around all of it: a second process that opens the new file at the same time waits here and
        # then finds nothing to do.
        connection.execute("BEGIN IMMEDIATE")
        try:
            migrations, database = _migrations(connection)
            migrations.apply(database)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection. Raises `StoreError` as `connect_writer` does, and for a file of an older schema."""
    if not path.exists():
        raise _missing(path)
    connection = _connect(path, f"{path.absolute().as_uri()}?mode=ro")
    try:
        _check(connection, path, empty_is_fine=False)
        migrations, database = _migrations(connection)
        if migrations.pending(database):
            raise StoreError(
                f"{path} was written by an older coevo",
                hint="open it once for writing (any `coevo run` or `coevo eval` on it does) to bring it up to date",
            )
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def explain(error: Exception, path: Path) -> StoreError:
    """The `StoreError` a person should read for an error of SQLite on `path`."""
    text = str(error)
    if "is full" in text:
        hint = "free space there and run the same command again: it goes on where it stopped"
    elif "disk I/O error" in text:
        hint = (
            "check that disk's space and limits, then run the same command again: it goes on where it stopped"
        )
    elif "locked" in text:
        hint = f"another program has kept it locked for {BUSY_TIMEOUT_S:.0f} s: close it, then run the same command again"
    elif "readonly" in text or "unable to open" in text:
        hint = "check that the file and its folder exist and may be written"
    elif "not a database" in text or "malformed" in text:
        hint = "name another file with --db or `database = …`, or restore this one from a backup"
    else:
        hint = "this is a defect in coevo or in the code that wrote the row: please report the message above"
    return StoreError(f"cannot use the database {path}: {text}", hint=hint)


def _connect(path: Path, uri: str) -> sqlite3.Connection:
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, not a database file", hint="name a file in it, e.g. coevo.sqlite"
        )
    try:
        # One connection, used under one lock or by one thread; SQLite's own check would forbid closing it elsewhere.
        return sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _check(connection: sqlite3.Connection, path: Path, *, empty_is_fine: bool) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and empty_is_fine:
        return
    migrations, database = _migrations(connection)
    applied = {migration.name for migration in migrations.applied(database)}
    if not applied:
        raise StoreError(
            f"{path} is a SQLite file, but not a coevo database",
            hint="name another file with --db or `database = …`",
        )
    unknown = applied - _known_migrations()
    if unknown:
        raise StoreError(
            f"{path} was written by a newer coevo (it has {', '.join(sorted(unknown))})",
            hint="upgrade coevo: pip install --upgrade coevo",
        )


def _migrations(connection: sqlite3.Connection) -> tuple[Migrations, Database]:
    # Imported here because sqlite-utils imports numpy where there is one, and not every command opens a database.
    from sqlite_utils import Database

    from coevo.store.migrations import MIGRATIONS

    return MIGRATIONS, Database(connection)


def _known_migrations() -> set[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        migrations, database = _migrations(empty)
        return {migration.name for migration in migrations.pending(database)}


def _missing(path: Path) -> StoreError:
    return StoreError(f"there is no database {path}", hint="check the path, or start a run that writes it")


def _retry_locked(connection: sqlite3.Connection, statement: str) -> None:
    # Switching to WAL needs the file to itself for a moment, and SQLite does not wait for that one.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
