"""construct_tsp: choose the next node of a tour, again and again, until it is closed."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahd.base import BundledProblem
from ahd.instances import counts, distances, instances
from coevo.problem import Argument, Expressions, Signature, Split
from coevo.sandbox import Candidate, decisions

NEAREST = 50
"""At most so many candidates are offered, the nearest ones."""

TEMPLATE = """\
import numpy as np
from numpy import exp, sqrt, square


def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):
    nodes = np.atleast_2d(unvisited_nodes)
    distances = np.asarray(distance_matrix, float)
    trips, size = np.arange(len(nodes))[:, None], distances.shape[-1]

    def row(node):  # where the distances of a trip's node begin
        return size * (size * trips + node)

    near = distances.take(row(np.reshape(current_node, (-1, 1))) + nodes)
    home = distances.take(row(np.reshape(destination_node, (-1, 1))) + nodes)
    between = distances.take(row(nodes)[:, :, None] + nodes[:, None, :])
    rest = between.sum(axis=2) / max(nodes.shape[1] - 1, 1)
    each = np.arange(nodes.shape[1])
    between[:, each, each] = np.inf
    gap = between.min(axis=2)
    with np.errstate(all="ignore"):
        try:
            score = {expression}  # the node of the smallest score is next
        except (ZeroDivisionError, OverflowError):
            score = np.inf
        score = score + np.zeros(nodes.shape)
    score[np.isnan(score)] = np.inf
    chosen = nodes[trips[:, 0], score.argmin(axis=1)]
    return chosen if np.ndim(current_node) else int(chosen[0])


select_next_node.batched = True
"""


class ConstructTsp(BundledProblem):
    """Tours that begin and end at node 0. The objective of an instance is the length of its tour.

    Instances are points in the unit square. In every round each instance asks for its next node; the last one is not asked
    for. Function and instances as in the constructive TSP of EoH.
    """

    name = family = "construct_tsp"
    goal = (
        "Build a short round trip through points in the unit square, one point at a time. Given where the trip is now, the "
        "function chooses the point to visit next. The average length of the round trips is minimised."
    )
    signature = Signature(
        "select_next_node",
        (
            Argument("current_node", "int, the node the trip has reached"),
            Argument("destination_node", "int, the node it must return to in the end"),
            Argument(
                "unvisited_nodes",
                "1-D integer array, the nodes to choose among, the nearest to the current node first",
            ),
            Argument("distance_matrix", "2-D float array, distances between all nodes, 0 on the diagonal"),
        ),
        Argument("next_node", "int, one of unvisited_nodes"),
    )
    notes = (
        "next_node must be an element of unvisited_nodes, not a position in that array. There are always at least two "
        "unvisited nodes. The function is called about fifty times a trip, so it should be fast: prefer numpy to loops."
    )
    seed_code = """\
import numpy as np


def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):
    distances = distance_matrix[current_node][unvisited_nodes]
    return int(unvisited_nodes[np.argmin(distances)])
"""
    expressions = Expressions(
        {
            "near": "distance from the current node to each unvisited node",
            "home": "distance from the destination to each unvisited node",
            "rest": "mean distance of each unvisited node to the other unvisited ones",
            "gap": "distance of each unvisited node to the nearest other unvisited one",
        },
        TEMPLATE,
        "the unvisited node of the smallest value is visited next",
    )
    counts = counts("construct_tsp")
    unit = "nodes"
    growth = 3
    limits = replace(BundledProblem.limits, memory_mb=2048)

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        size = self.size(split, size)
        points = instances(self.name, split, size)
        length, neighbours = (_kept if split == "train" else _geometry)(split, size)
        routes = await candidate.play(construct, neighbours, length, NEAREST)
        row = np.arange(len(points))[:, None]
        steps = points[row, routes] - points[row, np.roll(routes, -1, axis=1)]
        return [float(value) for value in np.sqrt((steps * steps).sum(axis=2)).sum(axis=1)]


def _geometry(split: Split, size: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Distances, and the nodes in order of their distance from each node: (instances, nodes, nodes) both."""
    length = distances(instances(ConstructTsp.family, split, size))
    return length, length.argsort(axis=2, kind="stable").astype(np.int32)


_kept = lru_cache(maxsize=1)(_geometry)


def construct(
    neighbours: NDArray[np.int32], length: NDArray[np.float64], most: int
) -> Generator[tuple[Any, ...], list[Any], NDArray[np.int64]]:
    """Rounds: the order in which each instance's nodes are visited, from node 0 on: (instances, nodes)."""
    count, nodes, _ = neighbours.shape
    row = np.arange(count)
    home = np.zeros(count, np.int64)
    unvisited = np.ones((count, nodes), bool)
    unvisited[:, 0] = False
    routes = np.zeros((count, nodes), np.int64)
    for step in range(1, nodes - 1):
        here = routes[:, step - 1]
        near = neighbours[row, here].astype(np.int64)
        offered = near[np.take_along_axis(unvisited, near, axis=1)].reshape(count, -1)[:, :most]
        answers = yield here, home, offered, length

        def where(i: int, step: int = step) -> str:
            return f"instance {i}, step {step}"

        chosen = decisions.integers(answers, where)
        allowed = (offered == chosen[:, None]).any(axis=1)
        if not allowed.all():
            i = int(allowed.argmin())
            node = int(chosen[i])
            if not 0 <= node < nodes:
                why = f"node {node} does not exist; nodes are 0 to {nodes - 1}"
            elif not unvisited[i, node]:
                why = f"node {node} is already in the tour"
            else:
                why = f"node {node} is not among the {most} unvisited nodes offered"
            raise decisions.infeasible(f"{where(i)}: {why}")
        routes[:, step] = chosen
        unvisited[row, chosen] = False
    routes[:, -1] = unvisited.argmax(axis=1)
    return routes


def problem() -> ConstructTsp:
    return ConstructTsp()
