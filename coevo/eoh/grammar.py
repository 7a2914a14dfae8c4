"""The formulas of a problem as a grammar for constrained decoding, in llguidance's Lark dialect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coevo.eoh.expressions import FUNCTIONS, LIMIT, OPERATORS, Size, check_limit, variables_of

if TYPE_CHECKING:
    from coevo.problem import Expressions

# bits of a rule's parameter that count what was written so far
_VARIABLES, _CONSTANTS, _PARENTHESES = "[0:8]", "[8:16]", "[16:24]"
_NUMBER = r"/0\.[0-9]{0,2}[1-9]|[1-9][0-9]{0,2}(\.[0-9]{0,2}[1-9])?/"


def lark(expressions: Expressions, limit: Size = LIMIT) -> str:
    """The grammar of all formulas within `limit`, as `text_of` writes them.

    Every text it accepts is read by `parse`, and every tree within `limit` has its text accepted. Beyond those texts it
    allows superfluous parentheses, which count: a model that begins with one should not have to continue in a way it did
    not mean. Raises ConfigError for variables or a limit that cannot be used.

    The rules go from left to right: `operandN` is where an operand must come and `afterN` what may follow it, inside N pairs
    of parentheses; parameters count variables, constants and parentheses, and what is allowed can always be completed.
    Every rule has several alternatives that begin with a terminal: llguidance 1.9 loses the parameters of others.
    """
    check_limit(limit)
    more_variables = f"lt({_VARIABLES}, {limit.variables})"
    more_constants = f"lt({_CONSTANTS}, {limit.constants})"
    rules = ["start: operand0::0"]
    for level in range(limit.nesting + 1):
        operand = [
            f"VARIABLE after{level}::incr({_VARIABLES}) %if {more_variables}",
            f"NUMBER after{level}::incr({_CONSTANTS}) %if {more_constants}",
        ]
        if level < limit.nesting:
            more = f"%if lt({_PARENTHESES}, {limit.parentheses})"
            operand.append(f"OPENING operand{level + 1}::incr({_PARENTHESES}) {more}")
        close = f'")" after{level - 1}::_' if level else f'"" %if ge({_VARIABLES}, 1)'
        rules.append(f"operand{level}::_: {' | '.join(operand)}")
        rules.append(
            f"after{level}::_: OPERATOR operand{level}::_ %if or({more_variables}, {more_constants}) | {close}"
        )
    rules.append(f"VARIABLE: {_either(variables_of(expressions))}")
    rules.append(f"NUMBER: {_NUMBER}")
    rules.append(f"OPERATOR: {_either(f' {operator} ' for operator in OPERATORS)}")
    rules.append(f"OPENING: {_either(('(', *(f'{function}(' for function in FUNCTIONS)))}")
    return "\n".join(rules) + "\n"


def _either(texts: Iterable[str]) -> str:
    return " | ".join(f'"{text}"' for text in texts)
