"""Applying edits: code, not a language model, changes a skill, and says of every edit what became of it.

The result does not depend on the order in which edits arrive, applying twice changes nothing more, the document stays
valid and within its budgets. An edit that does not match is reported, never appended somewhere instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from coevo.skill.document import Budgets, Section, SkillDocument
from coevo.skill.edits import Op, ProposedEdit, defects, fold
from coevo.skill.merge import combine

_ORDER = {Op.DELETE: 0, Op.REPLACE: 1, Op.MOVE: 2, Op.ADD: 3}
POINTERS = "References"


class EditStatus(StrEnum):
    """What became of an edit."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    """The document already says so."""
    NOT_FOUND = "not_found"
    """The section or the target is not there, or the target is there more than once."""
    OVER_BUDGET = "over_budget"
    REFUSED = "refused"
    """It would break the document, or another edit of the same set asks for the opposite."""


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    edit: ProposedEdit
    status: EditStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The new document (the old one when nothing applied) and one status an edit, in the order of application."""

    document: SkillDocument
    statuses: tuple[AppliedEdit, ...]

    @property
    def applied(self) -> tuple[ProposedEdit, ...]:
        return tuple(status.edit for status in self.statuses if status.status is EditStatus.APPLIED)


def apply_edits(
    document: SkillDocument, edits: Iterable[ProposedEdit], budgets: Budgets | None = None
) -> ApplyResult:
    """Apply `edits` to `document`: deletions, then replacements, moves and additions, the best supported first.

    A document that already exceeds `budgets` only takes edits that make it no longer.
    """
    budgets = budgets or Budgets()
    ordered = sorted(combine(edits), key=lambda edit: (_ORDER[edit.op], *edit.rank))
    statuses = []
    for edit in ordered:
        document, status, reason = _apply(document, edit, ordered, budgets)
        statuses.append(AppliedEdit(edit, status, reason))
    return ApplyResult(document, tuple(statuses))


def blocks(text: str) -> list[str]:
    """The blocks of a section: what blank lines separate, with every item of a list a block of its own."""
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if not line.strip():
            found.append([])
        elif line.startswith("- "):
            found.append([line])
        else:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found if lines]


def _apply(
    document: SkillDocument, edit: ProposedEdit, edits: list[ProposedEdit], budgets: Budgets
) -> tuple[SkillDocument, EditStatus, str]:
    if found := defects(edit):
        return document, EditStatus.REFUSED, "; ".join(found)
    if opposite := _opposite(edit, edits):
        return document, EditStatus.REFUSED, f"edit {opposite.key[:8]} asks for the opposite"
    sections = list(document.sections)
    index = next((i for i, section in enumerate(sections) if _is(section, edit.section)), None)
    text = sections[index].text if index is not None else ""
    if edit.op is Op.ADD:
        if _find(text, _block(edit)):
            return document, EditStatus.DUPLICATE, "the section already has this text"
        changed = _append(text, _block(edit))
    else:
        places = _find(text, edit.target)
        if len(places) != 1:
            if edit.op is Op.REPLACE and not places and _find(text, _block(edit)):
                return document, EditStatus.DUPLICATE, "the section already has the new text"
            reason = f"the target is there {len(places)} times" if places else "the section has no such text"
            return (
                document,
                EditStatus.NOT_FOUND,
                reason if index is not None else f"no section {edit.section!r}",
            )
        gone = edit.op in (Op.DELETE, Op.MOVE)
        new = "" if gone or _find(text, _block(edit)) else _block(edit)
        changed = _splice(text, places[0], len(_lines(edit.target)), new)
    candidate = document.with_sections(_place(sections, index, edit.section, changed))
    if edit.op is Op.MOVE:
        candidate = _moved(candidate, edit)
    if (excess := budgets.excess(candidate.body)) and not _shorter(candidate.body, document.body, budgets):
        return document, EditStatus.OVER_BUDGET, excess
    if candidate.problems():
        return document, EditStatus.REFUSED, "; ".join(candidate.problems())
    return candidate, EditStatus.APPLIED, ""


def pointer(path: str) -> str:
    """The line of the body that leads to a reference file."""
    title = path.removeprefix("references/").removesuffix(".md").replace("-", " ")
    return f"- [{title[:1].upper()}{title[1:]}]({path})"


def _moved(document: SkillDocument, edit: ProposedEdit) -> SkillDocument:
    """The block of a move at the end of its reference file, and a line in the body that leads there."""
    block = "\n".join(_lines(edit.target))
    known = document.references.get(edit.text, "")
    if not _find(known, block):
        known = _append(known, block)
    document = replace(document, references={**document.references, edit.text: known})
    sections = list(document.sections)
    index = next((i for i, section in enumerate(sections) if _is(section, POINTERS)), None)
    text = sections[index].text if index is not None else ""
    if _find(text, pointer(edit.text)):
        return document
    return document.with_sections(_place(sections, index, POINTERS, _append(text, pointer(edit.text))))


def _opposite(edit: ProposedEdit, edits: list[ProposedEdit]) -> ProposedEdit | None:
    """An edit that takes away what `edit` brings in (or the other way round): applying both would mean nothing."""
    for other in edits:
        if other is edit or fold(other.section) != fold(edit.section):
            continue
        if edit.text and other.target and fold(edit.text) == fold(other.target):
            return other
        if edit.target and other.text and fold(edit.target) == fold(other.text):
            return other
        if (
            edit.target
            and other.target
            and other.op is not Op.ADD
            and fold(edit.target) == fold(other.target)
        ):
            return other if other.rank < edit.rank else None
    return None


def _is(section: Section, heading: str) -> bool:
    return fold(section.heading) == fold(heading) if heading else section.level == 0


def _block(edit: ProposedEdit) -> str:
    """The block as it stands in the document: a rule is a list item, an example is left as it is."""
    text = "\n".join(_lines(edit.text))
    if edit.kind == "rule" and not text.startswith("- "):
        return "- " + "\n  ".join(line.strip() for line in text.split("\n"))
    return text


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _find(text: str, target: str) -> list[int]:
    """Line numbers at which `target` stands in `text` as whole lines."""
    wanted, lines = _lines(target), [line.rstrip() for line in text.split("\n")]
    bare = ["- " + wanted[0], *wanted[1:]]
    spans = (range(len(lines) - len(wanted) + 1)) if wanted else ()
    return [start for start in spans if lines[start : start + len(wanted)] in (wanted, bare)]


def _append(text: str, block: str) -> str:
    if not text:
        return block
    items = block.startswith("- ") and text.split("\n")[-1].startswith(("- ", "  "))
    return f"{text}\n{block}" if items else f"{text}\n\n{block}"


def _splice(text: str, start: int, length: int, block: str) -> str:
    lines = text.split("\n")
    before, after = lines[:start], lines[start + length :]
    if not block and before and after and not before[-1].strip() and not after[0].strip():
        after = after[1:]
    return "\n".join([*before, *([block] if block else []), *after])


def _place(sections: list[Section], index: int | None, heading: str, text: str) -> list[Section]:
    """`sections` with `text` in place `index`; a new section goes to the end, an emptied one goes away."""
    if index is None:
        new = Section(heading, 2 if heading else 0, text)
        return [*sections, new] if heading else [new, *sections]
    old = sections[index]
    body = "\n".join(_lines(text))
    kept = [Section(old.heading, old.level, body)] if body else []
    return [*sections[:index], *kept, *sections[index + 1 :]]


def _shorter(new: str, old: str, budgets: Budgets) -> bool:
    """Whether `new` eases a budget that `old` already breaks."""
    return (
        bool(budgets.excess(old))
        and len(new.splitlines()) <= len(old.splitlines())
        and budgets.count_tokens(new) <= budgets.count_tokens(old)
    )
