"""The trajectory store: one SQLite file, one writer thread, read-only readers.

Rows are queued by `put` and friends and committed by the writer in the order they came, many to a transaction; rows
queued inside `with store.group():` are committed together or not at all. When a write fails (disk full, a row that
breaks a constraint), nothing after it is written, and every later `put` and `flush` raises: a history with a hole in it
is worse than a run that stops and resumes.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import queue
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from coevo.errors import StoreError
from coevo.store.connection import connect_reader, connect_writer, explain

_QUEUE_ROWS = 20_000  # `put` waits when the writer is this far behind
_BATCH_ROWS = 1_000
_INLINE_CHARS = 64  # a shorter text is cheaper where it stands than as a row of `texts` plus a hash
_HASH_BYTES = 12  # 96 bits: a clash by accident needs about 2**48 texts

_Statement = tuple[str, tuple[Any, ...]]
_Unit = list[_Statement]  # committed together or not at all


@dataclass(frozen=True, slots=True)
class _TableShape:
    columns: frozenset[str]
    key: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    store: Store
    unit: _Unit
    open: bool = True


# The group open in this task or thread. A task started inside inherits it, hence `open`: what such a task queues once
# the group is committed goes its own way.
_current_group: ContextVar[_Group | None] = ContextVar("coevo_store_group", default=None)


class Store:
    """The database of all runs. Safe to share between tasks and threads; use `Store.open`, and `close` it."""

    def __init__(self, path: Path, writer: sqlite3.Connection | None, reader: sqlite3.Connection) -> None:
        self.path = path
        self._reader = reader
        self._reader_lock = threading.Lock()
        self._shapes = _read_shapes(reader)
        self._statements: dict[tuple[str, ...], str] = {}
        self._writer = _Writer(path, writer) if writer is not None else None
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = True,
        readonly: bool = False,
        max_size_bytes: int | None = None,
    ) -> Store:
        """Open the database at `path`, making it (and its folder) if need be.

        `max_size_bytes` bounds the main file; writing past it fails as a full disk does. Raises `StoreError` when the
        file is missing, no coevo database, of a newer coevo, or (`readonly`) of an older one.
        """
        path = Path(path)
        writer = None
        if not readonly:
            writer = connect_writer(path, create=create)
            if max_size_bytes is not None:
                (page_bytes,) = writer.execute("PRAGMA page_size").fetchone()
                writer.execute(f"PRAGMA max_page_count={max(1, max_size_bytes // page_bytes)}")
        try:
            return cls(path, writer, connect_reader(path))
        except BaseException:
            if writer is not None:
                writer.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- writing

    def put(self, table: str, row: Mapping[str, Any]) -> None:
        """Queue a row; a row with the same key gets the given columns, and keeps its others.

        Dicts, lists and tuples become JSON. Raises `StoreError` for an unknown table or column, a missing key, a value
        that cannot be stored, or when an earlier write failed.
        """
        shape = self._shape(table, row)
        missing = [name for name in shape.key if row.get(name) is None]
        if missing:
            raise StoreError(
                f"a row of {table} needs {', '.join(missing)}", hint="give every column of the key"
            )
        sql = self._statements.get(("put", table, *row))
        if sql is None:
            names = ", ".join(row)
            marks = ", ".join("?" * len(row))
            changes = ", ".join(f"{name} = excluded.{name}" for name in row if name not in shape.key)
            action = f"UPDATE SET {changes}" if changes else "NOTHING"
            sql = f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT ({', '.join(shape.key)}) DO {action}"
            self._statements["put", table, *row] = sql
        self._queue(sql, tuple(_encode(value, table, name) for name, value in row.items()))

    def update(self, table: str, pk: str | int | tuple[Any, ...], values: Mapping[str, Any]) -> None:
        """Queue a change to the row with key `pk` (in the order of the key's columns); no row, no change."""
        shape = self._shape(table, values)
        key = pk if isinstance(pk, tuple) else (pk,)
        if len(key) != len(shape.key):
            raise StoreError(
                f"the key of {table} is ({', '.join(shape.key)})", hint=f"give {len(shape.key)} values"
            )
        if not values:
            return
        changes = ", ".join(f"{name} = ?" for name in values)
        where = " AND ".join(f"{name} = ?" for name in shape.key)
        encoded = (_encode(value, table, name) for name, value in values.items())
        self._queue(f"UPDATE {table} SET {changes} WHERE {where}", (*encoded, *key))

    def delete(self, table: str, where: Mapping[str, Any]) -> None:
        """Queue the removal of the rows whose columns equal `where` (at least one column)."""
        self._shape(table, where)
        if not where:
            raise StoreError(f"refused to empty {table}", hint="say which rows")
        condition = " AND ".join(f"{name} = ?" for name in where)
        self._queue(
            f"DELETE FROM {table} WHERE {condition}",
            tuple(_encode(v, table, name) for name, v in where.items()),
        )

    def put_text(self, text: str) -> str | None:
        """Queue a text and return its hash; the same text is stored once. None for the empty text."""
        if not text:
            return None
        text = clean_text(text)
        key = _digest(text.encode())
        self._queue("INSERT INTO texts (hash, text) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", (key, text))
        return key

    def put_blob(self, data: bytes, media_type: str) -> str:
        """Queue bytes, e.g. a screenshot, and return their hash; the same bytes are stored once."""
        key = _digest(data)
        self._queue(
            "INSERT INTO blobs (hash, media_type, data) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING",
            (key, media_type, data),
        )
        return key

    def put_message(
        self,
        parent: str | None,
        role: str,
        content: str,
        extra: Mapping[str, Any] | None = None,
        *,
        containing: Sequence[str] = (),
    ) -> str:
        """Queue a chat message after `parent` and return its hash.

        `containing`: texts likely to stand inside `content`, most likely first (the pages an agent has just seen). The
        first one found is stored once, in `texts`, and the message keeps only what stands around it.
        """
        content = clean_text(content)
        extra_json = _json(dict(extra)) if extra else None
        key = message_hash(parent, role, content, extra_json)
        around, inner, at = content, None, None
        for text in containing:
            text = clean_text(text)
            if len(text) > _INLINE_CHARS and (found := content.find(text)) >= 0:
                around, inner, at = content[:found] + content[found + len(text) :], self.put_text(text), found
                break
        else:
            if len(content) > _INLINE_CHARS:
                around, inner, at = "", self.put_text(content), 0
        self._queue(
            "INSERT INTO messages (hash, parent, role, content, text, at, extra) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (hash) DO NOTHING",
            (key, parent, role, around, inner, at, extra_json),
        )
        return key

    @contextmanager
    def group(self) -> Iterator[None]:
        """Rows queued inside are committed together; none of them if the block raises. Groups nest into the outer one.

        Holds for the current task or thread only; other tasks' rows are not drawn in.
        """
        if self._group() is not None:
            yield
            return
        group = _Group(self, [])
        token = _current_group.set(group)
        try:
            yield
        finally:
            group.open = False
            _current_group.reset(token)
        if group.unit:
            self._live_writer().submit(group.unit)

    async def flush(self) -> None:
        """Wait until everything queued so far is committed. Raises `StoreError` if a write has failed."""
        await asyncio.wrap_future(self._flush())

    def flush_sync(self) -> None:
        """`flush`, waited for on this thread: outside an event loop, or where nothing else may run in between."""
        self._flush().result()

    # ---- reading

    def query(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        """Rows of a query on the read-only connection, as dicts. Sees what is committed: `flush` first if in doubt."""
        if self._closed:
            raise StoreError(f"the database {self.path} is closed", hint="query before closing the store")
        try:
            with self._reader_lock:
                cursor = self._reader.execute(sql, params)
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor]
        except sqlite3.Error as error:
            raise StoreError(
                f"query failed on {self.path}: {error}", hint="`coevo db schema` lists columns"
            ) from error

    def close(self) -> None:
        """Commit what is queued and close. Raises `StoreError` if rows were lost and nobody has been told yet."""
        if self._closed:
            return
        self._closed = True
        with self._reader_lock:
            self._reader.close()
        if self._writer is not None:
            # Last, because only a connection that may write folds the WAL into the file when it goes.
            self._writer.close()

    # ---- inside

    def _queue(self, sql: str, params: tuple[Any, ...]) -> None:
        writer = self._live_writer()
        if (group := self._group()) is not None:
            writer.check()
            group.unit.append((sql, params))
        else:
            writer.submit([(sql, params)])

    def _flush(self) -> Future[None]:
        if self._group() is not None:
            raise StoreError(
                "flush inside a group cannot wait for the group", hint="flush after the `with` block"
            )
        return self._live_writer().flush()

    def _group(self) -> _Group | None:
        group = _current_group.get()
        return group if group is not None and group.store is self and group.open else None

    def _live_writer(self) -> _Writer:
        if self._writer is None:
            raise StoreError(f"{self.path} was opened read-only", hint="open the store without readonly=True")
        if self._closed:
            raise StoreError(f"the database {self.path} is closed", hint="write before closing the store")
        return self._writer

    def _shape(self, table: str, row: Mapping[str, Any]) -> _TableShape:
        shape = self._shapes.get(table)
        if shape is None:
            raise StoreError(
                f"there is no table {table!r}", hint=f"tables: {', '.join(sorted(self._shapes))}"
            )
        if not row.keys() <= shape.columns:
            unknown = ", ".join(sorted(row.keys() - shape.columns))
            raise StoreError(
                f"table {table} has no column {unknown}", hint=f"columns: {', '.join(sorted(shape.columns))}"
            )
        return shape


class _Writer:
    """The thread that owns the writing connection. After the first failure it refuses everything, and never hangs."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._queue: queue.Queue[_Unit | Future[None] | None] = queue.Queue(maxsize=_QUEUE_ROWS)
        self._failure: StoreError | None = None
        self._told = False
        self._thread = threading.Thread(target=self._run, name=f"coevo-store {path.name}", daemon=True)
        self._thread.start()
        # A daemon thread does not outlive the interpreter; rows still queued when a script ends are committed here.
        atexit.register(self._stop)

    def submit(self, unit: _Unit) -> None:
        self.check()
        self._queue.put(unit)

    def check(self) -> None:
        if self._failure is not None:
            raise self._tell()

    def flush(self) -> Future[None]:
        done: Future[None] = Future()
        self._queue.put(done)
        return done

    def close(self) -> None:
        self._stop()
        if self._failure is not None and not self._told:
            raise self._tell()

    def _tell(self) -> StoreError:
        self._told = True
        assert self._failure is not None
        error = StoreError(self._failure.message, hint=self._failure.hint)
        error.__cause__ = self._failure.__cause__
        return error

    def _stop(self) -> None:
        atexit.unregister(self._stop)
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            items = [self._queue.get()]
            while len(items) < _BATCH_ROWS:
                try:
                    items.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            running = None not in items
            self._commit([item for item in items if isinstance(item, list)])
            for item in items:
                if not isinstance(item, Future) or not item.set_running_or_notify_cancel():
                    continue
                if self._failure is None:
                    item.set_result(None)
                else:
                    item.set_exception(self._tell())
        self._connection.close()

    def _commit(self, units: list[_Unit]) -> None:
        if not units or self._failure is not None:
            return
        try:
            self._write([statement for unit in units for statement in unit])
        except Exception:
            # Once more one by one: what came before the unit that fails is kept, what comes after it is not.
            for unit in units:
                try:
                    self._write(unit)
                except Exception as error:
                    failure = explain(error, self._path)
                    failure.__cause__ = error
                    self._failure = failure
                    return

    def _write(self, statements: _Unit) -> None:
        try:
            # IMMEDIATE waits for other processes' writes here, where waiting is always allowed.
            self._connection.execute("BEGIN IMMEDIATE")
            for sql, same in groupby(statements, key=lambda statement: statement[0]):
                self._connection.executemany(sql, (params for _, params in same))
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def clean_text(text: str) -> str:
    """`text` as the database can hold it: U+0000 and lone surrogates, which pages do contain, become U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def message_hash(parent: str | None, role: str, content: str, extra_json: str | None) -> str:
    """Key of a message: BLAKE2b-96 over the JSON list [parent, role, content, extra], in hexadecimal."""
    return _digest(json.dumps([parent, role, content, extra_json], ensure_ascii=False).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).hexdigest()


def _json(value: Any) -> str:
    return clean_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=False))


def _encode(value: Any, table: str, column: str) -> Any:
    if value is None or isinstance(value, float | bytes):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return value
        raise StoreError(f"{table}.{column}: {value} does not fit 64 bits", hint="use seeds from coevo.seeds")
    if isinstance(value, dict | list | tuple):
        try:
            return _json(value)
        except (TypeError, ValueError) as error:
            raise StoreError(f"{table}.{column}: {error}", hint="give plain JSON values") from error
    raise StoreError(
        f"{table}.{column}: a {type(value).__name__} cannot be stored",
        hint="give text, numbers, bytes or plain JSON",
    )


def _read_shapes(connection: sqlite3.Connection) -> dict[str, _TableShape]:
    shapes = {}
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'"
    )
    for (table,) in names.fetchall():
        # `hidden` is 0 for ordinary columns; computed ones cannot be written.
        info = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
        columns = frozenset(name for _, name, _, _, _, _, hidden in info if not hidden)
        key = tuple(name for _, name, *_, pk, _ in sorted(info, key=lambda row: row[5]) if pk)
        shapes[table] = _TableShape(columns, ("hash",) if key == ("id",) and "hash" in columns else key)
    return shapes
