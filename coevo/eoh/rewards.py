"""From the objectives of children to rewards of perturbation directions. Smaller objectives, bigger rewards.

`improvement` is the sound rule: what a child gains on its own parent, so that a good parent is no credit to the direction;
an invalid child is worse than every valid one; and there is no step where the children say nothing about directions.
`reference` reproduces the rule of the released code of Agentic ESOpt (arXiv 2608.17310), with its clipping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Literal

RewardRule = Literal["improvement", "reference"]

FLOOR = -1.0
"""The reference never rewards a child outside its rules with less, where the worst of the population allows it."""

_SPREAD_FLAT = 1e-8


@dataclass(frozen=True, slots=True)
class Outcome:
    """A child's objective (None: invalid) and its parent's (None: written from scratch)."""

    child: float | None
    parent: float | None


@dataclass(frozen=True, slots=True)
class Rewards:
    """One reward a child, or `reason` why there must be no step."""

    values: tuple[float, ...]
    reason: str = ""


def rewards_of(rule: RewardRule, outcomes: Sequence[Outcome], worst: float | None) -> Rewards:
    """Rewards of the children of one turn; `worst` is the largest objective in the population before them."""
    if rule == "reference":
        if all(outcome.parent is None for outcome in outcomes):
            return Rewards(reference_sampled([outcome.child for outcome in outcomes]))
        return Rewards(
            tuple(reference_improvement(outcome.parent, outcome.child, worst) for outcome in outcomes)
        )
    return improvement(outcomes)


def improvement(outcomes: Sequence[Outcome]) -> Rewards:
    """Gain on the own parent; invalid: the smallest gain less the spread of the gains.

    Fewer than two distinct gains among valid children say nothing about directions but that code can break: no step.
    Children from scratch have the mean of the valid ones as a baseline in common, which no shaping sees.
    """
    gains = [
        None if outcome.child is None else (outcome.parent or 0.0) - outcome.child for outcome in outcomes
    ]
    valid = [gain for gain in gains if gain is not None]
    distinct = {float(f"{gain:.12g}") for gain in valid}
    if len(distinct) < 2:
        said = f"{len(valid)} of {len(gains)} children are valid" + (
            ", and they gained the same" if len(valid) > 1 else ""
        )
        return Rewards((), f"{said}: two different gains are needed")
    below = min(valid) - (max(valid) - min(valid))
    return Rewards(tuple(below if gain is None else gain for gain in gains))


def reference_improvement(parent: float | None, child: float | None, worst: float | None) -> float:
    """P − C; a child that is invalid or worse than the population's worst W counts as min(W, P + 1)."""
    if worst is None:
        if child is None or parent is None:
            return FLOOR
        return max(parent - child, FLOOR)
    if parent is None:
        return -(child if child is not None and child <= worst else worst)
    if child is not None and child <= worst:
        return parent - child
    return parent - min(worst, parent - FLOOR)


def reference_sampled(children: Sequence[float | None]) -> tuple[float, ...]:
    """−C; an invalid child: the smallest reward less the standard deviation of the valid ones, or a set gap if they agree."""
    valid = [-child for child in children if child is not None]
    if not valid:
        return (0.0,) * len(children)
    spread = pstdev(valid)
    if spread <= _SPREAD_FLAT or not math.isfinite(spread):
        spread = max(0.01 * abs(fmean(valid)), 1.0)
    return tuple(min(valid) - spread if child is None else -child for child in children)
