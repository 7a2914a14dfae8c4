"""Arguments of many calls that are more than lists: how a driver says them, and what a candidate keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_STACKS_KEPT = 4


class Shared:
    """Stands for a value that the candidate already has; each call that names it gets a fresh copy."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


@dataclass(frozen=True, slots=True)
class Ragged:
    """One-dimensional arrays of different lengths, one a call: their items one after another, and the
    lengths."""

    items: Any
    lengths: Any

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True, slots=True)
class Tuples:
    """A two-dimensional array of integers: a row a call, handed over as a tuple."""

    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return map(tuple, self.rows.tolist())


@dataclass(frozen=True, slots=True)
class Shares:
    """A column of shared values: which one each call gets."""

    indices: tuple[int, ...]


class Store:
    """What a candidate has been sent to keep."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._stacks: dict[tuple[int, ...], Any] = {}

    def extend(self, values: Iterable[Any]) -> None:
        self._values.extend(values)

    def copies(self, indices: Sequence[int]) -> Iterator[Any]:
        """A fresh copy for each index. IndexError for a value that was never sent."""
        return (fresh(self._values[index]) for index in indices)

    def stack(self, indices: tuple[int, ...]) -> Any:
        """The values `together`, kept for further rounds and not to be written to; else a list of copies."""
        if indices not in self._stacks:
            first = self._values[indices[0]]
            if len(set(indices)) == 1 and isinstance(first, np.ndarray):
                rows = np.broadcast_to(fresh(first), (len(indices), *first.shape))
            else:
                rows = together([self._values[index] for index in indices])
            if not isinstance(rows, np.ndarray):
                return list(self.copies(indices))
            rows.flags.writeable = False
            if len(self._stacks) == _STACKS_KEPT:
                self._stacks.pop(next(iter(self._stacks)))
            self._stacks[indices] = rows
        return self._stacks[indices]


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
