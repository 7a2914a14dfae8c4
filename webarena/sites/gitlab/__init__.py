"""An issue tracker on Roundup: projects, issues, comments, labels, milestones and members with roles."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webarena.sites.base import Account, Template
from webarena.sites.gitlab.content import ACCOUNTS

if TYPE_CHECKING:
    from playwright.async_api import Page

THREADS = 4


class Gitlab:
    """The site `gitlab`. Its state is three SQLite files; logins are in `db-session`, beside the content in `db`."""

    name = "gitlab"
    read_only = False
    accounts: Mapping[str, Account] = ACCOUNTS

    def __init__(self) -> None:
        self._tracker: Any = None

    def missing(self) -> str:
        from importlib.util import find_spec

        lacking = [name for name in ("roundup", "jinja2", "waitress") if find_spec(name) is None]
        if not lacking:
            return ""
        return f"the site gitlab needs {', '.join(lacking)}: pip install 'coevo[arena]'"

    def build(self, state: Path, seed: int) -> None:
        from webarena.sites.gitlab.build import build

        build(state, seed)

    def load(self) -> None:
        import waitress  # noqa: F401

        from webarena.sites.gitlab.app import Tracker

        self._tracker = Tracker()
        self._tracker.warm()

    def serve(self, state: Path, listener: socket.socket, url: str) -> None:
        import logging

        from waitress import create_server

        from webarena.sites.gitlab.app import Application

        if self._tracker is None:
            self.load()
        logging.getLogger("waitress").setLevel(logging.ERROR)
        self._tracker.use(state, url)
        create_server(Application(self._tracker), sockets=[listener], threads=THREADS, ident=None).run()

    async def login(self, page: Page, account: Account, url: str) -> None:
        await page.goto(f"{url}/?@template=login")
        await page.get_by_label("Username").fill(account.name)
        await page.get_by_label("Password").fill(account.password)
        await page.get_by_role("main").get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Sign out").wait_for()

    async def logged_in(self, page: Page, account: Account, url: str) -> bool:
        await page.goto(f"{url}/")
        return await page.locator(f'header [data-username="{account.name}"]').count() > 0

    def templates(self) -> Sequence[Template]:
        from webarena.sites.gitlab import tasks_information, tasks_issues, tasks_navigation, tasks_projects

        modules = (tasks_information, tasks_navigation, tasks_issues, tasks_projects)
        return sorted((one for module in modules for one in module.TEMPLATES), key=lambda one: one.id)


site = Gitlab()
