"""Survival, duplicates and the choice of parents."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.eoh.population import Individual, choose_parents, rank_weights, survivors


def individual(name: str, objective: float | None, *objectives: float) -> Individual:
    return Individual(name, "i1", (), "", f"# {name}", objective, objectives)


def test_rank_weights_are_those_of_eoh() -> None:
    weights = rank_weights(10)
    shares = [weight / sum(weights) for weight in weights]
    assert shares == pytest.approx(
        [0.1359, 0.1246, 0.1150, 0.1068, 0.0997, 0.0935, 0.0880, 0.0831, 0.0787, 0.0748], abs=5e-5
    )


def test_parents_are_drawn_by_rank_with_replacement() -> None:
    population = [individual(str(n), float(n)) for n in range(10)]
    counts = Counter(
        parent.id
        for n in range(4000)
        for parent in choose_parents(population, 2, random.Random(n), repeats=True)
    )
    shares = [counts[str(n)] / 8000 for n in range(10)]
    assert shares[0] == pytest.approx(0.1359, abs=0.015)
    assert shares[9] == pytest.approx(0.0748, abs=0.015)
    alone = choose_parents(population[:1], 2, random.Random(0))
    assert [parent.id for parent in alone] == ["0", "0"]
    assert choose_parents([], 2, random.Random(0)) == []


def test_two_parents_are_two_while_there_are_two() -> None:
    population = [individual(str(n), float(n)) for n in range(4)]
    pairs = [choose_parents(population, 2, random.Random(n)) for n in range(500)]
    assert all(first.id != second.id for first, second in pairs)
    firsts = Counter(first.id for first, _ in pairs)
    assert firsts["0"] > firsts["3"]
    repeated = [choose_parents(population, 2, random.Random(n), repeats=True) for n in range(500)]
    assert any(first.id == second.id for first, second in repeated)


def test_duplicates_by_behaviour_or_by_the_rounded_mean() -> None:
    a, b = individual("a", 5.0, 4.0, 6.0), individual("b", 5.0, 6.0, 4.0)
    again = individual("again", 5.0, 4.0, 6.0)
    assert [i.id for i in survivors([a], [b, again], 10, "behaviour")] == ["a", "b"]
    assert [i.id for i in survivors([a], [b, again], 10, "objective")] == ["a"]
    near = individual("near", 5.000001, 4.000002, 6.0)
    assert [i.id for i in survivors([a], [near], 10, "objective")] == ["a"]


OBJECTIVES = st.lists(st.none() | st.floats(0, 10).map(lambda value: round(value, 6)))  # apart, or equal


@given(OBJECTIVES, OBJECTIVES, st.integers(1, 12))
def test_the_best_survive(old: list[float | None], new: list[float | None], size: int) -> None:
    population = survivors([], [individual(f"o{n}", v, v or 0) for n, v in enumerate(old)], size, "behaviour")
    children = [individual(f"n{n}", v, v or 0) for n, v in enumerate(new)]
    kept = survivors(population, children, size, "behaviour")
    values = [one.objective for one in kept]
    assert None not in values
    assert values == sorted(values)  # type: ignore[type-var]
    assert len(kept) <= size
    everyone = [one.objective for one in (*population, *children) if one.objective is not None]
    assert not everyone or values[0] == min(everyone)
    assert survivors(kept, [], size, "behaviour") == kept
