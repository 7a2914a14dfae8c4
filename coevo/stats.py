"""Means with intervals: the percentile bootstrap, from a seed, so that a report prints the same numbers twice."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval over `n` independent units (tasks, or pairs of episodes on them)."""

    mean: float
    lower: float
    upper: float
    n: int


def bootstrap(
    columns: Sequence[Sequence[float]],
    *,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[Estimate]:
    """The mean of each column with a percentile bootstrap interval; rows are resampled whole.

    Columns of equal length share the same resamples, so paired columns stay paired. Rows with the same entry in
    `clusters` (repeats of one task, say) are not independent and are drawn together. An interval over identical
    values has no width: with few units it says less than it seems to. Raises ValueError for empty or ragged columns.
    """
    n = len(columns[0])
    if not n or any(len(column) != n for column in columns):
        raise ValueError("bootstrap needs columns of one length, with at least one row")
    generator = random.Random(seed)
    members: dict[Hashable, list[int]] = {}
    for row in range(n):
        members.setdefault(row if clusters is None else clusters[row], []).append(row)
    units = list(members.values())
    sums = [[math.fsum(column[row] for row in unit) for unit in units] for column in columns]
    sizes = [len(unit) for unit in units]
    rows = range(len(units))
    means: list[list[float]] = [[] for _ in columns]
    for _ in range(resamples):
        drawn = generator.choices(rows, k=len(units))
        size = sum(map(sizes.__getitem__, drawn))
        for column, collected in zip(sums, means, strict=True):
            collected.append(sum(map(column.__getitem__, drawn)) / size)
    tail = (1 - confidence) / 2
    estimates = []
    for values, collected in zip(columns, means, strict=True):
        collected.sort()
        lower, upper = quantile(collected, tail), quantile(collected, 1 - tail)
        estimates.append(Estimate(math.fsum(values) / n, lower, upper, len(units)))
    return estimates


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, linearly interpolated."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
