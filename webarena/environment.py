"""WebArena's tasks as an environment: an agent acts on real sites in browser tabs, and evaluators score what it leaves behind.

What the agent sees is text: where it is, what went wrong, then the page, one line an element (`webarena.observation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from coevo.env import Observation, Task, Transition
from coevo.errors import ConfigError, WorldError
from webarena.actions import Action, ParseError, resolve
from webarena.browser import first_line
from webarena.configs import TaskConfig, parse_config
from webarena.configs import resolve as resolve_placeholders
from webarena.dialects import DIALECTS, Name, parse, write
from webarena.executor import ActionFailed, perform
from webarena.observation import PageView, line_of, observe, quote
from webarena.tabs import Refused, Tabs
from webarena.window import fit
from webarena.worlds import Lease

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

T = TypeVar("T")

UNACHIEVABLE = "N/A"
SCORING_TIMEOUT_S = 600.0
OBSERVATION_TRIES = 4


class Scored(Protocol):
    """A verdict: see `webarena.evaluators.Score`."""

    @property
    def reward(self) -> float: ...
    @property
    def components(self) -> Mapping[str, float]: ...
    @property
    def scorer(self) -> str: ...


class Scorer(Protocol):
    """Who judges an episode: see `webarena.evaluators.Evaluator`."""

    async def score(
        self, config: TaskConfig, *, answer: str, page: Page, urls: Mapping[str, str]
    ) -> Scored: ...


@runtime_checkable
class Watching(Protocol):
    """A scorer that judges by network traffic, too: it is told of the context before an episode's first page."""

    def watch(self, context: BrowserContext) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What a person can set. Times in seconds, the viewport in pixels.

    `dialect`: the language of actions. `observation_tokens`: about how long the page's lines may get
    (`webarena.window.estimated_tokens`). `step_timeout_s`: for carrying out an action and reading the page.
    `load_timeout_s`: for a site to answer. `quiet_s`: for requests of scripts to be answered; the page is shown as it is
    then. `stuck_after`: an episode ends when the same action, or a parse error, comes so many times in a row (0: never).
    """

    dialect: Name = "coevo"
    observation_tokens: int = 1500
    viewport: tuple[int, int] = (1280, 720)
    screenshots: bool = False
    step_timeout_s: float = 30.0
    load_timeout_s: float = 30.0
    quiet_s: float = 3.0
    stuck_after: int = 0

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise ConfigError(
                f"there is no action dialect {self.dialect!r}", hint=f"use one of {', '.join(DIALECTS)}"
            )
        for name in ("step_timeout_s", "load_timeout_s", "quiet_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} = {getattr(self, name)} is no time at all")
        if self.observation_tokens < 64:
            raise ConfigError(f"observation_tokens = {self.observation_tokens}: a page needs at least 64")
        if self.stuck_after < 0:
            raise ConfigError(f"stuck_after = {self.stuck_after}: 0 means never")
        if len(self.viewport) != 2 or min(self.viewport) < 100:
            raise ConfigError(f"viewport = {list(self.viewport)}: width and height, at least 100 pixels each")


def task_config(task: Task) -> TaskConfig:
    """The WebArena task in `task.data["config"]`. Raises `ConfigError`."""
    return parse_config(task.data.get("config"), source=f"task {task.id}")


class WebArenaEnvironment:
    """One episode on leased sites. Nothing depends on `reset`'s seed: the sites are what they are.

    What cannot be parsed or done comes back as text in `observation.error` and `info["error"]`, with `info["category"]`
    `parse_error`, `action_failed` or `forbidden_host`. An episode that ends without success has `wrong_answer` or
    `gave_up` there, and `turn_limit` when `finish` scores it.
    """

    def __init__(self, tabs: Tabs, lease: Lease, scorer: Scorer, options: Options) -> None:
        self.tabs = tabs
        self.lease = lease
        self.options = options
        self.failed = False
        """Whether the world broke under this episode."""
        self._scorer = scorer
        self._config: TaskConfig
        self._view = PageView((), ())
        self._acted_on = ""
        self._history: list[str] = []
        self._done = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Opens the task's start pages, each in a tab of its own, the first in front.

        Raises `WorldError` when a site does not answer, `ConfigError` for a task that needs another site.
        """
        self._config = task_config(task)
        urls = [resolve_placeholders(url, self.lease.urls) for url in self._config.start_urls]
        self._done, self._acted_on, self._history = False, "", []
        if isinstance(self._scorer, Watching):
            self._scorer.watch(self.tabs.context)
        limit = (self.options.load_timeout_s + self.options.step_timeout_s) * len(urls)
        await self._run(self._open(urls), f"starting {task.id}", limit)
        await self._look()
        return await self._observation("")

    async def step(self, action: str) -> Transition:
        """Does one action. Raises `WorldError` when a page or a site breaks."""
        if self._done:
            raise RuntimeError("the episode is over: call reset first")
        error, category, performed = "", "", ""
        try:
            parsed = parse(action, self.options.dialect)
            performed = write(parsed, self._view.elements, self.options.dialect)
            if parsed.verb in ("stop", "infeasible"):
                return await self._stop(parsed, performed)
            await self._act(parsed)
        except ParseError as problem:
            error, category = str(problem), "parse_error"
        except Refused as problem:
            error, category = str(problem), "forbidden_host"
        except ActionFailed as problem:
            error, category, performed = str(problem), "action_failed", ""
        error = self.tabs.addresses.shown(error)
        self._history.append("" if category == "parse_error" else performed or action)
        if category != "parse_error":
            await self._look()
        if self._stuck():
            return await self._score("", {"error": error, "performed": performed}, category or "gave_up")
        info = {"error": error, "category": category, "performed": performed}
        return Transition(
            await self._observation(error), 0.0, False, info={key: text for key, text in info.items() if text}
        )

    async def finish(self) -> Transition:
        """The score of the sites as they are, for an episode that did not stop by itself."""
        return await self._score("", {}, "turn_limit")

    async def close(self) -> None:
        """Nothing to do: tabs and sites belong to the pool."""

    async def _run(self, work: Awaitable[T], what: str, timeout_s: float) -> T:
        try:
            return await self.tabs.run(work, timeout_s=timeout_s, what=what)
        except WorldError:
            self.failed = True
            raise

    async def _open(self, urls: list[str]) -> None:
        for number, url in enumerate(urls):
            if number:
                await self.tabs.new_tab()
            try:
                status = await self.tabs.goto(url)
                if status >= 400:
                    raise WorldError(f"the start page {url} answered {status}")
                await self.tabs.settle(quiet_s=self.options.quiet_s)
            except ActionFailed as error:
                raise WorldError(f"the start page cannot be opened: {error}") from error
        if len(urls) > 1:
            await self.tabs.focus(0)

    async def _act(self, action: Action) -> None:
        """Carries out an action and waits until the page is at rest. Raises `ActionFailed`, `Refused` or `WorldError`."""
        if action.target is not None:
            element = resolve(self._view.elements, action.target, action.verb)
            self._acted_on = line_of(element)
        await self._run(
            self._perform(action), action.verb, self.options.step_timeout_s + self._loading(action)
        )
        settling = self.tabs.settle(quiet_s=self.options.quiet_s)
        await self._run(settling, f"after {action.verb}", self._settling_s)

    @property
    def _settling_s(self) -> float:
        return self.options.load_timeout_s + self.options.step_timeout_s

    def _loading(self, action: Action) -> float:
        return self.options.load_timeout_s if action.verb in ("goto", "back", "forward") else 0.0

    async def _perform(self, action: Action) -> None:
        from playwright.async_api import Error

        tabs = self.tabs
        try:
            if action.verb == "goto":
                await tabs.goto(tabs.addresses.absolute(action.text, tabs.page.url))
            elif action.verb == "back":
                await tabs.back()
            elif action.verb == "forward":
                await tabs.forward()
            elif action.verb == "new_tab":
                await tabs.new_tab()
            elif action.verb == "tab":
                await tabs.focus(int(action.amount or 0))
            elif action.verb == "close_tab":
                await tabs.close_tab()
            elif action.verb == "scroll":
                moved = await tabs.page.evaluate("(down) => __coevoWeb.scroll(down)", action.text != "up")
                if "error" in moved:
                    raise ActionFailed(f"scroll: {moved['error']}")
            else:
                await perform(tabs.page, self._view, action)
        except Error as error:
            await asyncio.sleep(0)
            if tabs.broken:
                raise
            raise ActionFailed(first_line(error)) from error

    async def _look(self) -> None:
        """A new view of the page in front."""
        self._view = await self._run(self._viewed(), "reading the page", self._settling_s)

    async def _viewed(self) -> PageView:
        from playwright.async_api import Error

        timeout_ms = self.options.step_timeout_s * 1000
        for tries in range(OBSERVATION_TRIES):
            page = self.tabs.page
            try:
                await page.evaluate("() => { if (window.__coevo && document.body) __coevo.annotate(''); }")
                if not await page.evaluate("() => document.body !== null"):
                    return PageView((), ())
                return await observe(page, timeout_ms=timeout_ms, max_lines=None)
            except Error:
                if self.tabs.broken or tries == OBSERVATION_TRIES - 1:
                    raise
                await self.tabs.settle(quiet_s=self.options.quiet_s)  # it has moved on meanwhile
        raise AssertionError

    async def _observation(self, error: str) -> Observation:
        tabs = self.tabs
        shown = tabs.addresses.shown
        titles = [await self._title(page) for page in tabs.pages]
        at = tabs.pages.index(tabs.page)
        header = [f"URL: {shown(tabs.page.url)}", f"Title: {titles[at]}"]
        if len(titles) > 1:
            names = [
                f"[{number}] {quote(title)}{' (current)' if number == at else ''}"
                for number, title in enumerate(titles)
            ]
            header.append(f"Tabs: {', '.join(names)}")
        header += [f"Note: {shown(note)}" for note in tabs.take_notes()]
        if error:
            header.append(f"Error: {error}")
        lines = fit(
            self._view,
            viewport=self.options.viewport,
            tokens=self.options.observation_tokens,
            acted_on=self._acted_on,
        )
        return Observation(
            shown("\n".join([*header, *lines])),
            goal=self._config.intent,
            url=shown(tabs.page.url),
            title=titles[at],
            error=error,
            screenshot_png=await self._screenshot(),
        )

    async def _title(self, page: Page) -> str:
        from playwright.async_api import Error

        try:
            return " ".join((await self._run(page.title(), "reading the title", self._settling_s)).split())[
                :80
            ]
        except Error:
            return ""  # it is on its way to another page

    async def _screenshot(self) -> bytes | None:
        if not self.options.screenshots:
            return None
        picture: bytes = await self._run(
            self.tabs.page.screenshot(), "taking a screenshot", self.options.step_timeout_s
        )
        return picture

    def _stuck(self) -> bool:
        count = self.options.stuck_after
        latest = self._history[-count:] if count else []
        return bool(latest) and len(latest) == count and len(set(latest)) == 1

    async def _stop(self, action: Action, performed: str) -> Transition:
        answer = UNACHIEVABLE if action.verb == "infeasible" else self.tabs.addresses.real(action.text)
        failure = "gave_up" if action.verb == "infeasible" or not answer else "wrong_answer"
        return await self._score(answer, {"performed": performed}, failure)

    async def _score(self, answer: str, info: dict[str, Any], failure: str) -> Transition:
        """The last transition; `failure` is its category unless the task is done."""
        from playwright.async_api import Error

        self._done = True
        tabs = self.tabs
        picture = await self._screenshot()
        url = tabs.addresses.shown(tabs.page.url)
        scoring = self._scorer.score(self._config, answer=answer, page=tabs.page, urls=self.lease.urls)
        try:
            score = await self._run(scoring, f"scoring task {self._config.task_id}", SCORING_TIMEOUT_S)
        except Error as error:
            self.failed = True
            raise WorldError(f"scoring task {self._config.task_id}: {first_line(error)}") from error
        success = score.reward >= 1.0
        info = info | {"scorer": score.scorer} | ({} if success else {"category": failure})
        return Transition(
            Observation(
                "", goal=self._config.intent, url=url, error=info.get("error", ""), screenshot_png=picture
            ),
            score.reward,
            True,
            success=success,
            components=score.components,
            info={key: value for key, value in info.items() if value},
        )
