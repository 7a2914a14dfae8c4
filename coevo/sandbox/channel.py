"""The driver's end of a candidate's channel: one frame out, one frame back, within what is left of the
time."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time

from coevo.sandbox import wire

_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 15
"""Bytes of one read: most replies are shorter, and larger buffers would come fresh from the kernel every
time."""
_LARGE_CHUNK = 1 << 20
_SEND_BUFFER = 1 << 20
_READS_BEYOND_CAP = 16
"""A candidate that writes this many times its share past Python's own files finds its output closed."""
_READS_AT_ONCE = 2000
_REST_S = 0.005
"""After so many reads for one request, or of its output, there is a rest before each further one: what comes drop by drop costs
little."""


class Closed(Exception):
    """The candidate's end is closed: its process is gone, or it closed it."""


class Channel:
    """Lock-step exchange with one candidate. Whatever it sends, and when, costs little more than the size of
    a reply."""

    def __init__(self, sock: socket.socket, output: int, *, output_bytes: int, reply_bytes: int) -> None:
        self._socket, self._output = sock, output
        self._reply_bytes = reply_bytes
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._buffer = bytearray()
        self._missing = 0
        self._reads = self._drains = 0
        self._flaw = "bytes that are no reply"
        self._closed = self._spoilt = self._late = False
        self._pid = 0
        self._cpu_s = 0.0
        self._printed = bytearray()
        self._output_bytes = output_bytes
        self._output_left = output_bytes * _READS_BEYOND_CAP
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        os.set_blocking(output, False)
        self._loop.add_reader(sock.fileno(), self._read)
        self._loop.add_reader(output, self._take_output)

    async def request(self, frame: bytes, timeout_s: float) -> tuple[int, bytearray]:
        """Send a frame and wait for the reply. Raises TimeoutError, Closed, or wire.WireError for what is
        no frame."""
        if self._spoilt:
            raise wire.WireError("bytes that nobody asked for")
        if self._closed:
            raise Closed
        self._waiter = waiter = self._loop.create_future()
        self._reads = 0
        self._deadline = self._loop.time() + timeout_s
        if self._timer is None:
            self._watch()
        try:
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:
                sent = 0
            if sent < len(frame):
                async with asyncio.timeout(timeout_s):
                    await self._loop.sock_sendall(self._socket, memoryview(frame)[sent:])
            await waiter
        except (ConnectionResetError, BrokenPipeError):
            raise Closed from None
        finally:
            self._waiter = None
        if self._late:
            raise TimeoutError
        if self._missing > 0:
            raise Closed
        if self._missing < 0:
            raise wire.WireError(self._flaw)
        kind = wire.HEADER.unpack_from(self._buffer)[1]
        payload, self._buffer = self._buffer[wire.HEADER.size :], bytearray()
        return kind, payload

    @property
    def cpu_s(self) -> float:
        """Processor time used so far, by the kernel's clock of that process; 0 before its first reply."""
        if self._pid:
            try:
                self._cpu_s = time.clock_gettime((~self._pid << 3) | 2)
            except OSError:
                self._pid = 0
        return self._cpu_s

    @property
    def output(self) -> str:
        """What the candidate printed, without the control characters that could act on a terminal."""
        self._drain()
        text = self._printed.decode("utf-8", "replace")
        if text.isprintable():
            return text
        return "".join(
            each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text
        )

    def close(self) -> None:
        self._drain()
        self._close_output()
        self._stop_reading()
        if self._timer is not None:
            self._timer.cancel()
        self._cpu_s, self._pid = self.cpu_s, 0
        self._socket.close()

    def _read(self) -> None:
        size = min(max(self._missing, _CHUNK), _LARGE_CHUNK)
        try:
            if self._pid:
                data = self._socket.recv(size)
            else:
                data, ancillary, _, _ = self._socket.recvmsg(size, socket.CMSG_SPACE(_CREDENTIALS.size))
                self._pid = _sender(ancillary)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._buffer += data
        if not data:
            self._closed = True
        waiter = self._waiter
        if waiter is None:
            self._spoilt = not self._closed
        elif not waiter.done():
            self._missing = self._count_missing()
            if self._closed or self._missing <= 0:
                waiter.set_result(None)
        self._reads += 1
        if self._closed or self._spoilt:
            self._stop_reading()
        elif self._reads > _READS_AT_ONCE:
            self._stop_reading()
            self._loop.call_later(_REST_S, self._read_on)

    def _read_on(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket.fileno(), self._read)

    def _count_missing(self) -> int:
        """Bytes until the frame in the buffer is complete; below 0 if it is none or there is more."""
        missing = wire.HEADER.size - len(self._buffer)
        if missing > 0:
            return missing
        magic, _, length = wire.HEADER.unpack_from(self._buffer)
        if magic != wire.MAGIC:
            return -1
        if length > self._reply_bytes:
            self._flaw = (
                f"it has {length >> 20} MB, more than the {self._reply_bytes >> 20} MB that may come back"
            )
            return -1
        return int(missing + length)

    def _watch(self) -> None:
        """End a wait that has passed its deadline. One timer serves many requests: it looks again when it
        is due."""
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._watch)
        else:
            self._late = True
            self._waiter.set_result(None)

    def _take_output(self) -> None:
        self._drain()
        self._drains += 1
        if self._output >= 0 and self._drains > _READS_AT_ONCE:
            self._loop.remove_reader(self._output)
            self._loop.call_later(_REST_S, self._take_on)

    def _take_on(self) -> None:
        if self._output >= 0:
            self._loop.add_reader(self._output, self._take_output)

    def _drain(self) -> None:
        while self._output >= 0:
            try:
                data = os.read(self._output, _CHUNK)
            except BlockingIOError:
                return
            self._printed += data[: max(0, self._output_bytes - len(self._printed))]
            self._output_left -= len(data)
            if not data or self._output_left < 0:
                self._close_output()

    def _close_output(self) -> None:
        if self._output >= 0:
            self._loop.remove_reader(self._output)
            os.close(self._output)
            self._output = -1

    def _stop_reading(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())


def _sender(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The number of the process that has sent a message, as the kernel says."""
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(content)[0])
    return 0
