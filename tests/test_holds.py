"""What a child may change of its parents: the grammars that mutations and crossovers of formulas are held to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from grammars import accepted, walk
from hypothesis import given
from hypothesis import strategies as st
from test_expressions import LANGUAGE, SMALL, seeds, untimed

from coevo.eoh.expressions import Binary, Constant, Size, Tree, parse, replaced, size_of, subtrees, text_of
from coevo.eoh.grammar import Hole, lark
from coevo.eoh.holds import held, hole_at
from coevo.eoh.operators import Operator
from coevo.eoh.variation import random_expression


def parents(rng: random.Random, count: int) -> list[Tree]:
    return [random_expression(LANGUAGE, rng, SMALL) for _ in range(count)]


def numbers_as(tree: Tree, value: float) -> Tree:
    for path, node in list(subtrees(tree)):
        if isinstance(node, Constant):
            tree = replaced(tree, path, Constant(value))
    return tree


def written(operator: Operator, given: Sequence[Tree], seed: int) -> Tree:
    rng = random.Random(seed)
    tree = parse(walk(held(LANGUAGE, operator, given, rng, SMALL), rng), LANGUAGE)
    assert size_of(tree).within(SMALL)
    return tree


@given(seed=seeds, operator=st.sampled_from(Operator))
@untimed
def test_whatever_an_operator_allows_ends_and_is_a_formula_within_the_limit(
    seed: int, operator: Operator
) -> None:
    rng = random.Random(seed)
    written(operator, parents(rng, rng.randint(0, 2)), seed)


@given(seed=seeds)
@untimed
def test_m2_writes_the_parent_with_other_numbers_or_a_weight(seed: int) -> None:
    (parent,) = parents(random.Random(seed), 1)
    child = written(Operator.M2, [parent], seed)
    if size_of(parent).constants:
        assert numbers_as(child, 1.0) == numbers_as(parent, 1.0)
        assert child != parent
        return
    weighted = [replaced(parent, path, Binary("*", Constant(1.0), old)) for path, old in subtrees(parent)]
    assert parse(text_of(numbers_as(child, 1.0)), LANGUAGE) in [
        parse(text_of(tree), LANGUAGE) for tree in weighted
    ]


@given(seed=seeds)
@untimed
def test_e2_is_the_first_parent_with_a_part_of_the_second_and_new(seed: int) -> None:
    first, second = parents(random.Random(seed), 2)
    crossed = {
        text_of(replaced(first, path, gift))
        for path, _ in subtrees(first)
        if path
        for _, gift in subtrees(second)
    }
    allowed = {text for text in crossed if size_of(parse(text, LANGUAGE)).within(SMALL)}
    allowed -= {text_of(first), text_of(second)}
    child = written(Operator.E2, [first, second], seed)
    assert not allowed or text_of(child) in allowed


@given(seed=seeds)
@untimed
def test_m3_never_makes_a_formula_larger(seed: int) -> None:
    (parent,) = parents(random.Random(seed), 1)
    size, tree = size_of(parent), written(Operator.M3, [parent], seed)
    child = size_of(tree)
    assert tree != parent
    assert child.variables + child.constants <= size.variables + size.constants
    assert child.parentheses <= size.parentheses


@given(seed=seeds)
@untimed
def test_m1_changes_one_place_and_never_writes_the_parent(seed: int) -> None:
    (parent,) = parents(random.Random(seed), 1)
    rng = random.Random(seed)
    text = walk(held(LANGUAGE, Operator.M1, [parent], rng, SMALL), rng)
    assert parse(text, LANGUAGE) != parent
    holes = [hole_at(parent, path, SMALL) for path, _ in subtrees(parent)]
    assert any(hole and text.startswith(hole.before) and text.endswith(hole.after) for hole in holes)


@pytest.mark.parametrize("text", ["(d)", "((d))", "d", "0.5 * d + (x1)", "(0.5) * d + x1", "0.5 * d + x1"])
@pytest.mark.parametrize("parent", ["d", "0.5 * d + x1"])
def test_parentheses_make_no_other_formula(parent: str, text: str) -> None:
    tree = parse(parent, LANGUAGE)
    for seed in range(40):
        grammar = held(LANGUAGE, Operator.M1, [tree], random.Random(seed))
        assert not accepted(grammar, text) or parse(text, LANGUAGE) != tree


@pytest.mark.parametrize("text", ["d + x1", "(d * 2)", "0.7", "x1", "sqrt(d)"])
def test_a_single_word_may_be_gone_on_from(text: str) -> None:
    grammar = held(LANGUAGE, Operator.M1, [parse("x1 * d", LANGUAGE)], Always(2))
    assert accepted(grammar, f"x1 * ({text})" if "+" in text else f"x1 * {text}")


class Always(random.Random):
    """Draws the same place every time."""

    def __init__(self, place: int) -> None:
        super().__init__(0)
        self._place = place

    def choice(self, seq: Any) -> Any:
        return seq[self._place]


@given(seed=seeds, operator=st.sampled_from(Operator), count=st.integers(1, 2))
@untimed
def test_a_language_of_one_variable_has_no_dead_ends(seed: int, operator: Operator, count: int) -> None:
    language: Any = SimpleNamespace(variables={"d": ""})
    rng = random.Random(seed)
    limit = Size(*(rng.randint(least, 5) for least in (1, 0, 0, 0)))
    given = [random_expression(language, rng, limit) for _ in range(count)]
    text = walk(held(language, operator, given, rng, limit), rng)
    assert size_of(parse(text, language)).within(limit)


def test_a_parent_that_is_one_operand_is_crossed_the_other_way_round() -> None:
    first, second = parse("d", LANGUAGE), parse("x1 - sqrt(x1)", LANGUAGE)
    children = {text_of(written(Operator.E2, [first, second], seed)) for seed in range(30)}
    assert {"d - sqrt(x1)", "x1 - d", "x1 - sqrt(d)"} == children


def test_where_nothing_else_could_stand_the_same_may() -> None:
    language: Any = SimpleNamespace(variables={"d": ""})
    tight, rng = Size(variables=1, constants=0, parentheses=0, nesting=0), random.Random(0)
    assert walk(held(language, Operator.M1, [parse("d", language)], rng, tight), rng) == "d"


@given(seed=seeds)
@untimed
def test_a_hole_takes_every_subtree_that_has_room_and_nothing_around_it_changes(seed: int) -> None:
    rng = random.Random(seed)
    parent, other = parents(rng, 2)
    for path, _ in subtrees(parent):
        hole = hole_at(parent, path, SMALL)
        if hole is None:
            continue
        grammar = lark(LANGUAGE, hole)
        child = replaced(parent, path, other)
        if size_of(child).within(SMALL):
            assert accepted(grammar, text_of(child)), (text_of(parent), path)
        text = walk(grammar, rng)
        assert text.startswith(hole.before)
        assert text.endswith(hole.after)
        inside = parse(text[len(hole.before) : len(text) - len(hole.after)], LANGUAGE)
        assert parse(text, LANGUAGE) == parse(text_of(replaced(parent, path, inside)), LANGUAGE)


def test_parents_that_cannot_be_held_to_leave_everything_open() -> None:
    free, tree = lark(LANGUAGE), parse("d + x1 + d + x1", LANGUAGE)
    assert held(LANGUAGE, Operator.M1, [], random.Random(0)) == free
    assert held(LANGUAGE, Operator.I1, [tree], random.Random(0)) == free
    assert held(LANGUAGE, Operator.E1, [tree, tree], random.Random(0)) == free
    assert held(LANGUAGE, Operator.M1, [tree], random.Random(0)) != free
    tight = Size(variables=2)
    assert held(LANGUAGE, Operator.M1, [tree], random.Random(0), tight) == lark(LANGUAGE, Hole(limit=tight))
