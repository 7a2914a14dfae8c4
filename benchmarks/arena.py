"""python benchmarks/arena.py [--tasks N] [--slots 1,4,8] [--writers N] [--sites …] [--json]: the local arena's cost.

Two kinds of episode, half each: one that reads (look, scroll, click a link, go back, stop) and one that writes (the
task's own script, then stop). Printed are medians of each phase and its share of the time, episodes a minute, and how long
restoring (nothing changed; every file changed) and saving a site takes. Phases: `lease` (a private copy and a clean context), `reset`, `step`, `script`
(driving the page by the task's script), `score` (the last action and the evaluators), `release`.

`--writers N` instead runs N episodes that write by their tasks' scripts, eight at once, then the same one at a time, and
compares the scores. Beside each one the same task is done by doing nothing, which must not profit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from webarena.arena import Arena
from webarena.local import as_task, tasks
from webarena.sites.tasks import LocalTask
from webarena.solve import attempt, sample
from webarena.web import WebPool

ACTIONS = ("scroll down", "scroll up", "click [1]", "back")


class Phases:
    """Milliseconds by phase."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)

    async def run(self, phase: str, work: Any) -> Any:
        started = time.perf_counter()
        result = await work
        self.times[phase].append((time.perf_counter() - started) * 1000)
        return result

    def summary(self) -> dict[str, dict[str, float]]:
        whole = sum(map(sum, self.times.values())) or 1.0
        return {
            phase: {
                "n": len(values),
                "median_ms": middle(values, 0.5),
                "p95_ms": middle(values, 0.95),
                "share": sum(values) / whole,
            }
            for phase, values in self.times.items()
        }


def middle(values: Sequence[float], share: float) -> float:
    """The value that `share` of `values` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def episode(pool: WebPool, task: LocalTask, phases: Phases) -> float:
    made = as_task(task)
    environment = await phases.run("lease", pool.acquire(made))
    try:
        await phases.run("reset", environment.reset(made, seed=0))
        answer = ""
        if task.template.kind == "change":
            url = environment.lease.urls[task.template.site]
            answer = await phases.run(
                "script", task.template.solve(environment.tabs.page, task.instance, url)
            )
        else:
            for action in ACTIONS:
                await phases.run("step", environment.step(action))
        transition = await phases.run("score", environment.step(f"stop '{answer}'"))
        return float(transition.reward)
    finally:
        await phases.run("release", pool.release(environment))


async def measure(sites: Sequence[str] | None, slots: int, count: int) -> dict[str, Any]:
    task_set = tasks(sites)
    mixed = task_set.local("train")
    reading = [task for task in mixed if task.template.kind in ("information", "navigation")][: count // 2]
    writing = [task for task in mixed if task.template.kind == "change"][: count - len(reading)]
    todo = [task for pair in zip(reading, writing, strict=False) for task in pair]
    pool = task_set.pool(slots)
    warm, phases = Phases(), Phases()

    async def work(queue: Iterator[LocalTask], into: Phases) -> list[float]:
        return [await episode(pool, task, into) for task in queue]

    try:
        await asyncio.gather(*(work(iter(reading[i : i + 1]), warm) for i in range(slots)))
        queue = iter(todo)
        started = time.perf_counter()
        rewards = await asyncio.gather(*(work(queue, phases) for _ in range(slots)))
        seconds = time.perf_counter() - started
    finally:
        await pool.close()
    scripted = sum(sum(some) for some in rewards)
    return {
        "slots": slots,
        "episodes": len(todo),
        "scripts_that_scored": scripted,
        "scripts": len(writing),
        "episodes_a_minute": 60 * len(todo) / seconds,
        "phases": phases.summary(),
    }


async def writers(sites: Sequence[str] | None, count: int, slots: int) -> dict[str, Any]:
    """Scores of `count` writing episodes and as many idle ones beside them, `slots` at once and one at a time."""
    task_set = tasks(sites)
    changing = [task for task in task_set.local("train") if task.template.kind == "change"]
    templates = {task.template.id for task in changing}
    some = sample(changing, -(-count // len(templates)))
    taken = [
        some[place * len(some) // count] for place in range(count)
    ]  # all over the list, so over the sites
    todo = [(task, scripted) for task in taken for scripted in (True, False)]

    async def scores(size: int) -> list[float | None]:
        pool = task_set.pool(size)
        found: dict[int, float | None] = {}
        queue = iter(enumerate(todo))

        async def work() -> None:
            for number, (task, scripted) in queue:
                found[number], *_ = await attempt(pool, as_task(task), task if scripted else None)

        try:
            await asyncio.gather(*(work() for _ in range(size)))
        finally:
            await pool.close()
        return [found[number] for number in range(len(todo))]

    together, alone = await scores(slots), await scores(1)
    return {
        "episodes": count,
        "slots": slots,
        "equal": together == alone,
        "as_expected": together == [float(scripted) for _, scripted in todo],
        "together": together,
        "alone": alone,
    }


async def copies(sites: Sequence[str] | None, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of restoring and saving each site that keeps state."""
    started = time.perf_counter()
    arena = await Arena.start(sites, slots=1, seed=0)
    found: dict[str, dict[str, float]] = {"all": {"start_s": time.perf_counter() - started}}
    try:
        for site in arena.changeable():
            phases = Phases()
            for lap in range(rounds):
                await phases.run("restore", arena.restore(0, [site]))
                for file in (arena.servers[site].folder / "slots" / "0").rglob("*"):
                    os.utime(file)
                await phases.run("restore_all", arena.restore(0, [site]))
                await phases.run("snapshot", arena.snapshot(site, 0, f"benchmark-{lap}"))
            found[site] = {phase: values["median_ms"] for phase, values in phases.summary().items()}
    finally:
        await arena.close()
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=48, help="episodes for each number of slots")
    parser.add_argument("--slots", default="1,4,8", help="how many at once, e.g. 1,4,8")
    parser.add_argument(
        "--writers", type=int, default=0, help="instead: compare so many writing episodes, eight at once"
    )
    parser.add_argument("--sites", nargs="*", help="left out: all that run here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    if options.writers:
        found["writers"] = await writers(options.sites, options.writers, 8)
    else:
        found["copies"] = await copies(options.sites, 10)
        found["runs"] = [
            await measure(options.sites, int(slots), options.tasks) for slots in options.slots.split(",")
        ]
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['cores']} cores, load {found['load']:.1f}")
    if options.writers:
        run = found["writers"]
        print(
            f"{run['episodes']} writers, {run['slots']} at once: scores {'equal' if run['equal'] else 'DIFFER from'} one at a"
            f" time, {'all' if run['as_expected'] else 'NOT all'} as expected"
        )
        return
    print(f"starting all sites: {found['copies'].pop('all')['start_s']:.1f} s")
    for site, times in found["copies"].items():
        print(
            f"  {site:<16} restore {times['restore']:6.1f} ms   all files {times['restore_all']:6.1f} ms"
            f"   snapshot {times['snapshot']:6.1f} ms"
        )
    for run in found["runs"]:
        print(
            f"{run['slots']} at once: {run['episodes_a_minute']:.1f} episodes a minute"
            f" ({run['scripts_that_scored']:.0f} of {run['scripts']} scripts scored)"
        )
        for phase, row in run["phases"].items():
            print(
                f"  {phase:<8} n={row['n']:<4} median {row['median_ms']:7.1f} ms   p95 {row['p95_ms']:7.1f} ms"
                f"   {100 * row['share']:4.1f} %"
            )


if __name__ == "__main__":
    asyncio.run(main())
