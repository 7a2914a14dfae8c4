"""The local arena's *reddit*: a Spirit forum with an invented community."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from webarena.sites.base import Account, Site, Template
from webarena.sites.reddit import app
from webarena.sites.reddit.content import MEMBER, MODERATOR

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["site"]


class Reddit:
    """Accounts: `member`, who wrote a few topics, and `moderator`."""

    name = "reddit"
    read_only = False
    accounts: Mapping[str, Account] = MappingProxyType({"member": MEMBER, "moderator": MODERATOR})

    def missing(self) -> str:
        return app.missing()

    def build(self, state: Path, seed: int) -> None:
        from webarena.sites.reddit.build import build

        build(state, seed)

    def load(self) -> None:
        app.load()

    def serve(self, state: Path, listener: socket.socket, url: str) -> None:
        app.serve(state, listener, url)

    async def login(self, page: Page, account: Account, url: str) -> None:
        await page.goto(f"{url}/user/login/")
        await page.get_by_label("Username").fill(account.name)
        await page.get_by_label("Password").fill(account.password)
        await page.get_by_role("button", name="Login").click()
        await page.get_by_role("link", name=f"Profile of {account.name}").wait_for()

    async def logged_in(self, page: Page, account: Account, url: str) -> bool:
        await page.goto(url)
        return await page.get_by_role("link", name=f"Profile of {account.name}", exact=True).count() == 1

    def templates(self) -> Sequence[Template]:
        from webarena.sites.reddit import tasks_moderate, tasks_read, tasks_write

        templates = (*tasks_read.TEMPLATES, *tasks_write.TEMPLATES, *tasks_moderate.TEMPLATES)
        return sorted(templates, key=lambda template: template.id)


site: Site = Reddit()
