"""The two languages heuristics are written in: Python functions, and formulas of a problem's own small language."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, Protocol

from coevo.eoh.expressions import parse, text_of, trees_of
from coevo.eoh.holds import held
from coevo.eoh.operators import Operator
from coevo.eoh.population import Individual
from coevo.eoh.prompts import (
    expressions_of,
    formula_goal,
    formula_request,
    python_goal,
    python_request,
)
from coevo.eoh.replies import Draft, read_python
from coevo.errors import CoevoError
from coevo.problem import Expressions, Problem
from coevo.sandbox import CandidateError, Category
from coevo.seeds import derive_seed

LanguageName = Literal["python", "formula"]
Edits = Literal["held", "free"]


class Language(Protocol):
    """How a heuristic is asked for and how an answer is read. `goal` is the problem in words, the same in all requests."""

    goal: str
    trial: str
    """A program that must run before a search begins, "" for none."""

    def request(self, operator: Operator, parents: Sequence[Individual]) -> str: ...

    def grammar(self, operator: Operator, parents: Sequence[Individual], seed: int) -> str:
        """What the answer is held to in decoding, "" if to nothing. Where a parent may change is drawn from `seed`."""
        ...

    def read(self, reply: str) -> Draft:
        """The draft in a reply. Raises CandidateError (`parse_error`)."""
        ...


def language_of(name: LanguageName, problem: Problem, edits: Edits = "held") -> Language:
    """Raises ConfigError when the problem has no formulas."""
    return FormulaLanguage(problem, edits) if name == "formula" else PythonLanguage(problem)


class PythonLanguage:
    """Whole functions, with the idea in a sentence before them."""

    def __init__(self, problem: Problem) -> None:
        self._signature = problem.signature
        self.goal = python_goal(problem)
        self.trial = ""

    def request(self, operator: Operator, parents: Sequence[Individual]) -> str:
        return python_request(operator, parents)

    def grammar(self, operator: Operator, parents: Sequence[Individual], seed: int) -> str:
        return ""

    def read(self, reply: str) -> Draft:
        return read_python(reply, self._signature)


class FormulaLanguage:
    """One formula; the thought of a draft is the formula itself, its code the problem's template around it.

    With `edits = "held"` an operator changes of its parents what it is meant to change (`coevo.eoh.holds`).
    """

    def __init__(self, problem: Problem, edits: Edits = "held") -> None:
        self._expressions = expressions_of(problem)
        self._held = edits == "held"
        self.goal = formula_goal(problem)
        self.trial = self._expressions.code(_trial(self._expressions))

    def request(self, operator: Operator, parents: Sequence[Individual]) -> str:
        return formula_request(operator, parents)

    def grammar(self, operator: Operator, parents: Sequence[Individual], seed: int) -> str:
        shown = (parent.thought for parent in parents) if self._held else ()
        trees = trees_of(shown, self._expressions)
        return held(self._expressions, operator, trees, random.Random(derive_seed(seed, "place")))

    def read(self, reply: str) -> Draft:
        try:
            formula = text_of(parse(reply.strip(), self._expressions))
        except CoevoError as error:
            raise CandidateError(Category.PARSE_ERROR, error.message) from error
        return Draft(formula, self._expressions.code(formula))


def _trial(expressions: Expressions) -> str:
    """A formula of all variables and functions, within what each function is defined for."""
    first = next(iter(expressions.variables))
    return " + ".join([*expressions.variables, f"sqrt(square({first}))", f"exp(1 / (1 + square({first})))"])
