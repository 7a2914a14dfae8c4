"""Problems whose solutions are small programs: what a heuristic is asked to do, and how one is judged.

A heuristic is Python source with one function. It runs in the sandbox and hands back decisions; the problem's driver, its
instances and its scoring stay in the process that runs the search, out of the candidate's reach. The objective is always
minimised.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from coevo.errors import ConfigError, explained
from coevo.objects import load_object
from coevo.sandbox import Candidate, CandidateError, Category, Limits, Sandbox

Split = Literal["train", "val", "test"]
"""`train` scores candidates during a search, `val` (fresh instances) picks among the best, `test` is reported."""


PLACE = "{expression}"
"""Where the formula stands in a template."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the function, with its type, shape and meaning in a few words."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The function a heuristic must define; arguments are passed by position."""

    function: str
    arguments: tuple[Argument, ...]
    result: Argument

    @property
    def header(self) -> str:
        """`def name(a, b):`"""
        return f"def {self.function}({', '.join(argument.name for argument in self.arguments)}):"


@dataclass(frozen=True, slots=True)
class Expressions:
    """A small language of formulas in which heuristics of the problem can be written.

    `variables` maps names to meanings. `template` is the source of the whole heuristic with `{expression}` in the place of
    the formula; the variables are arrays or numbers there, and `np` is numpy. `value` says in a few words, for people, what
    the value of a formula decides.
    """

    variables: Mapping[str, str]
    template: str
    value: str = ""

    def code(self, expression: str) -> str:
        return self.template.replace(PLACE, expression)


@runtime_checkable
class Problem(Protocol):
    """One heuristic-design problem. A file that defines one is all that is needed to search on it."""

    name: str
    goal: str
    """What the heuristic is for and what is minimised, in a few sentences for the model."""
    signature: Signature
    notes: str
    """Constraints the code must keep, for the model."""
    seed_code: str
    """A simple valid heuristic."""
    expressions: Expressions | None
    limits: Limits
    """Of one evaluation on the train split."""

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        """The objective of every instance of a split (`size` picks among a split's instance sizes).

        Raises CandidateError when a decision is not allowed. Random solvers draw the same numbers for every candidate.
        """
        ...

    def reference(self, split: Split, size: int | None = None) -> Reference | None:
        """A best known value to measure the gap to, where there is one."""
        ...


@runtime_checkable
class Sized(Protocol):
    """A problem whose splits need different limits; without this, those of train hold everywhere."""

    def limits_on(self, split: Split, size: int | None) -> Limits: ...


@runtime_checkable
class Graded(Protocol):
    """A problem that says which sizes the instances of a split have; without this, any size is handed to `solve`."""

    def sizes(self, split: Split) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference objective (mean over the split's instances) and who found it.

    `bound`: no valid solution can have a smaller mean objective (proven optimum or bound); None where nothing is proven.
    """

    objective: float
    source: str
    bound: float | None = None

    def gap(self, objective: float) -> float:
        """How much worse than the reference, as a share of it (0.1: ten per cent); of 1 where the reference is 0."""
        return (objective - self.objective) / (abs(self.objective) or 1.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an evaluation found. `objective` is the mean over `objectives` (one an instance), None if it is not valid."""

    objective: float | None
    objectives: tuple[float, ...] = ()
    category: Category | None = None
    error: str = ""
    output: str = ""
    seconds: float = field(default=0.0, compare=False)
    cpu_s: float = field(default=0.0, compare=False)

    @property
    def valid(self) -> bool:
        return self.objective is not None


BOUND_TOLERANCE = 1e-9

LARGEST = 1e100
"""An objective beyond this, either way, is no result: sums and squares of such numbers overflow."""

LONGEST_ERROR = 2000
"""Characters of an error that are kept: a candidate has a say in what its own says."""

_NEEDED = ("name", "goal", "signature", "notes", "seed_code", "expressions", "limits", "solve", "reference")


def load_problem(key: str, spec: str, options: Mapping[str, Any] | None = None) -> Problem:
    """The problem that the factory `module:name` or `file.py:name` makes of `options`; `key` names the setting in errors.

    Raises ConfigError: no such factory, options it does not take, or what it makes is no problem.
    """
    factory: Any = load_object(key, spec, example="ahd:construct_tsp")
    if not callable(factory):
        raise ConfigError(f"{key} = {spec!r} is a {type(factory).__name__}, not a factory of problems")
    with explained(f"{key} = {spec!r}", ConfigError):
        try:
            problem = factory(**(options or {}))
        except TypeError as error:
            raise ConfigError(
                f"{key} = {spec!r} refused its options: {error}", hint="see the problem's documentation"
            ) from error
    missing = [name for name in _NEEDED if not hasattr(problem, name)]
    if not missing and not isinstance(problem.limits, Limits):
        raise ConfigError(f"{key} = {spec!r}: its limits are a {type(problem.limits).__name__}, not Limits")
    if not missing and not inspect.iscoroutinefunction(problem.solve):
        raise ConfigError(f"{key} = {spec!r}: its solve is no coroutine", hint="write `async def solve(…)`")
    if not missing and problem.expressions is not None and PLACE not in problem.expressions.template:
        raise ConfigError(
            f"{key} = {spec!r}: the template of its formulas has no {PLACE}",
            hint="it says where the formula goes",
        )
    if missing:
        raise ConfigError(
            f"{key} = {spec!r} made a {type(problem).__name__}, not a problem: it has no {', '.join(missing)}",
            hint="docs/heuristics.md shows a whole one; `notes` may be empty and `expressions` None",
        )
    made: Problem = problem
    return made


def check_size(key: str, problem: Problem, split: Split, size: int | None) -> None:
    """Raises ConfigError when the problem says that the split has no instances of that size; `key` names the setting."""
    if size is None or not isinstance(problem, Graded) or not callable(problem.sizes):
        return
    with explained(f"sizes of the problem {problem.name}", ConfigError):
        known = [int(one) for one in problem.sizes(split)]
    if size not in known:
        raise ConfigError(
            f"{key} = {size}: {problem.name} has no {split} instances of that size",
            hint=f"choose {' or '.join(map(str, known))}, or leave it out",
        )


async def evaluate(
    problem: Problem,
    code: str,
    *,
    sandbox: Sandbox,
    split: Split = "train",
    size: int | None = None,
) -> Verdict:
    """Run a heuristic on a split. Whatever the candidate does becomes a verdict; only a broken sandbox raises (WorldError)."""
    limits = problem.limits_on(split, size) if isinstance(problem, Sized) else problem.limits
    started = time.perf_counter()
    arity = len(problem.signature.arguments)
    cpu_s, output = 0.0, ""
    try:
        async with sandbox.candidate(
            code, problem.signature.function, arity=arity, limits=limits
        ) as candidate:
            started = time.perf_counter()  # waiting for a free worker is not the candidate's time
            try:
                with explained(f"solve of the problem {problem.name}", ConfigError):
                    try:
                        found = await problem.solve(candidate, split, size)
                    except OverflowError as error:  # of arithmetic with what the candidate said
                        raise CandidateError(
                            Category.NON_FINITE, f"a number is too large: {error}"
                        ) from error
                    objectives = _checked(found, problem, split)
            finally:
                cpu_s, output = candidate.cpu_s, candidate.output
        objective = math.fsum(objectives) / len(objectives)
        reference = problem.reference(split, size)
        bound = reference.bound if reference else None
        if bound is not None and objective < bound - BOUND_TOLERANCE * abs(bound):
            raise CandidateError(
                Category.IMPLAUSIBLE, f"the objective {objective:.6g} is below the proven bound {bound:.6g}"
            )
    except CandidateError as error:
        return Verdict(
            None,
            category=error.category,
            error=error.message[:LONGEST_ERROR],
            output=error.output or output,
            seconds=time.perf_counter() - started,
            cpu_s=cpu_s,
        )
    return Verdict(objective, objectives, output=output, seconds=time.perf_counter() - started, cpu_s=cpu_s)


def _checked(found: Sequence[float], problem: Problem, split: Split) -> tuple[float, ...]:
    """The objectives as numbers. Raises CandidateError for one that is not finite, ConfigError if there are none."""
    if not isinstance(found, Iterable):
        raise ConfigError(
            f"solve of the problem {problem.name} returned {type(found).__name__}, not one objective for each instance"
        )
    objectives = []
    for place, value in enumerate(found):
        try:
            objective = float(value)
        except OverflowError:
            objective = math.inf
        if not abs(objective) <= LARGEST:
            raise CandidateError(Category.NON_FINITE, f"instance {place}: the objective is {objective:g}")
        objectives.append(objective)
    if not objectives:
        raise ConfigError(f"solve of the problem {problem.name} gave no objective on {split}")
    return tuple(objectives)
