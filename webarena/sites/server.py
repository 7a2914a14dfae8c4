"""One process per site: it imports the application once and forks a child for every slot.

`python -m webarena.sites.server NAME --base SEED --root DIR --socket FILE`. The parent (the "zygote") holds the listening
sockets, so requests wait in the queue while a child is replaced; a child serves a private copy of the state. Restoring
a slot is: kill the child, put changed files back, fork. When it is ready the zygote prints one JSON line, then answers
JSON lines on a Unix socket:

    {"op": "status"}                                → {"ok": true, "pid": …, "slots": [{"port": …, "pid": …, …}]}
    {"op": "restore", "slot": 0, "from": FOLDER}    → {"ok": true, "ms": …, "files": …}     from: the base if left out
    {"op": "tidy", "slot": 0}                       → {"ok": true, "restored": …}           a restore, if files have changed
    {"op": "rebase", "base": FOLDER}                → {"ok": true, "ms": …, "files": …}     a new base, for all slots
    {"op": "snapshot", "slot": 0, "to": FOLDER}     → {"ok": true, "ms": …}
    {"op": "disown"}, {"op": "stop"}                → {"ok": true}

Unless it is disowned, it lives as long as its standard input is open, and removes `root` at the end. Children are killed by the kernel when the zygote dies.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from coevo.errors import CoevoError
from webarena.sites.base import Site
from webarena.sites.copies import differs, mirror

HOST = "127.0.0.1"
BACKLOG = 128
QUICK_DEATH_S = 2.0  # a child that lives shorter is forked again only after a pause
LONGEST_PAUSE_S = 5.0
STOP_TIMEOUT_S = 2.0
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)  # Linux only


def die_with_parent(parent: int) -> None:
    """Lets the kernel kill this process when `parent`, which has just forked it, dies. Linux only."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


@dataclass(slots=True)
class Slot:
    """A private copy of the state, its port, and the child that serves it (`pid` 0: none just now)."""

    index: int
    listener: socket.socket
    state: Path
    pid: int = 0
    started: float = 0.0
    starts: int = 0
    deaths: int = 0
    quick_deaths: int = 0
    due: float = 0.0

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def describe(self) -> dict[str, Any]:
        return {
            "slot": self.index,
            "port": self.port,
            "pid": self.pid,
            "starts": self.starts,
            "deaths": self.deaths,
        }


class Zygote:
    """The process of a site. `run` returns when it has been told to stop."""

    def __init__(self, site: Site, *, base: Path, root: Path, slots: int, control: Path) -> None:
        self.site = site
        self.base = base
        self.root = root
        self.control = control
        self.owned = True
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, bytes] = {}
        self.slots = [self._new_slot(index) for index in range(1 if site.read_only else slots)]
        self._wake, self._wake_write = socket.socketpair()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def run(self) -> None:
        self._prepare()
        try:
            for slot in self.slots:
                if not self.site.read_only:
                    mirror(self.base, slot.state)
                self._fork(slot)
            self._say_hello()
            while not self._stopping:
                for key, _ in self._selector.select(self._patience()):
                    key.data(key.fileobj)
                self._revive()
        finally:
            self._end()

    def _new_slot(self, index: int) -> Slot:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, 0))
        listener.listen(BACKLOG)
        state = self.base if self.site.read_only else self.root / "slots" / str(index)
        return Slot(index, listener, state)

    def _prepare(self) -> None:
        if len(os.listdir("/proc/self/task") if os.path.isdir("/proc") else threading.enumerate()) > 1:
            raise CoevoError(
                f"site {self.site.name}: load() leaves threads running, so the process cannot be forked safely"
            )
        if _prctl is not None:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._wake.setblocking(False)
        self._wake_write.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write.fileno())
        self.control.unlink(missing_ok=True)
        self._server.bind(str(self.control))
        self._server.listen(BACKLOG)
        self._selector.register(self._wake, selectors.EVENT_READ, self._signalled)
        self._selector.register(self._server, selectors.EVENT_READ, self._connected)
        self._selector.register(0, selectors.EVENT_READ, self._owner)
        gc.collect()
        gc.freeze()

    def _say_hello(self) -> None:
        """The one line on standard output; later output goes where errors go."""
        line = json.dumps({"pid": os.getpid(), "ports": [slot.port for slot in self.slots]})
        os.write(1, line.encode() + b"\n")
        os.dup2(2, 1)

    # children

    def _fork(self, slot: Slot) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._serve(slot, parent)
        slot.pid, slot.started = pid, time.monotonic()
        slot.starts += 1

    def _serve(self, slot: Slot, parent: int) -> None:
        """In the child. Never returns."""
        try:
            die_with_parent(parent)
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            self._selector.close()
            for other in (self._server, self._wake, self._wake_write, *self._connections):
                other.close()
            for neighbour in self.slots:
                if neighbour is not slot:
                    neighbour.listener.close()
            os.dup2(2, 1)
            self.site.serve(slot.state, slot.listener, f"http://{HOST}:{slot.port}")
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)

    def _kill(self, slot: Slot) -> None:
        """Ends the slot's child and whatever it has started, and waits for the child."""
        pid, slot.pid = slot.pid, 0
        if pid:
            _kill_group(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for slot in self.slots:
                if slot.pid == pid:
                    self._died(slot)

    def _died(self, slot: Slot) -> None:
        _kill_group(slot.pid)
        slot.pid = 0
        slot.deaths += 1
        now = time.monotonic()
        slot.quick_deaths = slot.quick_deaths + 1 if now - slot.started < QUICK_DEATH_S else 0
        pause = 0.1 * 2 ** min(slot.quick_deaths - 1, 10) if slot.quick_deaths else 0.0
        slot.due = now + min(pause, LONGEST_PAUSE_S)
        print(f"slot {slot.index}: its process died ({slot.deaths} so far)", file=sys.stderr, flush=True)

    def _revive(self) -> None:
        for slot in self.slots:
            if not slot.pid and not self._stopping and time.monotonic() >= slot.due:
                self._fork(slot)

    def _patience(self) -> float | None:
        """Seconds until a dead child is due, None if all live."""
        due = [slot.due for slot in self.slots if not slot.pid]
        return max(0.0, min(due) - time.monotonic()) if due else None

    # what happens

    def _signalled(self, _: Any) -> None:
        numbers = self._wake.recv(4096)
        self._reap()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._stopping = True

    def _owner(self, _: Any) -> None:
        if not os.read(0, 4096):
            self._stopping = True

    def _connected(self, _: Any) -> None:
        connection, _address = self._server.accept()
        connection.setblocking(True)
        self._connections[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, self._received)

    def _received(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._hang_up(connection)
            return
        *lines, self._connections[connection] = (self._connections[connection] + data).split(b"\n")
        for line in lines:
            try:
                connection.sendall(json.dumps(self._answer(line)).encode() + b"\n")
            except OSError:
                self._hang_up(connection)
                return

    def _hang_up(self, connection: socket.socket) -> None:
        self._connections.pop(connection, None)
        self._selector.unregister(connection)
        connection.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        begun = time.perf_counter()
        try:
            request = json.loads(line)
            answer = self._do(request)
        except (ValueError, KeyError, TypeError, IndexError, OSError) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}
        return {"ok": True, "ms": round((time.perf_counter() - begun) * 1000, 1), **answer}

    def _do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        operation = request["op"]
        if operation == "status":
            self._reap()
            return {
                "site": self.site.name,
                "pid": os.getpid(),
                "base": str(self.base),
                "slots": [slot.describe() for slot in self.slots],
            }
        if operation == "disown":
            if self.owned:
                self._selector.unregister(0)
            self.owned = False
            return {}
        if operation == "stop":
            self._stopping = True
            return {}
        if operation == "restore":
            source = Path(request["from"]) if "from" in request else self.base
            return {"files": self._restore(self._slot(request), source)}
        if operation == "tidy":
            slot = self._slot(request)
            changed = not self.site.read_only and differs(self.base, slot.state)
            if changed:
                self._restore(slot, self.base)
            return {"restored": changed}
        if operation == "rebase":
            self.base = Path(request["base"])
            return {"files": sum(self._restore(slot, self.base) for slot in self.slots)}
        if operation == "snapshot":
            self._snapshot(self._slot(request), Path(request["to"]))
            return {}
        raise ValueError(f"no operation {operation!r}")

    def _slot(self, request: Mapping[str, Any]) -> Slot:
        index = 0 if self.site.read_only else int(request["slot"])
        if not 0 <= index < len(self.slots):
            raise IndexError(f"no slot {index}: there are {len(self.slots)}")
        return self.slots[index]

    def _restore(self, slot: Slot, source: Path) -> int:
        if not source.is_dir():
            raise FileNotFoundError(f"no snapshot {source}")
        self._kill(slot)
        slot.quick_deaths, slot.due = 0, 0.0
        files = 0 if self.site.read_only else mirror(source, slot.state)
        self._fork(slot)
        return files

    def _snapshot(self, slot: Slot, to: Path) -> None:
        """The slot's files as they are on disk, with the child stopped meanwhile; what it holds in memory is not in it."""
        if to.exists():
            raise FileExistsError(f"{to} exists")
        part = to.with_name(f"{to.name}.part-{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        if slot.pid:
            os.kill(slot.pid, signal.SIGSTOP)
        try:
            mirror(slot.state, part)
        finally:
            if slot.pid:
                os.kill(slot.pid, signal.SIGCONT)
        part.rename(to)

    def _end(self) -> None:
        self._stopping = True
        for slot in self.slots:
            if slot.pid:
                _kill_group(slot.pid)
        self.control.unlink(missing_ok=True)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.005)
            except ChildProcessError:
                break
        shutil.rmtree(self.root if self.owned else self.root / "slots", ignore_errors=True)
        if self.owned:  # its owner may have died without tidying up
            with contextlib.suppress(OSError):
                self.root.parent.rmdir()


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group, unless the child has not yet made it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="webarena.sites.server", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("name")
    parser.add_argument("--module", help="Python module that holds the site (default: the registered one)")
    parser.add_argument(
        "--base", type=Path, required=True, help="folder with the state that slots begin with"
    )
    parser.add_argument("--root", type=Path, required=True, help="folder for the slots' copies")
    parser.add_argument("--socket", type=Path, required=True, help="control socket (at most 100 characters)")
    parser.add_argument("--slots", type=int, default=1)
    options = parser.parse_args()
    if options.module:
        site: Site = import_module(options.module).site
    else:
        from webarena.sites import load_site

        site = load_site(options.name)
    site.load()
    Zygote(site, base=options.base, root=options.root, slots=options.slots, control=options.socket).run()


if __name__ == "__main__":
    try:
        main()
    except CoevoError as problem:
        sys.exit(f"error: {problem}")
