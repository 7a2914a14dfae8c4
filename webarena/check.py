"""Whether the real WebArena sites can be used: each answers, knows its account, and tells its version where it does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from coevo.errors import CoevoError
from webarena.accounts import account_of
from webarena.browser import Browser
from webarena.configs import SITES
from webarena.fetch import NAMES, task_file
from webarena.login import fetch_text, log_in, with_login
from webarena.real import PING_TIMEOUT_S, ping, site_urls

VERSIONS = {
    "shopping": ("/magento_version", re.compile(r"Magento/[\w. ()-]+")),
    "gitlab": ("/api/v4/version", re.compile(r'"version"\s*:\s*"([^"]+)"')),
    "map": ("/api/capabilities", re.compile(r'generator="([^"]+)"')),
}
"""Where a site tells its version, and how it is written there."""


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """One copy of a site, or a task file. `problem` and `next_step` are "" if nothing is wrong."""

    name: str
    url: str
    login: str = ""
    version: str = ""
    problem: str = ""
    next_step: str = ""


async def check_sites(sites: Sequence[str] = SITES, *, timeout_s: float = PING_TIMEOUT_S) -> list[SiteCheck]:
    """Tries every copy of the named sites. Raises `ConfigError` for what is written wrong, not for what is missing."""
    urls = site_urls()
    browser = Browser()
    try:
        return [
            *(_without_url(site) for site in sites if site not in urls),
            *await asyncio.gather(
                *(_check(browser, site, url, timeout_s) for site in sites for url in urls.get(site, ()))
            ),
        ]
    finally:
        await browser.close()


def check_files() -> list[SiteCheck]:
    """The public task files."""
    found = []
    for name in NAMES:
        try:
            found.append(SiteCheck(f"{name} tasks", str(task_file(name))))
        except CoevoError as error:
            found.append(SiteCheck(f"{name} tasks", "", problem=error.message, next_step=error.hint or ""))
    return found


def _without_url(site: str) -> SiteCheck:
    hint = f"set WA_{site.upper()} to its URL, or WEBARENA_HOST to the host of the published images"
    return SiteCheck(site, "", problem="no URL", next_step=hint)


async def _check(browser: Browser, site: str, url: str, timeout_s: float) -> SiteCheck:
    login = version = ""
    try:
        await ping(url, timeout_s=timeout_s)
        state = None
        if with_login([site]):
            account = account_of(site)
            state = await log_in(browser, site, url, account, timeout_s=timeout_s)
            login = account.name
        if site in VERSIONS:
            path, pattern = VERSIONS[site]
            status, text, _ = await fetch_text(f"{url}{path}", state, timeout_s=timeout_s)
            match = pattern.search(text) if status < 400 else None
            version = match[match.re.groups] if match else ""
    except CoevoError as error:
        return SiteCheck(site, url, login, version, error.message, error.hint or "")
    return SiteCheck(site, url, login, version)
