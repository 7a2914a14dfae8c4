"""Heuristic design as tasks: the agent is asked for a heuristic, answers, and the world judges what it wrote."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from coevo.env import Environment, Observation, Task, Transition
from coevo.eoh.language import Edits, Language, LanguageName, language_of
from coevo.eoh.operators import Operator
from coevo.eoh.replies import Draft
from coevo.errors import ConfigError
from coevo.meter import Meter
from coevo.problem import Problem, Split, Verdict, check_size, evaluate, load_problem
from coevo.sandbox import CandidateError, Category, Sandbox

Sink = Callable[[Task, Draft | None, Verdict], None]
"""Told of every judged answer: the task, what was read in it (None if nothing), and the verdict."""

FREE_TASKS = 32
"""Tasks of each split that ask for a heuristic from scratch; they differ by their seeds only."""

REPEATED_BELOW_S = 2.0
"""The simple heuristic is judged twice before a search, unless that takes longer."""

_FAULTS = {
    Category.SYNTAX_ERROR,
    Category.MISSING_FUNCTION,
    Category.WRONG_SIGNATURE,
    Category.IMPORT_ERROR,
    Category.EXCEPTION,
    Category.BAD_REPLY,
    Category.WRONG_SHAPE,
}
"""What no formula is to blame for: the template around it is."""


class Proof(NamedTuple):
    """That a problem works: the objective of its simple heuristic, the seconds that took, and what is odd about it,
    though it may be meant so."""

    simple: float
    seconds: float
    doubt: str = ""


class Judge:
    """Verdicts on programs, each program judged once a split; asking twice at the same time waits for the one answer."""

    def __init__(self, problem: Problem, sandbox: Sandbox, size: int | None = None) -> None:
        self.problem, self.size = problem, size
        self._sandbox = sandbox
        self._known: dict[tuple[str, Split], asyncio.Future[Verdict]] = {}
        self.meter = Meter()

    async def __call__(self, code: str, split: Split = "train") -> Verdict:
        key = (code, split)
        while (known := self._known.get(key)) is not None:
            try:
                return replace(await asyncio.shield(known), seconds=0.0, cpu_s=0.0)  # judged once, paid once
            except asyncio.CancelledError:
                if not known.cancelled():
                    raise
                self._known.pop(key, None)
        size = self.size if split == "train" else None
        work = evaluate(self.problem, code, sandbox=self._sandbox, split=split, size=size)
        asked = self._known[key] = asyncio.ensure_future(work)
        try:
            with self.meter.during("judging"):
                verdict = await asked  # cancelled with whoever asked first; others who wait then ask again
        except BaseException:
            self._known.pop(key, None)
            raise
        return verdict

    def remember(self, code: str, verdict: Verdict) -> None:
        """A verdict from an earlier session, so that it is not asked for again."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        future.set_result(verdict)
        self._known.setdefault((code, "train"), future)

    async def simple(self) -> tuple[float, float]:
        """Objective of the problem's simple heuristic, and the seconds it took. Raises ConfigError when it fails."""
        verdict = await self(self.problem.seed_code)
        if verdict.objective is None:
            raise ConfigError(
                f"the seed heuristic of {self.problem.name} failed ({verdict.category}): {verdict.error}",
                hint="mend the problem's seed_code or its solve, or its limits if it is only too slow here",
            )
        return verdict.objective, verdict.seconds

    async def prove(self, language: Language) -> Proof:
        """Try the simple heuristic, and the template of formulas if the language has one. Raises ConfigError when one fails."""
        objective, seconds = await self.simple()
        doubts = [await self._noise(objective, seconds)]
        if language.trial:
            verdict = await self(language.trial)
            failed = f"{verdict.category}: {verdict.error}"
            if verdict.category in _FAULTS:
                raise ConfigError(
                    f"the template of the formulas of {self.problem.name} failed ({failed})",
                    hint="mend `expressions.template` of the problem; a formula of all variables and functions was tried",
                )
            if not verdict.valid:
                doubts.append(
                    f"a formula of all variables and functions is no valid heuristic ({failed});"
                    " if no formula is, mend the template"
                )
        return Proof(objective, seconds, "; ".join(filter(None, doubts)))

    async def _noise(self, first: float, seconds: float) -> str:
        """What is odd about scores: that they differ from one time to the next. Not asked where that takes long."""
        if seconds > REPEATED_BELOW_S:
            return ""
        again = await evaluate(self.problem, self.problem.seed_code, sandbox=self._sandbox, size=self.size)
        if again.objective == first:
            return ""
        then = again.category or f"{again.objective:.6g}"
        return (
            f"its simple heuristic scores {first:.6g}, then {then}: what draws random numbers must seed them"
        )

    async def reward(self, verdict: Verdict) -> float:
        """In (0, 1): 0.5 for the problem's simple heuristic, 1 at the reference value; 0 when not valid.

        1/(1 + gap/gap of the simple one). Without a reference the scale is a tenth of the simple one's own value.
        """
        if verdict.objective is None:
            return 0.0
        simple, _ = await self.simple()
        reference = self.problem.reference("train", self.size)
        if reference is not None and simple > reference.objective:
            gap = max(0.0, verdict.objective - reference.objective)
            return 1.0 / (1.0 + gap / (simple - reference.objective))
        scale = 0.1 * abs(simple) or 1.0
        return 1.0 / (1.0 + math.exp(min(60.0, (verdict.objective - simple) / scale)))


class HeuristicEnvironment:
    """One request for a heuristic. An answer that is not valid may be mended while turns are left."""

    def __init__(self, judge: Judge, language: Language, sink: Sink | None, longest: int = 0) -> None:
        self._judge, self._language, self._sink, self._longest = judge, language, sink, longest
        self._task: Task | None = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self._task = task
        return Observation(str(task.data["request"]), goal=task.goal)

    async def step(self, action: str) -> Transition:
        assert self._task is not None
        draft: Draft | None = None
        try:
            draft = self._language.read(action)
            if 0 < self._longest < len(draft.code):
                raise CandidateError(
                    Category.PARSE_ERROR,
                    f"the program has {len(draft.code)} characters; {self._longest} can be shown again in a prompt",
                )
        except CandidateError as error:
            verdict = Verdict(None, category=error.category, error=error.message)
        else:
            verdict = await self._judge(draft.code)
        if self._sink is not None:
            self._sink(self._task, draft, verdict)
        reward = await self._judge.reward(verdict)
        performed = draft.thought if draft else ""
        if verdict.objective is None:
            said = f"The heuristic failed ({verdict.category}): {verdict.error}\nWrite it again without this mistake."
            info = {"category": str(verdict.category), "error": verdict.error, "performed": performed}
            return Transition(Observation(said, error=verdict.error), 0.0, done=False, info=info)
        return Transition(
            Observation(f"The heuristic scores {verdict.objective:.6g} (smaller is better)."),
            reward,
            done=True,
            success=True,
            components={"objective": verdict.objective},
            info={"performed": performed},
        )

    async def probe(self) -> str:
        """What `coevo check` tries: the problem's simple heuristic, and a formula. Raises ConfigError when one fails."""
        proof = await self._judge.prove(self._language)
        told = f"its simple heuristic scores {proof.simple:.6g} in {proof.seconds:.2f} s"
        return f"{told}; {proof.doubt}" if proof.doubt else told

    async def close(self) -> None:
        self._task = None


class HeuristicPool:
    """Environments over one sandbox, which is opened with the first of them."""

    def __init__(
        self,
        size: int,
        problem: Problem,
        language: Language,
        *,
        workers: int,
        instance_size: int | None,
        longest: int,
    ) -> None:
        self.size = size
        self.sink: Sink | None = None
        self._sandbox = Sandbox(workers=workers, limits=problem.limits)
        self.judge = Judge(problem, self._sandbox, instance_size)
        self._language, self._longest = language, longest
        self._opening = asyncio.Lock()
        self._open = False

    async def open(self) -> None:
        async with self._opening:
            if not self._open:
                await self._sandbox.__aenter__()
                self._open = True

    async def acquire(self, task: Task) -> Environment:
        await self.open()
        return HeuristicEnvironment(self.judge, self._language, self.sink, self._longest)

    async def release(self, environment: Environment) -> None:
        await environment.close()

    async def close(self) -> None:
        if self._open:
            await self._sandbox.close()


@dataclass(frozen=True, slots=True)
class HeuristicTasks:
    """A task set: its tasks ask for a heuristic from scratch; a search adds its own."""

    problem: Problem
    language: Language
    workers: int = 1
    size: int | None = None
    longest: int = 0

    @property
    def name(self) -> str:
        return self.problem.name

    def tasks(self, split: str) -> Sequence[Task]:
        request = {"request": self.language.request(Operator.I1, ())}
        return tuple(
            Task(
                f"{self.problem.name}/{split}/{number}",
                self.language.goal,
                number,
                Operator.I1.value,
                request,
                grammar=self.language.grammar(Operator.I1, (), number),
            )
            for number in range(FREE_TASKS)
        )

    def pool(self, size: int) -> HeuristicPool:
        return HeuristicPool(
            size,
            self.problem,
            self.language,
            workers=self.workers,
            instance_size=self.size,
            longest=self.longest,
        )


def tasks(
    problem: str,
    language: LanguageName = "python",
    workers: int = 1,
    size: int | None = None,
    options: Mapping[str, Any] | None = None,
    longest: int = 0,
    edits: Edits = "held",
) -> HeuristicTasks:
    """The task set of a problem named as `package.module:factory`, made with `options`. Raises ConfigError.

    A program of more than `longest` characters is refused (0: any number).
    """
    found = load_problem("search.problem", problem, options or {})
    check_size("search.size", found, "train", size)
    return HeuristicTasks(found, language_of(language, found, edits), workers, size, longest)
