"""python benchmarks/heuristics.py [--problem NAME] [--instances N] [--json]: how fast heuristics are judged.

For each problem: seconds for its whole train set through the sandbox, as a search does it, and for the solver alone, against
a plain loop over instances, ants and steps that does the same work one decision at a time. The plain loop is timed on a few
instances; its results must equal the solver's. For the constructive problems also: formulas as a search judges them, a call a
round, against the same code a call a decision; and, where rounds are played beside the function, against rounds that are asked one
by one. At the end: evaluations per second of a trivial heuristic on construct_kp. Seconds are processor time, evaluations/s
and candidates/s wall-clock, with one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ahd import PROBLEMS, aco, admissible, packing
from ahd.base import BundledProblem
from ahd.baselines import BASELINES, code
from ahd.instances import BIN_CAPACITY, VEHICLE_CAPACITY, distances, instances, knapsack_capacity
from ahd.problems.aco_bpp import AcoBpp
from ahd.problems.aco_cvrp import AcoCvrp
from ahd.problems.aco_tsp import AcoTsp, matrices
from coevo.problem import evaluate
from coevo.sandbox import Candidate, Sandbox

Array = np.ndarray[Any, Any]

BATCHED = ".batched = True"
TRIVIAL = "def select_next_item(remaining_capacity, weights, values):\n    return weights.argmin()\n"
TRIVIAL_BATCHED = TRIVIAL.replace("argmin()", "argmin(axis=1)") + f"\n\nselect_next_item{BATCHED}\n"
ROUNDS = ("construct_tsp", "construct_kp", "construct_asp")
"""The problems whose formulas decide a whole round in one call."""
PLAYED = ("construct_tsp", "construct_kp")
"""Those whose rounds are played beside the function."""
SECONDS = 5.0


def legs(tour: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Its steps, the last one home included."""
    return pairwise([*tour, tour[0]])


def plain_tour(length: Array, heuristic: Array, draws: aco.Draws, *, ants: int, iterations: int) -> float:
    """The ant colony of `ahd.aco.tours` for one instance, ant by ant."""
    nodes = len(length)
    pheromone = np.ones((nodes, nodes), np.float32)
    noise = np.empty((ants, nodes), np.float32)
    best = np.inf
    for _ in range(iterations):
        routes = [[int(start)] for start in draws.starts(ants, nodes)]
        masks = np.ones((ants, nodes), np.float32)
        for _ in range(nodes - 1):
            draws.exponentials(noise)
            for ant, route in enumerate(routes):
                masks[ant, route[-1]] = 0.0
                weights = pheromone[route[-1]] * heuristic[route[-1]] * masks[ant]
                route.append(int((weights / np.maximum(noise[ant], aco.SMALLEST)).argmax()))
        costs = [sum(length[a, b] for a, b in legs(route)) for route in routes]
        best = min(best, *costs)
        pheromone *= aco.KEPT
        for route, cost in zip(routes, costs, strict=True):
            for a, b in legs(route):
                pheromone[a, b] += np.float32(1 / cost)
                pheromone[b, a] += np.float32(1 / cost)
    return float(best)


def plain_routes(
    length: Array, demand: Array, heuristic: Array, draws: aco.Draws, *, ants: int, iterations: int
) -> float:
    """The ant colony of `ahd.aco.deliveries` (waiting is free) for one instance, ant by ant."""
    nodes = len(length)
    demand = demand.astype(np.float32)
    pheromone = np.ones((nodes, nodes), np.float32)
    noise = np.empty((ants, nodes), np.float32)
    best = np.inf
    for _ in range(iterations):
        routes = [[0] for _ in range(ants)]
        masks = np.ones((ants, nodes), np.float32)
        masks[:, 0] = 0.0
        loads = [VEHICLE_CAPACITY] * ants
        while any(route[-1] != 0 or len(route) == 1 or masks[a, 1:].any() for a, route in enumerate(routes)):
            draws.exponentials(noise)
            for ant, route in enumerate(routes):
                weights = pheromone[route[-1]] * heuristic[route[-1]] * masks[ant] * (demand <= loads[ant])
                node = int((weights / np.maximum(noise[ant], aco.SMALLEST)).argmax())
                route.append(node)
                masks[ant, node] = 0.0
                loads[ant] = loads[ant] - demand[node] if node else VEHICLE_CAPACITY
                masks[ant, 0] = 0.0 if node == 0 and masks[ant, 1:].any() else 1.0
        costs = [sum(length[a, b] for a, b in pairwise(route) if a != b) for route in routes]
        best = min(best, *costs)
        pheromone *= aco.KEPT
        for route, cost in zip(routes, costs, strict=True):
            for a, b in pairwise(route):
                pheromone[a, b] += np.float32(1 / cost)
        np.maximum(pheromone, aco.PHEROMONE_FLOOR, out=pheromone)
    return float(best)


def plain_bins(demand: Array, affinity: Array, generator: np.random.Generator) -> int:
    """The constructions of `ahd.packing.sampled` for one instance, one after another."""
    order = generator.random((packing.CONSTRUCTIONS, len(demand)), dtype=np.float32)
    fewest = len(demand)
    for keys in order:
        left = np.ones(len(demand), bool)
        bins, room, pull = 0, 0, np.zeros(len(demand), np.float32)
        while left.any():
            fits = left & (demand <= room)
            if fits.any():
                item = int(np.where(fits, pull, -1).argmax())
            else:
                bins, room, pull = bins + 1, BIN_CAPACITY, np.zeros(len(demand), np.float32)
                item = int(np.where(left, keys, -1).argmax())
            left[item] = False
            room -= demand[item]
            pull += affinity[item]
        fewest = min(fewest, bins)
    return fewest


def plain_set(priorities: Array, n: int, w: int) -> list[int]:
    """The greedy set of `ahd.admissible.chosen`, vector by vector."""
    kinds = admissible.candidates(n, w).tolist()
    bad = admissible.bad_triples().tolist()
    weights = [[admissible.WEIGHTS[kind] for kind in vector] for vector in kinds]
    open_ = sorted(range(len(kinds)), key=lambda i: -priorities[i])
    taken: list[int] = []
    while open_:
        new = open_.pop(0)
        pairs = [list(zip(kinds[new], kinds[old], strict=True)) for old in taken]
        open_ = [
            i
            for i in open_
            if weights[i] != weights[new]
            and not any(all(bad[k][a][b] for k, (a, b) in zip(kinds[i], pair, strict=True)) for pair in pairs)
        ]
        taken.append(new)
    return taken


def plain_nearest(length: Array) -> float:
    """A nearest neighbour tour, node by node, as construct_tsp asks for it."""
    route, left = [0], list(range(1, len(length)))
    while left:
        offered = np.array(sorted(left, key=lambda node: length[route[-1], node]))
        node = int(offered[length[route[-1]][offered].argmin()])
        left.remove(node)
        route.append(node)
    return float(sum(length[a, b] for a, b in legs(route)))


def plain_knapsack(items: Array) -> float:
    """The most valuable item that fits, item by item, as construct_kp asks for it."""
    weights, values = items[:, 0], items[:, 1]
    room, total = knapsack_capacity(len(items)), 0.0
    while len(weights) and weights.min() <= room:
        item = int(np.where(weights <= room, values, -np.inf).argmax())
        room, total = room - weights[item], total + values[item]
        weights, values = np.delete(weights, item), np.delete(values, item)
    return -float(total)


def aco_tsp(first: int) -> tuple[Callable[[], Sequence[float]], Callable[[], Sequence[float]]]:
    problem = AcoTsp()
    length = matrices(instances("aco_tsp", "train", 50))
    heuristic = (1 / length).astype(np.float32)

    def plain() -> list[float]:
        return [
            plain_tour(
                length[i],
                heuristic[i],
                aco.NumpyDraws(1234 + 50_000 + i),
                ants=aco.ANTS,
                iterations=aco.ITERATIONS,
            )
            for i in range(first)
        ]

    return lambda: problem.best(length, heuristic), plain


def aco_cvrp(first: int) -> tuple[Callable[[], Sequence[float]], Callable[[], Sequence[float]]]:
    problem = AcoCvrp()
    rows = instances("aco_cvrp", "train", 50)
    length, demand = matrices(rows[..., 1:]), rows[..., 0]
    heuristic = (1 / length).astype(np.float32)
    floored = np.maximum(heuristic + aco.HEURISTIC_FLOOR, aco.HEURISTIC_FLOOR)

    def plain() -> list[float]:
        return [
            plain_routes(
                length[i],
                demand[i],
                floored[i],
                aco.NumpyDraws(10_001_234 + 50_000 + i),
                ants=aco.ANTS,
                iterations=aco.ITERATIONS,
            )
            for i in range(first)
        ]

    return lambda: problem.best(length, demand, heuristic), plain


def aco_bpp(first: int) -> tuple[Callable[[], Sequence[float]], Callable[[], Sequence[float]]]:
    problem = AcoBpp()
    demands = instances("aco_bpp", "train", 500)
    raw = [np.tile(demand / demand.max(), (len(demand), 1)).astype(np.float32) for demand in demands]

    def plain() -> list[float]:
        seeds = [20_001_234 + 500_000 + i for i in range(first)]
        return [
            float(plain_bins(demands[i], packing.scaled(raw[i]), np.random.default_rng(seed)))
            for i, seed in enumerate(seeds)
        ]

    return lambda: [problem.best(demands[i], raw[i], i) for i in range(len(demands))], plain


def construct_asp(first: int) -> tuple[Callable[[], Sequence[float]], Callable[[], Sequence[float]]]:
    priorities = np.zeros(len(admissible.candidates(15, 10)))
    return (
        lambda: [float(admissible.size(admissible.chosen(priorities, 15, 10), 15, 10))],
        lambda: [float(admissible.size(np.array(plain_set(priorities, 15, 10)), 15, 10))],
    )


SOLVERS = {"construct_asp": construct_asp, "aco_tsp": aco_tsp, "aco_cvrp": aco_cvrp, "aco_bpp": aco_bpp}
LOOPS: dict[str, Callable[[], list[float]]] = {
    "construct_tsp": lambda: [
        plain_nearest(length) for length in distances(instances("construct_tsp", "train", 50))
    ],
    "construct_kp": lambda: [plain_knapsack(items) for items in instances("construct_kp", "train", 100)],
}


class AskedCandidate:
    """Plays rounds by asking for one after another."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate

    def __getattr__(self, name: str) -> Any:
        return getattr(self.candidate, name)

    async def play(self, rounds: Callable[..., Any], *data: Any) -> Any:
        running = rounds(*data)
        try:
            columns = next(running)
            while True:
                columns = running.send(await self.candidate.map_columns(*columns, calls=len(columns[0])))
        except StopIteration as end:
            return end.value


class AskingSandbox(Sandbox):
    """The baseline: every round crosses between the two processes."""

    @asynccontextmanager
    async def candidate(self, *arguments: Any, **options: Any) -> AsyncIterator[Candidate]:
        async with super().candidate(*arguments, **options) as candidate:
            yield cast(Candidate, AskedCandidate(candidate))


def timed(work: Callable[[], Sequence[float]]) -> tuple[float, Sequence[float]]:
    """Processor seconds, and what the work returned."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


async def measure(name: str, first: int, sandbox: Sandbox) -> dict[str, Any]:
    """One row of the table. The heuristic is the problem's simple one."""
    problem = PROBLEMS[name]()
    await evaluate(problem, problem.seed_code, sandbox=sandbox)
    started = time.process_time()
    verdicts = [await evaluate(problem, problem.seed_code, sandbox=sandbox) for _ in range(3)]
    row: dict[str, Any] = {
        "problem": name,
        "candidates_per_s": 1 / min(verdict.seconds for verdict in verdicts),
        "driver_s": (time.process_time() - started) / len(verdicts),
        "candidate_s": sum(verdict.cpu_s for verdict in verdicts) / len(verdicts),
    }
    count = problem.counts["train", problem.size("train")]
    if name in SOLVERS:
        solver, plain = SOLVERS[name](first)
        solver_s, solved = timed(solver)
        plain_s, looped = timed(plain)
        plain_s *= count / len(looped)
        row |= {"solver_s": solver_s, "plain_s": plain_s, "times": plain_s / solver_s}
    else:
        solved = verdicts[0].objectives
        plain_s, looped = timed(LOOPS[name])
        row |= {"solver_s": None, "plain_s": plain_s, "times": None}
    row["equal"] = bool(np.allclose(solved[: len(looped)], looped, rtol=1e-9))
    return row


async def rates(problem: BundledProblem, source: str, sandbox: Sandbox) -> dict[str, float]:
    """Evaluations per second of a heuristic on the train set with one worker, and processor seconds of one."""
    await evaluate(problem, source, sandbox=sandbox)
    started, spent, candidate_s, done = time.perf_counter(), time.process_time(), 0.0, 0
    while time.perf_counter() - started < SECONDS:
        verdict = await evaluate(problem, source, sandbox=sandbox)
        assert verdict.valid, verdict.error
        candidate_s += verdict.cpu_s
        done += 1
    return {
        "evaluations_per_s": done / (time.perf_counter() - started),
        "driver_s": (time.process_time() - spent) / done,
        "candidate_s": candidate_s / done,
    }


async def formula_rates(name: str, sandbox: Sandbox, asking: Sandbox) -> dict[str, dict[str, float]]:
    """The last of the problem's baselines, judged in different ways with one result."""
    problem = PROBLEMS[name]()
    whole = code(problem, BASELINES[name][-1])
    single = whole.replace(BATCHED, ".batched = False")
    assert whole != single
    verdict = await evaluate(problem, whole, sandbox=sandbox)
    assert verdict == await evaluate(problem, single, sandbox=sandbox)
    found = {"round": await rates(problem, whole, sandbox), "decision": await rates(problem, single, sandbox)}
    if name in PLAYED:
        assert verdict == await evaluate(problem, whole, sandbox=asking)
        found["asked"] = await rates(problem, whole, asking)
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [name for name, problem in PROBLEMS.items() if problem().family == name]
    parser.add_argument("--problem", action="append", choices=names, help="only this one; can be repeated")
    parser.add_argument("--instances", type=int, default=1, help="for the plain loops (default 1)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    async with Sandbox() as sandbox, AskingSandbox() as asking:
        for name in options.problem or names:
            row = await measure(name, options.instances, sandbox)
            rows.append(row)
            if not options.json:
                solver = f"{row['solver_s']:7.3f} s" if row["solver_s"] is not None else "        –"
                times = f"{row['times']:5.1f}×" if row["times"] is not None else "     –"
                print(
                    f"{name:<14} {row['candidates_per_s']:7.2f} candidates/s   driver {row['driver_s']:6.3f} s   "
                    f"heuristic {row['candidate_s']:6.3f} s   solver {solver}   "
                    f"plain loop {row['plain_s']:7.3f} s   {times}   {'equal' if row['equal'] else 'DIFFERENT'}",
                    flush=True,
                )
        formulas = {
            name: await formula_rates(name, sandbox, asking)
            for name in options.problem or names
            if name in ROUNDS
        }
        knapsack = PROBLEMS["construct_kp"]()
        trivial = {
            "a call a decision": await rates(knapsack, TRIVIAL, sandbox),
            "a call a round": await rates(knapsack, TRIVIAL_BATCHED, sandbox),
            "rounds asked one by one": await rates(knapsack, TRIVIAL_BATCHED, asking),
        }
    if options.json:
        print(json.dumps({"problems": rows, "formulas": formulas, "trivial": trivial}, indent=1))
        return
    for name, found in formulas.items():
        print(f"{name}, a formula: {told(found['round'])}")
        for how, words in (("decision", "a call a decision"), ("asked", "rounds asked one by one")):
            if how in found:
                faster = found["round"]["evaluations_per_s"] / found[how]["evaluations_per_s"]
                print(f"    {words}: {told(found[how])}; faster than that: {faster:.1f}×")
    for how, rate in trivial.items():
        print(f"construct_kp, a trivial heuristic, {how}: {told(rate)}")


def told(rate: dict[str, float]) -> str:
    return (
        f"{rate['evaluations_per_s']:.0f} evaluations/s "
        f"(driver {rate['driver_s']:.4f} s, heuristic {rate['candidate_s']:.4f} s each)"
    )


if __name__ == "__main__":
    asyncio.run(main())
