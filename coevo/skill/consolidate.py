"""Merging what many calls proposed: a model says which proposals mean the same, code counts who stands behind them.

Level by level, a few proposals at a time and the batches of a level side by side, until a level changes nothing. The model
only names groups and conflicts: evidence is united by code, no proposal can appear that nobody made, and a merge that
fails leaves its proposals as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from coevo.skill.author import side_by_side
from coevo.skill.edits import Op, ProposedEdit, defects, fold, union
from coevo.skill.merge import combine
from coevo.skill.replies import merge_grammar, read_merge

if TYPE_CHECKING:
    from coevo.skill.author import Author

BATCH = 5
_LEVELS = 6

SYSTEM = """You tidy up proposals for a skill document. Several readers, who did not know of each other, proposed edits.
Find proposals that mean the same, although in other words, and proposals that cannot both be followed.

- Put into one group only what really is the same advice. Different advice stays apart.
- Word a group as its clearest member does: one sentence, general, no longer than the longest of them.
- Proposals that stand alone are not mentioned.

Answer with one JSON object and nothing else:
{"groups": [{"ids": [1, 3], "text": "the common wording"}], "conflicts": [[2, 4]]}"""


async def consolidate(
    edits: Iterable[ProposedEdit], author: Author, *, batch: int = BATCH
) -> tuple[list[ProposedEdit], list[str]]:
    """Merged edits, best supported first, and what went wrong on the way."""
    merged, problems = combine(edits), []
    size = batch
    for _ in range(_LEVELS):
        if len(merged) < 2:
            break
        ordered = sorted(
            merged, key=lambda edit: (fold(edit.section), edit.op, fold(edit.target), fold(edit.text))
        )
        batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        results = await side_by_side(_merge_batch(part, author) for part in batches)
        problems += [problem for _, problem in results if problem]
        after = combine(edit for part, _ in results for edit in part)
        if len(after) == len(merged) and len(batches) == 1:
            merged = after
            break
        if len(after) == len(merged):  # nothing in common within the batches: look at more at a time
            size *= batch
        merged = after
    return merged, problems


async def _merge_batch(edits: Sequence[ProposedEdit], author: Author) -> tuple[list[ProposedEdit], str]:
    if len(edits) < 2:
        return list(edits), ""
    lines = [f"{number}. {_shown(edit)}" for number, edit in enumerate(edits, 1)]
    answer = await author.ask(
        "merge",
        SYSTEM,
        "\n".join(lines),
        partial(read_merge, count=len(edits)),
        grammar=merge_grammar([edit.text or edit.target for edit in edits]),
    )
    if answer.value is None:
        return list(edits), answer.problem
    groups, conflicts = answer.value
    kept = list(edits)
    for ids in conflicts:
        if len({(fold(kept[i].section)) for i in ids}) == 1:
            topic = min(kept[i].topic or f"conflict {kept[i].key[:8]}" for i in ids)
            for i in ids:
                kept[i] = replace(kept[i], topic=topic)
    gone: set[int] = set()
    merged = []
    for ids, text in groups:
        members = [kept[i] for i in ids]
        united = _unite(members, text, answer.calls)
        if united is not None:
            merged.append(united)
            gone |= set(ids)
    return [*merged, *(edit for i, edit in enumerate(kept) if i not in gone)], ""


def _unite(members: Sequence[ProposedEdit], text: str, calls: tuple[str, ...]) -> ProposedEdit | None:
    """One edit with everybody's evidence, or None where the members do not ask for one and the same change."""
    first = min(members, key=lambda edit: edit.rank)
    if any(
        (m.op, fold(m.section), fold(m.target)) != (first.op, fold(first.section), fold(first.target))
        for m in members
    ):
        return None
    united = replace(
        first,
        text=text if first.op in (Op.ADD, Op.REPLACE) else first.text,
        evidence=union(item for member in members for item in member.evidence),
        score=max(member.score for member in members),
        reason=f"{len(members)} proposals agree; {first.reason}",
        calls=tuple(sorted({*calls, *(key for member in members for key in member.calls)})),
    )
    return None if defects(united) else united


def _shown(edit: ProposedEdit) -> str:
    what = {
        "add": f"add: {edit.text}",
        "replace": f"replace {edit.target!r} by: {edit.text}",
        "delete": f"delete: {edit.target}",
        "move": f"move to {edit.text}: {edit.target}",
    }
    return f"[{edit.section}; {edit.support} tasks] {what[edit.op.value]}"
