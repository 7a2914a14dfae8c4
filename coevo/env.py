"""Tasks, environments and outcomes: the contract between the loop and any world an agent acts in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class Outcome(StrEnum):
    """How an episode ended. `INVALID` means the world broke; it is retried and never scored as zero."""

    SUCCESS = "success"
    FAILURE = "failure"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Task:
    """One task: a stable id (unique in its task set), the goal in words, and data only its environment reads.

    `seed` fixes the instance (page layout, names, numbers). `group` names the kind of task for reports. `grammar` is what the
    policy's answers are held to on this task (llguidance's Lark dialect), unless the experiment has a `sampling.grammar`.
    """

    id: str
    goal: str
    seed: int = 0
    group: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    grammar: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent sees. `goal` may refine the task's goal once the instance exists (MiniWoB does)."""

    text: str
    goal: str = ""
    url: str = ""
    title: str = ""
    error: str = ""
    screenshot_png: bytes | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """Result of one action. `reward` is the score so far in [0, 1] unless the task says otherwise.

    `components` splits the reward into named parts (they are stored; the loop uses `reward`).
    `info["error"]` is set when the action could not be parsed or failed: the agent sees it as text. `info["performed"]`
    is what the environment did, in the plainest form of an action: what a distiller shows as an example.
    `info["scorer"]` names who gave the reward, with its version, where there is more than one.
    """

    observation: Observation
    reward: float
    done: bool
    success: bool = False
    components: Mapping[str, float] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Environment(Protocol):
    """One world, used by one episode at a time. Raises `WorldError` when the world itself breaks."""

    async def reset(self, task: Task, *, seed: int) -> Observation: ...

    async def step(self, action: str) -> Transition: ...

    async def close(self) -> None: ...


@runtime_checkable
class ScoredAtEnd(Environment, Protocol):
    """An environment that also scores an episode its agent did not end: turns used up, or the graph stopped acting."""

    async def finish(self) -> Transition:
        """The score of the world as it stands. Called at most once, after the last `step` and before `close`."""
        ...


class EnvironmentPool(Protocol):
    """Hands out environments; at most `size` are in use at once."""

    size: int

    async def acquire(self, task: Task) -> Environment: ...

    async def release(self, environment: Environment) -> None: ...

    async def close(self) -> None: ...


class TaskSet(Protocol):
    """A named collection of tasks with disjoint splits and a way to make the world they live in."""

    name: str

    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of `train`, `dev` or `test`, in a fixed order. Splits share no instance."""
        ...

    def pool(self, size: int) -> EnvironmentPool: ...
