"""Schedules of σ and α over generations, with exact end points."""

from __future__ import annotations

import math
from typing import Literal

ScheduleName = Literal["constant", "linear", "cosine"]


def scheduled(name: ScheduleName, first: float, last: float, index: int, total: int) -> float:
    """The value at generation `index` of `total` (0 … total − 1).

    Generation 0 has exactly `first` and generation total − 1 exactly `last`, bit for bit; `constant` ignores `last`,
    and a run of one generation has only `first`. `cosine` is half a period: flat at both ends.
    Raises ValueError for an index outside the run.
    """
    if not 0 <= index < total:
        raise ValueError(f"generation {index} is outside a run of {total}")
    if name == "constant" or index == 0:
        return first
    if index == total - 1:
        return last
    progress = index / (total - 1)
    if name == "cosine":
        progress = (1 - math.cos(math.pi * progress)) / 2
    return first + (last - first) * progress
