"""Browser tabs and sites for episodes: every episode has a context and a lease of sites of its own."""

from __future__ import annotations

import asyncio
import contextlib

from coevo.env import Environment, Task
from coevo.errors import WorldError
from webarena.addresses import Addresses
from webarena.browser import Browser
from webarena.configs import TaskConfig
from webarena.environment import Options, Scorer, WebArenaEnvironment, task_config
from webarena.tabs import CLEAN_TIMEOUT_S, Tabs
from webarena.worlds import Lease, Worlds

LOGINS = ("shopping", "shopping_admin", "reddit", "gitlab")
"""Sites one can log in to."""


def account_of(config: TaskConfig) -> str:
    """Whom a task is done as, for `Worlds.lease`: an account of the local arena; else "default" or, where the task file
    has a login for some of its sites only, "default@" and those, joined by dots; "" for nobody."""
    if config.account is not None:
        return config.account
    if not config.storage_state:
        return ""
    file = config.storage_state.rsplit("/", 1)[-1]
    named = file.rsplit(".", 1)[0].removesuffix("_state").split(".")
    possible = [site for site in config.sites if site in LOGINS]
    return "default" if set(possible) <= set(named) else f"default@{'.'.join(named)}"


def writes(config: TaskConfig) -> bool:
    """Whether a task is meant to change a site: it says so, or is scored by what pages hold afterwards."""
    if config.kind is not None:
        return config.kind == "change"
    return "program_html" in config.eval.eval_types


class WebPool:
    """Environments on one Chromium and the sites of `worlds`; at most `size` at once.

    A context costs a second, so it is cleaned and used again for episodes on sites at the same addresses.
    """

    def __init__(
        self,
        size: int,
        worlds: Worlds,
        options: Options,
        evaluator: Scorer,
        *,
        browser: Browser | None = None,
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least one slot, not {size}")
        self.size = size
        self.worlds = worlds
        self.options = options
        self.evaluator = evaluator
        self.browser = browser or Browser(viewport=options.viewport)
        self._free = asyncio.Semaphore(size)
        self._lent: set[WebArenaEnvironment] = set()
        self._idle: list[Tabs] = []  # least recently used first
        self._cleaning: dict[asyncio.Task[None], Tabs] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def acquire(self, task: Task) -> WebArenaEnvironment:
        """An environment for `task`, with sites leased for it and the account it needs logged in.

        Raises `ConfigError` for a task that is none or without a Chromium, `WorldError` when a site is down.
        """
        config = task_config(task)
        await self._free.acquire()
        try:
            lease = await self.worlds.lease(config.sites, account=account_of(config), writes=writes(config))
            try:
                tabs = await self._take(lease)
            except BaseException:
                await self.worlds.give_back(lease)
                raise
        except BaseException:
            self._free.release()
            raise
        environment = WebArenaEnvironment(tabs, lease, self.evaluator, self.options)
        self._lent.add(environment)
        return environment

    async def release(self, environment: Environment) -> None:
        """Takes an environment back, and gives back its sites. A second release of the same one does nothing."""
        if not isinstance(environment, WebArenaEnvironment) or environment not in self._lent:
            return
        self._lent.discard(environment)
        tabs = environment.tabs
        try:
            if not tabs.broken:
                with contextlib.suppress(Exception):
                    await tabs.run(tabs.leave(), timeout_s=CLEAN_TIMEOUT_S, what="closing tabs")
            if tabs.broken:
                await self._end(tabs)
            written = sorted({tabs.addresses.site(url) for url in tabs.written} - {""})
            await self.worlds.give_back(
                environment.lease, written=written, broken=environment.failed or tabs.broken
            )
        finally:
            if not tabs.broken:
                cleaning = asyncio.create_task(self._clean(tabs))
                self._cleaning[cleaning] = tabs
            self._free.release()

    async def close(self) -> None:
        """Gives back every lease, and closes the browser and the worlds."""
        for environment in tuple(self._lent):
            environment.tabs.lost("the pool was closed")
            await self.release(environment)
        tasks = [*self._cleaning, *self._closing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._idle.clear()
        await self.browser.close()
        await self.worlds.close()

    async def _take(self, lease: Lease) -> Tabs:
        addresses = Addresses(lease.urls)
        tabs = await self._reusable(addresses)
        if tabs is not None:
            try:
                await self._begin(tabs, addresses, lease)
            except WorldError:
                self._discard(tabs)  # it died while nobody looked
            else:
                return tabs
        tabs = await Tabs.open(
            self.browser,
            addresses,
            viewport=self.options.viewport,
            load_timeout_s=self.options.load_timeout_s,
        )
        try:
            await self._begin(tabs, addresses, lease)
        except BaseException:
            self._discard(tabs)
            raise
        return tabs

    async def _begin(self, tabs: Tabs, addresses: Addresses, lease: Lease) -> None:
        from playwright.async_api import Error

        beginning = tabs.begin(addresses, lease.storage_state)
        try:
            await tabs.run(beginning, timeout_s=CLEAN_TIMEOUT_S, what="starting an episode")
        except Error as error:
            tabs.broken = True
            raise WorldError(f"starting an episode: {error}") from error

    async def _reusable(self, addresses: Addresses) -> Tabs | None:
        """A clean context for the same origins; one that is being cleaned is waited for."""
        while True:
            for tabs in reversed(self._idle):
                if tabs.addresses.origins == addresses.origins and not tabs.broken:
                    self._idle.remove(tabs)
                    return tabs
            cleaning = [
                task
                for task, tabs in self._cleaning.items()
                if tabs.addresses.origins == addresses.origins and not task.done()
            ]
            if not cleaning:
                return None
            await asyncio.wait(cleaning, return_when=asyncio.FIRST_COMPLETED)

    async def _clean(self, tabs: Tabs) -> None:
        try:
            await tabs.run(tabs.clean(), timeout_s=CLEAN_TIMEOUT_S, what="cleaning")
        except Exception:
            tabs.broken = True
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._cleaning.pop(task, None)
        if tabs.broken:
            self._discard(tabs)
            return
        self._idle.append(tabs)
        while len(self._idle) > 2 * self.size or (self._idle and self._idle[0].broken):
            self._discard(self._idle.pop(0))

    def _discard(self, tabs: Tabs) -> None:
        """Closes a context in the background: a hung one takes its time."""
        tabs.broken = True
        task = asyncio.create_task(self._end(tabs))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _end(self, tabs: Tabs) -> None:
        """Closes a context; nothing of it acts any more when this returns."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(tabs.context.close(), CLEAN_TIMEOUT_S)
