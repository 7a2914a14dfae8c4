"""A pool of warm pages: pages are costly to make (0.3 s) and to load (0.1 s), so they are used again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coevo.env import Environment, Task
from coevo.errors import WorldError
from webarena.browser import Browser, first_line

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")


class Slot:
    """A page with what is known of it. `key` names what is loaded, so that `BrowserPool` can hand it out again.

    All work on the page goes through `run`, which turns a death or a hang of the page into `WorldError` and marks
    the slot `broken`; a broken slot is thrown away when it is released.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.key = ""
        self.broken = False
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        page.on("crash", lambda _: self._lost("the page crashed"))
        page.on("close", lambda _: self._lost("the page was closed"))
        browser = page.context.browser
        if browser is not None:
            browser.on("disconnected", lambda _: self._lost("Chromium died"))

    def _lost(self, why: str) -> None:
        self.broken = True
        if not self._gone.done():
            self._gone.set_result(why)

    async def run(self, work: Awaitable[T], *, timeout_s: float, what: str) -> T:
        """Awaits `work` on the page for at most `timeout_s`. Errors of the work itself pass through.

        Raises `WorldError` when the page or browser is lost or does not answer. A cancelled run breaks the slot too,
        since nobody knows what the page is left doing.
        """
        from playwright.async_api import Error

        task = asyncio.ensure_future(work)
        watched: set[asyncio.Future[Any]] = {task, self._gone}
        finished = False
        try:
            await asyncio.wait(watched, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                finished = True
                return await task
            if self._gone.done():
                raise WorldError(f"{what}: {self._gone.result()}")
            raise WorldError(
                f"{what}: the page did not answer within {timeout_s:g} s",
                hint="raise step_timeout_s if pages are slow",
            )
        except Error as error:
            await asyncio.sleep(0)  # the crash event may be queued behind the error it caused
            if self.page.is_closed() or self._gone.done() or _is_loss(error):
                self.broken, finished = True, False
                why = self._gone.result() if self._gone.done() else first_line(error)
                raise WorldError(f"{what}: {why}") from error
            raise
        finally:
            if not finished:
                self.broken = True
                task.cancel()


def _is_loss(error: Exception) -> bool:
    text = str(error)
    return any(
        sign in text
        for sign in ("Target page, context or browser has been closed", "crashed", "Connection closed")
    )


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
