"""The co-evolution loop: a LangGraph graph in which skill and weights evolve from the same rollouts."""

from coevo.loop.again import evaluate_run, export_run, rollback_skill
from coevo.loop.context import LoopContext, LoopState
from coevo.loop.gepa_bridge import GepaTrial, evolve_with_gepa
from coevo.loop.graph import build_loop
from coevo.loop.resources import Resources, open_resources
from coevo.loop.run import RunResult, experiment_of, open_context, run_experiment
from coevo.loop.stop import RunStopped, StopSignal, run_async
from coevo.loop.trial import distil_run, try_skill

__all__ = [
    "GepaTrial",
    "LoopContext",
    "LoopState",
    "Resources",
    "RunResult",
    "RunStopped",
    "StopSignal",
    "build_loop",
    "distil_run",
    "evaluate_run",
    "evolve_with_gepa",
    "experiment_of",
    "export_run",
    "open_context",
    "open_resources",
    "rollback_skill",
    "run_async",
    "run_experiment",
    "try_skill",
]
