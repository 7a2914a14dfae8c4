"""Work on pages that may die or hang, bounded in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from coevo.errors import WorldError
from webarena.browser import first_line

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

T = TypeVar("T")


class Watch:
    """All work on some pages goes through `run`, which turns their death, or a hang, into `WorldError` and sets `broken`.

    `lost` says how they died. Belongs to a running event loop.
    """

    def __init__(self) -> None:
        self.broken = False
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def watch_browser(self, browser: Browser | None) -> None:
        """From now on its death is a loss. Once is enough for all pages."""
        if browser is not None:
            browser.on("disconnected", lambda _: self.lost("Chromium died"))

    def watch_page(self, page: Page, *, closing: bool = True) -> None:
        """From now on its crash, and when `closing` its end, too, is a loss."""
        page.on("crash", lambda _: self.lost("the page crashed"))
        if closing:
            page.on("close", lambda _: self.lost("the page was closed"))

    def lost(self, why: str) -> None:
        self.broken = True
        if not self._gone.done():
            self._gone.set_result(why)

    async def run(self, work: Awaitable[T], *, timeout_s: float, what: str) -> T:
        """Awaits `work` on the pages for at most `timeout_s`. Errors of the work itself pass through.

        Raises `WorldError` when a page or the browser is lost or does not answer. A cancelled run breaks them too,
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
            if self._gone.done() or is_loss(error):
                self.broken, finished = True, False
                why = self._gone.result() if self._gone.done() else first_line(error)
                raise WorldError(f"{what}: {why}") from error
            raise
        finally:
            if not finished:
                self.broken = True
                task.cancel()


def is_loss(error: Exception) -> bool:
    """Whether an error of Playwright's says that the page or browser is gone."""
    text = str(error)
    return any(
        sign in text
        for sign in (
            "Target page, context or browser has been closed",
            "Failed to open a new tab",
            "crashed",
            "Connection closed",
        )
    )
