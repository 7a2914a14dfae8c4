"""Task literals: names, numbers and answers of single tasks, which must not pass as rules.

A rule that carries them is memory, not skill: it helps on the tasks it was learned from and misleads elsewhere. The
scan is deterministic and stands between every analyst and the document. Worked examples are exempt: they are shown as
what they are, and come from training tasks only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from coevo.skill.traces import quoted, read_moves

if TYPE_CHECKING:
    from coevo.store.queries import EpisodeRecord

_INTERFACE_GROUPS = (
    3  # a name seen in this many kinds of task ("Submit") belongs to interfaces, not to a task
)
_NUMBERISH = re.compile(r"\S*\d\S*")


def task_literals(episodes: Iterable[EpisodeRecord]) -> frozenset[str]:
    """What stands in quotes in the goals, what was acted on or typed, words with digits, and the task ids."""
    groups: dict[str, set[str]] = defaultdict(set)
    ids: set[str] = set()
    for episode in episodes:
        ids.add(episode.task)
        found = {*quoted(episode.goal), *_NUMBERISH.findall(episode.goal)}
        for move in read_moves(episode):
            found |= {move.action.target if move.action.by == "name" else "", move.action.argument}
        for literal in found:
            if text := literal.strip(" .,;:!?'\"()"):
                groups[text].add(episode.task_group or episode.task)
    return frozenset(ids | {text for text, seen in groups.items() if len(seen) < _INTERFACE_GROUPS})


def leaked(rule: str, literals: Iterable[str]) -> str:
    """The first task literal that `rule` carries; empty when it carries none.

    A literal of several words, or with a digit, counts wherever it stands and in any case; a single word only as it
    is written (so that a button named "Do" forbids no sentence with "do") and from three letters on, in quotes
    however short it is.
    """
    in_quotes = {text.strip() for text in quoted(rule)}
    for literal in sorted(set(literals)):
        if literal.strip() in in_quotes:
            return literal
        telling = len(literal.split()) > 1 or any(char.isdigit() for char in literal)
        if not telling and len(literal) < 3:
            continue
        flags = re.IGNORECASE if telling else 0
        if re.search(rf"(?<!\w){re.escape(literal)}(?!\w)", rule, flags):
            return literal
    return ""
