"""The heuristic writer: write → judge, and once more with the error while turns are left.

The skill and the problem are the system message, which all requests share; the request is the first user message, and an
answer that failed and what was wrong with it follow as turns of the conversation.
"""

from __future__ import annotations

from typing import TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from coevo.agent import AgentContext

Agent = Runtime[AgentContext]


class State(TypedDict, total=False):
    """`conversation` is what the policy has been told and has answered so far."""

    observation: str
    conversation: list[BaseMessage]
    reply: str


async def write(state: State, runtime: Agent) -> State:
    """Asks the policy for a heuristic."""
    context = runtime.context
    messages = state.get("conversation") or [
        SystemMessage(f"{context.skill}\n\n{context.goal}".strip()),
        HumanMessage(state["observation"]),
    ]
    answer = await context.policy.ainvoke(messages)
    return {"conversation": [*messages, AIMessage(answer.text)], "reply": answer.text}


async def judge(state: State, runtime: Agent) -> State:
    """Has it judged."""
    transition = await runtime.context.env.step(state["reply"])
    return {"conversation": [*state["conversation"], HumanMessage(transition.observation.text)]}


def again(state: State, runtime: Agent) -> str:
    """Once more while it is not valid and turns are left."""
    return END if runtime.context.env.over else "write"


builder = StateGraph(State, context_schema=AgentContext)
builder.add_node("write", write)
builder.add_node("judge", judge)
builder.add_edge(START, "write")
builder.add_edge("write", "judge")
builder.add_conditional_edges("judge", again)
graph = builder.compile()
