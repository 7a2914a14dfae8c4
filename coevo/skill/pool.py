"""The pool: accepted versions that live side by side, each because it is best at something.

Pure functions of one comparison: all versions on the same tasks and seeds with the same weights. Rewards of two
comparisons are never set side by side, since weights, tasks and seeds differ between them. To keep what is best on some
task, rather than only what is best on average, is GEPA's selection of candidates (Agrawal et al., 2025,
arXiv 2507.19457, §3.3); here the unit is a kind of task, because one episode says little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coevo.skill.gate import Key, Rewards

_ALL = None
"""The mean over everything, which is aimed at like a kind of task."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A version in a comparison. `born`: the generation that accepted it, -1 for a seed."""

    version: str
    born: int
    rewards: Rewards


@dataclass(frozen=True, slots=True)
class Standing:
    """How a version came out of a comparison.

    `mean` is over the `episodes` that are valid for every version (None without any); `best_on` are the kinds of task
    on which no version of the pool has a higher mean; `weight` counts them, and one more for the highest mean over
    all: the chances of the version in a draw. 0: it has left the pool.
    """

    version: str
    mean: float | None
    episodes: int
    best_on: tuple[str, ...]
    weight: int

    @property
    def stays(self) -> bool:
        return self.weight > 0


def standings(entrants: Iterable[Entrant], kinds: Mapping[str, str], limit: int) -> tuple[Standing, ...]:
    """The Pareto front of a comparison, at most `limit` versions, best mean first; behind it those that leave.

    A version stays while it is best, alone or with others, on a kind of task or on average, and no other that stays
    covers all of that. The highest mean (of equals the youngest) always stays. Where more than `limit` remain, those
    leave first that are best on the fewest kinds, then those of lower mean, then older ones.

    kinds: task to kind; a task that is not in it is a kind of its own. The order of `entrants` does not matter.
    """
    table = {entrant.version: entrant for entrant in entrants}
    keys = _common(list(table.values()))
    means = {version: _means(entrant.rewards, keys, kinds) for version, entrant in table.items()}
    order = sorted(table, key=lambda version: (-means[version][_ALL], -table[version].born, version))
    wins = _wins(means, order)
    front = list(order)
    for version in reversed(order[1:]):
        others = set().union(*(wins[other] for other in front if other != version))
        if wins[version] <= others:
            front.remove(version)
    while len(front) > limit:
        front.remove(min(reversed(front[1:]), key=lambda version: len(wins[version])))
    wins = _wins(means, front)
    return tuple(
        Standing(
            version,
            means[version][_ALL] if keys else None,
            len(keys),
            tuple(sorted(kind for kind in wins.get(version, ()) if kind is not None)),
            len(wins.get(version, ())),
        )
        for version in [*front, *(version for version in order if version not in front)]
    )


def draw(weights: Mapping[str, int], seed: int) -> str:
    """One of the versions, each with a chance in proportion to its weight; the same `seed`, the same version."""
    ticket = seed % sum(weights.values())
    for version, weight in sorted(weights.items()):
        ticket -= weight
        if ticket < 0:
            return version
    raise AssertionError("a ticket is smaller than the sum of the weights")


def _common(entrants: Sequence[Entrant]) -> list[Key]:
    """The keys with a valid reward for everybody, sorted, so that sums do not depend on an order."""
    valid = [
        {key for key, reward in entrant.rewards.items() if reward is not None and math.isfinite(reward)}
        for entrant in entrants
    ]
    return sorted(set.intersection(*valid))


def _means(rewards: Rewards, keys: Sequence[Key], kinds: Mapping[str, str]) -> dict[str | None, float]:
    """Mean reward over all keys, and over those of each kind."""
    values: dict[str | None, list[float]] = {_ALL: []}
    for key in keys:
        reward = rewards[key]
        assert reward is not None
        values[_ALL].append(reward)
        values.setdefault(kinds.get(key[0], key[0]), []).append(reward)
    return {aim: math.fsum(own) / max(1, len(own)) for aim, own in values.items()}


def _wins(
    means: Mapping[str, Mapping[str | None, float]], among: Sequence[str]
) -> dict[str, set[str | None]]:
    """What each of `among` is best at, ties included."""
    aims = next(iter(means.values()))
    highest = {aim: max(means[version][aim] for version in among) for aim in aims}
    return {version: {aim for aim in aims if means[version][aim] == highest[aim]} for version in among}
