"""`coevo check`: everything an experiment needs, tried before anything is spent."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coevo.config import Experiment, load_experiment
from coevo.engine import ENGINES
from coevo.engine.base import Engine, Request
from coevo.eoh.plan import largest_gate
from coevo.eoh.skill import foreign_skill
from coevo.errors import AgentError, CoevoError, ConfigError, EngineError, ModelError, StoreError, WorldError
from coevo.progress import duration

if TYPE_CHECKING:
    from rich.table import Table

    from coevo.env import TaskSet
    from coevo.skill import SkillDocument

FREE_BYTES = 500 * 2**20
EPISODE_BYTES = 60_000
"""What an episode of a few turns takes in the database, rounded up."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing tried. `next_step` says what to do about a failure or a warning."""

    name: str
    status: Literal["ok", "warning", "failed", "skipped"]
    detail: str
    next_step: str = ""


class Warn(Exception):
    """Raised by a probe: it works, but a person should know."""

    def __init__(self, detail: str, next_step: str) -> None:
        super().__init__(detail)
        self.detail, self.next_step = detail, next_step


def check_experiment(
    file: Path,
    overrides: Sequence[str] = (),
    *,
    quick: bool = False,
    engine: Engine | None = None,
) -> list[Check]:
    """Try everything in turn; what needs something that failed is skipped. `quick` leaves out world and model.

    `engine` is used, and left open, instead of loading the experiment's model.
    """
    from coevo.loop import run_async

    return run_async(_Probes(file, overrides, quick, engine).all())


def render_checks(checks: Sequence[Check]) -> Table:
    """A table of ✓ and ✗, each with its next step."""
    from rich.table import Table
    from rich.text import Text

    marks = {
        "ok": ("✓", "green"),
        "warning": ("!", "yellow"),
        "failed": ("✗", "red"),
        "skipped": ("–", "dim"),
    }
    table = Table(show_header=False, box=None, padding=(0, 1))
    for check in checks:
        mark, style = marks[check.status]
        detail = Text(check.detail)
        if check.next_step:
            detail.append(f"\n→ {check.next_step}", style="bold")
        table.add_row(Text(mark, style=style), Text(check.name), detail)
    return table


class _Probes:
    """The probes, with what the earlier ones found."""

    def __init__(self, file: Path, overrides: Sequence[str], quick: bool, engine: Engine | None) -> None:
        self._file, self._overrides, self._quick = file, overrides, quick
        self._engine, self._given = engine, engine is not None
        self._experiment: Experiment | None = None
        self._skill: SkillDocument | None = None
        self._graph: Any = None
        self._task_set: TaskSet | None = None
        self._checks: list[Check] = []

    async def all(self) -> list[Check]:
        await self._try("experiment", self._probe_experiment)
        await self._try("packages", self._probe_packages)
        if self._experiment is None:
            return self._checks
        if self._experiment.model.engine in ENGINES and not self._asks_nobody and self._engine is None:
            await self._try("model files", self._probe_model_files)
        await self._try("skill", self._probe_skill)
        await self._try("analyst", self._probe_analyst)
        await self._try("agent", self._probe_agent)
        await self._try("tasks", self._probe_tasks)
        if self._experiment.sampling.grammar:
            await self._try("grammar", self._probe_grammar)
        await self._try("disk", self._probe_disk)
        await self._try("database", self._probe_database)
        if self._quick:
            return self._checks
        try:
            await self._try("world", self._probe_world, needs=("tasks",))
            if self._asks_nobody:
                return self._checks
            await self._try("model", self._probe_model, needs=("model files", "grammar"))
            await self._try("episode", self._probe_episode, needs=("skill", "agent", "world", "model"))
        finally:
            if self._engine is not None and not self._given:
                await self._engine.close()
        return self._checks

    async def _try(self, name: str, probe: Callable[[], Any], needs: Sequence[str] = ()) -> None:
        failed = [c.name for c in self._checks if c.name in needs and c.status in ("failed", "skipped")]
        if failed:
            self._checks.append(Check(name, "skipped", f"needs {', '.join(failed)}"))
            return
        try:
            found = probe()
            detail = str(await found if asyncio.iscoroutine(found) else found)
        except Warn as warning:
            self._checks.append(Check(name, "warning", warning.detail, warning.next_step))
        except CoevoError as error:
            self._checks.append(Check(name, "failed", error.message, error.hint or ""))
        except (
            Exception
        ) as error:  # a probe reports whatever user code raises; nothing depends on it afterwards
            self._checks.append(
                Check(
                    name,
                    "failed",
                    f"{type(error).__name__}: {error}",
                    "this is not an error coevo expects; see above",
                )
            )
        else:
            self._checks.append(Check(name, "ok", detail))

    @property
    def experiment(self) -> Experiment:
        assert self._experiment is not None
        return self._experiment

    @property
    def _asks_nobody(self) -> bool:
        """Whether the run needs no model."""
        return self.experiment.search is not None and self.experiment.search.author == "chance"

    def _probe_experiment(self) -> str:
        self._experiment = load_experiment(self._file, self._overrides)
        es, search = self._experiment.es, self._experiment.search
        if search is not None:
            return (
                f"{self._experiment.name}: {search.method} on {search.problem}, written by {search.author} in"
                f" {search.language}, {episode_count(self._experiment)} candidates"
            )
        return (
            f"{self._experiment.name}: {self._experiment.schedule.mode}, {es.generations} generations × "
            f"{es.population} members × {es.tasks_per_generation} tasks"
        )

    def _probe_packages(self) -> str:
        for other in ("libwebarena", "webarena"):
            try:
                metadata.version(other)
            except metadata.PackageNotFoundError:
                continue
            raise Warn(
                f"the package {other} is installed; its module is also called webarena and hides coevo's",
                f"use a separate environment, or: pip uninstall {other}",
            )
        return f"Python {sys.version.split()[0]}, coevo {metadata.version('coevo')}"

    async def _probe_model_files(self) -> str:
        """Device and files, both told, without loading anything."""
        from coevo.engine.models import look_up, pick_device

        told, problems = "", []
        device = self.experiment.model.device
        looks = [lambda: look_up(self.experiment.model_id)]
        for look in [lambda: pick_device(device), *looks] if device.startswith("cuda") else looks:
            try:
                told = await asyncio.to_thread(look)
            except ModelError as error:
                problems.append(error)
            except ModuleNotFoundError as error:
                missing = f"the package {error.name!r} is missing"
                problems.append(ModelError(missing, hint="pip install 'coevo[torch]'"))
        if problems:
            hints = (problem.hint for problem in problems)
            raise ModelError(
                "; ".join(problem.message for problem in problems),
                hint="; ".join(hint for hint in hints if hint),
            )
        return told

    def _probe_skill(self) -> str:
        from coevo.loop.resources import load_skill
        from coevo.loop.skills import budgets

        self._skill = load_skill(self.experiment)
        excess = budgets(self.experiment.skill).excess(self._skill.body)
        if excess:
            raise Warn(
                f"the seed skill {self._skill.name} is too long: {excess}",
                "raise skill.max_lines or max_tokens",
            )
        return f"{self._skill.name}: {len(self._skill.body.splitlines())} lines"

    def _probe_analyst(self) -> str:
        from coevo.loop.authors import load_analyst

        load_analyst(self.experiment)
        return self.experiment.skill.analyst

    def _probe_agent(self) -> str:
        from coevo.loop.resources import load_agent

        self._graph = load_agent(self.experiment)
        return f"{self.experiment.agent.graph}: {len(self._graph.nodes)} nodes"

    def _probe_tasks(self) -> str:
        from coevo.loop.resources import load_task_set

        self._task_set = load_task_set(self.experiment)
        ids = {split: [task.id for task in self._task_set.tasks(split)] for split in ("train", "dev", "test")}
        for split, names in ids.items():
            if not names:
                raise ConfigError(f"the task set has no {split} tasks", hint="see [tasks.options]")
            if len(set(names)) < len(names):
                raise ConfigError(
                    f"task ids of {split} are not unique", hint="this is a defect of the task set"
                )
        for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
            if shared := set(ids[one]) & set(ids[other]):
                raise ConfigError(
                    f"{one} and {other} share {len(shared)} tasks, e.g. {min(shared)}",
                    hint="splits must be disjoint, or the evaluation measures memory",
                )
        if self.experiment.search is not None:
            problem = str(getattr(self._task_set, "name", "a problem"))
            if self._skill is not None and (wrong := foreign_skill(self._skill.name, problem)):
                raise Warn(*wrong)
            return f"requests for heuristics of {problem}"
        return ", ".join(f"{len(names)} {split}" for split, names in ids.items())

    def _probe_grammar(self) -> str:
        from coevo.engine.grammar import check_grammar

        grammar = self.experiment.base_sampling().grammar
        check_grammar(grammar)
        return f"sampling.grammar: {len(grammar.splitlines())} lines"

    def _probe_disk(self) -> str:
        folder = self.experiment.database_path.parent
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        needed = FREE_BYTES + episode_count(self.experiment) * EPISODE_BYTES
        detail = f"{free / 2**30:.1f} GB free at {folder}, about {needed / 2**30:.1f} GB needed"
        if free < needed:
            raise StoreError(detail, hint="free space, or set database to another disk")
        return detail

    def _probe_database(self) -> str:
        from coevo.store import Store, queries

        path = self.experiment.database_path
        if not path.exists():
            return f"{self.experiment.database} will be made"
        with Store.open(path) as store:
            return f"{self.experiment.database}: {len(queries.runs(store))} runs"

    async def _probe_world(self) -> str:
        assert self._task_set is not None
        pool = self._task_set.pool(1)
        task = self._task_set.tasks("train")[0]
        started = time.monotonic()
        try:
            environment = await pool.acquire(task)
            try:
                seen = await environment.reset(task, seed=0)
                judged = await probe() if (probe := getattr(environment, "probe", None)) else ""
            finally:
                await pool.release(environment)
        finally:
            await pool.close()
        if not seen.text.strip():
            raise WorldError(f"task {task.id} shows nothing", hint="look at its environment")
        told = f"{task.id} shows {len(seen.text)} characters after {time.monotonic() - started:.1f} s"
        return f"{told}; {judged}" if judged else told

    async def _probe_model(self) -> str:
        from coevo.loop.resources import load_model

        started = time.monotonic()
        if self._engine is None:
            self._engine = await asyncio.to_thread(load_model, self.experiment)
        loaded = time.monotonic() - started
        sampling = self.experiment.base_sampling()
        request = Request(({"role": "user", "content": "Say one word."},), sampling)
        answer = (await self._engine.generate([request]))[0]
        if answer.completion_tokens == 0 and answer.finish_reason != "stop":
            raise EngineError("the model answered with nothing", hint="check its chat template and context")
        facts = self._engine.describe()
        told = ", ".join(
            f"{facts[key]} {key}" for key in ("parameters", "dtype", "device", "threads") if key in facts
        )
        return f"{self.experiment.model.id} in {loaded:.1f} s: {told}"

    async def _probe_episode(self) -> str:
        from coevo.agent import EpisodeSpec, run_episode
        from coevo.engine.batcher import Batcher
        from coevo.store import Store

        assert self._task_set is not None
        assert self._engine is not None
        assert self._skill is not None
        task = self._task_set.tasks("train")[0]
        pool = self._task_set.pool(1)
        batcher = Batcher(self._engine)
        batcher.expected = 1
        agent = self.experiment.agent
        try:
            with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "check.sqlite") as store:
                result = await run_episode(
                    EpisodeSpec("check", "rollout", 0, None, None, task, 0, None, None),
                    graph=self._graph,
                    generate=batcher.generate,
                    pool=pool,
                    sampling=self.experiment.base_sampling(),
                    skill_text=self._skill.body,
                    max_turns=agent.max_turns,
                    deadline_s=agent.deadline_s,
                    store=store,
                )
        finally:
            await batcher.close()
            await pool.close()
        if result.outcome == "invalid":
            raise WorldError(
                f"{task.id} was invalid: {result.error}", hint="fix the world or the engine first"
            )
        if result.category == "agent_error":
            raise AgentError(f"the agent raised on {task.id}: {result.error}", hint=f"see {agent.graph}")
        count, slots = episode_count(self.experiment), self.experiment.tasks.slots
        why = ": ".join(filter(None, (result.category, result.error)))
        ended = f"{result.outcome} ({why})" if why else str(result.outcome)
        return (
            f"{task.id}: {ended} in {result.turns} turns, {result.seconds:.1f} s; the run has about {count} episodes: "
            f"{duration(count * result.seconds)} one after another, less with up to {slots} at once"
        )


def episode_count(experiment: Experiment) -> int:
    """Episodes of a whole run without retries, at most; an evaluation of all test tasks is taken as 100.

    Those of a search are its candidates, its gates included.
    """
    if (search := experiment.search) is not None:
        evolves = experiment.schedule.mode in ("interleaved", "skill") and search.author == "model"
        looks = search.generations // experiment.skill.every if evolves else 0
        most = search.candidates + looks * largest_gate(experiment)
        return min(most, search.budget) if search.budget else most
    es, skill, evaluate = experiment.es, experiment.skill, experiment.evaluate
    rollouts = es.generations * es.population * es.tasks_per_generation
    looks = 0 if experiment.schedule.mode == "weights" else es.generations // skill.every
    gates = looks * skill.dev_tasks * (skill.pool + skill.candidates)
    if skill.pool > 1:  # in the end those that are kept meet once more
        gates += skill.dev_tasks * skill.pool
    once = (evaluate.tasks or 100) * evaluate.repeats
    evaluations = once * (
        (4 if evaluate.grid else 1) + (es.generations // evaluate.every if evaluate.every else 0)
    )
    return rollouts + gates + evaluations
