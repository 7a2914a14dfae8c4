"""Contrast pairs against unpaired selection: what a call of an analyst is worth when it sees the one or the other.

    python benchmarks/distiller.py [--json] [--calls 4,8,16] [--seeds 40] [--author scripted]

An ES population plays a toy world whose law differs from seed to seed: besides pressing the right button, every press has
six habits with two options each (slowly or quickly, left or right …), and two of the six decide. Nothing but the
episodes tells which. Over a few looks, each selection gives the same number of pieces of evidence from the same
kind of rollouts to the same analyst, one call a piece; merging, applying and the gate are coevo's own.

    contrast   `coevo.skill.select`: a success and a failure that differ only in the perturbation, one call for both
    unpaired   at most one shortest success and one longest failure a task, one call each (Trace2Skill's rule)

The scripted analyst reads the very text a language model would get. Shown a pair it names one of the habits in which the
two differ, at random; shown one episode it names any habit, in favour of a success and against a failure. It says nothing
about a failure it can explain by the wrong button. `--author openai:MODEL` asks a real one, `--author policy` the
local model (`--model`).

What this shows: with evidence of which an analyst can only say what it sees, pairs need fewer calls for the same gain,
because common random numbers leave few differences between two members, and the cause is always among them. The
advantage shrinks where calls are plenty, since counting support sorts out guesses, too; and once both rules are found,
further candidates can only be turned down, which lowers the acceptance rate of whoever was quicker. What it
cannot show: how much that is on real tasks. There a failure often explains itself (an error message, a wrong page), a
good author brings knowledge of its own, and both favour single episodes; long episodes part in many places, which
blurs a pair. Idle rules cost nothing here, in a real prompt they do. With the scripted analyst the size of the
advantage follows from the number of habits and from σ (`--sigma`): the larger σ, the more two members differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from coevo.engine.base import Perturbation, Request, Sampling
from coevo.env import Outcome, Task, Transition
from coevo.loop.authors import load_author
from coevo.seeds import derive_seed
from coevo.skill import Selection, SkillDocument, compose, decide, select
from coevo.skill.author import Author, Limits, MemoryLog
from coevo.skill.llm import LlmAnalyst
from coevo.stats import bootstrap, quantile
from coevo.store.queries import EpisodeRecord, StepRecord
from coevo.tables import AuthorTable
from coevo.testing import FakeEngine, ToyEnvironment, ToyTaskSet

HABITS = {
    "pace": ("slowly", "quickly"),
    "side": ("left", "right"),
    "force": ("firmly", "lightly"),
    "tone": ("aloud", "silently"),
    "hand": ("upwards", "downwards"),
    "time": ("early", "late"),
}
"""What a press has besides its button; of each habit one option is in every action."""

CAUSES = 2
MEMBERS, TRAIN_TASKS, DEV_TASKS, TEST_TASKS = 16, 16, 32, 60
FOLLOWS, SKILFUL = 3.0, 1.5
"""Scores (logits) by which a rule moves a habit, and by which the right button is found."""

SEED_SKILL = SkillDocument("desk", "How to press buttons at the desk.", "Press the button the task names.")
TASKS = ToyTaskSet(train=48, dev=DEV_TASKS, test=TEST_TASKS)
_ACTION = re.compile(r"press '([^']+)'((?: \w+)*)")
_NEGATED = re.compile(r"\b(?:not|never|avoid|don't|instead of)\b", re.IGNORECASE)

Law = Mapping[str, str]
"""Deciding habit → the option that works."""


# --- the world and its agents


def draw_law(seed: int) -> Law:
    draw = random.Random(derive_seed("law", seed))
    return {habit: draw.choice(HABITS[habit]) for habit in sorted(draw.sample(sorted(HABITS), CAUSES))}


class Desk(ToyEnvironment):
    """One press: right if the button and all deciding habits are. It says nothing about why not."""

    def __init__(self, law: Law) -> None:
        super().__init__()
        self._law = law

    async def step(self, action: str) -> Transition:
        found = _ACTION.fullmatch(action)
        words = set(found[2].split()) if found else set()
        right = found is not None and found[1] == self._target and set(self._law.values()) <= words
        return Transition(self._observe(), float(right), True, success=right)


def told(option: str, other: str, document: str) -> int:
    """1 when a rule asks for `option`, −1 when for `other`, 0 when none does or they cancel out."""
    balance = 0
    for line in document.split("\n"):
        names = {word.lower() for word in re.findall(r"\w+", line)} if line.startswith("- ") else set()
        if (option in names) != (other in names):
            balance += (1 if option in names else -1) * (-1 if _NEGATED.search(line) else 1)
    return (balance > 0) - (balance < 0)


def answer(request: Request, theta: Sequence[float]) -> str:
    """A press by chance, θ and the skill's rules. Chance comes from seed and messages, so all members share it."""
    system, seen = (str(message["content"]) for message in request.messages)
    goal = re.findall(r"Press the button '([^']+)'", seen)[-1]
    draw = random.Random(derive_seed(request.sampling.seed, system, seen))
    right = draw.random() < _logistic(SKILFUL + theta[-1])
    others = [name for name in re.findall(r"^button '([^']+)'", seen, re.M) if name != goal]
    words = [
        one if draw.random() < _logistic(score + FOLLOWS * told(one, other, system)) else other
        for (one, other), score in zip(HABITS.values(), theta, strict=False)
    ]
    return f"press '{goal if right else draw.choice(others)}' {' '.join(words)}"


def _logistic(score: float) -> float:
    return 1 / (1 + math.exp(-score))


@dataclass(frozen=True, slots=True)
class World:
    """A law, and the engine that plays under it."""

    law: Law
    engine: FakeEngine
    seed: int

    async def play(
        self, task: Task, body: str, place: str, member: int | None = None, noise: Perturbation | None = None
    ) -> EpisodeRecord:
        """One episode; `place` (look, phase) decides the seeds together with the task."""
        seed = derive_seed(self.seed, place, task.id)
        environment = Desk(self.law)
        page = await environment.reset(task, seed=seed)
        messages = (
            {"role": "system", "content": body},
            {"role": "user", "content": f"{page.text}\n\nTask: {page.goal}"},
        )
        request = Request(messages, Sampling(seed=derive_seed(seed, "call")), noise)
        said = (await self.engine.complete(request)).text
        done = await environment.step(said)
        return EpisodeRecord(
            id=f"{derive_seed(seed, member, body):016x}",
            run="benchmark",
            phase=place.split()[0],
            generation=0,
            member=member,
            arm=None,
            task=task.id,
            task_group=task.group,
            goal=page.goal,
            seed=seed,
            attempt=0,
            skill_version="current",
            weights_step=0,
            perturbation_seed=noise.seed if noise else None,
            outcome=Outcome.SUCCESS if done.success else Outcome.FAILURE,
            reward=done.reward,
            category="" if done.success else "wrong_action",
            turns=1,
            steps=(
                StepRecord(0, None, page.text, "", None, False),
                StepRecord(1, said, done.observation.text, "", done.reward, True),
            ),
        )

    async def rollouts(self, body: str, look: int, sigma: float) -> list[EpisodeRecord]:
        """A population on the look's tasks: antithetic pairs, everybody with the same seeds."""
        tasks = TASKS.tasks("train")
        first = look * TRAIN_TASKS
        chosen = [tasks[(first + index) % len(tasks)] for index in range(TRAIN_TASKS)]
        return [
            await self.play(task, body, f"rollout {look}", member, noise)
            for task in chosen
            for member in range(MEMBERS)
            for noise in [
                Perturbation(derive_seed(self.seed, look, member // 2), -sigma if member % 2 else sigma)
            ]
        ]

    async def rewards(self, body: str, split: str, place: str) -> dict[tuple[str, int], float | None]:
        episodes = [await self.play(task, body, place) for task in TASKS.tasks(split)]
        return {(episode.task, episode.seed): episode.reward for episode in episodes}


# --- the two selections


def contrast(episodes: Sequence[EpisodeRecord], calls: int) -> Selection:
    """coevo's selection, cut to `calls` pieces: pairs of different tasks first, then single episodes."""
    found = select(episodes)
    turn: dict[str, int] = defaultdict(int)
    ranked = []
    for pair in found.pairs:
        turn[pair.success.task] += 1
        ranked.append((turn[pair.success.task], pair))
    pairs = [pair for _, pair in sorted(ranked, key=lambda item: (item[0], item[1].failure.id))][:calls]
    return _with_singles(found.successes, found.failures, calls - len(pairs), pairs)


def unpaired(episodes: Sequence[EpisodeRecord], calls: int) -> Selection:
    """At most one shortest success and one longest failure a task, cut to `calls` of them, half of each kind."""
    by_task: dict[str, list[EpisodeRecord]] = defaultdict(list)
    for episode in episodes:
        by_task[episode.task].append(episode)
    successes, failures = [], []
    for _, group in sorted(by_task.items()):
        good = [episode for episode in group if episode.outcome == Outcome.SUCCESS]
        bad = [episode for episode in group if episode.outcome == Outcome.FAILURE]
        successes += sorted(good, key=lambda e: (e.turns, e.id))[:1]
        failures += sorted(bad, key=lambda e: (-e.turns, e.id))[:1]
    return _with_singles(successes, failures, calls, [])


def _with_singles(
    successes: Iterable[EpisodeRecord], failures: Iterable[EpisodeRecord], calls: int, pairs: Any
) -> Selection:
    good, bad = (sorted(group, key=lambda e: e.id) for group in (successes, failures))
    some = min(len(bad), max(calls // 2, calls - len(good)))
    return Selection(tuple(pairs), tuple(good[: max(0, calls - some)]), tuple(bad[: max(0, some)]))


VARIANTS: dict[str, Callable[[Sequence[EpisodeRecord], int], Selection]] = {
    "contrast": contrast,
    "unpaired": unpaired,
}


# --- the scripted analyst


class Reader(BaseChatModel):
    """Answers as an analyst and at merging, from the text it is shown and nothing else."""

    @property
    def _llm_type(self) -> str:
        return "reader"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        system, user = messages[0].text, messages[1].text
        reply = _conflicts(user) if "tidy up" in system else _edit(user)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(json.dumps(reply)))])


def _edit(user: str) -> dict[str, Any]:
    """At most one edit: the habit to blame or to keep, at random among those that the record leaves open."""
    document, record = re.findall(r"<<<\n(.*?)\n>>>", user, re.S)[:2]
    goal = re.findall(r"Press the button '([^']+)'", record)[0]
    acts = [(found[1], found[2].split()) for found in _ACTION.finditer(record)]
    endings = re.findall(r"The episode (succeeded|failed)", record)
    good = [words for (_, words), how in zip(acts, endings, strict=False) if how == "succeeded"]
    bad = [words for (_, words), how in zip(acts, endings, strict=False) if how == "failed"]
    if any(name != goal for name, _ in acts):
        return {"edits": []}
    wanted = []
    for one, other in HABITS.values():
        if good and bad and (one in good[0]) == (one in bad[0]):
            continue
        liked = one in good[0] if good else one not in bad[0]
        option, rest = (one, other) if liked else (other, one)
        if told(option, rest, document) < 1:
            wanted.append((option, rest))
    if not wanted:
        return {"edits": []}
    option, rest = random.Random(derive_seed("reader", user)).choice(wanted)
    standing = next((line for line in document.split("\n") if line == f"- Press {rest}."), "")
    edit = {"op": "add", "section": "Rules", "text": f"Press {option}.", "why": "what the record shows"}
    return {"edits": [edit | ({"op": "replace", "target": standing} if standing else {})]}


def _conflicts(listed: str) -> dict[str, Any]:
    """The proposals that ask for both options of a habit."""
    lines = [set(re.findall(r"\w+", line.rpartition("Press")[2])) for line in listed.split("\n")]
    conflicts = []
    for one, other in HABITS.values():
        sides = [[n for n, words in enumerate(lines, 1) if option in words] for option in (one, other)]
        if all(sides):
            conflicts.append(sides[0] + sides[1])
    return {"groups": [], "conflicts": conflicts}


# --- one comparison


@dataclass(frozen=True, slots=True)
class Result:
    """One variant on one seed. `calls` read a piece each; `all_calls` has corrections and merging, too."""

    looks: int
    candidates: int
    accepted: int
    calls: int
    all_calls: int
    gain: float
    right: int
    wrong: int
    idle: int


MakeAuthor = Callable[[], Author]


async def evolve(variant: str, seed: int, calls: int, looks: int, sigma: float, make: MakeAuthor) -> Result:
    """A few looks: rollouts under the current skill, `calls` pieces read, the best candidate gated on dev tasks."""
    world = World(draw_law(seed), FakeEngine(answer, size=len(HABITS) + 1), seed)
    document, rejected = SEED_SKILL, frozenset[str]()
    analyst = LlmAnalyst(make(), examples=False)
    candidates = accepted = pieces = spent = 0
    for look in range(looks):
        selection = VARIANTS[variant](await world.rollouts(document.body, look, sigma), calls)
        edits = await analyst.analyse(document, selection)
        pieces += len(analyst.pieces(selection))
        spent += analyst.author.spent_calls
        proposals = compose(document, selection, edits, rejected=rejected, max_examples=0).proposals
        if not proposals:
            continue
        candidates += 1
        proposal = proposals[0]
        place = f"gate {look}"
        decision = decide(
            await world.rewards(document.body, "dev", place),
            await world.rewards(proposal.document.body, "dev", place),
            seed=seed,
        )
        if decision.accepted:
            accepted += 1
            document = proposal.document
        else:
            rejected |= proposal.if_rejected
    before = await world.rewards(SEED_SKILL.body, "test", "test")
    after = await world.rewards(document.body, "test", "test")
    gain = (_sum(after) - _sum(before)) / len(before)
    return Result(looks, candidates, accepted, pieces, spent, gain, *_rules(document.body, world.law))


def _sum(rewards: Mapping[Any, float | None]) -> float:
    return math.fsum(reward or 0.0 for reward in rewards.values())


def _rules(body: str, law: Law) -> tuple[int, int, int]:
    """Habits that the document settles as the law wants, against it, and without need."""
    right = wrong = idle = 0
    for habit, (one, other) in HABITS.items():
        says = told(one, other, body)
        if says and habit not in law:
            idle += 1
        elif says:
            fits = law[habit] == (one if says > 0 else other)
            right, wrong = right + fits, wrong + (not fits)
    return right, wrong, idle


def ratio(
    tops: Sequence[float], bottoms: Sequence[float], *, resamples: int = 4000
) -> tuple[float, float, float]:
    """Sum of `tops` over sum of `bottoms`, with a 95 % percentile bootstrap interval over seeds."""
    draw, n = random.Random(0), len(tops)
    values = []
    for _ in range(resamples):
        rows = draw.choices(range(n), k=n)
        values.append(sum(tops[row] for row in rows) / max(1e-9, sum(bottoms[row] for row in rows)))
    values.sort()
    return sum(tops) / max(1e-9, sum(bottoms)), quantile(values, 0.025), quantile(values, 0.975)


def summary(results: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Each variant's figures as (value, lower, upper), and the paired difference in gain a call over seeds."""
    table: dict[str, Any] = {}
    for variant, rows in results.items():
        gain = bootstrap([[row.gain for row in rows]])[0]
        table[variant] = {
            "candidates": sum(row.candidates for row in rows),
            "accepted": sum(row.accepted for row in rows),
            "acceptance_rate": ratio([row.accepted for row in rows], [row.candidates for row in rows]),
            "accepted_per_look": ratio([row.accepted for row in rows], [row.looks for row in rows]),
            "gain": (gain.mean, gain.lower, gain.upper),
            "gain_per_call": ratio([row.gain for row in rows], [row.calls for row in rows]),
            "calls": sum(row.calls for row in rows),
            "all_calls": sum(row.all_calls for row in rows),
            "rules": {
                kind: sum(getattr(row, kind) for row in rows) / len(rows)
                for kind in ("right", "wrong", "idle")
            },
        }
    one, other = results["contrast"], results["unpaired"]
    for name, differences in {
        "gain": [a.gain - b.gain for a, b in zip(one, other, strict=True)],
        "gain_per_call": [
            a.gain / max(1, a.calls) - b.gain / max(1, b.calls) for a, b in zip(one, other, strict=True)
        ],
    }.items():
        estimate = bootstrap([differences])[0]
        table.setdefault("difference", {})[name] = (estimate.mean, estimate.lower, estimate.upper)
    return table


async def compare(
    budgets: Collection[int], seeds: int, looks: int, sigma: float, make: MakeAuthor
) -> dict[int, dict[str, Any]]:
    """The summary for every number of calls a look. Both variants meet the same worlds."""
    return {
        calls: summary(
            {
                variant: [await evolve(variant, seed, calls, looks, sigma, make) for seed in range(seeds)]
                for variant in VARIANTS
            }
        )
        for calls in budgets
    }


def scripted() -> Author:
    return Author(lambda seed: Reader(), name="reader", limits=Limits(concurrency=1))


def named(author: str, model: str) -> MakeAuthor:
    """A real author: provider:model of LangChain, or `policy`, the local model `model`."""

    @cache
    def batcher() -> Any:
        from coevo.engine import load_engine
        from coevo.engine.base import NoiseSpec
        from coevo.engine.batcher import Batcher

        return Batcher(load_engine(model, noise=NoiseSpec()))

    async def generate(request: Request) -> Any:
        return await batcher().generate(request)

    make, log = load_author(AuthorTable(model=author)), MemoryLog()
    return lambda: make(log, generate)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--calls", default="4,8,16", help="pieces of evidence read a look, several with commas"
    )
    parser.add_argument("--seeds", type=int, default=40, help="worlds; both selections meet the same")
    parser.add_argument("--looks", type=int, default=3)
    parser.add_argument("--sigma", type=float, default=0.5, help="of the population's noise")
    parser.add_argument("--author", default="scripted", help="`scripted`, `policy` or provider:model")
    parser.add_argument("--model", default="builtin:smollm2-135m", help="the model behind `policy`")
    options = parser.parse_args()
    make = scripted if options.author == "scripted" else named(options.author, options.model)
    budgets = [int(part) for part in options.calls.split(",")]
    found = asyncio.run(compare(budgets, options.seeds, options.looks, options.sigma, make))
    if options.json:
        print(json.dumps({"author": options.author, "seeds": options.seeds, "calls_a_look": found}))
        return
    print(
        f"{options.seeds} worlds, {options.looks} looks, σ = {options.sigma:g}, author {options.author};"
        " [95 % intervals over worlds]"
    )
    print(
        f"{'calls a look':>12}  {'selection':9}  {'accepted / gated':>30}  {'held-out gain':>22}  "
        f"{'gain a call':>26}  rules: right, wrong, idle"
    )
    for calls, table in found.items():
        for variant in VARIANTS:
            row = table[variant]
            rate = f"{row['accepted']} / {row['candidates']} = {_shown(row['acceptance_rate'], 2)}"
            rules = ", ".join(f"{value:.1f}" for value in row["rules"].values())
            print(
                f"{calls:12}  {variant:9}  {rate:>30}  {_shown(row['gain'], 2):>22}  "
                f"{_shown(row['gain_per_call'], 4):>26}  {rules}"
            )
        difference = table["difference"]
        print(
            f"{'':12}  {'difference':9} {'':30}  {_shown(difference['gain'], 2):>22}  "
            f"{_shown(difference['gain_per_call'], 4):>26}"
        )


def _shown(estimate: Sequence[float], digits: int) -> str:
    value, lower, upper = estimate
    return f"{value:.{digits}f} [{lower:.{digits}f}, {upper:.{digits}f}]"


if __name__ == "__main__":
    main()
