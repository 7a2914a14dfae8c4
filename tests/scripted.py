"""A chat model that answers by a rule, for tests of what is done with answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ConfigDict, Field


class Scripted(BaseChatModel):
    """`rule` gets the messages and returns the answer; what it raises is raised. `asked` keeps all messages."""

    rule: Callable[[list[BaseMessage]], str]
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append(messages)
        text = self.rule(messages)
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=usage))])


class Waiting(Scripted):
    """Answers when `until` is set. `begun` keeps what was asked until then."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    until: asyncio.Event
    begun: list[list[BaseMessage]] = Field(default_factory=list)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.begun.append(messages)
        await self.until.wait()
        return self._generate(messages)
