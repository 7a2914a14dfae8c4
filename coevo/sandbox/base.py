"""Vocabulary of the sandbox: limits, and the ways in which a candidate can fail."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum, auto

from coevo.errors import CoevoError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one candidate may use.

    `cpu_s` counts processor time from the start of the process and is enforced in whole seconds, rounded
    up. `wall_s` counts the time the driver waits for the candidate, so the driver's own work does not
    shorten it. `memory_mb` is address space on top of what Python and numpy take. `file_mb` bounds each
    file it writes and, where its directory is a file system of its own, all of them together. Output
    beyond `output_kb` is dropped; a reply beyond `reply_mb` is refused.
    """

    cpu_s: float = 30.0
    wall_s: float = 120.0
    memory_mb: int = 1024
    file_mb: int = 1
    output_kb: int = 64
    reply_mb: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name} must be above 0, not {getattr(self, field.name)}")


class Category(StrEnum):
    """Why a candidate has no score."""

    PARSE_ERROR = auto()
    """No code in the model's reply."""
    SYNTAX_ERROR = auto()
    MISSING_FUNCTION = auto()
    WRONG_SIGNATURE = auto()
    IMPORT_ERROR = auto()
    EXCEPTION = auto()
    TIMEOUT = auto()
    """The driver waited longer than `wall_s`."""
    CPU = auto()
    MEMORY = auto()
    KILLED = auto()
    """It died of a signal or ended its own process."""
    FORBIDDEN = auto()
    """It wanted a file, the network, a process or a system call that it may not have."""
    BAD_REPLY = auto()
    """What the function returned is not plain data, or is too large."""
    INFEASIBLE = auto()
    """A decision that the problem does not allow."""
    WRONG_SHAPE = auto()
    NON_FINITE = auto()
    IMPLAUSIBLE = auto()
    """Better than a proven bound."""


class CandidateError(CoevoError):
    """A candidate failed. `message` is one sentence for the model and for a person; `output` is what it
    printed."""

    def __init__(self, category: Category, message: str, *, output: str = "") -> None:
        super().__init__(message)
        self.category = category
        self.output = output
