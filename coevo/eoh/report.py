"""What a search found: the curve over candidates, the budget, the best with its gap on fresh instances, and comparisons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from coevo.config import Experiment, stored_experiment
from coevo.eoh.budget import Budget, count_budget
from coevo.eoh.ledger import FIRST_OF_ITS_KIND, SearchLedger
from coevo.errors import CoevoError, StoreError
from coevo.problem import Reference, load_problem
from coevo.store import queries

if TYPE_CHECKING:
    from coevo.store import Store


@dataclass(frozen=True, slots=True)
class SearchReport:
    """One search. `curve` has the best objective so far after each candidate that improved it, as (candidates, objective)."""

    run: dict[str, Any]
    problem: str
    arm: str
    turns: tuple[dict[str, Any], ...]
    curve: tuple[tuple[int, float], ...]
    best: tuple[dict[str, Any], ...]
    budget: Budget

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"budget": asdict(self.budget) | {"holds": self.budget.holds}}


def make_search_report(store: Store, run: str, leaders: int = 10) -> SearchReport:
    """The report of a search so far. Raises StoreError for an unknown run or one that is no search."""
    row = queries.run(store, run)
    experiment = stored_experiment(row)
    if experiment.search is None:
        raise StoreError(f"run {row['id']} is no search over heuristics", hint=f"coevo report {row['id']}")
    run = row["id"]
    curve = _curve(store, run)
    best = store.query(
        "SELECT h.id, h.operator, h.generation, h.objective, h.thought, v.objective AS val, v.gap AS val_gap,"
        " t.objective AS test, t.gap AS test_gap FROM heuristics h"
        " LEFT JOIN heuristic_scores v ON v.heuristic = h.id AND v.split = 'val'"
        " LEFT JOIN heuristic_scores t ON t.heuristic = h.id AND t.split = 'test'"
        f" WHERE h.{FIRST_OF_ITS_KIND}"
        " ORDER BY t.objective IS NULL, v.objective IS NULL, v.objective, h.objective LIMIT ?",
        (run, leaders),
    )
    reference = _reference(experiment)
    for one in best:
        one["gap"] = reference.gap(one["objective"]) if reference else None
    problem = store.query("SELECT problem FROM heuristics WHERE run = ? LIMIT 1", (run,))
    turns = store.query("SELECT * FROM search_turns WHERE run = ? ORDER BY turn", (run,))
    for turn in turns:
        turn["population"] = json.loads(turn["population"])
    return SearchReport(
        run={key: row[key] for key in ("id", "name", "status", "seed", "created_at", "finished_at", "error")},
        problem=problem[0]["problem"] if problem else experiment.search.problem,
        arm=arm_of(experiment),
        turns=tuple(turns),
        curve=curve,
        best=tuple(best),
        budget=count_budget(store, run, experiment),
    )


def _curve(store: Store, run: str) -> tuple[tuple[int, float], ...]:
    """Candidates so far (repairs and gates of earlier turns included) and the objective, at each improvement."""
    ledger = SearchLedger(store, run, "")
    gated, repairs = ledger.gated(), {turn.number: turn.repairs for turn in ledger.turns()}
    rows = store.query(
        "SELECT turn, generation, objective FROM heuristics WHERE run = ? ORDER BY turn, number", (run,)
    )
    curve: list[tuple[int, float]] = []
    for count, row in enumerate(rows, 1):
        if row["objective"] is not None and (not curve or row["objective"] < curve[-1][1]):
            others = sum(n for turn, n in repairs.items() if turn < row["turn"])
            others += sum(n for generation, n in gated.items() if generation < row["generation"])
            curve.append((count + others, row["objective"]))
    return tuple(curve)


def _reference(experiment: Experiment) -> Reference | None:
    """Of the training instances; None where the problem has none, or is not to be found any more."""
    table = experiment.search
    assert table is not None
    try:
        spec = experiment.find_target("search.problem", table.problem)
        return load_problem("search.problem", spec, table.options).reference("train", table.size)
    except CoevoError:
        return None


def arm_of(experiment: Experiment) -> str:
    """What is compared: `EoH`, `EoH+ES`, `EoH, no model`, `sample`, `sample+ES`, `random formulas`; `…, free edits`."""
    table = experiment.search
    assert table is not None
    name = {"eoh": "EoH", "sample": "sample"}[table.method]
    if table.author == "chance":
        return "random formulas" if table.method == "sample" else f"{name}, no model"
    weights = experiment.schedule.mode in ("interleaved", "weights")
    free = table.method == "eoh" and table.language == "formula" and not table.holds
    return name + ("+ES" if table.moving and weights else "") + (", free edits" if free else "")


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """Runs of one arm on one problem with one budget. Statistics are over runs, on their best heuristics."""

    problem: str
    arm: str
    candidates: int
    runs: tuple[str, ...]
    train: tuple[float, ...]
    val: tuple[float, ...]
    test: tuple[float, ...]
    valid_share: float

    @property
    def mean(self) -> float | None:
        return fmean(self.train) if self.train else None

    @property
    def deviation(self) -> float | None:
        return stdev(self.train) if len(self.train) > 1 else None


def compare_searches(store: Store, runs: Sequence[str] = ()) -> list[ArmSummary]:
    """All finished searches (or `runs`) by problem, arm and number of candidates, the best mean first."""
    runs = [queries.run(store, run)["id"] for run in runs]
    rows = store.query(
        "SELECT id FROM runs WHERE json_extract(config, '$.search') IS NOT NULL AND status = 'finished'"
        " ORDER BY created_at"
    )
    for run in set(runs) - {row["id"] for row in rows}:
        raise StoreError(f"run {run} is no finished search", hint="`coevo runs` lists what is there")
    groups: dict[tuple[str, str, int], list[SearchReport]] = {}
    for row in rows:
        if runs and row["id"] not in runs:
            continue
        report = make_search_report(store, row["id"], leaders=1)
        key = (report.problem, report.arm, report.budget.candidates)
        groups.setdefault(key, []).append(report)
    summaries = [
        ArmSummary(
            problem=problem,
            arm=arm,
            candidates=candidates,
            runs=tuple(report.run["id"] for report in reports),
            train=tuple(report.curve[-1][1] for report in reports if report.curve),
            val=tuple(r.best[0]["val"] for r in reports if r.best and r.best[0]["val"] is not None),
            test=tuple(r.best[0]["test"] for r in reports if r.best and r.best[0]["test"] is not None),
            valid_share=sum(r.budget.valid for r in reports) / max(1, sum(r.budget.judged for r in reports)),
        )
        for (problem, arm, candidates), reports in groups.items()
    ]
    return sorted(summaries, key=lambda summary: (summary.problem, summary.mean is None, summary.mean or 0.0))


def lineage(store: Store, heuristic: str) -> list[dict[str, Any]]:
    """A heuristic and its ancestors, the oldest first, each once. Raises StoreError for an unknown id."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [heuristic]
    while waiting:
        id_ = waiting.pop()
        if id_ in found:
            continue
        rows = store.query("SELECT * FROM heuristics WHERE id = ?", (id_,))
        if not rows:
            raise StoreError(
                f"there is no heuristic {id_}", hint="`coevo heuristics list RUN` names those of a run"
            )
        found[id_] = rows[0] | {"parents": json.loads(rows[0]["parents"] or "[]")}
        waiting += found[id_]["parents"]
    return sorted(found.values(), key=lambda row: (row["turn"], row["number"]))


def render_curves(reports: Sequence[SearchReport]) -> str:
    """Best objective so far over candidates, one line a run, one panel a problem, as an SVG document.

    The first candidates are far off: what is worse than every run's best after a twentieth of its candidates is cut off.
    """
    shown = [report for report in reports if report.curve]
    problems = list(dict.fromkeys(report.problem for report in shown)) or ["no heuristics yet"]
    arms = list(dict.fromkeys(report.arm for report in shown))
    panels = [
        f'<g transform="translate(0,{_HEIGHT * place})">'
        + _panel(problem, [report for report in shown if report.problem == problem], arms)
        + "</g>"
        for place, problem in enumerate(problems)
    ]
    body = "\n".join(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT * len(problems)}"'
        f' font-family="sans-serif" font-size="12">\n{body}\n</svg>\n'
    )


_WIDTH, _HEIGHT = 760, 380
_COLOURS = ("#2171b5", "#d94801", "#41ab5d", "#6a51a3", "#737373", "#c51b8a")


def _panel(problem: str, reports: Sequence[SearchReport], arms: Sequence[str]) -> str:
    left, right, top, bottom = 70, 170, 40, 50
    last = max([1, *(report.budget.candidates for report in reports)])
    low = min([report.curve[-1][1] for report in reports], default=0.0)
    high = max([_after(report, report.budget.candidates // 20) for report in reports], default=1.0)
    high = high if high > low else low + 1.0

    def x(count: float) -> float:
        return left + (_WIDTH - left - right) * count / last

    def y(value: float) -> float:
        return _HEIGHT - bottom - (_HEIGHT - top - bottom) * (min(value, high) - low) / (high - low)

    parts = [f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>']
    for tick in range(5):
        value = low + (high - low) * tick / 4
        parts.append(
            f'<line x1="{left}" x2="{_WIDTH - right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.5g}</text>'
            f'<text x="{x(last * tick / 4):.1f}" y="{_HEIGHT - bottom + 18}" text-anchor="middle">'
            f"{round(last * tick / 4)}</text>"
        )
    for report in reports:
        steps = [*report.curve, (report.budget.candidates, report.curve[-1][1])]
        path = f"M{x(steps[0][0]):.1f},{y(steps[0][1]):.1f}" + "".join(
            f" H{x(count):.1f} V{y(value):.1f}" for count, value in steps[1:]
        )
        colour = _COLOURS[arms.index(report.arm) % len(_COLOURS)]
        parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6">'
            f"<title>{escape(report.run['id'])}</title></path>"
        )
    parts += [
        f'<text x="{_WIDTH - right + 12}" y="{top + 18 * place}" fill="{_COLOURS[arms.index(arm) % len(_COLOURS)]}">'
        f"{escape(arm)}</text>"
        for place, arm in enumerate(arm for arm in arms if any(report.arm == arm for report in reports))
    ]
    parts.append(f'<text x="{_WIDTH / 2}" y="20" text-anchor="middle">{escape(problem)}: best so far</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">candidates</text>')
    return "\n".join(parts)


def _after(report: SearchReport, candidates: int) -> float:
    """The best after so many candidates; the first valid one if there was none yet."""
    return next(
        (value for count, value in reversed(report.curve) if count <= max(1, candidates)), report.curve[0][1]
    )
