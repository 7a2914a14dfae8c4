"""The arguments of a round's calls, in columns: all first arguments, then all second ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

_AT_ONCE = 1 << 18
"""Bytes of a column that are copied before its calls, which is cheaper as long as a cache has room for them."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """One-dimensional arrays of different lengths, one a call: their items one after another, and the
    lengths."""

    items: Any
    lengths: Any

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Any]:
        return (self.items[start:stop] for start, stop in pairwise(accumulate(self.lengths, initial=0)))


@dataclass(frozen=True, slots=True)
class Tuples:
    """A two-dimensional array of integers: a row a call, handed over as a tuple."""

    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return map(tuple, self.rows.tolist())


def single(column: Any) -> Iterator[Any]:
    """The values of a column, call by call, each a fresh one."""
    if isinstance(column, np.ndarray):
        if column.ndim == 1:
            return iter(column.tolist())
        return (row.copy() for row in column) if column.nbytes > _AT_ONCE else iter(column.copy())
    if isinstance(column, Tuples):
        return iter(column)
    if isinstance(column, Ragged):
        return iter(Ragged(np.array(column.items), column.lengths))
    return map(fresh, column)


def whole(column: Any) -> Any:
    """The column as one value: an array with a row a call for numbers (integers beside floats become floats), truth
    values, arrays of one shape and Tuples; a list for whatever else. A fresh one, unless it cannot be written to."""
    if isinstance(column, Tuples):
        return np.array(column.rows)
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return column.copy() if column.flags.writeable else column
    return together(list(single(column)))


def together(values: list[Any]) -> Any:
    """An array with a row for each value: of truth values, of numbers (integers beside floats become floats), of arrays of
    one shape. The list itself, if they are anything else."""
    kinds = set(map(type, values))
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        rows = np.array(values)
        return rows if rows.dtype.kind in "bif" else values  # not so integers beyond 64 bits
    if kinds == {np.ndarray} and len({value.shape for value in values}) == 1:
        return np.stack(values)
    return values


def fresh(value: Any) -> Any:
    """A copy of plain data that shares no array and no list with it."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple):
        return tuple(map(fresh, value))
    if isinstance(value, list):
        return list(map(fresh, value))
    return value
