"""The warm process behind a worker: numpy loaded, isolated, and forked once for every candidate.

It runs none of the candidates' code. It takes requests of fixed size on its control socket (START brings
the candidate's channel and the pipe for its output along) and reports how every candidate ended. When the
socket closes it ends the candidate and itself, so that nothing outlives the driver.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import random
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from coevo.sandbox.control import END, ONE_THREAD, REPORT, REQUEST, START
from coevo.sandbox.isolation import Isolation

_CHANNEL = 3
_DESCRIPTORS = 1024


class Packages:
    """Finds the packages that candidates may import, and no others that lie beside them."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = dict(folders)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = self._folders.get(name)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )


class Zygote:
    """Forks candidates one after another; `serve` is what a fork does with its channel."""

    def __init__(self, control: socket.socket, isolation: Isolation, serve: Callable[[int], None]) -> None:
        self._control, self._isolation, self._serve = control, isolation, serve
        self._child = 0
        self._trouble = -1
        self._wakeup, wakeup = os.pipe()
        for end in (self._wakeup, wakeup):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)

    def run(self) -> None:
        self._report({"layers": self._isolation.layers})
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
                if self._child:
                    self._reap(os.WNOHANG)
            if self._control.fileno() in ready and not self._request():
                break
        self._finish(0.0)

    def _request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, REQUEST.size, 2)
        if len(data) < REQUEST.size:
            return False
        request, cpu_s, memory, file_size, grace_s = REQUEST.unpack(data)
        if request == START:
            try:
                self._isolation.prepare(file_size)
                self._start(descriptors, cpu_s, memory, file_size)
            except OSError as error:
                self._report({"failed": f"no process could be started: {error}"})
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        elif request == END:
            self._finish(grace_s)
        return True

    def _start(self, descriptors: Sequence[int], cpu_s: int, memory: int, file_size: int) -> None:
        self._trouble, trouble = os.pipe()
        try:
            self._child = os.fork()
        except OSError:
            os.close(self._trouble)
            os.close(trouble)
            raise
        if self._child:
            os.close(trouble)
            return
        status = 1
        try:
            try:
                self._become_candidate(descriptors, trouble, cpu_s, memory, file_size)
            except BaseException as error:
                os.write(trouble, f"{type(error).__name__}: {error}".encode())
                os._exit(1)
            os.close(trouble)
            self._serve(_CHANNEL)
            status = 0
        finally:
            os._exit(status)

    def _become_candidate(
        self, descriptors: Sequence[int], trouble: int, cpu_s: int, memory: int, file_size: int
    ) -> None:
        """Own session, no descriptors but its channel and output (and `trouble`), and all layers."""
        signal.set_wakeup_fd(-1)
        os.setsid()
        self._isolation.enter_candidate(cpu_s, memory, file_size)
        channel, output = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(channel, _CHANNEL)
        os.closerange(_CHANNEL + 1, trouble)
        os.closerange(trouble + 1, _DESCRIPTORS)
        gc.enable()

    def _finish(self, grace_s: float) -> None:
        """End the candidate, after a moment in which it may end by itself."""
        deadline = time.monotonic() + grace_s
        while self._child and grace_s and time.monotonic() < deadline:
            self._reap(os.WNOHANG)
            if self._child:
                time.sleep(0.002)
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            self._reap(0)

    def _reap(self, options: int) -> None:
        pid, status, usage = os.wait4(self._child, options)
        if not pid:
            return
        self._child = 0
        self._isolation.clean(pid)
        trouble = os.read(self._trouble, 4096).decode(errors="replace")
        os.close(self._trouble)
        if trouble:
            self._report({"failed": f"no process could be isolated: {trouble}"})
        else:
            self._report({"status": status, "cpu_s": usage.ru_utime + usage.ru_stime})

    def _report(self, report: Mapping[str, Any]) -> None:
        data = json.dumps(report).encode()
        with contextlib.suppress(OSError):  # the driver is gone, which the next read tells
            self._control.sendall(REPORT.pack(len(data)) + data)


def main(settings: str) -> None:
    """Isolate this process and serve until the control socket closes. `settings` is a JSON object."""
    options = json.loads(settings)
    del sys.argv[1:], sys.orig_argv[1:]
    os.environ.clear()
    for name, value in ONE_THREAD.items():
        os.putenv(name, value)  # for libraries that are loaded later; Python's environment stays empty
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = options["directory"]
    isolation = Isolation(directory, without=options["without"])
    isolation.enter_namespaces(lambda: shutil.rmtree(directory, ignore_errors=True))
    sys.meta_path.append(Packages(options["packages"]))
    import numpy.random

    from coevo.sandbox import serve

    serve.load("def warm(a, b):\n    return 0\n", "warm", (2,))
    numpy.random.seed(0)
    random.seed(0)
    control = socket.socket(fileno=options["control"])
    isolation.enter(options["packages"].values())
    zygote = Zygote(control, isolation, serve.serve)
    for name in [name for name in sys.modules if name.partition(".")[0] == "coevo"]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        zygote.run()
    finally:
        isolation.close()
