"""The agent of the toy world in `coevo.testing`: an ordinary StateGraph, observe → decide → act."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from coevo.agent import AgentContext


class State(TypedDict, total=False):
    """What the agent sees now, and what it has decided to do."""

    observation: str
    action: str


async def decide(state: State, runtime: Runtime[AgentContext]) -> State:
    """Ask the policy for one action."""
    context = runtime.context
    seen = HumanMessage(f"{state['observation']}\n\nTask: {context.goal}")
    answer = await context.policy.ainvoke([SystemMessage(context.skill), seen] if context.skill else [seen])
    return {"action": str(answer.text)}


async def act(state: State, runtime: Runtime[AgentContext]) -> State:
    """Do it, and look."""
    seen = (await runtime.context.env.step(state["action"])).observation
    return {"observation": f"{seen.text}\n\nError: {seen.error}" if seen.error else seen.text}


def more(_: State, runtime: Runtime[AgentContext]) -> str:
    """On until the episode is over."""
    return END if runtime.context.env.over else "decide"


def build() -> Any:
    """The compiled graph."""
    graph = StateGraph(State, context_schema=AgentContext)
    graph.add_node("decide", decide)
    graph.add_node("act", act)
    graph.add_edge(START, "decide")
    graph.add_edge("decide", "act")
    graph.add_conditional_edges("act", more, ["decide", END])
    return graph.compile()
