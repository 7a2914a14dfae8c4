"""Recognising formulas that are trivially equal, e.g. `2 * (a + b) / 4` and `b * 0.5 + a / 2`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from coevo.eoh.expressions import Binary, Call, Constant, Tree, Variable

_FUNCTIONS = {"sqrt": math.sqrt, "exp": math.exp}

_Term: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Sorted factors above and below the fraction bar."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """`constant` plus coefficients times terms."""

    constant: float = 0.0
    terms: dict[_Term, float] = field(default_factory=dict)

    def text(self) -> str:
        parts = [
            "".join(
                [
                    f"{coefficient:.9g}",
                    *(f"*{factor}" for factor in above),
                    *(f"/{factor}" for factor in below),
                ]
            )
            for (above, below), coefficient in sorted(self.terms.items())
        ]
        return " + ".join([*parts, f"{self.constant:.9g}"] if self.constant or not parts else parts)


def key(tree: Tree, *, ranking: bool = False) -> str:
    """A text that is the same for formulas that are equal by order of operands, brackets, signs, constants that can be
    computed, equal terms, or factors that belong together. `square(x)` is `x * x`.

    Nothing is cancelled, as `x / x` is not 1 where x is 0; equal is up to rounding. With `ranking` also for
    formulas that put alternatives in the same order because they differ by a constant or a positive factor only.
    """
    total = _normal(tree)
    if ranking and total.terms:
        scale = abs(_leading(total))
        total = _Sum(0.0, {term: value / scale for term, value in total.terms.items()})
    return total.text()


def _normal(tree: Tree) -> _Sum:
    match tree:
        case Variable(name):
            return _Sum(0.0, {((name,), ()): 1.0})
        case Constant(value):
            return _Sum(value)
        case Call("square", argument):
            inner = _normal(argument)
            return _product(inner, inner)
        case Call(function, argument):
            return _called(function, _normal(argument))
        case Binary("+", left, right):
            return _added(_normal(left), _normal(right), 1.0)
        case Binary("-", left, right):
            return _added(_normal(left), _normal(right), -1.0)
        case Binary("*", left, right):
            return _product(_normal(left), _normal(right))
        case Binary(_, left, right):
            return _quotient(_normal(left), _normal(right))
    raise TypeError(f"not a formula: {tree!r}")


def _added(left: _Sum, right: _Sum, sign: float) -> _Sum:
    terms = dict(left.terms)
    for term, value in right.terms.items():
        terms[term] = terms.get(term, 0.0) + sign * value
    return _Sum(left.constant + sign * right.constant, terms)


def _product(left: _Sum, right: _Sum) -> _Sum:
    for one, other in ((left, right), (right, left)):
        if not one.terms:  # a number times a sum: times each of its terms
            scaled = {term: one.constant * value for term, value in other.terms.items()}
            return _Sum(one.constant * other.constant, scaled)
    (a, above, below), (b, above_too, below_too) = _fraction(left), _fraction(right)
    return _single(a * b, above + above_too, below + below_too)


def _quotient(left: _Sum, right: _Sum) -> _Sum:
    if not right.terms and right.constant:
        return _product(_Sum(1.0 / right.constant), left)
    (a, above, below), (b, above_too, below_too) = _fraction(left), _fraction(right)
    return _single(a / b, above + below_too, below + above_too)


def _single(coefficient: float, above: tuple[str, ...], below: tuple[str, ...]) -> _Sum:
    return _Sum(0.0, {(tuple(sorted(above)), tuple(sorted(below))): coefficient})


def _fraction(total: _Sum) -> tuple[float, tuple[str, ...], tuple[str, ...]]:
    """(coefficient, factors above, factors below); a sum of several parts becomes one factor with leading coefficient 1."""
    if not total.terms:
        return (total.constant, (), ()) if total.constant else (1.0, ("0",), ())
    if len(total.terms) == 1 and not total.constant:
        ((above, below), coefficient), *_ = total.terms.items()
        return (coefficient, above, below) if coefficient else (1.0, (f"({total.text()})",), ())
    scale = _leading(total)
    inner = _Sum(total.constant / scale, {term: value / scale for term, value in total.terms.items()})
    return scale, (f"({inner.text()})",), ()


def _leading(total: _Sum) -> float:
    return next((value for _, value in sorted(total.terms.items()) if value), 1.0)


def _called(function: str, inner: _Sum) -> _Sum:
    if not inner.terms:
        try:
            return _Sum(_FUNCTIONS[function](inner.constant))
        except (OverflowError, ValueError):  # no number: stays as it is written
            pass
    return _single(1.0, (f"{function}({inner.text()})",), ())
