"""Typed edits: what an analyst may propose, with the episodes that speak for it.

An edit is plain data. Its `key` is a hash of what it would change, so that the same proposal is recognised in other
words of spacing and case, and its support is counted from its evidence, never claimed.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from coevo.skill.document import REFERENCE, open_fence, outline, unprintable

RULES = "Rules"
EXAMPLES = "Examples"

Kind = Literal["rule", "example"]

_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_UNDERLINE = re.compile(r"^ {0,3}(?:-{3,}|={3,})\s*$")


class Op(StrEnum):
    """What an edit does to a section: add a block at its end, replace an existing block, delete one, or move one to a
    reference file, which is not in every prompt."""

    ADD = "add"
    REPLACE = "replace"
    DELETE = "delete"
    MOVE = "move"


@dataclass(frozen=True, slots=True, order=True)
class Evidence:
    """An episode that speaks for an edit, and its task."""

    episode: str
    task: str


@dataclass(frozen=True, slots=True)
class ProposedEdit:
    """One change to one section.

    `text` is the new block (add, replace) or the reference file (move), `target` the exact lines it concerns (replace, delete,
    move). A rule is a single
    paragraph that states something in general; an example is a block copied from an episode. `topic` names the
    question an edit answers: two different edits of a section with the same topic contradict each other. `score` is
    the analyst's own measure of worth (larger is better), `scope` the task group an example comes from, `calls` the keys of
    the author's calls behind it (see `coevo.skill.author`).
    """

    op: Op
    section: str
    text: str = ""
    target: str = ""
    kind: Kind = "rule"
    evidence: tuple[Evidence, ...] = ()
    topic: str = ""
    scope: str = ""
    score: float = 0.0
    reason: str = ""
    author: str = ""
    calls: tuple[str, ...] = ()

    @property
    def tasks(self) -> frozenset[str]:
        """The distinct tasks behind the edit: repeats of one task are one piece of evidence."""
        return frozenset(item.task for item in self.evidence)

    @property
    def support(self) -> int:
        return len(self.tasks)

    @property
    def key(self) -> str:
        """Identity of the change, 32 hex digits: the operation, its section, and its texts up to spacing and case."""
        parts = (self.op.value, fold(self.section), fold(self.text), fold(self.target))
        return hashlib.blake2b("\x1f".join(parts).encode(errors="replace"), digest_size=16).hexdigest()

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sort key: best supported first, then the analyst's score, then the hash (never the order of arrival)."""
        return (-self.support, -self.score, self.key)


def fold(text: str) -> str:
    """`text` as compared with others: Unicode form, case, spacing, list marks and a final full stop put aside."""
    lines = (_BULLET.sub("", line) for line in unicodedata.normalize("NFKC", text).split("\n"))
    return " ".join(" ".join(lines).split()).casefold().rstrip(".")


def defects(edit: ProposedEdit) -> list[str]:
    """Why `edit` can never be applied, whatever the document: it would break the file or is incomplete.

    Texts must not carry headings, rules of dashes (they make headings or look like front matter), open code fences,
    comments that swallow what follows, or control characters.
    """
    found = []
    if edit.op is not Op.DELETE and not edit.text.strip():
        found.append("no text")
    if edit.op is not Op.ADD and not edit.target.strip():
        found.append("no target")
    if edit.op is Op.ADD and edit.target:
        found.append("an added block has no target")
    if edit.op is Op.DELETE and edit.text:
        found.append("a deletion has no text")
    if edit.op is Op.MOVE and not REFERENCE.fullmatch(edit.text):
        found.append("a block moves to references/NAME.md (lower-case letters, digits, hyphens)")
    if _bad_heading(edit.section):
        found.append("the section must be a heading of at most 80 characters, without '#'")
    if unprintable(edit.text) or unprintable(edit.target) or unprintable(edit.section):
        found.append("control characters")
    if outline(edit.text):
        found.append("a heading in the text")
    if any(_UNDERLINE.match(line) for line in edit.text.split("\n")):
        found.append("a line of dashes in the text")
    if open_fence(edit.text):
        found.append("an open code fence")
    if "<!--" in edit.text:
        found.append("a comment in the text")
    return found


def union(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Distinct evidence in a fixed order."""
    return tuple(sorted(set(evidence)))


def _bad_heading(heading: str) -> bool:
    return (
        "\n" in heading
        or len(heading) > 80
        or heading != heading.strip()
        or "#" in heading
        or (heading != "" and not fold(heading))
    )
