"""A stand-in for the sandbox that runs code of the tests in this process: fast, and no protection at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from coevo.sandbox.columns import single, whole
from coevo.sandbox.rounds import play


class InProcessCandidate:
    cpu_s = 0.0
    output = ""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.rounds = 0

    async def map(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self.asked(list(zip(*calls, strict=True)), len(calls))

    async def map_columns(self, *columns: Any, calls: int) -> list[Any]:
        return self.asked(columns, calls)

    async def play(self, rounds: Any, *data: Any) -> Any:
        return play(rounds, data, self.asked)

    def asked(self, columns: Sequence[Any], calls: int) -> list[Any]:
        self.rounds += 1
        if getattr(self.function, "batched", False):
            return list(self.function(*map(whole, columns)))
        return [self.function(*each) for each in zip(*map(single, columns), strict=True)]


class InProcessSandbox:
    @asynccontextmanager
    async def candidate(self, code: str, function: str, **_: Any) -> AsyncIterator[InProcessCandidate]:
        module: dict[str, Any] = {}
        exec(code, module)
        yield InProcessCandidate(module[function])
