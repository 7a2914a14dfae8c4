"""Worked examples from successful episodes: a page, a task, the action that was right, as short as can be.

An example looks exactly like the turn it prepares for: the lines of the page, `Task: …`, the action. A line above may
say what it shows in general. The page is cut to the element acted on and a few others, but only where the task names
that element or the text to enter, so that nothing outside the cut can change what the right action is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coevo.seeds import derive_seed
from coevo.skill.edits import EXAMPLES, Evidence, Op, ProposedEdit, defects
from coevo.skill.traces import INPUT_VERBS, Element, Move, quote, read_moves, words

if TYPE_CHECKING:
    from coevo.store.queries import EpisodeRecord

_PATTERNS_PER_GROUP = 4


@dataclass(frozen=True, slots=True)
class Pattern:
    """What an example shows, content aside: the kind of task and how the action follows from it."""

    group: str
    verb: str
    named: bool
    after_input: bool

    @property
    def lead(self) -> str:
        if self.verb in ("select", "choose"):
            return (
                "Select the option that the task names:" if self.named else "Select what the task asks for:"
            )
        if self.verb in INPUT_VERBS:
            return "Type the text that the task gives:" if self.named else "Type what the task asks for:"
        if self.verb in ("stop", "answer"):
            return "Stop with the answer:"
        if self.after_input and self.verb in ("click", "press"):
            return "When the fields are filled in, send them:"
        if self.named:
            return f"{self.verb.capitalize()} the element that the task names:"
        return f"{self.verb.capitalize()} what the task asks for:"


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    tokens: int
    pattern: Pattern
    episode: EpisodeRecord


def worked_examples(
    successes: Sequence[EpisodeRecord],
    *,
    need: Callable[[str], float],
    count_tokens: Callable[[str], int],
    max_tokens: int = 80,
    other_lines: int = 2,
    lead: bool = False,
    author: str = "",
) -> list[ProposedEdit]:
    """Edits that add an example, for each kind of task the shortest of each pattern.

    `need(group)` in [0, 1] says how much a kind of task needs help; it is the edit's score, less a little for
    length. `max_tokens` bounds one example, `other_lines` how much of the page it shows besides the element acted on.
    The evidence of an example is one episode for every task in which the same pattern led to success.
    """
    found: dict[Pattern, list[_Candidate]] = defaultdict(list)
    for episode in successes:
        for candidate in _candidates(episode, count_tokens, other_lines, lead):
            found[candidate.pattern].append(candidate)
    edits = []
    for pattern, candidates in found.items():
        behind: dict[str, str] = {}
        for candidate in sorted(candidates, key=lambda c: (c.tokens, c.episode.id)):
            behind.setdefault(candidate.episode.task, candidate.episode.id)
        evidence = tuple(sorted(Evidence(episode, task) for task, episode in behind.items()))
        short = [candidate for candidate in candidates if candidate.tokens <= max_tokens]
        short.sort(key=lambda c: (c.tokens, c.text))
        seen: set[str] = set()
        for candidate in short:
            if candidate.episode.task in seen or len(seen) == _PATTERNS_PER_GROUP:
                continue
            seen.add(candidate.episode.task)
            own = Evidence(candidate.episode.id, candidate.episode.task)
            edits.append(
                ProposedEdit(
                    Op.ADD,
                    EXAMPLES,
                    candidate.text,
                    kind="example",
                    evidence=tuple(sorted({*(e for e in evidence if e.task != own.task), own})),
                    scope=pattern.group,
                    score=round(need(pattern.group) - candidate.tokens / 1000, 6),
                    reason=f"from {own.episode}; the same kind of step succeeded in {len(evidence)} tasks",
                    author=author,
                )
            )
    return sorted(edits, key=lambda edit: (-edit.score, edit.key))


def choose(
    examples: Iterable[ProposedEdit],
    *,
    limit: int,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    skip: Iterable[str] = (),
) -> list[ProposedEdit]:
    """At most `limit` examples within `max_tokens`: every kind of task first, the neediest leading, then the other
    actions of each kind, then more of the same.

    `skip` are keys of examples to leave out.
    """
    skip = frozenset(skip)
    left = [edit for edit in examples if edit.key not in skip]
    chosen: list[ProposedEdit] = []
    shown: dict[tuple[str, str], int] = defaultdict(int)
    kinds: dict[str, int] = defaultdict(int)
    spent = 0
    while len(chosen) < limit:
        left = [edit for edit in left if spent + count_tokens("\n\n" + edit.text) <= max_tokens]
        if not left:
            break
        edit = min(left, key=lambda e: (shown[e.scope, _verb(e)], kinds[e.scope], -e.score, e.key))
        chosen.append(edit)
        left.remove(edit)
        shown[edit.scope, _verb(edit)] += 1
        kinds[edit.scope] += 1
        spent += count_tokens("\n\n" + edit.text)
    return chosen


def _verb(edit: ProposedEdit) -> str:
    return edit.text.rsplit("\n", 1)[-1].split(" ", 1)[0]


def _candidates(
    episode: EpisodeRecord, count_tokens: Callable[[str], int], other_lines: int, lead: bool
) -> Iterable[_Candidate]:
    goal = " ".join(episode.goal.split())
    moves = read_moves(episode)
    for index, move in enumerate(moves):
        action = move.action
        if not action.verb or action.prose or move.error or not move.page or not goal:
            continue
        if action.by and move.element is None:
            continue
        named = _named(move, goal)
        after_input = any(earlier.action.verb in INPUT_VERBS for earlier in moves[:index])
        pattern = Pattern(episode.task_group, action.verb, named, after_input)
        page = (
            _cut(move, other_lines, derive_seed(episode.task, index))
            if named and _unique(move)
            else move.page
        )
        lines = [element.line.strip() for element in page]
        text = "\n".join(([pattern.lead] if lead else []) + [*lines, f"Task: {goal}", _written(move)])
        edit = ProposedEdit(Op.ADD, EXAMPLES, text, kind="example")
        if not defects(edit) and not any(line.startswith("- ") for line in lines):
            yield _Candidate(text, count_tokens(text), pattern, episode)


def _written(move: Move) -> str:
    """The action in its plainest form: by name, in quotes, wherever that means the same."""
    action, element = move.action, move.element
    if element is None or not (_unique(move) and element.name):
        return move.text
    return " ".join(
        [action.verb, quote(element.name), *([quote(action.argument)] if action.argument else [])]
    )


def _named(move: Move, goal: str) -> bool:
    """Whether the task itself names what the action is about."""
    action, element = move.action, move.element
    name = element.name if element is not None else ""
    given = action.argument if action.verb in INPUT_VERBS and action.argument else name or action.argument
    whole = rf"(?<!\w){re.escape(given)}(?!\w)"
    return bool(words(given)) and re.search(whole, goal, re.IGNORECASE) is not None


def _unique(move: Move) -> bool:
    """Whether the element is the only one of its role and name: else its place on the page matters."""
    element = move.element
    alike = [
        other for other in move.page if element and (other.role, other.name) == (element.role, element.name)
    ]
    return len(alike) == 1


def _cut(move: Move, other_lines: int, seed: int) -> tuple[Element, ...]:
    """The element acted on with `other_lines` more lines, in page order.

    Fields that already have a value come along first: they show how far the task is. Of the rest, the elements around
    it, and plain text only where there are too few; `seed` decides how many from above, so that the right element is
    not always in the same place.
    """
    page, element = move.page, move.element
    if element is None:
        return page
    place = page.index(element)
    lively = [i for i, other in enumerate(page) if i != place and other.number and _changed(other)][
        :other_lines
    ]
    room = other_lines - len(lively)
    rest = [i for i in range(len(page)) if i != place and i not in lively]
    if sum(bool(page[i].number) for i in rest) >= room:
        rest = [i for i in rest if page[i].number]
    above, below = [i for i in reversed(rest) if i < place], [i for i in rest if i > place]
    from_above = min(len(above), max(seed % (room + 1), room - len(below)))
    chosen = {place, *lively, *above[:from_above], *below[: room - from_above]}
    return tuple(page[i] for i in sorted(chosen))


def _changed(element: Element) -> bool:
    rest = element.line.rsplit(f"[{element.number}]", 1)[-1]
    return any(mark in rest for mark in ("= ", "checked", "selected"))
