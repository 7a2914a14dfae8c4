"""Seeds derived from names, so that nothing hides in the state of a random generator."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from the text of `parts`, e.g. `derive_seed(run_seed, "member", generation, index)`.

    The same parts give the same seed on every machine and Python version.
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
