"""Logged-in accounts: each account of a site logs in once through the site's form; the state with these sessions is kept.

Beside the seed state lies `ready-<time>/`: `state/` is a snapshot taken after all logins, `storage.json` the browser's state of
each account. A slot that begins with this snapshot knows the sessions, so that an episode only needs the cookies.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.errors import WorldError
from webarena.sites.base import Site

if TYPE_CHECKING:
    from webarena.browser import Browser
    from webarena.sites.client import SiteServer

KEPT_S = 5 * 24 * 3600.0  # web frameworks end sessions after a week or two
FORGOTTEN_S = 30 * 24 * 3600.0
ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class LoginStates:
    """Browser states by account, and the folder with the site's state they belong to. `url`: where they were made."""

    base: Path
    url: str
    states: Mapping[str, Mapping[str, Any]]

    def state(self, account: str, url: str) -> dict[str, Any] | None:
        """Storage state of an account for the copy of the site at `url`; "default" is the first account."""
        name = next(iter(self.states), "") if account == "default" else account
        if name not in self.states:
            return None
        state = self.states[name]
        origins = [
            {**origin, "origin": url} if origin["origin"] == self.url else origin
            for origin in state["origins"]
        ]
        return {"cookies": list(state["cookies"]), "origins": origins}


def saved_logins(folder: Path, site: Site) -> LoginStates | None:
    """The newest logins kept beside the seed state in `folder`, None if there are none that hold a while yet."""
    for ready in sorted(folder.glob("ready-*"), reverse=True):
        if time.time() - _made_at(ready) > KEPT_S:
            return None
        logins = logins_of(ready / "state")
        if logins is not None and set(logins.states) == set(site.accounts):
            return logins
    return None


def logins_of(base: Path) -> LoginStates | None:
    """The logins that belong to a folder of state, None if it is not one made after logins."""
    try:
        saved = json.loads((base.parent / "storage.json").read_text())
    except (OSError, ValueError):
        return None
    return LoginStates(base, saved["url"], saved["states"])


async def make_logins(site: Site, server: SiteServer, folder: Path, browser: Browser) -> LoginStates:
    """Logs in all accounts on the server's slot 0 and keeps the outcome in `folder`.

    Raises `WorldError` when a login does not take, `ConfigError` without a Chromium.
    """
    url = server.url(0)
    states = {key: await _log_in(site, key, url, browser) for key in site.accounts}
    part = folder / f"login.part-{os.getpid()}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    await server.ask("snapshot", slot=0, to=str(part / "state"))
    (part / "storage.json").write_text(json.dumps({"url": url, "states": states}))
    ready = folder / f"ready-{time.time_ns()}"
    part.rename(ready)
    for old in folder.glob("ready-*"):
        if time.time() - _made_at(old) > FORGOTTEN_S:
            shutil.rmtree(old, ignore_errors=True)
    return LoginStates(ready / "state", url, states)


async def _log_in(site: Site, key: str, url: str, browser: Browser) -> dict[str, Any]:
    from playwright.async_api import Error

    why = "its page does not show it"
    for _ in range(ATTEMPTS):
        page = await browser.new_page()
        try:
            await site.login(page, site.accounts[key], url)
            if await site.logged_in(page, site.accounts[key], url):
                state: dict[str, Any] = dict(await page.context.storage_state())
                return state
        except Error as error:
            why = str(error).strip().split("\n", 1)[0]
        finally:
            with contextlib.suppress(Error):
                await browser.close_page(page)
    raise WorldError(
        f"site {site.name}: account {key!r} could not log in: {why}", hint=f"try it by hand at {url}"
    )


def _made_at(ready: Path) -> float:
    """Seconds since the epoch, from the folder's name; 0 for a strange one."""
    digits = ready.name.partition("-")[2]
    return int(digits) / 1e9 if digits.isdigit() else 0.0
