"""Formulas by chance: random ones, and changes to given ones. No model is asked.

Everything is drawn from the `random.Random` that is passed in, and stays within a limit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from coevo.eoh.expressions import (
    FUNCTIONS,
    LIMIT,
    OPERATORS,
    Binary,
    Call,
    Constant,
    Size,
    Tree,
    Variable,
    check_limit,
    constant,
    replaced,
    shape_of,
    size_of,
    subtrees,
    variables_of,
)

if TYPE_CHECKING:
    from coevo.problem import Expressions

_TRIES = 100
_SPREAD = 0.3  # of the logarithm of a constant that is re-tuned: a typical change is by a third


def random_expression(expressions: Expressions, rng: random.Random, limit: Size = LIMIT) -> Tree:
    """A formula drawn uniformly, given its size.

    The number of operands and the number of function calls (at most one an operand) are drawn uniformly; then every tree with
    these numbers is equally likely, a constant counting as one more variable. Constants are log-uniform in [0.1, 10],
    with two digits. What is not within `limit` is drawn again, from the beginning.
    """
    names = variables_of(expressions)
    check_limit(limit)
    while True:
        operands = rng.randint(1, limit.variables + limit.constants)
        calls = rng.randint(0, min(limit.parentheses, operands))
        tree = _draw(rng, names, operands, calls)
        if size_of(tree).within(limit):
            return tree


def different(
    expressions: Expressions, parents: Sequence[Tree], rng: random.Random, limit: Size = LIMIT
) -> Tree:
    """A random formula whose structure (`shape_of`) no parent has."""
    taken = {shape_of(parent) for parent in parents}
    return _until(
        lambda: random_expression(expressions, rng, limit), lambda tree: shape_of(tree) not in taken
    ) or random_expression(expressions, rng, limit)


def crossover(
    expressions: Expressions, first: Tree, second: Tree, rng: random.Random, limit: Size = LIMIT
) -> Tree:
    """The first parent with one of its subtrees replaced by one of the second's; a mutant where no such child is new."""
    places, gifts = list(subtrees(first)), [tree for _, tree in subtrees(second)]

    def child() -> Tree:
        return replaced(first, rng.choice(places)[0], rng.choice(gifts))

    def new(tree: Tree) -> bool:
        return tree not in (first, second) and size_of(tree).within(limit)

    return _until(child, new) or mutate(expressions, first, rng, limit)


def mutate(expressions: Expressions, parent: Tree, rng: random.Random, limit: Size = LIMIT) -> Tree:
    """The parent with a random subtree replaced by a random formula, of up to twice that subtree's variables plus one."""
    places = list(subtrees(parent))

    def child() -> Tree:
        path, old = rng.choice(places)
        variables = min(limit.variables, 2 * size_of(old).variables + 1)
        return replaced(
            parent, path, random_expression(expressions, rng, replace(limit, variables=variables))
        )

    found = _until(child, lambda tree: tree != parent and size_of(tree).within(limit))
    return found or random_expression(expressions, rng, limit)


def retune(expressions: Expressions, parent: Tree, rng: random.Random, limit: Size = LIMIT) -> Tree:
    """The parent with every constant multiplied by exp(N(0, 0.3)), rounded to three digits.

    Without constants, a random subtree is given such a weight; where that would be too large, the parent is mutated.
    """
    places = list(subtrees(parent))
    tuned = any(isinstance(node, Constant) for _, node in places)

    def child() -> Tree:
        if tuned:
            return _scaled(parent, rng)
        path, old = rng.choice(places)
        return replaced(parent, path, Binary("*", constant(math.exp(rng.gauss(0, _SPREAD))), old))

    found = _until(child, lambda tree: tree != parent and size_of(tree).within(limit))
    return found or mutate(expressions, parent, rng, limit)


def _scaled(tree: Tree, rng: random.Random) -> Tree:
    match tree:
        case Constant(value):
            return constant(value * math.exp(rng.gauss(0, _SPREAD)))
        case Call(function, argument):
            return Call(function, _scaled(argument, rng))
        case Binary(operator, left, right):
            return Binary(operator, _scaled(left, rng), _scaled(right, rng))
    return tree


def _until(draw: Callable[[], Tree], good: Callable[[Tree], bool]) -> Tree | None:
    return next((tree for tree in (draw() for _ in range(_TRIES)) if good(tree)), None)


def _draw(rng: random.Random, names: Sequence[str], operands: int, calls: int) -> Tree:
    """A tree with these numbers, all equally likely."""
    if operands == 1 and calls == 0:
        index = rng.randrange(len(names) + 1)
        return Variable(names[index]) if index < len(names) else constant(10 ** rng.uniform(-1, 1), digits=2)
    splits = _splits(operands, calls, len(names) + 1)
    left, left_calls, _ = rng.choices(splits, [weight for *_, weight in splits])[0]
    if left == operands:
        return Call(rng.choice(FUNCTIONS), _draw(rng, names, operands, left_calls))
    return Binary(
        rng.choice(OPERATORS),
        _draw(rng, names, left, left_calls),
        _draw(rng, names, operands - left, calls - left_calls),
    )


@cache
def _splits(operands: int, calls: int, leaves: int) -> tuple[tuple[int, int, int], ...]:
    """What can be at the root: (operands, calls, how many trees) of the argument or the left side."""
    splits = []
    if calls:
        splits.append((operands, calls - 1, len(FUNCTIONS) * _count(operands, calls - 1, leaves)))
    for left in range(1, operands):
        for left_calls in range(calls + 1):
            trees = _count(left, left_calls, leaves) * _count(operands - left, calls - left_calls, leaves)
            splits.append((left, left_calls, len(OPERATORS) * trees))
    return tuple(splits)


@cache
def _count(operands: int, calls: int, leaves: int) -> int:
    """How many trees there are with so many operands, each one of `leaves`, and so many function calls."""
    if operands == 1 and calls == 0:
        return leaves
    return sum(weight for *_, weight in _splits(operands, calls, leaves))
