"""Gathers the requests of concurrent episodes into batches for the engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from coevo.engine.base import Completion, Engine, Request
from coevo.errors import EngineError
from coevo.meter import Meter


class Batcher:
    """`generate(request)` waits for company, then for the engine.

    A batch leaves, with all that are waiting, when these are `expected` or more, or when its first request has waited
    `patience` times as long as the engine took for the batch before (`first_wait_s` for the first batch): fast engines are
    not kept waiting, slow ones get full batches. An answer is handed on as soon as it is complete; while the engine works on
    the others the next batch gathers.
    """

    def __init__(
        self, engine: Engine, *, max_batch: int = 512, patience: float = 0.3, first_wait_s: float = 3.0
    ) -> None:
        self._engine = engine
        self._max_batch = max_batch
        self._patience = patience
        self._wait_s = first_wait_s
        self._waiting: asyncio.Queue[tuple[Request, asyncio.Future[Completion]]] = asyncio.Queue()
        self._gathered: list[tuple[Request, asyncio.Future[Completion]]] = []
        self._task: asyncio.Task[None] | None = None
        self.expected = max_batch
        """How many requests can arrive at most right now (episodes in flight); the loop sets it."""
        self.meter = Meter()
        """Time the engine is at work counts as `writing`."""

    async def __aenter__(self) -> Batcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def generate(self, request: Request) -> Completion:
        """One completion. Raises what the engine raised for this request's batch before the answer was complete."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="coevo-batcher")
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        await self._waiting.put((request, future))
        return await future

    async def close(self) -> None:
        """Stop; whatever still waits gets an `EngineError`."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        while not self._waiting.empty():
            self._gathered.append(self._waiting.get_nowait())
        for _, future in self._gathered:
            if not future.done():
                future.set_exception(EngineError("the batcher was closed while a request waited"))
        self._gathered = []

    async def _run(self) -> None:
        while True:
            await self._gather()
            live = [(request, future) for request, future in self._gathered if not future.cancelled()]
            if not live:
                continue
            start = asyncio.get_running_loop().time()
            try:
                with self.meter.during("writing"):
                    deliver = partial(_deliver, [future for _, future in live])
                    answers = await self._engine.generate([request for request, _ in live], deliver=deliver)
            except Exception as error:  # handed to the callers, who know what it means for their episode
                for _, future in live:
                    if not future.done():
                        future.set_exception(error)
            else:
                self._wait_s = self._patience * (asyncio.get_running_loop().time() - start)
                for position, answer in enumerate(
                    answers
                ):  # of an engine that delivers nothing before the end
                    deliver(position, answer)

    async def _gather(self) -> None:
        """Fill `_gathered` with the next batch."""
        self._gathered = [await self._waiting.get()]
        deadline = asyncio.get_running_loop().time() + self._wait_s
        while len(self._gathered) < self._max_batch:
            if len(self._gathered) >= self.expected and self._waiting.empty():
                break
            try:
                async with asyncio.timeout_at(deadline):
                    self._gathered.append(await self._waiting.get())
            except TimeoutError:
                break


def _deliver(waiting: Sequence[asyncio.Future[Completion]], position: int, answer: Completion) -> None:
    if not waiting[position].done():
        waiting[position].set_result(answer)
