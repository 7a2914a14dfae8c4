"""A whole run on a real site of the arena while its browser, its site and a slot of it are killed or hang."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import processes
import pytest

from coevo.config import load_experiment
from coevo.loop import Resources, run_experiment
from coevo.loop.resources import load_agent, load_skill
from coevo.store import Store
from coevo.testing import FakeEngine
from webarena.local import tasks

ROOT = Path(__file__).parents[1]
FILE = f"""
database = "DATABASE"
[model]
id = "toy"
[agent]
graph = "{ROOT}/agents/web.py:graph"
skill = "{ROOT}/skills/webarena"
max_turns = 3
deadline_s = 120
[tasks]
set = "webarena.local:tasks"
slots = 3
[es]
generations = 1
population = 6
tasks_per_generation = 6
sigma = 0.5
[es.noise]
family = "gaussian"
[schedule]
mode = "weights"
[evaluate]
tasks = 2
"""


def below(part: str, without: str = "\0") -> list[int]:
    mine = processes.descendants(os.getpid())
    return sorted(pid for pid, line in mine.items() if part in line and without not in line)


def answer(request: Any, theta: Any) -> str:
    """Looks around; members differ in what they do last."""
    turns = sum(message["role"] == "assistant" for message in request.messages)
    if turns < 2:
        return "scroll down" if turns else "click 'Projects'"
    return f"stop '{'N/A' if request.perturbation and request.perturbation.seed % 2 else 'open'}'"


@pytest.mark.browser
@pytest.mark.timeout(600)
async def test_what_breaks_is_tried_again_and_never_a_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "run.toml"
    file.write_text(FILE.replace("DATABASE", str(tmp_path / "runs.sqlite")))
    made = load_experiment(file)
    task_set = tasks(["gitlab"], step_timeout_s=6, load_timeout_s=6, observation_tokens=200)
    before = {*below("chromium"), *below("sites.server")}
    resources = Resources(FakeEngine(answer), task_set, load_agent(made), load_skill(made))
    run = asyncio.create_task(run_experiment(made, resources=resources))
    broken: list[str] = []

    async def finished(count: int) -> None:
        end = time.monotonic() + 240
        while time.monotonic() < end and not run.done():
            if (tmp_path / "runs.sqlite").exists():
                with closing(Store.open(tmp_path / "runs.sqlite", readonly=True)) as store:
                    done = store.query("SELECT count(*) AS n FROM episodes WHERE status = 'finished'")[0]["n"]
                if done >= count:
                    return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{count} episodes were not finished in time")

    async def sabotage() -> None:
        await finished(3)
        browser = below("chromium", "--type=")[-1]
        os.kill(browser, signal.SIGKILL)
        broken.append("browser")
        await finished(10)
        child = max(below("webarena.sites.server"))  # a slot's copy: it hangs, and is replaced
        os.kill(child, signal.SIGSTOP)
        broken.append("slot")
        await finished(18)
        os.kill(min(set(below("webarena.sites.server")) - before), signal.SIGKILL)
        broken.append("site")

    saboteur = asyncio.create_task(sabotage())
    result = await run
    await saboteur
    assert broken == ["browser", "slot", "site"]
    assert result.status == "finished"
    with closing(Store.open(tmp_path / "runs.sqlite", readonly=True)) as store:
        rows = store.query("SELECT * FROM episodes")
    invalid = [row for row in rows if row["outcome"] == "invalid"]
    assert {row["category"] for row in invalid} == {"world_error"}, "none was broken, or not by the world"
    assert all(row["reward"] is None for row in invalid)
    assert len(
        {(r["phase"], r["member"], r["task"], r["seed"]) for r in rows if r["outcome"] != "invalid"}
    ) == len({(r["phase"], r["member"], r["task"], r["seed"]) for r in rows}), (
        "every episode was valid in the end"
    )
    assert all(row["scorer"] == "vab/1" for row in rows if row["outcome"] != "invalid")
    assert {*below("chromium"), *below("sites.server"), *below("playwright")} <= before


@pytest.mark.browser
@pytest.mark.timeout(600)
async def test_writers_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same writing task, done by its script in one slot and not at all in another at the same time."""
    from webarena.local import as_task
    from webarena.solve import attempt

    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "cache"))
    task_set = tasks(["gitlab"], kinds=["change"])
    pool = task_set.pool(4)
    some = {task.template.id: task for split in ("train", "test") for task in task_set.local(split)}
    try:
        found = await asyncio.gather(
            *(
                attempt(pool, as_task(task), scripted)
                for task in list(some.values())[:6]
                for scripted in (task, None)
            )
        )
    finally:
        await pool.close()
    assert [reward for reward, *_ in found] == [1.0, 0.0] * 6, found
