"""A sandbox for programs that nobody has read: a fresh process each, decisions out, nothing else.

The driver of a problem stays in its own process. It asks the candidate's function in rounds, or has whole games of
rounds played beside it and repeats them with the answers; checks and scoring never depend on the candidate's process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coevo.sandbox.base import CandidateError, Category, Limits
from coevo.sandbox.candidate import Candidate
from coevo.sandbox.pool import Sandbox, isolation

if TYPE_CHECKING:
    from coevo.sandbox import decisions
    from coevo.sandbox.columns import Ragged, Tuples

__all__ = [
    "Candidate",
    "CandidateError",
    "Category",
    "Limits",
    "Ragged",
    "Sandbox",
    "Tuples",
    "decisions",
    "isolation",
]


def __getattr__(name: str) -> Any:
    if name in ("Ragged", "Tuples"):  # their module needs numpy
        from coevo.sandbox import columns

        return getattr(columns, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
