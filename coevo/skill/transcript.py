"""An episode as an analyst reads it: task, pages cut around what was acted on, actions, errors, how it ended.

No reference answer and no evaluator's reason is in it: an analyst sees what the agent could have seen, and the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coevo.env import Outcome
from coevo.skill.document import estimate_tokens
from coevo.skill.traces import Move, parting, read_moves

if TYPE_CHECKING:
    from coevo.skill.select import ContrastPair
    from coevo.store.queries import EpisodeRecord

_SHOWN_LINES = 12
_FEWEST_LINES = 3


def transcript(
    episode: EpisodeRecord,
    *,
    max_tokens: int = 3000,
    count_tokens: Callable[[str], int] = estimate_tokens,
    first: int = 0,
) -> str:
    """The episode from turn `first` on, within `max_tokens`: pages shrink first, then turns of the middle are left out."""
    moves = read_moves(episode)
    ending = (
        "succeeded" if episode.outcome == Outcome.SUCCESS else f"failed ({episode.category or 'no success'})"
    )
    head = f"Task: {' '.join(episode.goal.split())}"
    tail = f"The episode {ending} after {len(moves)} actions."
    lines = _SHOWN_LINES
    while True:
        turns = [_turn(index + 1, move, lines) for index, move in enumerate(moves)][first:]
        text = "\n\n".join(
            [head, *([f"({first} turns before this are the same)"] if first else []), *turns, tail]
        )
        if count_tokens(text) <= max_tokens:
            return text
        if lines > _FEWEST_LINES:
            lines = max(_FEWEST_LINES, lines // 2)
            continue
        break
    kept = turns
    while len(kept) > 2 and count_tokens("\n\n".join([head, *kept, tail])) > max_tokens:
        middle = len(kept) // 2
        kept = [*kept[:middle], *kept[middle + 1 :]]
    gap = f"({len(turns) - len(kept)} turns are left out here)"
    middle = len(kept) // 2
    text = "\n\n".join([head, *kept[:middle], gap, *kept[middle:], tail])
    limit = max_tokens * 4
    return text if count_tokens(text) <= max_tokens else text[: limit // 2] + "\n[…]\n" + text[-limit // 2 :]


def contrast(pair: ContrastPair, *, max_tokens: int = 4000) -> str:
    """Both episodes of a pair; turns they share are shown once."""
    good, bad = read_moves(pair.success), read_moves(pair.failure)
    where = parting(good, bad)
    shared = min(len(good), len(bad)) if where is None else where
    first = max(0, shared - 1)
    half = max_tokens // 2
    return (
        f"=== the episode that succeeded ===\n{transcript(pair.success, max_tokens=half, first=first)}\n\n"
        f"=== the episode that failed (same task, same page, same skill) ===\n"
        f"{transcript(pair.failure, max_tokens=half, first=first)}"
    )


def _turn(number: int, move: Move, lines: int) -> str:
    shown = [f"Turn {number}. The page:", *_cut(move, lines), f"Action: {move.text[:300]}"]
    if move.error:
        shown.append(f"Error: {move.error[:300]}")
    return "\n".join(shown)


def _cut(move: Move, lines: int) -> list[str]:
    """`lines` lines of the page, around the element acted on, else from the top."""
    page = move.page
    if len(page) <= lines:
        return [element.line[:200] for element in page]
    centre = page.index(move.element) if move.element is not None else 0
    start = max(0, min(centre - lines // 2, len(page) - lines))
    cut = [element.line[:200] for element in page[start : start + lines]]
    return (
        [f"[{start} lines above] …"] * bool(start)
        + cut
        + ([f"… [{len(page) - start - lines} lines below]"] if start + lines < len(page) else [])
    )
