"""Running a search: the same start, lock, resume and end as any run, around the search's own graph."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coevo.config import Experiment
from coevo.env import Task
from coevo.eoh.budget import count_budget
from coevo.eoh.context import SearchContext
from coevo.eoh.environment import HeuristicPool, HeuristicTasks
from coevo.eoh.graph import build_search
from coevo.eoh.ledger import SearchLedger
from coevo.eoh.operators import Turn
from coevo.eoh.plan import START_TURNS, Child
from coevo.eoh.replies import Draft
from coevo.eoh.skill import foreign_skill
from coevo.eoh.start import start_drafts
from coevo.errors import ConfigError, SearchError
from coevo.loop.context import LoopContext
from coevo.loop.resources import Resources
from coevo.loop.run import RunResult, run_experiment
from coevo.meter import Meter
from coevo.problem import Verdict
from coevo.progress import Progress
from coevo.store import Store


async def run_search(
    experiment: Experiment,
    *,
    resources: Resources | None = None,
    progress: Progress | None = None,
    new: bool = False,
) -> RunResult:
    """Run the search of an experiment to its end, or continue it: see `coevo.loop.run_experiment`."""
    for draft in start_drafts(experiment, ""):  # what is wrong with a file is told before anything is loaded
        if 0 < experiment.longest_program() < len(draft.code):
            raise ConfigError(
                f"search.start: {draft.thought} has {len(draft.code)} characters;"
                f" {experiment.longest_program()} can be shown in a prompt",
                hint="raise model.context, or shorten it",
            )
    return await run_experiment(
        experiment, resources=resources, progress=progress, new=new, drive=SearchDrive()
    )


class SearchDrive:
    """How `run_experiment` drives a search."""

    unit = "turns"

    def total(self, experiment: Experiment) -> int:
        """Turns, about: a start may take more than one."""
        table = experiment.search
        assert table is not None
        left = table.candidates - table.children("start")
        operators = itertools.chain(
            ("i1",), itertools.cycle(("i1",) if table.method == "sample" else table.operators)
        )
        turns = int(bool(table.start))
        while left > 0:
            left -= table.children(next(operators))
            turns += 1
        return turns

    def done(self, store: Store, run: str) -> int:
        return int(store.query("SELECT count(*) AS n FROM search_turns WHERE run = ?", (run,))[0]["n"])

    async def __call__(self, context: LoopContext) -> None:
        async with _opened(context) as search:
            await search.pool.open()
            seed_skill = context.skills.seed_version.partition("@")[0]
            if wrong := foreign_skill(seed_skill, search.tasks.problem.name):
                context.progress.note("; ".join(wrong))
            # what cannot be scored is told before a model is asked
            proof = await search.pool.judge.prove(search.tasks.language)
            context.progress.note(
                f"the simple heuristic of the problem: {proof.simple:.6g} (smaller is better)"
            )
            if proof.doubt:
                context.progress.note(proof.doubt)
            search.ledger.note_simple(proof.simple)
            limit = 10 * (self.total(context.experiment) + START_TURNS + 5)
            await build_search().ainvoke({}, {"recursion_limit": limit}, context=search)
            budget = count_budget(context.store, context.run, context.experiment)
            context.progress.note(budget.sentence())
            meter = search.meter
            context.progress.note(
                f"model busy {meter.share('writing'):.0%} of the time, sandbox {meter.share('judging'):.0%},"
                f" both at once {meter.share('writing', 'judging'):.0%}"
            )
            if not budget.holds:
                raise SearchError(
                    f"the budget of run {context.run} does not add up: {budget.sentence()}",
                    hint="its rows were changed by something else; the best heuristics are stored all the same",
                )


@asynccontextmanager
async def _opened(loop: LoopContext) -> AsyncIterator[SearchContext]:
    tasks, pool = loop.task_set, loop.rollouts.pool
    if not isinstance(tasks, HeuristicTasks) or not isinstance(pool, HeuristicPool):
        raise ConfigError(
            f"tasks.set = {loop.experiment.tasks.set!r} is no set of heuristic-design tasks",
            hint="leave tasks.set out of an experiment with a [search]",
        )
    ledger = SearchLedger(loop.store, loop.run, tasks.problem.name)
    meter = Meter()
    pool.judge.meter = meter
    loop.rollouts.batcher.meter = meter
    for code, verdict in ledger.known():
        pool.judge.remember(code, verdict)

    def record(task: Task, draft: Draft | None, verdict: Verdict) -> None:
        turn, child = task.data.get("turn"), task.data.get("child")
        if isinstance(turn, Turn) and isinstance(child, Child) and turn.number >= 0:
            ledger.put_heuristic(
                turn,
                child.number,
                parents=[parent.id for parent in child.parents],
                draft=draft,
                verdict=verdict,
                member=child.member.index if child.member else None,
            )

    pool.sink = record
    yield SearchContext(
        loop=loop,
        ledger=ledger,
        pool=pool,
        tasks=tasks,
        meter=meter,
    )
