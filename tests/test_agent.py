"""One episode: what the agent is given, how it is judged, and that nothing leaks whatever happens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from coevo.agent import AgentContext, EpisodeResult, EpisodeSpec, run_episode
from coevo.engine.base import Perturbation, Sampling
from coevo.env import Environment, Observation, Outcome, Task, Transition
from coevo.errors import EngineError, StoreError, WorldError
from coevo.store import Store, queries
from coevo.testing import FakeEngine, ToyEnvironment, ToyPool, ToyTaskSet, toy_graph

TASK = ToyTaskSet(rounds=2).tasks("train")[0]
RIGHT = f"press '{TASK.data['target']}'"
SPEC = EpisodeSpec("run1", "rollout", 2, 5, None, TASK, 11, Perturbation(7, 0.1), "v1")


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "coevo.sqlite") as store:
        yield store


class Harness:
    """Runs episodes with everything at hand; checks afterwards that the environment was given back."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pool: Any = ToyPool(1)
        self.engine = FakeEngine([RIGHT] * 50)

    async def run(self, graph: Any, spec: EpisodeSpec = SPEC, **options: Any) -> EpisodeResult:
        settings: dict[str, Any] = {
            "generate": self.engine.complete,
            "pool": self.pool,
            "sampling": Sampling(max_tokens=30, seed=1),
            "skill_text": "Press the button.",
            "max_turns": 4,
            "deadline_s": 20.0,
            "store": self.store,
        }
        result = await run_episode(spec, graph=graph, **settings | options)
        assert self.pool.in_use == 0
        return result

    def row(self, spec: EpisodeSpec = SPEC) -> dict[str, Any]:
        return queries.episode(self.store, spec.id)


@pytest.fixture
async def harness(store: Store) -> Harness:
    return Harness(store)


class State(TypedDict, total=False):
    goal: str
    observation: str
    count: int


Node = Callable[[State, Runtime[AgentContext]], Any]


def one_node(work: Node, *, again: bool = False) -> Any:
    """A graph of one node, which is left after once, or never."""
    graph = StateGraph(State, context_schema=AgentContext)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_edge("work", "work" if again else END)
    return graph.compile()


async def press(state: State, runtime: Runtime[AgentContext]) -> State:
    answer = await runtime.context.policy.ainvoke([HumanMessage(state["observation"])])
    await runtime.context.env.step(answer.text)
    return {"count": state.get("count", 0) + 1}


async def test_a_success_is_returned_and_stored(harness: Harness):
    result = await harness.run(toy_graph())
    assert (result.outcome, result.reward, result.category, result.turns) == (Outcome.SUCCESS, 1.0, "", 2)
    assert result.components == {"pages": 1.0}
    row = harness.row()
    expected = {
        "id": SPEC.id,
        "run": "run1",
        "phase": "rollout",
        "generation": 2,
        "member": 5,
        "arm": None,
        "task": TASK.id,
        "task_group": "colours",
        "goal": TASK.goal,
        "seed": 11,
        "attempt": 0,
        "skill_version": "v1",
        "weights_step": 0,
        "perturbation_seed": 7,
        "perturbation_sigma": 0.1,
        "status": "finished",
        "outcome": "success",
        "reward": 1.0,
        "components": {"pages": 1.0},
        "category": None,
        "error": None,
        "turns": 2,
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
    }
    assert row | expected == row
    assert [(step["ord"], step["action"], step["reward"]) for step in row["steps"]] == [
        (0, None, None),
        (1, RIGHT, 0.5),
        (2, RIGHT, 1.0),
    ]
    assert [(call["node"], call["path"], call["perturbation_seed"]) for call in row["calls"]] == [
        ("decide", "decide", 7)
    ] * 2
    assert queries.conversation(harness.store, f"{SPEC.id}.0")[0] == {
        "role": "system",
        "content": "Press the button.",
    }


def test_an_id_is_the_same_for_the_same_plan_and_differs_with_every_part_of_it():
    others = [
        replace(SPEC, **change)
        for change in (
            {"run": "run2"},
            {"phase": "gate"},
            {"generation": 3},
            {"member": None},
            {"arm": "base"},
            {"task": replace(TASK, id="other")},
            {"seed": 12},
            {"perturbation": Perturbation(7, -0.1)},
            {"perturbation": None},
            {"skill_version": "v2"},
            {"attempt": 1},
        )
    ]
    assert replace(SPEC).id == SPEC.id
    assert len({SPEC.id, *(other.id for other in others)}) == len(others) + 1


async def test_the_same_spec_gives_the_same_text_and_members_share_the_luck(harness: Harness):
    harness.engine = FakeEngine()
    for spec in (
        SPEC,
        replace(SPEC, attempt=1),
        replace(SPEC, member=6, perturbation=None),
        replace(SPEC, seed=12),
    ):
        await harness.run(toy_graph(), spec, max_turns=1)
    seeds = [request.sampling.seed for request in harness.engine.requests]
    assert seeds[0] == seeds[1] == seeds[2] != seeds[3]


async def wander(state: State, runtime: Runtime[AgentContext]) -> None:
    await runtime.context.env.step("press 'nothing'")


async def mumble(state: State, runtime: Runtime[AgentContext]) -> None:
    await runtime.context.env.step("hm")


async def mumble_then_wander(state: State, runtime: Runtime[AgentContext]) -> None:
    env = runtime.context.env
    await env.step("hm")
    await env.step(RIGHT)
    while True:
        await env.step("hm")


async def think(state: State, runtime: Runtime[AgentContext]) -> None:
    await runtime.context.policy.ainvoke("what now?")


async def spin(state: State, runtime: Runtime[AgentContext]) -> State:
    return {"count": 1}


async def do_nothing(state: State, runtime: Runtime[AgentContext]) -> None:
    return None


async def wrong(state: State, runtime: Runtime[AgentContext]) -> None:
    names = [line.split("'")[1] for line in runtime.context.observation.text.splitlines()]
    await runtime.context.env.step(f"press '{next(name for name in names if name not in RIGHT)}'")


async def fail(state: State, runtime: Runtime[AgentContext]) -> None:
    await runtime.context.env.step(RIGHT)
    raise KeyError("where is it")


@pytest.mark.parametrize(
    ("node", "again", "category", "turns", "reward", "error"),
    [
        (mumble_then_wander, False, "turn_limit", 4, 0.5, "cannot read this action"),
        (mumble, True, "parse_error", 4, 0.0, "cannot read this action; write press 'NAME'"),
        (wander, True, "action_failed", 4, 0.0, "there is no button 'nothing'"),
        (mumble, False, "parse_error", 1, 0.0, "cannot read this action"),
        (think, True, "turn_limit", 0, 0.0, "the agent asked the model 32 times in one episode"),
        (spin, True, "turn_limit", 0, 0.0, "the graph went round without end"),
        (do_nothing, False, "gave_up", 0, 0.0, ""),
        (wrong, False, "wrong_action", 1, 0.0, ""),
        (fail, False, "agent_error", 1, 0.5, "KeyError: 'where is it'"),
    ],
)
async def test_failures_have_a_category(
    harness: Harness, node: Node, again: bool, category: str, turns: int, reward: float, error: str
):
    result = await harness.run(one_node(node, again=again))
    assert (result.outcome, result.category, result.turns, result.reward) == (
        Outcome.FAILURE,
        category,
        turns,
        reward,
    )
    assert error in result.error
    row = harness.row()
    assert (row["outcome"], row["category"], row["error"] or "") == ("failure", category, result.error)


async def test_an_agent_that_waits_for_ever_meets_the_deadline(harness: Harness):
    async def wait(state: State, runtime: Runtime[AgentContext]) -> None:
        await asyncio.sleep(3600)

    started = time.monotonic()
    result = await harness.run(one_node(wait), deadline_s=0.1)
    assert time.monotonic() - started < 5
    assert (result.outcome, result.category, result.reward) == (Outcome.INVALID, "deadline", None)
    assert result.error == "not finished after 0.1 s"


async def test_the_agent_s_own_timeout_is_its_own_failure(harness: Harness):
    async def impatient(state: State, runtime: Runtime[AgentContext]) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)

    result = await harness.run(one_node(impatient))
    assert (result.outcome, result.category) == (Outcome.FAILURE, "agent_error")


async def test_waiting_for_an_environment_does_not_count(harness: Harness):
    async def slow(state: State, runtime: Runtime[AgentContext]) -> None:
        await asyncio.sleep(0.2)

    graph = one_node(slow)
    results = await asyncio.gather(
        *(
            run_episode(
                replace(SPEC, member=member),
                graph=graph,
                generate=harness.engine.complete,
                pool=harness.pool,
                sampling=Sampling(),
                skill_text="",
                max_turns=1,
                deadline_s=0.5,
                store=harness.store,
            )
            for member in range(4)
        )
    )
    assert [result.category for result in results] == ["gave_up"] * 4


async def stubborn(state: State, runtime: Runtime[AgentContext]) -> None:
    for _ in range(10):
        try:
            await runtime.context.env.step(RIGHT)
        except Exception:  # the kind of agent that hides everything
            continue


async def test_the_result_stands_whatever_the_agent_does_afterwards(harness: Harness):
    async def win_then_fail(state: State, runtime: Runtime[AgentContext]) -> None:
        await runtime.context.env.step(RIGHT)
        await runtime.context.env.step(RIGHT)
        raise RuntimeError("too late")

    for node, again in ((stubborn, False), (press, True), (win_then_fail, False)):
        result = await harness.run(one_node(node, again=again))
        assert (result.outcome, result.turns) == (Outcome.SUCCESS, 2)


def broken_world(turn_that_breaks: int, error: Exception) -> ToyPool:
    def fault(task: Task, turn: int) -> None:
        if turn == turn_that_breaks:
            raise error

    return ToyPool(1, fault=fault)


@pytest.mark.parametrize("node", [press, stubborn])
@pytest.mark.parametrize("turn", [0, 1])
async def test_a_broken_world_makes_the_episode_invalid_even_if_the_agent_hides_it(
    harness: Harness, node: Node, turn: int
):
    harness.pool = broken_world(turn, WorldError("the browser died"))
    result = await harness.run(one_node(node, again=node is press))
    assert (result.outcome, result.category, result.reward) == (Outcome.INVALID, "world_error", None)
    assert "the browser died" in result.error
    row = harness.row()
    assert (row["status"], row["outcome"], row["reward"]) == ("finished", "invalid", None)


async def test_a_defect_of_the_environment_is_not_the_agent_s_fault(harness: Harness):
    harness.pool = broken_world(1, ZeroDivisionError("oops"))
    result = await harness.run(one_node(press))
    assert result.outcome is Outcome.INVALID
    assert "step raised ZeroDivisionError: oops" in result.error


async def test_a_pool_that_has_nothing_to_give_makes_the_episode_invalid(harness: Harness):
    class EmptyPool(ToyPool):
        async def acquire(self, task: Task) -> Environment:
            raise OSError("no browser")

    harness.pool = EmptyPool(1)
    result = await harness.run(one_node(press))
    assert (result.outcome, result.category) == (Outcome.INVALID, "world_error")
    assert "OSError: no browser" in result.error


async def test_a_reward_that_is_no_number_is_invalid_not_zero(harness: Harness):
    class Judge(ToyEnvironment):
        async def step(self, action: str) -> Transition:
            return replace(await super().step(action), reward=float("nan"))

    class Pool(ToyPool):
        async def acquire(self, task: Task) -> Environment:
            await super().acquire(task)
            return Judge()

    harness.pool = Pool(1)
    result = await harness.run(one_node(press))
    assert (result.outcome, result.category) == (Outcome.INVALID, "world_error")
    assert "is nan" in result.error


async def test_a_failing_engine_is_not_the_agent_s_fault_even_if_the_agent_hides_it(harness: Harness):
    async def hide(state: State, runtime: Runtime[AgentContext]) -> None:
        try:
            await runtime.context.policy.ainvoke("hi")
        except EngineError:
            await runtime.context.env.step("hm")

    harness.engine = FakeEngine([])
    result = await harness.run(one_node(hide))
    assert (result.outcome, result.category) == (Outcome.INVALID, "engine_error")
    assert harness.row()["calls"][0]["error"].startswith("EngineError: the scripted answers are used up")


async def test_cancelling_releases_the_environment_and_marks_the_episode(harness: Harness):
    acting = asyncio.Event()

    async def act_slowly(state: State, runtime: Runtime[AgentContext]) -> None:
        await runtime.context.env.step(RIGHT)
        acting.set()
        await asyncio.sleep(3600)

    class SlowPool(ToyPool):
        async def release(self, environment: Environment) -> None:
            await asyncio.sleep(0.05)
            await super().release(environment)

    harness.pool = SlowPool(1)
    task = asyncio.create_task(harness.run(one_node(act_slowly)))
    await acting.wait()
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()  # an impatient second Ctrl-C, while the environment is being released
    with pytest.raises(asyncio.CancelledError):
        await task
    assert harness.pool.in_use == 0
    await harness.store.flush()
    row = harness.row()
    assert (row["status"], row["outcome"], row["category"], len(row["steps"])) == (
        "interrupted",
        None,
        "interrupted",
        2,
    )
    assert queries.finished_ids(harness.store, [SPEC.id]) == set()

    result = await harness.run(toy_graph())  # the same episode again
    assert result.outcome is Outcome.SUCCESS
    assert [step["ord"] for step in harness.row()["steps"]] == [0, 1, 2]


async def test_a_thread_the_agent_left_behind_cannot_act_in_someone_else_s_episode(harness: Harness):
    left: list[str] = []
    go, done = threading.Event(), threading.Event()

    def work(state: State, runtime: Runtime[AgentContext]) -> None:
        go.wait(10)
        for attempt in (
            lambda: runtime.context.env.step_sync(RIGHT),
            lambda: runtime.context.policy.invoke("hi"),
        ):
            try:
                attempt()
                left.append("acted")
            except Exception as error:
                left.append(type(error).__name__)
        done.set()

    result = await harness.run(one_node(work), deadline_s=0.1)
    assert (result.outcome, result.category, result.turns) == (Outcome.INVALID, "deadline", 0)
    go.set()
    await asyncio.to_thread(done.wait, 10)
    assert left == ["EpisodeOver", "CallLimit"]
    await harness.store.flush()
    assert len(harness.row()["steps"]) == 1


async def test_plain_functions_as_nodes_work_too(harness: Harness):
    def work(state: State, runtime: Runtime[AgentContext]) -> None:
        while not runtime.context.env.over:
            answer = runtime.context.policy.invoke([HumanMessage("which?")])
            runtime.context.env.step_sync(str(answer.text))

    result = await harness.run(one_node(work))
    assert (result.outcome, result.turns) == (Outcome.SUCCESS, 2)


async def test_a_full_disk_is_raised_not_recorded_as_a_failure(tmp_path: Path):
    small = Store.open(tmp_path / "small.sqlite", max_size_bytes=150_000)
    harness = Harness(small)

    class Wordy(ToyEnvironment):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return replace(await super().reset(task, seed=seed), text="x" * 300_000)

    class Pool(ToyPool):
        async def acquire(self, task: Task) -> Environment:
            await super().acquire(task)
            return Wordy()

    harness.pool = Pool(1)
    with pytest.raises(StoreError, match="disk is full"):
        await harness.run(one_node(stubborn))
    assert harness.pool.in_use == 0
    small.close()
    with Store.open(tmp_path / "small.sqlite") as again:
        assert again.query("SELECT status FROM episodes WHERE status = 'finished'") == []


async def test_screenshots_are_stored_when_wanted(harness: Harness):
    class Seen(ToyEnvironment):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return replace(await super().reset(task, seed=seed), screenshot_png=b"\x89PNG")

    class Pool(ToyPool):
        async def acquire(self, task: Task) -> Environment:
            await super().acquire(task)
            return Seen()

    harness.pool = Pool(1)
    for wanted in (False, True):
        await harness.run(toy_graph(), screenshots=wanted)
        blobs = harness.store.query("SELECT b.data FROM steps s JOIN blobs b ON b.hash = s.screenshot")
        assert [blob["data"] for blob in blobs] == ([b"\x89PNG"] if wanted else [])


async def test_a_user_s_own_graph_with_a_subgraph_runs_unchanged_and_is_placed(harness: Harness):
    """An ordinary chat graph: messages in, a subgraph that plans, a node that acts."""

    async def plan(state: MessagesState, runtime: Runtime[AgentContext]) -> dict[str, Sequence[AnyMessage]]:
        return {"messages": [await runtime.context.policy.ainvoke(state["messages"])]}

    planner = StateGraph(MessagesState, context_schema=AgentContext)
    planner.add_node("draft", plan)
    planner.add_edge(START, "draft")

    async def act(state: MessagesState, runtime: Runtime[AgentContext]) -> dict[str, Sequence[AnyMessage]]:
        seen = (await runtime.context.env.step(str(state["messages"][-1].text))).observation
        return {"messages": [HumanMessage(seen.text)]}

    def more(state: MessagesState, runtime: Runtime[AgentContext]) -> str:
        return END if runtime.context.env.over else "planner"

    graph = StateGraph(MessagesState, context_schema=AgentContext)
    graph.add_node("planner", planner.compile())
    graph.add_node("act", act)
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "act")
    graph.add_conditional_edges("act", more, ["planner", END])

    result = await harness.run(graph.compile())
    assert result.outcome is Outcome.SUCCESS
    row = harness.row()
    assert [(call["node"], call["path"]) for call in row["calls"]] == [("draft", "planner/draft")] * 2
    page = row["steps"][0]["observation"]
    assert queries.conversation(harness.store, f"{SPEC.id}.0") == [
        {"role": "user", "content": f"{page}\n\nTask: {TASK.goal}"},
        {"role": "assistant", "content": RIGHT},
    ]
    assert [message["role"] for message in queries.conversation(harness.store, f"{SPEC.id}.1")] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]


@tool
async def press_button(name: str, runtime: ToolRuntime[AgentContext]) -> str:
    """Press the button with this name."""
    seen = (await runtime.context.env.step(f"press '{name}'")).observation
    return seen.error or seen.text


@tool
def think_hard(about: str) -> str:
    """Think."""
    raise ValueError(f"cannot think about {about}")


def call(tool_name: str, **arguments: str) -> str:
    import json

    return f"<tool_call>{json.dumps({'name': tool_name, 'arguments': arguments})}</tool_call>"


async def test_a_graph_from_create_agent_with_tools_runs_unchanged(harness: Harness):
    from langchain.agents import create_agent

    from coevo.middleware import CoevoMiddleware, PolicyFromContext

    agent = create_agent(
        PolicyFromContext(),
        tools=[press_button],
        system_prompt="You press buttons.",
        context_schema=AgentContext,
        middleware=[CoevoMiddleware()],
    )
    target = TASK.data["target"]
    harness.engine = FakeEngine([call("press_button", name="nothing"), call("press_button", name=target)] * 2)
    result = await harness.run(agent)
    # Wrong name, right name, wrong name, right name: done, and no fifth call once the episode is over.
    assert (result.outcome, result.turns, len(harness.engine.requests)) == (Outcome.SUCCESS, 4, 4)

    first = harness.engine.requests[0]
    assert first.messages[0] == {"role": "system", "content": "You press buttons.\n\nPress the button."}
    assert [offered["function"]["name"] for offered in first.tools] == ["press_button"]
    assert "runtime" not in first.tools[0]["function"]["parameters"]["properties"]
    row = harness.row()
    assert [(c["node"], c["ord"]) for c in row["calls"]] == [
        ("model", 0),
        ("model", 1),
        ("model", 2),
        ("model", 3),
    ]
    assert [(t["tool"], t["node"], t["after_call"], t["arguments"]) for t in row["tool_calls"]][:2] == [
        ("press_button", "tools", 0, '{"name": "nothing"}'),
        ("press_button", "tools", 1, f'{{"name": "{target}"}}'),
    ]
    assert row["tool_calls"][0]["output_text"] == "there is no button 'nothing'"
    assert row["tool_calls"][1]["output_text"] == row["steps"][2]["observation"]


async def test_a_tool_that_raises_is_recorded(harness: Harness):
    from langchain.agents import create_agent

    from coevo.middleware import CoevoMiddleware, PolicyFromContext

    agent = create_agent(
        PolicyFromContext(), tools=[think_hard], context_schema=AgentContext, middleware=[CoevoMiddleware()]
    )
    harness.engine = FakeEngine([call("think_hard", about="it")])
    result = await harness.run(agent)
    assert (result.outcome, result.category) == (Outcome.FAILURE, "agent_error")
    assert "ValueError: cannot think about it" in result.error
    assert harness.row()["tool_calls"][0]["error"] == "ValueError: cannot think about it"


async def test_create_agent_without_the_middleware_says_what_is_missing(harness: Harness):
    from langchain.agents import create_agent

    from coevo.middleware import PolicyFromContext

    result = await harness.run(create_agent(PolicyFromContext(), context_schema=AgentContext))
    assert result.category == "agent_error"
    assert "add middleware=[CoevoMiddleware()]" in result.error


async def test_the_middleware_leaves_an_agent_outside_of_episodes_alone():
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel

    from coevo.middleware import CoevoMiddleware

    own = GenericFakeChatModel(messages=iter([AIMessage("on my own")]))
    answer = await create_agent(own, middleware=[CoevoMiddleware()]).ainvoke(
        {"messages": [HumanMessage("hi")]}
    )
    assert answer["messages"][-1].content == "on my own"


async def test_tools_called_side_by_side_act_one_after_the_other(harness: Harness):
    from langchain.agents import create_agent

    from coevo.middleware import CoevoMiddleware, PolicyFromContext

    agent = create_agent(
        PolicyFromContext(), tools=[press_button], context_schema=AgentContext, middleware=[CoevoMiddleware()]
    )

    class OneAtATime(ToyEnvironment):
        busy = False

        async def step(self, action: str) -> Transition:
            assert not self.busy
            self.busy = True
            await asyncio.sleep(0.01)
            self.busy = False
            return await super().step(action)

    class Pool(ToyPool):
        async def acquire(self, task: Task) -> Environment:
            await super().acquire(task)
            return OneAtATime()

    harness.pool = Pool(1)
    target = TASK.data["target"]
    harness.engine = FakeEngine([call("press_button", name=target) * 2])
    result = await harness.run(agent)
    assert (result.outcome, result.turns) == (Outcome.SUCCESS, 2)
    assert [step["ord"] for step in harness.row()["steps"]] == [0, 1, 2]


async def test_a_graph_whose_input_an_episode_cannot_fill_is_explained(harness: Harness):
    class Odd(TypedDict):
        invoice: str

    graph = StateGraph(Odd, context_schema=AgentContext)
    graph.add_node("work", lambda state: state)
    graph.add_edge(START, "work")
    result = await harness.run(graph.compile())
    assert result.category == "agent_error"
    assert "the graph's input has invoice, and nothing an episode can fill" in result.error
    assert "messages, task, goal, observation, skill" in result.error


async def test_episodes_wait_for_the_model_together(harness: Harness):
    """20 episodes of 2 calls of 0.2 s each take far less than 20 × 2 × 0.2 s."""
    harness.engine = FakeEngine([RIGHT] * 40, delay_s=0.2)
    pool = ToyPool(20)
    graph = toy_graph()

    started = time.monotonic()
    results = await asyncio.gather(
        *(
            run_episode(
                replace(SPEC, member=member),
                graph=graph,
                generate=harness.engine.complete,
                pool=pool,
                sampling=Sampling(),
                skill_text="",
                max_turns=4,
                deadline_s=30,
                store=harness.store,
            )
            for member in range(20)
        )
    )
    assert {result.outcome for result in results} == {Outcome.SUCCESS}
    assert pool.most == 20
    assert time.monotonic() - started < 4


class ScoredToy(ToyEnvironment):
    """Scores the state it is left in: 0.75 if anything was done."""

    finished = 0

    async def finish(self) -> Transition:
        self.finished += 1
        reward = 0.75 if self._turn else 0.0
        return Transition(
            self._observe(),
            reward,
            False,
            success=reward > 0.5,
            info={"scorer": "toy/2"},
            components={"end": reward},
        )


class ScoredPool(ToyPool):
    def __init__(self) -> None:
        super().__init__(1)
        self.made: list[ScoredToy] = []

    async def acquire(self, task: Task) -> Environment:
        await super().acquire(task)
        self.made.append(ScoredToy())
        return self.made[-1]


@pytest.mark.parametrize("max_turns", [1, 4], ids=["turns used up", "graph gave up"])
async def test_a_world_that_scores_what_is_left_does_so_once(harness: Harness, max_turns: int):
    harness.pool = ScoredPool()

    async def once(state: State, runtime: Runtime[AgentContext]) -> State:
        await runtime.context.env.step("press 'nothing'")
        return {"count": 1}

    result = await harness.run(one_node(once), max_turns=max_turns)
    assert (result.outcome, result.reward, result.scorer) == (Outcome.SUCCESS, 0.75, "toy/2")
    assert harness.row()["scorer"] == "toy/2"
    assert harness.row()["components"] == {"end": 0.75}
    assert harness.pool.made[0].finished == 1


async def test_a_world_that_has_ended_or_broken_is_not_asked_again(harness: Harness):
    harness.pool = ScoredPool()
    harness.engine = FakeEngine([RIGHT] * 50)
    assert (await harness.run(toy_graph())).reward == 1.0
    assert harness.pool.made[0].finished == 0

    async def breaks(state: State, runtime: Runtime[AgentContext]) -> State:
        runtime.context.env._environment._fault = _down
        await runtime.context.env.step("press 'nothing'")
        return {}

    result = await harness.run(one_node(breaks), replace(SPEC, attempt=1))
    assert (result.outcome, result.category) == (Outcome.INVALID, "world_error")
    assert harness.pool.made[1].finished == 0


def _down(task: Task, turn: int) -> None:
    raise WorldError("the site is down")
