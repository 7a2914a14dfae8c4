"""Formulas: text and tree, what the grammar accepts, and changes by chance."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from grammars import accepted, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.eoh.expressions import (
    FUNCTIONS,
    OPERATORS,
    Binary,
    Call,
    Constant,
    ExpressionError,
    Size,
    Tree,
    Variable,
    constant,
    parse,
    replaced,
    shape_of,
    size_of,
    subtrees,
    text_of,
)
from coevo.eoh.grammar import Hole, lark
from coevo.eoh.variation import crossover, different, mutate, random_expression, retune
from coevo.errors import ConfigError

NAMES = ("d_current", "d", "x1")
LANGUAGE: Any = SimpleNamespace(variables=dict.fromkeys(NAMES, "a distance"))
SMALL = Size(variables=3, constants=2, parentheses=3, nesting=2)

leaves = st.one_of(
    st.sampled_from(NAMES).map(Variable),
    st.integers(1, 999_999).map(lambda thousandths: Constant(thousandths / 1000)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Call, st.sampled_from(FUNCTIONS), inner),
        st.builds(Binary, st.sampled_from(OPERATORS), inner, inner),
    ),
    max_leaves=10,
)
seeds = st.integers(0, 2**32)
untimed = settings(deadline=None, max_examples=60)


def value(tree: Tree, scope: dict[str, float]) -> float:
    """What a formula means, written here a second time."""
    match tree:
        case Variable(name):
            return scope[name]
        case Constant(number):
            return number
        case Call(function, argument):
            x = value(argument, scope)
            return {"sqrt": math.sqrt, "exp": math.exp, "square": lambda x: x * x}[function](x)
        case Binary(operator, left, right):
            a, b = value(left, scope), value(right, scope)
            return (
                a + b
                if operator == "+"
                else a - b
                if operator == "-"
                else a * b
                if operator == "*"
                else a / b
            )


def outcome(compute: Callable[[], float]) -> float | str:
    try:
        return compute()
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return type(error).__name__


# -- text and tree -----------------------------------------------------------------------------------------------------


@given(trees)
@untimed
def test_a_text_is_read_as_the_tree_it_was_written_from(tree: Tree) -> None:
    assert parse(text_of(tree), LANGUAGE) == tree


@given(trees)
@untimed
def test_python_computes_what_the_tree_says(tree: Tree) -> None:
    scope: dict[str, Any] = {"d_current": 0.7, "d": 0.25, "x1": 3.0}
    functions = {"sqrt": math.sqrt, "exp": math.exp, "square": lambda x: x * x}
    assert outcome(lambda: eval(text_of(tree), functions | scope)) == outcome(lambda: value(tree, scope))


@given(trees)
@untimed
def test_no_pair_of_parentheses_can_be_left_out(tree: Tree) -> None:
    text = text_of(tree)
    for start, character in enumerate(text):
        if character != "(" or (start and text[start - 1].isalpha()):
            continue
        depth = 0
        for end in range(start, len(text)):
            depth += (text[end] == "(") - (text[end] == ")")
            if depth == 0:
                break
        without = text[:start] + text[start + 1 : end] + text[end + 1 :]
        assert parse(without, LANGUAGE) != tree


def test_spaces_and_superfluous_parentheses_are_read_but_not_written() -> None:
    tree = parse("( (d_current)+1.50 )*sqrt( (d))", LANGUAGE)
    assert text_of(tree) == "(d_current + 1.5) * sqrt(d)"
    assert text_of(parse("d - (x1 - 1) - (d / x1)", LANGUAGE)) == "d - (x1 - 1) - d / x1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "here a variable, a number or a function should be"),
        ("d +", "character 4"),
        ("-d", "here a variable, a number or a function should be: '-d'"),
        (
            "d + e * 2",
            "unknown name 'e' (there are d_current, d, x1, sqrt, exp, square): 'e * 2', character 4",
        ),
        ("sqrt d", "sqrt is a function"),
        ("(d + 1", "here ) or an operator should be"),
        ("d d", "here the formula should end: 'd'"),
        ("d ** 2", "should be: '* 2', character 4"),
        ("2e3", "here the formula should end: 'e3'"),
        ("d * 0", "constants are multiples of 0.001 up to 999.999: '0'"),
        ("1000", "constants are multiples of 0.001 up to 999.999"),
        ("0.0005", "constants are multiples of 0.001 up to 999.999"),
        ("(" * 5000, "nested deeper than 50"),
        (" + ".join(["d"] * 5000), "more than 200 operands"),
    ],
)
def test_what_is_no_formula_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, LANGUAGE)
    assert told in caught.value.message


@pytest.mark.parametrize("name", ["exp", "lambda", "a-b", "ä"])
def test_variables_must_be_names_of_their_own(name: str) -> None:
    with pytest.raises(ConfigError, match=f"variable '{name}' cannot be used"):
        lark(SimpleNamespace(variables={name: ""}))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least one variable"):
        lark(SimpleNamespace(variables={}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "limit", [Size(variables=0), Size(constants=-1), Size(nesting=51), Size(parentheses=999)]
)
def test_impossible_limits_are_refused(limit: Size) -> None:
    for use in (
        lambda: lark(LANGUAGE, Hole(limit=limit)),
        lambda: random_expression(LANGUAGE, random.Random(0), limit),
    ):
        with pytest.raises(ConfigError, match="formulas cannot be limited to"):
            use()


def test_sizes_count_what_is_in_the_text() -> None:
    assert size_of(parse("d * (1 - sqrt(x1))", LANGUAGE)) == Size(2, 1, 2, 2)
    assert size_of(Variable("d")) == Size(variables=1, constants=0, parentheses=0, nesting=0)


@given(st.floats(1e-6, 1e6))
@untimed
def test_constants_are_rounded_into_the_language(number: float) -> None:
    found = constant(number)
    assert parse(text_of(found), LANGUAGE) == found
    if 0.1 <= number <= 999:
        assert found.value == pytest.approx(number, rel=0.005)


@given(trees, st.data())
@untimed
def test_a_subtree_can_be_found_and_replaced(tree: Tree, data: st.DataObject) -> None:
    path, node = data.draw(st.sampled_from(list(subtrees(tree))))
    assert replaced(tree, path, node) == tree
    assert dict(subtrees(replaced(tree, path, Variable("new"))))[path] == Variable("new")


# -- the grammar -------------------------------------------------------------------------------------------------------


GRAMMAR = lark(LANGUAGE, Hole(limit=SMALL))


@given(tree=trees)
@untimed
def test_the_grammar_accepts_a_formula_exactly_when_it_is_within_the_limit(tree: Tree) -> None:
    assert accepted(GRAMMAR, text_of(tree)) == size_of(tree).within(SMALL)


@given(seed=seeds)
@untimed
def test_random_formulas_are_accepted(seed: int) -> None:
    assert accepted(GRAMMAR, text_of(random_expression(LANGUAGE, random.Random(seed), SMALL)))


@given(seed=seeds)
@untimed
def test_every_text_the_grammar_allows_ends_and_is_a_formula_within_the_limit(seed: int) -> None:
    text = walk(GRAMMAR, random.Random(seed))
    assert size_of(parse(text, LANGUAGE)).within(SMALL)


@pytest.mark.parametrize(
    "text",
    [
        "d+x1",
        "d  + x1",
        " d",
        "d ",
        "y",
        "1.0",
        "0",
        "01",
        "1.2345",
        "d + x1 + d + x1",
        "d + 1 + 1 + 1",
        "(((d)))",
        "1 + 2",
    ],
)
def test_the_grammar_refuses_other_spellings_and_what_is_too_large(text: str) -> None:
    assert not accepted(GRAMMAR, text)


def test_the_grammar_lets_a_model_bracket_what_needs_no_brackets() -> None:
    assert accepted(GRAMMAR, "(d + x1)")
    assert accepted(GRAMMAR, "((d) - 1)")


# -- chance ------------------------------------------------------------------------------------------------------------


@given(seed=seeds)
@untimed
def test_random_and_changed_formulas_are_new_and_within_the_limit(seed: int) -> None:
    rng = random.Random(seed)
    limit = Size(*(rng.randint(least, 5) for least in (2, 0, 0, 0)))
    first, second = (random_expression(LANGUAGE, rng, limit) for _ in range(2))
    children = [
        crossover(LANGUAGE, first, second, rng, limit),
        mutate(LANGUAGE, first, rng, limit),
        retune(LANGUAGE, first, rng, limit),
    ]
    for tree in (first, second, *children, different(LANGUAGE, [first, second], rng, limit)):
        assert size_of(tree).within(limit)
        assert parse(text_of(tree), LANGUAGE) == tree
    assert first not in children


def test_the_same_seed_draws_the_same_formulas() -> None:
    def drawn(seed: int) -> list[Tree]:
        rng = random.Random(seed)
        tree = random_expression(LANGUAGE, rng)
        return [tree, mutate(LANGUAGE, tree, rng), different(LANGUAGE, [tree], rng)]

    assert drawn(5) == drawn(5) != drawn(6)


def test_formulas_of_one_size_are_equally_likely() -> None:
    """Up to two operands without calls, from one variable and one constant: 4 operators, 2 orders."""
    rng, language = random.Random(1), SimpleNamespace(variables={"d": ""})
    limit = Size(variables=1, constants=1, parentheses=0, nesting=0)
    drawn: Counter[str] = Counter()
    for _ in range(4000):
        tree = random_expression(language, rng, limit)  # type: ignore[arg-type]
        if isinstance(tree, Binary):
            drawn[f"{type(tree.left).__name__} {tree.operator} {type(tree.right).__name__}"] += 1
    # a variable and a constant in two orders; one operand is a variable as often as not, two fit in one case of two
    assert len(drawn) == 8
    assert 1800 < sum(drawn.values()) < 2200  # 2000 ± 6 deviations
    assert all(250 - 75 < count < 250 + 75 for count in drawn.values())  # 250 ± 5 deviations


def test_a_child_is_made_of_subtrees_of_its_parents() -> None:
    first, second = parse("sqrt(d) + 1", LANGUAGE), parse("x1 * x1", LANGUAGE)
    rng = random.Random(0)
    children = {text_of(crossover(LANGUAGE, first, second, rng)) for _ in range(200)}
    assert children == {
        "x1 + 1",
        "sqrt(x1) + 1",
        "sqrt(d) + x1",
        "x1 * x1 + 1",
        "sqrt(x1 * x1) + 1",
        "sqrt(d) + x1 * x1",
        "x1",
    }


def test_retuning_keeps_the_structure_and_moves_every_constant_a_little() -> None:
    parent = parse("0.5 * d + exp(12 - x1)", LANGUAGE)
    for seed in range(20):
        child = retune(LANGUAGE, parent, random.Random(seed))
        assert shape_of(child) == shape_of(parent)
        moved = [node.value for _, node in subtrees(child) if isinstance(node, Constant)]
        assert moved != [0.5, 12]
        assert all(abs(math.log(new / old)) < 1.5 for new, old in zip(moved, (0.5, 12), strict=True))
    assert text_of(retune(LANGUAGE, Variable("d"), random.Random(0))).endswith(" * d")


def test_different_avoids_the_structure_of_the_parents() -> None:
    parent = parse("d * x1", LANGUAGE)
    limit = Size(variables=2, constants=0, parentheses=0, nesting=0)
    shapes = {shape_of(different(LANGUAGE, [parent], random.Random(seed), limit)) for seed in range(60)}
    assert shapes == {"x", "(x + x)", "(x - x)", "(x / x)"}
