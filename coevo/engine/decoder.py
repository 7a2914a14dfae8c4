"""Runs one batch of prompts to its end, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coevo.engine import packed, sampling
from coevo.engine.base import FinishReason, Sampling
from coevo.engine.masks import GrammarMasks
from coevo.engine.padded import PaddedRunner
from coevo.errors import EngineError

_COMPACT = 0.75  # drop finished sequences once the living ones are at most this share of the batch


@dataclass(frozen=True, slots=True)
class Written:
    """An ended sequence: its text without what ended it, and how many tokens it has."""

    text: str
    tokens: int
    reason: FinishReason


class Decoder:
    """Picks tokens, watches for stops, drops finished sequences. `tell` hears of each sequence when it ends.

    What a grammar leaves no choice about is not picked: the tokens that every answer begins with are encoded with the prompt,
    and where the rest of an answer is certain, and short enough, it is written down without the model. Not with `stop` strings.
    """

    def __init__(
        self,
        tokenizer: Any,
        stop_ids: Sequence[int],
        samplings: Sequence[Sampling],
        prompts: Sequence[packed.Prompt],
        masks: GrammarMasks,
        tell: Callable[[int, Written], None],
        closed: Callable[[], bool],
    ) -> None:
        self._tokenizer = tokenizer
        self._stop_ids = frozenset(stop_ids)
        self._samplings = samplings
        self._prompts = prompts
        self._masks = masks
        self._tell = tell
        self._closed = closed
        self._outputs: list[list[int]] = [[] for _ in prompts]
        self._ended: set[int] = set()

    def run(self, runner: packed.PackedRunner | PaddedRunner) -> None:
        """Raises EngineError when the engine is `closed` before the last sequence has ended."""
        opened = [self._opened(i) for i in range(len(self._prompts))]
        room = max(s.max_tokens - len(o) for s, o in zip(self._samplings, self._outputs, strict=True))
        logits, rows = runner.start(opened, room)  # rows[k]: which sequence logits[k] speaks of
        while True:
            if self._closed():
                raise EngineError("the engine was closed while it was writing")
            self._masks.apply(logits, rows, self._ended)
            tokens = sampling.pick(
                logits,
                [self._samplings[i] for i in rows],
                [self._prompts[i].tokens for i in rows],
                [self._outputs[i] for i in rows],
            )
            for i, token in zip(rows, tokens, strict=True):
                if i not in self._ended:
                    self._take(i, token)
            living = [k for k, i in enumerate(rows) if i not in self._ended]
            if not living:
                break
            keep = None
            if len(living) <= _COMPACT * len(rows):
                keep = living
                rows, tokens = [rows[k] for k in living], [tokens[k] for k in living]
            logits = runner.advance(tokens, keep)
        runner.finish()

    def _opened(self, i: int) -> packed.Prompt:
        """The prompt with the tokens its answer must begin with; the last of an answer is always picked."""
        prompt, wanted = self._prompts[i], self._samplings[i]
        if wanted.stop:
            return prompt
        opening = self._masks.opening(i, wanted.max_tokens - 1)
        self._outputs[i] = opening
        return replace(prompt, tokens=(*prompt.tokens, *opening))

    def _take(self, i: int, token: int) -> None:
        output, wanted = self._outputs[i], self._samplings[i]
        output.append(token)
        complete = self._masks.take(i, token)
        if token in self._stop_ids:
            self._end(i, self._text(output[:-1]), "stop")
            return
        if wanted.stop:
            text = self._text(output)
            found = [at for stop in wanted.stop if (at := text.find(stop)) >= 0]
            if found:
                self._end(i, text[: min(found)], "stop")
                return
        rest = [] if complete or wanted.stop else self._masks.rest(i, wanted.max_tokens - len(output))
        if complete or rest:
            output += rest
            self._end(i, self._text(output), "stop")
        elif len(output) >= wanted.max_tokens:
            self._end(i, self._text(output), "length")

    def _end(self, i: int, text: str, reason: FinishReason) -> None:
        self._ended.add(i)
        self._tell(i, Written(text, len(self._outputs[i]), reason))

    def _text(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text
