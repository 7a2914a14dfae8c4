"""The gate: whether a candidate skill is better than the current one, from the same tasks and seeds under both.

Everything here is a pure function of two tables of rewards. `decide` judges a finished comparison by the paired
percentile bootstrap (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, §13.3). It draws the same resamples
whatever the rewards are, so it is monotone: a higher reward for the candidate never turns an acceptance around. That is
also what lets `decide_early` stop as soon as no outcome of the rest can change the verdict. Beyond that it stops on
evidence, by betting on the differences: under "no gain" the capital of a gambler is a non-negative supermartingale,
and exceeds 1/a at any time with probability at most a (Ville's inequality; Waudby-Smith & Ramdas, "Estimating means of
bounded random variables by betting", JRSS B 86(1), 2024).

An interval speaks of new seeds of the tasks compared, not of other kinds of task.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from coevo.errors import SkillError

Key = tuple[str, int]
"""(task, seed): what the two sides of a pair share."""

Rewards = Mapping[Key, float | None]
"""Reward by key; None (or a number that is not finite) marks an invalid episode."""

_STAKES = tuple(step / 10 for step in range(1, 10))


class Verdict(StrEnum):
    ACCEPT = "accept"
    REJECT = "reject"
    CONTINUE = "continue"
    """Not decided yet (only from `decide_early`)."""


@dataclass(frozen=True, slots=True)
class TaskDelta:
    """One task, or one group of tasks where `groups` was given: mean rewards and how many pairs they are of."""

    task: str
    current: float
    candidate: float
    pairs: int

    @property
    def difference(self) -> float:
        return self.candidate - self.current


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The verdict and what it rests on. `lower` and `upper` bound the mean difference from one side each, at
    `confidence`; `left_out` are keys without a valid reward on both sides."""

    verdict: Verdict
    reason: str
    mean_difference: float
    lower: float
    upper: float
    confidence: float
    pairs: int
    per_task: tuple[TaskDelta, ...] = ()
    left_out: tuple[Key, ...] = ()

    @property
    def accepted(self) -> bool:
        return self.verdict is Verdict.ACCEPT


def paired_interval(
    differences: Sequence[float], *, confidence: float, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """One-sided lower and upper bound of the mean of `differences`, each at `confidence`.

    Together they are an interval of confidence 2·confidence − 1. The draws depend on the number of differences and
    on `seed` only. Raises SkillError when there is nothing to bound.
    """
    if not differences:
        raise SkillError("no differences to bound", hint="compare at least one pair")
    if not 0.5 < confidence < 1:
        raise SkillError(f"confidence is {confidence}", hint="give a number between 0.5 and 1, e.g. 0.8")
    count = len(differences)
    draw = random.Random(seed)
    means = sorted(math.fsum(draw.choices(differences, k=count)) / count for _ in range(resamples))
    # The bound is an order statistic with a share of 1 − confidence of the resampled means before it; the small
    # addition keeps 0.15 · 200 from being 29.
    rank = min(math.floor((1 - confidence) * resamples + 1e-6), resamples - 1)
    return means[rank], means[resamples - 1 - rank]


def decide(
    current: Rewards,
    candidate: Rewards,
    *,
    confidence: float = 0.95,
    no_regression: float | None = None,
    groups: Mapping[str, str] | None = None,
    min_pairs: int = 8,
    max_left_out: float = 0.25,
    resamples: int = 2000,
    seed: int = 0,
) -> GateDecision:
    """Accept when the mean paired difference is positive and so is its lower bound at `confidence`.

    current, candidate: reward by (task, seed). A key counts when both sides have a finite reward; more than
    `max_left_out` of all keys without one means that too little is known, and so do fewer than `min_pairs` pairs
    (at least as many as a run of wins needs to be unlikely at `confidence`). Too little known is a rejection.
    no_regression: when given, no task may lose more than this in mean reward; `groups` maps tasks to the kinds that
    are judged instead.
    """
    keys, left_out = _common(current, candidate)
    differences = [_value(candidate[key]) - _value(current[key]) for key in keys]
    needed = max(min_pairs, math.ceil(math.log(1 - confidence, 0.5))) if 0.5 < confidence < 1 else min_pairs
    per_task = _per_task(keys, current, candidate, groups or {})
    blank = GateDecision(
        Verdict.REJECT, "", 0.0, -math.inf, math.inf, confidence, len(keys), per_task, left_out
    )
    if keys:
        mean = math.fsum(differences) / len(differences)
        lower, upper = paired_interval(differences, confidence=confidence, resamples=resamples, seed=seed)
        blank = replace(blank, mean_difference=mean, lower=lower, upper=upper)
    if len(keys) < needed:
        return replace(blank, reason=f"{len(keys)} pairs, at least {needed} needed")
    if len(left_out) > max_left_out * (len(keys) + len(left_out)):
        return replace(
            blank, reason=f"{len(left_out)} of {len(keys) + len(left_out)} pairs have no valid reward"
        )
    gain = (
        f"mean gain {blank.mean_difference:+.3f}, lower bound {blank.lower:+.3f} at {100 * confidence:.3g} %"
    )
    if not (blank.mean_difference > 0 and blank.lower > 0):
        return replace(blank, reason=f"no clear gain: {gain}")
    if no_regression is not None:
        lost = [task for task in per_task if task.difference < -no_regression]
        if lost:
            worst = min(lost, key=lambda task: (task.difference, task.task))
            return replace(blank, reason=f"{gain}, but {worst.task} loses {-worst.difference:.3f}")
    return replace(blank, verdict=Verdict.ACCEPT, reason=gain)


def decide_early(
    current: Rewards,
    candidate: Rewards,
    planned: Sequence[Key],
    *,
    confidence: float = 0.95,
    early_share: float = 0.25,
    worthwhile: float = 0.1,
    early_loss: float = 0.2,
    no_regression: float | None = None,
    groups: Mapping[str, str] | None = None,
    min_pairs: int = 8,
    max_left_out: float = 0.25,
    reward_range: tuple[float, float] = (0.0, 1.0),
    resamples: int = 2000,
    seed: int = 0,
) -> GateDecision:
    """Judge a comparison that is still running: accept, reject or continue.

    planned: every key that will be compared, in the order in which it is run; call this after each batch with all
    rewards so far. A planned key counts as done once both sides have it (None included: invalid).
    Of the error 1 − confidence, `early_share` is spent on accepting before the end (capital of at least
    1/(early_share·(1 − confidence)) in the bet against "no gain"), the rest on the final verdict, so that the chance
    to accept a candidate without gain stays below 1 − confidence over all looks together (exactly for the bet, as
    closely as the bootstrap holds its level for the rest). It rejects before the end
    when the bet against "gains at least `worthwhile`" reaches 1/early_loss (the chance to lose such a candidate that way is below
    early_loss; nothing harmful gets through by it), or when even winning every pair that
    is left could not bring acceptance. `no_regression` is judged at the end, or at an early acceptance on what is
    there. Raises SkillError for a reward outside `reward_range`.
    """
    for name, share in (("early_share", early_share), ("early_loss", early_loss)):
        if not 0 < share < 1:
            raise SkillError(f"{name} is {share}", hint="give a number between 0 and 1, e.g. 0.25")
    order = list(dict.fromkeys(planned))
    done = [key for key in order if key in current and key in candidate]
    now = {key: current[key] for key in done}, {key: candidate[key] for key in done}
    _check_range(now, reward_range)
    error = 1 - confidence
    final = 1 - (1 - early_share) * error

    def verdict(one: Rewards, two: Rewards) -> GateDecision:
        return decide(
            one,
            two,
            confidence=final,
            no_regression=no_regression,
            groups=groups,
            min_pairs=min_pairs,
            max_left_out=max_left_out,
            resamples=resamples,
            seed=seed,
        )

    so_far = verdict(*now)
    if len(done) == len(order):
        return so_far
    low, high = reward_range
    keys, _ = _common(*now)
    differences = [(_value(candidate[key]) - _value(current[key])) / (high - low) for key in keys]
    where = f"after {len(done)} of {len(order)} pairs"
    harmless = no_regression is None or all(task.difference >= -no_regression for task in so_far.per_task)
    if harmless and len(keys) >= min_pairs and _capital(differences, 0.0) >= 1 / (early_share * error):
        return replace(
            so_far, verdict=Verdict.ACCEPT, reason=f"clear gain {where}: {so_far.mean_difference:+.3f}"
        )
    if _capital([-difference for difference in differences], -worthwhile / (high - low)) >= 1 / early_loss:
        reason = f"no gain worth having {where}: {so_far.mean_difference:+.3f}"
        return replace(so_far, verdict=Verdict.REJECT, reason=reason)
    left = [key for key in order if key not in set(done)]
    known = {key: reward if _finite(reward := current.get(key)) else low for key in left}
    best = {**now[0], **known}, {**now[1], **dict.fromkeys(left, high)}
    if not verdict(*best).accepted:
        reason = (
            f"the {len(left)} pairs left cannot bring a clear gain ({where}: {so_far.mean_difference:+.3f})"
        )
        return replace(so_far, verdict=Verdict.REJECT, reason=reason)
    return replace(so_far, verdict=Verdict.CONTINUE, reason=f"open {where}: {so_far.mean_difference:+.3f}")


def _capital(differences: Sequence[float], mean: float) -> float:
    """What one unit became, spread over fixed stakes, by betting that differences in [−1, 1] exceed `mean`.

    A mixture over stakes does not depend on the order of the pairs. Each stake is a share of the largest one that
    can never lead into debt, 1/(1 + mean).
    """
    largest = 1 / (1 + mean)
    capitals = []
    for stake in _STAKES:
        capital = 1.0
        for difference in differences:
            capital *= 1 + stake * largest * (difference - mean)
        capitals.append(capital)
    return math.fsum(capitals) / len(capitals)


def _common(current: Rewards, candidate: Rewards) -> tuple[list[Key], tuple[Key, ...]]:
    """Keys with a valid reward on both sides, and all others; both sorted, so that order never matters."""
    every = sorted({*current, *candidate})
    valid = [key for key in every if _finite(current.get(key)) and _finite(candidate.get(key))]
    return valid, tuple(key for key in every if key not in set(valid))


def _finite(reward: float | None) -> bool:
    return reward is not None and math.isfinite(reward)


def _value(reward: float | None) -> float:
    assert reward is not None
    return float(reward)


def _per_task(
    keys: Sequence[Key], current: Rewards, candidate: Rewards, groups: Mapping[str, str]
) -> tuple[TaskDelta, ...]:
    members: dict[str, list[Key]] = defaultdict(list)
    for key in keys:
        members[groups.get(key[0], key[0])].append(key)
    return tuple(
        TaskDelta(
            task,
            math.fsum(_value(current[key]) for key in own) / len(own),
            math.fsum(_value(candidate[key]) for key in own) / len(own),
            len(own),
        )
        for task, own in sorted(members.items())
    )


def _check_range(sides: tuple[Rewards, Rewards], reward_range: tuple[float, float]) -> None:
    low, high = reward_range
    for side in sides:
        for key, reward in side.items():
            if _finite(reward) and not low <= _value(reward) <= high:
                raise SkillError(
                    f"reward {reward} of task {key[0]!r} is outside [{low:g}, {high:g}]",
                    hint="pass reward_range with the bounds of this task set",
                )
