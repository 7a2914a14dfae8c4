"""From the names in an experiment to the objects a run works with: task set, agent graph, seed skill, engine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from coevo.agent import load_graph
from coevo.config import Experiment
from coevo.engine import load_engine
from coevo.engine.base import Engine
from coevo.engine.grammar import check_grammar
from coevo.engine.none import NoModel
from coevo.env import TaskSet
from coevo.errors import ConfigError, EngineError, explained
from coevo.objects import load_object
from coevo.skill import SkillDocument


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run needs besides its database and its model, quick to load."""

    task_set: TaskSet
    graph: Any
    skill: SkillDocument


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run needs besides its database. Close the engine when done."""

    engine: Engine
    task_set: TaskSet
    graph: Any
    skill: SkillDocument


def load_parts(experiment: Experiment) -> Parts:
    """Everything but the model. Raises the CoevoError that fits: ConfigError, AgentError, SkillError."""
    if grammar := experiment.base_sampling().grammar:
        check_grammar(grammar)
    return Parts(load_task_set(experiment), load_agent(experiment), load_skill(experiment))


def open_resources(experiment: Experiment, parts: Parts | None = None) -> Resources:
    """Load everything, the quick things first, so that a wrong name is reported before a model is loaded.

    `parts` are those of the experiment, if they are loaded already. Raises the CoevoError that fits: those of `load_parts`,
    or ModelError.
    """
    parts = parts or load_parts(experiment)
    return Resources(load_model(experiment), parts.task_set, parts.graph, parts.skill)


def load_task_set(experiment: Experiment) -> TaskSet:
    """The task set that `tasks.set` names.

    Raises ConfigError: no such module or name, options it doesn't take, not a task set, or a split that the experiment
    needs is empty.
    """
    spec = experiment.tasks.set
    factory = load_object("tasks.set", experiment.find_target("tasks.set", spec))
    with explained(f"task set {spec!r}", ConfigError):
        try:
            task_set: TaskSet = factory(**experiment.task_options())
        except TypeError as error:
            raise ConfigError(
                f"task set {spec!r} refused [tasks.options]: {error}", hint=f"see the documentation of {spec}"
            ) from error
        if not callable(getattr(task_set, "tasks", None)) or not callable(getattr(task_set, "pool", None)):
            raise ConfigError(
                f"tasks.set = {spec!r} made a {type(task_set).__name__}, not a task set",
                hint="a task set has the methods tasks(split) and pool(size)",
            )
        for split in _splits(experiment):
            if not task_set.tasks(split):
                raise ConfigError(f"the task set has no {split} tasks", hint="see [tasks.options]")
    return task_set


def _splits(experiment: Experiment) -> tuple[str, ...]:
    """The splits a run takes tasks from."""
    gate = () if experiment.schedule.mode == "weights" else ("dev",)
    return tuple(dict.fromkeys(("train", *gate, experiment.evaluate.split)))


def load_agent(experiment: Experiment) -> Any:
    return load_graph(experiment.find_target("agent.graph", experiment.agent.graph))


def load_skill(experiment: Experiment) -> SkillDocument:
    return SkillDocument.load(experiment.find("agent.skill", experiment.agent.skill))


def load_model(experiment: Experiment) -> Engine:
    """The engine with its model. `model.engine` may name a factory of your own, called as `load_engine` is."""
    if experiment.search is not None and experiment.search.author == "chance":
        return NoModel()
    table = experiment.model
    options: dict[str, Any] = table.model_dump(exclude={"id", "engine"})
    if ":" in table.engine:
        factory = load_object("model.engine", experiment.find_target("model.engine", table.engine))
        with explained(f"model.engine = {table.engine!r}", EngineError):
            engine: Engine = factory(experiment.model_id, noise=experiment.noise_spec(), **options)
        if not callable(getattr(engine, "generate", None)):
            raise EngineError(
                f"model.engine = {table.engine!r} made a {type(engine).__name__}, not an engine",
                hint="an engine has the methods of coevo.engine.Engine",
            )
        return engine
    return load_engine(experiment.model_id, engine=table.engine, noise=experiment.noise_spec(), **options)


def content_of(experiment: Experiment) -> tuple[str, ...]:
    """The texts of agent file and seed skill, and of a search's problem file and starting heuristics: with the experiment
    they decide what a run computes."""
    agent = _text_of(experiment.find_target("agent.graph", experiment.agent.graph))
    texts = [agent, load_skill(experiment).render()]
    if experiment.search is not None:
        texts.append(_text_of(experiment.find_target("search.problem", experiment.search.problem)))
        texts += (
            _text_of(f"{experiment.find('search.start', name)}:")
            for name in experiment.search.start
            if name != "seed"
        )
    return tuple(texts)


def _text_of(target: str) -> str:
    """The source behind `path:name` if that is a file, else the target itself."""
    path = Path(target.rpartition(":")[0])
    if not path.is_file():
        return target
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="it must be text in UTF-8") from error


def provenance(experiment: Experiment) -> dict[str, Any]:
    """Where and with what a run is made; the engine's own description is added once it is loaded."""
    packages = ("coevo", "torch", "transformers", "langgraph", "langchain-core", "playwright")
    agent, *_ = content_of(experiment)
    return {
        "directory": str(experiment.directory),
        "origin": list(experiment.origin),
        "git": _git_commit(experiment.directory),
        "versions": {"python": platform.python_version()}
        | {name: version for name in packages if (version := _version(name))},
        "host": {"system": platform.platform(), "machine": platform.machine(), "cpus": os.cpu_count()},
        "agent_hash": hashlib.blake2b(agent.encode(), digest_size=16).hexdigest(),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git_commit(directory: Path) -> str | None:
    try:
        result = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None
