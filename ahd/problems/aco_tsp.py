"""aco_tsp: how desirable edges are to an ant colony that looks for short tours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ahd import aco
from ahd.base import BundledProblem
from ahd.instances import counts, distances, instances
from coevo.problem import Argument, Expressions, Signature, Split
from coevo.sandbox import Candidate, decisions

SEED = 1234

TEMPLATE = """\
import numpy as np
from numpy import exp, sqrt, square


def heuristics(distance_matrix):
    distance = distance_matrix
    away = distance + np.diag(np.full(len(distance), np.inf))
    mean = (distance.sum(axis=1) - 1) / (len(distance) - 1)
    mean_from, mean_to = mean[:, None], mean[None, :]
    nearest_from, nearest_to = away.min(axis=1)[:, None], away.min(axis=0)[None, :]
    rank = away.argsort(axis=1).argsort(axis=1) + 1.0
    with np.errstate(all="ignore"):
        try:
            score = {expression}  # edges of larger scores are likelier
        except (ZeroDivisionError, OverflowError):
            score = 0.0
        score = score + np.zeros_like(distance)
    return np.clip(np.nan_to_num(score, nan=0.0), 0.0, 1e20)
"""


class AcoTsp(BundledProblem):
    """The objective of an instance is the best tour of 30 ants in 100 iterations.

    Random numbers are seeded by `seed`, size and number of the instance; another `seed` is another draw of the same
    experiment.
    """

    name = family = "aco_tsp"
    goal = (
        "Guide an ant colony to short round trips through points in the unit square. Ants go from point to point at random, "
        "with chances proportional to pheromone times the desirability of the edge. The function gives the desirability of "
        "all edges. The average length of the best trip found is minimised."
    )
    signature = Signature(
        "heuristics",
        (Argument("distance_matrix", "2-D float array, distances between all points, 1 on the diagonal"),),
        Argument(
            "desirability", "2-D float array of the same shape; the larger an entry, the likelier the edge"
        ),
    )
    notes = "All entries must be finite. Entries below 1e-9, negative ones too, count as 1e-9. Only the ratios within a row matter."
    seed_code = """\
def heuristics(distance_matrix):
    return 1.0 / distance_matrix
"""
    expressions = Expressions(
        {
            "distance": "length of the edge",
            "mean_from": "mean distance of the edge's first point to all others",
            "mean_to": "mean distance of the edge's second point to all others",
            "nearest_from": "distance of the first point to its nearest neighbour",
            "nearest_to": "distance of the second point to its nearest neighbour",
            "rank": "1 if the second point is the nearest to the first, 2 if it is the second nearest, and so on",
        },
        TEMPLATE,
        "the larger the value of an edge, the likelier an ant takes it; negative values count as 0",
    )
    counts = counts("aco_tsp")
    unit = "points"

    def __init__(self, seed: int = SEED) -> None:
        self.seed = seed

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        size = self.size(split, size)
        length = matrices(instances(self.name, split, size))
        answers = await candidate.map_columns(length, calls=len(length))
        shape = length.shape[1:]
        wanted = [decisions.matrix(answer, shape, f"instance {i}") for i, answer in enumerate(answers)]
        return await asyncio.to_thread(self.best, length, np.stack(wanted))

    def best(self, length: NDArray[np.float64], desirability: NDArray[np.float32]) -> list[float]:
        """The best tour lengths under these desirabilities: (instances, n, n) twice."""
        count, nodes, _ = length.shape
        desirability = np.maximum(desirability, aco.HEURISTIC_FLOOR)
        draws = [aco.NumpyDraws(self.seed + nodes * 1000 + i) for i in range(count)]
        found = [
            aco.tours(length[part], desirability[part], draws[part]) for part in aco.batches(count, nodes)
        ]
        return [float(value) for value in np.concatenate(found)]


def matrices(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances with 1 on the diagonal: (instances, n, 2) → (instances, n, n)."""
    length = distances(points)
    nodes = np.arange(points.shape[1])
    length[:, nodes, nodes] = 1.0
    return length


def problem(seed: int = SEED) -> AcoTsp:
    return AcoTsp(seed)
