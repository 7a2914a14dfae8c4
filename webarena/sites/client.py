"""The other end of `webarena.sites.server`: starts a site's process, talks to it, and notices when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevo.errors import WorldError
from webarena.sites import SITES

LOAD_TIMEOUT_S = 120.0
CONTROL_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 60.0
END_TIMEOUT_S = 5.0
LOG_LINES_SHOWN = 8


@dataclass
class SiteServer:
    """A site's process, which ends with this one unless it is disowned. `base`: the state its slots begin with."""

    name: str
    base: Path
    root: Path
    slots: int
    pid: int = 0
    ports: tuple[int, ...] = ()
    _process: subprocess.Popen[bytes] | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def socket(self) -> Path:
        return self.root / f"{self.name}.sock"

    def url(self, slot: int) -> str:
        """Base URL of a slot; a read-only site has one for all."""
        return f"http://127.0.0.1:{self.ports[slot if len(self.ports) > 1 else 0]}"

    @property
    def alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return is_server(self.pid)

    @property
    def ours(self) -> bool:
        """Whether this object has started the process."""
        return self._process is not None

    async def start(self) -> None:
        """Starts the process if it is not running, and returns when it listens. Raises `WorldError` if it does not come up."""
        async with self._starting:
            if self.alive:
                return
            await self._end_process()
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "webarena.sites.server", self.name, "--module", SITES[self.name]]
            command += ["--base", str(self.base), "--root", str(self.folder), "--socket", str(self.socket)]
            command += ["--slots", str(self.slots)]
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "TZ": "UTC"},
                    start_new_session=True,
                )
            assert self._process.stdout is not None
            line = await _read_line(self._process)
            self._process.stdout.close()
            if not line:
                await self._end_process()
                raise WorldError(f"site {self.name} did not start: {self._log_tail()}", hint=self._hint())
            hello = json.loads(line)
            self.pid, self.ports = int(hello["pid"]), tuple(hello["ports"])

    async def restart(self, seen: int) -> None:
        """Ends the process `seen`, whatever state it is in, and starts one on new ports, unless someone has done so already."""
        async with self._starting:
            if self.pid == seen:
                await self._end_process()
        await self.start()

    async def disown(self) -> None:
        """Lets the process outlive this one."""
        await self.ask("disown")
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        """One request of the control protocol. Raises `WorldError` when it fails or is not answered."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(CONTROL_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(str(self.socket))
                writer.write(json.dumps({"op": operation, **fields}).encode() + b"\n")
                line = await reader.readline()
        except (OSError, TimeoutError) as error:
            raise WorldError(
                f"site {self.name} does not answer ({operation}): {error or 'no reply in time'}",
                hint=self._hint(),
            ) from error
        finally:
            if writer is not None:
                writer.close()
        answer: dict[str, Any] = (
            json.loads(line) if line else {"ok": False, "error": "the connection was closed"}
        )
        if not answer.pop("ok"):
            raise WorldError(f"site {self.name}: {operation}: {answer['error']}", hint=self._hint())
        return answer

    async def probe(self, slot: int, *, timeout_s: float | None = None) -> None:
        """Waits until the slot answers a request for its front page with less than a server error. Raises `WorldError`."""
        timeout_s = PROBE_TIMEOUT_S if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                status = await _front_page_status(self.url(slot))
        except (OSError, TimeoutError, ValueError, IndexError) as error:
            raise WorldError(
                f"site {self.name}: {self.url(slot)} does not answer: {error or f'nothing in {timeout_s:g} s'}",
                hint=self._hint(),
            ) from error
        if status >= 500:
            raise WorldError(
                f"site {self.name}: {self.url(slot)} answers with status {status}",
                hint=self._hint(),
            )

    async def stop(self) -> None:
        """Ends the process and its children."""
        async with self._starting:
            await self._end_process()

    async def _end_process(self) -> None:
        process, pid = self._process, self.pid
        self._process, self.pid = None, 0
        if process is None:
            if is_server(pid):
                await asyncio.to_thread(end_server, pid)
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if process.poll() is None:
            process.terminate()
        try:
            await asyncio.to_thread(process.wait, END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)

    def _hint(self) -> str:
        """What the log says, since the log goes away with the arena, and the way out of a damaged state."""
        return (
            f"its log ({self.log}) ends: {self._log_tail()}; if its state is damaged, remove {self.base} and what lies beside it: "
            "it is built anew"
        )

    def _log_tail(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return "\n".join(lines[-LOG_LINES_SHOWN:]) or "it says nothing"


def is_server(pid: int) -> bool:
    """Whether `pid` is a running process of `webarena.sites.server` (and not another one that got its number)."""
    try:
        parts = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if pid else []
    except OSError:
        return False
    return b"webarena.sites.server" in parts


def end_server(pid: int) -> None:
    """Ends a server that is not our child: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_server(pid):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + END_TIMEOUT_S
        while is_server(pid) and time.monotonic() < deadline:
            time.sleep(0.02)


async def _read_line(process: subprocess.Popen[bytes]) -> bytes:
    """The first line of its standard output, b"" if it ends or takes too long."""
    assert process.stdout is not None
    reading = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
    try:
        done, _ = await asyncio.wait({reading}, timeout=LOAD_TIMEOUT_S)
    except asyncio.CancelledError:
        process.kill()  # which ends the thread's wait
        raise
    if not done:
        process.kill()
        await reading
        return b""
    return reading.result()


async def _front_page_status(url: str) -> int:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET / HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        line = await reader.readline()
        await reader.read()
    finally:
        writer.close()
    return int(line.split()[1])
