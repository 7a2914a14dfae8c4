"""Proof that the arena's tasks can be done: each task's own script scores 1, and doing nothing scores 0.

Both go through the environment and the evaluators that agents meet; the script drives the page, then the answer is given
as an agent's last action. The scripts are never shown to an agent.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevo.env import Task
from coevo.errors import CoevoError
from coevo.seeds import derive_seed
from webarena.actions import Action
from webarena.dialects import write
from webarena.environment import WebArenaEnvironment
from webarena.local import as_task
from webarena.sites.tasks import LocalTask
from webarena.web import WebPool

SOLVE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Proof:
    """What the script (`solved`) and doing nothing (`idle`) scored; None where it broke, and `problem` says how."""

    task: str
    intent: str
    site: str
    level: int
    kind: str
    solved: float | None
    idle: float | None
    answer: str = ""
    problem: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return self.solved == 1.0 and self.idle == 0.0


async def prove(
    tasks: Sequence[LocalTask], pool: WebPool, *, report: Callable[[Proof], None] = lambda _: None
) -> list[Proof]:
    """Runs both for each task, as many at once as the pool allows. A break is part of the proof, never raised."""

    async def one(task: LocalTask) -> Proof:
        begun = time.monotonic()
        idle, _, idle_problem = await attempt(pool, as_task(task), None)
        solved, answer, problem = await attempt(pool, as_task(task), task)
        template = task.template
        proof = Proof(
            task=as_task(task).id,
            intent=as_task(task).goal,
            site=template.site,
            level=template.level,
            kind=template.kind,
            solved=solved,
            idle=idle,
            answer=answer,
            problem=problem or idle_problem,
            seconds=round(time.monotonic() - begun, 1),
        )
        report(proof)
        return proof

    waiting = iter(tasks)
    proofs: list[Proof] = []

    async def worker() -> None:
        for task in waiting:
            proofs.append(await one(task))

    await asyncio.gather(*(worker() for _ in range(pool.size)))
    order = {as_task(task).id: place for place, task in enumerate(tasks)}
    return sorted(proofs, key=lambda proof: order[proof.task])


def sample(tasks: Sequence[LocalTask], count: int | None) -> list[LocalTask]:
    """So many tasks of each template (all if None), drawn by a hash: the same every time."""
    by_template: dict[int, list[LocalTask]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: derive_seed("sample", task.task_id)):
        by_template[task.template.id].append(task)
    return [task for number in sorted(by_template) for task in by_template[number][:count]]


async def attempt(pool: WebPool, task: Task, scripted: LocalTask | None) -> tuple[float | None, str, str]:
    """One episode, driven by the script of `scripted`, or stopped at once if None: reward (None if it broke), answer, problem."""
    from playwright.async_api import Error

    environment: WebArenaEnvironment | None = None
    answer = ""
    try:
        environment = await pool.acquire(task)
        await environment.reset(task, seed=0)
        if scripted is not None:
            site = scripted.template.site
            solving = scripted.template.solve(
                environment.tabs.page, scripted.instance, environment.lease.urls[site]
            )
            answer = await asyncio.wait_for(solving, SOLVE_TIMEOUT_S)
        stop = write(Action("stop", text=answer), (), environment.options.dialect)
        transition = await environment.step(stop)
    except TimeoutError:
        return None, answer, f"the script did not end within {SOLVE_TIMEOUT_S:g} s"
    except (CoevoError, Error) as error:
        return None, answer, str(error).strip().split("\n", 1)[0]
    finally:
        if environment is not None:
            await pool.release(environment)
    return transition.reward, answer, transition.info.get("error", "")
