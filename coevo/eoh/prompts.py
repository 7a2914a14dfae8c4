"""What the model is told: the problem, the heuristics that serve as parents, and what the operator wants."""

from __future__ import annotations

from collections.abc import Sequence

from coevo.eoh.operators import Operator
from coevo.eoh.population import Individual
from coevo.errors import ConfigError
from coevo.problem import Expressions, Problem

_ASKS_PYTHON = {
    Operator.I1: "Write a heuristic for this problem.",
    Operator.E1: "Write a heuristic that works on an idea none of the heuristics above uses.",
    Operator.E2: (
        "Find what the heuristics above have in common, keep that idea, and write a heuristic that builds on it in a way"
        " none of them does."
    ),
    Operator.M1: "Write a variant of the heuristic above: change a step of its logic so that it gets better results.",
    Operator.M2: (
        "Find the numbers and weights that steer the heuristic above and write it again with better values for them."
    ),
    Operator.M3: (
        "Find parts of the heuristic above that only fit special instances, and write a simpler one that holds for"
        " others as well."
    ),
}

_ASKS_FORMULA = {
    Operator.I1: "Write a formula for this score.",
    Operator.E1: "Write a formula of another shape than those above.",
    Operator.E2: "Write a formula that joins what the ones above have in common.",
    Operator.M1: "Write a better formula: change one part of the one above.",
    Operator.M2: "Write the formula above again with better numbers.",
    Operator.M3: "Write a simpler formula that does the same as the one above.",
}


def python_goal(problem: Problem) -> str:
    """The problem in words, the same in every request: an engine can encode it once."""
    signature = problem.signature
    arguments = "\n".join(f"- {argument.name}: {argument.meaning}" for argument in signature.arguments)
    return "\n".join(
        part
        for part in (
            problem.goal,
            f"\nThe heuristic is one Python function:\n\n    {signature.header}\n",
            f"{arguments}\n- returns {signature.result.name}: {signature.result.meaning}",
            problem.notes,
        )
        if part
    )


def python_request(operator: Operator, parents: Sequence[Individual]) -> str:
    """What the operator wants, after the programs it shows."""
    shown = "".join(
        f"Heuristic {number} (result {_number(parent.objective)}, smaller is better)\n"
        f"Idea: {parent.thought or 'not said'}\n```python\n{parent.code.strip()}\n```\n\n"
        for number, parent in enumerate(parents, 1)
    )
    answer = (
        "Answer with the idea in one sentence in braces, {like this}, then the function in a ```python block, and"
        " nothing else."
    )
    return f"{shown}{_ASKS_PYTHON[operator]} {answer}"


def formula_goal(problem: Problem) -> str:
    """The problem and its variables in words, the same in every request."""
    variables = expressions_of(problem).variables.items()
    return problem.goal + "\n\n" + "\n".join(f"{name}: {meaning}" for name, meaning in variables)


def formula_request(operator: Operator, parents: Sequence[Individual]) -> str:
    """What the operator wants, after the formulas it shows, the best last."""
    shown = "".join(
        f"\n{parent.thought} gives {_number(parent.objective)}"
        for parent in sorted(parents, key=lambda parent: -(parent.objective or 0.0))
    )
    known = f"Known formulas and their results (smaller is better):{shown}\n\n" if shown else ""
    return known + _ASKS_FORMULA[operator]


def expressions_of(problem: Problem) -> Expressions:
    """The formula language of a problem. Raises ConfigError if it has none."""
    if problem.expressions is None:
        raise ConfigError(
            f"the problem {problem.name} has no formula language",
            hint='set search.language = "python", or give the problem `expressions`',
        )
    return problem.expressions


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.5g}"
