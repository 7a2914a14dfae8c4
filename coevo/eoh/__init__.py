"""Evolution of heuristics (EoH, arXiv 2401.02051) with an ES operator: programs and weights evolve together."""

from __future__ import annotations

from coevo.eoh.environment import HeuristicTasks, tasks
from coevo.eoh.report import SearchReport, compare_searches, make_search_report
from coevo.eoh.run import SearchDrive, run_search

__all__ = [
    "HeuristicTasks",
    "SearchDrive",
    "SearchReport",
    "compare_searches",
    "make_search_report",
    "run_search",
    "tasks",
]
