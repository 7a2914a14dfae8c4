"""Names of keys, as people and models write them, and as Playwright knows them."""

from __future__ import annotations

import re

_KEYS = {
    "enter": "Enter",
    "return": "Enter",
    "tab": "Tab",
    "escape": "Escape",
    "esc": "Escape",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Delete",
    "del": "Delete",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "arrowup": "ArrowUp",
    "arrowdown": "ArrowDown",
    "arrowleft": "ArrowLeft",
    "arrowright": "ArrowRight",
    "home": "Home",
    "end": "End",
    "pageup": "PageUp",
    "pagedown": "PageDown",
}
_MODIFIERS = {
    "ctrl": "Control",
    "control": "Control",
    "shift": "Shift",
    "alt": "Alt",
    "meta": "Meta",
    "cmd": "Meta",
}


def find_key(text: str) -> str | None:
    """Playwright's name of a key or combination such as `ctrl+a`, or None."""
    *modifiers, last = [
        part.strip() for part in re.split(r"\s*\+\s*|(?<=\w)-(?=\w)", text) if part.strip()
    ] or [""]
    names = [_MODIFIERS.get(modifier.lower(), "") for modifier in modifiers]
    key = _KEYS.get(last.lower()) or (last if len(last) == 1 or re.fullmatch(r"F\d{1,2}", last) else None)
    if key is not None and len(key) == 1 and "Shift" in names:
        key = key.upper()
    return None if key is None or not all(names) else "+".join([*names, key])
