"""Gathers the requests of concurrent episodes into batches for the engine."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from coevo.engine.base import Completion, Engine, Request
from coevo.errors import EngineError


class Batcher:
    """`generate(request)` waits for company, then for the engine.

    A batch leaves when `expected` requests are waiting, or when nothing has arrived for `quiet_s`, or `limit_s` after
    its first request, whichever is first. While the engine works the next batch gathers.
    """

    def __init__(
        self, engine: Engine, *, max_batch: int = 512, quiet_s: float = 0.15, limit_s: float = 2.0
    ) -> None:
        self._engine = engine
        self._max_batch = max_batch
        self._quiet_s = quiet_s
        self._limit_s = limit_s
        self._waiting: asyncio.Queue[tuple[Request, asyncio.Future[Completion]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.expected = max_batch
        """How many requests can arrive at most right now (episodes in flight); the loop sets it."""

    async def __aenter__(self) -> Batcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def generate(self, request: Request) -> Completion:
        """One completion. Raises what the engine raised for this request's batch."""
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
            _, future = self._waiting.get_nowait()
            if not future.done():
                future.set_exception(EngineError("the batcher was closed while a request waited"))

    async def _run(self) -> None:
        while True:
            batch = await self._gather()
            live = [(request, future) for request, future in batch if not future.cancelled()]
            if not live:
                continue
            try:
                answers = await self._engine.generate([request for request, _ in live])
            except asyncio.CancelledError:
                for _, future in live:
                    future.cancel()
                raise
            except Exception as error:  # handed to the callers, who know what it means for their episode
                for _, future in live:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), answer in zip(live, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)

    async def _gather(self) -> list[tuple[Request, asyncio.Future[Completion]]]:
        batch = [await self._waiting.get()]
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._limit_s
        while len(batch) < min(self._max_batch, self.expected):
            patience = min(self._quiet_s, deadline - clock())
            if patience <= 0:
                break
            try:
                batch.append(await asyncio.wait_for(self._waiting.get(), patience))
            except TimeoutError:
                break
        return batch
