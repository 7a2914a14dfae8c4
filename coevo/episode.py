"""One episode's hold on its world: what an agent's graph acts through."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from coevo.env import Environment, Observation, ScoredAtEnd, Task, Transition
from coevo.errors import AgentError, WorldError
from coevo.store.recorder import EpisodeRecorder

_END_TIMEOUT_S = 5.0

T = TypeVar("T")


class EpisodeOver(AgentError):
    """The agent acted after the task was done or its turns were used up. It ends the episode; it is no failure."""


class EpisodeEnvironment:
    """One episode's view of its world: records steps, counts turns, keeps score, and stops what goes on too long.

    Attributes: `turns` actions taken, `done` by the world's word, `reward` so far, `success`, `goal` as the world words
    it, `observation` (latest), `error` of the last action, `category` the world gave the last action, `scorer` of the reward.
    """

    def __init__(
        self,
        environment: Environment,
        recorder: EpisodeRecorder,
        *,
        max_turns: int,
        screenshots: bool = False,
    ) -> None:
        self.max_turns = max_turns
        self.turns = 0
        self.done = False
        self.success = False
        self.reward = 0.0
        self.components: Mapping[str, float] = {}
        self.goal = ""
        self.observation = Observation("")
        self.error = ""
        self.category = ""
        self.scorer = ""
        self.failure: WorldError | None = None
        """How the world broke, if it did; the verdict rests on it even when the agent hides the exception."""
        self._environment = environment
        self._recorder = recorder
        self._screenshots = screenshots
        self._errors: list[str] = []
        self._ended = False
        self._from_threads: set[Future[Transition]] = set()
        # Tools of one message run side by side; the world takes one action at a time.
        self._lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    @property
    def over(self) -> bool:
        """Whether the episode is at its end: nothing more can be done. A graph ends when it sees this."""
        return self.done or self._ended or self.turns >= self.max_turns

    @property
    def only_errors(self) -> str:
        """The commonest category of error if every action so far was one, else ""."""
        if not self.turns or len(self._errors) < self.turns:
            return ""
        return max(sorted(set(self._errors)), key=self._errors.count)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Start the task; called by the runner, before the graph. Raises `WorldError`."""
        self.observation = await self._ask(self._environment.reset(task, seed=seed), "reset")
        self.goal = self.observation.goal or task.goal
        self._recorder.step(0, None, self.observation, screenshot=self._screenshots)
        return self.observation

    async def step(self, action: str) -> Transition:
        """Take one action. Raises `EpisodeOver` after the end, `WorldError` when the world breaks."""
        async with self._lock:
            if self.failure is not None:
                raise WorldError(self.failure.message, hint=self.failure.hint)
            if self.over:
                used = "the episode has ended" if self._ended else f"all {self.max_turns} turns are used"
                raise EpisodeOver(
                    f"no more actions: {'the task is done' if self.done else used}",
                    hint="end the graph when `env.over` is true",
                )
            transition = await self._ask(self._environment.step(action), "step")
            if not math.isfinite(transition.reward):
                raise self._broke(f"the reward of {action!r} is {transition.reward}")
            self.turns += 1
            self.observation = transition.observation
            self.done = transition.done
            self._keep_score(transition)
            self.error = str(transition.info.get("error") or transition.observation.error or "")
            self.category = str(transition.info.get("category") or ("action_failed" if self.error else ""))
            if self.error:
                self._errors.append(self.category)
            self._recorder.step(
                self.turns,
                action,
                transition.observation,
                performed=str(transition.info.get("performed") or ""),
                error=self.error,
                reward=self.reward,
                done=self.done,
                screenshot=self._screenshots,
            )
            return transition

    async def conclude(self) -> None:
        """Score an episode that the world has not ended, where the world can; called by the runner, after the graph."""
        if self.done or self.failure is not None or not isinstance(self._environment, ScoredAtEnd):
            return
        async with self._lock:
            self._ended = True
            transition = await self._ask(self._environment.finish(), "finish")
            if not math.isfinite(transition.reward):
                raise self._broke(f"the final reward is {transition.reward}")
            self._keep_score(transition)

    def _keep_score(self, transition: Transition) -> None:
        self.success = transition.success
        self.reward, self.components = float(transition.reward), transition.components
        self.scorer = str(transition.info.get("scorer") or self.scorer)

    def step_sync(self, action: str) -> Transition:
        """`step` for a plain `def` node or tool, which LangGraph runs on a thread of its own."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise AgentError(
                "step_sync was called on the event loop, which would wait for itself",
                hint="write `await env.step(action)` in async code",
            )
        future = asyncio.run_coroutine_threadsafe(self.step(action), self._loop)
        self._from_threads.add(future)
        try:
            return future.result()
        finally:
            self._from_threads.discard(future)

    async def end(self) -> None:
        """Take the world away from the agent, before someone else gets it; called by the runner.

        A graph that was stopped may have left a thread or a task behind that goes on acting.
        """
        self._ended = True
        for future in tuple(self._from_threads):
            future.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_S), self._lock:
                pass

    async def _ask(self, answer: Coroutine[Any, Any, T], what: str) -> T:
        try:
            return await answer
        except WorldError as error:
            self.failure = error
            raise
        except Exception as error:
            raise self._broke(f"{what} raised {type(error).__name__}: {error}") from error

    def _broke(self, message: str) -> WorldError:
        self.failure = WorldError(message, hint="this is a defect of the environment, not of the agent")
        return self.failure
