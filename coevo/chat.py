"""A LangChain chat model over the policy: what an agent's graph calls to think."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.content import InvalidToolCall
from langchain_core.messages.tool import ToolCall, invalid_tool_call, tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from coevo.engine.base import Completion, Perturbation, Request, Sampling
from coevo.errors import AgentError
from coevo.seeds import derive_seed

if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.language_models.base import LangSmithParams
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_SAMPLING_FIELDS = frozenset(field.name for field in fields(Sampling)) - {"stop", "seed"}
_TOOL_CALL_TAG = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)


class CallRecorder(Protocol):
    """Told of every model call when it has happened; see `coevo.store.recorder.EpisodeRecorder`."""

    def call(
        self,
        request: Request,
        completion: Completion | None,
        *,
        run_id: UUID | None,
        seconds: float,
        error: str = "",
    ) -> None: ...


class CallLimit(AgentError):
    """The agent asked the model more often than its episode allows."""


class PolicyChatModel(BaseChatModel):
    """The policy θ + σ·ε as a LangChain chat model: async and sync, tools, stop sequences, usage metadata.

    Call number i of an instance samples with `derive_seed(sampling.seed, i)`, so an agent that calls in a fixed order
    says the same again. Sampling options can be given to one call, as in `model.bind(temperature=0.7)`.

    A model without built-in function calling is told of tools by its chat template, and its answer is searched for
    calls: `<tool_call>{…}</tool_call>` as Hermes and Qwen write them, or an answer that is nothing but JSON. What
    looks like a call and cannot be read ends up in `invalid_tool_calls`. `tool_choice` narrows the tools offered to the
    one named; that a tool is called at all cannot be forced.
    """

    complete: Callable[[Request], Awaitable[Completion]]
    """Where completions come from, e.g. `Batcher.generate`."""
    sampling: Sampling = Sampling()
    perturbation: Perturbation | None = None
    recorder: Any = None
    """A `CallRecorder`, or None."""
    model_name: str = "policy"
    max_calls: int | None = None
    """Calls after which `CallLimit` is raised; None for no limit."""
    temperature: float | None = None
    """Overrides `sampling.temperature`, as do the next two, under the names LangChain models share."""
    max_tokens: int | None = None
    stop: list[str] | None = None

    _calls: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _loop: asyncio.AbstractEventLoop | None = PrivateAttr(default=None)
    _failure: Exception | None = PrivateAttr(default=None)

    @property
    def failure(self) -> Exception | None:
        """What `complete` raised, if it did: the engine's failure is not the agent's, even if the agent hides it."""
        return self._failure

    @property
    def _llm_type(self) -> str:
        return "coevo-policy"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "sampling": self.sampling, "perturbation": self.perturbation}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = "coevo"
        params["ls_model_name"] = kwargs.get("model", self.model_name)
        sampling = self._sampling(stop, kwargs, self.sampling.seed)
        params["ls_temperature"] = sampling.temperature
        params["ls_max_tokens"] = sampling.max_tokens
        return params

    def bind_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Where `complete` must run. Synchronous calls from other threads are handed to this loop."""
        self._loop = loop

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._wait(self._answer(messages, stop, run_manager.run_id if run_manager else None, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await self._answer(messages, stop, run_manager.run_id if run_manager else None, kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield _whole(self._generate(messages, stop, run_manager, **kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        yield _whole(await self._agenerate(messages, stop, run_manager, **kwargs))

    def _wait(self, answer: Coroutine[Any, Any, ChatResult]) -> ChatResult:
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if self._loop is None and running is None:
            return asyncio.run(answer)
        if running is not None:
            answer.close()
            raise AgentError(
                "the policy was called synchronously on the event loop, which would wait for itself",
                hint="in an `async def` node write `await policy.ainvoke(messages)`; a plain `def` node may use invoke",
            )
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()

    async def _answer(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        run_id: UUID | None,
        kwargs: Mapping[str, Any],
    ) -> ChatResult:
        with self._lock:
            index = self._calls
            if self.max_calls is not None and index >= self.max_calls:
                raise CallLimit(
                    f"the agent asked the model {index} times in one episode, which is the limit",
                    hint="end the graph when the environment is `over`, or raise [agent] max_turns",
                )
            self._calls += 1
        tools = _offered(kwargs.get("tools") or (), kwargs.get("tool_choice"))
        request = Request(
            messages=tuple(to_chat(message) for message in messages),
            sampling=self._sampling(stop, kwargs, derive_seed(self.sampling.seed, index)),
            perturbation=self.perturbation,
            tools=tools,
        )
        started = time.monotonic()
        try:
            completion = await self.complete(request)
        except Exception as error:
            self._failure = error
            self._record(request, None, run_id, started, f"{type(error).__name__}: {error}")
            raise
        self._record(request, completion, run_id, started, "")
        message = self._message(completion, tools, index)
        return ChatResult(
            generations=[ChatGeneration(message=message, generation_info=message.response_metadata)]
        )

    def _record(
        self, request: Request, completion: Completion | None, run_id: UUID | None, started: float, error: str
    ) -> None:
        if self.recorder is not None:
            self.recorder.call(
                request, completion, run_id=run_id, seconds=time.monotonic() - started, error=error
            )

    def _message(self, completion: Completion, tools: tuple[Mapping[str, Any], ...], index: int) -> AIMessage:
        text, calls, invalid = completion.text, list[ToolCall](), list[InvalidToolCall]()
        if tools:
            names = frozenset(str(tool["function"]["name"]) for tool in tools)
            text, calls, invalid = parse_tool_calls(completion.text, names, id_prefix=f"call_{index}")
        return AIMessage(
            content=text,
            tool_calls=calls,
            invalid_tool_calls=invalid,
            usage_metadata=UsageMetadata(
                input_tokens=completion.prompt_tokens,
                output_tokens=completion.completion_tokens,
                total_tokens=completion.prompt_tokens + completion.completion_tokens,
                input_token_details={"cache_read": completion.cached_tokens},
            ),
            response_metadata={
                "model_name": self.model_name,
                "finish_reason": completion.finish_reason,
                "weights_step": completion.weights_step,
                "truncated_tokens": completion.truncated_tokens,
            },
        )

    def _sampling(self, stop: Sequence[str] | None, kwargs: Mapping[str, Any], seed: int) -> Sampling:
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        changes: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        changes |= {
            name: kwargs[name] for name in _SAMPLING_FIELDS & kwargs.keys() if kwargs[name] is not None
        }
        stops = (*self.sampling.stop, *(self.stop or ()), *(stop or ()))
        return replace(self.sampling, **changes, stop=tuple(dict.fromkeys(stops)), seed=seed)


def _whole(result: ChatResult) -> ChatGenerationChunk:
    """A stream of one chunk: engines answer in batches, when they are done."""
    message = result.generations[0].message
    assert isinstance(message, AIMessage)
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=message.content,
            tool_calls=message.tool_calls,
            invalid_tool_calls=message.invalid_tool_calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )


def to_chat(message: BaseMessage) -> dict[str, Any]:
    """An OpenAI-style dict for a LangChain message.

    Text in parts is joined; parts that are not text are passed on as they are, for engines that can see. Arguments of
    tool calls stay objects, as chat templates expect them. Raises `AgentError` for a message of an unknown role.
    """
    role = _ROLES.get(message.type) or (getattr(message, "role", None) if message.type == "chat" else None)
    if role is None:
        raise AgentError(
            f"a {type(message).__name__} cannot be sent to the policy",
            hint="send system, human, AI and tool messages",
        )
    chat: dict[str, Any] = {"role": role, "content": _content(message)}
    if message.name:
        chat["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        chat["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["args"]},
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
    return chat


def _content(message: BaseMessage) -> str | list[Any]:
    if isinstance(message.content, str):
        return message.content
    # Calls are carried by `tool_calls`; the blocks only repeat them.
    parts = [
        part
        for part in message.content
        if isinstance(part, str) or part.get("type") not in ("tool_call", "tool_use")
    ]
    if all(isinstance(part, str) or part.get("type") == "text" for part in parts):
        return "\n".join(part if isinstance(part, str) else str(part["text"]) for part in parts)
    return parts


def _offered(tools: Sequence[Mapping[str, Any]], choice: Any) -> tuple[Mapping[str, Any], ...]:
    if isinstance(choice, Mapping):
        choice = choice.get("function", {}).get("name")
    named = [tool for tool in tools if tool["function"]["name"] == choice]
    return tuple(named or (() if choice == "none" else tools))


def parse_tool_calls(
    text: str, names: frozenset[str], *, id_prefix: str = "call"
) -> tuple[str, list[ToolCall], list[InvalidToolCall]]:
    """Split an answer into (what remains as text, tool calls, calls that could not be read).

    Reads `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once or more, also when the last one is cut off; and an
    answer that is, fenced or not, nothing but one such object or a list of them with known `names`.
    """
    tagged = _TOOL_CALL_TAG.findall(text)
    if tagged:
        calls: list[ToolCall] = []
        invalid: list[InvalidToolCall] = []
        for number, body in enumerate(tagged):
            key = f"{id_prefix}_{number}"
            try:
                calls.append(_tool_call(json.loads(body), names, key))
            except ValueError as error:
                invalid.append(invalid_tool_call(name=None, args=body, id=key, error=str(error)))
        # What could not be read stays in the text, so that the model sees in its history what it wrote.
        return (text if invalid else _TOOL_CALL_TAG.sub("", text).strip()), calls, invalid
    bare = text.strip()
    fenced = _FENCE.match(bare)
    try:
        parsed = json.loads(fenced[1] if fenced else bare)
        objects = parsed if isinstance(parsed, list) and parsed else [parsed]
        return (
            "",
            [_tool_call(item, names, f"{id_prefix}_{number}") for number, item in enumerate(objects)],
            [],
        )
    except ValueError:
        return text, [], []


def _tool_call(value: Any, names: frozenset[str], key: str) -> ToolCall:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError('a tool call is an object with "name" and "arguments"')
    if value["name"] not in names:
        raise ValueError(f"there is no tool {value['name']!r}; tools: {', '.join(sorted(names))}")
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    if not isinstance(arguments, dict):
        raise ValueError('"arguments" of a tool call is an object')
    return tool_call(name=value["name"], args=arguments, id=key)
