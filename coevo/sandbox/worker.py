"""The driver's handle on one zygote: start it, start candidates in it, hear how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, WorldError
from coevo.sandbox.base import Limits
from coevo.sandbox.control import END, MEBI, ONE_THREAD, REPORT, REQUEST, START

if TYPE_CHECKING:
    from coevo.sandbox.channel import Channel

PACKAGES = ("numpy", "scipy", "networkx")
"""What candidates may import besides the standard library, where it is installed."""

_READY_S = 60.0
_REPORT_S = 30.0
_CLOSE_S = 5.0
_REPORT_BYTES = 1 << 16

_BOOT = """
import os, sys, types
os.register_at_fork = lambda **handlers: None
for name, folder in (("coevo", sys.argv[1]), ("coevo.sandbox", sys.argv[1] + "/sandbox")):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder]
from coevo.sandbox.zygote import main
main(sys.argv[2])
"""
"""Without the packages' own modules, which import what a zygote has no use for, and without what Python's modules do
after a fork: candidates have one thread and start with the random state that the zygote has set.
"""


@dataclass(frozen=True, slots=True)
class End:
    """How a candidate's process ended: its status as of wait(2) and the processor time it used."""

    status: int
    cpu_s: float


class Worker:
    """One zygote. At most one candidate runs in it; `start` waits until the one before has ended."""

    def __init__(self, without: Collection[str] = ()) -> None:
        if sys.platform != "linux":
            raise ConfigError(
                "the sandbox needs Linux", hint="run it in a container or a virtual machine with Linux"
            )
        prefix, bubblewrap = _bubblewrap() if "bubblewrap" not in without else ([], "no: left out")
        packages = package_folders()
        self._directory = "" if prefix else tempfile.mkdtemp(prefix="coevo-sandbox-")
        self.layers = {"bubblewrap": bubblewrap}
        self._running = self._ready = self._hung_up = False
        self._control, control = socket.socketpair()
        self._control.setblocking(False)
        settings = {
            "control": control.fileno(),
            "directory": self._directory or _INSIDE,
            "packages": packages,
            "without": sorted(without),
            "driver": os.getpid(),  # for whoever looks at the process list
        }
        python = [sys.executable, "-s", "-P", "-S", "-B", "-c", _BOOT]
        try:
            self._process = subprocess.Popen(
                [*prefix, *python, str(Path(__file__).parent.parent), json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[control.fileno()],
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            self._remove_directory()
            raise WorldError(f"the sandbox did not start: {error}") from error
        finally:
            control.close()

    async def ready(self) -> None:
        """Wait until candidates can start. Raises WorldError, with what the process said, if it does not
        come up."""
        try:
            report = await self._next_report(_READY_S)
        except (TimeoutError, OSError) as error:
            self._process.kill()
            _, said = self._process.communicate()
            lines = said.decode(errors="replace").strip().splitlines()
            raise WorldError(f"the sandbox did not start: {lines[-1] if lines else error}") from error
        self.layers |= report["layers"]
        self._ready = True

    async def start(self, limits: Limits) -> Channel:
        """Start a candidate. Raises OSError if the zygote is gone."""
        from coevo.sandbox.channel import Channel

        if self._running:
            await self.ended()
        channel, theirs = socket.socketpair()
        output, their_output = os.pipe()
        cpu_s, memory, file_size = math.ceil(limits.cpu_s), limits.memory_mb * MEBI, limits.file_mb * MEBI
        try:
            socket.send_fds(
                self._control,
                [REQUEST.pack(START, cpu_s, memory, file_size, 0.0)],
                [theirs.fileno(), their_output],
            )
        except BaseException:
            channel.close()
            os.close(output)
            raise
        finally:
            theirs.close()
            os.close(their_output)
        self._running = True
        return Channel(
            channel, output, output_bytes=limits.output_kb * 1024, reply_bytes=limits.reply_mb * MEBI
        )

    def end(self, grace_s: float = 0.0) -> None:
        """Have the candidate killed, after a moment in which it may end by itself; the next `start` waits
        for that."""
        try:
            self._control.send(REQUEST.pack(END, 0, 0, 0, grace_s))
        except OSError:
            self.kill()

    async def ended(self) -> End:
        """Wait for the end of the running candidate. Raises OSError if the zygote is gone, silent or in
        trouble."""
        try:
            report = await self._next_report(_REPORT_S)
        except BaseException:
            self.kill()
            raise
        self._running = False
        if "failed" in report:
            raise OSError(report["failed"])
        return End(report["status"], report["cpu_s"])

    @property
    def alive(self) -> bool:
        return not self._hung_up and self._process.poll() is None

    def hang_up(self) -> None:
        """Tell the zygote to end, and all that is in it; who waits for a report hears of it, too."""
        if not self._hung_up:
            self._hung_up = True
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End the zygote and all that is in it, and wait for that."""
        self.hang_up()
        if not self._ready:
            self._process.kill()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()
        self._control.close()
        self._remove_directory()

    def _remove_directory(self) -> None:
        if self._directory:
            with contextlib.suppress(RecursionError):  # a candidate's tree, if its zygote could not remove it
                shutil.rmtree(self._directory, ignore_errors=True)

    async def _next_report(self, timeout_s: float) -> dict[str, Any]:
        data = b""
        while len(data) < REPORT.size or len(data) < REPORT.size + REPORT.unpack_from(data)[0]:
            try:
                more = self._control.recv(_REPORT_BYTES)  # most often it is there already
            except BlockingIOError:
                async with asyncio.timeout(timeout_s):
                    more = await asyncio.get_running_loop().sock_recv(self._control, _REPORT_BYTES)
            if not more:
                raise ConnectionResetError("the process is gone")
            data += more
        report: dict[str, Any] = json.loads(data[REPORT.size :])
        return report


def package_folders() -> dict[str, str]:
    """Where the packages are that candidates may import. Raises ConfigError without numpy."""
    folders = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            folders[name] = str(Path(spec.origin).parent)
    if "numpy" not in folders:
        raise ConfigError("the sandbox needs numpy", hint="pip install numpy")
    return folders


_INSIDE = "/sys/coevo-sandbox"
"""The candidates' directory in bubblewrap, in memory: in the place of a folder that is everywhere and that
no software is in."""


@functools.cache
def _bubblewrap() -> tuple[list[str], str]:
    """The start of a command that runs in bubblewrap, if it is there and works here, and what to say about
    it."""
    program = shutil.which("bwrap")
    if program is None:
        return [], "no: bwrap is not installed"
    prefix = [program, "--unshare-all", "--as-pid-1", "--ro-bind", "/", "/", "--dev", "/dev"]
    prefix += ["--proc", "/proc", "--tmpfs", "/sys", "--dir", _INSIDE, "--"]
    try:
        tried = subprocess.run(
            [*prefix, sys.executable, "-SsP", "-c", ""], capture_output=True, timeout=_READY_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"no: {error}"
    if tried.returncode:
        return [], f"no: {tried.stderr.decode(errors='replace').strip()}"
    return prefix, "around the worker: read-only files, no network, no other processes"


def _environment() -> dict[str, str]:
    """One thread for numpy, one order of sets for all candidates, and where the interpreter finds its
    libraries."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {**kept, **ONE_THREAD, "PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
