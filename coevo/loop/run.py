"""Starting and continuing runs: which run it is, its lock, its row, its end."""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from coevo.config import Experiment, stored_experiment
from coevo.engine.batcher import Batcher
from coevo.env import EnvironmentPool
from coevo.errors import CoevoError, EngineError, StoreError, WorldError, explained
from coevo.lock import RunLock, allocating
from coevo.loop.authors import MakeAnalyst, StoredCalls, load_analyst
from coevo.loop.context import LoopContext, LoopState
from coevo.loop.graph import build_loop
from coevo.loop.resources import Resources, content_of, load_parts, open_resources, provenance
from coevo.loop.rollout import Rollouts
from coevo.loop.rows import generations_done
from coevo.loop.skills import SkillLedger, now
from coevo.loop.stop import RunStopped, StopSignal
from coevo.loop.weights import Weights
from coevo.progress import Progress
from coevo.store import Store, queries

RunStatus = Literal["finished", "stopped"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """Which run it was and how it ended; `already` if there was nothing left to do."""

    run: str
    status: RunStatus
    already: bool = False


class Drive(Protocol):
    """What happens inside a run, once everything it needs is there. `unit` is what it counts its progress in."""

    unit: str

    def total(self, experiment: Experiment) -> int:
        """How many rounds the run has, for its progress."""
        ...

    def done(self, store: Store, run: str) -> int:
        """How many of them the rows have."""
        ...

    async def __call__(self, context: LoopContext) -> None: ...


class LoopDrive:
    """The co-evolution loop: through its graph, from the last checkpoint if there is one that fits the rows."""

    unit = "generations"

    def total(self, experiment: Experiment) -> int:
        return experiment.es.generations

    def done(self, store: Store, run: str) -> int:
        return generations_done(store, run)

    async def __call__(self, context: LoopContext) -> None:
        store, run = context.store, context.run
        row = store.query("SELECT created_at FROM runs WHERE id = ?", (run,))[0]
        done = generations_done(store, run)
        config: Any = {
            # A database that was deleted and made again is another history, even where its runs have the same names.
            "configurable": {"thread_id": f"{run} {row['created_at']}"},
            "recursion_limit": 20 * (context.experiment.es.generations + 2),
        }
        checkpoints = store.path.with_name(f"{store.path.name}.checkpoints")
        async with AsyncSqliteSaver.from_conn_string(str(checkpoints)) as saver:
            loop = build_loop(saver)
            state = await loop.aget_state(config)
            fits = bool(state.next) and state.values.get("generation", done + 1) <= done
            # Without a checkpoint the last generation is gone through again: rows say what of it is left to do.
            start: LoopState = {"run": run, "generation": max(0, done - 1), "candidates": []}
            await loop.ainvoke(None if fits else start, config, context=context, durability="sync")


async def run_experiment(
    experiment: Experiment,
    *,
    resources: Resources | None = None,
    progress: Progress | None = None,
    new: bool = False,
    drive: Drive | None = None,
) -> RunResult:
    """Run an experiment to its end, or continue the unfinished run of the same experiment in its database.

    The same experiment is: the same values, agent file and seed skill. A finished one is not run again unless `new`.
    With `resources` given nothing is loaded and the caller closes the engine, which must be fresh. `drive` is what runs
    inside: the co-evolution loop if left out (a search has its own, `coevo.eoh.run_search`). Raises CoevoError; whatever the
    reason, the same call continues the run.
    """
    drive = drive or LoopDrive()
    progress = progress or Progress()
    with Store.open(experiment.database_path) as store:
        claim = _claim(store, experiment, new)
        if claim.lock is None:
            return RunResult(claim.run, "finished", already=True)
        try:
            return await _execute(store, claim.run, experiment, resources, progress, drive)
        finally:
            progress.close()
            claim.lock.release()


@asynccontextmanager
async def open_context(
    store: Store,
    run: str,
    experiment: Experiment,
    resources: Resources,
    *,
    make_analyst: MakeAnalyst | None = None,
    stop: StopSignal | None = None,
    progress: Progress | None = None,
) -> AsyncIterator[LoopContext]:
    """Everything the nodes need for a run that has its row; the environments are closed at the end."""
    progress = progress or Progress()
    task_set = resources.task_set
    make_analyst = make_analyst or load_analyst(experiment)
    skills = SkillLedger(store, run, resources.skill)
    await skills.register_seed()
    checksum = await _check_base(store, run, resources, skills.seed_version)
    with explained(f"the pool of task set {experiment.tasks.set!r}", WorldError):
        pool = task_set.pool(experiment.tasks.slots)
    batcher = Batcher(resources.engine)
    try:
        yield LoopContext(
            experiment=experiment,
            run=run,
            store=store,
            weights=Weights(resources.engine, store, run, checksum),
            rollouts=Rollouts(
                store=store,
                graph=resources.graph,
                batcher=batcher,
                pool=pool,
                sampling=experiment.base_sampling(),
                max_turns=experiment.agent.max_turns,
                deadline_s=experiment.agent.deadline_s,
                retries=experiment.agent.retries,
                slots=experiment.tasks.slots,
                screenshots=experiment.agent.screenshots,
                stop=stop or StopSignal(),
                progress=progress,
            ),
            skills=skills,
            analyst=make_analyst(StoredCalls(store), batcher.generate),
            task_set=task_set,
            train=task_set.tasks("train"),
            dev=task_set.tasks("dev"),
            held_out=task_set.tasks(experiment.evaluate.split),
            progress=progress,
        )
    finally:
        await batcher.close()
        await _close_pool(pool, progress)


def experiment_of(store: Store, run: str) -> Experiment:
    """The experiment of a stored run, with paths relative to where its file was."""
    return stored_experiment(queries.run(store, run))


@dataclass(frozen=True, slots=True)
class _Claim:
    """A run to execute, or (without lock) one that is finished."""

    run: str
    lock: RunLock | None


def _claim(store: Store, experiment: Experiment, new: bool) -> _Claim:
    """Nothing is awaited while names are allocated: another run of this process would wait for the lock and hold up the loop."""
    fingerprint = experiment.fingerprint(*content_of(experiment))
    with allocating(store.path):
        rows = store.query(
            "SELECT id, status FROM runs WHERE name = ? AND json_extract(provenance, '$.fingerprint') = ?"
            " ORDER BY created_at DESC",
            (experiment.name, fingerprint),
        )
        if rows and not new:
            unfinished = [row["id"] for row in rows if row["status"] != "finished"]
            if not unfinished:
                return _Claim(rows[0]["id"], None)
            lock = RunLock.acquire(store.path, unfinished[0])
            store.update("runs", unfinished[0], {"status": "running", "error": None})
            store.flush_sync()
            return _Claim(unfinished[0], lock)
        taken = {row["id"] for row in store.query("SELECT id FROM runs WHERE name = ?", (experiment.name,))}
        run = next(name for n in range(1, len(taken) + 2) if (name := f"{experiment.name}-{n}") not in taken)
        lock = RunLock.acquire(store.path, run)
        store.put(
            "runs",
            {
                "id": run,
                "name": experiment.name,
                "status": "running",
                "seed": experiment.seed,
                "config": experiment.model_dump(mode="json"),
                "provenance": provenance(experiment) | {"fingerprint": fingerprint},
                "created_at": now(),
            },
        )
        store.flush_sync()
        return _Claim(run, lock)


async def _execute(
    store: Store,
    run: str,
    experiment: Experiment,
    resources: Resources | None,
    progress: Progress,
    drive: Drive,
) -> RunResult:
    stop = StopSignal(
        lambda: progress.note(
            "stopping when the episodes under way are stored (an author's calls have a few seconds); Ctrl-C again stops at"
            " once"
        )
    )
    owned: Resources | None = None
    try:
        with stop.listening():
            # Before anything is shown or a model loaded: a wrong name is told at once, and is no run.
            make_analyst = load_analyst(experiment)
            parts = await asyncio.to_thread(load_parts, experiment) if resources is None else None
            progress.start(run, drive.total(experiment), drive.done(store, run), drive.unit)
            if resources is None:
                resources = owned = await asyncio.to_thread(open_resources, experiment, parts)
            async with open_context(
                store, run, experiment, resources, make_analyst=make_analyst, stop=stop, progress=progress
            ) as context:
                await drive(context)
    except RunStopped:
        await _end(store, run, "stopped", None)
        return RunResult(run, "stopped")
    except asyncio.CancelledError:
        await _end(store, run, "stopped", None)
        if stop.requested:
            return RunResult(run, "stopped")
        raise
    except StoreError:
        raise
    except BrokenPipeError:  # nobody reads what it prints any more, as after `| head`
        await _end(store, run, "stopped", None)
        raise
    except (sqlite3.Error, OSError) as error:
        full = isinstance(error, sqlite3.Error) or error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StoreError(
            f"run {run} stopped: {error}",
            hint=f"{'free disk space and ' if full else ''}run the same command again: it continues",
        ) from error
    except Exception as error:
        if _began(store, run):
            await _end(store, run, "failed", error)
        else:  # a wrong name or a missing model is not a run
            store.delete("runs", {"id": run})
            await store.flush()
        raise
    finally:
        if owned is not None:
            await owned.engine.close()
    await _end(store, run, "finished", None)
    return RunResult(run, "finished")


async def _check_base(store: Store, run: str, resources: Resources, seed_version: str) -> str:
    """The checksum of the base checkpoint, written at the first start and held against the engine ever after."""
    recorded = json.loads(store.query("SELECT provenance FROM runs WHERE id = ?", (run,))[0]["provenance"])
    checksum = await resources.engine.checksum()
    expected = recorded.get("base_checksum")
    if expected is None:
        recorded |= {
            "base_checksum": checksum,
            "engine": resources.engine.describe(),
            "seed_skill": seed_version,
        }
        store.update("runs", run, {"provenance": recorded})
        await store.flush()
    elif expected != checksum:
        raise EngineError(
            f"run {run} began with a base model of checksum {expected}; this one has {checksum}",
            hint="the model's files or the engine have changed since; start another run with --new",
        )
    return checksum


async def _close_pool(pool: EnvironmentPool, progress: Progress) -> None:
    try:
        await pool.close()
    except CoevoError as error:
        progress.note(f"closing the environments failed: {error.message}")


def _began(store: Store, run: str) -> bool:
    sql = "SELECT json_extract(provenance, '$.base_checksum') AS begun FROM runs WHERE id = ?"
    return store.query(sql, (run,))[0]["begun"] is not None


async def _end(store: Store, run: str, status: str, error: BaseException | None) -> None:
    try:
        store.update(
            "runs",
            run,
            {
                "status": status,
                "error": f"{type(error).__name__}: {error}" if error else None,
                "finished_at": now(),
            },
        )
        await store.flush()
    except StoreError:
        if status == "finished":
            raise
