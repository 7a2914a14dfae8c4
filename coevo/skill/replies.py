"""Reading what an author wrote: JSON somewhere in a text becomes typed edits, or a reason why not.

A reply is hostile until proven otherwise: it may be prose, half a JSON, ten megabytes, or repeat what a page told the
author to say. Nothing of it reaches a document except through the fields below, and those only as far as
`coevo.skill.edits.defects` and the scan for task literals let them.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coevo.skill.author import ReplyError
from coevo.skill.edits import RULES, Op, ProposedEdit, defects

Model = TypeVar("Model", bound=BaseModel)

LONGEST_REPLY = 100_000
LONGEST_RULE = 400


class _Edit(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    op: Literal["add", "replace", "delete", "move"]
    section: str = Field(RULES, max_length=80)
    text: str = Field("", max_length=LONGEST_RULE)
    target: str = Field("", max_length=4 * LONGEST_RULE)
    file: str = Field("", max_length=80)
    why: str = Field("", max_length=1000)


class _Edits(BaseModel):
    model_config = ConfigDict(extra="ignore")

    edits: list[_Edit] = Field(max_length=10)


class _Group(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    ids: list[int] = Field(min_length=2)
    text: str = Field(min_length=1, max_length=LONGEST_RULE)


class _Merged(BaseModel):
    model_config = ConfigDict(extra="ignore")

    groups: list[_Group] = []
    conflicts: list[list[int]] = []


def read_edits(reply: str, *, most: int = 3) -> list[ProposedEdit]:
    """The edits of an analyst's reply, without evidence yet. Raises `ReplyError` with what to correct."""
    found = _validated(_Edits, reply).edits
    if len(found) > most:
        raise ReplyError(f"{len(found)} edits; at most {most}, the most important ones")
    edits = []
    for number, item in enumerate(found, 1):
        if "\n" in item.text:
            raise ReplyError(f"edit {number}: the text has several lines; a rule is one sentence")
        edit = ProposedEdit(
            Op(item.op),
            item.section.strip("# ") or RULES,
            {"delete": "", "move": item.file}.get(item.op, _one_line(item.text)),
            target="" if item.op == "add" else item.target,
            reason=" ".join(item.why.split()),
        )
        if problems := defects(edit):
            raise ReplyError(f"edit {number}: {'; '.join(problems)}")
        edits.append(edit)
    return edits


def read_merge(reply: str, count: int) -> tuple[list[tuple[list[int], str]], list[list[int]]]:
    """Groups (indices from 0, one wording) and conflicts (indices) of a merge of `count` proposals. Raises `ReplyError`."""
    merged = _validated(_Merged, reply)
    seen: set[int] = set()
    for ids in (*(group.ids for group in merged.groups), *merged.conflicts):
        if strange := [i for i in ids if not 1 <= i <= count]:
            raise ReplyError(f"there is no proposal {strange[0]}; they are numbered 1 to {count}")
    for group in merged.groups:
        if twice := [i for i in group.ids if i in seen] or len(set(group.ids)) < len(group.ids):
            raise ReplyError(f"a proposal belongs to one group only ({twice})")
        seen |= set(group.ids)
    groups = [([i - 1 for i in group.ids], _one_line(group.text)) for group in merged.groups]
    return groups, [sorted({i - 1 for i in ids}) for ids in merged.conflicts if len(set(ids)) > 1]


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
