"""A finished (or stopped) run, taken up again: to measure it more, or to take its weights elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevo.config import Experiment, experiment_from
from coevo.engine.base import Engine
from coevo.errors import ConfigError, SkillError, StoreError
from coevo.lock import RunLock
from coevo.loop.evaluate import evaluation_slots, final_arms, measure
from coevo.loop.resources import Resources, load_agent, load_model, load_task_set
from coevo.loop.rows import applied_steps, generations_done
from coevo.loop.run import experiment_of, open_context
from coevo.loop.skills import document_of
from coevo.loop.stop import StopSignal
from coevo.loop.weights import Weights
from coevo.progress import Progress
from coevo.skill import SkillDocument
from coevo.store import Store, queries
from coevo.store.versions import final_version, seed_version


async def evaluate_run(
    database: str | Path,
    run_id: str,
    *,
    arms: Sequence[str] = (),
    split: str | None = None,
    tasks: int | None = None,
    repeats: int | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Measure arms of the grid (none named: all that differ) on a split; returns their rows of `evaluations`.

    A run that is still to be continued is measured as it is now. Raises StoreError when the run is being executed,
    EngineError when its weights cannot be rebuilt, RunStopped on Ctrl-C.
    """
    progress = progress or Progress()
    with Store.open(database, create=False) as store:
        run = queries.run(store, run_id)["id"]
        lock = RunLock.acquire(store.path, run)
        try:
            stored = experiment_of(store, run)
            if stored.search is not None:
                raise ConfigError(
                    f"run {run} is a search over heuristics: it has its own test instances",
                    hint=f"coevo heuristics report {run}",
                )
            wanted = {"split": split, "tasks": tasks, "repeats": repeats}
            changes = {key: value for key, value in wanted.items() if value is not None}
            experiment = _changed(stored, changes)
            resources = Resources(
                task_set=load_task_set(experiment),
                graph=load_agent(experiment),
                skill=seed_document(store, run),
                engine=await _engine(engine, experiment),
            )
            suffix = (
                "" if experiment.evaluate.split == stored.evaluate.split else f"@{experiment.evaluate.split}"
            )
            stop = StopSignal()
            try:
                with stop.listening():
                    async with open_context(
                        store, run, experiment, resources, stop=stop, progress=progress
                    ) as context:
                        chosen = [arm for arm in final_arms(context) if not arms or arm.label in arms]
                        if not chosen:
                            have = ", ".join(arm.label for arm in final_arms(context))
                            raise ConfigError(
                                f"{run} has none of {', '.join(arms)}", hint=f"arms that differ: {have}"
                            )
                        finished = generations_done(store, run)
                        for arm in chosen:
                            generation = 0 if arm.label == "base+seed" else finished
                            await measure(
                                context,
                                generation,
                                [arm],
                                slots=evaluation_slots(context),
                                split=experiment.evaluate.split,
                                suffix=suffix,
                            )
            finally:
                if engine is None:
                    await resources.engine.close()
            labels = [arm.label + suffix for arm in chosen]
            return [
                row
                for row in store.query(
                    "SELECT * FROM evaluations WHERE run = ? AND generation IN (0, ?) ORDER BY generation, arm",
                    (run, finished),
                )
                if row["arm"] in labels
            ]
        finally:
            progress.close()
            lock.release()


async def export_run(
    database: str | Path, run_id: str, directory: Path, *, engine: Engine | None = None
) -> dict[str, Any]:
    """Rebuild the run's weights from base and updates and save them in Hugging Face format, with a `coevo.json`.

    Returns what `coevo.json` holds: run, weights_step, checksum, skill_version, model. Raises EngineError when the
    rebuilt weights are not the run's, StoreError when `directory` has something in it.
    """
    if directory.exists() and any(directory.iterdir()):
        raise StoreError(f"{directory} is not empty", hint="export to another directory")
    with Store.open(database, readonly=True) as store:
        row = queries.run(store, run_id)
        run = row["id"]
        experiment = experiment_of(store, run)
        steps = applied_steps(store, run)
        model = await _engine(engine, experiment)
        try:
            base = row["provenance"].get("base_checksum")
            weights = Weights(model, store, run, base or await model.checksum())
            await weights.at(len(steps))
            directory.mkdir(parents=True, exist_ok=True)
            await model.save(directory)
            facts = {
                "run": run,
                "model": experiment.model.id,
                "weights_step": len(steps),
                "checksum": await model.checksum(),
                "skill_version": final_version(store, run),
            }
        finally:
            if engine is None:
                await model.close()
    (directory / "coevo.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return facts


def rollback_skill(
    database: str | Path, run_id: str, version: str | None = None, reason: str = "withdrawn by hand"
) -> tuple[str, list[str]]:
    """Take back the versions a run accepted after `version` (None: the one before that it stands for).

    They are marked rejected, with the reason, so a continued run neither uses nor proposes them again; a pool is again
    what it was. Returns the version the run stands for now and those withdrawn. Raises SkillError when there is nothing to
    take back, StoreError while the run is being executed.
    """
    with Store.open(database, create=False) as store:
        run = queries.run(store, run_id)["id"]
        lock = RunLock.acquire(store.path, run)
        try:
            accepted = store.query(
                "SELECT * FROM skill_versions WHERE run = ? AND status = 'accepted' ORDER BY generation",
                (run,),
            )
            line = [seed_version(store, run), *(row["id"] for row in accepted)]
            now = line.index(final_version(store, run))
            if len(line) < 2 or (version is None and now == 0):
                raise SkillError(
                    f"{run} still uses its seed skill", hint="`coevo skills log` shows what it proposed"
                )
            target = version or line[now - 1]
            if target not in line[:-1]:
                raise SkillError(
                    f"{target} is not an earlier version of {run}",
                    hint=f"earlier ones: {', '.join(line[:-1])}",
                )
            withdrawn = line[line.index(target) + 1 :]
            current = str(final_version(store, run, without=withdrawn))
            with store.group():
                for row in accepted:
                    if row["id"] in withdrawn:
                        why = f"{reason} (was accepted: {row['reason']})"
                        store.update("skill_versions", row["id"], {"status": "rejected", "reason": why})
                store.update("skills", accepted[0]["skill"], {"current_version": current})
            store.flush_sync()
            return current, withdrawn
        finally:
            lock.release()


def seed_document(store: Store, run: str) -> SkillDocument:
    """The seed skill of a run, as it was. Raises StoreError for a run that never began."""
    rows = store.query(
        "SELECT v.text, v.files FROM runs r JOIN skill_versions v ON v.id = json_extract(r.provenance, '$.seed_skill')"
        " WHERE r.id = ?",
        (run,),
    )
    if not rows:
        raise StoreError(f"run {run} stopped before it began", hint="continue it with `coevo run`")
    return document_of(rows[0])


async def _engine(given: Engine | None, experiment: Experiment) -> Engine:
    return given if given is not None else await asyncio.to_thread(load_model, experiment)


def _changed(experiment: Experiment, changes: dict[str, Any]) -> Experiment:
    data = experiment.model_dump()
    data["evaluate"] |= changes
    return experiment_from(data, directory=experiment.directory, source="the evaluation")
