"""What the store does when the disk, another process, or a signal gets in the way."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from coevo.errors import StoreError
from coevo.store import Store

GROUPS_WRITER = """
    import sys
    from coevo.store import Store

    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Store.open(path) as store:
        print("ready", flush=True)
        for number in range(count):
            with store.group():
                for member in range(5):
                    store.put("members", {"run": name, "generation": number, "member": member})
            if number % 20 == 0:
                store.flush_sync()
                print(number, flush=True)
"""


def start(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes, **options)


def test_kill_9_loses_nothing_that_was_flushed_and_leaves_no_half_group(tmp_path: Path):
    path = tmp_path / "a.sqlite"
    flushed = -1
    for attempt, lines in enumerate((3, 9, 6)):
        process = start(GROUPS_WRITER, path, f"run{attempt}", 10**6)
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        flushed = int(acknowledged[-1])
        with Store.open(path) as store:
            assert store.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
            groups = store.query(
                "SELECT generation, count(*) AS n FROM members WHERE run = ? GROUP BY generation ORDER BY generation",
                (f"run{attempt}",),
            )
        assert {group["n"] for group in groups} == {5}
        assert [group["generation"] for group in groups] == list(range(len(groups)))  # in order, without gaps
        assert len(groups) > flushed


def test_two_processes_write_the_same_new_file_at_once_and_both_finish(tmp_path: Path):
    path = tmp_path / "new" / "a.sqlite"
    processes = [start(GROUPS_WRITER, path, name, 300) for name in ("left", "right")]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    with Store.open(path, readonly=True) as store:
        counts = store.query("SELECT run, count(*) AS n FROM members GROUP BY run ORDER BY run")
    assert counts == [{"run": "left", "n": 1500}, {"run": "right", "n": 1500}]


def fill(store: Store) -> None:
    """Groups of a run and a long skill version, until the store refuses."""
    for number in range(1000):
        with store.group():
            store.put("runs", {"id": f"{number:04}", "name": "n"})
            store.put(
                "skill_versions", {"id": f"{number:04}", "skill": "s", "status": "seed", "text": "x" * 5000}
            )
        if number % 10 == 0:
            store.flush_sync()


def test_a_full_disk_stops_the_writing_cleanly(tmp_path: Path):
    path = tmp_path / "a.sqlite"
    store = Store.open(path, max_size_bytes=600_000)
    with pytest.raises(StoreError) as caught:
        fill(store)
    assert "database or disk is full" in str(caught.value)
    assert "free space there and run the same command again" in str(caught.value)
    for _ in range(2):  # it keeps refusing, and does not hang
        with pytest.raises(StoreError, match="disk is full"):
            store.put("runs", {"id": "later", "name": "n"})
        with pytest.raises(StoreError, match="disk is full"):
            store.flush_sync()
    store.close()  # everyone has been told

    with Store.open(path) as again:  # with room again, it goes on
        runs = [row["id"] for row in again.query("SELECT id FROM runs ORDER BY id")]
        versions = [row["id"] for row in again.query("SELECT id FROM skill_versions ORDER BY id")]
        assert runs == versions == [f"{number:04}" for number in range(len(runs))]
        assert 10 < len(runs) < 1000
        again.put("runs", {"id": "later", "name": "n"})
        again.flush_sync()


async def test_a_full_disk_is_raised_by_an_awaited_flush_too(tmp_path: Path):
    store = Store.open(tmp_path / "a.sqlite", max_size_bytes=200_000)
    store.put("skill_versions", {"id": "a", "skill": "s", "status": "seed", "text": "x" * 50_000})
    await store.flush()
    store.put("skill_versions", {"id": "b", "skill": "s", "status": "seed", "text": "x" * 400_000})
    with pytest.raises(StoreError, match="disk is full"):
        await store.flush()
    assert store.query("SELECT id FROM skill_versions") == [{"id": "a"}]
    store.close()


def test_close_tells_of_rows_that_were_lost(tmp_path: Path):
    store = Store.open(tmp_path / "a.sqlite", max_size_bytes=200_000)
    store.put("skill_versions", {"id": "a", "skill": "s", "status": "seed", "text": "x" * 400_000})
    with pytest.raises(StoreError, match="disk is full"):
        store.close()


def test_a_file_size_limit_is_explained(tmp_path: Path):
    """What a quota does: the write fails with an error other than a full disk."""
    code = """
        import sys
        from coevo.store import Store
        store = Store.open(sys.argv[1])
        for number in range(200):
            store.put("skill_versions", {"id": str(number), "skill": "s", "status": "seed", "text": "x" * 50000})
        store.flush_sync()
    """
    limit = 2_000_000
    process = start(
        code,
        tmp_path / "a.sqlite",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "StoreError: cannot use the database" in errors
    assert "check that disk's space and limits" in errors or "free space there" in errors
    with Store.open(tmp_path / "a.sqlite") as store:
        assert store.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_a_row_that_breaks_a_constraint_stops_what_comes_after_it(tmp_path: Path):
    store = Store.open(tmp_path / "a.sqlite")
    store.put("runs", {"id": "before", "name": "n"})
    store.put("runs", {"id": "wrong", "name": "n", "status": "sleeping"})
    with pytest.raises(StoreError, match="CHECK constraint failed"):
        store.flush_sync()
    with pytest.raises(StoreError, match="CHECK constraint failed"):
        store.put("runs", {"id": "after", "name": "n"})
    assert [row["id"] for row in store.query("SELECT id FROM runs")] == ["before"]
    store.close()


def test_a_group_that_breaks_a_constraint_leaves_nothing_and_nothing_follows_it(tmp_path: Path):
    store = Store.open(tmp_path / "a.sqlite")

    def write() -> None:
        for number in range(6000):  # more than one batch of the writer
            with store.group():
                store.put("runs", {"id": f"{number:04}", "name": "first half"})
                status = "sleeping" if number == 100 else "finished"
                store.put("runs", {"id": f"{number:04}-b", "name": "second half", "status": status})
        store.flush_sync()

    with pytest.raises(StoreError, match="CHECK constraint failed"):
        write()
    store.close()
    with Store.open(tmp_path / "a.sqlite") as again:
        assert again.query("SELECT count(*) AS n, max(id) AS last FROM runs") == [
            {"n": 200, "last": "0099-b"}
        ]


def test_a_database_of_a_newer_coevo_is_refused(tmp_path: Path):
    path = tmp_path / "a.sqlite"
    Store.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('coevo', 'm999_future', 'x')"
    )
    connection.commit()
    connection.close()
    for readonly in (False, True):
        with pytest.raises(StoreError, match="newer coevo") as caught:
            Store.open(path, readonly=readonly)
        assert "m999_future" in str(caught.value)
        assert "pip install --upgrade coevo" in str(caught.value)


def test_a_database_of_an_older_coevo_is_brought_up_to_date_when_it_may_be_written(tmp_path: Path):
    from sqlite_utils import Database

    from coevo.store.migrations import MIGRATIONS

    path = tmp_path / "a.sqlite"
    old = Database(path)
    MIGRATIONS.apply(old, stop_before="m002_views")
    old.close()
    with pytest.raises(StoreError, match="older coevo"):
        Store.open(path, readonly=True)
    Store.open(path).close()
    Store.open(path, readonly=True).close()


def test_files_that_are_no_coevo_database_are_refused(tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes\n" * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        Store.open(text)
    assert text.read_text() == "these are my notes\n" * 100

    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="not a coevo database"):
        Store.open(other)

    with pytest.raises(StoreError, match="is a folder"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="there is no database"):
        Store.open(tmp_path / "missing.sqlite", create=False)
    with pytest.raises(StoreError, match="there is no database"):
        Store.open(tmp_path / "missing.sqlite", readonly=True)
    with pytest.raises(StoreError, match="cannot make the folder"):
        Store.open(text / "below" / "a.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()


def test_rows_queued_by_a_script_that_just_ends_are_committed(tmp_path: Path):
    code = """
        import sys
        from coevo.store import Store
        store = Store.open(sys.argv[1])
        for number in range(500):
            store.put("members", {"run": "r", "generation": 0, "member": number})
    """
    process = start(code, tmp_path / "a.sqlite")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    with Store.open(tmp_path / "a.sqlite") as store:
        assert store.query("SELECT count(*) AS n FROM members") == [{"n": 500}]
