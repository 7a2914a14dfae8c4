"""shopping: a storefront on django-oscar, with an invented shop."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from webarena.sites.base import Account, Template
from webarena.sites.shopping.content import CUSTOMER, STAFF

if TYPE_CHECKING:
    from playwright.async_api import Page


class ShopSite:
    """One of the two faces of the shop. Both run the same application, each process with cookies of its own."""

    read_only = False

    def __init__(
        self, name: str, accounts: dict[str, Account], tasks: Sequence[str], login_path: str
    ) -> None:
        self.name = name
        self.accounts = accounts
        self._tasks = tuple(tasks)
        self._login_path = login_path

    def missing(self) -> str:
        """What is not installed, with the remedy."""
        needed = {"oscar": "django-oscar", "waitress": "waitress", "whitenoise": "whitenoise"}
        absent = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
        return f"{', '.join(absent)} not installed: pip install 'coevo[arena]'" if absent else ""

    def build(self, state: Path, seed: int) -> None:
        from webarena.sites.shopping.build import build

        build(self.name, state, seed)

    def load(self) -> None:
        from webarena.sites.shopping import app

        app.load(self.name)

    def serve(self, state: Path, listener: socket.socket, url: str) -> None:
        from webarena.sites.shopping import app

        app.serve(self.name, state, listener)

    async def login(self, page: Page, account: Account, url: str) -> None:
        await page.goto(url + self._login_path)
        button = page.get_by_role("button", name=re.compile(r"^Log ?in$", re.I))
        form = page.locator("form").filter(has=button)
        await form.get_by_label(re.compile("Email|Username")).fill(account.name)
        await form.get_by_label("Password").fill(account.password)
        await form.get_by_role("button").click()
        await page.wait_for_url(lambda at: not at.startswith(url + self._login_path))

    async def logged_in(self, page: Page, account: Account, url: str) -> bool:
        await page.goto(url + "/accounts/profile/")
        return await page.get_by_text(account.name, exact=True).count() > 0

    def templates(self) -> Sequence[Template]:
        from importlib import import_module

        return [template for module in self._tasks for template in import_module(module).TEMPLATES]


site = ShopSite(
    "shopping",
    {"default": CUSTOMER},
    ("webarena.sites.shopping.tasks_read", "webarena.sites.shopping.tasks_change"),
    "/accounts/login/",
)

__all__ = ["STAFF", "ShopSite", "site"]
