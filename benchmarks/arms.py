"""python benchmarks/arms.py FILE [--seeds N] [--db FILE] [--jobs N] [--arm NAME …] [KEY=VALUE …]: what a search owes to what.

The search of an experiment by six methods with the same budget, each with several seeds: random formulas, EoH without a model,
independent samples, samples that move the weights, EoH, EoH with ES. At the end the table of `coevo heuristics compare`. All of it is
stored in one database; killed, the same command goes on. Methods that leave the weights alone have one engine for all seeds,
whose requests travel together; the others run `--jobs` at a time, each with one thread and an engine of its own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from coevo.config import Experiment, load_experiment
from coevo.engine.base import Completion, Deliver, Engine, Request, Step, UpdateReport
from coevo.engine.batcher import Batcher
from coevo.eoh import run_search
from coevo.loop.resources import Resources, load_task_set, open_resources

BATCH = 20  # heuristics of a turn, where they are samples
ARMS: dict[str, tuple[str, ...]] = {
    "random": ("search.author=chance",),
    "eoh-chance": ("search.author=chance",),
    "sample": ("search.move=[]",),
    "eoh": ("search.move=[]",),
    "sample-es": (),
    "eoh-es": (),
}
SAMPLES = ("random", "sample", "sample-es")
TOGETHER = ("sample", "eoh")


class Shared:
    """One engine behind several runs that leave its weights alone: requests of all of them travel in the same batches."""

    def __init__(self, engine: Engine, expected: int) -> None:
        self._engine = engine
        self._batcher = Batcher(engine)
        self._batcher.expected = expected

    async def generate(
        self, requests: Sequence[Request], *, deliver: Deliver | None = None
    ) -> list[Completion]:
        async def one(position: int, request: Request) -> Completion:
            answer = await self._batcher.generate(request)
            if deliver is not None:
                deliver(position, answer)
            return answer

        return list(await asyncio.gather(*(one(*pair) for pair in enumerate(requests))))

    async def update(self, step: Step) -> UpdateReport:
        raise AssertionError("a method that leaves the weights alone made a step")

    async def checksum(self) -> str:
        return await self._engine.checksum()

    async def save(self, directory: Path) -> None:
        await self._engine.save(directory)

    async def restore(self, steps: Iterable[Step]) -> None:
        assert not list(steps)

    async def close(self) -> None:
        await self._batcher.close()
        await self._engine.close()

    def describe(self) -> dict[str, Any]:
        return self._engine.describe()


async def run_together(experiments: Sequence[Experiment]) -> None:
    """One engine for all, loaded once."""
    resources = open_resources(experiments[0])
    shared = Shared(resources.engine, len(experiments) * experiments[0].tasks.slots)
    try:
        await asyncio.gather(
            *(run_search(one, resources=_with_engine(one, shared, resources)) for one in experiments)
        )
    finally:
        await shared.close()


def _with_engine(experiment: Experiment, engine: Engine, first: Resources) -> Resources:
    return replace(first, engine=engine, task_set=load_task_set(experiment))


async def run_alone(file: Path, overrides: Sequence[str], gate: asyncio.Semaphore) -> None:
    """A process of its own, so that two engines don't wait for one interpreter."""
    async with gate:
        command = [sys.executable, "-m", "coevo.cli", "run", str(file), "-q", *overrides]
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if await process.wait() != 0:
            raise SystemExit(f"failed: {' '.join(command)}")


async def run_all(file: Path, arms: Sequence[str], seeds: int, jobs: int, shared: Sequence[str]) -> None:
    table = load_experiment(file, shared).search
    if table is None:
        raise SystemExit(f"{file} has no [search]")
    budget = table.candidates
    gate = asyncio.Semaphore(jobs)
    for arm in arms:
        values = [f"name={arm}", *ARMS[arm], "model.threads=1", *shared]
        if arm in SAMPLES:
            batches = f"search.generations={-(-budget // BATCH)}"
            values += [
                "search.method=sample",
                f"search.population={BATCH}",
                batches,
                f"search.budget={budget}",
            ]
        runs = [(*values, f"seed={seed}") for seed in range(1, seeds + 1)]
        if arm in TOGETHER:
            await run_together([load_experiment(file, run) for run in runs])
        else:
            async with asyncio.TaskGroup() as group:
                for run in runs:
                    group.create_task(run_alone(file, run, gate))


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("overrides", nargs=-1)
@click.option("--seeds", default=5, show_default=True)
@click.option("--db", default="arms.sqlite", show_default=True, type=click.Path(path_type=Path))
@click.option("--jobs", default=2, show_default=True, help="Runs at the same time.")
@click.option("--arm", "arms", multiple=True, type=click.Choice(list(ARMS)), help="Only this one.")
def main(
    file: Path, overrides: tuple[str, ...], seeds: int, db: Path, jobs: int, arms: tuple[str, ...]
) -> None:
    shared = (*overrides, f"database={db.resolve()}")
    asyncio.run(run_all(file, arms or tuple(ARMS), seeds, jobs, shared))
    subprocess.run([sys.executable, "-m", "coevo.cli", "heuristics", "compare", "--db", str(db)], check=True)


if __name__ == "__main__":
    main()
