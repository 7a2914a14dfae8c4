"""Rounds of decisions that run beside a candidate's function, and again where they are checked.

A problem writes its rounds as a generator function: it yields the arguments of a round's calls in columns, is sent the
list of what they returned, and returns what was decided. The candidate's process runs it first, where a call is a call, and
keeps the answers. The driver then runs the same rounds on its own data with these answers: all checks that count are made
there, out of the candidate's reach, and no round crosses between the two processes. Rounds must do the same both times:
they draw no random numbers but from a generator that they seed.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import itertools
import marshal
import types
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coevo.errors import ConfigError
from coevo.sandbox import decisions, wire
from coevo.sandbox.columns import Ragged, Tuples

Result = TypeVar("Result")
Rounds = Callable[..., Generator[tuple[Any, ...], list[Any], Result]]

KNOWN = {"np": np, "decisions": decisions, "Ragged": Ragged, "Tuples": Tuples}
"""What rounds may use besides their arguments and Python's built-ins."""


def play(
    rounds: Rounds[Result],
    data: Sequence[Any],
    ask: Callable[[Sequence[Any], int], list[Any]],
    arity: int | None = None,
) -> Result:
    """Run rounds to their end. `ask` gets the columns of a round and the number of its calls, which is not 0.

    Arrays among the data cannot be written to. Raises ConfigError for what is no round of calls with `arity` arguments.
    """
    running = rounds(*map(_frozen, data))
    answers: list[Any] | None = None
    for number in itertools.count(1):
        try:
            columns = next(running) if answers is None else running.send(answers)
        except StopIteration as end:
            result: Result = end.value
            return result
        calls = _calls(columns, arity, f"round {number} of {rounds.__name__}")
        answers = ask(columns, calls) if calls else []
    raise AssertionError


def mark(columns: Sequence[Any]) -> int:
    """A number that tells rounds apart that went different ways, from the columns of the last one."""
    writer = wire.Writer()
    try:
        for column in columns:
            if not isinstance(column, np.ndarray) or column.flags.writeable:
                writer.column(column)
    except ValueError:  # columns that only rounds can have
        return 0
    return zlib.crc32(writer.payload())


@functools.cache
def packed(rounds: Rounds[Any]) -> NDArray[np.uint8]:
    """The function's code as bytes. Raises ConfigError if it is no generator function or uses anything that it would not
    find in the candidate's process."""
    if not isinstance(rounds, types.FunctionType) or not inspect.isgeneratorfunction(rounds):
        name = getattr(rounds, "__name__", repr(rounds))
        raise ConfigError(
            f"the rounds {name} are no generator function",
            hint="a function of a module, no method, that yields the columns of a round",
        )
    code = rounds.__code__
    unknown = set(code.co_freevars) | {name for name in _globals(code) if not _is_known(name, rounds)}
    if unknown or rounds.__defaults__ or rounds.__kwdefaults__:
        uses = f"use {', '.join(sorted(unknown))}" if unknown else "have arguments with defaults"
        raise ConfigError(
            f"the rounds {rounds.__name__} {uses}, which the candidate's process does not have",
            hint=f"hand values over as arguments; {', '.join(KNOWN)} and Python's own names are there",
        )
    return np.frombuffer(marshal.dumps(_nameless(code)), np.uint8)


def unpacked(code: NDArray[np.uint8]) -> Rounds[Any]:
    """The function again, in another process of the same Python."""
    return types.FunctionType(marshal.loads(code.tobytes()), {"__builtins__": builtins, **KNOWN})


def _calls(columns: Any, arity: int | None, where: str) -> int:
    """How many calls the columns of a round are for."""
    if not isinstance(columns, tuple | list) or not columns:
        raise ConfigError(
            f"{where} yields {type(columns).__name__}, not a tuple with a column for each argument",
            hint="yield (column,) where the function has one argument",
        )
    if arity is not None and len(columns) != arity:
        raise ConfigError(f"{where} has {len(columns)} columns; the function takes {arity} arguments")
    lengths = []
    for column in columns:
        try:
            lengths.append(len(column))
        except TypeError:
            raise ConfigError(
                f"{where}: column {len(lengths) + 1} is {type(column).__name__}, not one value for each call"
            ) from None
    if len(set(lengths)) > 1:
        raise ConfigError(
            f"{where}: the columns have {', '.join(map(str, lengths))} values, not as many each"
        )
    return lengths[0]


def _nameless(code: types.CodeType) -> types.CodeType:
    """Without the name of the file it comes from."""
    inner = (_nameless(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.replace(co_filename="<rounds>", co_consts=tuple(inner))


def _frozen(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _globals(code: types.CodeType) -> Iterator[str]:
    """Names that the code and the functions in it look up outside."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _is_known(name: str, rounds: Rounds[Any]) -> bool:
    if name in rounds.__globals__:
        return name in KNOWN and rounds.__globals__[name] is KNOWN[name]
    return hasattr(builtins, name)
