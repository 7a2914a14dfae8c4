"""The engine of a run that asks no model: nothing can be generated, and no weights move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from coevo.engine.base import Completion, Deliver, Request, Step, UpdateReport
from coevo.errors import EngineError


class NoModel:
    """Stands where an engine is expected."""

    async def generate(
        self, requests: Sequence[Request], *, deliver: Deliver | None = None
    ) -> list[Completion]:
        self._refuse()

    async def update(self, step: Step) -> UpdateReport:
        self._refuse()

    async def checksum(self) -> str:
        return "no model"

    async def save(self, directory: Path) -> None:
        self._refuse()

    async def restore(self, steps: Iterable[Step]) -> None:
        if list(steps):
            self._refuse()

    async def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"engine": "none"}

    def _refuse(self) -> NoReturn:
        raise EngineError("this run has no model", hint='search.author = "model" asks the one in [model]')
