"""The policy as a LangChain chat model: LangChain's own standard tests, and what is particular to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from coevo.chat import CallLimit, PolicyChatModel, parse_tool_calls, to_chat
from coevo.engine.base import Completion, Perturbation, Request, Sampling
from coevo.errors import AgentError, EngineError
from coevo.seeds import derive_seed
from coevo.testing import FakeEngine

_SAMPLES = {"integer": 3, "number": 3.0, "boolean": True, "array": [], "object": {}}


def obliging(request: Request, theta: Sequence[float]) -> str:
    """A model that calls the first tool it is offered, with arguments of the right types, unless it has just been told
    the result; then, and without tools, it talks."""
    last = request.messages[-1]
    if not request.tools or last["role"] == "tool":
        return "Hello, how are you?"
    function = request.tools[0]["function"]
    properties = function["parameters"].get("properties", {})
    arguments = {name: _SAMPLES.get(_type(value), str(last["content"])) for name, value in properties.items()}
    call = json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def _type(schema: dict[str, Any]) -> str:
    return str(schema.get("type") or next((s["type"] for s in schema.get("anyOf", ()) if "type" in s), ""))


class _Standard:
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return PolicyChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"complete": FakeEngine(obliging).complete}


class TestStandardUnit(_Standard, ChatModelUnitTests):
    pass


class TestStandardIntegration(_Standard, ChatModelIntegrationTests):
    pass


def policy(answer: Any, **options: Any) -> tuple[PolicyChatModel, FakeEngine]:
    engine = FakeEngine(answer)
    return PolicyChatModel(complete=engine.complete, **options), engine


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_request_carries_messages_noise_and_sampling():
    noise = Perturbation(7, -0.05)
    model, engine = policy(
        ["first", "second"],
        perturbation=noise,
        sampling=Sampling(temperature=0.5, max_tokens=9, stop=("\n",), seed=3),
    )
    await model.ainvoke([SystemMessage("be brief"), HumanMessage("hi", name="ann")], stop=["END"])
    await model.bind(temperature=0.9, top_k=5).ainvoke("again")
    first, second = engine.requests
    assert first.messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi", "name": "ann"},
    )
    assert first.perturbation == second.perturbation == noise
    assert first.sampling == Sampling(
        temperature=0.5, max_tokens=9, stop=("\n", "END"), seed=derive_seed(3, 0)
    )
    assert second.sampling == Sampling(
        temperature=0.9, top_k=5, max_tokens=9, stop=("\n",), seed=derive_seed(3, 1)
    )


async def test_the_answer_carries_counts_and_where_it_came_from():
    async def complete(request: Request) -> Completion:
        return Completion("yes", 10, 2, "length", weights_step=4, cached_tokens=6, truncated_tokens=1)

    answer = await PolicyChatModel(complete=complete, model_name="tiny").ainvoke("well?")
    assert isinstance(answer, AIMessage)
    assert answer.content == "yes"
    assert answer.usage_metadata == {
        "input_tokens": 10,
        "output_tokens": 2,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 6},
    }
    assert answer.response_metadata | {
        "model_name": "tiny",
        "finish_reason": "length",
        "weights_step": 4,
    } == (answer.response_metadata)


async def test_tools_reach_the_engine_and_calls_come_back():
    model, engine = policy(
        ['Let me see. <tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>']
    )
    answer = await model.bind_tools([add]).ainvoke("1 + 2?")
    assert engine.requests[0].tools[0]["function"]["name"] == "add"
    assert answer.tool_calls == [
        {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_0_0", "type": "tool_call"}
    ]
    assert answer.content == "Let me see."


async def test_a_named_tool_choice_narrows_the_offer():
    @tool
    def subtract(a: int, b: int) -> int:
        """Subtract."""
        return a - b

    model, engine = policy(obliging)
    for choice in ("subtract", {"type": "function", "function": {"name": "subtract"}}):
        answer = await model.bind_tools([add, subtract], tool_choice=choice).ainvoke("7 - 2?")
        assert answer.tool_calls[0]["name"] == "subtract"
    await model.bind_tools([add], tool_choice="none").ainvoke("no tools now")
    assert engine.requests[-1].tools == ()


NAMES = frozenset({"add", "look"})


@pytest.mark.parametrize(
    ("text", "rest", "calls"),
    [
        ('<tool_call>{"name":"look"}</tool_call>', "", [("look", {})]),
        (
            'a<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>b<tool_call>{"name":"look"}</tool_call>',
            "ab",
            [("add", {"a": 1}), ("look", {})],
        ),
        ('<tool_call>{"name":"add","arguments":{"a":1}}', "", [("add", {"a": 1})]),  # cut off after the call
        ('{"name": "add", "arguments": {"a": 1}}', "", [("add", {"a": 1})]),
        ('```json\n{"name": "add", "parameters": {"a": 1}}\n```', "", [("add", {"a": 1})]),
        (
            '[{"name": "look"}, {"name": "add", "arguments": "{\\"a\\": 2}"}]',
            "",
            [("look", {}), ("add", {"a": 2})],
        ),
        ('{"function": {"name": "add", "arguments": {"a": 1}}}', "", [("add", {"a": 1})]),
        ("just words", "just words", []),
        ('{"name": "shout", "arguments": {}}', '{"name": "shout", "arguments": {}}', []),
        ('{"answer": 42}', '{"answer": 42}', []),
        ("[]", "[]", []),
        ("17", "17", []),
    ],
)
def test_tool_calls_are_found_in_text(text: str, rest: str, calls: list[tuple[str, dict[str, Any]]]):
    content, found, invalid = parse_tool_calls(text, NAMES)
    assert (content, [(call["name"], call["args"]) for call in found], invalid) == (rest, calls, [])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"name": "add", "argum', "Unterminated string"),
        ('{"name": "shout"}', "there is no tool 'shout'; tools: add, look"),
        ('{"arguments": {}}', '"name" and "arguments"'),
        ('{"name": "add", "arguments": [1]}', "is an object"),
    ],
)
def test_a_call_that_cannot_be_read_is_kept_as_invalid(body: str, says: str):
    text = f"Hm. <tool_call>{body}</tool_call>"
    content, calls, invalid = parse_tool_calls(text, NAMES)
    assert (content, calls) == (text, [])
    assert invalid[0]["args"] == body
    assert says in str(invalid[0]["error"])


def test_messages_become_openai_dicts_with_arguments_as_objects():
    asked = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}])
    assert to_chat(asked) == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}],
    }
    assert to_chat(ToolMessage("3", tool_call_id="c1", name="add")) == {
        "role": "tool",
        "content": "3",
        "name": "add",
        "tool_call_id": "c1",
    }
    assert to_chat(HumanMessage([{"type": "text", "text": "a"}, "b"]))["content"] == "a\nb"
    picture = {"type": "image_url", "image_url": {"url": "data:,x"}}
    assert to_chat(HumanMessage([picture]))["content"] == [picture]
    assert to_chat(ChatMessage("x", role="critic")) == {"role": "critic", "content": "x"}
    with pytest.raises(AgentError, match="RemoveMessage cannot be sent to the policy"):
        to_chat(RemoveMessage(id="1"))


async def test_a_call_limit_ends_a_chatty_agent():
    model, engine = policy(["a", "b", "c"], max_calls=2)
    await model.ainvoke("1")
    await model.ainvoke("2")
    with pytest.raises(CallLimit, match="asked the model 2 times"):
        await model.ainvoke("3")
    assert len(engine.requests) == 2


async def test_the_engine_s_failure_is_kept_apart():
    model, _ = policy([])
    with pytest.raises(EngineError, match="used up"):
        await model.ainvoke("hi")
    assert isinstance(model.failure, EngineError)


async def test_a_sync_call_on_the_event_loop_is_refused_and_from_a_thread_works():
    model, engine = policy(["from a thread"])
    with pytest.raises(AgentError, match=r"await policy\.ainvoke"):
        model.invoke("hi")
    assert engine.requests == []
    model.bind_loop(asyncio.get_running_loop())
    answer = await asyncio.to_thread(model.invoke, "hi")
    assert answer.content == "from a thread"


def test_a_sync_call_without_any_loop_works():
    model, _ = policy(["fine"])
    assert model.invoke("hi").content == "fine"
