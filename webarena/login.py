"""Logging in to the real WebArena sites: by their own forms, once an account, remembered on disk and checked before use."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coevo.errors import ConfigError, WorldError
from webarena.accounts import Account
from webarena.browser import Browser, first_line
from webarena.cache import cache_dir

CHECK_EVERY_S = 60.0
TIMEOUT_S = 60.0

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to log in to a kind of site. Paths are behind its base URL; fields are the form's names.

    `private` is a page that only someone logged in gets to see; others get the form, here or behind a redirect. It may
    name the account, `{user}`.
    """

    form: str
    user: str
    password: str
    private: str


RECIPES: Mapping[str, Recipe] = {
    "shopping": Recipe(
        "/customer/account/login/", "login[username]", "login[password]", "/customer/account/"
    ),
    "shopping_admin": Recipe("/", "login[username]", "login[password]", "/"),
    "reddit": Recipe("/login", "_username", "_password", "/user/{user}/account"),
    "gitlab": Recipe("/users/sign_in", "user[login]", "user[password]", "/-/profile"),
}
"""Magento's storefront and administration, Postmill, GitLab."""


class Logins:
    """Storage states by site and account, in `directory` (by default in the user's cache), readable by the user only.

    A state is checked when it was not for `check_every_s` seconds, and renewed when the site no longer accepts it.
    """

    def __init__(
        self,
        browser: Browser,
        *,
        directory: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        check_every_s: float = CHECK_EVERY_S,
    ) -> None:
        self.browser = browser
        self.directory = directory or cache_dir() / "logins"
        self._timeout_s = timeout_s
        self._check_every_s = check_every_s
        self._states: dict[Path, State] = {}
        self._checked: dict[Path, float] = {}
        self._locks: dict[Path, asyncio.Lock] = {}

    async def state(self, site: str, url: str, account: Account) -> State:
        """The storage state of `account` at the site at `url`. Concurrent callers log in once.

        Raises `WorldError` when the site does not answer or refuses the account.
        """
        path = self._path(site, url, account)
        async with self._locks.setdefault(path, asyncio.Lock()):
            state = self._states.get(path) or _read(path)
            if state is not None:
                fresh = time.monotonic() - self._checked.get(path, float("-inf")) < self._check_every_s
                if fresh:
                    return state
                if await is_logged_in(site, url, account, state, timeout_s=self._timeout_s):
                    return self._keep(path, state)
            state = await log_in(self.browser, site, url, account, timeout_s=self._timeout_s)
            _write(path, state)
            return self._keep(path, state)

    def forget(self, site: str, url: str) -> None:
        """Check the states of a site before their next use; after a reset its sessions may be gone."""
        for path in [path for path in self._checked if path.name.startswith(_prefix(site, url))]:
            del self._checked[path]

    def _keep(self, path: Path, state: State) -> State:
        self._states[path] = state
        self._checked[path] = time.monotonic()
        return state

    def _path(self, site: str, url: str, account: Account) -> Path:
        return self.directory / f"{_prefix(site, url)}{_digest(account.name, account.password)}.json"


async def log_in(
    browser: Browser, site: str, url: str, account: Account, *, timeout_s: float = TIMEOUT_S
) -> State:
    """Logs in by the site's form; the resulting storage state. Raises `WorldError` when it does not answer or refuses."""
    from playwright.async_api import Error

    recipe = _recipe(site)
    page = await browser.new_page()
    try:
        page.set_default_timeout(timeout_s * 1000)
        response = await page.goto(f"{url}{recipe.form}", wait_until="domcontentloaded")
        if response is not None and response.status >= 500:
            raise WorldError(f"{site}: {url}{recipe.form} answered {response.status}")
        await page.locator(f'input[name="{recipe.user}"]').first.fill(account.name)
        await page.locator(f'input[name="{recipe.password}"]').first.fill(account.password)
        async with page.expect_navigation(wait_until="domcontentloaded"):
            await page.locator(f'input[name="{recipe.password}"]').first.press("Enter")
        with contextlib.suppress(Error):  # what a page still loads may set cookies
            await page.wait_for_load_state("load")
        state: State = dict(await page.context.storage_state())
    except Error as error:
        raise WorldError(
            f"{site}: logging in at {url}{recipe.form} failed: {first_line(error)}",
            hint="see whether the site runs and its form is the one of the WebArena image",
        ) from error
    finally:
        await browser.close_page(page)
    if not await is_logged_in(site, url, account, state, timeout_s=timeout_s):
        raise WorldError(
            f"{site}: {url} does not accept the account {account.name!r}",
            hint=f"set COEVO_WEBARENA_{site.upper()}_USER and COEVO_WEBARENA_{site.upper()}_PASSWORD",
        )
    return state


async def is_logged_in(
    site: str, url: str, account: Account, state: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S
) -> bool:
    """Whether the site shows the private page to who has `state`. Raises `WorldError` when it does not answer."""
    recipe = _recipe(site)
    private = f"{url}{recipe.private.format(user=account.name)}"
    status, text, final = await fetch_text(private, state, timeout_s=timeout_s)
    if status >= 500:
        raise WorldError(f"{site}: {private} answered {status}", hint="see the site's own log")
    at_form = recipe.form != "/" and urlsplit(final).path.rstrip("/").endswith(recipe.form.rstrip("/"))
    return status < 400 and not at_form and f'name="{recipe.password}"' not in text


async def fetch_text(
    url: str, state: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> tuple[int, str, str]:
    """Status, text and final address of a page, with a storage state's cookies. Raises `WorldError` without an answer."""
    import httpx

    jar = httpx.Cookies()
    for cookie in (state or {}).get("cookies", ()):
        jar.set(cookie["name"], cookie["value"], domain=cookie["domain"], path=cookie["path"])
    try:
        async with httpx.AsyncClient(
            cookies=jar, timeout=timeout_s, follow_redirects=True, trust_env=False
        ) as client:
            response = await client.get(url)
            return response.status_code, response.text, str(response.url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WorldError(
            f"{url} does not answer: {error or type(error).__name__}", hint="see whether the site runs"
        ) from error


def merge(states: Mapping[str, State]) -> State:
    """One storage state of several sites'. Raises `ConfigError` when a cookie of one site would replace another's."""
    cookies: dict[tuple[str, str, str], tuple[str, Any]] = {}
    origins: list[Any] = []
    for site, state in states.items():
        origins += state.get("origins", [])
        for cookie in state.get("cookies", []):
            key = (cookie["name"], cookie["domain"], cookie["path"])
            other, kept = cookies.setdefault(key, (site, cookie))
            if kept["value"] != cookie["value"]:
                raise ConfigError(
                    f"{other} and {site} share the cookie {cookie['name']!r} on the host {cookie['domain']}",
                    hint="give the two sites different host names; browsers do not tell ports apart",
                )
    return {"cookies": [cookie for _, cookie in cookies.values()], "origins": origins}


def _recipe(site: str) -> Recipe:
    if site not in RECIPES:
        raise ConfigError(f"there is no login for {site!r}", hint=f"sites with one: {', '.join(RECIPES)}")
    return RECIPES[site]


def _prefix(site: str, url: str) -> str:
    return f"{site}-{_digest(url)}-"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()


def _read(path: Path) -> State | None:
    """A remembered state; None where there is none, or it cannot be read."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and isinstance(state.get("cookies"), list) else None


def _write(path: Path, state: State) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")  # only the user can read it
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace(name, path)


def with_login(sites: Sequence[str]) -> list[str]:
    """Those of `sites` that have accounts."""
    return [site for site in sites if site in RECIPES]
