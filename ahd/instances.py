"""Instances of the problems, drawn again from the seeds of the published data sets: bit for bit, so no data files are needed.

The sets are those of the TSP, knapsack, CVRP and bin packing problems that ReEvo, EoH and Agentic-ESOpt share. Each comes
from numpy's legacy generator, one split after another, so a later split is drawn by drawing the earlier ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from coevo.errors import ConfigError
from coevo.problem import Split

Floats = NDArray[np.float64]
Array = NDArray[Any]
Key = tuple[Split, int]

BIN_CAPACITY = 150
VEHICLE_CAPACITY = 50


def knapsack_capacity(items: int) -> float:
    """12.5 for 50 items, 25 for more."""
    return 12.5 if items == 50 else 25.0


@dataclass(frozen=True, slots=True)
class Stream:
    """Splits drawn in order from one generator: how many instances of a split and size, and how some are drawn.

    A key in `aside` is drawn from a copy of the generator, which does not move it on.
    """

    seed: int
    counts: Mapping[Key, int]
    draw: Callable[[RandomState, int, int], Array]
    aside: frozenset[Key] = frozenset()

    def instances(self, wanted: Key) -> Array:
        generator = RandomState(self.seed)
        for key, count in self.counts.items():
            if key == wanted:
                return self.draw(generator, count, key[1])
            if key not in self.aside:
                self.draw(generator, count, key[1])
        raise KeyError(wanted)


def _pairs(generator: RandomState, count: int, size: int) -> Floats:
    """Points in the unit square, or items' weights and values: (count, size, 2)."""
    return generator.rand(count, size, 2)


def _deliveries(generator: RandomState, count: int, size: int) -> Floats:
    """Rows (demand 1..9, x, y), the first of them the depot in the middle: (count, size + 1, 3)."""
    rows = np.empty((count, size + 1, 3))
    rows[:, 0] = 0.0, 0.5, 0.5
    for instance in rows:
        instance[1:, 1:] = generator.rand(size, 2)
        instance[1:, 0] = generator.randint(1, 10, size=size)
    return rows


def _demands(generator: RandomState, count: int, size: int) -> NDArray[np.int64]:
    """Sizes 20..100 of items to pack: (count, size)."""
    return generator.randint(20, 101, size=(count, size)).astype(np.int64)


_VAL_SIZES = (20, 50, 100)
_COLONY_COUNTS: Mapping[Key, int] = {
    **{("val", size): 64 for size in _VAL_SIZES},
    **{("test", size): 64 for size in _VAL_SIZES},
}
_SMALL_TEST = frozenset[Key]({("test", 20)})

STREAMS: Mapping[str, tuple[Stream, ...]] = {
    "construct_tsp": (
        Stream(
            1234,
            {
                ("train", 50): 64,
                **{("val", size): 64 for size in (20, 50, 100, 200)},
                **{("test", size): 1000 for size in (20, 50, 100, 200)},
            },
            _pairs,
        ),
    ),
    "construct_kp": (
        Stream(
            3333,
            {
                ("train", 100): 64,
                **{("val", size): 64 for size in (50, 100, 200)},
                **{("test", size): 1000 for size in (50, 100, 200, 500)},
            },
            _pairs,
        ),
    ),
    "aco_tsp": (Stream(1234, {("train", 50): 5, **_COLONY_COUNTS}, _pairs, _SMALL_TEST),),
    "aco_cvrp": (Stream(1234, {("train", 50): 10, **_COLONY_COUNTS}, _deliveries, _SMALL_TEST),),
    "aco_bpp": (
        Stream(5, {("train", 500): 5}, _demands),
        Stream(3, {("val", size): 64 for size in (120, 500, 1000)}, _demands),
        Stream(4, {("test", size): 64 for size in (500, 1000)}, _demands),
    ),
}


def counts(family: str) -> dict[Key, int]:
    """How many instances of each split and size a family has."""
    return {key: count for stream in STREAMS[family] for key, count in stream.counts.items()}


@lru_cache(maxsize=32)
def instances(family: str, split: Split, size: int) -> Array:
    """The instances of a split, read-only. ConfigError where there are none of that size."""
    for stream in STREAMS[family]:
        if (split, size) in stream.counts:
            drawn = stream.instances((split, size))
            drawn.flags.writeable = False
            return drawn
    sizes = ", ".join(str(known) for of, known in counts(family) if of == split)
    raise ConfigError(f"{family} has no {split} instances of size {size}", hint=f"choose among {sizes}")


def distances(points: Floats) -> Floats:
    """Euclidean distances between the points of each instance: (…, nodes, 2) → (…, nodes, nodes)."""
    difference = points[..., :, None, :] - points[..., None, :, :]
    lengths: Floats = np.sqrt((difference * difference).sum(axis=-1))
    return lengths
