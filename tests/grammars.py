"""Following a grammar without a model: tokens are bytes."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import llguidance


class ByteTokens:
    """A tokenizer whose tokens are bytes, for llguidance."""

    eos_token_id, bos_token_id = 256, None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


@lru_cache(maxsize=256)
def _start(grammar: str) -> Any:
    tokens = llguidance.LLTokenizer(llguidance.TokenizerWrapper(ByteTokens()), n_vocab=257)
    matcher = llguidance.LLMatcher(tokens, llguidance.LLMatcher.grammar_from_lark(grammar))
    assert not matcher.get_error()
    assert not matcher.get_grammar_warnings()
    return matcher


def accepted(grammar: str, text: str) -> bool:
    """Whether the whole text is of the grammar."""
    follower = _start(grammar).deep_copy()
    return bool(follower.try_consume_tokens(list(text.encode())) == len(text) and follower.is_accepting())


def walk(grammar: str, rng: random.Random) -> str:
    """A text of the grammar, byte by byte at random; it comes to an end soon."""
    follower, written = _start(grammar).deep_copy(), bytearray()
    while not follower.is_stopped():
        mask = follower.compute_bitmask()
        token = rng.choice([token for token in range(257) if mask[token // 8] >> (token % 8) & 1])
        assert follower.consume_token(token)
        if token == ByteTokens.eos_token_id:
            break
        written.append(token)
        assert len(written) < 150
    return written.decode()
