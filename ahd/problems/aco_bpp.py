"""aco_bpp: how well two items go together in a bin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ahd import packing
from ahd.base import BundledProblem
from ahd.instances import BIN_CAPACITY, counts, instances
from coevo.errors import ConfigError
from coevo.problem import Argument, Expressions, Signature, Split
from coevo.sandbox import Candidate, CandidateError, Category, decisions

Mode = Literal["sample", "colony"]

SEED = 20_001_234

TEMPLATE = """\
import numpy as np
from numpy import exp, sqrt, square


def heuristics(demand, capacity):
    share = demand / capacity
    size_from, size_to = share[:, None], share[None, :]
    together = size_from + size_to
    with np.errstate(all="ignore"):
        try:
            score = {expression}  # pairs of larger scores go together
        except (ZeroDivisionError, OverflowError):
            score = 0.0
        score = score + np.zeros((len(demand), len(demand)))
    return np.clip(np.nan_to_num(score, nan=0.0), 1e-6, 1e6)
"""


class AcoBpp(BundledProblem):
    """The objective of an instance is the smallest number of bins found.

    `mode="sample"` makes 200 greedy constructions that differ in the item each bin begins with: the published scorer.
    `mode="colony"` (named aco_bpp_colony) is an ant colony of 20 ants and 15 iterations.
    """

    goal = (
        "Pack items of different sizes into as few bins of equal capacity as possible. A bin begins with a random item and is "
        "filled with the items that go best with those already in it, on average, until nothing fits. The function gives how "
        "well each two items go together. The average number of bins of the best packing found is minimised."
    )
    signature = Signature(
        "heuristics",
        (
            Argument("demand", "1-D integer array, sizes of the n items"),
            Argument("capacity", "int, capacity of a bin"),
        ),
        Argument(
            "affinity",
            "float array of shape (n, n); entry [i, j]: how much item j is wanted in a bin that holds item i",
        ),
    )
    notes = "All entries must be finite and the largest above 0. Entries are clipped to [1e-6, 1e6] and divided by the largest."
    seed_code = """\
import numpy as np


def heuristics(demand, capacity):
    return np.tile(demand / demand.max(), (len(demand), 1))
"""
    expressions = Expressions(
        {
            "size_from": "size of the item in the bin, as a share of the capacity",
            "size_to": "size of the item to add, as a share of the capacity",
            "together": "size_from + size_to",
        },
        TEMPLATE,
        "the larger the value, the sooner the item to add joins the item in the bin",
    )
    counts = counts("aco_bpp")
    unit = "items"
    family = "aco_bpp"
    growth = 2

    def __init__(self, mode: Mode = "sample", seed: int = SEED) -> None:
        if mode not in ("sample", "colony"):
            raise ConfigError(f"bins cannot be packed by {mode!r}", hint='write "sample" or "colony"')
        self.name = "aco_bpp" if mode == "sample" else "aco_bpp_colony"
        self.mode = mode
        self.seed = seed

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        demands = instances(self.family, split, self.size(split, size)).astype(np.int64)
        count, items = demands.shape
        found: list[float] = []
        for i in range(count):
            (answer,) = await candidate.map([(demands[i], BIN_CAPACITY)])
            affinity = decisions.matrix(answer, (items, items), f"instance {i}")
            if affinity.max() <= 0:
                raise CandidateError(
                    Category.INFEASIBLE,
                    f"instance {i}: the largest entry is {affinity.max():g}; it must be above 0",
                )
            found.append(await asyncio.to_thread(self.best, demands[i], affinity, i))
        return found

    def best(self, demands: NDArray[np.int64], affinity: NDArray[np.float32], index: int) -> float:
        """The fewest bins found for one instance."""
        generator = np.random.default_rng(self.seed + len(demands) * 1000 + index)
        pack = packing.sampled if self.mode == "sample" else packing.colony
        return float(pack(demands, BIN_CAPACITY, packing.scaled(affinity), generator))


def problem(mode: Mode = "sample", seed: int = SEED) -> AcoBpp:
    return AcoBpp(mode, seed)
