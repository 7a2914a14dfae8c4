"""EoH's operators (arXiv 2401.02051): what each is given and how many children it makes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """`START` is a heuristic a person gave, `I1` one written from scratch; `M3` came with a later release of EoH."""

    START = "start"
    I1 = "i1"
    E1 = "e1"
    E2 = "e2"
    M1 = "m1"
    M2 = "m2"
    M3 = "m3"

    @property
    def crosses(self) -> bool:
        """Whether it is given several parents."""
        return self in (Operator.E1, Operator.E2)

    @property
    def mutates(self) -> bool:
        return self in (Operator.M1, Operator.M2, Operator.M3)


@dataclass(frozen=True, slots=True)
class Turn:
    """One application of an operator: its place in the run, and how many children it makes.

    `generation` 0 is the start of the search; `number` counts the turns of the run from 0; `offset` is how many children the
    earlier turns of the same generation made.
    """

    number: int
    generation: int
    operator: Operator
    children: int
    offset: int = 0
