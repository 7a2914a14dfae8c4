"""The one place where rewards become a step of the weights.

θ ← θ + α/G · Σ z_i ε_i (arXiv 2509.24372, eq. 4 without the 1/σ, which α absorbs). The co-evolution loop and EoH's
mutation operators both call `es_node`; how an engine realises ε is not known here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from coevo.engine.base import NoiseSpec, Perturbation, Step
from coevo.engine.noise import quantise_coefficients
from coevo.es.shaping import (
    FLAT,
    RewardTable,
    ShapingName,
    mean,
    member_means,
    population_std,
    shape,
)
from coevo.seeds import derive_seed

MEMBER_SHARE = 0.5
"""A member counts when at least this share of its episodes is valid."""

NoStepKind = Literal["non_finite", "too_few_valid", "all_equal"]


@dataclass(frozen=True, slots=True)
class Member:
    """One perturbed model, θ + σ·ε(seed). `sigma` is signed: negative in the mirrored half of a pair."""

    index: int
    seed: int
    sigma: float

    @property
    def perturbation(self) -> Perturbation:
        return Perturbation(self.seed, self.sigma)


@dataclass(frozen=True, slots=True)
class Population:
    """The members of one generation and how their rewards will be turned into a step."""

    generation: int
    members: tuple[Member, ...]
    sigma: float
    alpha: float
    noise: NoiseSpec
    shaping: ShapingName = "zscore"
    decay: float = 0.0
    min_valid: float = 0.5


@dataclass(frozen=True, slots=True)
class MemberResult:
    """What a member's row says. `reward` is None without a valid episode, `score` (shaped, unrounded) without a say."""

    member: Member
    reward: float | None
    score: float | None
    valid: bool
    episodes: int
    invalid: int


@dataclass(frozen=True, slots=True)
class NoStep:
    """Why θ stays where it is: a kind to count by, and a sentence for a person."""

    kind: NoStepKind
    reason: str


@dataclass(frozen=True, slots=True)
class EsResult:
    """The decision, with what the generation's rows need. Mean, std, worst and best are over valid members."""

    step: Step | NoStep
    members: tuple[MemberResult, ...]
    mean: float | None
    std: float | None
    worst: float | None
    best: float | None

    @property
    def valid(self) -> int:
        return sum(member.valid for member in self.members)


def draw_population(
    run_seed: int,
    generation: int,
    *,
    size: int,
    sigma: float,
    alpha: float,
    noise: NoiseSpec,
    shaping: ShapingName = "zscore",
    antithetic: bool = False,
    decay: float = 0.0,
    min_valid: float = 0.5,
) -> Population:
    """The members of a generation, from seeds derived of (run seed, generation) alone.

    `antithetic`: members 2k and 2k + 1 share a seed and have opposite signs; `size` must be even (ValueError).
    """
    if antithetic and size % 2:
        raise ValueError(f"antithetic pairs need an even population, not {size}")
    if antithetic:
        members = tuple(
            Member(i, derive_seed(run_seed, "member", generation, i // 2), -sigma if i % 2 else sigma)
            for i in range(size)
        )
    else:
        members = tuple(Member(i, derive_seed(run_seed, "member", generation, i), sigma) for i in range(size))
    return Population(generation, members, sigma, alpha, noise, shaping, decay, min_valid)


def es_node(population: Population, rewards: RewardTable, *, episodes: int) -> EsResult:
    """Rewards of a population → a step, or the reason for none.

    `rewards[member][key]` holds the valid episodes only; `episodes` is how many each member was given. A member with
    less than half of its episodes valid does not count. Both halves of an antithetic pair fold into one
    coefficient z₊ − z₋; a half whose twin does not count stands alone. Scores are rounded to the grid of
    `quantise_coefficients`, so that the step is the same number in a row, on the wire and in the engine.
    """
    counted: dict[int, dict[str, float]] = {}
    for member in population.members:
        row = dict(rewards.get(member.index, {}))
        if row and len(row) >= MEMBER_SHARE * episodes:
            counted[member.index] = row

    bad = _first_non_finite(rewards)
    means: dict[int, float] = {}
    if not bad and counted:
        means = dict(zip(counted, member_means(counted), strict=True))

    decision: Step | NoStep
    scores: dict[int, float] = {}
    needed = max(2, math.ceil(population.min_valid * len(population.members)))
    if bad:
        decision = NoStep("non_finite", bad)
    elif len(counted) < needed:
        decision = NoStep(
            "too_few_valid",
            f"{len(counted)} of {len(population.members)} members have enough valid episodes, {needed} are needed",
        )
    else:
        shaped = dict(zip(counted, shape(population.shaping, counted), strict=True))
        decision, scores = _decide(population, counted, means, shaped)

    return EsResult(
        step=decision,
        members=tuple(
            _member_result(member, rewards, means, scores, episodes) for member in population.members
        ),
        mean=mean(means.values()) if means else None,
        std=population_std(means.values()) if means else None,
        worst=min(means.values()) if means else None,
        best=max(means.values()) if means else None,
    )


def _decide(
    population: Population, counted: RewardTable, means: dict[int, float], shaped: dict[int, float]
) -> tuple[Step | NoStep, dict[int, float]]:
    flat = (
        max(map(abs, shaped.values())) <= FLAT
        if population.shaping == "per_task"
        else max(means.values()) - min(means.values()) <= FLAT
    )
    if flat:
        return NoStep("all_equal", f"all {len(counted)} members scored {next(iter(means.values())):.4g}"), {}
    folded: dict[int, float] = {}
    for member in population.members:
        if member.index in shaped:
            signed = math.copysign(1.0, member.sigma) * shaped[member.index]
            folded[member.seed] = folded.get(member.seed, 0.0) + signed
    coefficients = quantise_coefficients(tuple(folded.values()))
    if not any(coefficients):
        return NoStep("all_equal", "the members' scores cancel out: no coefficient survives rounding"), shaped
    step = Step(
        generation=population.generation,
        seeds=tuple(folded),
        coefficients=coefficients,
        population=len(counted),
        alpha=population.alpha,
        sigma=population.sigma,
        noise=population.noise,
        decay=population.decay,
    )
    return step, shaped


def _member_result(
    member: Member,
    rewards: RewardTable,
    means: dict[int, float],
    scores: dict[int, float],
    episodes: int,
) -> MemberResult:
    valid_episodes = len(rewards.get(member.index, {}))
    return MemberResult(
        member=member,
        reward=means.get(member.index),
        score=scores.get(member.index),
        valid=member.index in means,
        episodes=valid_episodes,
        invalid=episodes - valid_episodes,
    )


def _first_non_finite(rewards: RewardTable) -> str:
    for index, row in rewards.items():
        for key, reward in row.items():
            if not math.isfinite(reward):
                return f"member {index} got the reward {reward} on {key}"
    return ""
