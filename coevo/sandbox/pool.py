"""Candidates on warm workers: a fresh process for each, at most `workers` at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import TracebackType

from coevo.errors import WorldError
from coevo.sandbox.base import Limits
from coevo.sandbox.candidate import Candidate
from coevo.sandbox.worker import Worker


class Sandbox:
    """Runs programs that nobody has read. `close` leaves nothing behind, and neither does the end of the
    driver.

    `workers` candidates run side by side, each within `limits`. `without` names layers of isolation() to
    leave out.
    """

    def __init__(
        self, *, workers: int = 1, limits: Limits | None = None, without: Collection[str] = ()
    ) -> None:
        if workers < 1:
            raise ValueError(f"a sandbox needs at least one worker, not {workers}")
        self._limits = limits or Limits()
        self._without = without
        self._free = asyncio.Semaphore(workers)
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        self._closed = False
        self.layers: dict[str, str] = {}
        """What isolation() says, once the first worker has started."""

    async def __aenter__(self) -> Sandbox:
        """Start the first worker, so that a machine that cannot run any says so at once."""
        self._idle.append(await self._take(fresh=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all workers and the candidates in them."""
        self._closed = True
        workers, self._workers = self._workers, set()
        self._idle.clear()
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            await asyncio.to_thread(worker.kill)

    @asynccontextmanager
    async def candidate(
        self,
        code: str,
        function: str,
        *,
        arity: int | tuple[int, ...] | None = None,
        limits: Limits | None = None,
    ) -> AsyncIterator[Candidate]:
        """Run a program in a process of its own and find its function; waits for a free worker.

        `arity`: how many positional arguments the function must take; one of several numbers, if it is a
        tuple. Raises CandidateError when the program fails, WorldError when the sandbox itself is broken.
        """
        arities = () if arity is None else (arity,) if isinstance(arity, int) else tuple(arity)
        async with self._free:
            candidate, worker = await self._loaded(code, function, arities, limits or self._limits)
            try:
                yield candidate
            finally:
                self._release(candidate, worker)

    async def _loaded(
        self, code: str, function: str, arities: tuple[int, ...], limits: Limits
    ) -> tuple[Candidate, Worker]:
        """Start and load a candidate; on another worker, once, if the first one breaks."""
        for last in (False, True):
            worker = await self._take(fresh=last)
            candidate = None
            try:
                candidate = Candidate(code, worker, await worker.start(limits), limits)
                await candidate.load(function, arities)
                return candidate, worker
            except BaseException as error:
                broken = isinstance(error, OSError | WorldError)
                if candidate is None or broken:
                    self._discard(worker)
                if candidate is not None:
                    self._release(candidate, worker)
                if not broken:
                    raise
                if last:
                    raise WorldError(f"two sandbox workers broke one after the other: {error}") from error
        raise AssertionError

    async def _take(self, *, fresh: bool) -> Worker:
        """A worker that no candidate uses."""
        if self._closed:
            raise WorldError("the sandbox is closed")
        if self._idle and not fresh:
            return self._idle.pop(0)
        worker = Worker(self._without)
        self._workers.add(worker)
        try:
            await worker.ready()
        except BaseException:
            self._discard(worker)
            raise
        self.layers = worker.layers
        return worker

    def _release(self, candidate: Candidate, worker: Worker) -> None:
        """End a candidate; its worker is free again, if it can be used again."""
        candidate.close()
        worker.end()
        if worker.alive and not self._closed:
            self._idle.append(worker)
        else:
            self._discard(worker)

    def _discard(self, worker: Worker) -> None:
        worker.kill()
        self._workers.discard(worker)


def isolation(without: Collection[str] = ()) -> dict[str, str]:
    """The layers around candidates on this machine: what each is, or `no:` and why it is not there.

    Starts a worker to see. Raises WorldError if that fails.
    """

    async def ask() -> dict[str, str]:
        worker = Worker(without)
        try:
            await worker.ready()
            return worker.layers
        finally:
            worker.kill()

    with ThreadPoolExecutor(1) as thread:  # where no event loop runs
        return thread.submit(asyncio.run, ask()).result()
