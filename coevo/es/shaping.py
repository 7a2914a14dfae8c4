"""Rewards → dimensionless scores, one a member. Bigger is better, everywhere in coevo.

A reward table maps a member's index to its rewards by task key. A missing key is an episode that stayed invalid: it
is left out, never counted as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

RewardTable = Mapping[int, Mapping[str, float]]
ShapingName = Literal["zscore", "centred_rank", "per_task", "raw"]

EPSILON = 1e-8

FLAT = 1e-12
"""Rewards that differ by no more than this are equal: the rest is rounding."""


def mean(values: Iterable[float]) -> float:
    """The mean, summed exactly, so that the order of the values does not matter. Raises on an empty input."""
    collected = list(values)
    return math.fsum(collected) / len(collected)


def population_std(values: Iterable[float]) -> float:
    """The population standard deviation (divided by n, not n − 1)."""
    collected = list(values)
    centre = mean(collected)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in collected) / len(collected))


def zscore(rewards: Sequence[float]) -> tuple[float, ...]:
    """(R − mean)/(std + 1e-8) with the population std: the shaping of "Evolution Strategies at Scale"
    (arXiv 2509.24372). All equal → all zero."""
    centre, spread = mean(rewards), population_std(rewards)
    scaled = [(reward - centre) / (spread + EPSILON) for reward in rewards]
    residue = mean(scaled)  # the rounding of `centre`, which a tiny spread blows up
    return tuple(value - residue for value in scaled)


def centred_rank(rewards: Sequence[float]) -> tuple[float, ...]:
    """Ranks spread evenly over [−0.5, 0.5] (Salimans et al. 2017, arXiv 1703.03864); ties share their mean rank."""
    n = len(rewards)
    if n == 1:
        return (0.0,)
    order = sorted(range(n), key=lambda i: rewards[i])
    ranks = [0.0] * n
    start = 0
    while start < n:
        end = start
        while end + 1 < n and rewards[order[end + 1]] - rewards[order[start]] <= FLAT:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = (start + end) / 2
        start = end + 1
    return tuple(rank / (n - 1) - 0.5 for rank in ranks)


def raw(rewards: Sequence[float]) -> tuple[float, ...]:
    """The rewards as they are: no baseline, so that a constant reward moves θ along the noise. For comparisons."""
    return tuple(rewards)


def per_task(table: RewardTable) -> tuple[float, ...]:
    """z-scores within each task across members, then each member's mean over its tasks, in the table's order.

    A hard task weighs as much as an easy one; a task on which all members agree adds nothing. The result is not
    scaled back to unit variance: with T unrelated tasks its std is about 1/√T, so α wants to be larger.
    """
    scores: dict[int, list[float]] = {member: [] for member in table}
    for key in _keys(table):
        having = [member for member in table if key in table[member]]
        for member, score in zip(having, zscore([table[m][key] for m in having]), strict=True):
            scores[member].append(score)
    return tuple(mean(values) if values else 0.0 for values in scores.values())


def member_means(table: RewardTable) -> tuple[float, ...]:
    """Each member's mean reward, in the table's order; comparable even where episodes are missing.

    With a full table this is the plain mean. Otherwise a member is credited with its mean advantage over the others
    on the tasks it did finish, plus the mean over tasks: losing a hard task to a browser crash is no advantage.
    Members without any reward get NaN.
    """
    keys = _keys(table)
    if all(len(rewards) == len(keys) for rewards in table.values()):
        return tuple(mean(rewards.values()) if rewards else math.nan for rewards in table.values())
    column = {key: mean(row[key] for row in table.values() if key in row) for key in keys}
    level = mean(column.values())
    return tuple(
        level + mean(reward - column[key] for key, reward in rewards.items()) if rewards else math.nan
        for rewards in table.values()
    )


def shape(name: ShapingName, table: RewardTable) -> tuple[float, ...]:
    """The scores of the members of `table`, in its order."""
    if name == "per_task":
        return per_task(table)
    functions: dict[str, Callable[[Sequence[float]], tuple[float, ...]]] = {
        "zscore": zscore,
        "centred_rank": centred_rank,
        "raw": raw,
    }
    return functions[name](member_means(table))


def _keys(table: RewardTable) -> list[str]:
    return list(dict.fromkeys(key for rewards in table.values() for key in rewards))
