"""A skill document: `SKILL.md` by the Agent Skills specification, as a value that is always valid.

The specification (agentskills.io/specification): a skill is a directory whose `SKILL.md` has YAML front matter with
at most six keys, followed by Markdown. What the specification only advises (body length) is a budget here, and a
budget is enforced. Values of the front matter are read as text, never guessed into numbers or dates, and written
in double quotes, so that a colon in a description cannot break the file.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from coevo.errors import SkillError

FILE_NAME = "SKILL.md"
KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
MAX_REFERENCES = 8
MAX_REFERENCE_LINES = 300
STAMP = "coevo-"
"""Prefix of the `metadata` keys that coevo writes on export; they are not part of a version's content."""

REFERENCE = re.compile(r"references/[a-z0-9][a-z0-9-]*\.md")
"""Where a document may keep what is not needed in every prompt; nothing else is ever written beside `SKILL.md`."""

_HEADING = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_PIECE = re.compile(r"[^\W\d_]+|\d|\n|[^\w\s]|_")
# Characters YAML would refuse or fold inside double quotes although JSON writes them as they are.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, estimated without a tokenizer: one a digit, mark and line break, one for every six letters.

    Within about a fifth of SmolLM2's and Qwen's tokenizers on English prose and page listings.
    """
    return sum(-(-len(piece) // 6) for piece in _PIECE.findall(text))


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long the body of a skill may be; every token of it is paid for in each prompt.

    Defaults are the specification's advice. `count_tokens` may be a real tokenizer.
    """

    max_lines: int = 500
    max_tokens: int = 5000
    count_tokens: Callable[[str], int] = estimate_tokens

    def excess(self, body: str) -> str:
        """What `body` has too much of, in words; empty when it fits."""
        lines = len(body.splitlines())
        if lines > self.max_lines:
            return f"{lines} lines, {self.max_lines} allowed"
        tokens = self.count_tokens(body)
        if tokens > self.max_tokens:
            return f"{tokens} tokens, {self.max_tokens} allowed"
        return ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text below it up to the next heading of any level. The first may have no heading (level 0)."""

    heading: str
    level: int
    text: str

    def render(self) -> str:
        title = f"{'#' * self.level} {self.heading}".rstrip()
        return "\n\n".join(part for part in (title, self.text) if part)


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """One version of a skill. Build it with `parse` or `load`; both refuse what the specification refuses."""

    name: str
    description: str
    body: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: str = ""
    references: Mapping[str, str] = field(default_factory=dict)
    """Text of further files by path (`references/NAME.md`), read on demand; agents get the body alone."""

    @classmethod
    def parse(
        cls, text: str, *, directory: str | None = None, references: Mapping[str, str] | None = None
    ) -> SkillDocument:
        """Read the text of a `SKILL.md`. `directory` is the name of its directory, when there is one.

        Raises SkillError naming every rule that is broken.
        """
        header, body = _split(text)
        fields = _front_matter(header)
        unknown = sorted(set(fields) - set(KEYS))
        problems = [f"unknown key {key!r} (extra data belongs in 'metadata')" for key in unknown]
        problems += [f"{key!r} is missing" for key in ("name", "description") if key not in fields]
        metadata = fields.get("metadata") or {}
        if not isinstance(metadata, dict):
            problems.append("'metadata' must map names to text")
            metadata = {}
        values = {key: fields.get(key, "") for key in KEYS if key != "metadata"}
        problems += [f"{key!r} must be text" for key, value in values.items() if not isinstance(value, str)]
        problems += [
            f"metadata {key!r} must be text" for key, value in metadata.items() if not isinstance(value, str)
        ]
        if problems:
            raise _invalid(problems)
        document = cls(
            name=unicodedata.normalize("NFKC", values["name"].strip()),
            description=values["description"].strip(),
            body=_trim(body),
            license=values["license"].strip(),
            compatibility=values["compatibility"].strip(),
            metadata=dict(metadata),
            allowed_tools=values["allowed-tools"].strip(),
            references={path: _trim(content) for path, content in (references or {}).items()},
        )
        document.validate(directory=directory)
        return document

    @classmethod
    def load(cls, directory: str | Path) -> SkillDocument:
        """Read `<directory>/SKILL.md`. Raises SkillError when it is missing or breaks the specification."""
        path = Path(directory) / FILE_NAME
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            hint = "give the directory that holds SKILL.md, not the file or its parent"
            raise SkillError(f"no skill at {directory}: {FILE_NAME} is missing", hint=hint) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SkillError(
                f"cannot read {path}: {error}", hint="SKILL.md must be readable UTF-8 text"
            ) from error
        return cls.parse(text, directory=path.resolve().parent.name, references=read_references(path.parent))

    def problems(self, *, directory: str | None = None, budgets: Budgets | None = None) -> list[str]:
        """Every rule of the specification (and of `budgets`) this document breaks."""
        found = _name_problems(self.name)
        if directory is not None and unicodedata.normalize("NFKC", directory) != self.name:
            found.append(f"name {self.name!r} must equal its directory {directory!r}")
        if not self.description.strip():
            found.append("description is empty")
        if len(self.description) > MAX_DESCRIPTION:
            found.append(f"description has {len(self.description)} characters, {MAX_DESCRIPTION} allowed")
        if len(self.compatibility) > MAX_COMPATIBILITY:
            found.append(
                f"compatibility has {len(self.compatibility)} characters, {MAX_COMPATIBILITY} allowed"
            )
        if any(not isinstance(part, str) for pair in self.metadata.items() for part in pair):
            found.append("metadata must map text to text")
        texts = (self.name, self.description, self.body, self.license, self.compatibility, self.allowed_tools)
        if any(unprintable(text) for text in (*texts, *map(str, (*self.metadata, *self.metadata.values())))):
            found.append("control characters are not text")
        found += _reference_problems(self.references)
        if budgets is not None and (excess := budgets.excess(self.body)):
            found.append(f"body is too long: {excess}")
        return found

    def validate(self, *, directory: str | None = None, budgets: Budgets | None = None) -> None:
        """Raise SkillError with every problem, if there is one."""
        if problems := self.problems(directory=directory, budgets=budgets):
            raise _invalid(problems)

    def render(self) -> str:
        """The text of `SKILL.md`; `parse` gives back an equal document."""
        optional = {
            "license": self.license,
            "compatibility": self.compatibility,
            "allowed-tools": self.allowed_tools,
        }
        lines = [f"name: {_quote(self.name)}", f"description: {_quote(self.description)}"]
        lines += [f"{key}: {_quote(value)}" for key, value in optional.items() if value]
        if self.metadata:
            lines.append("metadata:")
            lines += [f"  {_quote(key)}: {_quote(self.metadata[key])}" for key in sorted(self.metadata)]
        header = "\n".join(("---", *lines, "---")) + "\n"
        return f"{header}\n{self.body}\n" if self.body else header

    @property
    def sections(self) -> tuple[Section, ...]:
        """The body cut at its headings; a `#` inside a code fence is no heading."""
        return _sections(self.body)

    def section(self, heading: str) -> Section | None:
        """The first section with this heading (case and spacing aside), or None."""
        wanted = _fold(heading)
        return next((section for section in self.sections if _fold(section.heading) == wanted), None)

    def with_sections(self, sections: Collection[Section]) -> SkillDocument:
        return self.with_body("\n\n".join(text for section in sections if (text := section.render())))

    def with_body(self, body: str) -> SkillDocument:
        return replace(self, body=_trim(body))

    def stamped(self, **metadata: object) -> SkillDocument:
        """A copy that says where it comes from: `stamped(version=…, run=…)` sets `coevo-version`, `coevo-run`."""
        extra = {f"{STAMP}{key.replace('_', '-')}": str(value) for key, value in metadata.items()}
        return replace(self, metadata={**self.metadata, **extra})

    @property
    def content_hash(self) -> str:
        """Identity of the content, 32 hex digits; stamps (see `stamped`) do not change it."""
        own = {key: value for key, value in self.metadata.items() if not key.startswith(STAMP)}
        digest = hashlib.blake2b(replace(self, metadata=own).render().encode(), digest_size=16)
        for path, text in sorted(self.references.items()):
            digest.update(f"\x1f{path}\x1f{text}".encode())
        return digest.hexdigest()


def read_references(directory: Path) -> dict[str, str]:
    """The reference files of a skill directory that are text; what else lies there is not part of the document."""
    found = {}
    for path in sorted((directory / "references").glob("*.md")):
        name = f"references/{path.name}"
        if REFERENCE.fullmatch(name) and path.is_file() and not path.is_symlink():
            try:
                found[name] = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
    return found


def outline(text: str) -> list[tuple[int, int, str]]:
    """The headings of a Markdown text as (line number from 0, level, heading), code fences left out."""
    found: list[tuple[int, int, str]] = []
    fence = ""
    for number, line in enumerate(text.split("\n")):
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif not fence and (title := _HEADING.match(line)):
            found.append((number, len(title[1]), title[2] or ""))
    return found


def open_fence(text: str) -> bool:
    """Whether a code fence in `text` is never closed (it would swallow whatever follows)."""
    fence = ""
    for line in text.split("\n"):
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
    return bool(fence)


def unprintable(text: str) -> bool:
    """Whether `text` has characters that are not text: controls, lone surrogates, non-characters."""
    return any(
        (category := unicodedata.category(char)) in ("Cs", "Cn")
        or (category == "Cc" and char not in "\n\t")
        or char in "\u2028\u2029\ufeff"
        for char in text
    )


def _sections(body: str) -> tuple[Section, ...]:
    if not body:
        return ()
    lines = body.split("\n")
    titles = outline(body)
    first = titles[0][0] if titles else len(lines)
    parts = [Section("", 0, _trim("\n".join(lines[:first])))] if first else []
    for index, (number, level, heading) in enumerate(titles):
        end = titles[index + 1][0] if index + 1 < len(titles) else len(lines)
        parts.append(Section(heading, level, _trim("\n".join(lines[number + 1 : end]))))
    return tuple(parts)


def _split(text: str) -> tuple[str, str]:
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise _invalid(["the file must start with front matter: a line '---'"])
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise _invalid(["the front matter is never closed by a line '---'"])


class _TextLoader(yaml.BaseLoader):
    """Scalars stay text; a key given twice and a link to another value are errors."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise _invalid(["front matter must not use YAML aliases"])
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [str(key.value) for key, _ in node.value]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise _invalid([f"key {key!r} is given twice" for key in twice])
        return super().construct_mapping(node, deep)


def _front_matter(header: str) -> dict[str, Any]:
    try:
        loaded = yaml.load(header, Loader=_TextLoader)  # BaseLoader builds text, lists and dicts only
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise _invalid([f"the front matter is not YAML: {' '.join(str(error).split())[:300]}"]) from error
    if not isinstance(loaded, dict):
        raise _invalid(["the front matter must be a mapping of keys to values"])
    return loaded


def _name_problems(name: str) -> list[str]:
    if not name:
        return ["name is empty"]
    found = []
    if len(name) > MAX_NAME:
        found.append(f"name has {len(name)} characters, {MAX_NAME} allowed")
    if name != name.lower() or not all(char.isalnum() or char == "-" for char in name):
        found.append(f"name {name!r} may only have lower-case letters, digits and hyphens")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        found.append(f"name {name!r} must not start or end with a hyphen, nor have two in a row")
    return found


def _invalid(problems: list[str]) -> SkillError:
    hint = "the rules are at agentskills.io/specification"
    return SkillError("not a valid SKILL.md: " + "; ".join(problems), hint=hint)


def _quote(value: str) -> str:
    """`value` as a YAML double-quoted scalar on one line. Readers that cut a file at any `---` get none to cut at."""
    text = _UNSAFE.sub(lambda char: f"\\u{ord(char[0]):04x}", json.dumps(value, ensure_ascii=False))
    return text.replace("---", "\\x2d\\x2d\\x2d")


def _trim(text: str) -> str:
    """`text` without blank lines around it and without spaces at the end of the last line."""
    lines = text.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines).rstrip()


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


def _reference_problems(references: Mapping[str, str]) -> list[str]:
    found = []
    if len(references) > MAX_REFERENCES:
        found.append(f"{len(references)} reference files, {MAX_REFERENCES} allowed")
    for path, text in references.items():
        if not REFERENCE.fullmatch(path):
            found.append(f"{path!r} is no reference file; they are called references/NAME.md")
        if unprintable(text):
            found.append(f"control characters in {path}")
        if len(text.splitlines()) > MAX_REFERENCE_LINES:
            found.append(f"{path} has {len(text.splitlines())} lines, {MAX_REFERENCE_LINES} allowed")
    return found
