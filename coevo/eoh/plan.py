"""What a search does next, derived from the experiment and the finished turns alone: nothing hides in a random generator."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevo.config import Experiment
from coevo.eoh.ledger import DoneTurn
from coevo.eoh.operators import Operator, Turn
from coevo.eoh.population import Individual, choose_parents
from coevo.es import Member, Population, scheduled
from coevo.seeds import derive_seed
from coevo.tables import SearchTable

START_TURNS = 5
"""How often a search asks for heuristics from scratch until it has two to work with."""


@dataclass(frozen=True, slots=True)
class Child:
    """One heuristic to be made. `member` is the perturbation that writes it, None for the centre weights."""

    number: int
    parents: tuple[Individual, ...]
    seed: int
    member: Member | None


def spent(done: Sequence[DoneTurn], gated: Mapping[int, int]) -> int:
    """Candidates so far: every answer that was asked for and judged, repairs and gates included."""
    return sum(turn.children + turn.repairs for turn in done) + sum(gated.values())


def next_turn(table: SearchTable, done: Sequence[DoneTurn], gated: Mapping[int, int]) -> Turn | None:
    """The turn after `done`, or None at the end of the search. `gated` are the candidates of gates by generation."""
    left = table.budget - spent(done, gated) if table.budget else None
    if left is not None and left <= 0:
        return None
    generation, operator = _place(table, done)
    if operator is None:
        return None
    children = table.children(operator)
    offset = sum(turn.children for turn in done if turn.generation == generation)
    return Turn(
        len(done), generation, operator, min(children, left) if left is not None else children, offset
    )


def affords_gate(experiment: Experiment, done: Sequence[DoneTurn], gated: Mapping[int, int]) -> bool:
    """Whether the budget has room for the gate after the last turn, however long it takes, and something after it."""
    table = experiment.search
    assert table is not None
    earlier = {generation: count for generation, count in gated.items() if generation < done[-1].generation}
    return not table.budget or table.budget - spent(done, earlier) > largest_gate(experiment)


def largest_gate(experiment: Experiment) -> int:
    """Candidates of a gate that compares everything it may: the skills that are kept and all candidates on every request."""
    skill = experiment.skill
    return skill.dev_tasks * (skill.pool + skill.candidates) * experiment.agent.max_turns


def _place(table: SearchTable, done: Sequence[DoneTurn]) -> tuple[int, Operator | None]:
    """Generation and operator of the turn after `done`."""
    if table.start and not done:
        return 0, Operator.START
    if table.method == "sample":
        batches = sum(turn.operator is Operator.I1 for turn in done)
        return batches, Operator.I1 if batches < table.generations else None
    at_start = [turn for turn in done if turn.generation == 0]
    later = [turn for turn in done if turn.generation > 0]
    if not later:
        asked = sum(turn.operator is Operator.I1 for turn in at_start)
        alive = len(at_start[-1].population) if at_start else 0
        if asked == 0 or (alive < min(2, table.population) and asked < START_TURNS):
            return 0, Operator.I1
        if alive == 0:
            return 0, None
    generation, step = divmod(len(later), len(table.operators))
    if generation >= table.generations:
        return generation, None
    return generation + 1, Operator(table.operators[step])


def sigma_and_alpha(experiment: Experiment, turn: Turn) -> tuple[float, float]:
    """σ by the schedule. α by its own end value if it has one; else it shrinks with σ, so that late steps are not noise."""
    es, table = experiment.es, experiment.search
    assert table is not None
    total = table.generations
    first = 0 if table.method == "sample" else 1
    index = min(max(turn.generation - first, 0), total - 1)

    def at(begin: float, end: float | None) -> float:
        return scheduled(es.schedule, begin, begin if end is None else end, index, total)

    sigma = at(es.sigma, es.sigma_end)
    alpha = at(es.alpha, es.alpha_end) if es.alpha_end is not None else es.alpha * sigma / es.sigma
    return sigma, alpha


def moves(experiment: Experiment, turn: Turn) -> bool:
    """Whether the turn's children come from perturbed weights, and move them."""
    table = experiment.search
    assert table is not None
    weights = experiment.schedule.mode in ("interleaved", "weights")
    return weights and turn.operator in table.moving and sigma_and_alpha(experiment, turn)[0] > 0


def perturbations(experiment: Experiment, turn: Turn) -> Population | None:
    """One member a child, or None when the turn leaves the weights alone."""
    if not moves(experiment, turn):
        return None
    sigma, alpha = sigma_and_alpha(experiment, turn)
    es = experiment.es
    members = tuple(
        Member(turn.offset + number, derive_seed(experiment.seed, "direction", turn.number, number), sigma)
        for number in range(turn.children)
    )
    return Population(
        turn.generation,
        members,
        sigma,
        alpha,
        experiment.noise_spec(),
        es.shaping,
        es.decay,
        es.min_valid,
    )


def plan_children(
    experiment: Experiment, turn: Turn, population: Sequence[Individual], members: Population | None
) -> list[Child]:
    """Parents by rank from the current population, each child with a stream of its own."""
    table = experiment.search
    assert table is not None
    children = []
    for number in range(turn.children):
        rng = random.Random(derive_seed(experiment.seed, "parents", turn.number, number))
        wanted = table.parents if turn.operator.crosses else 1 if turn.operator.mutates else 0
        children.append(
            Child(
                number,
                tuple(choose_parents(population, wanted, rng, repeats=table.duplicates == "objective")),
                derive_seed(experiment.seed, "child", turn.number, number),
                members.members[number] if members else None,
            )
        )
    return children
