"""Individuals, who becomes a parent, and who survives. Smaller objectives are better."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Duplicates = Literal["behaviour", "objective"]

OBJECTIVE_DIGITS = 5
"""The reference compares objectives rounded to so many decimals, and keeps one individual a value."""


@dataclass(frozen=True, slots=True)
class Individual:
    """A heuristic that was judged. `objective` is None when it is not valid; `objectives` has one value an instance."""

    id: str
    operator: str
    parents: tuple[str, ...]
    thought: str
    code: str
    objective: float | None
    objectives: tuple[float, ...] = ()
    category: str = ""
    error: str = ""

    @property
    def valid(self) -> bool:
        return self.objective is not None

    def behaviour(self, duplicates: Duplicates) -> tuple[float, ...]:
        """What makes two individuals duplicates: the same value on every instance, or the same rounded mean."""
        assert self.objective is not None
        if duplicates == "objective" or not self.objectives:
            return (round(self.objective, OBJECTIVE_DIGITS),)
        return tuple(float(f"{value:.9g}") for value in self.objectives)


def survivors(
    population: Sequence[Individual], children: Sequence[Individual], size: int, duplicates: Duplicates
) -> list[Individual]:
    """The best `size` of both, best first; of duplicates the first to come stays. Invalid ones never survive."""
    seen: set[tuple[float, ...]] = set()
    kept: list[Individual] = []
    for individual in (*population, *children):
        if individual.valid and (key := individual.behaviour(duplicates)) not in seen:
            seen.add(key)
            kept.append(individual)
    return sorted(kept, key=lambda individual: individual.objective or 0.0)[:size]


def rank_weights(count: int) -> list[float]:
    """Weights of the ranks 0 (best) … count − 1 as in EoH: 1/(rank + 1 + count), a mild preference for the best."""
    return [1.0 / (rank + 1 + count) for rank in range(count)]


def choose_parents(
    population: Sequence[Individual], count: int, rng: random.Random, *, repeats: bool = False
) -> list[Individual]:
    """`count` parents by rank, each once while there are enough (`repeats`, as in the reference: with replacement).

    `population` is sorted, best first. Empty if there is nobody.
    """
    weights = rank_weights(len(population))
    if not population or repeats or count > len(population):
        return rng.choices(population, weights=weights, k=count) if population else []
    places = list(range(len(population)))
    chosen = []
    for _ in range(count):
        (place,) = rng.choices(places, weights=[weights[place] for place in places])
        places.remove(place)
        chosen.append(population[place])
    return chosen
