"""aco_cvrp: how desirable edges are to an ant colony that looks for cheap delivery routes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ahd import aco
from ahd.base import BundledProblem
from ahd.instances import VEHICLE_CAPACITY, counts, instances
from ahd.problems.aco_tsp import matrices
from coevo.errors import ConfigError
from coevo.problem import Argument, Expressions, Signature, Split
from coevo.sandbox import Candidate, decisions

SEED = 10_001_234

TEMPLATE = """\
import numpy as np
from numpy import exp, sqrt, square


def heuristics(distance_matrix, coordinates, demands, capacity):
    distance = distance_matrix.copy()
    distance[0, 0] = 0.0
    depot_from, depot_to = distance[:, :1], distance[:1, :]
    demand_from, demand_to = demands[:, None] / capacity, demands[None, :] / capacity
    saving = depot_from + depot_to - distance
    distance[0, 0] = 1.0
    away = distance + np.diag(np.full(len(distance), np.inf))
    rank = away.argsort(axis=1).argsort(axis=1) + 1.0
    with np.errstate(all="ignore"):
        try:
            score = {expression}  # edges of larger scores are likelier
        except (ZeroDivisionError, OverflowError):
            score = 0.0
        score = score + np.zeros_like(distance)
    return np.clip(np.nan_to_num(score, nan=0.0), 0.0, 1e20)
"""


class AcoCvrp(BundledProblem):
    """The objective of an instance is the cheapest routes of 30 ants in 100 iterations.

    `waiting="free"` scores their true length. `waiting="penalised"` (named aco_cvrp_penalised) is the published scorer,
    which adds 1 for every step that an ant waits at the depot for slower ants; its values are not lengths and can't be
    compared with those of other solvers.
    """

    goal = (
        "Guide an ant colony to cheap delivery routes. Vehicles of limited capacity start at a depot (node 0), serve customers "
        "and return. Ants go from node to node at random, with chances proportional to pheromone times the desirability of the "
        "edge. The function gives the desirability of all edges. The average length of the best routes found is minimised."
    )
    signature = Signature(
        "heuristics",
        (
            Argument("distance_matrix", "2-D float array, distances between all nodes, 1 on the diagonal"),
            Argument("coordinates", "2-D float array, one row (x, y) a node"),
            Argument("demands", "1-D float array, what each node needs, 0 for the depot"),
            Argument("capacity", "float, what a vehicle carries"),
        ),
        Argument(
            "desirability",
            "2-D float array of distance_matrix's shape; the larger an entry, the likelier the edge from row to column",
        ),
    )
    notes = (
        "All entries must be finite; negative ones count as 0. Column 0 is the return to the depot: if it is too desirable, "
        "vehicles come home half full. The ants keep to the capacity by themselves."
    )
    seed_code = """\
def heuristics(distance_matrix, coordinates, demands, capacity):
    return 1.0 / distance_matrix
"""
    expressions = Expressions(
        {
            "distance": "length of the edge",
            "depot_from": "distance of the edge's first node to the depot",
            "depot_to": "distance of the edge's second node to the depot",
            "demand_from": "demand of the first node as a share of the capacity",
            "demand_to": "demand of the second node as a share of the capacity",
            "saving": "what is saved by serving both nodes on one route: depot_from + depot_to - distance",
            "rank": "1 if the second node is the nearest to the first, 2 if it is the second nearest, and so on",
        },
        TEMPLATE,
        "the larger the value of an edge, the likelier an ant takes it; negative values count as 0",
    )
    counts = counts("aco_cvrp")
    unit = "customers"
    family = "aco_cvrp"

    def __init__(self, waiting: aco.Waiting = "free", seed: int = SEED) -> None:
        if waiting not in ("free", "penalised"):
            raise ConfigError(
                f"waiting at the depot cannot be {waiting!r}", hint='write "free" or "penalised"'
            )
        self.name = "aco_cvrp" if waiting == "free" else "aco_cvrp_penalised"
        self.waiting = waiting
        self.seed = seed

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        rows = instances(self.family, split, self.size(split, size)).astype(np.float64)
        count, nodes, _ = rows.shape
        length, points, demands = matrices(rows[..., 1:]), rows[..., 1:], rows[..., 0]
        capacities = [float(VEHICLE_CAPACITY)] * count
        answers = await candidate.map_columns(
            length, np.ascontiguousarray(points), np.ascontiguousarray(demands), capacities, calls=count
        )
        wanted = [
            decisions.matrix(answer, (nodes, nodes), f"instance {i}") for i, answer in enumerate(answers)
        ]
        return await asyncio.to_thread(self.best, length, demands, np.stack(wanted))

    def best(
        self,
        length: NDArray[np.float64],
        demands: NDArray[np.float64],
        desirability: NDArray[np.float32],
    ) -> list[float]:
        """The best route lengths under these desirabilities: arrays of (instances, …), node 0 the depot."""
        count, nodes, _ = length.shape
        desirability = np.maximum(desirability + aco.HEURISTIC_FLOOR, aco.HEURISTIC_FLOOR)
        draws = [aco.NumpyDraws(self.seed + (nodes - 1) * 1000 + i) for i in range(count)]
        found = [
            aco.deliveries(
                length[part],
                demands[part],
                float(VEHICLE_CAPACITY),
                desirability[part],
                draws[part],
                waiting=self.waiting,
            )
            for part in aco.batches(count, nodes)
        ]
        return [float(value) for value in np.concatenate(found)]


def problem(waiting: aco.Waiting = "free", seed: int = SEED) -> AcoCvrp:
    return AcoCvrp(waiting, seed)
