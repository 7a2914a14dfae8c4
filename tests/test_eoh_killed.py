"""A search that is killed goes on as if nothing had happened."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import processes
from toysearch import search_workspace

from coevo.store import Store

KILLS = 6


def start(directory: Path) -> subprocess.Popen[bytes]:
    log = (directory / "log").open("ab")
    return subprocess.Popen(
        [sys.executable, "-m", "coevo.cli", "run", "toy.toml"], cwd=directory, stdout=log, stderr=log
    )


def made(directory: Path) -> int:
    try:
        with closing(
            sqlite3.connect(f"file:{directory / 'runs/coevo.sqlite'}?mode=ro", uri=True)
        ) as database:
            return int(database.execute("SELECT count(*) FROM heuristics").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def history(directory: Path) -> dict[str, list[dict[str, Any]]]:
    with Store.open(directory / "runs/coevo.sqlite") as store:
        return {
            "heuristics": store.query(
                "SELECT id, operator, parents, episode, member, code, objective, objectives, status, reward"
                " FROM heuristics ORDER BY id"
            ),
            "turns": store.query(
                "SELECT turn, generation, operator, children, valid, kept, best, population, step FROM search_turns"
                " ORDER BY turn"
            ),
            "steps": store.query(
                "SELECT step, status, seeds, coefficients, checksum FROM es_steps ORDER BY step"
            ),
            "members": store.query("SELECT * FROM members ORDER BY generation, member"),
            "scores": store.query("SELECT heuristic, split, objective FROM heuristic_scores ORDER BY 1, 2"),
            "episodes": store.query("SELECT id, outcome FROM episodes WHERE status = 'finished' ORDER BY id"),
            "runs": store.query("SELECT id, status FROM runs"),
        }


def descendants_of_killed() -> list[int]:
    """Sandbox processes whose parent is gone."""
    return processes.running("coevo/sandbox", parent=1)


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Identical population, steps, budget and best; no sandbox process is left behind."""
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    for directory in (straight, killed):
        directory.mkdir()
        search_workspace(directory)
    first = start(straight)
    assert first.wait(120) == 0, (straight / "log").read_text()
    rng = random.Random(3)
    whole = made(straight)
    before = descendants_of_killed()
    for threshold in sorted(rng.sample(range(1, whole - 5), KILLS)):
        process = start(killed)
        deadline = time.monotonic() + 120
        while made(killed) < threshold and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.wait(30)
    last = start(killed)
    assert last.wait(120) == 0, (killed / "log").read_text()
    assert history(killed) == history(straight)
    deadline = time.monotonic() + 10
    while (left := descendants_of_killed()) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == before
