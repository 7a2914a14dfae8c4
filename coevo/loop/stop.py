"""Ctrl-C, twice: the first lets running episodes finish and be stored, and gives an author's calls a few seconds more; the
second ends at once.

Neither that nor the end of a run may hang on agent code that blocks a thread: `run_async` leaves such threads behind.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from coevo.errors import AgentError, explained

T = TypeVar("T")

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LISTENERS: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callable[[], None]]] = WeakKeyDictionary()


class RunStopped(Exception):
    """The run was asked to stop, and everything that finished is stored."""


class StopSignal:
    """Whether a person asked the run to stop."""

    def __init__(self, on_request: Callable[[], None] | None = None) -> None:
        self._requests = 0
        self._requested = asyncio.Event()
        self._on_request = on_request

    @property
    def requested(self) -> bool:
        return self._requests > 0

    def request(self) -> int:
        """Ask once more; returns how often it was asked."""
        self._requests += 1
        self._requested.set()
        if self._requests == 1 and self._on_request:
            self._on_request()
        return self._requests

    def check(self) -> None:
        """Raises RunStopped if a stop was requested."""
        if self.requested:
            raise RunStopped

    async def interrupts(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled when a stop is requested: then raises RunStopped."""
        task = asyncio.ensure_future(work)
        request = asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait({task, request}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise RunStopped
        finally:
            request.cancel()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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
                loop.set_exception_handler(_while_stopping)
                task.cancel()

        # Runs side by side in one process all hear it; asyncio itself knows one handler a signal.
        listeners = _LISTENERS.setdefault(loop, [])
        listeners.append(on_signal)
        for number in _SIGNALS:
            loop.add_signal_handler(number, _tell, listeners)
        try:
            yield
        finally:
            listeners.remove(on_signal)
            if not listeners:
                for number in _SIGNALS:
                    loop.remove_signal_handler(number)


def _tell(listeners: list[Callable[[], None]]) -> None:
    for listener in tuple(listeners):
        listener()


def _while_stopping(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A connection that breaks because its process got the same Ctrl-C is nothing a person needs to read."""
    _log.debug("while stopping: %s", context.get("message"), exc_info=context.get("exception"))


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, with threads that neither the end nor other episodes wait for when agent code blocks them.

    Raises AgentError where such code calls `sys.exit`, which would end everything without a word.
    """

    async def on_own_threads() -> T:
        asyncio.get_running_loop().set_default_executor(_ThreadEach())
        return await work

    try:
        return asyncio.run(on_own_threads())
    except SystemExit:
        with explained("code of the agent or of its world", AgentError):
            raise


class _ThreadEach(ThreadPoolExecutor):
    """A daemon thread for every job. asyncio accepts no executor that is not a ThreadPoolExecutor."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, daemon=True).start()
        return future
