"""Follows the grammars of a batch: which tokens may come next, for all sequences of a step at once, and which must."""

from __future__ import annotations

from collections.abc import Container, Sequence

import torch

from coevo.engine.grammar import GrammarCompiler
from coevo.errors import EngineError

_BITS = 32  # tokens a word of llguidance's masks


class GrammarMasks:
    """Where each sequence of a batch stands in its grammar; sequences without one are left alone."""

    def __init__(self, compiler: GrammarCompiler, grammars: Sequence[str]) -> None:
        self._compiler = compiler
        self._matchers = {i: compiler.matcher(grammar) for i, grammar in enumerate(grammars) if grammar}

    def apply(self, logits: torch.Tensor, rows: Sequence[int], ended: Container[int]) -> None:
        """Set the logits [S, vocab] of tokens that cannot follow to −∞, in place. Row k belongs to sequence `rows[k]`."""
        at = [k for k, i in enumerate(rows) if i in self._matchers and i not in ended]
        if not at:
            return
        words = -(-self._compiler.vocabulary // _BITS)
        packed = torch.zeros((len(at), words), dtype=torch.int32)
        self._compiler.executor.unsafe_compute_mask_ptr(
            [(self._matchers[rows[k]], row) for row, k in enumerate(at)],
            packed.data_ptr(),
            words * packed.element_size(),
            len(at),
        )
        octets = packed.view(torch.uint8).to(logits.device)
        bits = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8, device=logits.device)
        barred = (octets[:, :, None] & bits).eq_(0).view(torch.bool).flatten(1)[:, : logits.shape[1]]
        if len(at) == len(rows):
            logits.masked_fill_(barred, -torch.inf)
        else:
            index = torch.tensor(at, device=logits.device)
            logits[index] = logits[index].masked_fill_(barred, -torch.inf)

    def take(self, i: int, token: int) -> bool:
        """Sequence i goes on with `token`. True when its grammar is complete: nothing can follow.

        Raises EngineError when the grammar cannot be followed: it is too large for llguidance's limits, or has a dead end.
        """
        matcher = self._matchers.get(i)
        if matcher is None:
            return False
        if not matcher.consume_token(token) or matcher.is_error():
            raise EngineError(
                f"the grammar could not be followed: {matcher.get_error() or 'no token can come next'}",
                hint="simplify the grammar",
            )
        return matcher.is_stopped()

    def opening(self, i: int, most: int) -> list[int]:
        """The tokens that every text of sequence i's grammar begins with, up to `most`; it goes on after them.

        Not all of them where the grammar has one text only: there is something to pick in every sequence.
        """
        matcher = self._matchers.get(i)
        forced: list[int] = matcher.compute_ff_tokens()[:most] if matcher is not None else []
        if matcher is None or not forced or not matcher.consume_tokens(forced):
            return []
        if matcher.is_stopped():
            matcher.rollback(1)
            forced.pop()
        return forced

    def rest(self, i: int, most: int) -> list[int]:
        """All tokens up to the end, where there is one way only to get there, of at most `most` tokens; else none."""
        matcher = self._matchers.get(i)
        forced: list[int] = matcher.compute_ff_tokens() if matcher is not None else []
        if matcher is None or not 0 < len(forced) <= most or not matcher.consume_tokens(forced):
            return []
        if matcher.is_stopped():
            return forced
        matcher.rollback(len(forced))
        return []
