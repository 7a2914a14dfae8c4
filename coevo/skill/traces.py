"""Reading an episode as text: the elements of a page, the action an answer holds, and where two episodes part.

The reading is tolerant and knows no environment. A page has one element a line, a role, a quoted name, a number in
brackets (`button 'Ok' [3]`); an action is a verb with quoted names or a number (`type 'Name' 'text'`, `click [3]`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coevo.store.queries import EpisodeRecord

_QUOTED = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_ELEMENT = re.compile(rf"^\s*(?:-\s+)?(?P<role>[a-z][\w-]*)\s*(?P<name>{_QUOTED})?(?P<rest>.*)$")
_NUMBER = re.compile(r"\[(\d+)\]")
_ARGUMENT = re.compile(rf"(?P<quoted>{_QUOTED})|\[(?P<number>\d+)\]|(?P<bare>\S+)")
_INPUT = "type fill enter input select choose"
_VERBS = frozenset(f"click tap hover check press stop answer scroll goto back wait {_INPUT}".split())
_WITHOUT_TARGET = frozenset({"press", "stop", "answer", "scroll", "goto", "back", "wait"})
INPUT_VERBS = frozenset(_INPUT.split())
"""Verbs that put a value into a field."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Element:
    """One line of a page. `name` and `number` are empty where the line has none."""

    line: str
    role: str
    name: str
    number: str


@dataclass(frozen=True, slots=True)
class Action:
    """An answer, read as an action. `verb` is empty when no action could be read.

    `target` is the element's name or number (`by` says which), `argument` what is typed, chosen, pressed or answered,
    `prose` whether there was anything besides the action.
    """

    verb: str = ""
    target: str = ""
    by: str = ""
    argument: str = ""
    prose: bool = False

    @property
    def shape(self) -> str:
        """The form of the action without its content, e.g. `type 'NAME' 'TEXT'`."""
        target = {"name": " 'NAME'", "number": " [NUMBER]"}.get(self.by, "")
        if not self.argument:
            return self.verb + target
        words = {"press": "KEY", "scroll": "DIRECTION", "select": "'OPTION'", "stop": "'ANSWER'"}
        word = words.get(self.verb, "'TEXT'")
        return f"{self.verb}{target} {word}"


@dataclass(frozen=True, slots=True)
class Move:
    """One action in its place: the page it was taken on, what was done, and the complaint it earned, if any."""

    page: tuple[Element, ...]
    text: str
    action: Action
    error: str

    @property
    def element(self) -> Element | None:
        """The element acted on, when it stands on the page; names are compared without case and outer marks."""
        action = self.action
        if action.by == "number":
            return next((element for element in self.page if element.number == action.target), None)
        if action.by != "name":
            return None
        wanted = _plain(action.target)
        named = [element for element in self.page if element.name and _plain(element.name) == wanted]
        return next(
            (element for element in named if element.name == action.target), named[0] if named else None
        )


def read_page(observation: str) -> tuple[Element, ...]:
    """The lines of a page; the task, when the environment repeats it there, is not part of the page."""
    elements = []
    for line in observation.split("\n"):
        if not line.strip() or line.lstrip().lower().startswith(("task:", "goal:")):
            continue
        match = _ELEMENT.match(line)
        role, name = (match["role"], unquote(match["name"] or "")) if match else ("", "")
        number = _NUMBER.search(match["rest"] if match else line)
        elements.append(Element(line.rstrip(), role, name, number[1] if number else ""))
    return tuple(elements)


def read_action(text: str) -> Action:
    """The first action in `text`. A sentence around it, or a second line, counts as prose."""
    lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
    for line in lines:
        parts = line.split(None, 1)
        verb = parts[0].lower().rstrip(":")
        if verb not in _VERBS:
            continue
        names, number, bare = _arguments(parts[1] if len(parts) > 1 else "")
        prose = len(lines) > 1
        if verb in _WITHOUT_TARGET:
            argument = names[0] if names else " ".join(bare)
            return Action(verb, argument=argument, prose=prose or bool(names and bare))
        if number:
            return Action(verb, number, "number", names[0] if names else "", prose or bool(bare))
        if len(bare) == 1 and bare[0].isdigit():
            return Action(verb, bare[0], "number", names[0] if names else "", prose)
        if verb in INPUT_VERBS and len(names) == 1 and not bare:
            return Action(verb, argument=names[0], prose=prose)
        if names:
            return Action(verb, names[0], "name", names[1] if len(names) > 1 else "", prose or bool(bare))
        if bare and verb not in INPUT_VERBS:
            return Action(verb, " ".join(bare), "name", prose=prose)
    return Action(prose=bool(lines))


def read_moves(episode: EpisodeRecord) -> tuple[Move, ...]:
    """The actions of an episode, as the environment understood them, each with the page the agent saw when it chose."""
    moves = []
    page: tuple[Element, ...] = ()
    for step in episode.steps:
        if step.action is not None:
            said = (step.performed or step.action).strip()
            moves.append(Move(page, said, read_action(said), step.error))
        page = read_page(step.observation)
    return tuple(moves)


def parting(one: tuple[Move, ...], other: tuple[Move, ...]) -> int | None:
    """Index of the first move at which the two episodes do different things; None when one begins like the other."""
    for index, (first, second) in enumerate(zip(one, other, strict=False)):
        if first.text != second.text:
            return index
    return None


def quote(text: str) -> str:
    """`text` in quotes: double ones around an apostrophe, else single ones."""
    return f'"{text}"' if "'" in text and '"' not in text else f"'{text}'"


def words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def quoted(text: str) -> tuple[str, ...]:
    """What stands in quotes in `text`."""
    return tuple(unquote(part) for part in re.findall(_QUOTED, text))


def unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if len(text) > 1 else text


def _plain(name: str) -> str:
    return " ".join(name.casefold().split()).strip(" .:")


def _arguments(text: str) -> tuple[list[str], str, list[str]]:
    names, number, bare = [], "", []
    for match in _ARGUMENT.finditer(text):
        if match["quoted"]:
            names.append(unquote(match["quoted"]))
        elif match["number"] and not number:
            number = match["number"]
        elif match["bare"]:
            bare.append(match["bare"])
    return names, number, bare
