"""Reference values of the published instances: what strong solvers reach, and what no solution can be better than.

Solver values were measured on these very instances and are near optimal, not certified: LKH-3 (ten runs; coordinates
× 10⁶, rounded), HGS-CVRP (distances × 10⁴; 500 to 2000 iterations without improvement). Optima of the knapsacks are proven by
branch and bound. Bounds are those of `ahd.bounds`, cut after five decimals. All are means over a split's instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import comb

from coevo.problem import Reference, Split

LKH = "LKH-3"
HGS = "HGS-CVRP"
OPTIMUM = "optimum (branch and bound)"
ONE_TREE = "lower bound (1-tree)"
ROUTES = "lower bound (1-tree, radial)"
FRACTIONAL = "bound (fractional knapsack)"
BINS = "lower bound (L2)"
BINOMIAL = "upper bound C(n, w)"
ATTAINED = "optimum C(n, w), attained by FunSearch"

Table = Mapping[tuple[Split, int], float]

_TOURS: Mapping[str, Table] = {
    "construct_tsp": {
        ("train", 50): 5.70445,
        ("val", 50): 5.75433,
        ("test", 20): 3.81989,
        ("test", 50): 5.67541,
        ("test", 100): 7.76821,
    },
    "aco_tsp": {
        ("train", 50): 5.71199,
        ("val", 50): 5.69302,
        ("test", 20): 3.82616,
        ("test", 50): 5.71283,
        ("test", 100): 7.81186,
    },
    "aco_cvrp": {("train", 50): 7.88255, ("test", 20): 4.61420, ("test", 50): 8.01437},
}
_TOUR_BOUNDS: Mapping[str, Table] = {
    "construct_tsp": {
        ("train", 50): 5.66182,
        ("val", 20): 3.79831,
        ("val", 50): 5.71355,
        ("val", 100): 7.66455,
        ("val", 200): 10.60554,
        ("test", 20): 3.81326,
        ("test", 50): 5.63652,
        ("test", 100): 7.70331,
        ("test", 200): 10.61324,
    },
    "aco_tsp": {
        ("train", 50): 5.68646,
        ("val", 20): 3.85605,
        ("val", 50): 5.65713,
        ("val", 100): 7.75649,
        ("test", 20): 3.82067,
        ("test", 50): 5.67955,
        ("test", 100): 7.75071,
    },
    "aco_cvrp": {
        ("train", 50): 5.78902,
        ("val", 20): 3.91627,
        ("val", 50): 5.72147,
        ("val", 100): 7.85286,
        ("test", 20): 3.96374,
        ("test", 50): 5.74037,
        ("test", 100): 7.87704,
    },
}
_KNAPSACK_OPTIMA: Table = {
    ("train", 100): 40.18899,
    ("val", 50): 20.05136,
    ("val", 100): 40.69449,
    ("val", 200): 57.88786,
    ("test", 50): 20.03685,
    ("test", 100): 40.27228,
    ("test", 200): 57.44724,
}
_HALF_UNIT = 5e-6
"""The optima are rounded to five decimals."""
_FRACTIONAL_BOUNDS: Table = {("test", 500): 90.98789}
_BIN_BOUNDS: Table = {
    ("train", 500): 199.6,
    ("val", 120): 48.453125,
    ("val", 500): 200.640625,
    ("val", 1000): 400.5,
    ("test", 500): 200.65625,
    ("test", 1000): 400.40625,
}
_ATTAINED_SETS = {12: 7, 15: 10}
_OTHER_SETS = {18: 13, 21: 15}


def reference(family: str, split: Split, size: int) -> Reference:
    """What to measure a gap to: the best known mean objective, or a bound where no solver's value is known.

    Raises KeyError for instances that are not published.
    """
    key = (split, size)
    if family in _TOURS:
        bound = _TOUR_BOUNDS[family][key]
        solver, of_bound = (HGS, ROUTES) if family == "aco_cvrp" else (LKH, ONE_TREE)
        known = _TOURS[family].get(key)
        return Reference(bound if known is None else known, of_bound if known is None else solver, bound)
    if family == "construct_kp":
        if key in _KNAPSACK_OPTIMA:
            optimum = _KNAPSACK_OPTIMA[key]
            return Reference(-optimum, OPTIMUM, -(optimum + _HALF_UNIT))
        return _proven(-_FRACTIONAL_BOUNDS[key], FRACTIONAL)
    if family == "aco_bpp":
        return _proven(_BIN_BOUNDS[key], BINS)
    if size in _ATTAINED_SETS:
        return _proven(-float(comb(size, _ATTAINED_SETS[size])), ATTAINED)
    return _proven(-float(comb(size, _OTHER_SETS[size])), BINOMIAL)


def _proven(bound: float, source: str) -> Reference:
    return Reference(bound, source, bound)
