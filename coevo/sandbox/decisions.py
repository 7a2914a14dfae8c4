"""What a heuristic hands back, made strict: an index is a whole number, a score is finite, a matrix has the shape asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coevo.sandbox.base import CandidateError, Category

Where = Callable[[int], str]
"""Says which decision of a round the i-th value is, e.g. `instance 3, step 17`."""

FEW_CHARACTERS = 40


def described(value: Any) -> str:
    """A value in a few words, for a message."""
    if isinstance(value, np.ndarray) and value.size != 1:
        return f"an array of shape {value.shape}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, str):
        value = value[: FEW_CHARACTERS + 1]
    text = repr(value.item() if isinstance(value, np.ndarray | np.generic) else value)
    return text if len(text) <= FEW_CHARACTERS else f"{text[:FEW_CHARACTERS]}…"


def _number(value: Any, where: str) -> int | float | bool:
    """The one number that `value` is: a plain one, or the only element of an array of numbers."""
    if isinstance(value, np.ndarray | np.generic) and value.size == 1 and value.dtype.kind in "biuf":
        value = value.item()
    if isinstance(value, bool | int | float):
        return value
    raise CandidateError(Category.WRONG_SHAPE, f"{where}: {described(value)} was returned, not one number")


def infeasible(message: str) -> CandidateError:
    """A decision that the problem does not allow, to be raised."""
    return CandidateError(Category.INFEASIBLE, message)


def integers(values: Sequence[Any], where: Where) -> NDArray[np.int64]:
    """Whole numbers. 3.0 and arrays of one element count, True, 3.5 and NaN do not.

    Raises CandidateError (WRONG_SHAPE, NON_FINITE; INFEASIBLE for numbers no index can be).
    """
    if set(map(type, values)) != {int}:
        values = [_whole(value, where(i)) for i, value in enumerate(values)]
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        i = next(i for i, value in enumerate(values) if not -(2**63) <= value < 2**63)
        raise CandidateError(
            Category.INFEASIBLE, f"{where(i)}: {described(values[i])} is out of range"
        ) from None


def _whole(value: Any, where: str) -> int:
    number = _number(value, where)
    if isinstance(number, float) and not math.isfinite(number):
        raise CandidateError(Category.NON_FINITE, f"{where}: {number} was returned, not a whole number")
    if isinstance(number, bool) or number != int(number):
        raise CandidateError(Category.WRONG_SHAPE, f"{where}: {number} was returned, not a whole number")
    return int(number)


def positions(values: Sequence[Any], number: int | NDArray[np.int64], where: Where) -> NDArray[np.int64]:
    """Whole numbers from 0 on and below `number` (of all, or one each). Raises CandidateError (WRONG_SHAPE, NON_FINITE,
    INFEASIBLE)."""
    found = integers(values, where)
    outside = (found < 0) | (found >= number)
    if outside.any():
        i = int(outside.argmax())
        most = np.broadcast_to(number, found.shape)[i]
        raise infeasible(f"{where(i)}: position {found[i]} does not exist; there are {most}, from 0 on")
    return found


def reals(values: Sequence[Any], where: Where) -> NDArray[np.float64]:
    """Finite numbers; True counts as 1. Raises CandidateError (WRONG_SHAPE, NON_FINITE)."""
    if set(map(type, values)) != {float}:
        values = [_real(value, where(i)) for i, value in enumerate(values)]
    numbers = np.array(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        i = int(np.isfinite(numbers).argmin())
        raise CandidateError(
            Category.NON_FINITE, f"{where(i)}: {numbers[i]} was returned, not a finite number"
        )
    return numbers


def _real(value: Any, where: str) -> float:
    try:
        return float(_number(value, where))
    except OverflowError:
        return math.inf


def matrix(value: Any, shape: tuple[int, ...], where: str) -> NDArray[np.float32]:
    """An array of finite numbers of that shape, in single precision. Raises CandidateError (WRONG_SHAPE, NON_FINITE)."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise CandidateError(
            Category.WRONG_SHAPE, f"{where}: {described(value)} was returned, not an array of numbers"
        )
    if value.shape != shape:
        raise CandidateError(
            Category.WRONG_SHAPE, f"{where}: the array has shape {value.shape} instead of {shape}"
        )
    with np.errstate(over="ignore"):
        single = value.astype(np.float32)
    finite = np.isfinite(single)
    if not finite.all():
        cell = tuple(int(i) for i in np.unravel_index(int(finite.argmin()), shape))
        raise CandidateError(
            Category.NON_FINITE,
            f"{where}: the array holds {value[cell]} at {cell}; all entries must be finite",
        )
    return single
