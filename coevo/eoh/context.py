"""What the nodes of a search work with, and the state they pass on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from coevo.config import Experiment
from coevo.env import Task
from coevo.eoh.environment import HeuristicPool, HeuristicTasks
from coevo.eoh.ledger import SearchLedger
from coevo.eoh.operators import Turn
from coevo.eoh.plan import Child, next_turn, perturbations, plan_children
from coevo.eoh.population import Individual
from coevo.es import Population
from coevo.loop.context import LoopContext
from coevo.meter import Meter
from coevo.problem import Problem
from coevo.tables import SearchTable


class SearchState(TypedDict, total=False):
    """Nothing but what the next node needs at once; the rows say where the search stands."""

    generation: int
    candidates: list[str]


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """A turn, who is alive before it, and its children."""

    turn: Turn
    population: tuple[Individual, ...]
    members: Population | None
    children: tuple[Child, ...]


@dataclass(frozen=True, slots=True)
class SearchContext:
    """Handed to every node as LangGraph's runtime context."""

    loop: LoopContext
    ledger: SearchLedger
    pool: HeuristicPool
    tasks: HeuristicTasks
    meter: Meter

    @property
    def experiment(self) -> Experiment:
        return self.loop.experiment

    @property
    def table(self) -> SearchTable:
        table = self.experiment.search
        assert table is not None
        return table

    @property
    def problem(self) -> Problem:
        return self.tasks.problem

    def plan(self) -> TurnPlan | None:
        """The turn after the stored ones; None when the search is over."""
        turn = next_turn(self.table, self.ledger.turns(), self.ledger.gated())
        if turn is None:
            return None
        population = tuple(self.ledger.population())
        members = perturbations(self.experiment, turn)
        children = plan_children(self.experiment, turn, population, members)
        return TurnPlan(turn, population, members, tuple(children))

    def task(self, turn: Turn, child: Child) -> Task:
        """The request for one child."""
        language = self.tasks.language
        return Task(
            f"{self.problem.name}/t{turn.number}.{child.number}",
            language.goal,
            child.seed,
            str(turn.operator),
            {
                "request": language.request(turn.operator, child.parents),
                "turn": turn,
                "child": child,
            },
            grammar=language.grammar(turn.operator, child.parents, child.seed),
        )
