"""EoH without a model: the operators as random changes of formulas. The baseline that says what the model is worth."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from coevo.eoh.expressions import text_of, trees_of
from coevo.eoh.operators import Operator
from coevo.eoh.prompts import expressions_of
from coevo.eoh.replies import Draft
from coevo.eoh.variation import crossover, different, mutate, random_expression, retune
from coevo.problem import Problem
from coevo.seeds import derive_seed

if TYPE_CHECKING:
    from coevo.eoh.plan import Child


def draft_by_chance(problem: Problem, operator: Operator, child: Child) -> Draft:
    """i1: any formula; e1: one of another structure than the parents; e2: a crossover; m1, m3: a subtree replaced; m2: numbers
    re-tuned. Parents that are no formulas (a person's program) count as absent."""
    expressions = expressions_of(problem)
    rng = random.Random(derive_seed(child.seed, "chance"))
    parents = trees_of((parent.thought for parent in child.parents), expressions)
    if not parents or operator in (Operator.I1, Operator.START):
        made = random_expression(expressions, rng)
    elif operator is Operator.E1:
        made = different(expressions, parents, rng)
    elif operator is Operator.E2 and len(parents) > 1:
        made = crossover(expressions, parents[0], parents[1], rng)
    elif operator is Operator.M2:
        made = retune(expressions, parents[0], rng)
    else:
        made = mutate(expressions, parents[0], rng)
    formula = text_of(made)
    return Draft(formula, expressions.code(formula))
