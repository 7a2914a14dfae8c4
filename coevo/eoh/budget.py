"""What a search spent, in one table: candidates, model calls, tokens, evaluations; and whether it adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coevo.config import Experiment
from coevo.eoh.ledger import SearchLedger

if TYPE_CHECKING:
    from coevo.store import Store


@dataclass(frozen=True, slots=True)
class Budget:
    """Counted from the rows.

    `candidates` is the unit: everything asked for, the start, invalid ones and broken episodes included. `planned` is what
    the experiment allows for the turns made. `judged` have a row; `answers` are model calls (repairs included), those of
    gates on top in `gate_answers`.
    """

    planned: int
    candidates: int
    judged: int
    valid: int
    broken: int
    answers: int
    gate_answers: int
    prompt_tokens: int
    completion_tokens: int
    evaluation_s: float
    by_operator: Mapping[str, Mapping[str, int]]
    by_status: Mapping[str, int]

    @property
    def holds(self) -> bool:
        """Every planned candidate is there once, judged or broken, and nothing else is."""
        return self.planned == self.candidates == self.judged + self.broken

    def sentence(self) -> str:
        told = (
            f"{self.candidates} candidates ({self.valid} valid), {self.answers} model calls,"
            f" {self.prompt_tokens + self.completion_tokens} tokens, {self.evaluation_s:.1f} s of evaluation"
        )
        if self.gate_answers:
            told += f"; gates: {self.gate_answers} calls more"
        if not self.holds:
            told += f"; DOES NOT ADD UP: {self.planned} planned, {self.judged} judged, {self.broken} left out as broken"
        return told


def count_budget(store: Store, run: str, experiment: Experiment) -> Budget:
    """The budget of a search so far."""
    table = experiment.search
    assert table is not None
    turns = SearchLedger(store, run, "").turns()
    planned = 0
    for turn in turns:
        made = table.children(turn.operator)
        planned += min(made, table.budget - planned) if table.budget else made
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
    calls = {
        row["phase"]: row
        for row in store.query(
            "SELECT e.phase, count(*) AS n, sum(c.prompt_tokens) AS prompt, sum(c.completion_tokens) AS completion"
            " FROM calls c JOIN episodes e ON e.id = c.episode WHERE e.run = ? GROUP BY e.phase",
            (run,),
        )
    }
    asked: Mapping[str, Any] = calls.get("rollout", {"n": 0, "prompt": 0, "completion": 0})
    return Budget(
        planned=planned,
        candidates=broken["children"] or 0,
        judged=sum(by_status.values()),
        valid=by_status.get("ok", 0),
        broken=broken["broken"] or 0,
        answers=asked["n"],
        gate_answers=calls["gate"]["n"] if "gate" in calls else 0,
        prompt_tokens=asked["prompt"] or 0,
        completion_tokens=asked["completion"] or 0,
        evaluation_s=sum(row["seconds"] or 0.0 for row in rows),
        by_operator=by_operator,
        by_status=by_status,
    )
