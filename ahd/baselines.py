"""Simple known heuristics of each problem, as source code that runs in the sandbox like any candidate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ahd.base import BundledProblem
from coevo.problem import Split, Verdict, evaluate
from coevo.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Baseline:
    """A heuristic with a name. `formula` is in the problem's own language of formulas."""

    name: str
    formula: str


BASELINES: dict[str, tuple[Baseline, ...]] = {
    "construct_tsp": (
        Baseline("nearest neighbour", "near"),
        Baseline("near, far from the rest", "near - 0.5 * rest"),
        Baseline("the same, far from home", "near - 0.5 * rest - 0.3 * home"),
    ),
    "construct_kp": (
        Baseline("best ratio", "weight / value"),
        Baseline("most valuable", "0 - value"),
        Baseline("lightest", "weight"),
    ),
    "construct_asp": (
        Baseline("lexicographic order", "0"),
        Baseline("digit sum", "ones + 2 * twos"),
        Baseline("changes of digit", "changes"),
    ),
    "aco_tsp": (
        Baseline("1 / distance", "1 / distance"),
        Baseline("1 / distance²", "1 / square(distance)"),
        Baseline("1 / distance⁴", "1 / square(square(distance))"),
    ),
    "aco_cvrp": (
        Baseline("1 / distance", "1 / distance"),
        Baseline("1 / distance⁴", "1 / square(square(distance))"),
        Baseline("saving / distance²", "(0.01 + saving) / square(distance)"),
    ),
    "aco_bpp": (
        Baseline("anything", "1"),
        Baseline("largest first", "size_to"),
        Baseline("fullest pair", "1 / (0.01 + sqrt(square(1 - together)))"),
    ),
}


def code(problem: BundledProblem, baseline: Baseline) -> str:
    """The heuristic's source."""
    assert problem.expressions is not None
    return problem.expressions.code(baseline.formula)


async def run(
    problems: Sequence[BundledProblem], split: Split, size: int | None, sandbox: Sandbox
) -> AsyncIterator[tuple[BundledProblem, Baseline, Verdict]]:
    """Evaluate every baseline of the problems, one after another."""
    for problem in problems:
        for baseline in BASELINES[problem.family]:
            verdict = await evaluate(
                problem,
                code(problem, baseline),
                sandbox=sandbox,
                split=split,
                size=size,
            )
            yield problem, baseline, verdict
