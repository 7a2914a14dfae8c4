"""The formulas of a problem as a grammar for constrained decoding, in llguidance's Lark dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coevo.eoh.expressions import (
    FUNCTIONS,
    LIMIT,
    OPERATORS,
    PRECEDENCE,
    Size,
    check_limit,
    variables_of,
)

if TYPE_CHECKING:
    from coevo.problem import Expressions

# bits of a rule's parameter that count what was written so far
_VARIABLES, _CONSTANTS, _PARENTHESES = "[0:8]", "[8:16]", "[16:24]"
_NUMBER = r"/0\.[0-9]{0,2}[1-9]|[1-9][0-9]{0,2}(\.[0-9]{0,2}[1-9])?/"
_TOKEN = re.compile(r" [-+*/] |\w+\(|[()]|[\w.]+")


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a formula: the text on either side, how tightly an operator must bind to stand there without parentheses,
    how much may be written, and what must not come again: the text of the formula that stood there. Another formula begins
    with another word, whatever parentheses are before it; where the old one was a single word, it may go on from it."""

    before: str = ""
    after: str = ""
    binds: int = 0
    limit: Size = LIMIT
    unlike: str = ""


def lark(expressions: Expressions, hole: Hole | None = None) -> str:
    """The grammar of all formulas within a limit, as `text_of` writes them; with a `hole`, of those that differ there only.

    Every text it accepts is read by `parse`, and every tree within the limit has its text accepted. Beyond those texts it
    allows superfluous parentheses, which count: a model that begins with one should not have to continue in a way it did
    not mean. Raises ConfigError for variables or a limit that cannot be used.

    The rules go from left to right: `operandN` is where an operand must come and `afterN` what may follow it, inside N pairs
    of parentheses; parameters count variables, constants and parentheses, and what is allowed can always be completed.
    Alternatives that take a parameter on begin with a terminal: llguidance 1.9 loses the parameters of others.
    """
    hole = hole or Hole()
    limit = hole.limit
    check_limit(limit)
    whole = not hole.before and not hole.after
    names, openings = variables_of(expressions), ("(", *(f"{function}(" for function in FUNCTIONS))
    more_variables = f"lt({_VARIABLES}, {limit.variables})"
    more_constants = f"lt({_CONSTANTS}, {limit.constants})"
    more = f"%if or({more_variables}, {more_constants})"
    begin = f"{'first' if hole.unlike else 'operand'}0::0"
    rules = [f"start: {_literal(hole.before)} {begin}" if hole.before else f"start: {begin}"]
    for level in range(limit.nesting + 1):
        operand = [
            f"VARIABLE after{level}::incr({_VARIABLES}) %if {more_variables}",
            f"NUMBER after{level}::incr({_CONSTANTS}) %if {more_constants}",
        ]
        if level < limit.nesting:
            more_parentheses = f"%if lt({_PARENTHESES}, {limit.parentheses})"
            operand.append(f"OPENING operand{level + 1}::incr({_PARENTHESES}) {more_parentheses}")
        rules.append(f"operand{level}::_: {' | '.join(operand)}")
        if hole.unlike:
            rules.append(_first(level, hole, names))
        if level:
            after = [f"OPERATOR operand{level}::_ {more}", f'")" after{level - 1}::_']
        else:
            after = [f"{operator} operand0::_ {more}" for operator in _operators(hole.binds)]
            # A formula without a variable says the same of everything; what fills a hole may be a number. Some condition
            # there must be: a rule that does nothing with its parameter is refused.
            after.append(f"{_words(hole.after)} %if ge({_VARIABLES}, {int(whole)})")
        rules.append(f"after{level}::_: {' | '.join(after)}")
    rules.append(f"VARIABLE: {either(names)}")
    rules.append(f"NUMBER: {_NUMBER}")
    if hole.unlike:
        rules.append(f"OTHER: {_NUMBER} & ~{_literal(_word(hole.unlike))}")
    rules.append(f"OPERATOR: {either(f' {operator} ' for operator in OPERATORS)}")
    rules.append(f"OPENING: {either(openings)}")
    return "\n".join(rules) + "\n"


def _first(level: int, hole: Hole, names: Sequence[str]) -> str:
    """The rule for a first operand inside `level` pairs of parentheses that does not begin as the old formula did."""
    word, limit = _word(hole.unlike), hole.limit
    first = [
        *(f"{_literal(name)} after{level}::incr({_VARIABLES})" for name in names if name != word),
        *([f"OTHER after{level}::incr({_CONSTANTS})"] if limit.constants else []),
    ]
    if level < limit.nesting:
        room = f"%if lt({_PARENTHESES}, {limit.parentheses})"
        first.append(f'"(" first{level + 1}::incr({_PARENTHESES}) {room}')
        others = (f"{function}(" for function in FUNCTIONS if f"{function}(" != word)
        first += [f"{_literal(other)} operand{level + 1}::incr({_PARENTHESES}) {room}" for other in others]
    number = word[:1].isdigit()
    left = limit.variables + limit.constants - 1  # beside the word
    if hole.unlike == word and left > 0 and (limit.constants if number else limit.variables):
        operators = ["OPERATOR"] if level else _operators(hole.binds)
        counted = _CONSTANTS if number else _VARIABLES
        first += [f"{_literal(word)} {operator} operand{level}::incr({counted})" for operator in operators]
    return f"first{level}::_: {' | '.join(first)}"


def _word(text: str) -> str:
    """The first of a formula but opening parentheses: a variable, a number, or a function with its parenthesis."""
    word: str = _TOKEN.findall(text.lstrip("("))[0]
    return word


def with_numbers(parts: Sequence[str], unlike: tuple[int, str] | None = None) -> str:
    """The grammar of a text with a constant between each two of its parts; one of them, by its position, `unlike` a given one."""
    places = ["NUMBER"] * (len(parts) - 1)
    rules = [f"NUMBER: {_NUMBER}"]
    if unlike is not None:
        places[unlike[0]] = "OTHER"
        rules.append(f"OTHER: {_NUMBER} & ~{_literal(unlike[1])}")
    words = [_literal(parts[0])]
    for place, part in zip(places, parts[1:], strict=True):
        words += [place, _literal(part)]
    return "\n".join([f"start: {' '.join(words)}", *rules]) + "\n"


def one_of(texts: Iterable[str]) -> str:
    """The grammar of these texts."""
    return f"start: {either(texts)}\n"


def either(texts: Iterable[str]) -> str:
    return " | ".join(map(_literal, texts))


def _operators(binds: int) -> list[str]:
    if binds <= min(PRECEDENCE.values()):
        return ["OPERATOR"]
    return [_literal(f" {operator} ") for operator in OPERATORS if PRECEDENCE[operator] >= binds]


def _words(text: str) -> str:
    """A text token by token: in one piece it would hide that a hole might go on with what follows it, too."""
    return " ".join(map(_literal, _TOKEN.findall(text) or ("",)))


def _literal(text: str) -> str:
    return json.dumps(text)
