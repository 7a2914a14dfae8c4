"""Runs that are killed, stopped, starved of disk, or share a database: they end as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from toyrun import begun, finished, history, start, tiny, wait_until

from coevo.store import Store

KILLS = 10


def log(directory: Path) -> str:
    return (directory / "log").read_text()


def watch_for_repeats(directory: Path) -> None:
    """Let the database itself note every write to an episode that was finished before, and to its steps."""
    Store.open(directory / "runs.sqlite").close()
    with closing(sqlite3.connect(directory / "runs.sqlite")) as database:
        database.executescript(
            """
            CREATE TABLE repeated (episode TEXT);
            CREATE TRIGGER again AFTER UPDATE ON episodes WHEN OLD.status = 'finished'
            BEGIN INSERT INTO repeated VALUES (OLD.id); END;
            CREATE TRIGGER gone AFTER DELETE ON episodes WHEN OLD.status = 'finished'
            BEGIN INSERT INTO repeated VALUES (OLD.id); END;
            """
        )


def finish(process: Any, timeout_s: float = 120) -> int:
    process.join(timeout_s)
    assert not process.is_alive(), "the run hangs"
    return int(process.exitcode)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run."""
    directory = tmp_path_factory.mktemp("straight")
    assert finish(start(directory)) == 0, log(directory)
    return directory


@pytest.mark.parametrize("model", ["fake", "transformers"])
def test_killed_at_ten_random_instants(model: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """`kill -9`, ten times: the same steps, checksums, skill versions and episodes; nothing finished is run again."""
    overrides: list[str] = []
    if model == "fake":
        undisturbed: Path = request.getfixturevalue("straight")
    else:
        from coevo.testing import tiny_model

        overrides = tiny(str(tiny_model()))
        undisturbed = tmp_path / "undisturbed"
        undisturbed.mkdir()
        assert finish(start(undisturbed, *overrides)) == 0, log(undisturbed)
    killed = tmp_path / "killed"
    killed.mkdir()
    watch_for_repeats(killed)
    total = finished(undisturbed)
    instants = random.Random(1)
    kills = 0
    for threshold in sorted(instants.sample(range(1, total - 5), KILLS)):
        process = start(killed, *overrides)
        wait_until(lambda enough=threshold: finished(killed) >= enough, process)
        time.sleep(instants.uniform(0, 0.05))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
    assert kills == KILLS, log(killed)
    assert finish(start(killed, *overrides)) == 0, log(killed)
    expected, found = history(undisturbed), history(killed)
    assert any(step["status"] == "applied" for step in expected["steps"])
    assert len(expected["versions"]) > 1
    for part in expected:
        assert found[part] == expected[part], part
    with closing(sqlite3.connect(killed / "runs.sqlite")) as database:
        assert database.execute("SELECT * FROM repeated").fetchall() == []


def test_ctrl_c_stores_what_is_running_and_the_same_command_continues(straight: Path, tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_until(lambda: finished(tmp_path) >= 20, process)
    os.kill(process.pid, signal.SIGINT)
    assert finish(process) == 130
    assert "run toy-1 stopped; the same command continues it" in log(tmp_path)
    with closing(Store.open(tmp_path / "runs.sqlite", readonly=True)) as store:
        assert store.query("SELECT status FROM runs") == [{"status": "stopped"}]
        left = store.query("SELECT count(*) AS n FROM episodes WHERE status != 'finished'")
    assert left == [{"n": 0}]
    assert finish(start(tmp_path)) == 0
    assert history(tmp_path) == history(straight)


STUCK = """
import asyncio
from coevo.testing import ToyEnvironment, ToyPool, ToyTaskSet

class Stuck(ToyEnvironment):
    async def step(self, action):
        await asyncio.sleep(600)

class Pool(ToyPool):
    async def acquire(self, task):
        await super().acquire(task)
        return Stuck()

class Tasks(ToyTaskSet):
    def pool(self, size):
        return Pool(size)
"""


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    process = start(tmp_path, "agent.deadline_s=600", "tasks.set=stuck.py:Tasks")
    wait_until(lambda: begun(tmp_path) >= 8, process)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.3)
    assert process.is_alive(), log(tmp_path)
    os.kill(process.pid, signal.SIGINT)
    assert finish(process, 20) == 130, log(tmp_path)
    with closing(Store.open(tmp_path / "runs.sqlite", readonly=True)) as store:
        assert store.query("SELECT DISTINCT status, category FROM episodes") == [
            {"status": "interrupted", "category": "interrupted"}
        ]


def test_two_runs_on_one_database_at_once_both_finish(straight: Path, tmp_path: Path) -> None:
    processes = [start(tmp_path, f"name={name}") for name in ("toy", "other")]
    assert [finish(process) for process in processes] == [0, 0], log(tmp_path)
    found = history(tmp_path)
    assert found["runs"] == [{"id": "other-1", "status": "finished"}, {"id": "toy-1", "status": "finished"}]
    expected = history(straight)
    for part in ("steps", "episodes", "members", "evaluations"):
        assert [row for row in found[part] if row["run"] == "toy-1"] == expected[part], part
        assert len(found[part]) == 2 * len(expected[part])


def test_a_full_disk_stops_the_run_cleanly_and_it_continues(straight: Path, tmp_path: Path) -> None:
    size = (straight / "runs.sqlite").stat().st_size
    assert finish(start(tmp_path, file_limit_bytes=size // 2)) == 1
    said = log(tmp_path)
    assert "Error: " in said
    assert "runs.sqlite" in said
    assert "run the same command again" in said
    assert "Traceback" not in said
    assert 0 < finished(tmp_path) < finished(straight)
    assert finish(start(tmp_path)) == 0, log(tmp_path)
    assert history(tmp_path) == history(straight)
