"""The browser tabs of an episode: a context of its own, kept to its sites, that is used again when the episode ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coevo.errors import WorldError
from webarena.addresses import Addresses, origin
from webarena.browser import Browser, first_line
from webarena.executor import ActionFailed
from webarena.observation import INIT_SCRIPT, quote
from webarena.watch import Watch, is_loss

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Frame, Page, Request, Response

WEB_SCRIPT = files("webarena").joinpath("web.js").read_text(encoding="utf-8")
NOWHERE = "http://127.0.0.1:9"
"""A proxy that is not there: what is not one of the episode's sites goes to it and fails."""
WAITED_FOR = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
DOWN = frozenset({502, 503, 504})
DOM_LIMIT_MS = 1000
HINT_MS = 1500
NOTES = 5
CLEAN_TIMEOUT_S = 15.0
_TRAVEL_TRIES = 20

_AT_REST = """async ([limit, since]) => {
  if (window.__coevo) await __coevo.settle(limit);
  return window.__coevoWeb ? __coevoWeb.news(since) : [false, false, ""];
}"""


class Refused(ActionFailed):
    """An address outside the episode's sites; the text goes to the agent."""

    def __init__(self, url: str, addresses: Addresses) -> None:
        sites = ", ".join(f"http://{site}" for site in addresses.urls)
        super().__init__(f"{url} is not allowed: this task has only {sites}")


class Tabs(Watch):
    """A browser context and its tabs. `page` is the one in front; `notes` tells what happened besides the page's own content;
    `written` are addresses that got a request that may change something: any but GET, HEAD and queries of GraphQL.

    Chromium itself refuses all traffic to other origins than the sites'. Work on the pages goes through `run`.
    """

    def __init__(self, context: BrowserContext, addresses: Addresses, *, load_timeout_s: float) -> None:
        super().__init__()
        self.context = context
        self.addresses = addresses
        self.pages: list[Page] = []
        self.page: Page
        self.notes: list[str] = []
        self.written: set[str] = set()
        self.load_timeout_s = load_timeout_s
        self._refused = ""
        self._failure = ""
        self._open: set[Request] = set()
        self._documents: dict[Request, Page | None] = {}
        self._ended_without_page = False
        self._traffic = asyncio.Event()
        self._downloads: list[Download] = []
        self._popups: set[Page] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        context.set_default_timeout(load_timeout_s * 1000)
        context.on("page", self._page_opened)
        context.on("request", self._requested)
        context.on("response", self._answered)
        context.on("requestfinished", self._request_ended)
        context.on("requestfailed", self._request_failed)
        context.on("dialog", self._dialog)
        self.watch_browser(context.browser)

    @classmethod
    async def open(
        cls,
        browser: Browser,
        addresses: Addresses,
        *,
        viewport: tuple[int, int],
        load_timeout_s: float,
    ) -> Tabs:
        """A new context with one blank tab. Raises `ConfigError` without a Chromium, `WorldError` when it does not start."""
        width, height = viewport
        origins = sorted(addresses.origins)
        first = await browser.new_page(
            init_script=f"var __coevoOrigins = {json.dumps(origins)};\n{INIT_SCRIPT}\n{WEB_SCRIPT}",
            viewport={"width": width, "height": height},
            proxy={"server": NOWHERE, "bypass": ",".join(url.split("://")[1] for url in origins)},
            accept_downloads=True,
        )
        tabs = cls(first.context, addresses, load_timeout_s=load_timeout_s)
        tabs._page_opened(first)
        tabs._popups.clear()
        return tabs

    async def begin(self, addresses: Addresses, storage_state: Mapping[str, Any] | None) -> None:
        """Start an episode in a clean context, logged in as `storage_state` says."""
        self.addresses = addresses
        self.notes.clear()
        self.written.clear()
        self._refused = self._failure = ""
        if storage_state and storage_state.get("origins"):
            await self.context.set_storage_state(storage_state)  # type: ignore[arg-type]
        elif storage_state and storage_state.get("cookies"):
            await self.context.add_cookies(storage_state["cookies"])

    async def leave(self) -> None:
        """End an episode: no page of it acts any more. A blank tab is left."""
        old = list(self.pages)
        await self._new_page()
        await asyncio.gather(*(page.close() for page in old))
        for download in self._downloads:
            with contextlib.suppress(Exception):
                await download.cancel()
                await download.delete()
        self._downloads.clear()

    async def clean(self) -> None:
        """Forget cookies and storage of all sites."""
        session = await self.context.new_cdp_session(self.page)
        await self.context.clear_cookies()
        for site in self.addresses.origins:
            await session.send("Storage.clearDataForOrigin", {"origin": site, "storageTypes": "all"})
        await session.detach()
        self._open.clear()
        self._documents.clear()

    # --- going about ---------------------------------------------------------------------------------------------

    async def goto(self, url: str) -> int:
        """Opens `url` in the tab in front; the status of the answer, 0 if it led to no page.

        Raises `Refused` outside the sites, `ActionFailed` for what is no address, `WorldError` when the site does not answer.
        """
        from playwright.async_api import Error, TimeoutError

        if not self.addresses.allowed(url):
            raise Refused(url, self.addresses)
        try:
            response = await self.page.goto(url, wait_until="commit", timeout=self.load_timeout_s * 1000)
        except TimeoutError as error:
            raise self._site_is_down(f"{url} did not answer within {self.load_timeout_s:g} s") from error
        except Error as error:
            if is_loss(error):
                raise
            if "invalid URL" in str(error) or "ERR_INVALID_URL" in str(error):
                raise ActionFailed(f"{quote(url)} is no address") from error
            if "ERR_ABORTED" not in str(error) and "interrupted" not in str(error) and not self._refused:
                raise self._site_is_down(f"{url}: {first_line(error)}") from error
            return 0
        return 0 if response is None else response.status

    async def back(self) -> None:
        before = self.page.url
        response = await self._travel(self.page.go_back)
        if self.page.url == "about:blank" != before:  # where a tab of ours begins
            await self._travel(self.page.go_forward)
        if response is None and self.page.url == before:
            raise ActionFailed("there is no page to go back to")

    async def forward(self) -> None:
        before = self.page.url
        if await self._travel(self.page.go_forward) is None and self.page.url == before:
            raise ActionFailed("there is no page to go forward to")

    async def _travel(self, step: Callable[..., Awaitable[Any]]) -> Any:
        """A step through the history. Chromium refuses it for a moment while it puts a page it had kept back on the screen."""
        from playwright.async_api import Error

        for tries in range(_TRAVEL_TRIES):
            try:
                return await step(wait_until="commit")
            except Error as error:
                if "Not attached to an active page" not in str(error) or tries == _TRAVEL_TRIES - 1:
                    raise
            await asyncio.sleep(0.05)
        raise AssertionError

    async def new_tab(self) -> None:
        await self._new_page()

    async def focus(self, number: int) -> None:
        """Brings a tab to the front, counted from 0."""
        if not 0 <= number < len(self.pages):
            raise ActionFailed(f"there is no tab {number}; there are tabs 0 to {len(self.pages) - 1}")
        self.page = self.pages[number]
        await self.page.bring_to_front()

    async def close_tab(self) -> None:
        """Closes the tab in front; the last one is replaced by a blank one."""
        page = self.page
        if len(self.pages) == 1:
            await self._new_page()
        else:
            self._page_closed(page)
        await page.close()
        await self.page.bring_to_front()

    async def _new_page(self) -> None:
        page = await self.context.new_page()
        self._page_opened(page)
        self._popups.discard(page)

    # --- coming to rest ------------------------------------------------------------------------------------------

    async def settle(self, *, quiet_s: float) -> None:
        """Returns once no document is on its way, requests of scripts are answered (waited for at most `quiet_s`) and the
        DOM stands still.

        Raises `Refused` when the page tried to leave the sites (it has been brought back), `WorldError` when a site
        does not answer.
        """
        clock = asyncio.get_running_loop().time
        latest, quiet_by, opening_by = clock() + self.load_timeout_s, clock() + quiet_s, 0.0
        refused = ""
        while True:
            if not self.pages:
                await self._new_page()
            page = self.page
            known = len(self.pages)
            self._traffic.clear()
            # While a document is on its way, scripts of the old one do not answer.
            resting = None if self._arriving(page) else await self._at_rest(page, latest - clock())
            leaving, opening, prevented = resting or (False, False, "")
            refused = refused or self._refused or prevented
            failure, self._refused, self._failure = self._failure, "", ""
            if failure:
                raise self._site_is_down(failure)
            if page.url.startswith("chrome-error:"):
                await self._return(page)
            if len(self.pages) != known:
                opening_by = 0.0
            elif opening:
                opening_by = clock() + HINT_MS / 1000
            if page is not self.page:
                quiet_by = clock() + quiet_s
                continue
            if self._arriving(page) or resting is None:
                if clock() > latest:
                    raise self._site_is_down(
                        f"a page of {origin(page.url)} did not load within {self.load_timeout_s:g} s"
                    )
                quiet_by = clock() + quiet_s
            elif clock() < opening_by or (leaving and not self._ended_without_page):
                pass  # it shows outside in a moment, or not at all
            elif not self._open or clock() > quiet_by:
                self._ended_without_page = False
                if refused:
                    raise Refused(refused, self.addresses)
                return
            await self._news(0.05 if resting is None else 0.25)

    async def _at_rest(self, page: Page, limit_s: float) -> tuple[bool, bool, str] | None:
        """Waits until the DOM of `page` stands still. Whether the page is about to leave, or to open another, and the address
        it was kept from; None if it has gone meanwhile, or does not answer."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(max(0.1, limit_s)):
                await page.wait_for_load_state("domcontentloaded")
                leaving, opening, prevented = await page.evaluate(_AT_REST, [DOM_LIMIT_MS, HINT_MS])
        except Error as error:
            if is_loss(error) and page in self.pages:
                raise
            return None
        except TimeoutError:
            return None
        return leaving, opening, prevented

    def take_notes(self) -> list[str]:
        """The latest notes, each once."""
        notes = list(dict.fromkeys(self.notes[-NOTES:]))
        self.notes.clear()
        return notes

    async def _news(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._traffic.wait(), limit_s)

    def _arriving(self, page: Page) -> bool:
        """Whether a document is on its way to `page`, or to one that is only just opening."""
        return any(owner is page or owner not in self.pages for owner in self._documents.values())

    async def _return(self, page: Page) -> None:
        """From an address that was refused back to where the agent was."""
        from playwright.async_api import Error

        with contextlib.suppress(Error):
            if page in self._popups and len(self.pages) > 1:
                self._page_closed(page)
                await page.close()
            else:
                await page.go_back(wait_until="domcontentloaded")

    def _site_is_down(self, why: str) -> WorldError:
        return WorldError(self.addresses.shown(why), hint="see whether the site runs: coevo webarena check")

    # --- events --------------------------------------------------------------------------------------------------

    def _page_opened(self, page: Page) -> None:
        if page in self.pages:
            return
        self.pages.append(page)
        self.page = page
        self._popups.add(page)
        # A page is told of when its first document has come.
        self._forget_documents(None, page)
        self.watch_page(page, closing=False)
        page.on("close", self._page_closed)
        page.on("framenavigated", self._arrived)
        page.on("download", self._download)
        page.on("filechooser", lambda _: self._note("the page asked for a file; there is none to give"))
        self._traffic.set()

    def _page_closed(self, page: Page) -> None:
        self._popups.discard(page)
        if page not in self.pages:
            return
        at = self.pages.index(page)
        self.pages.remove(page)
        if page is self.page and self.pages:
            self.page = self.pages[max(0, at - 1)]
        self._forget_documents(page)
        self._traffic.set()

    def _arrived(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self._forget_documents(frame.page)
            self._traffic.set()

    def _forget_documents(self, *owners: Page | None) -> None:
        self._documents = {
            request: owner for request, owner in self._documents.items() if owner not in owners
        }

    def _requested(self, request: Request) -> None:
        if request.method not in ("GET", "HEAD") and not _is_query(request):
            self.written.add(request.url)
        if request.resource_type in WAITED_FOR:
            self._open.add(request)
        if request.is_navigation_request():
            page, main = _owner(request)
            if main:
                self._documents[request] = page
        self._traffic.set()

    def _answered(self, response: Response) -> None:
        if response.status in DOWN and response.request in self._documents:
            self._failure = f"{response.url} answered {response.status}"
        elif response.status in (204, 205) and self._documents.pop(response.request, self) is not self:
            self._ended_without_page = True

    def _request_ended(self, request: Request) -> None:
        self._open.discard(request)
        self._traffic.set()

    def _request_failed(self, request: Request) -> None:
        self._request_ended(request)
        if self._documents.pop(request, self) is self:
            return
        self._ended_without_page = True
        why = request.failure or ""
        if not self.addresses.allowed(request.url):
            self._refused = request.url
        elif "ERR_ABORTED" not in why:
            self._failure = f"{request.url}: {why}"

    def _dialog(self, dialog: Dialog) -> None:
        said = quote(" ".join(dialog.message.split())[:200])
        if dialog.type == "alert":
            self._note(f"the page said {said}")
        elif dialog.type == "confirm":
            self._note(f"the page asked {said} and was told yes")
        elif dialog.type == "prompt":
            self._note(f"the page asked {said} and got {quote(dialog.default_value)}")
        else:
            self._note("the page asked whether to leave it and was told yes")
        self._spawn(dialog.accept(dialog.default_value) if dialog.type == "prompt" else dialog.accept())

    def _download(self, download: Download) -> None:
        self._downloads.append(download)
        self._note(f"the file {quote(download.suggested_filename)} was downloaded")

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self._traffic.set()

    def _spawn(self, work: Any) -> None:
        async def quietly() -> None:
            with contextlib.suppress(Exception):
                await work

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_query(request: Request) -> bool:
    """Whether a POST only reads: GraphQL (GitLab's pages load by it) without a mutation."""
    if not urlsplit(request.url).path.endswith("/graphql"):
        return False
    try:
        return "mutation" not in (request.post_data or "mutation")
    except UnicodeDecodeError:
        return False


def _owner(request: Request) -> tuple[Page | None, bool]:
    """The page a document is for (None: it is not there yet), and whether for its main frame."""
    from playwright.async_api import Error

    try:
        frame = request.frame
        return frame.page, frame.parent_frame is None
    except Error:
        return None, True
