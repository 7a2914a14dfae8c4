"""WebRL's action language: Python-like calls with keyword arguments.

    do(action="Click", element="3")                    do(action="Type", argument="wool", element="4")
    do(action="Search", argument="wool", element="4")  do(action="Select Dropdown Option", argument="Peru", element="5")
    do(action="Scroll Down")    do(action="Press Enter")    do(action="Switch Tab", argument="1")    do(action="Wait")
    go_backward()    go_forward()    exit(message="42")

All of them work. Reasoning around the call is ignored: the last call counts, and a call inside the text of another is
only text. Everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webarena.actions import Action, ParseError, Target, Verb, element_id, resolve
from webarena.keys import find_key
from webarena.observation import Element

USAGE = (
    'write one call such as: do(action="Click", element="3"), do(action="Type", argument="TEXT", element="3"), '
    'do(action="Scroll Down"), go_backward(), exit(message="ANSWER")'
)
_CALL = re.compile(r"(?<![\w.])(do|exit|go_backward|go_forward)\(")
_NAME = re.compile(r"\s*(\w+)\s*=(?!=)\s*")
_BARE_VALUE = re.compile(r"[^\s,()'\"=]+")
_AFTER_QUOTE = re.compile(r"\s*(?:,\s*(?:\w+\s*=|\))|\)|$)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

_PLAIN: Mapping[str, Action] = {
    "scroll up": Action("scroll", text="up"),
    "scroll down": Action("scroll", text="down"),
    "press enter": Action("press", text="Enter"),
    "wait": Action("wait"),
    "go backward": Action("back"),
    "go back": Action("back"),
    "go forward": Action("forward"),
    "new tab": Action("new_tab"),
    "close tab": Action("close_tab"),
}
_POINTING: Mapping[str, Verb] = {"click": "click", "right click": "right_click", "hover": "hover"}
_ACTIONS = (
    *(
        "Click",
        "Right Click",
        "Hover",
        "Type",
        "Search",
        "Select Dropdown Option",
        "Press Enter",
        "Press Key",
    ),
    *(
        "Scroll Up",
        "Scroll Down",
        "Go Backward",
        "Go Forward",
        "New Tab",
        "Switch Tab",
        "Close Tab",
        "Goto",
        "Wait",
    ),
)


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    keywords: Mapping[str, str]
    positional: tuple[str, ...]


def parse(text: str) -> Action:
    """The action of the last call in `text`. Raises `ParseError`."""
    calls: list[_Call] = []
    problem = ""
    position = 0
    while match := _CALL.search(text, position):
        try:
            call, position = _read(text, match)
        except ParseError as error:
            problem, position = str(error), match.end()
        else:
            calls.append(call)
            problem = ""
    if problem:
        raise ParseError(problem)
    if not calls:
        raise ParseError(
            f"there is no action in this; {USAGE}" if text.strip() else f"no action given; {USAGE}"
        )
    return _action(calls[-1])


def _read(text: str, match: re.Match[str]) -> tuple[_Call, int]:
    """The call that begins at `match`, and where it ends."""
    keywords: dict[str, str] = {}
    positional: list[str] = []
    position = match.end()
    while True:
        position = _skip(text, position)
        if position >= len(text):
            raise ParseError(f"{match[1]}( is not closed; {USAGE}")
        if text[position] == ")":
            return _Call(match[1], keywords, tuple(positional)), position + 1
        if text[position] == ",":
            position += 1
            continue
        name = _NAME.match(text, position)
        if name:
            position = name.end()
        value, position = _value(text, position, match[1])
        if name:
            keywords[name[1]] = value
        else:
            positional.append(value)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _value(text: str, position: int, call: str) -> tuple[str, int]:
    """A string, or a bare word or number. A quote that nothing of a call follows belongs to the string."""
    if position < len(text) and text[position] in "\"'“”":
        quotes = '"“”' if text[position] in '"“”' else "'"
        end = position + 1
        while end < len(text):
            if text[end] == "\\":
                end += 2
                continue
            if text[end] in quotes and _AFTER_QUOTE.match(text, end + 1):
                return _unescaped(text[position + 1 : end]), end + 1
            end += 1
        raise ParseError(f"a string in {call}(…) is not closed; {USAGE}")
    bare = _BARE_VALUE.match(text, position)
    if bare is None or text[bare.end() : bare.end() + 1] not in ("", ",", ")", " ", "\n"):
        raise ParseError(f"{call}(…) is not written right; {USAGE}")
    return bare[0], bare.end()


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.S)


def _action(call: _Call) -> Action:
    if call.name == "go_backward":
        return Action("back")
    if call.name == "go_forward":
        return Action("forward")
    given = dict(call.keywords)
    first = "action" if call.name == "do" else "message"
    if first not in given and call.positional:
        given[first] = call.positional[0]
    if call.name == "exit":
        return Action("stop", text=given.get("message", "").strip())
    if "action" not in given:
        raise ParseError(f"do(…) needs an action; {USAGE}")
    return _do(given["action"], given)


def _do(named: str, given: Mapping[str, str]) -> Action:
    name = " ".join(named.replace("_", " ").split()).lower()
    argument = given.get("argument")
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _POINTING:
        return Action(_POINTING[name], _element(named, given))
    if name in ("type", "search", "select dropdown option", "select"):
        target = _element(named, given)
        if argument is None:
            raise ParseError(f'{named} needs a text: do(action="{named}", argument="TEXT", element="3")')
        if name.startswith("select"):
            return Action("select", target, argument)
        return Action("type", target, argument, enter=name == "search")
    if argument is None and name in ("switch tab", "goto", "press key", "press"):
        raise ParseError(f'{named} needs an argument: do(action="{named}", argument="…")')
    if name == "switch tab":
        number = re.fullmatch(r"\[?#?(\d+)\]?", (argument or "").strip())
        if number is None:
            raise ParseError('Switch Tab takes a tab\'s number: do(action="Switch Tab", argument="1")')
        return Action("tab", amount=float(number[1]))
    if name == "goto":
        return Action("goto", text=(argument or "").strip())
    if name in ("press key", "press"):
        key = find_key(argument or "")
        if key is None:
            raise ParseError(f"{argument!r} is no key; for example Enter, Escape or Control+a")
        return Action("press", text=key)
    raise ParseError(f"there is no action {named!r}; there are {', '.join(_ACTIONS)}")


def _element(named: str, given: Mapping[str, str]) -> Target:
    text = given.get("element")
    if text is None:
        raise ParseError(f'{named} needs an element: the number in brackets, as in element="3"')
    number = re.fullmatch(r"\[?\s*(?:id\s*=\s*)?#?(\d+)\s*\]?", text.strip())
    if number is None:
        raise ParseError(f'element is the number in brackets, as in element="3", not {text[:60]!r}')
    return Target(id=element_id(number[1]))


def write(action: Action, elements: Sequence[Element]) -> str:
    """`action` as a call. Raises `ParseError` when `elements` lacks its target."""
    if action.verb == "back":
        return "go_backward()"
    if action.verb == "forward":
        return "go_forward()"
    if action.verb == "stop":
        return f"exit(message={_quoted(action.text)})"
    if action.verb == "infeasible":
        return 'exit(message="N/A")'
    arguments = {"action": _named(action)}
    if action.verb == "tab":
        arguments["argument"] = f"{action.amount or 0:.0f}"
    elif action.verb in ("type", "select", "goto") or arguments["action"] == "Press Key":
        arguments["argument"] = action.text
    if action.target is not None:
        arguments["element"] = str(resolve(elements, action.target, action.verb).id)
    return f"do({', '.join(f'{name}={_quoted(value)}' for name, value in arguments.items())})"


def _named(action: Action) -> str:
    if action.verb == "scroll":
        return "Scroll Up" if action.text == "up" else "Scroll Down"
    if action.verb == "press":
        return "Press Enter" if action.text == "Enter" else "Press Key"
    if action.verb == "type":
        return "Search" if action.enter else "Type"
    return {"select": "Select Dropdown Option", "tab": "Switch Tab"}.get(
        action.verb, action.verb.replace("_", " ").title()
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
