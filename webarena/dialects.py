"""The languages an agent may act in: coevo's own, WebArena's, and WebRL's. Each has a parser and a writer of `Action`s.

    coevo      type 'Search' 'wool' enter          click [12]        stop '42'
    webarena   type [4] [wool] [1]                 click [12]        stop [42]
    webrl      do(action="Search", argument="wool", element="4")     exit(message="42")

Everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from webarena import actions, webrl
from webarena.actions import Action, ParseError, Target, element_id, resolve
from webarena.keys import find_key
from webarena.observation import Element

Name = Literal["coevo", "webarena", "webrl"]

USAGE = (
    "write one action such as: click [ID], type [ID] [TEXT] [1], hover [ID], press [KEY], scroll [down], goto [URL], "
    "go_back, go_forward, new_tab, tab_focus [INDEX], close_tab, stop [ANSWER]"
)
_FENCED = re.compile(r"```(?:\w+\n)?\s*(.*?)\s*```", re.S)
_VERB = re.compile(
    r"(?:(?:\*\*)?action(?:\*\*)?\s*:\s*)?(click|right_click|hover|type|select|press|scroll|goto|go_back|go_forward|new_tab"
    r"|tab_focus|page_focus|close_tab|page_close|wait|stop|infeasible)\b",
    re.I,
)
_BARE: Mapping[str, actions.Verb] = {
    "go_back": "back",
    "go_forward": "forward",
    "new_tab": "new_tab",
    "close_tab": "close_tab",
    "page_close": "close_tab",
    "wait": "wait",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """`parse(text)` gives an action or raises `ParseError`; `write(action, elements)` is its plainest form there."""

    name: Name
    parse: Callable[[str], Action]
    write: Callable[[Action, Sequence[Element]], str]


def parse(text: str, dialect: Name = "coevo") -> Action:
    """The action that `text` means in a dialect. Raises `ParseError`, whose text is for the agent, and nothing else."""
    return DIALECTS[dialect].parse(text)


def write(action: Action, elements: Sequence[Element], dialect: Name = "coevo") -> str:
    """`action` in the plainest form of a dialect. Raises `ParseError` when `elements` lacks its target."""
    return DIALECTS[dialect].write(action, elements)


def parse_webarena(text: str) -> Action:
    """WebArena's id-based actions.

    The action is what stands between triple back-quotes (the first such block), else the last line that begins with a
    verb. `type` presses Enter unless its third argument is 0. Beyond the original there are `select [id] [option]`,
    `right_click [id]`, `wait` and `infeasible [why]`.
    """
    blocks = [block for block in _FENCED.findall(text) if block]
    if blocks:
        body = blocks[0]
    else:
        lines = [line.strip() for line in text.splitlines()]
        starts = [index for index, line in enumerate(lines) if _VERB.match(line)]
        if not starts:
            raise ParseError(
                f"there is no action in this; {USAGE}" if text.strip() else f"no action given; {USAGE}"
            )
        body = "\n".join(lines[starts[-1] :]).strip()
    match = _VERB.match(body)
    if match is None:
        raise ParseError(f"{body[:60]!r} is not an action; {USAGE}")
    return _webarena(match[1].lower(), body[match.end() :].strip())


def _webarena(verb: str, rest: str) -> Action:
    if verb in ("stop", "infeasible"):
        answer = re.match(r"\[(.*)\]", rest, re.S)
        if rest and answer is None:
            raise ParseError(f"the answer of {verb} stands in brackets: {verb} [ANSWER]")
        return Action("stop" if verb == "stop" else "infeasible", text=answer[1].strip() if answer else "")
    rest = rest.split("\n", 1)[0].strip()
    if verb in _BARE:
        return Action(_BARE[verb])
    if verb in ("click", "right_click", "hover"):
        (target,) = _arguments(verb, rest, r"\[(\d+)\]", f"{verb} [ID]")
        return Action(
            "click" if verb == "click" else "hover" if verb == "hover" else "right_click", _by_id(target)
        )
    if verb == "type":
        target, content, _, enter = _arguments(
            verb,
            rest,
            r"\[(\d+)\]\s*\[(.*?)\](\s*\[([01])\])?\s*",
            "type [ID] [TEXT] [1], the last one 0 without Enter",
            whole=True,
        )
        return Action("type", _by_id(target), content, enter=enter != "0")
    if verb == "select":
        target, option = _arguments(verb, rest, r"\[(\d+)\]\s*\[(.*)\]", "select [ID] [OPTION]")
        return Action("select", _by_id(target), option)
    if verb == "press":
        (name,) = _arguments(verb, rest, r"\[(.+)\]", "press [KEY], for example press [Enter]")
        key = find_key(name)
        if key is None:
            raise ParseError(f"{name!r} is no key; write for example press [Enter] or press [Control+a]")
        return Action("press", text=key)
    if verb == "scroll":
        (direction,) = _arguments(
            verb, rest, r"\[?(?:direction\s*=\s*)?(up|down)\b.*", "scroll [down] or scroll [up]"
        )
        return Action("scroll", text=direction.lower())
    if verb == "goto":
        (url,) = _arguments(verb, rest, r"\[?([^\[\]\s]+)\]?", "goto [URL]")
        return Action("goto", text=url)
    (number,) = _arguments(verb, rest, r"\[?(\d+)\]?", "tab_focus [INDEX]")
    return Action("tab", amount=float(number))


def _arguments(verb: str, rest: str, pattern: str, usage: str, *, whole: bool = False) -> tuple[str, ...]:
    match = (re.fullmatch if whole else re.match)(pattern, rest, re.I)
    if match is None:
        raise ParseError(f"{verb} is written: {usage}")
    return tuple(group or "" for group in match.groups())


def _by_id(number: str) -> Target:
    return Target(id=element_id(number))


def write_webarena(action: Action, elements: Sequence[Element]) -> str:
    words: list[str] = [
        {"back": "go_back", "forward": "go_forward", "tab": "tab_focus"}.get(action.verb, action.verb)
    ]
    if action.target is not None:
        words.append(f"[{resolve(elements, action.target, action.verb).id}]")
    if action.verb == "tab":
        words.append(f"[{action.amount or 0:.0f}]")
    elif action.verb in ("type", "select", "press", "scroll", "goto", "stop", "infeasible"):
        words.append(f"[{action.text}]")
    if action.verb == "type":
        words.append(f"[{int(action.enter)}]")
    return " ".join(words)


DIALECTS: Mapping[Name, Dialect] = {
    "coevo": Dialect("coevo", actions.parse, actions.canonical),
    "webarena": Dialect("webarena", parse_webarena, write_webarena),
    "webrl": Dialect("webrl", webrl.parse, webrl.write),
}
