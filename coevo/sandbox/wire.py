"""How values cross between the driver and a candidate: tagged binary frames, decoded without trust.

A frame is a header (magic, kind, length) and a payload. Values are None, bool, int, float, str, tuple,
list and arrays of booleans, integers or floats. The arguments of many calls go as columns: all first
arguments, then all second ones. A column of equal type is packed into one buffer, which makes a round of
small calls cheap on both sides. `Reader` checks every length against what is there, and how much work a
reply (or a part of one) is, so that any bytes at all end, within a second, in a value or in `WireError`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from coevo.sandbox.columns import Ragged, Tuples

HEADER = struct.Struct("<4sIQ")
MAGIC = b"cvo1"

LOAD, CALLS, PLAY, RESULTS, PLAYED, DONE, FAILED = range(1, 8)
"""Kinds of frames: the first three go to the candidate, the others come back."""

DTYPES = {
    code: np.dtype(code)
    for code in ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
}
MAX_DEPTH = 32
MAX_WORK = 1 << 20
"""Of taking a reply apart; the unit is one item of a packed column, about a third of a microsecond."""
ALONE = 16
"""Work of a value that has a tag of its own: a string, a tuple, a list, an array."""
MAX_VALUES = MAX_WORK // ALONE
MAX_INT_BYTES = 1024
MAX_DIMENSIONS = 32
ALIGNMENT = 16

_COUNT = struct.Struct("<Q")
_INT = struct.Struct("<q")
_FLOAT = struct.Struct("<d")
_dtype_of, _shape_of = attrgetter("dtype"), attrgetter("shape")
_INTS = {int, np.int64, np.int32, np.intp, np.int16, np.int8, np.uint8, np.uint16, np.uint32}
_FLOATS = {float, np.float64, np.float32, np.float16}
_SCALARS = {*_INTS, *_FLOATS, bool, np.bool_, type(None)}
_CONSTANTS = {"N": None, "T": True, "F": False}


class WireError(ValueError):
    """Bytes that are no value, or a value that is no plain data."""


class TooMuch(WireError):
    """A reply that takes too long to read."""

    def __init__(self) -> None:
        super().__init__(
            f"more than {MAX_VALUES} values came back besides lists of numbers, or more than {MAX_WORK} in lists;"
            " an array counts as one value"
        )


class Writer:
    """Collects a payload. Arrays start at multiples of 16 bytes, so that they can be used where they lie.

    A `reply` is held to the work that `Reader` spends on one.
    """

    def __init__(self, *, reply: bool = False) -> None:
        self._parts: list[Any] = []
        self._size = 0
        self._work_left = MAX_WORK if reply else None

    def frame(self, kind: int) -> bytes:
        parts = [HEADER.pack(MAGIC, kind, self._size), *self._parts]
        try:
            return b"".join(parts)
        except TypeError:  # arrays that are not contiguous
            return b"".join([part.tobytes() if isinstance(part, np.ndarray) else part for part in parts])

    def value(self, value: Any, depth: int = 0) -> None:
        self._counted(ALONE)
        kind = type(value)
        if value is None:
            self._put(b"N")
        elif kind is bool or isinstance(value, np.bool_):
            self._put(b"T" if value else b"F")
        elif isinstance(value, int | np.integer):
            self._integer(int(value))
        elif isinstance(value, float | np.floating):
            self._put(b"d" + _FLOAT.pack(float(value)))
        elif isinstance(value, str):
            text = str(value).encode("utf-8", "replace")
            self._put(b"s" + _COUNT.pack(len(text)) + text)
        elif isinstance(value, tuple | list):
            if depth >= MAX_DEPTH:
                raise WireError(f"a {kind.__name__} nested more than {MAX_DEPTH} deep")
            self._put(b"t" if isinstance(value, tuple) else b"l")
            self.column(value, depth + 1)
        elif isinstance(value, np.ndarray):
            array = plain_array(value)
            self._put(b"a")
            self._items(array.dtype, array.shape, (array,))
        else:
            raise WireError(f"a value of type {kind.__name__}")

    def column(self, values: Any, depth: int = 0) -> None:
        """Values one after another, packed if they are of one type. An array stands for its rows, Ragged
        for its parts, Tuples for tuples."""
        if isinstance(values, np.ndarray):
            if values.ndim == 1:
                if values.dtype.kind not in "biufUO":
                    raise WireError(f"an array of dtype {values.dtype}")
                values = np.asarray(values).tolist()
            else:
                array = plain_array(values)
                self._put(_COUNT.pack(len(array)) + b"b")
                self._items(array.dtype, array.shape, (array,))
                return
        elif isinstance(values, Ragged):
            items = plain_array(values.items)
            lengths = values.lengths
            lengths = lengths.tolist() if isinstance(lengths, np.ndarray) else lengths
            if items.shape != (sum(lengths),):
                raise ValueError(
                    f"arrays of {sum(lengths)} items in all, made of items of shape {items.shape}"
                )
            self._ragged(items.dtype, lengths, (items,))
            return
        elif isinstance(values, Tuples):
            rows = plain_array(values.rows)
            self._put(_COUNT.pack(len(rows)) + b"t")
            self._items(rows.dtype, rows.shape, (rows,))
            return
        kinds = set(map(type, values))
        if len(kinds) == 1 and self._uniform(values, next(iter(kinds)), depth):
            return
        if kinds and kinds <= _SCALARS and self._mixed(values):
            return
        self._put(_COUNT.pack(len(values)) + b"v")
        for value in values:
            self.value(value, depth)

    def part(self, content: bytes) -> None:
        """Bytes that a reader takes apart by themselves."""
        self._put(_COUNT.pack(len(content)) + content)

    def payload(self) -> bytes:
        """What has been written, without a header."""
        return self.frame(0)[HEADER.size :]

    def calls(self, columns: Sequence[Any], number: int) -> None:
        """Arguments of a number of calls: all first arguments, all second ones, and so on."""
        self._put(_COUNT.pack(number) + _COUNT.pack(len(columns)))
        for column in columns:
            if len(column) != number:
                raise ValueError(f"a column of {len(column)} arguments for {number} calls")
            self.column(column)

    def _uniform(self, values: Sequence[Any], kind: type, depth: int) -> bool:
        """Pack values of one type, if there is a packing for them."""
        number = len(values)
        if depth and kind in _SCALARS:
            self._counted(number)
        if kind in _INTS:
            try:
                packed = struct.pack(f"<{number}q", *values)
            except struct.error:  # beyond 64 bits
                return False
            self._put(_COUNT.pack(number) + b"q" + packed)
        elif kind in _FLOATS:
            self._put(_COUNT.pack(number) + b"d" + struct.pack(f"<{number}d", *values))
        elif kind is np.ndarray:
            dtype, shape = values[0].dtype, values[0].shape
            if dtype.str not in DTYPES or not shape or list(map(_dtype_of, values)).count(dtype) != number:
                return False
            shapes = list(map(_shape_of, values))
            if shapes.count(shape) == number:
                self._counted(number)
                self._put(_COUNT.pack(number) + b"b")
                self._items(dtype, (number, *shape), values)
            elif set(map(len, shapes)) == {1}:
                self._ragged(dtype, list(chain.from_iterable(shapes)), values)
            else:
                return False
        else:
            return False
        return True

    def _mixed(self, values: Sequence[Any]) -> bool:
        """Pack numbers, truth values and None side by side, unless a number is beyond 64 bits."""
        tags, integers, floats = bytearray(), [], []
        for value in values:
            if value is None:
                tags += b"N"
            elif isinstance(value, bool | np.bool_):
                tags += b"T" if value else b"F"
            elif isinstance(value, float | np.floating):
                tags += b"d"
                floats.append(value)
            else:
                tags += b"i"
                integers.append(value)
        try:
            packed = struct.pack(f"<{len(integers)}q{len(floats)}d", *integers, *floats)
        except struct.error:
            return False
        self._counted(len(tags))
        self._put(_COUNT.pack(len(tags)) + b"x" + tags + packed)
        return True

    def _integer(self, value: int) -> None:
        if -(1 << 63) <= value < 1 << 63:
            self._put(b"i" + _INT.pack(value))
            return
        size = value.bit_length() // 8 + 1
        if size > MAX_INT_BYTES:
            raise WireError(f"an integer of {size} bytes")
        self._put(b"I" + _COUNT.pack(size) + value.to_bytes(size, "little", signed=True))

    def _ragged(self, dtype: Any, lengths: Sequence[int], arrays: Sequence[Any]) -> None:
        number = len(lengths)
        self._counted(number)
        self._put(_COUNT.pack(number) + b"r" + struct.pack(f"<{number}Q", *lengths))
        self._items(dtype, (sum(lengths),), arrays)

    def _items(self, dtype: Any, shape: tuple[int, ...], arrays: Sequence[Any]) -> None:
        """One array of a shape, in parts that lie one after another."""
        code: str = dtype.str
        self._put(code.encode() + bytes((len(shape),)) + struct.pack(f"<{len(shape)}Q", *shape))
        self._put(bytes(-self._size % ALIGNMENT))
        self._parts.extend(arrays)
        self._size += math.prod(shape) * dtype.itemsize

    def _counted(self, work: int) -> None:
        if self._work_left is not None:
            self._work_left -= work
            if self._work_left < 0:
                raise TooMuch

    def _put(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)


def plain_array(value: Any) -> Any:
    """The array with a plain dtype in the machine's byte order. Raises WireError for objects, strings,
    dates, complex numbers."""
    array = np.asarray(value)
    if array.dtype.str in DTYPES:
        return array
    if array.dtype.kind not in "biuf":
        raise WireError(f"an array of dtype {array.dtype}")
    return array.astype(np.float64 if array.dtype.kind == "f" else array.dtype.newbyteorder("<"))


class Reader:
    """Takes a payload apart. Arrays are views on the payload, which must be writable if they are to be.

    A `reply` is nothing to trust: its work is bounded.
    """

    def __init__(self, payload: bytearray | bytes, *, reply: bool = True, start: int = 0) -> None:
        self._payload = payload
        self._at = start
        self._reply = reply
        self._work = 0

    def end(self) -> None:
        if self._at != len(self._payload):
            raise WireError("bytes after the end of a value")

    def value(self, depth: int = 0) -> Any:
        self._counted(ALONE)
        tag = self._tag()
        if tag == "i":
            return _INT.unpack(self._take(8))[0]
        if tag == "d":
            return _FLOAT.unpack(self._take(8))[0]
        if tag == "a":
            return self._array()
        if tag in ("t", "l"):
            if depth >= MAX_DEPTH:
                raise WireError(f"values nested more than {MAX_DEPTH} deep")
            items = self.column(depth + 1)
            return tuple(items) if tag == "t" else list(items)
        if tag == "s":
            return self._take(self.count()).decode("utf-8", "replace")
        if tag == "I":
            size = self.count()
            if size > MAX_INT_BYTES:
                raise WireError(f"an integer of {size} bytes")
            return int.from_bytes(self._take(size), "little", signed=True)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        raise WireError(f"unknown tag {tag!r}")

    def count(self) -> int:
        number: int = _COUNT.unpack(self._take(8))[0]
        return number

    def column(self, depth: int = 0) -> Iterator[Any]:
        """Values one after another."""
        packed = self._column(depth)
        return iter(packed.tolist() if isinstance(packed, np.ndarray) and packed.ndim == 1 else packed)

    def calls(self) -> tuple[int, list[Any]]:
        """How many calls there are, and their arguments in columns: arrays, Tuples, Ragged, lists."""
        number = self.count()
        columns = [self._column(0) for _ in range(self.count())]
        self.end()
        return number, columns

    def part(self) -> bytes | bytearray:
        """Bytes to be taken apart by themselves."""
        return self._take(self.count())

    def _column(self, depth: int) -> Any:
        """As packed: an array, Tuples, Ragged, or a list of values."""
        number = self.count()
        tag = self._tag()
        if tag in ("q", "d"):
            self._counted(number if depth else 0)
            return np.frombuffer(self._take(8 * number), "<i8" if tag == "q" else "<f8")
        if tag == "v":
            return [self.value(depth) for _ in range(number)]
        if tag == "t" and self._reply:
            raise WireError("a reply with a column that only calls have")
        self._counted(number)
        if tag == "x":
            return self._mixed(number)
        if tag in ("b", "t"):
            rows = self._array()
            if rows.ndim < 2 or len(rows) != number:
                raise WireError("a block of another length")
            return Tuples(rows) if tag == "t" else rows
        if tag == "r":
            lengths = struct.unpack(f"<{number}Q", self._take(8 * number))
            items = self._array()
            if items.shape != (sum(lengths),):
                raise WireError("ragged arrays of another length")
            return Ragged(items, lengths)
        raise WireError(f"unknown column {tag!r}")

    def _mixed(self, number: int) -> list[Any]:
        tags = self._take(number).decode("latin-1")
        integers, floats = tags.count("i"), tags.count("d")
        if integers + floats + sum(map(tags.count, _CONSTANTS)) != number:
            raise WireError("unknown tags in a column")
        numbers = {
            "i": iter(struct.unpack(f"<{integers}q", self._take(8 * integers))),
            "d": iter(struct.unpack(f"<{floats}d", self._take(8 * floats))),
        }
        return [next(numbers[tag]) if tag in numbers else _CONSTANTS[tag] for tag in tags]

    def _counted(self, work: int) -> None:
        self._work += work
        if self._reply and self._work > MAX_WORK:
            raise TooMuch

    def _tag(self) -> str:
        return chr(self._take(1)[0])

    def _take(self, size: int) -> bytes | bytearray:
        start, self._at = self._at, self._at + size
        if self._at > len(self._payload):
            raise WireError("a value that is cut off")
        return self._payload[start : self._at]

    def _array(self) -> Any:
        code, ndim = bytes(self._take(3)).decode("ascii", "replace"), self._take(1)[0]
        dtype = DTYPES.get(code)
        if dtype is None:
            raise WireError("an array of unknown dtype")
        if ndim > MAX_DIMENSIONS:
            raise WireError(f"an array of {ndim} dimensions")
        shape = struct.unpack(f"<{ndim}Q", self._take(8 * ndim))
        self._take(-self._at % ALIGNMENT)
        number = math.prod(shape)
        start, self._at = self._at, self._at + number * dtype.itemsize
        if self._at > len(self._payload):
            raise WireError("an array that is cut off")
        if not number:
            try:
                return np.empty(shape, dtype)
            except ValueError as error:  # extents beyond what numpy can count, beside one of 0
                raise WireError(str(error)) from None
        items = np.frombuffer(self._payload, dtype, number, start).reshape(shape)
        return items.view(np.uint8) != 0 if dtype.kind == "b" else items
