"""What a search found: the curve over candidates, the budget, the best with its gap on fresh instances, and comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from coevo.config import Experiment, stored_experiment
from coevo.eoh.budget import Budget, count_budget
from coevo.eoh.ledger import FIRST_OF_ITS_KIND, SearchLedger
from coevo.errors import CoevoError, StoreError
from coevo.problem import Problem, Reference, load_problem
from coevo.report import run_facts
from coevo.store import queries

if TYPE_CHECKING:
    from coevo.store import Store


@dataclass(frozen=True, slots=True)
class SearchReport:
    """One search.

    `curve` has the best objective so far after each candidate that improved it, as (candidates, objective); `failures` the
    kinds of failure with their count and commonest message, the commonest kind first. `reference` and `simple` (what the
    problem's own simple heuristic scores) are of the training instances, None where they are not known (`simple`: of runs
    that never began).
    """

    run: dict[str, Any]
    problem: str
    arm: str
    turns: tuple[dict[str, Any], ...]
    curve: tuple[tuple[int, float], ...]
    best: tuple[dict[str, Any], ...]
    failures: tuple[dict[str, Any], ...]
    reference: Reference | None
    simple: float | None
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
    problem = _problem(experiment)
    reference = problem.reference("train", experiment.search.size) if problem else None
    best = best_of(store, run, leaders)
    for one in best:
        one["gap"] = reference.gap(one["objective"]) if reference else None
    stored = store.query("SELECT problem FROM heuristics WHERE run = ? LIMIT 1", (run,))
    turns = store.query("SELECT * FROM search_turns WHERE run = ? ORDER BY turn", (run,))
    return SearchReport(
        run=run_facts(row),
        problem=_titled(
            stored[0]["problem"] if stored else problem.name if problem else experiment.search.problem,
            experiment.search.size,
        ),
        arm=arm_of(experiment),
        turns=tuple(map(queries.decoded, turns)),
        curve=_curve(store, run),
        best=tuple(best),
        failures=tuple(SearchLedger(store, run, "").failures()),
        reference=reference,
        simple=(row["provenance"] or {}).get("simple_objective"),
        budget=count_budget(store, run, experiment),
    )


def _titled(problem: str, size: int | None) -> str:
    """Of a search on training instances of another size than the usual one."""
    return problem if size is None else f"{problem} (train: size {size})"


def best_of(store: Store, run: str, count: int) -> list[dict[str, Any]]:
    """The best heuristics of a search that differ in behaviour, the one it named best (if it did) first."""
    return store.query(
        "SELECT h.id, h.operator, h.generation, h.objective, h.thought, v.objective AS val, v.gap AS val_gap,"
        " t.objective AS test, t.gap AS test_gap FROM heuristics h"
        " LEFT JOIN heuristic_scores v ON v.heuristic = h.id AND v.split = 'val'"
        " LEFT JOIN heuristic_scores t ON t.heuristic = h.id AND t.split = 'test'"
        f" WHERE h.{FIRST_OF_ITS_KIND}"
        " ORDER BY t.heuristic IS NULL, v.objective IS NULL, v.objective, h.objective, h.turn, h.number LIMIT ?",
        (run, count),
    )


def named_best(store: Store, run: str) -> str | None:
    """Id of the heuristic that a search named best: the one it judged on the test instances."""
    rows = store.query(
        "SELECT s.heuristic FROM heuristic_scores s JOIN heuristics h ON h.id = s.heuristic"
        " WHERE h.run = ? AND s.split = 'test'",
        (run,),
    )
    return rows[0]["heuristic"] if rows else None


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


def _problem(experiment: Experiment) -> Problem | None:
    """None where it is not to be found any more."""
    table = experiment.search
    assert table is not None
    try:
        spec = experiment.find_target("search.problem", table.problem)
        return load_problem("search.problem", spec, table.options)
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
    differing: tuple[str, ...] = ()
    """Settings, as dotted keys, in which the runs differ besides their seeds."""
    repeated: tuple[int, ...] = ()
    """Seeds that several runs of equal settings have: they are no independent runs."""

    @property
    def mean(self) -> float | None:
        return fmean(self.train) if self.train else None

    @property
    def deviation(self) -> float | None:
        return stdev(self.train) if len(self.train) > 1 else None


def compare_searches(store: Store, runs: Sequence[str] = ()) -> list[ArmSummary]:
    """All finished searches (or `runs`) by problem, size, arm and number of candidates, the best mean first."""
    runs = [queries.run(store, run)["id"] for run in runs]
    rows = store.query(
        "SELECT id, config FROM runs WHERE json_extract(config, '$.search') IS NOT NULL AND status = 'finished'"
        " ORDER BY created_at"
    )
    for run in set(runs) - {row["id"] for row in rows}:
        raise StoreError(f"run {run} is no finished search", hint="`coevo runs` lists what is there")
    groups: dict[tuple[str, str, int], list[SearchReport]] = {}
    settings: dict[str, dict[str, str]] = {}
    for row in rows:
        if runs and row["id"] not in runs:
            continue
        report = make_search_report(store, row["id"], leaders=1)
        settings[row["id"]] = _settings(queries.decoded(row)["config"])
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
            **_mixed([(r.run["seed"], settings[r.run["id"]]) for r in reports]),
        )
        for (problem, arm, candidates), reports in groups.items()
    ]
    return sorted(summaries, key=lambda summary: (summary.problem, summary.mean is None, summary.mean or 0.0))


def _settings(config: Mapping[str, Any]) -> dict[str, str]:
    """What decides how a search goes, by dotted key, besides seed, budget and what only costs time."""
    by_model = () if config["search"]["author"] == "chance" else ("es", "model", "sampling", "agent")
    idle = {"search.budget", "search.workers", "model.threads", "model.device"}
    flat = {
        f"{table}.{key}": str(value)
        for table in ("search", *by_model)
        for key, value in config[table].items()
    }
    return {key: value for key, value in flat.items() if key not in idle}


def _mixed(runs: Sequence[tuple[int, dict[str, str]]]) -> dict[str, Any]:
    keys = dict.fromkeys(key for _, settings in runs for key in settings)
    same = Counter((seed, tuple(sorted(settings.items()))) for seed, settings in runs)
    return {
        "differing": tuple(key for key in keys if len({settings.get(key) for _, settings in runs}) > 1),
        "repeated": tuple(sorted({seed for (seed, _), count in same.items() if count > 1})),
    }


def heuristic_facts(store: Store, ident: str) -> dict[str, Any]:
    """`heuristic` (the one with this id, or the best of the run that it names), its `scores`, and its `lineage`.

    Raises StoreError where nothing has the id, or the run has no valid heuristic.
    """
    if not store.query("SELECT 1 FROM heuristics WHERE id = ?", (ident,)):
        ident = _best_of_run(store, ident)
    line = lineage(store, ident)
    found = next(row for row in line if row["id"] == ident)
    scores = store.query("SELECT * FROM heuristic_scores WHERE heuristic = ? ORDER BY split DESC", (ident,))
    return {
        "heuristic": found | {"named_best": named_best(store, found["run"]) == ident},
        "scores": [queries.decoded(score) for score in scores],
        "lineage": line,
    }


def _best_of_run(store: Store, ident: str) -> str:
    try:
        run = queries.run(store, ident)["id"]
    except StoreError as error:
        raise StoreError(
            f"there is no heuristic {ident}, and {error.message}",
            hint=f"`coevo heuristics list {ident.partition('.t')[0] or 'RUN'}` names those of a run",
        ) from error
    best = best_of(store, run, 1)
    if not best:
        raise StoreError(
            f"run {run} has no valid heuristic", hint=f"`coevo heuristics report {run}` says why"
        )
    return str(best[0]["id"])


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
        found[id_] = {"parents": []} | queries.decoded(rows[0])
        waiting += found[id_]["parents"]
    return sorted(found.values(), key=lambda row: (row["turn"], row["number"]))
