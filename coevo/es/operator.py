"""ES as one operator inside any graph: ask perturbed models, reward them, move the weights.

The co-evolution loop and the search keep rows between these steps and call `es_node` themselves. A graph of your own that
only wants to learn while it works (a reflection loop, a tree search) calls `EsOperator.round`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from coevo.engine.base import Completion, Engine, NoiseSpec, Request, UpdateReport
from coevo.engine.batcher import Batcher
from coevo.errors import ConfigError
from coevo.es.node import EsResult, Member, NoStep, draw_population, es_node
from coevo.es.shaping import ShapingName

Evaluate = Callable[[Member], Awaitable[float | None]]
"""The reward of one perturbed model, which `EsOperator.ask` asks; None when the world broke and nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class EsRound:
    """What a round found, and what the update did (None: no step, `result.step.reason` says why)."""

    result: EsResult
    report: UpdateReport | None

    @property
    def moved(self) -> bool:
        return self.report is not None


class EsOperator:
    """θ ← θ + α/G · Σ z_i ε_i, one round at a time. `size`: perturbed models a round; the others as in `[es]`.

    `noise` is that of the engine. The members of round n follow from (`seed`, n) alone. Raises ConfigError for a size below
    two, or odd with `antithetic`, and for σ or α that are not above 0.
    """

    def __init__(
        self,
        engine: Engine,
        noise: NoiseSpec,
        *,
        size: int = 8,
        sigma: float = 1e-3,
        alpha: float = 5e-4,
        shaping: ShapingName = "zscore",
        antithetic: bool = False,
        seed: int = 0,
    ) -> None:
        self.engine = engine
        self._batcher: Batcher | None = None
        self._draw = partial(
            draw_population,
            size=size,
            sigma=sigma,
            alpha=alpha,
            noise=noise,
            shaping=shaping,
            antithetic=antithetic,
        )
        self._seed = seed
        if size < 2 or (antithetic and size % 2):
            raise ConfigError(
                f"a round cannot have {size} members", hint="two or more; in pairs, an even number"
            )
        for name, value in (("sigma", sigma), ("alpha", alpha)):
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} = {value} moves nothing", hint=f"choose {name} above 0")

    def members(self, number: int) -> tuple[Member, ...]:
        """The perturbed models of round `number`."""
        return self._draw(self._seed, number).members

    async def ask(self, request: Request, member: Member | None = None) -> Completion:
        """One completion by the model, perturbed as `member` is. What members ask at the same time in a round goes through the
        model as one batch."""
        request = replace(request, perturbation=member.perturbation if member else None)
        if self._batcher is not None:
            return await self._batcher.generate(request)
        return (await self.engine.generate([request]))[0]

    async def round(self, number: int, evaluate: Evaluate) -> EsRound:
        """Evaluate all members side by side and move the weights by their rewards, where these say anything."""
        population = self._draw(self._seed, number)
        async with Batcher(self.engine) as batcher:
            batcher.expected = len(population.members)
            self._batcher = batcher

            async def rewarded(member: Member) -> float | None:
                try:
                    return await evaluate(member)
                finally:
                    batcher.expected -= 1

            try:
                rewards = await asyncio.gather(*map(rewarded, population.members))
            finally:
                self._batcher = None
        table = {
            member.index: {"round": reward}
            for member, reward in zip(population.members, rewards, strict=True)
            if reward is not None
        }
        result = es_node(population, table, episodes=1)
        if isinstance(result.step, NoStep):
            return EsRound(result, None)
        return EsRound(result, await self.engine.update(result.step))
