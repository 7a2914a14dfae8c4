"""python benchmarks/web.py [--rounds N]: how long MiniWoB resets and steps take, one at a time and 8 at once.

A reset is `Environment.reset`: from the call to the first observation. A step is `Environment.step`: action, reward and,
unless the episode ended, the next observation. Times are of warm pages; what loading a page costs is printed apart.
For comparison: BrowserGym 0.14 was measured at 3.3 s a reset and 0.46 s a step on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator, Sequence

from coevo.env import Observation, Task
from webarena.miniwob import MiniWoBEnvironment, tasks
from webarena.pool import BrowserPool

NAMES = (
    *("click-button", "click-test-2", "click-link", "click-tab", "click-option", "click-checkboxes"),
    *("enter-text", "login-user", "choose-list", "email-inbox-delete", "click-dialog", "navigate-tree"),
)
BAR_MS = {"reset": 330.0, "step": 46.0}


class Times:
    """Milliseconds by kind of work."""

    def __init__(self) -> None:
        self.by_kind: dict[str, list[float]] = {"load": [], "reset": [], "step": []}

    def add(self, kind: str, started: float) -> None:
        self.by_kind[kind].append((time.perf_counter() - started) * 1000)

    def lines(self) -> list[str]:
        lines = []
        for kind, values in self.by_kind.items():
            if values:
                median, p95 = percentile(values, 0.5), percentile(values, 0.95)
                bar = f"   a tenth of BrowserGym: {BAR_MS[kind]:.0f} ms" if kind in BAR_MS else ""
                lines.append(
                    f"  {kind:<6} n={len(values):<4} median {median:6.1f} ms   p95 {p95:6.1f} ms{bar}"
                )
        return lines


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of `values` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def actions(observation: Observation) -> list[str]:
    """Two actions for any page: fill or tick its first field, or else click the first thing, then click the last."""
    lines = [line for line in observation.text.splitlines() if "[" in line]
    ids = [line[line.rindex("[") + 1 : line.rindex("]")] for line in lines if line.split()[0] != "combobox"]
    fields = [line for line in lines if line.startswith("textbox")]
    if fields:
        return [
            f"type [{fields[0][fields[0].index('[') + 1 : fields[0].index(']')]}] 'coevo'",
            f"click [{ids[-1]}]",
        ]
    return [f"click [{ids[0]}]", f"click [{ids[-1]}]"]


async def episode(pool: BrowserPool, task: Task, times: Times) -> None:
    environment = await pool.acquire(task)
    assert isinstance(environment, MiniWoBEnvironment)
    try:
        kind = "reset" if environment.slot.key == task.data["name"] else "load"
        started = time.perf_counter()
        observation = await environment.reset(task, seed=0)
        times.add(kind, started)
        for action in actions(observation):
            started = time.perf_counter()
            transition = await environment.step(action)
            times.add("step", started)
            if transition.done:
                break
    finally:
        await pool.release(environment)


async def measure(slots: int, rounds: int) -> tuple[Times, float, int]:
    """Times of `rounds` episodes a task name with `slots` at once, after one round that loads the pages."""
    task_set = tasks(NAMES, train=rounds + 1)
    todo = task_set.tasks("train")
    pool = task_set.pool(slots)
    cold, times = Times(), Times()

    async def work(queue: Iterator[Task], into: Times) -> None:
        for task in queue:
            await episode(pool, task, into)

    async def all_of(some: Sequence[Task], into: Times) -> None:
        queue = iter(some)
        await asyncio.gather(*(work(queue, into) for _ in range(slots)))

    try:
        await all_of(todo[: len(NAMES)] * (2 if slots > 1 else 1), cold)
        todo = todo[len(NAMES) :]
        started = time.perf_counter()
        await all_of(todo, times)
        seconds = time.perf_counter() - started
    finally:
        await pool.close()
    times.by_kind["load"] += cold.by_kind["load"]
    return times, seconds, len(todo)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="episodes a task name (default: 8)")
    rounds = parser.parse_args().rounds
    print(f"{len(NAMES)} MiniWoB tasks, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for slots in (1, 8):
        times, seconds, episodes = await measure(slots, rounds)
        print(f"{slots} at once: {episodes} episodes in {seconds:.1f} s, {episodes / seconds:.1f} a second")
        print("\n".join(times.lines()))


if __name__ == "__main__":
    asyncio.run(main())
