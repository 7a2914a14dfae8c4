"""Small runs for the tests of the loop: a workspace on disk, and runs in processes that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from coevo.config import Experiment, load_experiment
from coevo.store import Store

AGENT = "from coevo.testing import toy_graph as graph\n"
ENGINE = """
from coevo.testing import FakeEngine

def make(model_id, **options):
    return FakeEngine(delay_s=0.002)
"""
SKILL = """---
name: press
description: Press buttons.
---

Press the button the task names.
"""
FILE = """
seed = 5
[model]
id = "toy"
engine = "engine.py:make"
[agent]
graph = "agent.py:graph"
skill = "press"
max_turns = 2
retries = 1
[tasks]
set = "coevo.testing:toy_tasks"
slots = 8
[tasks.options]
train = 12
dev = 12
test = 9
[es]
generations = 3
population = 6
tasks_per_generation = 4
sigma = 0.5
sigma_end = 0.3
alpha = 1.0
[skill]
analyst = "analyst.py:Counting"
dev_tasks = 12
confidence = 0.6
"""

LETTERS = """
from coevo.env import Transition
from coevo.testing import ToyEnvironment, ToyPool, ToyTaskSet

class Letters(ToyEnvironment):
    async def step(self, action):
        reward = min(1.0, len(set(action)) / 8)
        return Transition(self._observe(), reward, True, success=reward >= 0.5)

class Pool(ToyPool):
    async def acquire(self, task):
        await super().acquire(task)
        return Letters()

class Tasks(ToyTaskSet):
    def pool(self, size):
        return Pool(size)
"""

ANALYST = """
from coevo.skill import Evidence, Op, ProposedEdit

class Counting:
    name = "counting"

    async def analyse(self, skill, selection):
        episodes = [*selection.all_successes, *selection.all_failures]
        evidence = tuple(Evidence(episode.id, episode.task) for episode in episodes)
        number = skill.body.count("Rule") + 1
        text = f"Rule {number}: answer with press 'NAME' and nothing else."
        return [ProposedEdit(Op.ADD, "Rules", text, evidence=evidence)]
"""
"""Proposes one more rule each time. The first shows a `FakeEngine` the form of an answer, which helps it."""


def tiny(model: str) -> list[str]:
    """Overrides for a real (tiny, random) language model whose text does not depend on its batch: any answer is an
    action, and its number of distinct letters is the reward."""
    return [
        f"model.id={model}",
        "model.engine=transformers",
        "model.threads=1",
        "model.batch_invariant=true",
        "tasks.set=letters.py:Tasks",
        "sampling.max_tokens=8",
        "es.noise.family=lowrank",
        "es.noise.scale=rms",
        "es.generations=3",
        "es.population=4",
        "es.tasks_per_generation=3",
        "skill.dev_tasks=8",
        "evaluate.tasks=4",
    ]


def workspace(directory: Path, file: str = FILE) -> Path:
    """Write the files of a toy experiment; returns the experiment file."""
    (directory / "press").mkdir(parents=True, exist_ok=True)
    (directory / "agent.py").write_text(AGENT)
    (directory / "engine.py").write_text(ENGINE)
    (directory / "letters.py").write_text(LETTERS)
    (directory / "analyst.py").write_text(ANALYST)
    (directory / "press" / "SKILL.md").write_text(SKILL)
    (directory / "toy.toml").write_text(file)
    return directory / "toy.toml"


def experiment(directory: Path, *overrides: str) -> Experiment:
    """The toy experiment with its database inside `directory`."""
    return load_experiment(workspace(directory), [f"database={directory / 'runs.sqlite'}", *overrides])


def history(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Everything about a database's runs that must not depend on when they were interrupted."""
    with closing(Store.open(directory / "runs.sqlite", readonly=True)) as store:
        return {
            "steps": store.query(
                "SELECT run, step, generation, status, reason, seeds, coefficients, population, alpha, sigma, noise,"
                " decay, weights_step, checksum FROM es_steps ORDER BY run, step"
            ),
            "versions": store.query(
                "SELECT id, parent, status, content_hash, generation, reason, gain, pairs FROM skill_versions"
                " ORDER BY id"
            ),
            "pool": store.query("SELECT * FROM skill_pool ORDER BY run, generation, place"),
            "members": store.query("SELECT * FROM members ORDER BY run, generation, member"),
            "episodes": store.query(
                "SELECT id, run, phase, generation, member, arm, task, seed, attempt, skill_version, weights_step,"
                " outcome, reward, turns FROM episodes WHERE status = 'finished'"
                " AND coalesce(category, '') != 'engine_error' ORDER BY id"
            ),
            "evaluations": store.query(
                "SELECT run, generation, arm, split, weights_step, skill_version, episodes, mean, lower, upper"
                " FROM evaluations ORDER BY run, generation, arm"
            ),
            "runs": store.query("SELECT id, status FROM runs ORDER BY id"),
        }


def finished(directory: Path) -> int:
    """Finished episodes so far; 0 while there is no database to read."""
    return count(directory, "SELECT count(*) FROM episodes WHERE status = 'finished'")


def begun(directory: Path) -> int:
    """Episodes of any status."""
    return count(directory, "SELECT count(*) FROM episodes")


def count(directory: Path, sql: str) -> int:
    """A number from the database without coevo's own checks, because it is asked for many times a second."""
    try:
        with closing(sqlite3.connect(f"file:{directory / 'runs.sqlite'}?mode=ro", uri=True)) as database:
            return int(database.execute(sql).fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def wait_until(reached: Callable[[], bool], process: Any, timeout_s: float = 120) -> None:
    """Until `reached()`, or the process has ended."""
    deadline = time.monotonic() + timeout_s
    while not reached() and process.is_alive():
        assert time.monotonic() < deadline, f"not reached in {timeout_s} s"
        time.sleep(0.02)


def start(directory: Path, *overrides: str, file_limit_bytes: int | None = None) -> Any:
    """Run the toy experiment in a process of its own; its output goes to `directory`/log."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["toyrun", "coevo.loop", "coevo.testing", "coevo.engine.transformers"])
    process = context.Process(target=_execute, args=(directory, overrides, file_limit_bytes))
    process.start()
    return process


def _execute(directory: Path, overrides: tuple[str, ...], file_limit_bytes: int | None) -> None:
    log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if file_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit_bytes, resource.RLIM_INFINITY))
    from coevo.cli import main

    workspace(directory)
    os.chdir(directory)
    sys.argv = ["coevo"]
    main(["run", str(directory / "toy.toml"), f"database={directory / 'runs.sqlite'}", *overrides])
