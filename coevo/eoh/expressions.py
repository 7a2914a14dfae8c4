"""Formulas as typed trees: variables, positive constants, + − × ÷, and a fixed small set of functions.

The text of a formula is Python: `0.5 * d_mean + sqrt(d_near)`, with the functions of `FUNCTIONS` in scope. `text_of` writes
no more parentheses than the tree needs, so `parse(text_of(tree)) == tree`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from coevo.errors import CoevoError, ConfigError

if TYPE_CHECKING:
    from coevo.problem import Expressions

FUNCTIONS = ("sqrt", "exp", "square")
OPERATORS = ("+", "-", "*", "/")
SMALLEST, LARGEST, DECIMALS = 0.001, 999.999, 3
"""Constants are the multiples of 0.001 in this range, written without trailing zeros."""

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
"""Operators of a larger number bind tighter."""

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+\.?\d*|\.\d+)|(?P<name>[^\W\d]\w*)|(?P<symbol>[-+*/()]))")
_DEEPEST, _MOST = 50, 200
"""Nested parentheses and operands that `parse` reads: below Python's recursion limit."""


class ExpressionError(CoevoError):
    """A text that is not a formula of the language, with what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A multiple of 0.001 from 0.001 to 999.999; `constant` rounds a number to one."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    argument: Tree


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Tree
    right: Tree


Tree: TypeAlias = Variable | Constant | Call | Binary
Path: TypeAlias = tuple[int, ...]
"""From the root to a subtree: 0 is the argument or the left side, 1 the right side."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a formula is, or may be: variables and constants in its text, pairs of parentheses (those of function calls
    included), and how deep these are nested."""

    variables: int = 6
    constants: int = 3
    parentheses: int = 6
    nesting: int = 4

    def within(self, limit: Size) -> bool:
        """Whether a formula of this size is allowed. One without a variable never is: it says the same of everything."""
        return (
            1 <= self.variables <= limit.variables
            and self.constants <= limit.constants
            and self.parentheses <= limit.parentheses
            and self.nesting <= limit.nesting
        )


LIMIT = Size()
"""What a formula may have where nothing else is said: a language model writes it in about 60 tokens at most."""


def check_limit(limit: Size) -> None:
    """Raises ConfigError when no formula is within `limit`, or `parse` could not read all that are."""
    counts = (limit.variables, limit.constants, limit.parentheses)
    if (
        limit.variables < 1
        or not all(0 <= count <= _MOST // 2 for count in counts)
        or not 0 <= limit.nesting <= _DEEPEST
    ):
        raise ConfigError(
            f"formulas cannot be limited to {limit}",
            hint=f"1 to {_MOST // 2} variables, up to {_MOST // 2} constants and parentheses, nesting up to {_DEEPEST}",
        )


def variables_of(expressions: Expressions) -> tuple[str, ...]:
    """The names formulas may use. Raises ConfigError for a name that is no Python name or already a function's."""
    names = tuple(expressions.variables)
    for name in names:
        if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or name in FUNCTIONS:
            raise ConfigError(
                f"the formula variable {name!r} cannot be used",
                hint=f"give it another name in the problem's `expressions`: an ASCII Python name, none of {', '.join(FUNCTIONS)}",
            )
    if not names:
        raise ConfigError("a language of formulas needs at least one variable")
    return names


def constant(value: float, *, digits: int = 3) -> Constant:
    """The nearest constant with at most so many significant digits."""
    rounded = round(float(f"{value:.{digits}g}"), DECIMALS)
    return Constant(min(max(rounded, SMALLEST), LARGEST))


def text_of(tree: Tree) -> str:
    """The formula in Python, with single spaces around + - * / and no parentheses that change nothing."""
    match tree:
        case Variable(name):
            return name
        case Constant(value):
            return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
        case Call(function, argument):
            return f"{function}({text_of(argument)})"
        case Binary(operator, left, right):
            level = PRECEDENCE[operator]
            return f"{_side(left, level)} {operator} {_side(right, level + 1)}"


def _side(tree: Tree, level: int) -> str:
    text = text_of(tree)
    return f"({text})" if isinstance(tree, Binary) and PRECEDENCE[tree.operator] < level else text


def parse(text: str, expressions: Expressions) -> Tree:
    """The tree of a formula. Spaces and superfluous parentheses do not matter.

    Raises ExpressionError: unknown name, a constant the language does not have, wrong syntax, far too long; with the place.
    """
    return _Parser(text, variables_of(expressions)).formula()


def trees_of(texts: Iterable[str], expressions: Expressions) -> list[Tree]:
    """The trees of those texts that are formulas: a person's program is none."""
    trees = []
    for text in texts:
        with suppress(ExpressionError):
            trees.append(parse(text, expressions))
    return trees


def size_of(tree: Tree) -> Size:
    text = text_of(tree)
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    nodes = [node for _, node in subtrees(tree)]
    return Size(
        variables=sum(isinstance(node, Variable) for node in nodes),
        constants=sum(isinstance(node, Constant) for node in nodes),
        parentheses=text.count("("),
        nesting=deepest,
    )


def subtrees(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Tree]]:
    """Every subtree with its path, the tree itself first."""
    yield path, tree
    for index, child in enumerate(children_of(tree)):
        yield from subtrees(child, (*path, index))


def children_of(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Call(_, argument):
            return (argument,)
        case Binary(_, left, right):
            return (left, right)
    return ()


def replaced(tree: Tree, path: Path, new: Tree) -> Tree:
    """The tree with `new` in the place of the subtree at `path`."""
    if not path:
        return new
    match tree, path[0]:
        case Call(function, argument), 0:
            return Call(function, replaced(argument, path[1:], new))
        case Binary(operator, left, right), 0:
            return Binary(operator, replaced(left, path[1:], new), right)
        case Binary(operator, left, right), 1:
            return Binary(operator, left, replaced(right, path[1:], new))
    raise IndexError(f"{text_of(tree)} has no subtree {path}")


def parenthesised(tree: Tree, path: Path) -> int:
    """What an operator's precedence must be at least, so that its operation needs no parentheses at `path`: 0 to 3."""
    parent = tree
    for step in path[:-1]:
        parent = children_of(parent)[step]
    return PRECEDENCE[parent.operator] + path[-1] if path and isinstance(parent, Binary) else 0


def shape_of(tree: Tree) -> str:
    """The structure without its operands, e.g. `x + sqrt(x * x)`: equal for formulas that differ in operands only."""
    match tree:
        case Call(function, argument):
            return f"{function}({shape_of(argument)})"
        case Binary(operator, left, right):
            return f"({shape_of(left)} {operator} {shape_of(right)})"
    return "x"


class _Parser:
    """Recursive descent: sum, product, operand."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self._text, self._variables = text, variables
        self._at = 0  # where the next token begins
        self._depth = self._operands = 0

    def formula(self) -> Tree:
        tree = self._sum()
        if self._text[self._at :].strip():
            self._refuse("here the formula should end")
        return tree

    def _sum(self) -> Tree:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Tree:
        return self._chain(("*", "/"), self._operand)

    def _chain(self, operators: tuple[str, ...], part: Callable[[], Tree]) -> Tree:
        tree = part()
        while (found := _TOKEN.match(self._text, self._at)) and found["symbol"] in operators:
            self._at = found.end()
            tree = Binary(found["symbol"], tree, part())
        return tree

    def _operand(self) -> Tree:
        start, found = self._at, _TOKEN.match(self._text, self._at)
        if found is None or found["symbol"] not in (None, "("):
            self._refuse("here a variable, a number or a function should be")
        self._at = found.end()
        self._operands += 1
        if self._operands > _MOST:
            self._refuse(f"it has more than {_MOST} operands")
        if found["number"]:
            value = float(found["number"])
            if not SMALLEST <= value <= LARGEST or value != round(value, DECIMALS):
                self._refuse(f"constants are multiples of {SMALLEST} up to {LARGEST}", start)
            return Constant(value)
        name = found["name"]
        if name in self._variables:
            return Variable(name)
        if name in FUNCTIONS:
            opening = _TOKEN.match(self._text, self._at)
            if opening is None or opening["symbol"] != "(":
                self._refuse(f"here ( should be: {name} is a function")
            self._at = opening.end()
        elif name is not None:
            known = ", ".join((*self._variables, *FUNCTIONS))
            self._refuse(f"unknown name {name!r} (there are {known})", start)
        inner = self._inside()
        return Call(name, inner) if name else inner

    def _inside(self) -> Tree:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"parentheses are nested deeper than {_DEEPEST}")
        tree = self._sum()
        closing = _TOKEN.match(self._text, self._at)
        if closing is None or closing["symbol"] != ")":
            self._refuse("here ) or an operator should be")
        self._at = closing.end()
        self._depth -= 1
        return tree

    def _refuse(self, why: str, at: int | None = None) -> NoReturn:
        at = self._at if at is None else at
        rest = self._text[at : at + 24].strip()
        raise ExpressionError(f"not a formula: {why}: {rest!r}, character {at + 1}")
