"""What weakens a skill although the specification allows it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from coevo.skill.apply import blocks
from coevo.skill.document import SkillDocument
from coevo.skill.edits import fold

_LINK = re.compile(r"\]\(([^)#\s]+)\)")
_FILE = re.compile(r"(?<![\w./-])(?:\./)?((?:scripts|references|assets)/\w[\w./-]*\w)")
_LONG_RULE = 300


def weaknesses(document: SkillDocument, directory: Path | None = None) -> list[str]:
    """Findings in words: rules said twice, rules that are essays, empty sections, files named that are not in `directory`."""
    found = []
    rules = [
        block for section in document.sections for block in blocks(section.text) if block.startswith("- ")
    ]
    for text, count in Counter(map(fold, rules)).items():
        if count > 1:
            found.append(f"said {count} times: {text[:80]!r}")
    found += [
        f"a rule of {len(rule)} characters: {rule[2:62]!r} …" for rule in rules if len(rule) > _LONG_RULE
    ]
    headings = [section for section in document.sections if section.heading]
    for index, section in enumerate(headings):
        below = headings[index + 1 : index + 2]
        if not section.text and not any(other.level > section.level for other in below):
            found.append(f"section {section.heading!r} is empty")
    for heading, count in Counter(fold(section.heading) for section in headings).items():
        if count > 1:
            found.append(f"{count} sections are called {heading!r}; edits go to the first")
    if directory is not None:
        found += [f"names {name}, which is not in the directory" for name in missing(document, directory)]
    if len(document.description.split()) < 5:
        found.append("the description is too short to tell a reader when to use the skill")
    return found


def missing(document: SkillDocument, directory: Path) -> list[str]:
    """Files of the skill that its body links to or names (in `scripts/`, `references/`, `assets/`) and `directory` lacks."""
    links = [link for link in _LINK.findall(document.body) if "://" not in link]
    named = dict.fromkeys((*links, *_FILE.findall(document.body)))
    return [name for name in named if not (directory / name).exists()]
