"""The co-evolution loop: a LangGraph graph in which skill and weights evolve from the same rollouts."""

from coevo.loop.context import LoopContext, LoopState
from coevo.loop.graph import build_loop
from coevo.loop.resources import Resources, open_resources
from coevo.loop.run import RunResult, experiment_of, open_context, run_experiment

__all__ = [
    "LoopContext",
    "LoopState",
    "Resources",
    "RunResult",
    "build_loop",
    "experiment_of",
    "open_context",
    "open_resources",
    "run_experiment",
]
