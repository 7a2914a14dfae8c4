"""Writes an episode down while it happens: steps from the environment, calls from the policy, places from callbacks.

One recorder an episode, passed to the graph as a LangChain callback handler and to the policy as its `recorder`. The
row of the episode turns `finished` in the same transaction as its last numbers and after everything else, so a finished
episode is complete, whatever killed the process.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

from coevo.engine.base import Completion, Request
from coevo.env import Observation
from coevo.errors import StoreError
from coevo.store.writer import Store

_EPISODE_TABLES = ("steps", "calls", "tool_calls")


def now() -> str:
    """The time as the database has it: UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class _Place:
    node: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class _ToolStart:
    place: _Place
    tool: str
    arguments: str
    after_call: int | None
    at: float


class EpisodeRecorder(BaseCallbackHandler):
    """Records one episode. Methods may be called from any thread. A failed write raises `StoreError`, here and in
    `failure` for the runner, since an agent may swallow what its callbacks raise."""

    run_inline = True  # in order with the graph, not some time later on another thread
    raise_error = True

    def __init__(self, store: Store, episode: str) -> None:
        self.episode = episode
        self.failure: StoreError | None = None
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.weights_step: int | None = None
        self._store = store
        self._lock = threading.Lock()
        self._calls = itertools.count()
        self._tool_calls = itertools.count()
        self._last_call: int | None = None
        self._finished = False
        self._places: dict[UUID, _Place] = {}
        self._tools: dict[UUID, _ToolStart] = {}
        self._pages: list[str] = []
        self._hashes: dict[tuple[str | None, str, str, str], str] = {}

    # ---- the episode

    def start(self, row: Mapping[str, Any]) -> None:
        """The episode begins: its row, `running`, in place of whatever an interrupted attempt under this id left."""
        with self._noting_failure(), self._store.group():
            for table in _EPISODE_TABLES:
                self._store.delete(table, {"episode": self.episode})
            self._store.delete("episodes", {"id": self.episode})
            self._store.put("episodes", {"id": self.episode, "status": "running", "started_at": now(), **row})

    def step(
        self,
        ord: int,
        action: str | None,
        observation: Observation,
        *,
        performed: str = "",
        error: str = "",
        reward: float | None = None,
        done: bool = False,
        screenshot: bool = False,
    ) -> None:
        """Step `ord` of the episode, 0 for the reset; the screenshot is stored if there is one and it is wanted."""
        with self._lock, self._noting_failure(), self._store.group():
            if self._finished:
                return
            if observation.text and observation.text not in self._pages:
                self._pages.insert(0, observation.text)
            picture = None
            if screenshot and observation.screenshot_png is not None:
                picture = self._store.put_blob(observation.screenshot_png, "image/png")
            self._store.put(
                "steps",
                {
                    "episode": self.episode,
                    "ord": ord,
                    "action": action,
                    "performed": performed if performed and performed != action else None,
                    "observation": self._store.put_text(observation.text),
                    "error": error or None,
                    "reward": reward,
                    "done": done,
                    "screenshot": picture,
                },
            )

    def finish(self, row: Mapping[str, Any]) -> None:
        """The episode ends, with the columns of its row that were not known at the start (`status` among them).

        Whatever a thread the agent left behind still reports afterwards is not recorded.
        """
        with self._lock, self._noting_failure():
            if self._finished:
                return
            self._finished = True
            self._store.update(
                "episodes",
                self.episode,
                {
                    "weights_step": self.weights_step,
                    "prompt_tokens": self.prompt_tokens,
                    "completion_tokens": self.completion_tokens,
                    "finished_at": now(),
                    **row,
                },
            )

    # ---- the policy

    def call(
        self,
        request: Request,
        completion: Completion | None,
        *,
        run_id: UUID | None,
        seconds: float,
        error: str = "",
    ) -> None:
        """One model call; `completion` is None when the engine failed with `error`. `run_id` is LangChain's."""
        with self._lock, self._noting_failure(), self._store.group():
            if self._finished:
                return
            ord = next(self._calls)
            self._last_call = ord
            place = self._places.pop(run_id, _Place()) if run_id is not None else _Place()
            tip = None
            for message in request.messages:
                tip = self._message(tip, message)
            row: dict[str, Any] = {
                "episode": self.episode,
                "ord": ord,
                "node": place.node,
                "path": place.path,
                "prompt": tip,
                "tools": self._store.put_text(json.dumps(request.tools, ensure_ascii=False))
                if request.tools
                else None,
                "seed": request.sampling.seed,
                "perturbation_seed": request.perturbation.seed if request.perturbation else None,
                "perturbation_sigma": request.perturbation.sigma if request.perturbation else None,
                "seconds": round(seconds, 4),
                "error": error or None,
            }
            if completion is not None:
                self.prompt_tokens += completion.prompt_tokens
                self.completion_tokens += completion.completion_tokens
                if self.weights_step is None:
                    self.weights_step = completion.weights_step
                row |= {
                    "response": self._message(tip, {"role": "assistant", "content": completion.text}),
                    "prompt_tokens": completion.prompt_tokens,
                    "completion_tokens": completion.completion_tokens,
                    "cached_tokens": completion.cached_tokens,
                    "truncated_tokens": completion.truncated_tokens,
                    "finish_reason": completion.finish_reason,
                    "weights_step": completion.weights_step,
                }
            self._store.put("calls", row)

    def _message(self, parent: str | None, message: Mapping[str, Any]) -> str:
        content = message.get("content") or ""
        extra = {
            key: value
            for key, value in message.items()
            if key not in ("role", "content") and value is not None
        }
        if not isinstance(content, str):
            # Content in parts (pictures among them) is kept as it was sent; reading it back restores the parts.
            extra["content"], content = content, ""
        role = str(message["role"])
        key = (parent, role, content, json.dumps(extra, ensure_ascii=False) if extra else "")
        if key not in self._hashes:
            self._hashes[key] = self._store.put_message(parent, role, content, extra, containing=self._pages)
        return self._hashes[key]

    # ---- LangChain callbacks: where in the graph things happen

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        self._places[run_id] = _place(metadata)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        name = str((serialized or {}).get("name", ""))
        self._tools[run_id] = _ToolStart(
            _place(metadata), name, _arguments(inputs, input_str), self._last_call, time.monotonic()
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        text = output.text if isinstance(output, BaseMessage) else "" if output is None else str(output)
        self._tool_call(run_id, text, "")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._tool_call(run_id, "", f"{type(error).__name__}: {getattr(error, 'message', error)}")

    def _tool_call(self, run_id: UUID, output: str, error: str) -> None:
        start = self._tools.pop(run_id, None)
        if start is None:
            return
        with self._lock, self._noting_failure(), self._store.group():
            if self._finished:
                return
            self._store.put(
                "tool_calls",
                {
                    "episode": self.episode,
                    "ord": next(self._tool_calls),
                    "after_call": start.after_call,
                    "node": start.place.node,
                    "path": start.place.path,
                    "tool": start.tool,
                    "arguments": start.arguments,
                    "output": self._store.put_text(output),
                    "error": error or None,
                    "seconds": round(time.monotonic() - start.at, 4),
                },
            )

    def _noting_failure(self) -> _NotedFailure:
        return _NotedFailure(self)


class _NotedFailure:
    """Keeps a `StoreError` that passes through in the recorder's `failure`."""

    def __init__(self, recorder: EpisodeRecorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreError):
            self._recorder.failure = error


def _place(metadata: Mapping[str, Any] | None) -> _Place:
    """Node and path from LangGraph's metadata; `outer:uuid|inner:uuid` becomes `outer/inner`."""
    if not metadata or "langgraph_node" not in metadata:
        return _Place()
    node = str(metadata["langgraph_node"])
    namespace = str(metadata.get("langgraph_checkpoint_ns") or node)
    return _Place(node, "/".join(part.split(":", 1)[0] for part in namespace.split("|")))


def _arguments(inputs: Mapping[str, Any] | None, input_str: str) -> str:
    """The arguments a tool was called with, as JSON; what LangGraph injects (state, runtime, …) is not among them."""
    if inputs is None:
        return input_str
    plain = {}
    for name, value in inputs.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            continue
        plain[name] = value
    return json.dumps(plain, ensure_ascii=False)
