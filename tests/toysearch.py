"""A small heuristic-design problem and a small search on it, with a fake model whose weights matter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevo.engine.base import Request
from coevo.problem import Argument, Expressions, Reference, Signature, Split
from coevo.sandbox import Candidate, CandidateError, Category, Limits
from coevo.seeds import derive_seed
from coevo.testing import FakeEngine

POINTS = {"train": (1.0, 2.0, 3.0, 5.0), "val": (1.5, 4.0), "test": (2.5, 6.0, 7.0)}


class Doubling:
    """Guess 2x + 1; the objective is the distance to it."""

    name = "doubling"
    goal = "Guess the hidden number that belongs to x."
    signature = Signature("guess", (Argument("x", "a number"),), Argument("number", "the guess, a float"))
    notes = ""
    seed_code = "def guess(x):\n    return x\n"
    expressions = Expressions(
        {"x": "the number"},
        "from math import exp, sqrt\n\ndef square(v):\n    return v * v\n\ndef guess(x):\n    return {expression}\n",
    )
    limits = Limits(cpu_s=2, wall_s=10, memory_mb=512)

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        points = POINTS[split]
        guesses = await candidate.map([(point,) for point in points])
        for guess in guesses:
            if not isinstance(guess, (int, float)) or isinstance(guess, bool):
                raise CandidateError(Category.WRONG_SHAPE, f"guess must be a number, not {guess!r}")
        return [abs(guess - (2 * point + 1)) for guess, point in zip(guesses, points, strict=True)]

    def reference(self, split: Split, size: int | None = None) -> Reference | None:
        return Reference(0.001, "the hidden rule", bound=0.0)


def doubling() -> Doubling:
    return Doubling()


def writes(request: Request, theta: Sequence[float]) -> str:
    """A program a·x + b: the nearer θ is to what is asked the better; chance of the request's seed besides."""
    seed = request.sampling.seed
    kind = derive_seed(seed, "kind") % 10
    if kind == 0:
        return "I would rather not."
    if kind == 1:
        return "{fails at once, always} ```python\ndef guess(x):\n    return x / 0\n```"
    a = 1.0 + theta[0] + (derive_seed(seed, "a") % 100) / 200
    b = theta[1] + (derive_seed(seed, "b") % 100) / 200
    return f"{{a straight line with slope}}\n```python\ndef guess(x):\n    return {a:.4f} * x + {b:.4f}\n```"


def engine(model_id: str, **options: Any) -> FakeEngine:
    return FakeEngine(writes, delay_s=0.002)


FILE = """
seed = 8
[model]
id = "toy"
engine = "toysearch.py:engine"
[agent]
graph = "agent.py:graph"
skill = "heuristic"
max_turns = 1
retries = 1
[search]
problem = "toysearch.py:doubling"
population = 5
generations = 3
rescore = 3
[es]
sigma = 0.2
alpha = 0.3
[tasks]
slots = 5
[schedule]
mode = "weights"
"""

SKILL = """---
name: heuristic
description: Write heuristics.
---

Write one function.
"""


def search_workspace(directory: Path, file: str = FILE) -> Path:
    """Write the files of a toy search; returns the experiment file."""
    here = Path(__file__)
    (directory / "heuristic").mkdir(parents=True, exist_ok=True)
    (directory / "heuristic" / "SKILL.md").write_text(SKILL)
    (directory / "agent.py").write_text((here.parents[1] / "agents" / "heuristic.py").read_text())
    (directory / "toysearch.py").write_text(here.read_text())
    path = directory / "toy.toml"
    path.write_text(file)
    return path
