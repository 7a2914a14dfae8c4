"""What the agent sees: Playwright's aria snapshot, boiled down to one short line an element.

    button 'Ok' [1]
    textbox 'Name' [2] = 'Ada'
    checkbox 'Accept the terms' [3] checked
    combobox 'Country' [4] = 'Peru' options 'Chile', 'Peru'
    Some plain text of the page

Elements an agent can act on carry an id, counted from 1 in page order. `parse_snapshot` and `compact` are pure; `observe`
asks the page. Roleless elements that react to clicks have been given a role and a name by `page.js` before the
snapshot is taken, so everything here comes from one source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

HIDDEN_NAME = "coevo:hidden"
INIT_SCRIPT = files("webarena").joinpath("page.js").read_text(encoding="utf-8")

ACTIONABLE = frozenset(
    {
        "button",
        "checkbox",
        "combobox",
        "gridcell",
        "link",
        "listbox",
        "menuitem",
        "menuitemcheckbox",
        "menuitemradio",
        "option",
        "radio",
        "searchbox",
        "slider",
        "spinbutton",
        "switch",
        "tab",
        "textbox",
        "treeitem",
    }
)
FIELDS = frozenset({"textbox", "searchbox", "spinbutton", "combobox", "slider"})
LABELLED = FIELDS | {"listbox", "checkbox", "radio", "switch"}
COMPOSED = frozenset({"tab", "menuitem", "option", "treeitem"})  # their name may be a link inside
NAMED_ONLY = frozenset({"img", "dialog", "alertdialog", "progressbar", "meter", "heading", "alert", "status"})
STATES = ("checked", "selected", "pressed", "expanded", "disabled")

Box = tuple[int, int, int, int]

_KEY = re.compile(
    r'^(?P<role>[A-Za-z]+)(?: (?P<name>"(?:[^"\\]|\\.)*"))?(?P<attributes>(?: \[[^\]]*\])*)$', re.S
)
_HEAD = re.compile(r'[A-Za-z]+(?: "(?:[^"\\]|\\.)*")?(?: \[[^\]]*\])*', re.S)
_ATTRIBUTE = re.compile(r" \[([a-z-]+)(?:=([^\]]*))?\]")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(slots=True)
class Node:
    """One node of a snapshot. `role` is `text` for plain text, whose text is in `text`.

    `place` is where it is on the screen, as near as that is known: its box, or that of the element or frame it is in.
    """

    role: str
    name: str = ""
    text: str = ""
    ref: str = ""
    box: Box | None = None
    place: Box | None = None
    framed: bool = False
    states: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    def words(self) -> str:
        """All text in and below the node, in order."""
        parts = [self.text, *(child.name if child.name else child.words() for child in self.children)]
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Element:
    """Something the agent can act on. `ref` addresses it in the page until the next snapshot, `box` says where it was
    (x, y, width, height in the viewport, pixels)."""

    id: int
    role: str
    name: str
    ref: str
    states: tuple[str, ...] = ()
    value: str = ""
    options: tuple[str, ...] = ()
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class PageView:
    """The page as lines of text, and the elements those lines name. `places`: where each line is on the screen."""

    lines: tuple[str, ...]
    elements: tuple[Element, ...]
    places: tuple[Box | None, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def quote(text: str) -> str:
    """`text` in quotes the action parser reads back: single ones, or double ones around an apostrophe."""
    return f'"{text}"' if "'" in text and '"' not in text else f"'{text}'"


def parse_snapshot(snapshot: str) -> list[Node]:
    """The tree behind the text of an aria snapshot (Playwright's YAML). Unknown lines are kept as text."""
    roots: list[Node] = []
    stack: list[tuple[int, Node]] = []
    for line in snapshot.split("\n"):
        body = line.lstrip(" ")
        if not body.startswith("- "):
            continue
        depth = len(line) - len(body)
        while stack and stack[-1][0] >= depth:
            stack.pop()
        parent = stack[-1][1] if stack else None
        body = body[2:]
        if body.startswith("/"):
            key, _, value = body[1:].partition(": ")
            if parent is not None:
                parent.properties[key] = _scalar(value)
            continue
        if body.startswith("text: "):
            node = Node("text", text=_scalar(body[6:]))
        else:
            node = _element(body)
            node.framed = parent is not None and (parent.framed or parent.role == "iframe")
            if node.framed:
                node.box = None  # it counts from the frame's corner
            stack.append((depth, node))
        node.place = node.box or (parent.place if parent is not None else None)
        (parent.children if parent is not None else roots).append(node)
    return roots


def _element(body: str) -> Node:
    key, value = _split_key(body)
    match = _KEY.match(key)
    if match is None:
        return Node("text", text=body)
    attributes = dict(_ATTRIBUTE.findall(match["attributes"]))
    name = _unescape(match["name"][1:-1]) if match["name"] else ""
    states = {
        state: attributes[state] or "true" for state in (*STATES, "active", "level") if state in attributes
    }
    properties = {"cursor": attributes["cursor"]} if "cursor" in attributes else {}
    x, y, width, height = map(int, attributes["box"].split(",")) if "box" in attributes else (0, 0, 0, 0)
    box = (x, y, width, height) if width and height else None
    reference = attributes.get("ref", "")
    return Node(match["role"], name, _scalar(value), reference, box, states=states, properties=properties)


def _split_key(body: str) -> tuple[str, str]:
    """`key: value`, `key:` or `key`; a key with awkward characters comes in single quotes, doubled inside."""
    if body.startswith("'"):
        end = 1
        while end < len(body):
            if body[end] == "'":
                if body[end + 1 : end + 2] != "'":
                    break
                end += 1
            end += 1
        return body[1:end].replace("''", "'"), body[end + 1 :].removeprefix(":").strip()
    if body.endswith(":"):
        return body[:-1], ""
    head = _HEAD.match(body)
    end = head.end() if head else -1
    if end < 0 or body[end : end + 2] != ": ":
        return body, ""
    return body[:end], body[end + 2 :]


def _scalar(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _unescape(text[1:-1])
    return text


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPES.get(escape, escape)

    return re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|.)", character, text, flags=re.S)


def compact(nodes: Sequence[Node], *, max_lines: int | None = 120, max_text: int = 160) -> PageView:
    """The view of a snapshot: at most `max_lines` lines (the rest is counted), texts cut at `max_text` characters."""
    lines: list[str] = []
    places: list[Box | None] = []
    elements: list[Element] = []

    def write(line: str, node: Node) -> None:
        lines.append(line)
        places.append(node.place)

    def element(node: Node, name: str, value: str = "", options: tuple[str, ...] = ()) -> None:
        states = tuple(state for state in STATES if state in node.states)
        item = Element(
            len(elements) + 1, node.role, _cut(name, max_text), node.ref, states, value, options, node.box
        )
        elements.append(item)
        if lines and item.role in LABELLED and lines[-1].strip(" :*") == item.name.strip(" :*"):
            lines.pop()  # the text that labels it
            places.pop()
        write(line_of(item), node)

    for node in _flat(nodes):
        if node.role == "text":
            text = _cut(node.text, max_text)
            if any(map(str.isalnum, text)) and not _repeats(text, elements, lines):
                write(text, node)
        elif node.role in ("combobox", "listbox") and (options := _options(node)):
            chosen = ", ".join(option.name for option in options if "selected" in option.states)
            element(node, node.name, chosen, tuple(option.name for option in options))
        elif node.role in FIELDS:
            value = node.text or " ".join(child.text for child in node.children if child.role == "text")
            element(node, node.name or node.properties.get("placeholder", ""), _middle_out(value, max_text))
        elif node.role in ACTIONABLE:
            element(node, node.name or node.words())
        elif node.name:
            write(f"{node.role} {quote(_cut(node.name, max_text))}", node)
    if max_lines is not None and len(lines) > max_lines:
        lines[max_lines:] = [f"… {len(lines) - max_lines} more lines"]
        places[max_lines:] = [None]
    return PageView(tuple(lines), tuple(elements), tuple(places))


def _flat(nodes: Sequence[Node]) -> Iterator[Node]:
    """Nodes worth a line, in page order: actionable ones, named images and the like, and text."""
    for node in nodes:
        if node.name == HIDDEN_NAME:
            continue
        if node.role == "text":
            yield node
        elif node.role in FIELDS or node.role == "listbox":
            if node.ref or node.text or node.children:
                yield node
        elif node.role in ACTIONABLE and (node.ref or "disabled" in node.states):
            inner = list(_flat([child for child in node.children if _has_actionable(child)]))
            if (
                inner
                and not node.name
                and node.role in COMPOSED
                and {child.role for child in inner} == {"link"}
            ):
                node.name, inner = node.words(), []
            if node.name or not inner:
                yield node
            yield from (child for child in inner if child.name != node.name or not node.name)
        elif node.role == "row":
            yield from _row(node)
        elif node.role in NAMED_ONLY and node.name:
            yield Node(node.role, node.name, place=node.place)
            yield from _flat(
                [child for child in node.children if child.role != "text" or child.text not in node.name]
            )
        else:
            if node.properties.get("cursor") == "pointer" and node.ref:
                yield Node("button", node.words(), ref=node.ref, box=node.box, place=node.place)
                continue
            if node.text:
                yield Node("text", text=node.text, place=node.place)
            yield from _flat(node.children)


def _row(node: Node) -> Iterator[Node]:
    """A row of a table: neighbouring cells of mere text on one line, the others as they are."""
    plain: list[str] = []
    for cell in node.children:
        if not _has_actionable(cell):
            plain.append(cell.name or cell.words())
            continue
        yield from _joined(plain, node)
        plain = []
        yield from _flat([cell])
    yield from _joined(plain if node.children else [node.name], node)


def _joined(cells: Sequence[str], row: Node) -> Iterator[Node]:
    if text := " | ".join(cell for cell in cells if cell):
        yield Node("text", text=text, place=row.place)


def _has_actionable(node: Node) -> bool:
    return (node.role in ACTIONABLE and bool(node.ref)) or any(
        _has_actionable(child) for child in node.children
    )


def _options(node: Node) -> list[Node]:
    found: list[Node] = []
    for child in node.children:
        if child.role == "option":
            found.append(child)
        else:
            found.extend(_options(child))
    return found


def _repeats(text: str, elements: Sequence[Element], lines: Sequence[str]) -> bool:
    """Whether a text only repeats the label of the element in the line before it."""
    return bool(
        elements and lines and lines[-1] == line_of(elements[-1]) and text.strip(" :*") == elements[-1].name
    )


def _cut(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _middle_out(text: str, limit: int) -> str:
    """`text` without its middle when it is longer than `limit`: both ends of a long value may matter."""
    text = " ".join(text.split())
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def line_of(element: Element) -> str:
    parts = [element.role]
    if element.name:
        parts.append(quote(element.name))
    parts.append(f"[{element.id}]")
    if element.value:
        parts.append(f"= {quote(element.value)}")
    parts.extend(element.states)
    if element.options:
        parts.append("options " + ", ".join(quote(option) for option in element.options))
    return " ".join(parts)


async def observe(page: Page, *, timeout_ms: float, max_lines: int | None = 120) -> PageView:
    """The current view of `page`. Playwright's errors pass through."""
    snapshot = await page.locator("body").aria_snapshot(mode="ai", boxes=True, timeout=timeout_ms)
    return compact(parse_snapshot(snapshot), max_lines=max_lines)
