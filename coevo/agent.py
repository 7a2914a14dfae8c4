"""Running an agent: what a graph is given, and one episode from start to verdict."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_type_hints

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from coevo.chat import CallLimit, PolicyChatModel
from coevo.engine.base import Completion, Perturbation, Request, Sampling
from coevo.env import Environment, EnvironmentPool, Observation, Outcome, Task
from coevo.episode import EpisodeEnvironment, EpisodeOver
from coevo.errors import AgentError, StoreError, WorldError
from coevo.graphs import load_graph
from coevo.seeds import derive_seed
from coevo.store.recorder import EpisodeRecorder

if TYPE_CHECKING:
    from coevo.store import Store

__all__ = [
    "AgentContext",
    "EpisodeEnvironment",
    "EpisodeOver",
    "EpisodeResult",
    "EpisodeSpec",
    "load_graph",
    "run_episode",
]

_log = logging.getLogger(__name__)

# An agent may think between actions, but not for ever: calls and graph steps allowed a turn, and to begin with.
_CALLS_PER_TURN, _CALLS_BEFORE = 4, 16
_GRAPH_STEPS_PER_TURN, _GRAPH_STEPS_BEFORE = 20, 100


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What every graph finds in `runtime.context`; name it as the graph's `context_schema`.

    `policy` is the model that evolves, `env` the world (`await env.step(action)`), `observation` what the agent sees
    first, `skill` the body of the skill document ("" if there is none), `max_turns` the actions it may take.
    """

    policy: BaseChatModel
    env: EpisodeEnvironment
    task: Task
    observation: Observation
    skill: str
    max_turns: int

    @property
    def goal(self) -> str:
        """The goal in words, as refined by the world."""
        return self.observation.goal or self.task.goal


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """What defines an episode. Two specs that agree have the same id, the same world and the same sampling."""

    run: str
    phase: str
    generation: int | None
    member: int | None
    arm: str | None
    task: Task
    seed: int
    perturbation: Perturbation | None
    skill_version: str | None
    attempt: int = 0

    @property
    def id(self) -> str:
        """16 hexadecimal digits, the same on every machine: short, because every step and call repeats it."""
        noise = (self.perturbation.seed, self.perturbation.sigma) if self.perturbation else None
        parts = (
            *(self.run, self.phase, self.generation, self.member, self.arm or "", self.task.id, self.seed),
            *(noise, self.skill_version, self.attempt),
        )
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """How an episode went. `reward` is None when invalid; `category` is "" on success."""

    spec: EpisodeSpec
    outcome: Outcome
    reward: float | None
    components: Mapping[str, float] = field(default_factory=dict)
    scorer: str = ""
    category: str = ""
    error: str = ""
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Verdict:
    outcome: Outcome
    category: str = ""
    error: str = ""


async def run_episode(
    spec: EpisodeSpec,
    *,
    graph: Any,
    generate: Callable[[Request], Awaitable[Completion]],
    pool: EnvironmentPool,
    sampling: Sampling,
    skill_text: str,
    max_turns: int,
    deadline_s: float | None,
    store: Store,
    screenshots: bool = False,
) -> EpisodeResult:
    """Run one episode and store it. `skill_text` is what the agent reads; `graph` comes from `load_graph`.

    Categories of failure: `agent_error` (the graph raised), `turn_limit` (turns, model calls or graph steps used up),
    `gave_up` (the graph ended first), `wrong_action` (the world ended the task without success), `parse_error` or
    `action_failed` (no action ever worked, or the last one did not and the agent left it at that), or what the world
    put into `info["category"]` of the last step. Invalid, never scored: `world_error`, `engine_error`, `deadline`.

    A task that the world has called done keeps its result whatever the graph does next. Time spent waiting for a free
    environment does not count towards `deadline_s`. The environment is always released, also on cancellation, when the
    row is left `interrupted`. Raises nothing but `CancelledError` and `StoreError`; when it returns, the rows are
    committed.
    """
    recorder = EpisodeRecorder(store, spec.id)
    recorder.start(_start_row(spec))
    try:
        result, goal = await _attempt(
            spec, graph, generate, pool, sampling, skill_text, max_turns, deadline_s, recorder, screenshots
        )
    except asyncio.CancelledError:
        _leave_interrupted(recorder)
        raise
    recorder.finish(_finish_row(result, goal))
    await store.flush()
    return result


async def _attempt(
    spec: EpisodeSpec,
    graph: Any,
    generate: Callable[[Request], Awaitable[Completion]],
    pool: EnvironmentPool,
    sampling: Sampling,
    skill_text: str,
    max_turns: int,
    deadline_s: float | None,
    recorder: EpisodeRecorder,
    screenshots: bool,
) -> tuple[EpisodeResult, str]:
    """The result, and the goal as the world worded it ("" if it came to none)."""
    started = time.monotonic()
    try:
        environment = await _acquire(pool, spec.task)
    except WorldError as error:
        verdict = _Verdict(Outcome.INVALID, "world_error", str(error))
        return _result(spec, verdict, None, recorder, started), ""
    try:
        started = time.monotonic()
        world = EpisodeEnvironment(environment, recorder, max_turns=max_turns, screenshots=screenshots)
        policy = PolicyChatModel(
            complete=generate,
            sampling=_sampling_of(spec, sampling),
            perturbation=spec.perturbation,
            recorder=recorder,
            max_calls=_CALLS_BEFORE + _CALLS_PER_TURN * max_turns,
        )
        policy.bind_loop(asyncio.get_running_loop())
        try:
            raised = await _act(graph, spec, world, policy, recorder, skill_text, deadline_s)
        finally:
            policy.max_calls = 0
            await _to_the_end(world.end())
        if recorder.failure is not None:
            raise recorder.failure
        return _result(spec, _judge(world, policy, raised), world, recorder, started), world.goal
    finally:
        await _to_the_end(_release(pool, environment))


async def _act(
    graph: Any,
    spec: EpisodeSpec,
    world: EpisodeEnvironment,
    policy: PolicyChatModel,
    recorder: EpisodeRecorder,
    skill_text: str,
    deadline_s: float | None,
) -> Exception | None:
    """Reset the world and run the graph. What was raised is returned; `TimeoutError` of ours as `_DeadlineError`."""
    try:
        async with asyncio.timeout(deadline_s) as limit:
            observation = await world.reset(spec.task, seed=spec.seed)
            context = AgentContext(policy, world, spec.task, observation, skill_text, world.max_turns)
            config = {
                "callbacks": [recorder],
                "recursion_limit": _GRAPH_STEPS_BEFORE + _GRAPH_STEPS_PER_TURN * world.max_turns,
                "configurable": {"thread_id": spec.id},
            }
            raised: Exception | None = None
            try:
                await graph.ainvoke(_graph_input(graph, context), config, context=context)
            except Exception as error:
                raised = error
            if policy.failure is None and not isinstance(raised, StoreError):
                await world.conclude()
            return raised
    except TimeoutError as error:
        return _DeadlineError(f"not finished after {deadline_s:g} s") if limit.expired() else error
    except Exception as error:
        return error


class _DeadlineError(Exception):
    pass


def _judge(world: EpisodeEnvironment, policy: PolicyChatModel, raised: Exception | None) -> _Verdict:
    from langgraph.errors import GraphRecursionError

    if isinstance(raised, StoreError):
        raise raised
    if world.failure is not None:
        return _Verdict(Outcome.INVALID, "world_error", str(world.failure))
    if world.success:
        return _Verdict(Outcome.SUCCESS)
    if world.done:
        return _Verdict(Outcome.FAILURE, world.category or "wrong_action", world.error)
    if policy.failure is not None:
        return _Verdict(Outcome.INVALID, "engine_error", f"{type(policy.failure).__name__}: {policy.failure}")
    if isinstance(raised, _DeadlineError):
        return _Verdict(Outcome.INVALID, "deadline", str(raised))
    if isinstance(raised, GraphRecursionError):
        return _Verdict(Outcome.FAILURE, "turn_limit", "the graph went round without end and was stopped")
    if isinstance(raised, CallLimit):
        return _Verdict(Outcome.FAILURE, "turn_limit", raised.message)
    if raised is not None and not isinstance(raised, EpisodeOver):
        return _Verdict(Outcome.FAILURE, "agent_error", f"{type(raised).__name__}: {raised}")
    if world.turns >= world.max_turns:
        return _Verdict(Outcome.FAILURE, world.only_errors or "turn_limit", world.error)
    return _Verdict(Outcome.FAILURE, world.category or "gave_up", world.error)


def _graph_input(graph: Any, context: AgentContext) -> dict[str, Any]:
    """What the graph's input schema takes of: messages, task, goal, observation, skill.

    Raises `AgentError` when it takes none of them.
    """
    offered: dict[str, Any] = {
        "messages": [HumanMessage(f"{context.observation.text}\n\nTask: {context.goal}")],
        "task": context.goal,
        "goal": context.goal,
        "observation": context.observation.text,
        "skill": context.skill,
    }
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    names = get_type_hints(schema).keys() if schema is not None else ()
    if not names:
        # A state that is not a record of fields (the functional API, a bare list) gets everything.
        return offered
    chosen = {name: value for name, value in offered.items() if name in names}
    if not chosen:
        raise AgentError(
            f"the graph's input has {', '.join(sorted(names))}, and nothing an episode can fill",
            hint=f"give its state one of: {', '.join(offered)}",
        )
    return chosen


def _sampling_of(spec: EpisodeSpec, sampling: Sampling) -> Sampling:
    """Members that face the same task with the same seed also share the luck of sampling, and so does a retry."""
    seed = derive_seed(spec.seed, "sampling", sampling.seed, spec.task.id)
    return replace(sampling, seed=seed, grammar=sampling.grammar or spec.task.grammar)


def _start_row(spec: EpisodeSpec) -> dict[str, Any]:
    return {
        "run": spec.run,
        "phase": spec.phase,
        "generation": spec.generation,
        "member": spec.member,
        "arm": spec.arm or None,
        "task": spec.task.id,
        "task_group": spec.task.group or None,
        "goal": spec.task.goal,
        "seed": spec.seed,
        "attempt": spec.attempt,
        "skill_version": spec.skill_version,
        "perturbation_seed": spec.perturbation.seed if spec.perturbation else None,
        "perturbation_sigma": spec.perturbation.sigma if spec.perturbation else None,
    }


def _result(
    spec: EpisodeSpec,
    verdict: _Verdict,
    world: EpisodeEnvironment | None,
    recorder: EpisodeRecorder,
    started: float,
) -> EpisodeResult:
    return EpisodeResult(
        spec=spec,
        outcome=verdict.outcome,
        reward=None if verdict.outcome is Outcome.INVALID or world is None else world.reward,
        components=dict(world.components) if world else {},
        scorer=world.scorer if world else "",
        category=verdict.category,
        error=verdict.error,
        turns=world.turns if world else 0,
        prompt_tokens=recorder.prompt_tokens,
        completion_tokens=recorder.completion_tokens,
        seconds=time.monotonic() - started,
    )


def _finish_row(result: EpisodeResult, goal: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "status": "finished",
        "outcome": result.outcome,
        "reward": result.reward,
        "components": dict(result.components) or None,
        "scorer": result.scorer or None,
        "category": result.category or None,
        "error": result.error or None,
        "turns": result.turns,
        "seconds": round(result.seconds, 4),
    }
    return row | {"goal": goal} if goal else row


def _leave_interrupted(recorder: EpisodeRecorder) -> None:
    try:
        recorder.finish({"status": "interrupted", "category": "interrupted"})
    except (
        StoreError
    ) as error:  # the cancellation that is under way matters more, and the store will say it again
        _log.warning("could not mark an episode as interrupted: %s", error)


async def _acquire(pool: EnvironmentPool, task: Task) -> Environment:
    try:
        return await pool.acquire(task)
    except WorldError:
        raise
    except Exception as error:
        raise WorldError(f"no environment could be had: {type(error).__name__}: {error}") from error


async def _release(pool: EnvironmentPool, environment: Environment) -> None:
    try:
        await pool.release(environment)
    except Exception:
        _log.exception("the environment pool failed to take an environment back")


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await `work` to its end even if this task is cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
