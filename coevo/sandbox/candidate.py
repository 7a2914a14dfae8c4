"""One program at the driver's command: its function is called in rounds, its failures get a category and a
sentence."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, WorldError
from coevo.sandbox.base import CandidateError, Category, Limits
from coevo.sandbox.control import EXITED, OUT_OF_MEMORY
from coevo.sandbox.worker import End, Worker

if TYPE_CHECKING:
    from coevo.sandbox.channel import Channel
    from coevo.sandbox.rounds import Result, Rounds
    from coevo.sandbox.wire import Reader

_REPORTED = {
    Category.SYNTAX_ERROR,
    Category.MISSING_FUNCTION,
    Category.WRONG_SIGNATURE,
    Category.IMPORT_ERROR,
    Category.EXCEPTION,
    Category.FORBIDDEN,
    Category.BAD_REPLY,
}
"""What a candidate's process may say of itself."""

_ASTRAY = "the rounds went another way beside the function than here; if they draw random numbers, they must seed them"
_FAILURE_BYTES = 1 << 16
_GRACE_S = 0.2
_LINE_LIMIT = 160
_MESSAGE_LIMIT = 1000


class _Refused(Exception):
    """Results that are none, in words."""


class Candidate:
    """A program that runs in its own process, with its function at the driver's command."""

    def __init__(self, code: str, worker: Worker, channel: Channel, limits: Limits) -> None:
        self._code, self._worker, self._channel, self._limits = code, worker, channel, limits
        self._wall_left = limits.wall_s
        self._turn = asyncio.Lock()
        self._closed = False
        self._ended: End | None = None
        self.arity: int | None = None
        """The number of arguments that was asked for and that the function takes."""

    @property
    def cpu_s(self) -> float:
        """Processor seconds used so far."""
        return self._ended.cpu_s if self._ended else self._channel.cpu_s

    @property
    def output(self) -> str:
        """What it printed so far, cut to `output_kb`."""
        return self._channel.output

    async def map(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """function(*arguments) for each, in order; all calls have the same number of arguments.

        Arguments are int, float, bool, None, str, numeric arrays, tuples and lists of those, and so are results; numpy's
        numbers come back as Python's. Raises CandidateError.
        """
        return await self.map_columns(*zip(*calls, strict=True), calls=len(calls))

    async def map_columns(self, *columns: Any, calls: int) -> list[Any]:
        """The same with the arguments in columns: all first arguments, then all second ones.

        A column is a sequence, an array (row i for call i), Ragged or Tuples. With many small calls a round this is several
        times cheaper for the driver.

        A function with the attribute `batched = True` is called once a round, with whole columns: arrays with
        a row a call for numbers, truth values, Tuples and arrays of one shape, lists of whatever else. It
        returns an array or a list, one result a call.
        """
        if not calls:
            return []
        from coevo.sandbox import wire

        writer = wire.Writer()
        writer.calls(columns, calls)
        kind, payload = await self._exchange(writer.frame(wire.CALLS))
        try:
            if kind != wire.RESULTS:
                raise wire.WireError("no results")
            return _results(payload, calls)
        except _Refused as error:
            raise self._error(Category.BAD_REPLY, str(error)) from None
        except (ValueError, MemoryError) as error:
            raise self._error(Category.BAD_REPLY, _unreadable(error)) from None

    async def play(self, rounds: Rounds[Result], *data: Any) -> Result:
        """Run rounds beside the function, then run them here with the answers that it gave, and return what they return
        here.

        `rounds` is a generator function (`coevo.sandbox.rounds`): it gets `data`, yields the columns of a round's calls, is
        sent the list of their results (none for a round without calls), and returns what was decided. What it raises here
        is raised. Besides its arguments, of the kinds that calls may have, it may use `np`, `decisions`, `Ragged`, `Tuples` and built-ins.

        For the driver this is several times cheaper than a `map_columns` a round. The candidate can look at all of `data`
        at once: what it must not know in advance has to be asked round by round. Raises CandidateError; ConfigError for
        rounds that use anything else.
        """
        from coevo.sandbox import wire
        from coevo.sandbox.rounds import mark, packed, play

        writer = wire.Writer()
        try:
            writer.value((packed(rounds), data, self.arity))
        except wire.WireError as error:
            raise ConfigError(
                f"{error} cannot be handed to rounds",
                hint="numbers, truth values, text, None, arrays of numbers, tuples and lists of these can",
            ) from None
        frame = writer.frame(wire.PLAY)
        kind, payload = await self._exchange(frame)
        reader = wire.Reader(payload)
        try:
            played, theirs, complaint = self._head(kind, reader)
        except (ValueError, MemoryError) as error:
            raise self._error(Category.BAD_REPLY, _unreadable(error)) from None
        last: Sequence[Any] = ()
        begun = 0
        over = False

        def ask(columns: Sequence[Any], calls: int) -> list[Any]:
            nonlocal last, begun
            if over:
                raise _Refused("nobody waits for it any more")
            if begun == played:
                raise _Refused(astray)
            last, begun = columns, begun + 1
            try:
                return _results(reader.part(), calls)
            except (ValueError, MemoryError) as error:
                raise _Refused(_unreadable(error)) from None

        astray = f"{_ASTRAY} (there: {plain(complaint)})" if complaint else _ASTRAY
        # on what the candidate got, so that both compute the same to the last bit
        _, seen, _ = wire.Reader(frame, reply=False, start=wire.HEADER.size).value()
        try:
            result = await asyncio.to_thread(play, rounds, seen, ask, self.arity)
        except _Refused as error:  # the thread does not touch the channel
            raise self._error(Category.BAD_REPLY, str(error)) from None
        finally:
            over = True
        if begun != played or theirs != mark(last):
            raise self._error(Category.BAD_REPLY, astray)
        return result

    async def load(self, function: str, arities: tuple[int, ...]) -> None:
        """Run the module's code and find its function."""
        from coevo.sandbox import wire

        writer = wire.Writer()
        writer.value((self._code, function, arities, self._limits.output_kb * 1024))
        _, payload = await self._exchange(writer.frame(wire.LOAD))
        try:
            arity = wire.Reader(payload).value()
        except ValueError as error:
            raise self._error(Category.BAD_REPLY, _unreadable(error)) from None
        self.arity = arity if isinstance(arity, int) else None
        if arities and self.arity not in arities:
            raise self._error(Category.BAD_REPLY, "the reply cannot be read: it names another arity")

    def close(self) -> None:
        """Close its channel; what is known of it stays."""
        self._closed = True
        self._channel.close()

    async def _exchange(self, frame: bytes) -> tuple[int, bytearray]:
        async with self._turn:
            return await self._exchanged(frame)

    async def _exchanged(self, frame: bytes) -> tuple[int, bytearray]:
        from coevo.sandbox import channel, wire

        if self._closed:
            raise WorldError("the candidate has been ended; its evaluation is over")
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            kind, payload = await self._channel.request(frame, max(0.0, self._wall_left))
        except TimeoutError:
            raise self._error(
                Category.TIMEOUT, f"it did not answer within {self._limits.wall_s:g} s"
            ) from None
        except wire.WireError as error:
            raise self._error(Category.BAD_REPLY, _unreadable(error)) from None
        except channel.Closed:
            raise await self._autopsy() from None
        finally:
            self._wall_left -= loop.time() - started
        if kind == wire.FAILED:
            raise self._failure(payload)
        return kind, payload

    def _failure(self, payload: bytearray) -> CandidateError:
        """What the candidate's process says of its failure; not trusted beyond its own fate."""
        from coevo.sandbox import wire

        try:
            if len(payload) > _FAILURE_BYTES:
                raise wire.WireError("no failure")
            match wire.Reader(payload).value():
                case (str(said), str(message), int() | None as number):
                    line = self._line(number)
                case _:
                    raise wire.WireError("no failure")
        except ValueError:
            return self._error(Category.BAD_REPLY, "the reply cannot be read")
        message = plain(message[:_MESSAGE_LIMIT]) + line
        if said == EXITED:
            return self._error(Category.KILLED, f"it ended its own process: {message}")
        if said == Category.MEMORY:
            return self._error(Category.MEMORY, self._memory_message() + line)
        if said not in _REPORTED:
            return self._error(Category.BAD_REPLY, "the reply cannot be read")
        return self._error(Category(said), message)

    def _line(self, number: int | None) -> str:
        """`, line 3: return 1 / n` if the code has that line."""
        lines = io.StringIO(self._code, newline=None).readlines()
        if number is None or not 1 <= number <= len(lines):
            return ""
        return f", line {number}: {plain(lines[number - 1])[:_LINE_LIMIT]}"

    def _memory_message(self) -> str:
        return f"it asked for more than the {self._limits.memory_mb} MB of memory it may use"

    async def _autopsy(self) -> CandidateError:
        """Why the process is gone."""
        self._worker.end(_GRACE_S)
        try:
            end = self._ended = await self._worker.ended()
        except (OSError, TimeoutError) as error:
            raise WorldError(f"a sandbox worker broke: {error}") from error
        number = end.status & 0x7F
        if number == signal.SIGXCPU or (number == signal.SIGKILL and end.cpu_s >= self._limits.cpu_s):
            return self._error(Category.CPU, f"it used more than {self._limits.cpu_s:g} s of processor time")
        if not number:
            status = end.status >> 8
            if status == OUT_OF_MEMORY:
                return self._error(Category.MEMORY, self._memory_message())
            return self._error(Category.KILLED, f"it ended its own process with exit status {status}")
        if number == signal.SIGKILL:
            return self._error(
                Category.KILLED, "it closed its channel to the driver or was killed by the system"
            )
        if number == signal.SIGSYS:
            return self._error(Category.FORBIDDEN, "it made a system call that is not allowed")
        return self._error(Category.KILLED, f"it died of {signal.Signals(number).name}")

    def _head(self, kind: int, reader: Reader) -> tuple[int, int, str]:
        """How many rounds were played, the mark of the last one, and what the rounds complained of."""
        from coevo.sandbox import wire

        match kind, reader.value():
            case wire.PLAYED, (int() as played, int() as mark, str() as complaint):
                return played, mark, complaint[:_MESSAGE_LIMIT]
        raise wire.WireError("no answers of rounds")

    def _error(self, category: Category, message: str) -> CandidateError:
        return CandidateError(category, message, output=self.output)


def _results(payload: bytes | bytearray, calls: int) -> list[Any]:
    """The results of a round. Raises _Refused if there are not as many as calls, else WireError."""
    from coevo.sandbox import wire

    found = wire.Reader(payload).count()  # looked at before the rest, which may be long
    if found != calls:
        raise _Refused(f"{found} results came back for {calls} calls")
    reader = wire.Reader(payload)
    results = list(reader.column())
    reader.end()
    return results


def _unreadable(error: Exception) -> str:
    return f"the reply cannot be read: {error}"


def plain(text: str) -> str:
    """One line without control characters, so that a message can do nothing to a terminal or a prompt's
    layout."""
    return "".join(character if character.isprintable() else " " for character in text).strip()
