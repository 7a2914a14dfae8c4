"""The order of turns, their sizes, and what is derived from seeds alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from toysearch import search_workspace

from coevo.config import Experiment, experiment_from, load_experiment, stored_experiment
from coevo.eoh.ledger import DoneTurn
from coevo.eoh.operators import Operator, Turn
from coevo.eoh.plan import (
    affords_gate,
    largest_gate,
    moves,
    next_turn,
    perturbations,
    plan_children,
    sigma_and_alpha,
)
from coevo.eoh.population import Individual
from coevo.eoh.report import arm_of
from coevo.errors import ConfigError
from coevo.tables import SearchTable


def experiment(search: dict[str, Any] | None = None, **tables: Any) -> Experiment:
    data: dict[str, Any] = {
        "name": "search",
        "seed": 3,
        "model": {"id": "builtin:smollm2-135m"},
        "agent": {"graph": "agents/heuristic.py:graph", "skill": "skills/heuristic"},
        "search": {"problem": "ahd:construct_tsp"} | (search or {}),
    }
    return experiment_from(data | tables, directory=Path())


def all_turns(
    table: SearchTable, alive: int = 5, *, gated: dict[int, int] | None = None, repairs: int = 0
) -> list[Turn]:
    done: list[DoneTurn] = []
    turns = []
    while (turn := next_turn(table, done, gated or {})) is not None:
        turns.append(turn)
        ids = tuple(str(n) for n in range(alive))
        done.append(DoneTurn(turn.number, turn.generation, turn.operator, turn.children, ids, repairs))
        assert len(turns) < 500
    return turns


@pytest.mark.parametrize(("multiplier", "candidates"), [(1, 1000), (3, 2000)])
def test_budget_identity_of_the_paper(multiplier: int, candidates: int) -> None:
    """25 generations of 10: e1, e2, m1, m2 with k = 1 and 3, the start on top."""
    turns = all_turns(SearchTable(problem="x", multiplier=multiplier))
    assert sum(turn.children for turn in turns if turn.generation > 0) == candidates
    assert [str(turn.operator) for turn in turns[:6]] == ["i1", "e1", "e2", "m1", "m2", "e1"]
    assert [turn.generation for turn in turns[:6]] == [0, 1, 1, 1, 1, 2]
    assert turns[-1].generation == 25
    assert [turn.offset for turn in turns[1:5]] == [0, 10, 20, 20 + 10 * multiplier]


def test_a_budget_is_kept_to_the_candidate() -> None:
    turns = all_turns(SearchTable(problem="x", budget=57))
    assert sum(turn.children for turn in turns) == 57
    assert turns[-1].children == 7


def test_gates_and_repairs_are_candidates_of_the_budget() -> None:
    table = SearchTable(problem="x", budget=57)
    turns = all_turns(table, gated={0: 6, 1: 11})
    assert sum(turn.children for turn in turns) == 40
    turns = all_turns(table, repairs=3)
    assert [turn.children for turn in turns] == [10, 10, 10, 10, 5]
    assert len(all_turns(table, gated={1: 60})) == 0


def test_a_gate_is_begun_only_if_the_budget_has_room_for_it_and_more() -> None:
    """12 requests, the current skill and two others, two answers each: 72 at most. What it has spent itself is no reason to stop it."""
    done = [DoneTurn(0, 0, Operator.I1, 10, ("a", "b")), DoneTurn(1, 1, Operator.E1, 10, ("a", "b"), 8)]
    agent = {"graph": "agents/heuristic.py:graph", "skill": "skills/heuristic", "max_turns": 2}
    for budget, room in ((100, False), (101, True), (0, True)):
        of = experiment({"budget": budget}, skill={"dev_tasks": 12, "candidates": 2}, agent=agent)
        assert largest_gate(of) == 72
        assert affords_gate(of, done, {}) is room
        assert affords_gate(of, done, {1: 40}) is room
        assert affords_gate(of, done, {0: 1}) is (budget == 0)


def test_a_population_of_one_needs_no_second() -> None:
    turns = all_turns(SearchTable(problem="x", population=1, generations=1), alive=1)
    assert [str(turn.operator) for turn in turns] == ["i1", "e1", "e2", "m1", "m2"]


def test_terms_of_a_step_are_counted_from_the_search() -> None:
    assert experiment({"population": 5}, es={"noise": {"family": "lowrank", "rank": 80}})


def test_samples_come_in_batches() -> None:
    table = SearchTable(problem="x", method="sample", population=20, generations=50, move=())
    turns = all_turns(table)
    assert [turn.children for turn in turns] == [20] * 50
    assert {str(turn.operator) for turn in turns} == {"i1"}


def test_the_start_is_repeated_while_too_few_live_and_not_for_ever() -> None:
    table = SearchTable(problem="x", start=("seed",))
    assert [str(turn.operator) for turn in all_turns(table, alive=1)[:7]] == ["start"] + ["i1"] * 5 + ["e1"]
    assert [str(turn.operator) for turn in all_turns(table, alive=0)] == ["start"] + ["i1"] * 5


def test_sigma_follows_the_schedule_and_alpha_shrinks_with_it() -> None:
    made = experiment(es={"sigma": 1e-3, "sigma_end": 1e-4, "alpha": 5e-4, "schedule": "cosine"})
    seen = [sigma_and_alpha(made, Turn(0, generation, Operator.M1, 10)) for generation in range(1, 26)]
    assert seen[0] == (1e-3, 5e-4)
    assert seen[12][0] == pytest.approx(5.5e-4)
    assert seen[24][0] == 1e-4
    assert all(alpha / sigma == pytest.approx(0.5) for sigma, alpha in seen)
    assert all(before[0] > after[0] for before, after in pairwise(seen))


def test_sigma_of_the_reference_ends_at_zero_and_then_nothing_moves() -> None:
    made = experiment(es={"sigma": 1e-3, "sigma_end": 0.0, "alpha": 5e-4, "alpha_end": 5e-4})
    table = {
        0: 1e-3,
        2: 9.83e-4,
        4: 9.33e-4,
        8: 7.5e-4,
        12: 5e-4,
        16: 2.5e-4,
        20: 6.70e-5,
        23: 4.28e-6,
        24: 0,
    }
    for index, sigma in table.items():
        turn = Turn(0, index + 1, Operator.M1, 10)
        assert sigma_and_alpha(made, turn)[0] == pytest.approx(sigma, rel=2e-3)
        assert moves(made, turn) is (sigma > 0)


def test_only_the_named_turns_come_from_perturbed_weights() -> None:
    made = experiment()
    assert perturbations(made, Turn(4, 1, Operator.E1, 10)) is None
    first = perturbations(made, Turn(6, 1, Operator.M1, 10, offset=20))
    assert first is not None
    assert [member.index for member in first.members] == list(range(20, 30))
    again = perturbations(made, Turn(7, 1, Operator.M2, 10, offset=30))
    assert again is not None
    assert {m.seed for m in first.members}.isdisjoint(m.seed for m in again.members)
    still = experiment(schedule={"mode": "skill"})
    assert perturbations(still, Turn(6, 1, Operator.M1, 10)) is None


def test_children_are_planned_from_seeds_alone() -> None:
    made = experiment()
    population = [Individual(str(n), "i1", (), "", "", float(n)) for n in range(10)]
    turn = Turn(5, 1, Operator.E2, 10)
    plans = [plan_children(made, turn, population, None) for _ in range(2)]
    assert plans[0] == plans[1]
    assert all(len(child.parents) == 2 for child in plans[0])
    assert len({child.seed for child in plans[0]}) == 10
    other = plan_children(made, Turn(9, 2, Operator.E2, 10), population, None)
    assert [child.parents for child in other] != [child.parents for child in plans[0]]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"search": {"problem": "x", "author": "chance"}}, 'set search.language = "formula"'),
        ({"search": {"problem": "x", "method": "sample", "move": ["m1"]}}, 'set search.move to ["i1"] or []'),
        ({"search": {"problem": "x", "population": 400, "multiplier": 3}}, "1200 noise terms a step"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment(**tables)
    assert message in caught.value.message


def test_keys_that_say_nothing_in_a_search_are_refused(tmp_path: Path) -> None:
    file = search_workspace(tmp_path)
    with pytest.raises(ConfigError, match=r"es\.population says nothing in a search") as caught:
        load_experiment(file, ["es.population=4"])
    assert caught.value.hint == "see search.generations and search.population"


@pytest.mark.parametrize(
    ("search", "arm"),
    [
        ({}, "EoH+ES"),
        ({"move": ()}, "EoH"),
        ({"edits": "free"}, "EoH+ES, free edits"),
        ({"language": "python", "edits": "free"}, "EoH+ES"),
        ({"author": "chance"}, "EoH, no model"),
        ({"method": "sample"}, "sample+ES"),
        ({"method": "sample", "move": (), "edits": "free"}, "sample"),
        ({"method": "sample", "author": "chance"}, "random formulas"),
    ],
)
def test_searches_are_compared_by_what_makes_them_different(search: dict[str, Any], arm: str) -> None:
    made = experiment({"language": "formula"} | search, schedule={"mode": "weights"})
    assert arm_of(made) == arm


@pytest.mark.parametrize(
    ("search", "held"),
    [
        ({}, True),
        ({"edits": "free"}, False),
        ({"method": "sample"}, False),
        ({"language": "python"}, False),
        ({"author": "chance"}, False),
    ],
)
def test_runs_from_before_edits_could_be_held_count_as_free_and_can_be_continued(
    search: dict[str, Any], held: bool
) -> None:
    now = experiment({"language": "formula"} | search, schedule={"mode": "weights"})
    assert now.search is not None
    assert now.search.holds is held
    old = now.model_dump(mode="json")
    del old["search"]["edits"]
    row = {"id": "old", "config": old, "provenance": {"directory": "."}}
    stored = stored_experiment(row)
    assert stored.search is not None
    assert not stored.search.holds
    assert (stored.fingerprint() == now.fingerprint()) is not held
    assert stored_experiment(row | {"config": now.model_dump(mode="json")}) == now
