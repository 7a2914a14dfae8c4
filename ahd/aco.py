"""Ant colonies for the TSP and the CVRP, with all ants of all instances in one array.

A candidate's matrix says how desirable each edge is; an ant takes an edge with probability proportional to pheromone times
desirability among the allowed ones. The draw is an exponential race: the edge with the largest weight / Exp(1) wins, which
has exactly those probabilities. Every instance has its own stream of random numbers and asks for the same amounts in the
same order whatever the heuristic, so all candidates meet the same numbers (common random numbers), alone or in a batch.

Parameters are those of the ReEvo solvers: 30 ants, 100 iterations, evaporation to 0.9, deposits of 1 / cost, no local
search. Weights, pheromone and random numbers are single precision, lengths double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from coevo.sandbox import CandidateError, Category

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

ANTS = 30
ITERATIONS = 100
KEPT = np.float32(0.9)
PHEROMONE_FLOOR = np.float32(1e-10)
HEURISTIC_FLOOR = np.float32(1e-9)
SMALLEST = np.finfo(np.float32).tiny
BATCH_CELLS = 60_000
"""Ants × nodes worked on at once: arrays of this size stay in a core's cache."""

Waiting = Literal["free", "penalised"]


class Draws(Protocol):
    """The random numbers of one instance."""

    def starts(self, ants: int, nodes: int) -> Indices:
        """A node for each ant to start from, uniform."""
        ...

    def exponentials(self, out: Singles) -> None:
        """Fill `out` with draws from Exp(1)."""
        ...


class NumpyDraws:
    """Draws from numpy's default generator (PCG64), its ziggurat exponentials in single precision."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def starts(self, ants: int, nodes: int) -> Indices:
        return self._generator.integers(nodes, size=ants)

    def exponentials(self, out: Singles) -> None:
        self._generator.standard_exponential(out=out, dtype=np.float32)


def batches(instances: int, nodes: int, ants: int = ANTS) -> list[slice]:
    """Instances to work on at once, so that their arrays fit a cache."""
    width = max(1, BATCH_CELLS // (ants * nodes))
    return [slice(first, first + width) for first in range(0, instances, width)]


def tours(
    distances: Floats,
    heuristics: Singles,
    draws: Sequence[Draws],
    *,
    ants: int = ANTS,
    iterations: int = ITERATIONS,
) -> Floats:
    """The shortest tour any ant found, for each instance: (instances, n, n) twice → (instances,).

    `heuristics` must be at least `HEURISTIC_FLOOR`. Raises CandidateError where desirability overflows.
    """
    count, nodes, _ = distances.shape
    lanes = count * ants
    base = np.repeat(np.arange(count) * nodes, ants)
    lane = np.arange(lanes)
    pheromone = np.ones_like(heuristics)
    noise = np.empty((count, ants, nodes), np.float32)
    flat_noise = noise.reshape(lanes, nodes)
    weights = np.empty((lanes, nodes), np.float32)
    route = np.empty((nodes, lanes), np.int64)
    best = np.full(count, np.inf)
    for _ in range(iterations):
        table = _table(pheromone, heuristics)
        allowed = np.ones((lanes, nodes), np.float32)
        at = np.concatenate([source.starts(ants, nodes) for source in draws])
        route[0] = at
        for step in range(1, nodes):
            allowed[lane, at] = 0.0
            np.take(table, base + at, axis=0, out=weights, mode="clip")
            weights *= allowed
            for source, part in zip(draws, noise, strict=True):
                source.exponentials(part)
            at = _race(weights, flat_noise)
            route[step] = at
        here, there = base + route, np.roll(route, 1, axis=0)
        edges = here * nodes + there
        back = (base + there) * nodes + route
        costs = distances.reshape(-1)[edges].sum(axis=0)
        np.minimum(best, costs.reshape(count, ants).min(axis=1), out=best)
        pheromone *= KEPT
        _deposit(pheromone, (edges, back), costs, (count, ants))
    return best


def deliveries(
    distances: Floats,
    demands: Floats,
    capacity: float,
    heuristics: Singles,
    draws: Sequence[Draws],
    *,
    waiting: Waiting = "free",
    ants: int = ANTS,
    iterations: int = ITERATIONS,
) -> Floats:
    """The cheapest set of routes any ant found, for each instance: (instances, n + 1, n + 1), node 0 the depot → (instances,).

    An ant that has served everybody waits at the depot until the slowest ant of its instance is back. `waiting="free"`
    scores the true length. `"penalised"` adds 1 for every step of waiting, as the ReEvo solver does, whose distance from
    the depot to itself is 1.
    """
    count, nodes, _ = distances.shape
    lanes = count * ants
    base = np.repeat(np.arange(count) * nodes, ants)
    lane = np.arange(lanes)
    lengths = distances.copy()
    lengths[:, 0, 0] = 0.0
    demand = np.repeat(demands.astype(np.float32), ants, axis=0)
    pheromone = np.ones_like(heuristics)
    noise = np.ones((count, ants, nodes), np.float32)
    weights = np.empty((lanes, nodes), np.float32)
    best = np.full(count, np.inf)
    for _ in range(iterations):
        table = _table(pheromone, heuristics)
        need = demand.copy()
        need[:, 0] = np.inf
        load = np.full(lanes, capacity, np.float32)
        unserved = np.full(lanes, nodes - 1)
        at = np.zeros(lanes, np.int64)
        steps = np.zeros(lanes, np.int64)
        route = [at]
        busy = np.ones(lanes, bool)
        while busy.any():
            np.take(table, base + at, axis=0, out=weights, mode="clip")
            weights *= need <= load[:, None]
            for i in np.flatnonzero(busy.reshape(count, ants).any(axis=1)).tolist():
                draws[i].exponentials(noise[i])
            at = _race(weights, noise.reshape(lanes, nodes))
            home = at == 0
            load = np.where(home, np.float32(capacity), load - demand[lane, at])
            need[lane, at] = np.inf
            unserved -= ~home
            need[:, 0] = np.where(home & (unserved > 0), np.inf, 0.0)
            steps += busy
            busy &= ~home | (unserved > 0)
            route.append(at)
        path = np.stack(route)
        edges = (base + path[:-1]) * nodes + path[1:]
        costs = lengths.reshape(-1)[edges].sum(axis=0)
        if waiting == "penalised":
            of_ant = steps.reshape(count, ants)
            costs += (of_ant.max(axis=1, keepdims=True) - of_ant).reshape(-1)
        np.minimum(best, costs.reshape(count, ants).min(axis=1), out=best)
        pheromone *= KEPT
        _deposit(pheromone, (edges,), costs, (count, ants))
        np.maximum(pheromone, PHEROMONE_FLOOR, out=pheromone)
    return best


def _table(pheromone: Singles, heuristics: Singles) -> Singles:
    """Edge weights, one row a node of the batch: (instances × n, n)."""
    with np.errstate(over="ignore"):
        table = pheromone * heuristics
        whole = np.isfinite(table.sum(axis=2)).all()
    if not whole:
        raise CandidateError(
            Category.NON_FINITE, "pheromone times heuristic overflows; return values below 1e30"
        )
    return table.reshape(-1, table.shape[-1])


def _race(weights: Singles, noise: Singles) -> Indices:
    """The column with the largest weight / noise in each row. Overwrites both."""
    np.maximum(noise, SMALLEST, out=noise)
    with np.errstate(over="ignore"):
        np.divide(weights, noise, out=weights)
    winner: Indices = weights.argmax(axis=1)
    return winner


def _deposit(
    pheromone: Singles, directions: Sequence[Indices], costs: Floats, shape: tuple[int, int]
) -> None:
    """Every ant in turn lays 1 / cost on its edges: arrays (steps, instances × ants) of positions in `pheromone`."""
    count, ants = shape
    amount = (1.0 / costs).astype(np.float32).reshape(count, ants)
    both = np.stack(directions).reshape(len(directions), -1, count, ants)
    places = np.ascontiguousarray(both.transpose(3, 0, 1, 2))
    each: Any = np.broadcast_to(amount.T[:, None, None, :], places.shape)
    np.add.at(pheromone.reshape(-1), places.reshape(-1), each.reshape(-1))
