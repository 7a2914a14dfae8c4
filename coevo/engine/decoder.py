"""Runs one batch of prompts to its end, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coevo.engine import packed, sampling
from coevo.engine.base import FinishReason, Sampling
from coevo.engine.masks import GrammarMasks
from coevo.engine.padded import PaddedRunner
from coevo.errors import EngineError

_COMPACT = 0.75  # drop finished sequences once the living ones are at most this share of the batch


@dataclass(frozen=True, slots=True)
class Written:
    """An ended sequence: its text without what ended it, and how many tokens were picked."""

    text: str
    tokens: int
    reason: FinishReason


class Decoder:
    """Picks tokens, watches for stops, drops finished sequences. `tell` hears of each sequence when it ends."""

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
        room = max(s.max_tokens for s in self._samplings)
        logits, rows = runner.start(self._prompts, room)  # rows[k]: which sequence logits[k] speaks of
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
        if complete:
            self._end(i, self._text(output), "stop")
        elif len(output) >= wanted.max_tokens:
            self._end(i, self._text(output), "length")

    def _end(self, i: int, text: str, reason: FinishReason) -> None:
        self._ended.add(i)
        self._tell(i, Written(text, len(self._outputs[i]), reason))

    def _text(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text
