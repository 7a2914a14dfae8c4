"""The action language: one line of text becomes one `Action`, and an `Action` finds its element by id or by name.

    click [12]        click 'Wool Blanket'        hover 'Menu'
    type [3] 'Ada'    type 'Name' 'Ada'           select 'Country' 'Peru'
    press Enter       scroll down                 wait        stop 'answer'
    goto 'URL'        back        forward         new_tab     tab 1       close_tab       infeasible 'why'

Not every world has pages to go to; one that has not says so. Everything here is pure. Models write loosely, so quotes of any kind, a verb's synonyms and words around the command
are accepted as long as only one reading is left; otherwise the error says what was expected, in words a model can use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from webarena.keys import find_key
from webarena.observation import ACTIONABLE, FIELDS, Element, quote

Verb = Literal[
    "click",
    "right_click",
    "hover",
    "type",
    "select",
    "press",
    "scroll",
    "goto",
    "back",
    "forward",
    "new_tab",
    "tab",
    "close_tab",
    "wait",
    "stop",
    "infeasible",
]

USAGE = "write one line such as: click 'NAME', type 'FIELD' 'TEXT', select 'FIELD' 'OPTION', press Enter, stop 'ANSWER'"
LONGEST_WAIT_S = 5.0

_SYNONYMS: dict[str, Verb] = {
    "click": "click",
    "right_click": "right_click",
    "tap": "click",
    "check": "click",
    "type": "type",
    "fill": "type",
    "enter": "type",
    "input": "type",
    "select": "select",
    "choose": "select",
    "press": "press",
    "hover": "hover",
    "scroll": "scroll",
    "goto": "goto",
    "back": "back",
    "go_back": "back",
    "forward": "forward",
    "go_forward": "forward",
    "new_tab": "new_tab",
    "tab": "tab",
    "close_tab": "close_tab",
    "wait": "wait",
    "stop": "stop",
    "answer": "stop",
    "infeasible": "infeasible",
}
_TWO_WORDS = re.compile(r"^(go (?:back|forward|to)|(?:new|close) tab|right[ -]click)\b", re.I)
_IN_PROSE = ("click", "type", "select", "press", "hover")
_CLOSING = {"'": "'", '"': '"', "“": "”", "‘": "’", "`": "`", "«": "»"}
_FILLER_WORDS = (
    "on the at into in to for with from of a an element field text value box named called labeled labelled"
)
_FILLER = frozenset(_FILLER_WORDS.split())
_THEN_ENTER = re.compile(
    r"(?<=['\"”’»`\]])[\s,;]*(?:(?:and|then)\s+)*(?:press(?:\s+|\b))?(?:the\s+)?enter(?:\s+key)?[.\s]*$", re.I
)
_LONGEST_ID = 9  # digits
_PREFIX = re.compile(
    r"^(?:[-*>•]+\s+|\d+[.)]\s+)?(?:\**(?:(?:next\s+)?action|answer|output|response)\**\s*:\s*\**\s*)?", re.I
)


@dataclass(frozen=True, slots=True)
class Target:
    """What an action is aimed at: an id of the page view, or a name, or (a bare number) either. `role` narrows a name."""

    name: str = ""
    id: int | None = None
    role: str = ""

    def __str__(self) -> str:
        return quote(self.name) if self.name else f"[{self.id}]"


@dataclass(frozen=True, slots=True)
class Action:
    """One parsed action.

    `text`: what to type, which option, which key (Playwright's name), direction, address, answer, or why a task is
    infeasible. `amount`: seconds to wait, or the number of a tab, from 0. `enter`: press Enter after typing.
    """

    verb: Verb
    target: Target | None = None
    text: str = ""
    amount: float | None = None
    enter: bool = False


class ParseError(Exception):
    """Why a text is no action, or names no element; the agent sees the text."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["word", "quoted", "bracket"]
    text: str


def first_line(text: str) -> str:
    """The first line that says something: blank lines and code fences are skipped."""
    for line in text.splitlines():
        line = line.strip()
        if line and not re.fullmatch(r"```\w*", line):
            return line
    return ""


def parse(text: str) -> Action:
    """The action in the first non-empty line of `text`. Raises `ParseError`."""
    line = first_line(text)
    if not line:
        raise ParseError(f"no action given; {USAGE}")
    body = _PREFIX.sub("", line).strip()
    if len(body) > 2 and body[0] == body[-1] == "`":
        body = body[1:-1].strip()
    body = body.strip("*").strip()
    call = re.fullmatch(r"(\w+)\s*\((.*)\)[.;]?", body)
    if call and call[1].lower() in _SYNONYMS:
        body = f"{call[1]} {call[2]}"
    verb, rest = _verb(body)
    if verb is None:
        return _inside_prose(body)
    return _build(verb, _tokens(rest), rest)


def _verb(body: str) -> tuple[Verb | None, str]:
    body = _TWO_WORDS.sub(lambda match: re.sub(r"[ -]", "_", match[0].lower()).replace("go_to", "goto"), body)
    match = re.match(r"([A-Za-z]+(?:_[A-Za-z]+)*)(?:\s+|$|(?=[\['\"“‘`:]))", body)
    if match is None:
        return None, body
    verb = _SYNONYMS.get(match[1].lower())
    rest = body[match.end() :].lstrip(": ")
    if verb == "tab" and not re.fullmatch(r"\[?\d+\]?\.?", rest.strip()):
        return None, body  # a line copied from the page: tab 'Details' [3]
    return verb, rest


def _inside_prose(body: str) -> Action:
    """The command inside a sentence, if one verb is there, with something quoted, bracketed or a key after it."""
    found = list(re.finditer(rf"\b({'|'.join(_IN_PROSE)})(?:ing)?\b", body, re.I))
    if len(found) == 1:
        verb = _SYNONYMS[found[0][1].lower()]
        rest = body[found[0].end() :].strip()
        tokens = _tokens(rest)
        given = [token for token in tokens if token.kind != "word"]
        if verb == "press" and not given and tokens and find_key(tokens[0].text.strip(".")):
            return _press(tokens[:1], rest)
        if 1 <= len(given) <= (2 if verb in ("type", "select") else 1):
            return _build(verb, tokens[: _last_index(tokens, given[-1]) + 1], rest)
    raise ParseError(f"{_shown(body)} is not an action; {USAGE}")


def _shown(body: str) -> str:
    return quote(body if len(body) <= 60 else body[:59] + "…")


def _tokens(rest: str) -> list[_Token]:
    """Quoted strings, [bracketed] strings and bare words of an argument list."""
    tokens: list[_Token] = []
    position = 0
    while position < len(rest):
        character = rest[position]
        if character.isspace() or character in ",;":
            position += 1
            continue
        if character in _CLOSING and (end := _closing(rest, position)) > 0:
            text = re.sub(r"\\(.)", r"\1", rest[position + 1 : end])
            tokens.append(_Token("quoted", text))
            position = end + 1
            continue
        if character == "[" and (end := rest.find("]", position)) > 0:
            inner = rest[position + 1 : end].strip()
            if len(inner) > 1 and inner[0] in _CLOSING and inner[-1] == _CLOSING[inner[0]]:
                tokens.append(_Token("quoted", inner[1:-1]))
            else:
                tokens.append(_Token("bracket", inner))
            position = end + 1
            continue
        end = position
        while end < len(rest) and not rest[end].isspace():
            end += 1
        tokens.append(_Token("word", rest[position:end].rstrip(",;")))
        position = end
    return tokens


def _closing(rest: str, start: int) -> int:
    """Index of the quote that closes the one at `start`, or 0: the first not followed by a letter or digit, so that an
    apostrophe does not end a name."""
    closing = {_CLOSING[rest[start]]} | (
        {"'", "’"} if rest[start] in "'‘" else {'"', "”"} if rest[start] in '"“' else set()
    )
    position = start + 1
    while position < len(rest):
        if rest[position] == "\\":
            position += 2
            continue
        if rest[position] in closing:
            following = rest[position + 1 : position + 2]
            if not following.isalnum():
                return position
        position += 1
    return 0


def _build(verb: Verb, tokens: Sequence[_Token], rest: str) -> Action:
    if verb in ("back", "forward", "new_tab", "close_tab"):
        return Action(verb)
    if verb == "tab":
        return Action(verb, amount=float(rest.strip(" [].")))
    if verb == "goto":
        return _goto(tokens, rest)
    if verb == "wait":
        number = re.search(r"\d+(?:\.\d+)?", rest)
        return Action(verb, amount=min(float(number[0]), LONGEST_WAIT_S) if number else None)
    if verb in ("stop", "infeasible"):
        return Action(verb, text=_answer(tokens, rest))
    if verb == "scroll":
        return _scroll(rest)
    if verb == "press":
        return _press(tokens, rest)
    if verb in ("click", "right_click", "hover"):
        return Action(verb, target=_target(tokens, rest, verb))
    if verb == "type" and (enter := _THEN_ENTER.search(rest)):
        action = _two_arguments(verb, _tokens(rest[: enter.start()]), rest[: enter.start()])
        return replace(action, enter=True)
    return _two_arguments(verb, tokens, rest)


def _answer(tokens: Sequence[_Token], rest: str) -> str:
    """What is quoted or bracketed if that is all there is, else everything."""
    given = [token.text for token in tokens if token.kind != "word"]
    words = {token.text.lower().strip(":") for token in tokens if token.kind == "word"}
    return given[0] if len(given) == 1 and words <= _FILLER | {"answer", "is"} else rest.strip()


def _goto(tokens: Sequence[_Token], rest: str) -> Action:
    given = [token.text for token in tokens if token.kind != "word"] or rest.split()
    if len(given) != 1 or not given[0].strip():
        raise ParseError(f"goto takes one address, as in goto 'shopping/cart'; this gives {_shown(rest)}")
    return Action("goto", text=given[0].strip())


def _scroll(rest: str) -> Action:
    lowered = rest.lower()
    up, down = "up" in lowered.split(), "down" in lowered.split()
    if up and down:
        raise ParseError("scroll up or down, not both")
    return Action("scroll", text="up" if up else "down")


def _press(tokens: Sequence[_Token], rest: str) -> Action:
    """A key, or else (`press 'Submit'`) a click on what is named."""
    words = [token.text for token in tokens if token.text.lower() not in (*_FILLER, "key", "button")]
    if not words:
        raise ParseError("press what? write for example: press Enter")
    key = find_key("+".join(words).strip("."))
    return Action("press", text=key) if key else Action("click", target=_target(tokens, rest, "click"))


def _target(tokens: Sequence[_Token], rest: str, verb: str) -> Target:
    given = [token for token in tokens if token.kind != "word"]
    words = [token.text for token in tokens if token.kind == "word"]
    role = _role(words)
    if len(given) == 1:
        return _as_target(given[0], role)
    if len(given) == 2 and {token.kind for token in given} == {"bracket", "quoted"}:
        bracket = next(token for token in given if token.kind == "bracket")
        if bracket.text.isdigit():  # a line copied from the page, "button 'Ok' [3]"
            return Target(id=element_id(bracket.text))
    if given:
        raise ParseError(f"{verb} takes one element, this names {len(given)}; {USAGE}")
    content = [word for word in words if word.lower() not in _FILLER]
    if not content:
        raise ParseError(f"{verb} what? {USAGE}")
    text = re.sub(r"^(?:(?:on|the|at)\s+)+", "", rest.strip(), flags=re.I).rstrip(".").strip()
    return _named(text)


def _role(words: Sequence[str]) -> str:
    return next((word.lower().strip(".,:") for word in words if word.lower().strip(".,:") in ACTIONABLE), "")


def _as_target(token: _Token, role: str = "") -> Target:
    if token.kind == "bracket" and (number := re.fullmatch(r"(?:id\s*=?\s*)?#?(\d+)", token.text)):
        return Target(id=element_id(number[1]))
    name = token.text.strip()
    if not name:
        raise ParseError(f"the name is empty; {USAGE}")
    return Target(name=name, role=role)


def _two_arguments(verb: Verb, tokens: Sequence[_Token], rest: str) -> Action:
    """`type`/`select`: field and text in either order when words say so (`type 'Ada' into 'Name'`), or text alone."""
    given = [token for token in tokens if token.kind != "word"]
    words = [token.text.lower() for token in tokens if token.kind == "word"]
    if len(given) == 3 and verb == "type" and given[2].kind == "bracket" and given[2].text in ("0", "1"):
        given = given[:2]
    if len(given) > 2:
        raise ParseError(f"{verb} takes a field and a text, this gives {len(given)} arguments; {USAGE}")
    if len(given) == 2:
        first, second = given
        between = [
            token.text.lower() for token in tokens[tokens.index(first) + 1 : _last_index(tokens, second)]
        ]
        swapped = any(word in ("into", "in", "from", "on", "to") for word in between)
        field, text = (second, first) if swapped else (first, second)
        return Action(verb, target=_as_target(field), text=text.text)
    loose = " ".join(
        token.text for token in tokens if token.kind == "word" and token.text.lower() not in _FILLER
    )
    if not given and loose:
        return Action(verb, text=rest.strip())
    if len(given) == 1:
        (only,) = given
        is_id = only.kind == "bracket" and only.text.isdigit()
        if not loose and is_id:
            raise ParseError(f"{verb} what into [{only.text}]? {USAGE}")
        if not loose:
            return Action(verb, text=only.text)
        if is_id or any(word in ("into", "in", "from") for word in words) or tokens[0] == only:
            return Action(verb, target=_as_target(only), text=loose)
        if tokens[-1] == only:
            return Action(verb, target=_named(loose), text=only.text)
    raise ParseError(f"{verb} needs a field and a text; {USAGE}")


def element_id(digits: str) -> int:
    """The id that `digits` write. Raises `ParseError` for a number no page can have."""
    if len(digits) > _LONGEST_ID:
        raise ParseError(f"there is no element [{digits[:_LONGEST_ID]}…]")
    return int(digits)


def _named(text: str) -> Target:
    """What an unquoted name means; a bare number may be a name or an id."""
    number = re.fullmatch(r"#?(\d+)", text)
    return Target(name=text, id=element_id(number[1])) if number else Target(name=text)


def _last_index(tokens: Sequence[_Token], token: _Token) -> int:
    return max(index for index, other in enumerate(tokens) if other == token)


def resolve(elements: Sequence[Element], target: Target, verb: Verb) -> Element:
    """The element `target` means: by id, else by name: exact, then ignoring case, then a unique part of a name.

    Of several elements with the very same name the first that fits the verb is taken. Raises `ParseError` with the
    candidates when nothing, or more than one thing, fits.
    """
    fitting = [element for element in elements if _fits(element, verb)]
    if target.name:
        for pool in (fitting, elements):
            found = _by_name(pool, target)
            if found is not None:
                return found
    if target.id is not None:
        for element in elements:
            if element.id == target.id:
                return element
    raise ParseError(f"there is no {target} on the page; {_candidates(fitting or elements, target)}")


def canonical(action: Action, elements: Sequence[Element]) -> str:
    """`action` in the plain form of the action language: the element by its name where that is enough, else by its id.

    Raises `ParseError` when `elements` has no such element.
    """
    words = [action.verb if action.verb != "press" else f"press {action.text}"]
    if action.verb == "tab":
        words.append(f"{action.amount or 0:.0f}")
    if action.target is not None:
        element = resolve(elements, action.target, action.verb)
        named = element.name and resolve(elements, Target(name=element.name), action.verb) is element
        words.append(_quoted(element.name) if named else f"[{element.id}]")
    if action.verb in ("type", "select", "stop", "goto", "infeasible"):
        words.append(_quoted(action.text))
    elif action.verb == "scroll":
        words.append(action.text)
    if action.enter:
        words.append("enter")
    return " ".join(words)


def _quoted(text: str) -> str:
    """`text` in quotes, such that `parse` reads it back."""
    text = " ".join(text.splitlines())
    plain = quote(text)
    if _tokens(plain) == [_Token("quoted", text)]:
        return plain
    return "'" + re.sub(r"[\\'’]", r"\\\g<0>", text) + "'"


def _fits(element: Element, verb: Verb) -> bool:
    if verb == "type":
        return element.role in FIELDS and not element.options
    if verb == "select":
        return element.role in ("combobox", "listbox", "radio", "slider", "spinbutton") or bool(
            element.options
        )
    return True


def _by_name(elements: Sequence[Element], target: Target) -> Element | None:
    wanted = _normal(target.name)
    exact = [element for element in elements if element.name == target.name] or [
        element for element in elements if _normal(element.name) == wanted
    ]
    if exact:
        return next((element for element in exact if element.role == target.role), exact[0])
    role, _, name = target.name.partition(" ")
    if role.lower() in ACTIONABLE and name:
        same = [
            element
            for element in elements
            if element.role == role.lower() and _normal(element.name) == _normal(name)
        ]
        if same:
            return same[0]
    partial = [element for element in elements if wanted in _normal(element.name)]
    if not partial:
        partial = [element for element in elements if element.role == wanted]
    if len(partial) > 1 and target.role:
        partial = [element for element in partial if element.role == target.role] or partial
    if len(partial) > 1:
        raise ParseError(f"{quote(target.name)} fits {len(partial)} elements; {_candidates(partial, target)}")
    return partial[0] if partial else None


def _normal(name: str) -> str:
    return " ".join(name.casefold().replace("’", "'").split()).strip(" .:")


def _candidates(elements: Sequence[Element], target: Target, limit: int = 6) -> str:
    if not elements:
        return "the page has nothing of that kind"
    shown = ", ".join(
        f"{element.role} {quote(element.name) + ' ' if element.name else ''}[{element.id}]"
        for element in elements[:limit]
    )
    return f"there are: {shown}" + (f" and {len(elements) - limit} more" if len(elements) > limit else "")
