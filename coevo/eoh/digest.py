"""What many heuristics say together, by counting: which mistakes break code, and which names go with good results.

An analyst that needs no model; name it in an experiment as `skill.analyst = "coevo.eoh.digest:Digest"`.
"""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, variance
from typing import TYPE_CHECKING

from coevo.skill import Evidence, Op, ProposedEdit

if TYPE_CHECKING:
    from coevo.skill import Selection, SkillDocument
    from coevo.store.queries import EpisodeRecord

MISTAKES, IDEAS = "What fails", "What pays"

_FEWEST = 5
"""Heuristics with a name, and without it, before the two are compared."""
_CLEAR = 2.5
"""Standard errors between their mean rewards."""
_RULES = 3
"""Rules of each kind at a time, the clearest first."""

_PLACE = re.compile(r",? \(?line \d+.*$", re.DOTALL)
_DIGITS = re.compile(r"\d[\d.,e+-]*")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_LONGEST = 160


class Digest:
    """The counting analyst of a search."""

    name = "digest"

    async def analyse(self, skill: SkillDocument, selection: Selection) -> list[ProposedEdit]:
        return [*_mistakes(selection.all_failures), *_ideas(selection.all_successes)]


def _mistakes(failures: Sequence[EpisodeRecord]) -> list[ProposedEdit]:
    """The commonest reasons of failure, without the places and numbers of single programs."""
    groups: dict[tuple[str, str], list[EpisodeRecord]] = defaultdict(list)
    for episode in failures:
        said = _DIGITS.sub("…", _PLACE.sub("", episode.error)).strip()[:_LONGEST]
        if said:
            groups[episode.category, said].append(episode)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:_RULES]
    return [
        ProposedEdit(
            Op.ADD,
            MISTAKES,
            f"- Heuristics have failed with: {said.rstrip('.')}. Write nothing that leads there.",
            evidence=_evidence(group),
            score=len(group),
            reason=f"{category} in {len(group)} heuristics",
        )
        for (category, said), group in largest
        if len(group) > 1
    ]


def _ideas(episodes: Sequence[EpisodeRecord]) -> list[ProposedEdit]:
    """Names that separate good valid heuristics from bad ones, whatever else they hold."""
    rewards = {episode.id: episode.reward for episode in episodes if episode.reward is not None}
    using: dict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        if episode.id in rewards:
            for name in names_in(episode):
                using[name].add(episode.id)
    found = []
    for name, ids in using.items():
        having = [rewards[id_] for id_ in ids]
        without = [reward for id_, reward in rewards.items() if id_ not in ids]
        clear = _clearness(having, without)
        if clear is not None and abs(clear) >= _CLEAR:
            found.append((clear, name, ids))
    by_id: Mapping[str, EpisodeRecord] = {episode.id: episode for episode in episodes}
    edits = []
    for clear, name, ids in sorted(found, key=lambda item: (-abs(item[0]), item[1]))[:_RULES]:
        good = clear > 0
        text = (
            f"- Heuristics that use `{name}` have scored {'better' if good else 'worse'} than those without it:"
            f" {'build on it' if good else 'do without it'}."
        )
        edits.append(
            ProposedEdit(
                Op.ADD,
                IDEAS,
                text,
                evidence=_evidence([by_id[id_] for id_ in sorted(ids)]),
                topic=f"use of {name}",
                score=abs(clear),
                reason=f"{len(ids)} of {len(rewards)} heuristics use it; {clear:+.1f} standard errors",
            )
        )
    return edits


def names_in(episode: EpisodeRecord) -> frozenset[str]:
    """The names a heuristic uses: those of its functions and variables that it did not make up itself."""
    text = next((step.action for step in reversed(episode.steps) if step.action), "") or ""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    code = blocks[0] if blocks else text
    try:
        tree = ast.parse(code.strip())
    except (SyntaxError, ValueError, RecursionError):
        return frozenset(_NAME.findall(code) if len(code) < 200 else ())
    made = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    made |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in made:
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}" if node.value.id not in made else f".{node.attr}")
    return frozenset(names)


def _clearness(having: Sequence[float], without: Sequence[float]) -> float | None:
    """Difference of means in standard errors; None where one side is too small or nothing varies."""
    if min(len(having), len(without)) < _FEWEST:
        return None
    error = math.sqrt(variance(having) / len(having) + variance(without) / len(without))
    difference = fmean(having) - fmean(without)
    if error == 0:
        return math.copysign(math.inf, difference) if difference else None
    return difference / error


def _evidence(episodes: Sequence[EpisodeRecord]) -> tuple[Evidence, ...]:
    return tuple(Evidence(episode.id, episode.task) for episode in episodes)
