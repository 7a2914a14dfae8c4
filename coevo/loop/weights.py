"""Where the engine's weights stand among the run's updates, and how to get them elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coevo.engine.base import Engine, Step, UpdateReport
from coevo.errors import EngineError
from coevo.loop.rows import applied_steps

if TYPE_CHECKING:
    from coevo.store import Store


class Weights:
    """The centre weights of one run on one engine. Moves only when asked for weights it doesn't have.

    `base_checksum` is that of the base checkpoint; the engine must be fresh.
    """

    def __init__(self, engine: Engine, store: Store, run: str, base_checksum: str) -> None:
        self._engine, self._store, self._run = engine, store, run
        self._base_checksum = base_checksum
        self._at = 0

    async def at(self, step: int) -> None:
        """Make the engine serve the weights after `step` updates (0: the base checkpoint), rebuilt if need be.

        Raises EngineError when the rebuilt weights are not those the run had, by checksum.
        """
        if step == self._at:
            return
        steps = applied_steps(self._store, self._run)[:step]
        await self._engine.restore([applied.step for applied in steps])
        self._at = step
        expected = steps[-1].checksum if steps else self._base_checksum
        found = await self._engine.checksum()
        if found != expected:
            raise EngineError(
                f"run {self._run}: the weights rebuilt from {step} updates have checksum {found}, the run had {expected}",
                hint="the model, the noise version or the engine has changed since; start another run with --new",
            )

    async def latest(self) -> int:
        """Serve the weights after all stored updates; returns how many those are."""
        step = len(applied_steps(self._store, self._run))
        await self.at(step)
        return step

    async def apply(self, step: Step) -> UpdateReport:
        """One more update, from the latest weights."""
        await self.latest()
        report = await self._engine.update(step)
        self._at = report.weights_step
        return report
