"""Lower bounds that hold for every solution, computed from the instances. Each returns one value an instance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 100
FIRST_STEP = 0.25
DECAY = 0.97
MOMENTUM = 0.3
"""Of the subgradient ascent; its bound is about one per cent below the optimum on uniform points."""


def tour(distances: Floats) -> Floats:
    """Held and Karp's 1-tree bound on the shortest tour: (instances, n, n) → (instances,).

    A tour is a spanning tree of the nodes but the first, with two edges of the first added; the cheapest such tree is a
    bound, also when every node has a price that is paid for each of its edges and given back twice. The prices are moved
    towards degree two (Held and Karp 1971; any prices are valid).
    """
    count, nodes, _ = distances.shape
    prices = np.zeros((count, nodes))
    best, degrees = _one_tree(distances)
    step = FIRST_STEP * best / nodes
    slope = degrees - 2
    for _ in range(ROUNDS):
        prices += step[:, None] * slope
        cost, degrees = _one_tree(distances + prices[:, :, None] + prices[:, None, :])
        np.maximum(best, cost - 2 * prices.sum(axis=1), out=best)
        slope = (1 - MOMENTUM) * (degrees - 2) + MOMENTUM * slope
        step *= DECAY
    return best


def _one_tree(costs: Floats) -> tuple[Floats, Floats]:
    """Cost and degrees of the cheapest 1-tree: Prim's algorithm from node 1 on, then the two cheapest edges of node 0."""
    count, nodes, _ = costs.shape
    row = np.arange(count)
    total = np.zeros(count)
    degrees = np.zeros((count, nodes))
    nearest = costs[:, 1].copy()
    parent = np.ones((count, nodes), np.int64)
    outside = np.full((count, nodes), 0.0)
    outside[:, :2] = np.inf
    for _ in range(nodes - 2):
        node = (nearest + outside).argmin(axis=1)
        total += nearest[row, node]
        degrees[row, node] += 1
        degrees[row, parent[row, node]] += 1
        outside[row, node] = np.inf
        edges = costs[row, node]
        closer = edges < nearest
        np.minimum(nearest, edges, out=nearest)
        parent = np.where(closer, node[:, None], parent)
    ends = np.argpartition(costs[:, 0, 1:], 1, axis=1)[:, :2] + 1
    degrees[:, 0] = 2
    for end in ends.T:
        total += costs[row, 0, end]
        degrees[row, end] += 1
    return total, degrees


def routes(distances: Floats, demands: Floats, capacity: float) -> Floats:
    """A bound on vehicle routes from node 0: the larger of two.

    A tour through everything cannot be longer than the routes (triangle inequality). And a load of `capacity` carried to a
    customer and back costs at least its share: 2 Σ demand × distance / capacity (Haimovich and Rinnooy Kan 1985).
    """
    radial = 2 * (demands * distances[:, 0]).sum(axis=1) / capacity
    best: Floats = np.maximum(tour(distances), radial)
    return best


def knapsack(weights: Floats, values: Floats, capacity: float) -> Floats:
    """Minus the value of the fractional knapsack (Dantzig 1957): (instances, items) twice → (instances,)."""
    order = np.argsort(-values / weights, axis=1)
    weights, values = np.take_along_axis(weights, order, 1), np.take_along_axis(values, order, 1)
    before = weights.cumsum(axis=1) - weights
    share = np.clip((capacity - before) / weights, 0.0, 1.0)
    best: Floats = -(share * values).sum(axis=1)
    return best


def bins(demands: NDArray[np.int64], capacity: int) -> Floats:
    """Martello and Toth's L2 (1990): large items fill bins of their own, the rest must fit beside them."""
    best = np.zeros(len(demands))
    for threshold in range(capacity // 2 + 1):
        large = demands > capacity - threshold
        middle = (demands <= capacity - threshold) & (2 * demands > capacity)
        small = (demands >= threshold) & (2 * demands <= capacity)
        left = middle.sum(axis=1) * capacity - (demands * middle).sum(axis=1)
        extra = np.ceil(np.maximum((demands * small).sum(axis=1) - left, 0) / capacity)
        np.maximum(best, large.sum(axis=1) + middle.sum(axis=1) + extra, out=best)
    return best
