"""ES as one operator inside any graph: ask perturbed models, reward them, move the weights.

The co-evolution loop and the search keep rows between these steps and call `es_node` themselves. A graph of your own that
only wants to learn while it works (a reflection loop, a tree search) calls `EsOperator.round`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from coevo.engine.base import Engine, NoiseSpec, UpdateReport
from coevo.es.node import EsResult, Member, NoStep, Population, draw_population, es_node
from coevo.es.shaping import ShapingName

Evaluate = Callable[[Member], Awaitable[float | None]]
"""The reward of one perturbed model (ask it with `member.perturbation`); None when the world broke."""


@dataclass(frozen=True, slots=True)
class EsRound:
    """What a round found, and what the update did (None: no step, `result.step.reason` says why)."""

    result: EsResult
    report: UpdateReport | None

    @property
    def moved(self) -> bool:
        return self.report is not None


@dataclass(frozen=True, slots=True)
class EsOperator:
    """θ ← θ + α/G · Σ z_i ε_i, one round at a time. `size`: perturbed models a round; the others as in `[es]`.

    The members of round n follow from (`seed`, n) alone.
    """

    engine: Engine
    noise: NoiseSpec
    size: int = 8
    sigma: float = 1e-3
    alpha: float = 5e-4
    shaping: ShapingName = "zscore"
    antithetic: bool = False
    seed: int = 0

    def members(self, number: int) -> tuple[Member, ...]:
        """The perturbed models of round `number`."""
        return self._population(number).members

    async def round(self, number: int, evaluate: Evaluate) -> EsRound:
        """Evaluate all members side by side and move the weights by their rewards, where these say anything."""
        population = self._population(number)
        rewards = await asyncio.gather(*(evaluate(member) for member in population.members))
        table = {
            member.index: {"round": reward}
            for member, reward in zip(population.members, rewards, strict=True)
            if reward is not None
        }
        result = es_node(population, table, episodes=1)
        if isinstance(result.step, NoStep):
            return EsRound(result, None)
        return EsRound(result, await self.engine.update(result.step))

    def _population(self, number: int) -> Population:
        return draw_population(
            self.seed,
            number,
            size=self.size,
            sigma=self.sigma,
            alpha=self.alpha,
            noise=self.noise,
            shaping=self.shaping,
            antithetic=self.antithetic,
        )
