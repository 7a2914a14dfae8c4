"""The candidate's side: loads its code, calls its function, and says what went wrong.

Nothing here is trusted: the candidate shares this process and can change all of it. What it can reach that
way are its own replies.
"""

from __future__ import annotations

import errno
import inspect
import io
import linecache
import mmap
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coevo.sandbox import rounds, wire
from coevo.sandbox.columns import single, whole
from coevo.sandbox.control import EXITED, OUT_OF_MEMORY

FILENAME = "<heuristic>"
RESERVE_BYTES = 4 << 20
"""Given back when memory runs out, to have room for the message."""
_DENIED = {
    *(errno.EPERM, errno.EACCES, errno.EROFS, errno.EFBIG, errno.ENOSPC, errno.ENOSYS, errno.EMFILE),
    *(errno.EAGAIN, errno.ENETUNREACH),  # no more processes, no network
}
_TEXT_LIMIT = 400


class Failure(Exception):
    """A category with its message and line, where no exception of the candidate is behind it."""

    def __init__(self, category: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.category, self.line = category, line


class CappedOutput(io.RawIOBase):
    """Standard output and error together: what goes beyond the cap is dropped."""

    def __init__(self, descriptor: int, cap: int) -> None:
        self._descriptor, self._left = descriptor, cap

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._left > 0:
            self._left -= os.write(self._descriptor, view[: self._left])
        return len(view)


def serve(channel: int) -> None:
    """Answer frames until the driver closes the channel. Frames that cannot be read end the process, and so does memory
    that is not even enough to say so."""
    try:
        _serve(channel)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _serve(channel: int) -> None:
    reserve = mmap.mmap(-1, RESERVE_BYTES)  # not touched, so it costs nothing
    function: Callable[..., Any] = _nothing
    batched = False
    while (frame := _receive(channel)) is not None:
        kind, payload = frame
        writer = wire.Writer()
        reply = wire.DONE
        try:
            reader = wire.Reader(payload, reply=False)
            if kind == wire.LOAD:
                code, name, arities, output_cap = reader.value()
                _redirect_output(output_cap)
                function, arity = load(code, name, arities)
                marked = getattr(function, "batched", False)
                batched = isinstance(marked, bool | np.bool_) and bool(marked)
                writer.value(arity)
            elif kind == wire.CALLS:
                number, columns = reader.calls()
                writer = _results(_asked(function, batched, columns, number))
                reply = wire.RESULTS
            else:
                code, data, arity = reader.value()
                writer = _played(function, batched, rounds.unpacked(code), data, arity)
                reply = wire.PLAYED
        except BaseException as error:
            reserve.close()
            try:
                writer = wire.Writer()
                writer.value(describe(error))
            except MemoryError:
                raise
            except BaseException:  # an exception whose own methods raise
                writer = wire.Writer()
                writer.value(("exception", "an exception that cannot be described", None))
            reply = wire.FAILED
        _send(channel, writer.frame(reply))


def load(code: str, name: str, arities: Sequence[int]) -> tuple[Callable[..., Any], int | None]:
    """Run the module and find its function; its arity is the first of `arities` that it accepts.

    If `name` is missing and exactly one other top-level function accepts one of the arities, that one is
    taken. numpy is there as `np` without an import.
    """
    linecache.cache[FILENAME] = (len(code), None, io.StringIO(code, newline=None).readlines(), FILENAME)
    module = types.ModuleType("heuristic")
    module.__dict__.update(np=np, __file__=FILENAME)
    sys.modules["heuristic"] = module
    try:
        compiled = compile(code, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Failure("syntax_error", f"{type(error).__name__}: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise Failure("syntax_error", f"the code cannot be compiled: {error}") from None
    exec(compiled, module.__dict__)
    found = module.__dict__.get(name)
    functions = {
        key: value
        for key, value in module.__dict__.items()
        if isinstance(value, types.FunctionType) and value.__code__.co_filename == FILENAME
    }
    if found is None:
        fitting = [f for f in functions.values() if not arities or _accepted(f, arities) is not None]
        if len(fitting) != 1:
            there = f"it has {', '.join(sorted(functions))}" if functions else "it has no function at all"
            raise Failure("missing_function", f"the code defines no function `{name}`; {there}")
        found = fitting[0]
    if not callable(found):
        raise Failure("missing_function", f"`{name}` is a {type(found).__name__}, not a function")
    if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
        raise Failure("wrong_signature", f"`{name}` is async; a plain function is needed")
    if not arities:
        return found, None
    arity = _accepted(found, arities)
    if arity is None:
        wanted = " or ".join(map(str, arities))
        raise Failure(
            "wrong_signature",
            f"`{name}{inspect.signature(found)}` does not take {wanted} positional arguments",
        )
    return found, arity


def describe(error: BaseException) -> tuple[str, str, int | None]:
    """(category, message, line in the candidate's code)."""
    line = error.line if isinstance(error, Failure) else None
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == FILENAME:
            line = frame.tb_lineno
        frame = frame.tb_next
    error.__traceback__ = None  # and with it what the frames hold
    category = _category(error)
    try:
        text = str(error)[:_TEXT_LIMIT]
    except MemoryError:
        raise
    except BaseException:
        text = "(its text cannot be read)"
    if not isinstance(error, Failure | wire.WireError):
        name = type(error).__name__
        text = f"{name}: {text}" if text else name
    return category, text, line


def _category(error: BaseException) -> str:
    if isinstance(error, Failure):
        return error.category
    if isinstance(error, wire.WireError):
        return "bad_reply"
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, ImportError):
        return "import_error"
    if isinstance(error, SystemExit):
        return EXITED
    if isinstance(error, OSError):
        if error.errno == errno.ENOMEM:
            return "memory"
        if error.errno in _DENIED or type(error).__name__ == "gaierror":
            return "forbidden"
        if error.errno is None and error.args and isinstance(error.args[0], OSError):
            return _category(error.args[0])
        path = error.filename
        outside = isinstance(path, str | bytes) and os.path.isabs(path)
        if outside and error.errno in (errno.ENOENT, errno.ENOTDIR):
            return "forbidden"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "forbidden"
    return "exception"


def _asked(function: Callable[..., Any], batched: bool, columns: Sequence[Any], calls: int) -> Any:
    """The results of a round: of one call with whole columns, or of as many calls as there are."""
    if batched:
        return _rows(function(*map(whole, columns)))
    if not columns:
        return [function() for _ in range(calls)]
    return [function(*arguments) for arguments in zip(*map(single, columns), strict=True)]


def _played(
    function: Callable[..., Any], batched: bool, game: Any, data: Sequence[Any], arity: int | None
) -> wire.Writer:
    """The results of round after round, up to the end or to a round that the rounds themselves complain of: the driver
    meets that again, and says it. Then the mark of the last round, and what the complaint was."""
    answers: list[bytes] = []
    rounds_begun = 0
    last: Sequence[Any] = ()
    complaint = ""
    theirs = np.geterr()

    def ask(columns: Sequence[Any], calls: int) -> list[Any]:
        nonlocal rounds_begun, last
        rounds_begun, last = rounds_begun + 1, columns
        with np.errstate(**theirs):
            results = _asked(function, batched, columns, calls)
        answers.append(_results(results).payload())
        if type(results) is list and set(map(type, results)) <= {int, float}:
            return results
        if type(results) is np.ndarray and results.ndim == 1 and results.dtype in (np.int64, np.float64):
            return results.tolist()  # type: ignore[no-any-return]
        return list(wire.Reader(bytearray(answers[-1]), reply=False).column())  # as the driver will have them

    try:
        with np.errstate(all="ignore"):
            rounds.play(game, data, ask, arity)
    except MemoryError:
        raise
    except Exception as error:
        if rounds_begun > len(answers):  # the function's own
            raise
        complaint = f"{type(error).__name__}: {error}"
    writer = wire.Writer(reply=True)
    writer.value((len(answers), rounds.mark(last), complaint[:_TEXT_LIMIT]))
    for each in answers:
        writer.part(each)
    return writer


def _rows(results: Any) -> Any:
    """What a batched function returned, if it can be one result a call."""
    if isinstance(results, list | tuple) or (isinstance(results, np.ndarray) and results.ndim):
        return results
    kind = (
        "an array without dimensions"
        if isinstance(results, np.ndarray)
        else f"a value of type {type(results).__name__}"
    )
    raise wire.WireError(
        f"the batched function returned {kind}, not an array or a list with one result a call"
    )


def _results(results: Any) -> wire.Writer:
    writer = wire.Writer(reply=True)
    try:
        writer.column(results)
    except wire.TooMuch:
        raise
    except wire.WireError:
        for index, result in enumerate(results):
            try:
                wire.Writer().value(result)
            except wire.WireError as error:
                raise wire.WireError(f"call {index + 1} returned {error}, which is no plain data") from None
        raise
    return writer


def _accepted(function: Callable[..., Any], arities: Sequence[int]) -> int | None:
    """The first number of positional arguments that the function takes."""
    if type(function) is types.FunctionType and not hasattr(function, "__wrapped__"):
        code, defaults = function.__code__, len(function.__defaults__ or ())
        if not code.co_kwonlyargcount:  # the usual case, without the cost of a Signature
            most = sys.maxsize if code.co_flags & inspect.CO_VARARGS else code.co_argcount
            return next((n for n in arities if code.co_argcount - defaults <= n <= most), None)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return arities[0]
    for arity in arities:
        try:
            signature.bind(*range(arity))
        except TypeError:
            continue
        return arity
    return None


def _redirect_output(cap: int) -> None:
    out = io.TextIOWrapper(
        CappedOutput(1, cap),  # type: ignore[type-var]
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
    sys.stdout = sys.stderr = out


def _receive(channel: int) -> tuple[int, bytearray] | None:
    header = bytearray(wire.HEADER.size)
    if not _fill(channel, header):
        return None
    _, kind, length = wire.HEADER.unpack(header)
    payload = bytearray(length)
    return (kind, payload) if _fill(channel, payload) else None


def _fill(channel: int, buffer: bytearray) -> bool:
    view = memoryview(buffer)
    while view:
        got = os.readv(channel, [view])
        if not got:
            return False
        view = view[got:]
    return True


def _send(channel: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(channel, view) :]


def _nothing(*_: Any) -> None:
    raise Failure("missing_function", "no code was loaded")
