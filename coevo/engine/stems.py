"""Which beginnings of prompts are worth encoding once: the skill and its examples, which many prompts share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from itertools import pairwise

Tokens = tuple[int, ...]

_SHORTEST = 16
_KEPT = 64


class StemFinder:
    """Remembers stems across calls, so that a lone request also finds the one it shares with earlier ones.

    A stem ends behind a special token (the border of a message), so that pages which begin alike do not make new stems.
    """

    def __init__(self, borders: Collection[int]) -> None:
        self._borders = frozenset(borders)
        self._known: OrderedDict[Tokens, None] = OrderedDict()

    def lengths(self, prompts: Sequence[Tokens]) -> list[int]:
        """For each prompt how many of its first tokens form a shared stem; 0 where there is none."""
        for stem in self._shared(sorted(set(prompts))):
            self._known[stem] = None
            self._known.move_to_end(stem)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        found = {prompt: self._longest(prompt) for prompt in set(prompts)}
        return [found[prompt] for prompt in prompts]

    def _shared(self, distinct: Sequence[Tokens]) -> list[Tokens]:
        """Beginnings that enough of the sorted prompts share: three, or both of two."""
        stems = {self._common(a, b) for a, b in pairwise(distinct)}
        enough = min(3, len(distinct))
        return [
            stem
            for stem in stems
            if len(stem) >= _SHORTEST and sum(prompt[: len(stem)] == stem for prompt in distinct) >= enough
        ]

    def _common(self, a: Tokens, b: Tokens) -> Tokens:
        length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        length = min(length, len(a) - 1, len(b) - 1)
        while length and a[length - 1] not in self._borders:
            length -= 1
        return a[:length]

    def _longest(self, prompt: Tokens) -> int:
        fitting = [len(s) for s in self._known if len(s) < len(prompt) and prompt[: len(s)] == s]
        return max(fitting, default=0)
