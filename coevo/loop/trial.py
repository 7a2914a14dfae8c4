"""Skills outside a run's own rhythm: try any document against a run's current one, or distil its episodes once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coevo.config import Experiment, experiment_from
from coevo.engine.base import Completion, Engine, Request
from coevo.engine.batcher import Batcher
from coevo.errors import ConfigError
from coevo.lock import RunLock
from coevo.loop.again import seed_document
from coevo.loop.authors import StoredCalls, load_analyst
from coevo.loop.context import LoopContext
from coevo.loop.plan import held_out_slots
from coevo.loop.resources import Resources, load_agent, load_model, load_task_set
from coevo.loop.rows import applied_steps, generations_done, rewards_by_slot
from coevo.loop.run import experiment_of, open_context
from coevo.loop.skills import SkillLedger, budgets
from coevo.loop.stop import StopSignal
from coevo.loop.weights import Weights
from coevo.progress import Progress
from coevo.skill import Distillation, GateDecision, SkillDocument, decide, distil
from coevo.store import Store, queries


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a trial: `decision` is the gate's, with the differences of every task."""

    run: str
    version: str
    against: str
    decision: GateDecision


async def try_skill(
    database: str | Path,
    run_id: str,
    document: SkillDocument,
    *,
    split: str = "dev",
    tasks: int = 0,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Trial:
    """Compare `document` with the skill a run ended with: same tasks and seeds of `split`, the run's final weights.

    Episodes are stored under the run (phase `gate`, generation null) and used again when the trial is repeated. Nothing
    about the run changes. Raises ConfigError for a skill of another name, StoreError while the run is being executed.
    """
    progress = progress or Progress()
    with Store.open(database, create=False) as store:
        run = queries.run(store, run_id)["id"]
        lock = RunLock.acquire(store.path, run)
        try:
            async with opened(store, run, progress, engine) as context:
                version = await context.skills.register(document)
                against = context.skills.best()
                if version == against:
                    raise ConfigError(
                        f"{document.name} is what {run} already uses", hint="try another document"
                    )
                pool = {"train": context.train, "dev": context.dev}.get(split, context.held_out)
                slots = held_out_slots(context.experiment.seed, pool, limit=tasks, repeats=1)
                await context.weights.latest()
                step = len(applied_steps(store, run))
                arms = {against: f"{against}@{step}", version: f"{version}@{step}"}
                specs = [
                    spec
                    for name, arm in arms.items()
                    for spec in context.specs("gate", None, slots, skill_version=name, arm=arm)
                ]
                rows = await context.rollouts.run(
                    specs, context.skills.bodies(*arms), label=f"try {version} against {against}"
                )
                rewards = {name: rewards_by_slot(rows.values(), arm) for name, arm in arms.items()}
                decision = decide(
                    rewards[against],
                    rewards[version],
                    confidence=context.experiment.skill.confidence,
                    groups={slot.task.id: slot.task.group or slot.task.id for slot in slots},
                    seed=context.experiment.seed,
                )
                return Trial(run, version, against, decision)
        finally:
            progress.close()
            lock.release()


async def distil_run(
    database: str | Path,
    run_id: str,
    *,
    analyst: str | None = None,
    author: str | None = None,
    last: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[str, Distillation, str]:
    """Read a run's rollouts again, with the same or another analyst; nothing is gated or taken over.

    `last`: only so many of the latest generations. Returns the version that the candidates start from, the distillation,
    and the analyst's report. Calls of an author are stored and never paid for twice. The model is loaded only when
    the author is the policy.
    """
    progress = progress or Progress()
    with Store.open(database, create=False) as store:
        run = queries.run(store, run_id)["id"]
        lock = RunLock.acquire(store.path, run)
        policy = _LazyPolicy(store, run, engine)
        try:
            experiment = with_analyst(experiment_of(store, run), analyst, author)
            make = load_analyst(experiment)
            policy.experiment = experiment
            ledger = SkillLedger(store, run, seed_document(store, run))
            done = generations_done(store, run)
            version = ledger.best()
            first = max(0, done - last) if last else 0
            read = queries.episodes(store, run, phase="rollout", generations=range(first, done + 1))
            task_set = load_task_set(experiment)
            held = {task.id for split in ("dev", experiment.evaluate.split) for task in task_set.tasks(split)}
            chosen = make(StoredCalls(store), policy.generate)
            found = await distil(
                ledger.document(version),
                read,
                chosen,
                rejected=ledger.ruled_out(),
                budgets=budgets(experiment.skill),
                held_out=held,
                max_examples=experiment.skill.examples,
            )
            return version, found, str(getattr(chosen, "report", ""))
        finally:
            await policy.close()
            progress.close()
            lock.release()


@asynccontextmanager
async def opened(
    store: Store, run: str, progress: Progress, engine: Engine | None
) -> AsyncIterator[LoopContext]:
    """The run as the nodes of the loop see it, with its model loaded unless `engine` is given."""
    experiment = experiment_of(store, run)
    stop = StopSignal()
    resources = Resources(
        task_set=load_task_set(experiment),
        graph=load_agent(experiment),
        skill=seed_document(store, run),
        engine=engine if engine is not None else await asyncio.to_thread(load_model, experiment),
    )
    try:
        with stop.listening():
            async with open_context(
                store, run, experiment, resources, stop=stop, progress=progress
            ) as context:
                yield context
    finally:
        if engine is None:
            await resources.engine.close()


class _LazyPolicy:
    """The run's final policy, loaded when it is first asked."""

    experiment: Experiment

    def __init__(self, store: Store, run: str, engine: Engine | None) -> None:
        self._store, self._run, self._given = store, run, engine
        self._batcher: Batcher | None = None
        self._engine: Engine | None = None
        self._loading = asyncio.Lock()

    async def generate(self, request: Request) -> Completion:
        async with self._loading:
            batcher = self._batcher = self._batcher or await self._load()
        return await batcher.generate(request)

    async def _load(self) -> Batcher:
        engine = self._given
        if engine is None:
            engine = await asyncio.to_thread(load_model, self.experiment)
        self._engine = engine
        row = queries.run(self._store, self._run)
        base = row["provenance"].get("base_checksum") or await engine.checksum()
        await Weights(engine, self._store, self._run, base).latest()
        return Batcher(engine)

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
        if self._engine is not None and self._given is None:
            await self._engine.close()


def with_analyst(experiment: Experiment, analyst: str | None, author: str | None) -> Experiment:
    """The experiment with another analyst, or an `llm` analyst with another author. Raises ConfigError."""
    data = experiment.model_dump()
    if analyst is not None:
        data["skill"]["analyst"] = analyst
    if author is not None:
        data["skill"]["analyst"] = "llm"
        data["skill"]["author"]["model"] = author
    return experiment_from(data, directory=experiment.directory, source="the distillation")
