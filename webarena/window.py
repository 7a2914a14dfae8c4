"""What fits an agent's context of a large page: the part on the screen, what was just acted on, then what lies nearest.

Everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from webarena.observation import Box, PageView

CONTEXT_LINES = 3
"""Lines kept on both sides of the one last acted on."""
NOTICE_TOKENS = 16
_PIECE = re.compile(r"[A-Za-z]{1,5}|\d{1,3}|[^\W\d_A-Za-z]|[^\w\s]|_")


def estimated_tokens(text: str) -> int:
    """About how many tokens a model reads for `text`, rather too many than too few: one for five letters of a word, for
    three digits, for each sign, each letter outside a to z, and each end of a line."""
    return len(_PIECE.findall(text)) + 1


def fit(view: PageView, *, viewport: tuple[int, int], tokens: int, acted_on: str = "") -> tuple[str, ...]:
    """The lines of `view` that fit into about `tokens`, in page order; `acted_on` is the line last acted on.

    Lines on the screen (`viewport`: width and height in pixels) come first, among them those around `acted_on`; then
    the others, the nearest to the screen first, those below before those above. Each gap says how many lines it has
    and how to see them. Lines of the page that do not fit by themselves are left out, too.
    """
    costs = [estimated_tokens(line) for line in view.lines]
    if sum(costs) <= tokens:
        return view.lines
    places = view.places or (None,) * len(view.lines)
    distances = _distances(places, viewport[1])
    near = _around(view.lines, acted_on)
    order = sorted(range(len(costs)), key=lambda i: (i not in near, abs(distances[i]), distances[i] < 0, i))
    budget = tokens - NOTICE_TOKENS
    kept: list[int] = []
    for index in order:
        if costs[index] <= budget:
            kept.append(index)
            budget -= costs[index]
        elif kept:
            break
    while True:
        lines = _with_notices(view.lines, distances, set(kept))
        if not kept or sum(map(estimated_tokens, lines)) <= tokens:
            return lines
        kept.pop()


def _distances(places: Sequence[Box | None], height: int) -> list[int]:
    """How far below (positive) or above (negative) the screen each line is, pixels; 0 on it. A line without a place is
    where the line before it is."""
    distances: list[int] = []
    for place in places:
        if place is None:
            distances.append(distances[-1] if distances else 0)
            continue
        top, bottom = place[1], place[1] + place[3]
        distances.append(bottom - 1 if bottom <= 0 else max(0, top - height + 1))
    return distances


def _around(lines: Sequence[str], acted_on: str) -> set[int]:
    """Indices of the line acted on, by role and name, and of its neighbours."""
    wanted = _without_state(acted_on)
    if not wanted:
        return set()
    for index, line in enumerate(lines):
        if _without_state(line) == wanted:
            return set(range(max(0, index - CONTEXT_LINES), min(len(lines), index + CONTEXT_LINES + 1)))
    return set()


def _without_state(line: str) -> str:
    """A line up to its id, which with value and state may change from one view to the next."""
    match = re.match(r"(.*?) \[\d+\]", line)
    return match[1] if match else line


def _with_notices(lines: Sequence[str], distances: Sequence[int], kept: set[int]) -> tuple[str, ...]:
    shown: list[str] = []
    missing: list[int] = []

    def notice() -> None:
        if missing:
            above = sum(distances[index] < 0 for index in missing)
            below = sum(distances[index] > 0 for index in missing)
            remedy = "scroll up" if above > below else "scroll down" if below else "too many for one view"
            shown.append(f"… {len(missing)} lines left out: {remedy}")
            missing.clear()

    for index, line in enumerate(lines):
        if index in kept:
            notice()
            shown.append(line)
        else:
            missing.append(index)
    notice()
    return tuple(shown)
