"""Automatic heuristic design: six problems whose heuristics a model writes, with their scorers and reference values.

A name here is a factory of the problem: `search.problem = "ahd:construct_tsp"` in an experiment file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ahd.base import BundledProblem

__all__ = [
    "PROBLEMS",
    "aco_bpp",
    "aco_bpp_colony",
    "aco_cvrp",
    "aco_cvrp_penalised",
    "aco_tsp",
    "construct_asp",
    "construct_kp",
    "construct_tsp",
]


def construct_tsp() -> BundledProblem:
    """Choose the next node of a tour."""
    from ahd.problems import construct_tsp

    return construct_tsp.problem()


def construct_kp() -> BundledProblem:
    """Choose the next item of a knapsack."""
    from ahd.problems import construct_kp

    return construct_kp.problem()


def construct_asp() -> BundledProblem:
    """Give priorities to the vectors of an admissible set."""
    from ahd.problems import construct_asp

    return construct_asp.problem()


def aco_tsp(seed: int | None = None) -> BundledProblem:
    """Guide an ant colony to short tours. `seed`: of another draw of the same experiment."""
    from ahd.problems import aco_tsp

    return aco_tsp.problem() if seed is None else aco_tsp.problem(seed)


def aco_cvrp(waiting: Literal["free", "penalised"] = "free", seed: int | None = None) -> BundledProblem:
    """Guide an ant colony to cheap routes. `waiting="penalised"`: the published scorer."""
    from ahd.problems import aco_cvrp

    return aco_cvrp.problem(waiting) if seed is None else aco_cvrp.problem(waiting, seed)


def aco_bpp(mode: Literal["sample", "colony"] = "sample", seed: int | None = None) -> BundledProblem:
    """Say how well items go together in a bin. `mode="colony"`: by ants instead of greedy constructions."""
    from ahd.problems import aco_bpp

    return aco_bpp.problem(mode) if seed is None else aco_bpp.problem(mode, seed)


def aco_cvrp_penalised(seed: int | None = None) -> BundledProblem:
    """aco_cvrp as published: ants that wait for others pay for it."""
    return aco_cvrp("penalised", seed)


def aco_bpp_colony(seed: int | None = None) -> BundledProblem:
    """aco_bpp with an ant colony in place of greedy constructions."""
    return aco_bpp("colony", seed)


PROBLEMS: Mapping[str, Callable[[], BundledProblem]] = {
    "construct_tsp": construct_tsp,
    "construct_kp": construct_kp,
    "construct_asp": construct_asp,
    "aco_tsp": aco_tsp,
    "aco_cvrp": aco_cvrp,
    "aco_cvrp_penalised": aco_cvrp_penalised,
    "aco_bpp": aco_bpp,
    "aco_bpp_colony": aco_bpp_colony,
}
"""Every problem by name, with the two other ways of scoring."""
