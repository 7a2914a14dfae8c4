"""Analysts turn selected episodes into typed edits. The built-in one counts; it needs no model.

The contrast miner asks of every pair what the failure did that the success did not, from the form of the answer to the
last click of a form. What separates them in more tasks than it misleads becomes a short general rule; successful
episodes become worked examples. All of it is counting over rows: the same rows give the same edits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from coevo.env import Outcome
from coevo.skill.document import SkillDocument, estimate_tokens
from coevo.skill.edits import RULES, Evidence, Op, ProposedEdit, fold
from coevo.skill.examples import worked_examples
from coevo.skill.select import ContrastPair, Selection
from coevo.skill.traces import INPUT_VERBS, Move, parting, read_moves, words

if TYPE_CHECKING:
    from coevo.store.queries import EpisodeRecord

_UNPAIRED_WEIGHT = 0.5  # a failure with nothing to compare with says less than a pair


class Analyst(Protocol):
    """Reads a selection against a frozen skill. Every edit names the episodes of the selection it rests on."""

    @property
    def name(self) -> str:
        """Who the analyst is, as the author of its versions."""
        ...

    async def analyse(self, skill: SkillDocument, selection: Selection) -> list[ProposedEdit]: ...


@dataclass(frozen=True, slots=True)
class _Finding:
    """Something an episode did wrong: the question it belongs to, and the rule that would have helped."""

    topic: str
    rule: str


@dataclass(slots=True)
class _Count:
    """Episodes that speak for a rule and tasks that speak against it."""

    paired: set[Evidence] = field(default_factory=set)
    unpaired: set[Evidence] = field(default_factory=set)
    against: set[str] = field(default_factory=set)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(sorted(self.paired | self.unpaired))

    @property
    def balance(self) -> float:
        paired = {item.task for item in self.paired}
        unpaired = {item.task for item in self.unpaired} - paired
        return len(paired) + _UNPAIRED_WEIGHT * len(unpaired) - len(self.against)


@dataclass(frozen=True, slots=True)
class MinerAnalyst:
    """The contrast miner. Limits are in tokens of `count_tokens` and in lines of a page.

    `lead` puts a general line above each example, for people and for models that read the document as it is; a small
    model may answer with that very line, so it is off by default (see `coevo.skill.prompt`).
    """

    name: str = "miner"
    max_example_tokens: int = 80
    other_lines: int = 2
    lead: bool = False
    count_tokens: Callable[[str], int] = estimate_tokens

    async def analyse(self, skill: SkillDocument, selection: Selection) -> list[ProposedEdit]:
        examples = worked_examples(
            selection.all_successes,
            need=_need(selection),
            count_tokens=self.count_tokens,
            max_tokens=self.max_example_tokens,
            other_lines=self.other_lines,
            lead=self.lead,
            author=self.name,
        )
        return [*self._rules(skill, selection), *examples]

    def _rules(self, skill: SkillDocument, selection: Selection) -> list[ProposedEdit]:
        counts = _count(selection)
        tasks = len(set(selection.tasks.values())) or 1
        topics: dict[str, set[str]] = defaultdict(set)
        for finding in counts:
            topics[finding.topic].add(fold(finding.rule))
        said = {fold(line) for line in skill.body.split("\n")}
        rules = skill.section(RULES)
        existing = {fold(line): line for line in (rules.text.split("\n") if rules else ()) if line.strip()}
        edits = []
        for finding, count in counts.items():
            if count.balance <= 0 or fold(finding.rule) in said:
                continue
            # A standing rule that answers the same question the other way is replaced, not joined by its opposite.
            standing = next(
                (existing[rule] for rule in sorted(topics[finding.topic]) if rule in existing), ""
            )
            edits.append(
                ProposedEdit(
                    Op.REPLACE if standing else Op.ADD,
                    RULES,
                    finding.rule,
                    target=standing,
                    evidence=count.evidence,
                    topic=finding.topic,
                    score=round(count.balance / tasks, 6),
                    reason=f"{len(count.paired)} paired and {len(count.unpaired)} other failures,"
                    f" {len(count.against)} tasks against",
                    author=self.name,
                )
            )
        return sorted(edits, key=lambda edit: edit.rank)


def _need(selection: Selection) -> Callable[[str], float]:
    """The share of a group's tasks in which something failed."""
    seen: dict[str, set[str]] = defaultdict(set)
    failed: dict[str, set[str]] = defaultdict(set)
    for episode in (*selection.all_successes, *selection.all_failures):
        seen[episode.task_group].add(episode.task)
        if episode.outcome == Outcome.FAILURE:
            failed[episode.task_group].add(episode.task)
    return lambda group: len(failed[group]) / max(len(seen[group]), 1)


def _count(selection: Selection) -> dict[_Finding, _Count]:
    shape = _usual_shape(selection.all_successes)
    counts: dict[_Finding, _Count] = defaultdict(_Count)
    for pair in selection.pairs:
        good = _mistakes(pair.success, shape) | _habits(pair.success)
        bad = _mistakes(pair.failure, shape) | _habits(pair.failure)
        for finding in (bad - good) | _between(pair):
            counts[finding].paired.add(Evidence(pair.failure.id, pair.failure.task))
            counts[finding].paired.add(Evidence(pair.success.id, pair.success.task))
        for finding in good - bad:
            counts[finding].against.add(pair.success.task)
    for episode in selection.failures:
        for finding in _mistakes(episode, shape):
            counts[finding].unpaired.add(Evidence(episode.id, episode.task))
    for episode in selection.successes:
        for finding in _mistakes(episode, shape):
            counts[finding].against.add(episode.task)
    return {finding: counts[finding] for finding in sorted(counts, key=lambda f: (f.topic, f.rule))}


def _usual_shape(successes: Iterable[EpisodeRecord]) -> str:
    """The commonest form of a successful action, e.g. `click 'NAME'`; empty when there is none."""
    shapes = Counter(
        move.action.shape
        for episode in successes
        for move in read_moves(episode)
        if move.action.verb and not move.action.prose and not move.error
    )
    return min(shapes, key=lambda shape: (-shapes[shape], shape)) if shapes else ""


def _mistakes(episode: EpisodeRecord, shape: str) -> set[_Finding]:
    """What is wrong whatever the task; it counts without anything to compare with."""
    moves = read_moves(episode)
    found = set()
    if any(move.error and not move.action.verb for move in moves):
        found.add(
            _Finding("format", f"Write one action, in this form: {shape}" if shape else "Write one action.")
        )
    if any(move.action.verb and move.action.prose for move in moves):
        found.add(_Finding("prose", "Write only the action, no other words."))
    for move in moves:
        action = move.action
        if action.by == "name" and move.page and move.element is None:
            if words(action.target) and words(action.target) <= words(episode.goal):
                found.add(
                    _Finding("name", "Copy the name of the element from the page, not the words of the task.")
                )
            else:
                found.add(_Finding("name", "Use only names that stand on the page, letter by letter."))
    if any(one.text == two.text and one.page == two.page for one, two in pairwise(moves)):
        found.add(_Finding("repeat", "Never repeat an action that changed nothing; try another."))
    return found


def _habits(episode: EpisodeRecord) -> set[_Finding]:
    """What is wrong only where the success of the pair does it differently."""
    moves = read_moves(episode)
    found = set()
    ways = {move.action.by for move in moves if any(element.number for element in move.page)}
    if "number" in ways:
        found.add(_Finding("address", "Give the name of the element in quotes, never its number."))
    if "name" in ways:
        found.add(_Finding("address", "Give the number of the element in brackets, not its name."))
    if moves and moves[-1].action.verb == "stop":
        found.add(_Finding("stop", "Do not stop before the task is done."))
    return found


def _between(pair: ContrastPair) -> set[_Finding]:
    """What only the comparison shows, at the point where the two episodes part."""
    good, bad = read_moves(pair.success), read_moves(pair.failure)
    index = parting(good, bad)
    if index is None:
        if len(bad) < len(good):
            return {_missing(good, len(bad))}
        if (good and good[-1].action.verb == "stop") or len(bad) > len(good):
            return {_Finding("stop", "Stop as soon as the task is done.")}
        return set()
    right, wrong = good[index], bad[index]
    found = set()
    if wrong.action.verb == "stop" and right.action.verb in ("click", "press") and _fills(good[:index]):
        found.add(_missing(good, index))
    first = next((element for element in wrong.page if element.number), None)
    if wrong.element is not None and right.element is not None and wrong.element != right.element:
        if wrong.element.role != right.element.role:
            roles = sorted((wrong.element.role, right.element.role))
            rule = f"Act on the {right.element.role}, not on the {wrong.element.role}."
            found.add(_Finding(f"role {' '.join(roles)}", rule))
        elif wrong.element is first:
            found.add(
                _Finding("first", "Do not just take the first element; find the one that the task names.")
            )
    same_field = wrong.action.verb == right.action.verb and wrong.element == right.element
    if same_field and right.action.argument and right.action.argument in pair.success.goal:
        if wrong.action.argument != right.action.argument:
            found.add(_Finding("text", "Enter exactly the text that the task gives, nothing else."))
    elif wrong.action.verb and right.action.verb in INPUT_VERBS and wrong.action.verb == "click":
        found.add(_Finding("fill", "Fill in the fields before you click a button."))
    return found


def _missing(good: tuple[Move, ...], index: int) -> _Finding:
    """The failure went right as far as it went, and left out what the success did next."""
    if good[index].action.verb in ("click", "press") and _fills(good[:index]):
        return _Finding("submit", "When the fields are filled in, click the button that sends them.")
    return _Finding("stop", "Do not stop before the task is done.")


def _fills(moves: Iterable[Move]) -> bool:
    return any(move.action.verb in INPUT_VERBS for move in moves)
