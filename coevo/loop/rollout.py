"""Running episodes: those the database doesn't have yet, a few at a time, retried when the world broke."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coevo.agent import EpisodeSpec, run_episode
from coevo.engine.base import Sampling
from coevo.engine.batcher import Batcher
from coevo.env import EnvironmentPool, Outcome
from coevo.errors import EngineError, WorldError
from coevo.loop.rows import EpisodeKey, EpisodeRow, episode_rows
from coevo.loop.stop import StopSignal
from coevo.progress import Progress

if TYPE_CHECKING:
    from coevo.store import Store


def key_of(spec: EpisodeSpec) -> EpisodeKey:
    return EpisodeKey(spec.member, spec.arm or "", spec.task.id, spec.seed, spec.skill_version)


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Everything an episode needs that is the same for all episodes of a run."""

    store: Store
    graph: Any
    batcher: Batcher
    pool: EnvironmentPool
    sampling: Sampling
    max_turns: int
    deadline_s: float
    retries: int
    slots: int
    screenshots: bool
    stop: StopSignal
    progress: Progress

    async def run(
        self, specs: Sequence[EpisodeSpec], skills: Mapping[str, str], *, label: str
    ) -> dict[EpisodeKey, EpisodeRow]:
        """The finished episodes of `specs`, which share a run, phase and generation; `skills` maps versions to text.

        Finished ones are taken from the database. An invalid episode is tried `retries` more times and then stays
        invalid. Raises RunStopped (everything finished is stored), WorldError when not one episode was valid,
        EngineError when the engine failed an episode in every attempt, StoreError when the database cannot take more.
        """
        first = specs[0]
        wanted = {key_of(spec): spec for spec in specs}
        stored = episode_rows(self.store, first.run, first.phase, first.generation)
        missing = [spec for key, spec in wanted.items() if not self._settled(stored.get(key))]
        self.progress.phase(label, len(wanted), len(wanted) - len(missing))
        if missing:
            self.stop.check()
            await self._run_all(missing, stored, skills)
            await self.store.flush()
            self.stop.check()
            stored = episode_rows(self.store, first.run, first.phase, first.generation)
        rows = {key: stored[key] for key in wanted}
        if not any(row.valid for row in rows.values()):
            raise WorldError(
                f"{label}: all {len(rows)} episodes were invalid; most often: {_most_often(rows.values())}",
                hint="`coevo check FILE` probes browser and tasks; then run the same command again to continue",
            )
        valid = [row for row in rows.values() if row.valid]
        if all(row.category == "agent_error" for row in valid):
            self.progress.note(
                f"{label}: the agent raised in every episode; most often: {_most_often(valid)}"
            )
        return rows

    def complete(self, specs: Sequence[EpisodeSpec]) -> bool:
        """Whether the database has all of `specs`: then no model is needed."""
        first = specs[0]
        stored = episode_rows(self.store, first.run, first.phase, first.generation)
        return all(self._settled(stored.get(key_of(spec))) for spec in specs)

    def _settled(self, row: EpisodeRow | None) -> bool:
        return row is not None and (row.valid or row.attempt >= self.retries)

    async def _run_all(
        self, specs: Sequence[EpisodeSpec], stored: Mapping[EpisodeKey, EpisodeRow], skills: Mapping[str, str]
    ) -> None:
        free = asyncio.Semaphore(self.slots)
        left = len(specs)
        self.batcher.expected = min(self.slots, left)

        async def one(spec: EpisodeSpec) -> None:
            nonlocal left
            await self._until_valid(spec, stored.get(key_of(spec)), skills[spec.skill_version or ""], free)
            left -= 1
            self.batcher.expected = max(1, min(self.slots, left))

        await _all([one(spec) for spec in specs])

    async def _until_valid(
        self, spec: EpisodeSpec, last: EpisodeRow | None, skill: str, free: asyncio.Semaphore
    ) -> None:
        async with free:
            for attempt in range(last.attempt + 1 if last else 0, self.retries + 1):
                if self.stop.requested:
                    return
                result = await run_episode(
                    replace(spec, attempt=attempt),
                    graph=self.graph,
                    generate=self.batcher.generate,
                    pool=self.pool,
                    sampling=self.sampling,
                    skill_text=skill,
                    max_turns=self.max_turns,
                    deadline_s=self.deadline_s,
                    store=self.store,
                    screenshots=self.screenshots,
                )
                if result.outcome is not Outcome.INVALID:
                    break
            if result.category == "engine_error":
                raise EngineError(
                    f"the engine failed on task {spec.task.id}: {result.error}",
                    hint="when that is mended, run the same command again: it continues",
                )
            self.progress.episode(result.outcome, result.reward)


def _most_often(rows: Iterable[EpisodeRow]) -> str:
    """The commonest error, without its next step."""
    errors = Counter((row.error or row.category).partition("\n")[0] for row in rows)
    return errors.most_common(1)[0][0]


async def _all(coroutines: Sequence[Awaitable[None]]) -> None:
    """Run all; the first exception ends the others and is raised as it is."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
