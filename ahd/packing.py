"""Bin packing by many greedy constructions at once: all constructions of an instance in one array.

A candidate's matrix says how well each two items go together. A bin is filled with the items that go best with what is in
it, on average, until nothing fits; each bin begins with a random item.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

CONSTRUCTIONS = 200
ANTS = 20
ITERATIONS = 15
KEPT = np.float32(0.95)
AFFINITY_FLOOR = np.float32(1e-6)
AFFINITY_CEILING = np.float32(1e6)
BASE_CHANCE = np.float32(1e-5)
"""Of an item that goes with nothing in the bin (ant colony)."""


def scaled(affinity: Singles) -> Singles:
    """Clipped to [1e-6, 1e6] and divided by the maximum; at least 1e-6."""
    clipped = np.clip(affinity, AFFINITY_FLOOR, AFFINITY_CEILING)
    shares: Singles = np.maximum(clipped / clipped.max(), AFFINITY_FLOOR)
    return shares


def sampled(demands: Indices, capacity: int, affinity: Singles, generator: Generator) -> int:
    """The fewest bins of `CONSTRUCTIONS` constructions, in which the best item comes next (the first of equals).

    The random items at the beginning of bins follow one random order of the items a construction.
    """
    order = generator.random((CONSTRUCTIONS, len(demands)), dtype=np.float32)
    return int(_construct(demands, capacity, affinity, order, None).max(axis=1).min()) + 1


def colony(demands: Indices, capacity: int, affinity: Singles, generator: Generator) -> int:
    """The fewest bins an ant colony finds in which the next item is drawn in proportion to pheromone times affinity.

    20 ants, 15 iterations, evaporation to 0.95; every ant lays its fitness (mean squared fill of its bins) / 20 on the pairs
    of items that share a bin.
    """
    fewest = len(demands)
    pheromone = np.ones_like(affinity)
    for _ in range(ITERATIONS):
        order = generator.random((ANTS, len(demands)), dtype=np.float32)
        bins = _construct(demands, capacity, pheromone * affinity, order, generator)
        fewest = min(fewest, int(bins.max(axis=1).min()) + 1)
        pheromone *= KEPT
        for of_item in bins:
            fills = np.bincount(of_item, weights=demands) / capacity
            _deposit(pheromone, of_item, np.float32((fills * fills).mean() / ANTS))
    return fewest


def _deposit(pheromone: Singles, of_item: Indices, amount: np.float32) -> None:
    """Add to the pheromone of every two items in the same bin."""
    items = np.argsort(of_item, kind="stable")
    for apart in range(1, int(np.bincount(of_item).max())):
        together = of_item[items[apart:]] == of_item[items[:-apart]]
        first, second = items[:-apart][together], items[apart:][together]
        pheromone[first, second] += amount
        pheromone[second, first] += amount


def _construct(
    demands: Indices, capacity: int, affinity: Singles, order: Singles, generator: Generator | None
) -> Indices:
    """The bin of every item, for one construction a row of `order`: (constructions, items).

    A bin begins with the item of the highest `order` that is left; `order` is used up. With a generator the other items are
    drawn in proportion to their score, else the best is taken.
    """
    rows, items = order.shape
    row = np.arange(rows)
    need = np.repeat(demands.astype(np.int16)[None], rows, axis=0)
    placed = np.int16(capacity + 1)
    room = np.zeros(rows, np.int16)
    within = np.zeros(rows, np.float32)
    pull = np.zeros((rows, items), np.float32)
    bin_now = np.full(rows, -1)
    bins = np.empty((rows, items), np.int64)
    fits = np.empty((rows, items), bool)
    score = np.empty((rows, items), np.float32)
    for _ in range(items):
        np.less_equal(need, room[:, None], out=fits)
        if generator is None:
            np.multiply(pull, fits, out=score)
        else:
            np.divide(pull, np.maximum(within, 1)[:, None], out=score)
            score += BASE_CHANCE
            score *= fits
        item = score.argmax(axis=1) if generator is None else _drawn(score, generator)
        full = np.flatnonzero(score[row, item] <= 0)
        if len(full):
            item[full] = order[full].argmax(axis=1)
            bin_now[full] += 1
            room[full] = capacity
            pull[full] = 0
            within[full] = 0
        bins[row, item] = bin_now
        room -= need[row, item]
        need[row, item] = placed
        order[row, item] = -1
        pull += affinity.take(item, axis=0)
        within += 1
    return bins


def _drawn(score: Singles, generator: Generator) -> Indices:
    """A column of each row, in proportion to its score; the first where all are 0."""
    reached = score.cumsum(axis=1)
    total = reached[:, -1]
    target = generator.random(len(score), dtype=np.float32) * total
    target = np.minimum(target, np.nextafter(total, np.float32(0)))
    drawn: Indices = (reached > target[:, None]).argmax(axis=1)
    return drawn
