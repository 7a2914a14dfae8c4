"""Means with intervals: the percentile bootstrap, from a seed, so that a report prints the same numbers twice."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval over `n` independent units (episodes, or pairs of them)."""

    mean: float
    lower: float
    upper: float
    n: int


def bootstrap(
    columns: Sequence[Sequence[float]], *, confidence: float = 0.95, seed: int = 0, resamples: int = RESAMPLES
) -> list[Estimate]:
    """The mean of each column with a percentile bootstrap interval; rows are resampled whole.

    Columns of equal length share the same resamples, so paired columns stay paired. An interval over identical
    values has no width: with few units it says less than it seems to. Raises ValueError for empty or ragged columns.
    """
    n = len(columns[0])
    if not n or any(len(column) != n for column in columns):
        raise ValueError("bootstrap needs columns of one length, with at least one row")
    generator = random.Random(seed)
    rows = range(n)
    means: list[list[float]] = [[] for _ in columns]
    for _ in range(resamples):
        drawn = generator.choices(rows, k=n)
        for column, collected in zip(columns, means, strict=True):
            collected.append(sum(map(column.__getitem__, drawn)) / n)
    tail = (1 - confidence) / 2
    estimates = []
    for column, collected in zip(columns, means, strict=True):
        collected.sort()
        lower, upper = quantile(collected, tail), quantile(collected, 1 - tail)
        estimates.append(Estimate(math.fsum(column) / n, lower, upper, n))
    return estimates


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, linearly interpolated."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
