"""What a search spent, in one table: candidates, model calls, tokens, evaluations; and whether it adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coevo.config import Experiment
from coevo.eoh.ledger import SearchLedger
from coevo.eoh.plan import next_turn

if TYPE_CHECKING:
    from coevo.store import Store


@dataclass(frozen=True, slots=True)
class Budget:
    """Counted from the rows.

    `candidates` is the unit: everything asked for, the start, invalid ones, broken episodes, `repairs` (further answers of
    a child) and `gated` (answers that decided on the skill) included. `planned` is what the experiment allows for the turns
    and verdicts made. `judged` have a row; `answers` are model calls, `gate_answers` of them of gates. `evaluation_s` went
    on the training instances, `fresh_s` on fresh ones.
    """

    planned: int
    candidates: int
    judged: int
    valid: int
    broken: int
    repairs: int
    gated: int
    answers: int
    gate_answers: int
    prompt_tokens: int
    completion_tokens: int
    evaluation_s: float
    fresh_s: float
    by_operator: Mapping[str, Mapping[str, int]]
    by_status: Mapping[str, int]

    @property
    def holds(self) -> bool:
        """Every planned candidate is there once, judged or broken, and nothing else is."""
        found = self.judged + self.broken + self.repairs + self.gated
        return self.planned == self.candidates == found

    def sentence(self) -> str:
        parts = [f"{self.valid} valid"]
        parts += [f"{self.repairs} repairs"] if self.repairs else []
        parts += [f"{self.gated} in gates"] if self.gated else []
        told = (
            f"{self.candidates} candidates ({', '.join(parts)}), {self.answers} model calls,"
            f" {self.prompt_tokens + self.completion_tokens} tokens, {self.evaluation_s:.1f} s of evaluation"
        )
        told += f", {self.fresh_s:.1f} s more on fresh instances" if self.fresh_s >= 0.05 else ""
        if not self.holds:
            told += f"; DOES NOT ADD UP: {self.planned} planned, {self.judged} judged, {self.broken} left out as broken"
        return told


def count_budget(store: Store, run: str, experiment: Experiment) -> Budget:
    """The budget of a search so far."""
    table = experiment.search
    assert table is not None
    ledger = SearchLedger(store, run, "")
    turns, gated = ledger.turns(), ledger.gated()
    repairs = sum(turn.repairs for turn in turns)
    planned = repairs + sum(gated.values()) + _missing_in_gates(store, run)
    for place, turn in enumerate(turns):
        before = {generation: n for generation, n in gated.items() if generation < turn.generation}
        due = next_turn(table, turns[:place], before)
        planned += due.children if due and due.operator == turn.operator else 0
    last = turns[-1].number if turns else -1
    rows = store.query(
        "SELECT operator, status, count(*) AS n, sum(seconds) AS seconds FROM heuristics WHERE run = ? AND turn <= ?"
        " GROUP BY operator, status",
        (run, last),
    )
    by_operator: dict[str, dict[str, int]] = {}
    by_status: dict[str, int] = {}
    for row in rows:
        by_status[row["status"]] = by_status.get(row["status"], 0) + row["n"]
        counts = by_operator.setdefault(row["operator"], {"candidates": 0, "valid": 0})
        counts["candidates"] += row["n"]
        counts["valid"] += row["n"] if row["status"] == "ok" else 0
    broken = store.query(
        "SELECT sum(children) AS children, sum(invalid) AS broken FROM search_turns WHERE run = ?", (run,)
    )[0]
    fresh = store.query(
        "SELECT sum(s.seconds) AS seconds FROM heuristic_scores s JOIN heuristics h ON h.id = s.heuristic"
        " WHERE h.run = ?",
        (run,),
    )
    calls = {
        row["phase"]: row
        for row in store.query(
            "SELECT e.phase, count(*) AS n, sum(c.prompt_tokens) AS prompt, sum(c.completion_tokens) AS completion"
            " FROM calls c JOIN episodes e ON e.id = c.episode WHERE e.run = ? GROUP BY e.phase",
            (run,),
        )
    }
    return Budget(
        planned=planned,
        candidates=(broken["children"] or 0) + repairs + sum(gated.values()),
        judged=sum(by_status.values()),
        valid=by_status.get("ok", 0),
        broken=broken["broken"] or 0,
        repairs=repairs,
        gated=sum(gated.values()),
        answers=sum(row["n"] for row in calls.values()),
        gate_answers=calls["gate"]["n"] if "gate" in calls else 0,
        prompt_tokens=sum(row["prompt"] or 0 for row in calls.values()),
        completion_tokens=sum(row["completion"] or 0 for row in calls.values()),
        evaluation_s=sum(row["seconds"] or 0.0 for row in rows),
        fresh_s=fresh[0]["seconds"] or 0.0,
        by_operator=by_operator,
        by_status=by_status,
    )


def _missing_in_gates(store: Store, run: str) -> int:
    """Episodes that the stored verdicts are made of and that are not there."""
    rows = store.query(
        "SELECT count(*) AS n FROM ("
        " SELECT generation, task, seed, skill_version FROM gate_results WHERE run = ?1 AND generation IS NOT NULL"
        " UNION SELECT generation, task, seed, against FROM gate_results WHERE run = ?1 AND generation IS NOT NULL"
        ") AS due WHERE NOT EXISTS (SELECT 1 FROM episodes AS e WHERE e.run = ?1 AND e.phase = 'gate'"
        " AND e.generation = due.generation AND e.task = due.task AND e.seed = due.seed"
        " AND e.skill_version = due.skill_version AND e.status = 'finished'"
        " AND coalesce(e.category, '') != 'engine_error')",
        (run,),
    )
    return int(rows[0]["n"])
