"""The rows of a search: heuristics, turns and scores. They are all a search needs to continue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coevo.eoh.operators import Operator, Turn
from coevo.eoh.population import Individual
from coevo.loop.skills import now
from coevo.problem import Reference, Split, Verdict

if TYPE_CHECKING:
    from coevo.eoh.replies import Draft
    from coevo.store import Store

OK = "ok"

FIRST_OF_ITS_KIND = (
    "id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY coalesce(objectives, code) ORDER BY turn, number) AS nth"
    " FROM heuristics WHERE run = ? AND objective IS NOT NULL) WHERE nth = 1)"
)
"""SQL: of the valid heuristics of a run that score the same on every instance, the first one stands for all."""


def status_of(verdict: Verdict) -> str:
    return OK if verdict.category is None else str(verdict.category)


@dataclass(frozen=True, slots=True)
class DoneTurn:
    """A stored turn: `population` are the ids of those alive after it, best first.

    `repairs` are second and later answers of its children: they were judged like the first ones.
    """

    number: int
    generation: int
    operator: Operator
    children: int
    population: tuple[str, ...]
    repairs: int = 0


class SearchLedger:
    """Reads and writes the heuristics of one run."""

    def __init__(self, store: Store, run: str, problem: str) -> None:
        self._store, self._run, self._problem = store, run, problem

    def heuristic_id(self, turn: Turn, number: int) -> str:
        return f"{self._run}.t{turn.number}.{number}"

    def failures(self, turn: int | None = None) -> list[dict[str, Any]]:
        """Kinds of failure (`status`), with their `count` and commonest message (`example`), the commonest kind first."""
        rows = self._store.query(
            "SELECT status, coalesce(error, '') AS error, count(*) AS n FROM heuristics"
            " WHERE run = ?1 AND objective IS NULL AND (?2 IS NULL OR turn = ?2)"
            " GROUP BY status, error ORDER BY n DESC, error",
            (self._run, turn),
        )
        kinds: dict[str, dict[str, Any]] = {}
        for row in rows:
            kind = kinds.setdefault(
                row["status"], {"status": row["status"], "count": 0, "example": row["error"]}
            )
            kind["count"] += row["n"]
        return sorted(kinds.values(), key=lambda kind: -kind["count"])

    def note_simple(self, objective: float) -> None:
        """Keep what the problem's simple heuristic scores on the training instances, to compare with."""
        (row,) = self._store.query("SELECT provenance FROM runs WHERE id = ?", (self._run,))
        recorded = json.loads(row["provenance"]) | {"simple_objective": objective}
        self._store.update("runs", self._run, {"provenance": recorded})

    def turns(self) -> list[DoneTurn]:
        """The finished turns, in order."""
        rows = self._store.query("SELECT * FROM search_turns WHERE run = ? ORDER BY turn", (self._run,))
        repairs = self._repairs()
        return [
            DoneTurn(
                row["turn"],
                row["generation"],
                Operator(row["operator"]),
                row["children"],
                tuple(json.loads(row["population"])),
                repairs.get(row["turn"], 0),
            )
            for row in rows
        ]

    def _repairs(self) -> dict[int, int]:
        rows = self._store.query(
            "SELECT h.turn, count(*) - count(DISTINCT s.episode) AS repairs FROM heuristics h"
            " JOIN steps s ON s.episode = h.episode WHERE h.run = ? AND s.action IS NOT NULL GROUP BY h.turn",
            (self._run,),
        )
        return {row["turn"]: row["repairs"] for row in rows}

    def gated(self) -> dict[int, int]:
        """Answers that gates asked for, by the generation after which they did; an episode without any counts as one."""
        rows = self._store.query(
            "SELECT generation, sum(answers) AS answers FROM ("
            " SELECT e.generation, max(1, (SELECT count(*) FROM steps s WHERE s.episode = e.id AND s.action IS NOT NULL))"
            " AS answers, row_number() OVER (PARTITION BY e.generation, e.arm, e.task, e.seed, e.skill_version"
            " ORDER BY e.outcome = 'invalid', e.attempt) AS nth FROM episodes e"
            " WHERE e.run = ? AND e.phase = 'gate' AND e.generation IS NOT NULL AND e.status = 'finished'"
            " AND coalesce(e.category, '') != 'engine_error') WHERE nth = 1 GROUP BY generation",
            (self._run,),
        )
        return {row["generation"]: row["answers"] for row in rows}

    def population(self, turn: int | None = None) -> list[Individual]:
        """Those alive after a finished turn (left out: the last), best first; none when there is no such turn."""
        turns = [done for done in self.turns() if turn is None or done.number == turn]
        if not turns:
            return []
        alive = turns[-1].population
        found = {
            individual.id: individual for individual in self._individuals(f"id IN ({_marks(alive)})", alive)
        }
        return [found[id_] for id_ in alive]

    def children(self, turn: int) -> list[Individual]:
        """The judged children of a turn, finished or under way, in order."""
        return self._individuals("run = ? AND turn = ? ORDER BY number", (self._run, turn))

    def best(self, count: int) -> list[Individual]:
        """The best of the whole run that differ in behaviour."""
        return self._individuals(
            f"{FIRST_OF_ITS_KIND} ORDER BY objective, turn, number LIMIT ?", (self._run, count)
        )

    def known(self) -> list[tuple[str, Verdict]]:
        """Every program that was judged, with its verdict: for a session that continues."""
        return [
            (individual.code, _verdict(individual))
            for individual in self._individuals("run = ? AND code IS NOT NULL", (self._run,))
            if individual.category in ("", *_SETTLED)
        ]

    def put_heuristic(
        self,
        turn: Turn,
        number: int,
        *,
        parents: Sequence[str],
        draft: Draft | None,
        verdict: Verdict,
        status: str = "",
        member: int | None = None,
    ) -> None:
        """Queue the row of a judged child; a later answer of the same child takes its place. `status`: if not the verdict's."""
        self._store.put(
            "heuristics",
            {
                "id": self.heuristic_id(turn, number),
                "run": self._run,
                "generation": turn.generation,
                "turn": turn.number,
                "number": number,
                "problem": self._problem,
                "operator": str(turn.operator),
                "parents": list(parents),
                "member": member,
                "thought": draft.thought if draft else None,
                "code": draft.code if draft else None,
                "objective": verdict.objective,
                "objectives": list(verdict.objectives) or None,
                "status": status or status_of(verdict),
                "error": verdict.error or None,
                "output": verdict.output or None,
                "seconds": round(verdict.seconds, 4),
                "cpu_s": round(verdict.cpu_s, 4),
                "created_at": now(),
            },
        )

    def put_turn(self, turn: Turn, population: Sequence[Individual], values: Mapping[str, Any]) -> None:
        self._store.put(
            "search_turns",
            {
                "run": self._run,
                "turn": turn.number,
                "generation": turn.generation,
                "operator": str(turn.operator),
                "children": turn.children,
                "population": [individual.id for individual in population],
                "best": population[0].objective if population else None,
                "created_at": now(),
                **values,
            },
        )

    def put_reward(self, turn: Turn, number: int, reward: float) -> None:
        self._store.update("heuristics", self.heuristic_id(turn, number), {"reward": reward})

    def scored(self, split: Split) -> dict[str, float | None]:
        """Objectives on a split by heuristic; None where it is not valid there."""
        rows = self._store.query(
            "SELECT s.heuristic, s.objective FROM heuristic_scores s JOIN heuristics h ON h.id = s.heuristic"
            " WHERE h.run = ? AND s.split = ?",
            (self._run, split),
        )
        return {row["heuristic"]: row["objective"] for row in rows}

    def put_score(self, id_: str, split: Split, verdict: Verdict, reference: Reference | None) -> None:
        gap = reference.gap(verdict.objective) if reference and verdict.objective is not None else None
        self._store.put(
            "heuristic_scores",
            {
                "heuristic": id_,
                "split": split,
                "objective": verdict.objective,
                "objectives": list(verdict.objectives) or None,
                "gap": gap,
                "status": status_of(verdict),
                "error": verdict.error or None,
                "seconds": round(verdict.seconds, 4),
                "created_at": now(),
            },
        )

    def _individuals(self, where: str, params: Sequence[Any]) -> list[Individual]:
        rows = self._store.query(f"SELECT * FROM heuristics WHERE {where}", tuple(params))
        return [individual_of(row) for row in rows]


def individual_of(row: Mapping[str, Any]) -> Individual:
    return Individual(
        id=row["id"],
        operator=row["operator"],
        parents=tuple(json.loads(row["parents"] or "[]")),
        thought=row["thought"] or "",
        code=row["code"] or "",
        objective=row["objective"],
        objectives=tuple(json.loads(row["objectives"] or "[]")),
        category="" if row["status"] == OK else row["status"],
        error=row["error"] or "",
    )


_SETTLED = ("syntax_error", "missing_function", "wrong_signature", "infeasible", "wrong_shape", "non_finite")
"""Verdicts that depend on the program alone, not on how busy the machine is."""


def _verdict(individual: Individual) -> Verdict:
    from coevo.sandbox import Category

    category = Category(individual.category) if individual.category else None
    return Verdict(individual.objective, individual.objectives, category, individual.error)


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" for _ in values)
