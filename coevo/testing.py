"""Public aids for tests and for trying things out without a model or a browser.

`FakeEngine` has real weights, a handful of numbers that evolution strategies can move; `ToyTaskSet` is a world of
buttons; `toy_graph` is an agent for it. Together they run the whole co-evolution loop in milliseconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.engine.base import Completion, Deliver, Perturbation, Request, Step, UpdateReport
from coevo.env import Environment, Observation, Task, Transition
from coevo.errors import EngineError, WorldError
from coevo.seeds import derive_seed

__all__ = [
    "FakeEngine",
    "ToyEnvironment",
    "ToyPool",
    "ToyTaskSet",
    "tiny_model",
    "toy_answer",
    "toy_engine",
    "toy_graph",
    "toy_tasks",
]

Answer = Callable[[Request, Sequence[float]], str]

SIZE = 8
"""Coordinates of a `FakeEngine`'s θ: 0 decides the form of a toy answer, the others its content."""

_GROUPS = ("colours", "animals", "fruits")
_WORDS = {
    "colours": ("red", "blue", "green", "black", "white", "brown", "pink", "grey"),
    "animals": ("cat", "dog", "owl", "fox", "bee", "cow", "hen", "pig"),
    "fruits": ("apple", "pear", "plum", "fig", "lime", "grape", "peach", "mango"),
}
_GOAL = re.compile(r"Press the button '([^']+)'")
_BUTTON = re.compile(r"button '([^']+)'")
_PRESS = re.compile(r"\A\s*press '([^']+)'\s*\Z")


class FakeEngine:
    """An `Engine` whose weights are a vector θ of `size` numbers, all 0 at first.

    The whole `Engine` contract holds. `Perturbation(seed, sigma)` makes a request see θ + sigma·ε(seed), ε being standard
    noise (see `noise`); `update` does θ ← θ + α/G · Σ z_i ε(seed_i) − decay·θ; everything is deterministic, on every
    machine. `NoiseSpec` changes nothing here.

    `answer` decides the texts: a function of (request, perturbed θ), or a list of texts handed out in turn, or by
    default `toy_answer`, which plays the toy world better the larger θ is. A word counts as a token. `delay_s` passes
    before every batch. `requests` keeps what was asked, `batches` the sizes of the batches.
    """

    def __init__(
        self, answer: Answer | Sequence[str] | None = None, *, size: int = SIZE, delay_s: float = 0.0
    ) -> None:
        self.theta: tuple[float, ...] = (0.0,) * size
        self.weights_step = 0
        self.requests: list[Request] = []
        self.batches: list[int] = []
        self._script = list(answer) if isinstance(answer, Sequence) else None
        self._answer = answer if callable(answer) else toy_answer
        self._delay_s = delay_s
        self._closed = False

    async def generate(
        self, requests: Sequence[Request], *, deliver: Deliver | None = None
    ) -> list[Completion]:
        """Raises `EngineError` when closed, or when a scripted list of answers is used up."""
        if self._closed:
            raise EngineError("the engine is closed", hint="make a new FakeEngine")
        self.batches.append(len(requests))
        await asyncio.sleep(self._delay_s)
        answers = [self._complete(request) for request in requests]
        if deliver is not None:
            for position, answer in enumerate(answers):
                deliver(position, answer)
        return answers

    async def complete(self, request: Request) -> Completion:
        """One request alone, in the form `PolicyChatModel` and `run_episode` take."""
        return (await self.generate([request]))[0]

    async def update(self, step: Step) -> UpdateReport:
        if len(step.seeds) != len(step.coefficients) or step.population < 1:
            raise EngineError(
                f"a step with {len(step.seeds)} seeds, {len(step.coefficients)} coefficients and population "
                f"{step.population} is malformed",
                hint="give one coefficient a seed and a population of at least 1",
            )
        noises = [noise(seed, len(self.theta)) for seed in step.seeds]
        pairs = list(zip(step.coefficients, noises, strict=True))
        scale = step.alpha / step.population
        moves = [
            scale * math.fsum(z * epsilon[i] for z, epsilon in pairs) - step.decay * old
            for i, old in enumerate(self.theta)
        ]
        self.theta = tuple(old + move for old, move in zip(self.theta, moves, strict=True))
        self.weights_step += 1
        return UpdateReport(
            weights_step=self.weights_step,
            step_norm=math.hypot(*moves),
            drift_norm=math.hypot(*self.theta),
            share_under_sigma=sum(abs(value) < abs(step.sigma) for value in self.theta) / len(self.theta),
            checksum=await self.checksum(),
            seconds=0.0,
        )

    async def checksum(self) -> str:
        return hashlib.blake2b(struct.pack(f"<{len(self.theta)}d", *self.theta), digest_size=16).hexdigest()

    async def save(self, directory: Path) -> None:
        """Writes `theta.json`: {"theta": […], "weights_step": n}."""
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"theta": self.theta, "weights_step": self.weights_step})
        (directory / "theta.json").write_text(text, encoding="utf-8")

    async def restore(self, steps: Iterable[Step]) -> None:
        self.theta, self.weights_step = (0.0,) * len(self.theta), 0
        for step in steps:
            await self.update(step)

    async def close(self) -> None:
        self._closed = True

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "fake",
            "model": "fake",
            "parameters": len(self.theta),
            "dtype": "float64",
            "device": "cpu",
            "threads": 1,
            "noise_version": 1,
            "batch_invariant": True,
        }

    def _complete(self, request: Request) -> Completion:
        self.requests.append(request)
        if self._script is not None:
            if not self._script:
                raise EngineError("the scripted answers are used up", hint="give FakeEngine more of them")
            text = self._script.pop(0)
        else:
            text = self._answer(request, perturbed(self.theta, request.perturbation))
        ends = [found for stop in request.sampling.stop if stop and (found := text.find(stop)) >= 0]
        text = text[: min(ends)] if ends else text
        words = re.findall(r"\s*\S+", text)
        cut = not ends and len(words) > request.sampling.max_tokens
        if cut:
            text = "".join(words[: request.sampling.max_tokens])
        return Completion(
            text=text,
            prompt_tokens=sum(len(str(message.get("content") or "").split()) for message in request.messages),
            completion_tokens=min(len(words), request.sampling.max_tokens),
            finish_reason="length" if cut else "stop",
            weights_step=self.weights_step,
        )


def noise(seed: int, size: int) -> tuple[float, ...]:
    """ε(seed): `size` independent numbers, mean 0 and variance 1, each the sum of 12 uniforms minus 6.

    Only whole numbers are added before the last division, so every machine gets the same bits.
    """
    numbers = []
    for i in range(size):
        digest = hashlib.blake2b(f"{seed}:{i}".encode(), digest_size=48).digest()
        numbers.append(sum(struct.unpack("<12I", digest)) / 2**32 - 6)
    return tuple(numbers)


def perturbed(theta: Sequence[float], perturbation: Perturbation | None) -> tuple[float, ...]:
    """θ + σ·ε(seed), or θ itself."""
    if perturbation is None:
        return tuple(theta)
    epsilon = noise(perturbation.seed, len(theta))
    return tuple(value + perturbation.sigma * e for value, e in zip(theta, epsilon, strict=True))


def toy_answer(request: Request, theta: Sequence[float]) -> str:
    """How `FakeEngine` plays the toy world: two decisions, each right with probability logistic(score).

    Form, score θ[0], plus 2 when the system message shows a worked example (`press '…'`): the answer is `press 'NAME'`,
    else "I would press NAME", which the world cannot read. Content, score θ[1 + i] for the i-th kind of task (a word of
    the goal decides it): NAME is the button the goal asks for, else another one on the page. Chance comes from the
    request's seed and messages alone, so members of a population share it.
    """
    system = " ".join(str(m["content"]) for m in request.messages if m["role"] == "system")
    shown = next(
        (str(m["content"]) for m in reversed(request.messages) if "button" in str(m.get("content"))), ""
    )
    goals = [found for m in request.messages for found in _GOAL.findall(str(m.get("content")))]
    goal = goals[-1] if goals else ""
    draw = random.Random(
        derive_seed(request.sampling.seed, json.dumps(list(request.messages), sort_keys=True))
    )
    well_formed = draw.random() < _logistic(theta[0] + (2.0 if "press '" in system else 0.0))
    kind = next((i for i, group in enumerate(_GROUPS) if goal in _WORDS[group]), 0)
    right = draw.random() < _logistic(theta[1 + kind % (len(theta) - 1)])
    others = [name for name in _BUTTON.findall(shown) if name != goal] or ["nothing"]
    name = goal if right else others[draw.randrange(len(others))]
    return f"press '{name}'" if well_formed else f"I would press {name}"


def _logistic(score: float) -> float:
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, score))))


class ToyEnvironment:
    """A page of buttons. `press 'NAME'` presses one; anything else is a parse error, after which one may try again.

    The right button leads to the next page, and after `rounds` of them the task is done; a wrong one ends it. The reward
    is the share of pages done. `fault`, if given, is called before every reset (turn 0) and step with (task, turn) and
    may raise `WorldError`.
    """

    def __init__(self, *, fault: Callable[[Task, int], None] | None = None) -> None:
        self._fault = fault
        self._task = Task("", "")
        self._seed = self._turn = self._round = 0
        self.closed = False

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self._task, self._seed, self._turn, self._round = task, seed, 0, 0
        self._maybe_break()
        return self._observe()

    async def step(self, action: str) -> Transition:
        self._turn += 1
        self._maybe_break()
        await asyncio.sleep(0)
        pressed = _PRESS.match(action)
        if pressed is None:
            error = "cannot read this action; write press 'NAME'"
            return self._transition(False, {"error": error, "category": "parse_error"}, error)
        if pressed[1] not in _BUTTON.findall(self._observe().text):
            error = f"there is no button '{pressed[1]}'"
            return self._transition(False, {"error": error, "category": "action_failed"}, error)
        if pressed[1] != self._target:
            return self._transition(True, {"category": "wrong_action"})
        self._round += 1
        return self._transition(self._round == self._rounds, {})

    async def close(self) -> None:
        self.closed = True

    @property
    def _rounds(self) -> int:
        return int(self._task.data["rounds"])

    @property
    def _target(self) -> str:
        return str(self._task.data["target"])

    def _transition(self, done: bool, info: Mapping[str, Any], error: str = "") -> Transition:
        share = self._round / self._rounds
        observation = self._observe(error)
        return Transition(
            observation, share, done, success=share == 1.0, components={"pages": share}, info=info
        )

    def _observe(self, error: str = "") -> Observation:
        names = list(_WORDS[self._task.group])
        random.Random(derive_seed(self._task.seed, self._seed, self._round)).shuffle(names)
        names = names[:4]
        if self._target not in names:
            names[self._task.seed % 4] = self._target
        text = "\n".join(f"button '{name}'" for name in names)
        return Observation(text, goal=self._task.goal, error=error)

    def _maybe_break(self) -> None:
        if self._fault is not None:
            self._fault(self._task, self._turn)


class ToyPool:
    """At most `size` toy environments at once; `in_use` and `most` (the most ever in use) are there for tests."""

    def __init__(self, size: int, *, fault: Callable[[Task, int], None] | None = None) -> None:
        self.size = size
        self.in_use = 0
        self.most = 0
        self._fault = fault
        self._free = asyncio.Semaphore(size)

    async def acquire(self, task: Task) -> Environment:
        await self._free.acquire()
        self.in_use += 1
        self.most = max(self.most, self.in_use)
        return ToyEnvironment(fault=self._fault)

    async def release(self, environment: Environment) -> None:
        await environment.close()
        self.in_use -= 1
        self._free.release()

    async def close(self) -> None:
        return None


class ToyTaskSet:
    """Tasks "Press the button 'NAME'." of three kinds; see `ToyEnvironment`.

    Splits have `train`, `dev` and `test` tasks, which share no instance; `rounds` pages a task; `fault` as there.
    """

    name = "toy"

    def __init__(
        self,
        *,
        train: int = 12,
        dev: int = 6,
        test: int = 12,
        rounds: int = 1,
        fault: Callable[[Task, int], None] | None = None,
    ) -> None:
        self._sizes = {"train": train, "dev": dev, "test": test}
        self._rounds = rounds
        self._fault = fault

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self._sizes:
            raise WorldError(f"there is no split {split!r}", hint=f"splits: {', '.join(self._sizes)}")
        return [self._task(split, number) for number in range(self._sizes[split])]

    def pool(self, size: int) -> ToyPool:
        return ToyPool(size, fault=self._fault)

    def _task(self, split: str, number: int) -> Task:
        group = _GROUPS[number % len(_GROUPS)]
        seed = derive_seed("toy", split, number)
        target = _WORDS[group][seed % len(_WORDS[group])]
        return Task(
            id=f"{split}-{number}",
            goal=f"Press the button '{target}'.",
            seed=seed,
            group=group,
            data={"target": target, "rounds": self._rounds},
        )


def toy_tasks(**options: Any) -> ToyTaskSet:
    """`ToyTaskSet(**options)`, in the form an experiment file names: `set = "coevo.testing:toy_tasks"`."""
    return ToyTaskSet(**options)


def toy_engine(model_id: str = "", **options: Any) -> FakeEngine:
    """A `FakeEngine` that plays the toy world, in the form an experiment file names: `engine = "coevo.testing:toy_engine"`.

    Called as `load_engine` is; model and options change nothing.
    """
    return FakeEngine()


def toy_graph() -> Any:
    """An agent for the toy world, observe → decide → act until the episode is over.

    An agent file can be one line: `from coevo.testing import toy_graph as graph`.
    """
    from coevo.testing_agent import build

    return build()


def tiny_model() -> Path:
    """Folder of a random Llama of about 50k parameters with a byte-level tokenizer, made once a process (needs torch)."""
    from coevo.testing_models import tiny_model as build

    return build()
