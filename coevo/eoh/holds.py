"""What a child of an operator may change, as a grammar: variants of a formula that keep to what they were asked for.

Where something is changed is drawn; what stands there then is the model's choice. Without this a small model that is asked to
change one part of a formula writes another formula: each of its tokens may leave the way, and few copies are exact.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from coevo.eoh.expressions import (
    LIMIT,
    Binary,
    Constant,
    Path,
    Size,
    Tree,
    Variable,
    children_of,
    parenthesised,
    replaced,
    size_of,
    subtrees,
    text_of,
)
from coevo.eoh.grammar import Hole, lark, one_of, with_numbers
from coevo.eoh.operators import Operator

if TYPE_CHECKING:
    from coevo.problem import Expressions

_MARK = Variable("\N{WHITE SQUARE}")


def held(
    expressions: Expressions,
    operator: Operator,
    parents: Sequence[Tree],
    rng: random.Random,
    limit: Size = LIMIT,
) -> str:
    """The grammar of an operator's child.

    m1: the parent with another formula in the place of one of its subtrees, of up to twice that subtree's variables plus one;
    m2: with other constants, one of them surely, or with a weight where it has none; m3: with a subtree replaced by one of half
    its size, or another operand where it is nothing more; e2: one parent, the first if possible, with a subtree of the other
    in the place of one of its own. What cannot be done is done as m1; without a parent within the limit, and for any other
    operator, any formula.
    """
    first = parents[0] if parents else None
    found = None
    if first is not None and size_of(first).within(limit):
        if operator is Operator.E2 and len(parents) > 1:
            second = parents[1]
            found = _crossed(first, second, rng, limit) or _crossed(second, first, rng, limit)
            found = found or _part(expressions, first, rng, limit)
        elif operator in (Operator.E2, Operator.M1):
            found = _part(expressions, first, rng, limit)
        elif operator is Operator.M2:
            found = _numbers(first, rng, limit) or _part(expressions, first, rng, limit)
        elif operator is Operator.M3:
            found = _smaller(expressions, first, rng, limit)
    return found or lark(expressions, Hole(limit=limit))


def hole_at(tree: Tree, path: Path, limit: Size = LIMIT) -> Hole | None:
    """The place of a subtree: what is written there may be as large as `limit` leaves room for.

    None where the formula would be left without a variable by a number: not a place to be filled freely.
    """
    if not path:
        return Hole(limit=limit)
    marked = replaced(tree, path, _MARK)
    rest = size_of(marked)
    if rest.variables < 2:  # the mark is one
        return None
    before, _, after = text_of(marked).partition(_MARK.name)
    room = Size(
        limit.variables - (rest.variables - 1),
        limit.constants - rest.constants,
        limit.parentheses - rest.parentheses,
        limit.nesting - (before.count("(") - before.count(")")),
    )
    return Hole(before, after, parenthesised(tree, path), room) if room.variables >= 1 else None


def _part(expressions: Expressions, tree: Tree, rng: random.Random, limit: Size) -> str:
    old, hole = rng.choice(_holes(tree, limit))
    room = replace(hole.limit, variables=min(hole.limit.variables, 2 * size_of(old).variables + 1))
    return lark(expressions, _other(expressions, replace(hole, limit=room), old))


def _smaller(expressions: Expressions, tree: Tree, rng: random.Random, limit: Size) -> str:
    holes = [(old, hole) for old, hole in _holes(tree, limit) if children_of(old)]
    if not holes:  # one operand: another one
        return lark(expressions, _other(expressions, Hole(limit=Size(1, 0, 0, 0)), tree))
    old, hole = rng.choice(holes)
    size = size_of(old)
    room = Size(
        max(1, size.variables // 2),
        size.constants // 2 if size.variables else 0,
        size.parentheses // 2,
        hole.limit.nesting,
    )
    return lark(expressions, replace(hole, limit=room))


def _other(expressions: Expressions, hole: Hole, old: Tree) -> Hole:
    """The hole for anything but `old`; in a language of one variable for that, too: there may be nothing else."""
    return replace(hole, unlike=text_of(old)) if len(expressions.variables) > 1 else hole


def _holes(tree: Tree, limit: Size) -> list[tuple[Tree, Hole]]:
    """At least one: the whole formula."""
    found = ((old, hole_at(tree, path, limit)) for path, old in subtrees(tree))
    return [(old, hole) for old, hole in found if hole is not None]


def _numbers(tree: Tree, rng: random.Random, limit: Size) -> str | None:
    constants = [(path, node) for path, node in subtrees(tree) if isinstance(node, Constant)]
    if constants:
        marked = tree
        for path, _ in constants:
            marked = replaced(marked, path, _MARK)
        number = rng.randrange(len(constants))
        return with_numbers(text_of(marked).split(_MARK.name), (number, text_of(constants[number][1])))
    weighted = [replaced(tree, path, Binary("*", _MARK, old)) for path, old in subtrees(tree)]
    fitting = [one for one in weighted if _with_constant(size_of(one)).within(limit)]
    return with_numbers(text_of(rng.choice(fitting)).split(_MARK.name), (0, "1")) if fitting else None


def _with_constant(size: Size) -> Size:
    """Of a tree whose mark stands for a constant."""
    return replace(size, variables=size.variables - 1, constants=size.constants + 1)


def _crossed(first: Tree, second: Tree, rng: random.Random, limit: Size) -> str | None:
    """A drawn place of the first parent; the model chooses which part of the second comes there."""
    places = [path for path, _ in subtrees(first) if path]
    rng.shuffle(places)
    for path in places:
        children = (replaced(first, path, gift) for _, gift in subtrees(second))
        new = {
            text_of(child)
            for child in children
            if child not in (first, second) and size_of(child).within(limit)
        }
        if new:
            return one_of(sorted(new))
    return None
