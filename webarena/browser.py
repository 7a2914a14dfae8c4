"""One Chromium for all pages: found, started, restarted after a crash, and taken down without leftovers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, WorldError

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import BrowserContext, Page, Playwright

EXECUTABLE_VARIABLE = "COEVO_CHROMIUM"
EXECUTABLES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
INSTALL_HINT = (
    "install Chromium (`apt install chromium`, or `playwright install chromium`), "
    f"or set {EXECUTABLE_VARIABLE} to a Chromium or Chrome executable"
)


def find_chromium(bundled: str | None = None) -> str:
    """Path of the browser to start: `$COEVO_CHROMIUM`, `bundled` (Playwright's own) if it is there, or one on PATH.

    Raises `ConfigError` when there is none, or when the variable names something that cannot be executed.
    """
    wanted = os.environ.get(EXECUTABLE_VARIABLE)
    if wanted:
        path = shutil.which(wanted)
        if path is None:
            raise ConfigError(f"{EXECUTABLE_VARIABLE}={wanted} is not an executable file", hint=INSTALL_HINT)
        return path
    if bundled and Path(bundled).exists():
        return bundled
    for name in EXECUTABLES:
        path = shutil.which(name)
        if path is not None:
            return path
    raise ConfigError("no Chromium found: neither Playwright's own nor one on PATH", hint=INSTALL_HINT)


class Browser:
    """A Chromium process shared by all pages. `new_page` starts it, or starts it again when it has died.

    Belongs to the event loop of its first use.
    """

    def __init__(self, *, headless: bool = True, viewport: tuple[int, int] = (480, 320)) -> None:
        self.headless = headless
        self.viewport = viewport
        self.starts = 0
        self._driver: Playwright | None = None
        self._browser: PlaywrightBrowser | None = None
        self._shared: dict[str, BrowserContext] = {}  # by init script
        self._keepers: dict[str, Page] = {}  # the page of a shared context that opens the others
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def alive(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def version(self) -> str:
        """Version of the running browser, which is started if need be."""
        return (await self._running()).version

    async def new_page(self, *, init_script: str = "", shared: bool = False, **options: Any) -> Page:
        """A new page, in a context of its own with Playwright's `options`, or in a `shared` one without.

        Pages of a shared context share cookies and storage, and cost half the time and memory. `init_script` runs in
        every document before the document's scripts. Raises `ConfigError` when no browser is installed, `WorldError`
        when it does not start or dies meanwhile.
        """
        from playwright.async_api import Error

        browser = await self._running()
        try:
            return await self._open(browser, init_script, shared, options)
        except Error:
            await self._abandon(browser)  # most likely it has just died and Playwright has not heard yet
        browser = await self._running()
        try:
            return await self._open(browser, init_script, shared, options)
        except Error as error:
            raise WorldError(f"Chromium could not open a page: {first_line(error)}") from error

    async def close_page(self, page: Page) -> None:
        """Closes a page, and its context unless that is shared, whatever state it is in."""
        from playwright.async_api import Error

        with contextlib.suppress(Error):
            await (page.close() if page.context in self._shared.values() else page.context.close())

    async def _open(
        self, browser: PlaywrightBrowser, init_script: str, shared: bool, options: dict[str, Any]
    ) -> Page:
        if shared:
            return await self._new_window(browser, init_script)
        return await (await self._context(browser, init_script, options)).new_page()

    async def _new_window(self, browser: PlaywrightBrowser, init_script: str) -> Page:
        """A window of the shared context. Not a tab: Chromium neither paints hidden tabs nor runs their timers in time."""
        async with self._lock:
            context = self._shared.get(init_script)
            if context is None:
                context = self._shared[init_script] = await self._context(browser, init_script, {})
            keeper = self._keepers.get(init_script)
            if keeper is None or keeper.is_closed():
                keeper = self._keepers[init_script] = await context.new_page()
            width, height = self.viewport
            features = f"popup,noopener,width={width},height={height}"
            async with context.expect_page() as opened:
                await keeper.evaluate(
                    "(features) => void window.open('about:blank', '_blank', features)", features
                )
            return await opened.value

    async def _context(
        self, browser: PlaywrightBrowser, init_script: str, options: dict[str, Any]
    ) -> BrowserContext:
        width, height = self.viewport
        defaults = {"viewport": {"width": width, "height": height}, "reduced_motion": "reduce"}
        context = await browser.new_context(**(defaults | options))
        if init_script:
            await context.add_init_script(init_script)
        return context

    async def close(self) -> None:
        """Ends the browser and its driver. Safe to call twice."""
        async with self._lock:
            self._closed = True
            await self._stop()

    async def _running(self) -> PlaywrightBrowser:
        async with self._lock:
            if self._closed:
                raise WorldError("the browser has been closed")
            if self._browser is not None and self._browser.is_connected():
                return self._browser
            await self._stop()
            return await self._start()

    async def _start(self) -> PlaywrightBrowser:
        try:
            from playwright.async_api import Error, async_playwright
        except ImportError as error:
            raise ConfigError(
                "Playwright is not installed", hint="install the web extra: pip install 'coevo[web]'"
            ) from error
        try:
            self._driver = await async_playwright().start()
            executable = find_chromium(self._driver.chromium.executable_path)
            self._browser = await self._driver.chromium.launch(
                executable_path=executable,
                headless=self.headless,
                args=list(FLAGS),
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            await self._stop()
            raise WorldError(
                f"Chromium did not start: {first_line(error)}",
                hint="start it by hand to see why: chromium --headless=new --no-sandbox about:blank",
            ) from error
        except BaseException:
            await self._stop()
            raise
        self.starts += 1
        return self._browser

    async def _abandon(self, browser: PlaywrightBrowser) -> None:
        """Ends a browser that no longer opens pages, unless someone else has already replaced it."""
        async with self._lock:
            if self._browser is browser:
                await self._stop()

    async def _stop(self) -> None:
        from playwright.async_api import Error

        browser, driver, self._browser, self._driver = self._browser, self._driver, None, None
        self._shared.clear()
        self._keepers.clear()
        if browser is not None:
            with contextlib.suppress(Error):
                await browser.close()
        if driver is not None:
            with contextlib.suppress(Error):
                await driver.stop()


def first_line(error: BaseException) -> str:
    """The first line of an error's text, which is what a person needs of Playwright's long ones."""
    return str(error).strip().split("\n", 1)[0]
