"""Carrying out an action on a page with real input events, in as few round trips as it takes.

An element is brought into view and hit-tested by one script (which also says why it cannot be reached), then the
mouse or keyboard is driven from outside, so that the page sees trusted events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from webarena.actions import Action, ParseError, Target, resolve
from webarena.observation import FIELDS, Element, PageView, quote

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

ELEMENT_TIMEOUT_MS = 1000.0
DEFAULT_WAIT_S = 1.0
_FORMATTED_INPUTS = frozenset({"date", "time", "datetime-local", "month", "week", "color", "range"})


class ActionFailed(Exception):
    """The action was understood and could not be done; the text goes to the agent."""


async def perform(page: Page, view: PageView, action: Action) -> None:
    """Does `action` on `page`, whose last view is `view`. What leaves the page or ends the episode is the environment's.

    Raises `ParseError` when the view has no such element, `ActionFailed` when the element cannot be acted on, and
    Playwright's errors when the page breaks.
    """
    if action.verb in ("click", "right_click", "hover"):
        assert action.target is not None
        await _point(page, view, action)
    elif action.verb == "type":
        await _type(page, _field(view.elements, action), action.text)
        if action.enter:
            await page.keyboard.press("Enter")
    elif action.verb == "select":
        await _select(page, view, action)
    elif action.verb == "press":
        await page.keyboard.press(action.text)
    elif action.verb == "scroll":
        _check(
            await page.evaluate(
                "([down, by]) => __coevo.scroll(down, by)", [action.text != "up", action.amount]
            ),
            "scroll",
        )
    elif action.verb == "wait":
        seconds = DEFAULT_WAIT_S if action.amount is None else action.amount
        await page.evaluate("(ms) => __coevo.waitForChange(ms)", seconds * 1000)


async def _point(page: Page, view: PageView, action: Action) -> None:
    assert action.target is not None
    try:
        element = resolve(view.elements, action.target, action.verb)
    except ParseError:
        owner = _owner_of_option(view.elements, action.target)
        if owner is None or action.verb != "click":
            raise
        return await _choose(page, owner, action.target.name)
    if element.options and action.verb == "click":
        raise ActionFailed(
            f"{element.role} {quote(element.name)} is a list: write select {quote(element.name)} 'OPTION'"
        )
    point = await _prepare(page, element)
    if point["framed"]:
        locator = _locate(page, element)
        if action.verb == "hover":
            await locator.hover(timeout=ELEMENT_TIMEOUT_MS)
        else:
            await locator.click(button=_button(action), timeout=ELEMENT_TIMEOUT_MS)
    elif action.verb == "hover":
        await page.mouse.move(point["x"], point["y"])
    else:
        await page.mouse.click(point["x"], point["y"], button=_button(action))
    return None


def _button(action: Action) -> Literal["left", "right"]:
    return "right" if action.verb == "right_click" else "left"


async def _type(page: Page, element: Element | None, text: str) -> None:
    """Replaces the content of a field. Only the last character comes from the keyboard, for scripts that listen to keys;
    the rest is inserted at once."""
    if element is not None:
        point = await _prepare(page, element)
        if not point["editable"]:
            raise ActionFailed(f"{element.role} {quote(element.name)} cannot be typed into")
        locator = _locate(page, element)
        if point["type"] in _FORMATTED_INPUTS:
            await locator.fill(_input_value(point["type"], text), timeout=ELEMENT_TIMEOUT_MS)
            return
        if point["framed"]:
            await locator.click(timeout=ELEMENT_TIMEOUT_MS)
        else:
            await page.mouse.click(point["x"], point["y"])
        if point["framed"]:
            await locator.press("ControlOrMeta+a", timeout=ELEMENT_TIMEOUT_MS)
        else:
            await page.evaluate("() => __coevo.selectContent()")
    if not text:
        await page.keyboard.press("Delete")
        return
    if len(text) > 1:
        await page.keyboard.insert_text(text[:-1])
    await page.keyboard.type(text[-1])


async def _select(page: Page, view: PageView, action: Action) -> None:
    if action.target is None:
        owner = _owner_of_option(view.elements, Target(name=action.text))
        if owner is not None:
            return await _choose(page, owner, action.text)
        return await _point(page, view, Action("click", target=Target(name=action.text)))
    element = resolve(view.elements, action.target, "select")
    if element.options:
        return await _choose(page, element, action.text)
    if element.role in ("slider", "spinbutton", "textbox"):
        return await _type(page, element, action.text)
    return await _point(page, view, Action("click", target=Target(name=action.text)))


async def _choose(page: Page, element: Element, option: str) -> None:
    locator = _locate(page, element)
    result = await locator.evaluate(
        "(element, label) => __coevo.choose(element, label)", option, timeout=ELEMENT_TIMEOUT_MS
    )
    _check(result, f"{element.role} {quote(element.name)}")


def _owner_of_option(elements: Sequence[Element], target: Target) -> Element | None:
    """The one list that offers an option of that name."""
    wanted = target.name.casefold()
    owners = [
        element for element in elements if any(option.casefold() == wanted for option in element.options)
    ]
    return owners[0] if len(owners) == 1 and wanted else None


def _field(elements: Sequence[Element], action: Action) -> Element | None:
    """Where text goes: the named field, the only field of the page, or (None) whatever has the focus."""
    if action.target is not None:
        return resolve(elements, action.target, "type")
    fields = [
        element for element in elements if element.role in ("textbox", "searchbox") and not element.options
    ]
    return fields[0] if len(fields) == 1 else None


def _locate(page: Page, element: Element) -> Locator:
    return page.locator(f"aria-ref={element.ref}")


async def _prepare(page: Page, element: Element) -> dict[str, Any]:
    from playwright.async_api import TimeoutError

    label = f"{element.role} {quote(element.name)}" if element.name else f"{element.role} [{element.id}]"
    if not element.ref:
        raise ActionFailed(f"{label} cannot be clicked: it is disabled or hidden")
    point: dict[str, Any] | None = None
    if element.box is not None:
        field = element.role in FIELDS
        point = await page.evaluate("([box, field]) => __coevo.prepareAt(box, field)", [element.box, field])
    if point is None:
        try:
            point = await _locate(page, element).evaluate(
                "(element) => __coevo.prepare(element)", timeout=ELEMENT_TIMEOUT_MS
            )
        except TimeoutError:
            raise ActionFailed(f"{label}: it is no longer on the page") from None
    assert point is not None
    _check(point, label)
    return point


def _check(result: dict[str, Any], label: str) -> None:
    if "error" in result:
        raise ActionFailed(f"{label}: {result['error']}")


def _input_value(kind: str, text: str) -> str:
    """`text` in the form a formatted input takes: dates as year-month-day, times in 24 hours."""
    if kind == "date" and (match := re.fullmatch(r"(\d{1,2})[/.](\d{1,2})[/.](\d{4})", text.strip())):
        return f"{match[3]}-{int(match[1]):02}-{int(match[2]):02}"
    if kind == "time" and (match := re.fullmatch(r"(\d{1,2}):(\d{2})\s*([AaPp])\.?[Mm]\.?", text.strip())):
        hour = int(match[1]) % 12 + (12 if match[3] in "Pp" else 0)
        return f"{hour:02}:{match[2]}"
    return text.strip()
