"""A pool of warm pages: pages are costly to make (0.3 s) and to load (0.1 s), so they are used again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from coevo.env import Environment, Task
from webarena.browser import Browser
from webarena.watch import Watch

if TYPE_CHECKING:
    from playwright.async_api import Page


class Slot(Watch):
    """A page with what is known of it. `key` names what is loaded, so that `BrowserPool` can hand it out again.

    All work on the page goes through `run`. A broken slot is thrown away when it is released.
    """

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page
        self.key = ""
        self.watch_page(page)
        self.watch_browser(page.context.browser)


class PooledEnvironment(Environment, Protocol):
    """An environment that lives on a slot."""

    slot: Slot


class BrowserPool:
    """Hands out environments on warm pages of one Chromium; at most `size` are in use at once.

    `key` says what page a task needs (`Slot.key` of a page that has it loaded), `make` builds the environment on a
    slot. Up to `spare` idle pages more than `size` are kept, so that task sets of several pages find theirs loaded.
    `shared`: all pages in one browser context, for worlds without cookies or storage.
    """

    def __init__(
        self,
        size: int,
        *,
        key: Callable[[Task], str],
        make: Callable[[Slot], PooledEnvironment],
        init_script: str = "",
        browser: Browser | None = None,
        spare: int = 8,
        shared: bool = False,
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least one slot, not {size}")
        self.size = size
        self.browser = browser or Browser()
        self._key = key
        self._make = make
        self._init_script = init_script
        self._spare = spare
        self._shared = shared
        self._idle: list[Slot] = []  # least recently used first
        self._lent: dict[int, Slot] = {}
        self._free = asyncio.Semaphore(size)
        self._closing: set[asyncio.Task[None]] = set()

    async def acquire(self, task: Task) -> PooledEnvironment:
        """An environment for `task`, on a page that already has its kind loaded if there is one.

        Raises `ConfigError` without a Chromium, `WorldError` when it does not start.
        """
        await self._free.acquire()
        try:
            slot = await self._take(self._key(task))
            environment = self._make(slot)
        except BaseException:
            self._free.release()
            raise
        self._lent[id(environment)] = slot
        return environment

    async def release(self, environment: Environment) -> None:
        """Takes an environment back. A second release of the same one does nothing."""
        slot = self._lent.pop(id(environment), None)
        if slot is None:
            return
        if slot.broken or slot.page.is_closed():
            self._discard(slot)
        else:
            self._idle.append(slot)
        self._free.release()

    async def close(self) -> None:
        """Closes every page and the browser."""
        self._idle.clear()
        self._lent.clear()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.browser.close()

    async def _take(self, key: str) -> Slot:
        for slot in [slot for slot in self._idle if slot.broken]:
            self._idle.remove(slot)
            self._discard(slot)
        for slot in reversed(self._idle):
            if slot.key == key:
                self._idle.remove(slot)
                return slot
        if self._idle and len(self._idle) + len(self._lent) >= self.size + self._spare:
            return self._idle.pop(0)
        return Slot(await self.browser.new_page(init_script=self._init_script, shared=self._shared))

    def _discard(self, slot: Slot) -> None:
        """Closes the slot's page in the background: a hung one takes its time."""
        task = asyncio.create_task(self.browser.close_page(slot.page))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
