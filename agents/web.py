"""The starter web agent: observe → decide → act until the task is done or the turns are used up.

The prompt is short, because small models read slowly and forget fast: the rules of the skill are the system message, its
worked examples come as turns of the conversation, the page of *this* turn and the task are the last user message, and
of earlier turns only the action remains.
"""

from __future__ import annotations

from typing import TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from coevo.agent import AgentContext
from coevo.skill import split_examples

REMEMBERED_TURNS = 4
WITHOUT_SKILL = (
    "Answer with one action: click 'NAME', type 'FIELD' 'TEXT', select 'FIELD' 'OPTION', press Enter, stop."
)


class Turn(TypedDict):
    """One past action and what went wrong with it ("" if nothing did)."""

    action: str
    error: str


class WebState(TypedDict, total=False):
    """`page` is what the agent sees now, `turns` what it did so far."""

    goal: str
    page: str
    turns: list[Turn]
    action: str


def prompt(skill: str, goal: str, page: str, turns: list[Turn]) -> list[BaseMessage]:
    """The messages of one decision: the skill, the last few actions, then the page and the task."""
    rules, examples = split_examples(skill)
    messages: list[BaseMessage] = [SystemMessage(rules.strip() or WITHOUT_SKILL)]
    for example in examples:
        messages += [HumanMessage(example.prompt), AIMessage(example.answer)]
    first = max(0, len(turns) - REMEMBERED_TURNS)
    for number, turn in enumerate(turns[first:], first + 1):
        messages += [HumanMessage(f"(page {number})"), AIMessage(turn["action"])]
    last = turns[-1]["error"] if turns else ""
    error = f"\nError: {last}" if last and last not in page else ""
    messages.append(HumanMessage(f"{page}\nTask: {goal}{error}"))
    return messages


def first_line(text: str) -> str:
    """The action in a model's answer: its first line that is not empty, stripped."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


async def observe(state: WebState, runtime: Runtime[AgentContext]) -> WebState:
    """Looks at the page."""
    world = runtime.context.env
    return {"page": world.observation.text, "goal": world.goal, "turns": state.get("turns", [])}


async def decide(state: WebState, runtime: Runtime[AgentContext]) -> WebState:
    """Asks the policy for the next action."""
    context = runtime.context
    answer = await context.policy.ainvoke(prompt(context.skill, state["goal"], state["page"], state["turns"]))
    return {"action": first_line(answer.text)}


async def act(state: WebState, runtime: Runtime[AgentContext]) -> WebState:
    """Does it."""
    transition = await runtime.context.env.step(state["action"])
    error = str(transition.info.get("error", ""))
    return {"turns": [*state["turns"], Turn(action=state["action"], error=error)]}


def proceed(state: WebState, runtime: Runtime[AgentContext]) -> str:
    """Whether there is another turn."""
    return END if runtime.context.env.over else "observe"


graph = (
    StateGraph(WebState, context_schema=AgentContext)
    .add_node("observe", observe)
    .add_node("decide", decide)
    .add_node("act", act)
    .add_edge(START, "observe")
    .add_edge("observe", "decide")
    .add_edge("decide", "act")
    .add_conditional_edges("act", proceed, ["observe", END])
    .compile(name="web")
)
