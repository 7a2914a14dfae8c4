"""Merging proposals: the same edit from many episodes is one edit with counted support.

`combine` is associative, commutative and idempotent, so proposals may be combined in batches and levels in any order;
`merge` then settles what only the whole can settle: conflicts, one-offs, and what was turned down before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from coevo.skill.edits import Op, ProposedEdit, fold, union


class Aside(NamedTuple):
    """An edit that is not used now, and why."""

    edit: ProposedEdit
    why: str


@dataclass(frozen=True, slots=True)
class MergeResult:
    """`edits` to apply, best supported first; `aside` keeps the rest; `duplicates` counts proposals that said the
    same as another one."""

    edits: tuple[ProposedEdit, ...]
    aside: tuple[Aside, ...] = ()
    duplicates: int = 0


def combine(edits: Iterable[ProposedEdit]) -> list[ProposedEdit]:
    """One edit for each distinct key, with the evidence of all its copies, best supported first."""
    merged: dict[str, ProposedEdit] = {}
    for edit in edits:
        known = merged.get(edit.key)
        merged[edit.key] = edit if known is None else _both(known, edit)
    unified = (replace(edit, evidence=union(edit.evidence)) for edit in merged.values())
    return sorted(unified, key=lambda edit: edit.rank)


def merge(
    edits: Iterable[ProposedEdit],
    *,
    rejected_hashes: Collection[str] = (),
    min_support: int = 2,
    min_example_support: int = 1,
) -> MergeResult:
    """Settle a set of proposals. The order in which they come does not matter.

    An edit whose key is in `rejected_hashes` is not proposed again. A rule needs `min_support` distinct tasks behind
    it, an example `min_example_support` (it is evidence in itself). Of edits that contradict each other (same topic,
    or same target) the better supported stays.
    """
    edits = list(edits)
    kept: list[ProposedEdit] = []
    aside: list[Aside] = []
    rejected = frozenset(rejected_hashes)
    combined = combine(edits)
    for edit in combined:
        needed = min_example_support if edit.kind == "example" else min_support
        rival = next((other for other in kept if contradicts(edit, other)), None)
        if edit.key in rejected:
            aside.append(Aside(edit, "turned down before"))
        elif edit.support < needed:
            aside.append(Aside(edit, f"support of {edit.support}, {needed} distinct tasks needed"))
        elif rival is not None:
            aside.append(
                Aside(edit, f"contradicts edit {rival.key[:8]}, which {rival.support} tasks support")
            )
        else:
            kept.append(edit)
    return MergeResult(tuple(kept), tuple(aside), len(edits) - len(combined))


def contradicts(one: ProposedEdit, other: ProposedEdit) -> bool:
    """Whether two edits cannot both be meant: the same topic answered differently, the same lines changed in two
    ways, or one taking away what the other brings in."""
    if one.key == other.key or fold(one.section) != fold(other.section):
        return False
    if one.topic and one.topic == other.topic:
        return True
    if one.op is not Op.ADD and other.op is not Op.ADD and fold(one.target) == fold(other.target):
        return True
    return bool(
        (one.target and fold(one.target) == fold(other.text))
        or (other.target and fold(other.target) == fold(one.text))
    )


def _both(one: ProposedEdit, other: ProposedEdit) -> ProposedEdit:
    """Two copies of an edit as one. Every field is chosen by a rule that does not know which came first."""
    first, second = sorted((one, other), key=_wording)
    return replace(
        first,
        evidence=union((*first.evidence, *second.evidence)),
        topic=min(filter(None, (first.topic, second.topic)), default=""),
        scope=min(filter(None, (first.scope, second.scope)), default=""),
        score=max(first.score, second.score),
        reason=min(filter(None, (first.reason, second.reason)), default=""),
        author=min(filter(None, (first.author, second.author)), default=""),
        calls=tuple(sorted({*first.calls, *second.calls})),
    )


def _wording(edit: ProposedEdit) -> tuple[str, ...]:
    return (edit.kind, edit.section, edit.text, edit.target)
