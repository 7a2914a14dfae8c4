"""Asking a language model for edits: budgets, retries, a cache by content, and a record of every call.

The author is any LangChain chat model. What it says is text until `read` has made something of it; what cannot be read goes
back to the author with the reason, a few times. A call that was answered is never paid for twice: its key is a hash of
everything that went in, and an answered key comes from the log.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coevo.seeds import derive_seed

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")
Message = Mapping[str, str]
"""`role` (system, user, assistant) and `content`."""


class ReplyError(ValueError):
    """A reply that cannot be used; the text goes back to the author."""


@dataclass(frozen=True, slots=True)
class AuthorCall:
    """One call. `error` is empty when the author answered; token counts are None where the model does not tell."""

    key: str
    purpose: str
    author: str
    messages: tuple[Message, ...]
    reply: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    error: str = ""


class CallLog(Protocol):
    """Remembers calls beyond a process."""

    def find(self, key: str) -> AuthorCall | None:
        """The answered call of this key, or None."""
        ...

    async def add(self, call: AuthorCall) -> None:
        """Store a call; returns when it would survive a power cut."""
        ...


@dataclass(slots=True)
class MemoryLog:
    """A log for one process; the store has the lasting one."""

    calls: list[AuthorCall] = field(default_factory=list)

    def find(self, key: str) -> AuthorCall | None:
        return next((call for call in self.calls if call.key == key and not call.error), None)

    async def add(self, call: AuthorCall) -> None:
        self.calls.append(call)


@dataclass(frozen=True, slots=True)
class Limits:
    """`calls` and `tokens` (prompt and reply together) bound what one distillation may spend; calls from the log are free.

    `attempts` at a call that fails, `backoff_s` before the second one (doubled each time), `timeout_s` for each (None: no limit);
    `corrections` of a reply that cannot be read; `concurrency` calls under way at once. A call under way when the distillation is
    cancelled has `grace_s` left.
    """

    calls: int = 200
    tokens: int = 1_000_000
    attempts: int = 3
    backoff_s: float = 2.0
    timeout_s: float | None = 300.0
    grace_s: float = 5.0
    corrections: int = 2
    concurrency: int = 8


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What an author made of a question: `value`, or None and why. `calls` are the keys of the calls behind it."""

    value: T | None
    calls: tuple[str, ...] = ()
    problem: str = ""


class Author:
    """A chat model with a purse. `make(seed)` gives the model for one call, so that a policy samples reproducibly.

    `follows_grammar`: the model takes `grammar` as an option of a call (a `PolicyChatModel` does) and is held to the format
    of the reply.
    """

    def __init__(
        self,
        make: Callable[[int], BaseChatModel],
        *,
        name: str,
        log: CallLog | None = None,
        limits: Limits | None = None,
        follows_grammar: bool = False,
    ) -> None:
        self.name = name
        self.limits = limits or Limits()
        self.spent_calls = self.spent_tokens = self.from_log = 0
        self._make = make
        self._follows_grammar = follows_grammar
        self._log = log or MemoryLog()
        self._free = asyncio.Semaphore(self.limits.concurrency)
        self._under_way: dict[str, asyncio.Task[AuthorCall]] = {}
        self._sent: set[str] = set()

    def renew(self) -> None:
        """Fill the purse again: the limits are those of one distillation."""
        self.spent_calls = self.spent_tokens = self.from_log = 0

    async def ask(
        self, purpose: str, system: str, user: str, read: Callable[[str], T], *, grammar: str = ""
    ) -> Answer[T]:
        """Ask once, or again with the reason while `read` raises `ReplyError`. `grammar`: of what `read` takes."""
        messages: list[Message] = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        keys: list[str] = []
        problem = ""
        for _ in range(self.limits.corrections + 1):
            call = await self._call(purpose, messages, grammar if self._follows_grammar else "")
            if call.error:
                return Answer(None, tuple(keys), call.error)
            keys.append(call.key)
            try:
                return Answer(read(call.reply), tuple(keys))
            except ReplyError as error:
                problem = str(error)
                messages = [
                    *messages,
                    {"role": "assistant", "content": call.reply},
                    {
                        "role": "user",
                        "content": f"That cannot be used: {problem}. Send the whole answer again, corrected.",
                    },
                ]
        return Answer(None, tuple(keys), f"no usable reply: {problem}")

    async def _call(self, purpose: str, messages: Sequence[Message], grammar: str) -> AuthorCall:
        asked = [self.name, list(messages), *([grammar] if grammar else [])]
        key = hashlib.blake2b(
            json.dumps(asked, sort_keys=True).encode(errors="replace"), digest_size=16
        ).hexdigest()
        known = self._log.find(key)
        if known is not None:
            self.from_log += 1
            return known
        if key not in self._under_way:  # two transcripts that say the same are one question
            self._under_way[key] = asyncio.create_task(self._pay(key, purpose, tuple(messages), grammar))
            self._under_way[key].add_done_callback(lambda _: self._under_way.pop(key, None))
        task = self._under_way[key]
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            try:
                if key in self._sent:  # an answer that comes soon is stored, not paid for in vain
                    await asyncio.wait({task}, timeout=self.limits.grace_s)
            finally:  # also when cancelled once more
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            raise

    async def _pay(self, key: str, purpose: str, messages: tuple[Message, ...], grammar: str) -> AuthorCall:
        async with self._free:
            call = AuthorCall(key, purpose, self.name, messages)
            for attempt in range(self.limits.attempts):
                if broke := self._broke():
                    return _failed(call, broke)
                if attempt:
                    await asyncio.sleep(self.limits.backoff_s * 2 ** (attempt - 1))
                self._sent.add(key)
                try:
                    call = await self._try(call, grammar)
                    await self._log.add(call)
                finally:
                    self._sent.discard(key)
                if not call.error:
                    break
            return call

    async def _try(self, call: AuthorCall, grammar: str) -> AuthorCall:
        from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

        kinds: dict[str, type[BaseMessage]] = {
            "system": SystemMessage,
            "user": HumanMessage,
            "assistant": AIMessage,
        }
        self.spent_calls += 1
        started = time.monotonic()
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                model = self._make(derive_seed("author", call.key))
                messages = [kinds[m["role"]](m["content"]) for m in call.messages]
                options: dict[str, Any] = {"grammar": grammar} if grammar else {}
                answer = await model.ainvoke(messages, **options)
        except TimeoutError:
            return _failed(call, f"no answer within {self.limits.timeout_s:g} s", time.monotonic() - started)
        except Exception as error:  # whatever a provider raises, the distillation goes on without this call
            return _failed(call, f"{type(error).__name__}: {error}", time.monotonic() - started)
        usage: Mapping[str, Any] = answer.usage_metadata or {}
        prompt, reply = usage.get("input_tokens"), usage.get("output_tokens")
        self.spent_tokens += (prompt or _estimate(call.messages)) + (reply or len(answer.text) // 4)
        return AuthorCall(
            call.key,
            call.purpose,
            call.author,
            call.messages,
            str(answer.text),
            prompt,
            reply,
            time.monotonic() - started,
        )

    def _broke(self) -> str:
        if self.spent_calls >= self.limits.calls:
            return f"the budget of {self.limits.calls} calls is spent"
        if self.spent_tokens >= self.limits.tokens:
            return f"the budget of {self.limits.tokens} tokens is spent"
        return ""


async def side_by_side(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. When one fails, the others are stopped before its exception is raised: none goes on spending."""
    tasks = [asyncio.ensure_future(one) for one in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = [task for task in tasks if task.done() and (task.cancelled() or task.exception())]
        return [task.result() for task in failed or tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failed(call: AuthorCall, error: str, seconds: float = 0.0) -> AuthorCall:
    return AuthorCall(call.key, call.purpose, call.author, call.messages, seconds=seconds, error=error[:2000])


def _estimate(messages: Sequence[Message]) -> int:
    return sum(len(message["content"]) for message in messages) // 4
