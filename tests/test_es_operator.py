"""ES as an operator inside a graph of one's own: a reflection loop that learns between its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from coevo.engine.base import NoiseSpec, Request
from coevo.es import EsOperator, Member, NoStep
from coevo.testing import FakeEngine

SPEC = NoiseSpec("gaussian")
TARGET = 1.5


def answers(request: Request, theta: Sequence[float]) -> str:
    """A number; it heeds the hint of an error a little, the weights the rest."""
    hint = 0.1 if "too small" in str(request.messages[-1]["content"]) else 0.0
    return f"{theta[0] + hint:.4f}"


class State(TypedDict, total=False):
    round: int
    error: str
    answer: float


@dataclass
class Context:
    es: EsOperator
    asked: list[str]


async def attempt(state: State, runtime: Runtime[Context]) -> State:
    """The centre tries, with the last error in its prompt."""
    said = await ask(runtime.context, state.get("error", ""), None)
    return {"answer": said, "error": complaint(said), "round": state.get("round", 0)}


async def reflect(state: State, runtime: Runtime[Context]) -> State:
    """Perturbed models retry with the error; what they get moves the weights before the next attempt."""

    async def reward(member: Member) -> float | None:
        return -abs(await ask(runtime.context, state["error"], member) - TARGET)

    await runtime.context.es.round(state["round"], reward)
    return {"round": state["round"] + 1}


async def ask(context: Context, error: str, member: Member | None) -> float:
    content = f"Name the number. {error}"
    context.asked.append(content)
    request = Request(
        ({"role": "user", "content": content},), perturbation=member.perturbation if member else None
    )
    return float((await context.es.engine.generate([request]))[0].text)


def complaint(answer: float) -> str:
    return "" if abs(answer - TARGET) < 0.1 else "too small" if answer < TARGET else "too large"


def reflection_loop() -> StateGraph[State, Context, State, State]:
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("attempt", attempt)
    graph.add_node("reflect", reflect)
    graph.add_edge(START, "attempt")
    graph.add_conditional_edges("attempt", lambda state: "reflect" if state["error"] else END)
    graph.add_edge("reflect", "attempt")
    return graph


async def test_a_reflection_loop_learns_between_rounds() -> None:
    engine = FakeEngine(answers)
    es = EsOperator(engine, SPEC, size=16, sigma=0.2, alpha=0.3, antithetic=True)
    context = Context(es, [])
    state = await reflection_loop().compile().ainvoke({}, {"recursion_limit": 100}, context=context)
    assert abs(state["answer"] - TARGET) < 0.1
    assert 1 < state["round"] < 40
    assert engine.weights_step == state["round"]
    assert "Name the number. too small" in context.asked
    still = await reflection_loop().compile().ainvoke({}, {"recursion_limit": 100}, context=Context(es, []))
    assert still["round"] < state["round"], "what was learned stays"


async def test_a_round_without_signal_moves_nothing() -> None:
    engine = FakeEngine(answers)
    es = EsOperator(engine, SPEC, size=4)

    async def same(member: Member) -> float | None:
        return 1.0

    async def broken(member: Member) -> float | None:
        return None if member.index else 1.0

    for evaluate, kind in ((same, "all_equal"), (broken, "too_few_valid")):
        found = await es.round(0, evaluate)
        assert not found.moved
        assert isinstance(found.result.step, NoStep)
        assert found.result.step.kind == kind
    assert engine.weights_step == 0


async def test_members_follow_from_seed_and_round() -> None:
    es = EsOperator(FakeEngine(), SPEC, seed=3)
    assert es.members(0) == EsOperator(FakeEngine(), SPEC, seed=3).members(0)
    assert {m.seed for m in es.members(0)}.isdisjoint(m.seed for m in es.members(1))
