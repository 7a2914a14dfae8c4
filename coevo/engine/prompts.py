"""From chat messages to token ids: template, and shortening of what does not fit the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coevo.engine.base import Request
from coevo.errors import EngineError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TASK_LINE = "Task:"


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a prompt; `truncated` counts the tokens cut away."""

    tokens: tuple[int, ...]
    truncated: int


class PromptEncoder:
    """Renders requests with the tokenizer's chat template so that prompt and answer fit `context` tokens.

    What is too long loses lines of its oldest observations (user and tool messages) first. System messages,
    the model's own answers, lines that begin with `Task:`, and a first user message without such a line are never
    cut.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context

    def encode(self, request: Request) -> Encoded:
        """Raises `EngineError` when the prompt cannot be made to fit or the template refuses the messages."""
        room = self._context - request.sampling.max_tokens
        if room <= 0:
            raise EngineError(
                f"max_tokens {request.sampling.max_tokens} leaves no room for a prompt in a context of {self._context}",
                hint="raise [model] context or lower [sampling] max_tokens",
            )
        messages = [dict(message) for message in request.messages]
        tokens = self._render(messages, request.tools)
        full = len(tokens)
        if full > room:
            messages = self._shorten(messages, full - room)
            tokens = self._render(messages, request.tools)
            if len(tokens) > room:
                raise EngineError(
                    f"the prompt has {len(tokens)} tokens after shortening every observation; {room} fit",
                    hint="raise [model] context, shorten the skill, or lower [agent] max_turns",
                )
        return Encoded(tokens, full - len(tokens))

    def _render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[int, ...]:
        try:
            template: Any = self._tokenizer.apply_chat_template
            text = template(
                list(messages), tools=list(tools) or None, add_generation_prompt=True, tokenize=False
            )
        except (
            Exception
        ) as error:  # jinja errors come in many types; all mean the template refused the messages
            raise EngineError(
                f"the model's chat template refused the messages: {error}",
                hint="check the order of roles; many templates want user and assistant to alternate",
            ) from error
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tuple(ids)

    def _shorten(self, messages: list[dict[str, Any]], excess: int) -> list[dict[str, Any]]:
        """Cut about `excess` tokens out of the oldest observations."""
        first_user = next((i for i, m in enumerate(messages) if m["role"] == "user"), None)
        for index, message in enumerate(messages):
            if excess <= 0:
                break
            content = message.get("content")
            if message["role"] not in ("user", "tool") or not isinstance(content, str):
                continue
            has_task = any(line.startswith(TASK_LINE) for line in content.splitlines())
            if index == first_user and not has_task:
                continue
            shorter, saved = self._cut_lines(content, excess)
            messages[index] = {**message, "content": shorter}
            excess -= saved
        return messages

    def _cut_lines(self, content: str, excess: int) -> tuple[str, int]:
        """Drop lines from the middle outwards until `excess` tokens are saved or only protected lines are left."""
        lines = content.splitlines()
        cost = [len(self._tokenizer(line + "\n", add_special_tokens=False)["input_ids"]) for line in lines]
        middle = len(lines) / 2
        free = [i for i, line in enumerate(lines) if not line.startswith(TASK_LINE)]
        dropped: set[int] = set()
        saved = -8  # the note that replaces them, and tokens that merge at the seams
        for i in sorted(free, key=lambda i: abs(i - middle)):
            if saved >= excess:
                break
            dropped.add(i)
            saved += cost[i]
        if not dropped:
            return content, 0
        kept: list[str] = []
        for i, line in enumerate(lines):
            if i not in dropped:
                kept.append(line)
            elif i - 1 not in dropped:
                kept.append("[…]")
        return "\n".join(kept), max(0, saved)
