"""Ctrl-C, twice: the first lets running episodes finish and be stored, the second ends at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RunStopped(Exception):
    """The run was asked to stop, and everything that finished is stored."""


class StopSignal:
    """Whether a person asked the run to stop."""

    def __init__(self, on_request: Callable[[], None] | None = None) -> None:
        self._requests = 0
        self._on_request = on_request

    @property
    def requested(self) -> bool:
        return self._requests > 0

    def request(self) -> int:
        """Ask once more; returns how often it was asked."""
        self._requests += 1
        if self._requests == 1 and self._on_request:
            self._on_request()
        return self._requests

    def check(self) -> None:
        """Raises RunStopped if a stop was requested."""
        if self.requested:
            raise RunStopped

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to SIGINT and SIGTERM; the second one cancels the current asyncio task.

        Outside the main thread there are no signals to listen to, and nothing happens.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def on_signal() -> None:
            if self.request() > 1 and task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
