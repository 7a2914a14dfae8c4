"""What an author may reply: reading it, so that JSON somewhere in a text becomes typed edits or a reason why not, and grammars
that hold a small model to it while it writes. Both come from the same models.

A reply is hostile until proven otherwise: it may be prose, half a JSON, ten megabytes, or repeat what a page told the
author to say. Nothing of it reaches a document except through the fields below, and those only as far as
`coevo.skill.edits.defects` and the scan for task literals let them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coevo.skill.apply import blocks
from coevo.skill.author import ReplyError
from coevo.skill.edits import EXAMPLES, RULES, Op, ProposedEdit, defects, fold

if TYPE_CHECKING:
    from coevo.skill.document import SkillDocument

Model = TypeVar("Model", bound=BaseModel)

LONGEST_REPLY = 100_000
LONGEST_RULE = 400

_RULE = re.compile(r"- [^\n]+")


# What a grammar leaves of a text: a sentence without quotes, mark-up or full stops inside. Readers take more than that.
_SENTENCE = r"^[\p{L}\p{N}][\p{L}\p{N} ,;:'()/-]{8,118}[.!。]$"

_Section = Annotated[str, Field(max_length=80)]
_Rule = Annotated[str, Field(max_length=LONGEST_RULE, json_schema_extra={"pattern": _SENTENCE})]
_Target = Annotated[str, Field(max_length=4 * LONGEST_RULE)]
_File = Annotated[str, Field(max_length=80, json_schema_extra={"pattern": r"^references/[a-z]{2,20}\.md$"})]
_Why = Annotated[str, Field(max_length=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class _Add(_Part):
    op: Literal["add"]
    section: _Section = RULES
    text: _Rule
    why: _Why = ""


class _Replace(_Part):
    op: Literal["replace"]
    section: _Section = RULES
    target: _Target
    text: _Rule
    why: _Why = ""


class _Delete(_Part):
    op: Literal["delete"]
    section: _Section = RULES
    target: _Target
    why: _Why = ""


class _Move(_Part):
    op: Literal["move"]
    section: _Section = RULES
    target: _Target
    file: _File
    why: _Why = ""


class _Edits(_Part):
    edits: list[Annotated[_Add | _Replace | _Delete | _Move, Field(discriminator="op")]] = Field(
        max_length=10
    )


class _Group(_Part):
    ids: list[int] = Field(min_length=2)
    text: str = Field(min_length=1, max_length=LONGEST_RULE)


class _Merged(_Part):
    groups: list[_Group] = []
    conflicts: list[list[int]] = []


def read_edits(reply: str, *, most: int = 3) -> list[ProposedEdit]:
    """The edits of an analyst's reply, without evidence yet. Raises `ReplyError` with what to correct."""
    found = _validated(_Edits, reply).edits
    if len(found) > most:
        raise ReplyError(f"{len(found)} edits; at most {most}, the most important ones")
    edits = []
    for number, item in enumerate(found, 1):
        text = "" if isinstance(item, _Delete) else item.file if isinstance(item, _Move) else item.text
        if "\n" in text:
            raise ReplyError(f"edit {number}: the text has several lines; a rule is one sentence")
        edit = ProposedEdit(
            Op(item.op),
            item.section.strip("# ") or RULES,
            _one_line(text),
            target="" if isinstance(item, _Add) else item.target,
            reason=_one_line(item.why),
        )
        if problems := defects(edit):
            raise ReplyError(f"edit {number}: {'; '.join(problems)}")
        edits.append(edit)
    return edits


def edits_grammar(document: SkillDocument, *, most: int = 3) -> str:
    """The replies that `read_edits` takes and `document` has room for: at most `most` edits, in one short sentence each, of
    sections that are there (or "Rules") and of rules that stand in them."""
    standing = {
        section.heading: [block for block in blocks(section.text) if _RULE.fullmatch(block)]
        for section in document.sections
        if section.heading and fold(section.heading) != fold(EXAMPLES)
    }
    schema = _Edits.model_json_schema()
    kinds = schema.pop("$defs")
    shapes = [_closed(kinds["_Add"], section={"enum": list(dict.fromkeys((RULES, *standing)))})]
    for kind in ("_Replace", "_Delete", "_Move"):
        shapes += [
            _closed(kinds[kind], section={"const": heading}, target={"enum": rules})
            for heading, rules in standing.items()
            if rules
        ]
    return _lark(_closed(schema, edits={"type": "array", "maxItems": most, "items": {"anyOf": shapes}}))


def read_merge(reply: str, count: int) -> tuple[list[tuple[list[int], str]], list[list[int]]]:
    """Groups (indices from 0, one wording) and conflicts (indices) of a merge of `count` proposals. A proposal belongs to the
    first group that names it. Raises `ReplyError`."""
    merged = _validated(_Merged, reply)
    for ids in (*(group.ids for group in merged.groups), *merged.conflicts):
        if strange := [i for i in ids if not 1 <= i <= count]:
            raise ReplyError(f"there is no proposal {strange[0]}; they are numbered 1 to {count}")
    seen: set[int] = set()
    groups = []
    for group in merged.groups:
        own = list(dict.fromkeys(i - 1 for i in group.ids if i not in seen))
        if len(own) > 1:
            groups.append((own, _one_line(group.text)))
            seen |= set(group.ids)
    return groups, [sorted({i - 1 for i in ids}) for ids in merged.conflicts if len(set(ids)) > 1]


def merge_grammar(texts: Sequence[str]) -> str:
    """The replies that `read_merge` takes of so many proposals; a group is worded as one of `texts`, which are theirs."""
    schema = _Merged.model_json_schema()
    ids = {
        "type": "array",
        "items": {"enum": list(range(1, len(texts) + 1))},
        "minItems": 2,
        "maxItems": len(texts),
    }
    group = _closed(schema.pop("$defs")["_Group"], ids=ids, text={"enum": list(dict.fromkeys(texts))})
    several = {"type": "array", "maxItems": len(texts) // 2}
    return _lark(_closed(schema, groups=several | {"items": group}, conflicts=several | {"items": ids}))


def _closed(schema: Mapping[str, Any], **narrow: Any) -> dict[str, Any]:
    """The schema of an object with what it must have and nothing else; fields of `narrow` are among that, as given there."""
    required = [name for name in schema["properties"] if name in narrow or name in schema.get("required", ())]
    fields = {name: narrow.get(name, schema["properties"][name]) for name in required}
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _lark(schema: Mapping[str, Any]) -> str:
    """A grammar in llguidance's dialect of Lark, with the spacing of the examples that authors are shown."""
    spacing = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return f"start: %json {json.dumps({**schema, 'x-guidance': spacing}, ensure_ascii=False)}"


def find_json(text: str) -> Any:
    """The first JSON object in `text`, fenced or not. Raises `ReplyError`."""
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"the reply has {len(text)} characters, {LONGEST_REPLY} are read")
    decoder = json.JSONDecoder()
    start = text.find("{")
    first = ""
    for _ in range(50):
        if start < 0:
            break
        try:
            return decoder.raw_decode(text, start)[0]
        except (json.JSONDecodeError, RecursionError) as error:
            first = first or str(error)
        start = text.find("{", start + 1)
    raise ReplyError(f"no JSON object in the reply{f' ({first})' if first else ''}")


def _validated(model: type[Model], reply: str) -> Model:
    try:
        return model.model_validate(find_json(reply))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the object"
        raise ReplyError(f"{place}: {first['msg']}") from error


def _one_line(text: str) -> str:
    return " ".join(text.split())
