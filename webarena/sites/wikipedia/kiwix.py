"""kiwix-serve behind a listening socket that it cannot inherit: connections are passed on to a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from webarena.sites.server import HOST, die_with_parent
from webarena.sites.wikipedia.articles import BOOK

VARIABLE = "COEVO_KIWIX"
REMEDY = f"`python -m webarena.sites.install`, `apt install kiwix-tools`, or {VARIABLE}=/path/to/kiwix-serve"
ATTEMPTS = 5
START_TIMEOUT_S = 20.0
THREADS = 2


def find_kiwix() -> str | None:
    """Path of the kiwix-serve to use: `$COEVO_KIWIX`, else one on PATH; None if there is none."""
    return shutil.which(os.environ.get(VARIABLE) or "kiwix-serve")


def serve(state: Path, listener: socket.socket) -> None:
    """Serves the ZIM file in `state` on `listener`. Ends the process when kiwix-serve ends."""
    for _ in range(ATTEMPTS):  # someone else may take the port between its choice and its use
        port = _free_port()
        kiwix = _start(state / f"{BOOK}.zim", port)
        if _wait(kiwix, port):
            asyncio.run(_pass_on(listener, port, kiwix))
        with contextlib.suppress(ProcessLookupError):
            kiwix.kill()
        kiwix.wait()
    raise RuntimeError(f"kiwix-serve did not start in {ATTEMPTS} attempts")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _start(zim: Path, port: int) -> subprocess.Popen[bytes]:
    program = find_kiwix()
    if program is None:
        raise RuntimeError(f"kiwix-serve is not installed: {REMEDY}")
    parent = os.getpid()
    return subprocess.Popen(
        [
            program,
            "--address",
            HOST,
            "--port",
            str(port),
            "--threads",
            str(THREADS),
            "--nosearchbar",
            str(zim),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: die_with_parent(parent),
    )


def _wait(kiwix: subprocess.Popen[bytes], port: int) -> bool:
    """Whether kiwix-serve accepts connections before it ends or the time is up."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while kiwix.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return True
        time.sleep(0.02)
    return False


async def _pass_on(listener: socket.socket, port: int, kiwix: subprocess.Popen[bytes]) -> None:
    """Connects every client with kiwix-serve until that ends; then this process does, and its parent forks it anew."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    listener.setblocking(False)
    async with await asyncio.start_server(connected, sock=listener):
        await asyncio.to_thread(kiwix.wait)
    os._exit(1)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What comes in goes out; the end of one side ends the other."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
