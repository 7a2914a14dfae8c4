"""MiniWoB++ (html from the PyPI wheel `miniwob`, MIT) as a task set: `set = "webarena.miniwob:tasks"` in an experiment file.

An instance is a task name and a seed, given to the page's own `Math.seedrandom`. A page that has the task loaded
starts the next episode in place, which shows the same instance as a fresh load and is several times as fast. Reward and
end come from the page (`WOB_RAW_REWARD_GLOBAL`, `WOB_DONE_GLOBAL`).
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coevo.env import Observation, Task, Transition
from coevo.errors import ConfigError, WorldError
from coevo.seeds import derive_seed
from webarena.actions import ParseError, canonical, parse
from webarena.browser import Browser
from webarena.executor import ActionFailed, perform
from webarena.observation import INIT_SCRIPT, PageView, observe
from webarena.options import checked, typed
from webarena.pool import BrowserPool, Slot

SPLITS = ("train", "dev", "test")
UNTIMED_MS = 1_000_000_000
SETTLE_MS = 500
LOAD_TIMEOUT_S = 20.0
# They keep text of the last episode (or, stock-market, its ticking price).
RELOADED = frozenset({"find-word", "focus-text-2", "scroll-text", "scroll-text-2", "stock-market"})
HIDDEN = "#query,#reward-display,#click-canvas,#sync-task-cover,.ui-helper-hidden-accessible"
PARKED = (400, 300)
ELSEWHERE = frozenset({"goto", "back", "forward", "new_tab", "tab", "close_tab"})

_START = """async ([seed, limit, hidden, settle]) => {
  if (window.jQuery) jQuery.fx.off = true;
  document.activeElement?.blur();
  Math.seedrandom(seed);
  if (limit) core.EPISODE_MAX_TIME = limit;
  core.startEpisodeReal();
  if (limit) core.clearTimer();
  await __coevo.settle(settle);
  __coevo.annotate(hidden);
  const goal = core.getUtterance();
  return typeof goal === 'string' ? goal : goal.utterance;
}"""
_STATE = """async ([hidden, settle]) => {
  await __coevo.settle(settle);
  if (typeof core === 'undefined') return null;
  if (!WOB_DONE_GLOBAL) __coevo.annotate(hidden);
  return [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, String(WOB_REWARD_REASON || '')];
}"""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person can set. Times in seconds.

    `success_at`: a raw reward of at least this is a success (0: anything above 0). `format_weight`: share of the reward
    that goes to well-formed actions, so that members which never solve a task still differ. `timed`: keep each task's
    own time limit. `max_turns`: actions after which the episode ends (None: the runner decides).
    """

    success_at: float = 0.0
    format_weight: float = 0.0
    timed: bool = False
    screenshots: bool = False
    max_turns: int | None = None
    step_timeout_s: float = 10.0


@cache
def html_directory() -> Path:
    """Where the wheel keeps its pages. Raises `ConfigError` when it is not installed."""
    try:
        import miniwob
    except ImportError as error:
        raise ConfigError(
            "MiniWoB++ is not installed", hint="install the web extra: pip install 'coevo[web]'"
        ) from error
    return Path(str(miniwob.__file__)).parent / "html" / "miniwob"


@cache
def task_names() -> tuple[str, ...]:
    """All task names of the installed wheel."""
    return tuple(sorted(path.stem for path in html_directory().glob("*.html")))


class MiniWoBEnvironment:
    """One MiniWoB page. The instance is fixed by the task alone; `reset`'s seed is not used, nothing else is random."""

    def __init__(self, slot: Slot, options: Options) -> None:
        self.slot = slot
        self.options = options
        self._view = PageView((), ())
        self._goal = ""
        self._turns = 0
        self._well_formed = 0
        self._done = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Starts the task's instance. Raises `WorldError` when the page cannot be loaded or does not answer."""
        name = str(task.data["name"])
        self._turns = self._well_formed = 0
        self._done = False
        if self.slot.key != name or name in RELOADED:
            self.slot.key = ""
            await self._run(self._load(name), f"loading {name}", LOAD_TIMEOUT_S)
            self.slot.key = name
        self._goal = await self._run(self._start(task), f"starting {task.id}")
        return Observation(
            self._view.text, goal=self._goal, url=self._url, screenshot_png=await self._screenshot()
        )

    async def step(self, action: str) -> Transition:
        """Does one action. What cannot be parsed or done comes back as text in `observation.error` and `info["error"]`,
        with `info["category"]` `parse_error` or `action_failed`; an episode that ends without success has `wrong_action`,
        `gave_up` or `turn_limit` there."""
        if self._done:
            raise RuntimeError("the episode is over: call reset first")
        error, category, performed, stopped = "", "", "", False
        try:
            parsed = parse(action)
            performed = canonical(parsed, self._view.elements)
            if parsed.verb in ("stop", "infeasible"):
                stopped = True
            elif parsed.verb in ELSEWHERE:
                nowhere = (
                    "there is no page to go back to" if parsed.verb == "back" else "there are no other pages"
                )
                raise ActionFailed(nowhere)
            else:
                await self._run(self._perform(parsed), f"{parsed.verb}")
            self._well_formed += 1
        except ParseError as problem:
            error, category = str(problem), "parse_error"
        except ActionFailed as problem:
            error, category, performed = str(problem), "action_failed", ""
        self._turns += 1
        return await self._transition(error, category, performed, stopped)

    async def close(self) -> None:
        """Nothing to do: the page belongs to the pool."""

    @property
    def _url(self) -> str:
        return self.slot.page.url

    async def _run(self, work: Any, what: str, timeout_s: float | None = None) -> Any:
        return await self.slot.run(work, timeout_s=timeout_s or self.options.step_timeout_s, what=what)

    async def _load(self, name: str) -> None:
        from playwright.async_api import Error

        path = html_directory() / f"{name}.html"
        try:
            await self.slot.page.goto(path.as_uri(), wait_until="load", timeout=LOAD_TIMEOUT_S * 1000)
        except Error as error:
            raise WorldError(f"{path} did not load: {error}") from error

    async def _start(self, task: Task) -> str:
        page = self.slot.page
        limit = None if self.options.timed else UNTIMED_MS
        start = page.evaluate(_START, [str(task.seed), limit, HIDDEN, SETTLE_MS])
        _, goal = await asyncio.gather(page.mouse.move(*PARKED), start)
        self._view = await observe(page, timeout_ms=self.options.step_timeout_s * 1000)
        return str(goal)

    async def _perform(self, parsed: Any) -> None:
        from playwright.async_api import Error

        try:
            await perform(self.slot.page, self._view, parsed)
        except Error as error:
            if self.slot.broken or self.slot.page.is_closed():
                raise
            raise ActionFailed(str(error).strip().split("\n", 1)[0]) from error

    async def _transition(self, error: str, category: str, performed: str, stopped: bool) -> Transition:
        done, raw, reason = await self._run(self._state(), "reading the page")
        task_reward = max(0.0, float(raw)) if done else 0.0
        success = done and (raw >= self.options.success_at if self.options.success_at > 0 else raw > 0)
        capped = self.options.max_turns is not None and self._turns >= self.options.max_turns
        self._done = bool(done or stopped or capped)
        if self._done and not success and not (error and not done):
            category = "wrong_action" if done else "gave_up" if stopped else "turn_limit"
        weight = self.options.format_weight
        form = self._well_formed / self._turns
        components = {"task": task_reward} | ({"format": form} if weight else {})
        info = {
            key: value
            for key, value in (
                ("error", error),
                ("category", category),
                ("performed", performed),
                ("reason", reason),
            )
            if value
        }
        observation = Observation(
            "" if self._done else self._view.text,
            goal=self._goal,
            url=self._url,
            error=error,
            screenshot_png=await self._screenshot() if self._done else None,
        )
        reward = (1 - weight) * task_reward + weight * form
        return Transition(
            observation, reward, self._done, success=bool(success), components=components, info=info
        )

    async def _state(self) -> tuple[bool, float, str]:
        from playwright.async_api import Error

        page = self.slot.page
        try:
            state = await page.evaluate(_STATE, [HIDDEN, SETTLE_MS])
        except Error as error:
            if "navigation" not in str(error):
                raise
            await page.wait_for_load_state()
            state = None
        if state is None:
            self.slot.key = ""
            raise WorldError(f"the page left its task for {page.url}")
        if not state[0]:
            self._view = await observe(page, timeout_ms=self.options.step_timeout_s * 1000)
        return bool(state[0]), float(state[1]), str(state[2])

    async def _screenshot(self) -> bytes | None:
        if not self.options.screenshots:
            return None
        shot = self.slot.page.screenshot(clip={"x": 0, "y": 0, "width": 160, "height": 210})
        picture: bytes = await self._run(shot, "taking a screenshot")
        return picture


class MiniWoBTasks:
    """The task set. Instances of a split are numbered; a number's seed depends on the task's name, the split and it."""

    name = "miniwob"

    def __init__(self, names: Sequence[str], counts: Mapping[str, int], options: Options) -> None:
        self.names = tuple(names)
        self.counts = dict(counts)
        self.options = options

    def tasks(self, split: str) -> list[Task]:
        """All tasks of a split, one of each name in turn. Raises `ConfigError` for an unknown split."""
        if split not in self.counts:
            raise ConfigError(f"MiniWoB has no split {split!r}", hint=f"use one of {', '.join(SPLITS)}")
        return [self._task(name, split, index) for index in range(self.counts[split]) for name in self.names]

    def pool(self, size: int, *, browser: Browser | None = None) -> BrowserPool:
        """Environments on pages of one Chromium, which starts at the first `acquire`."""
        return BrowserPool(
            size,
            key=lambda task: str(task.data["name"]),
            make=lambda slot: MiniWoBEnvironment(slot, self.options),
            init_script=INIT_SCRIPT,
            browser=browser,
            spare=min(size * len(self.names) - size, 24),
            shared=True,
        )

    def _task(self, name: str, split: str, index: int) -> Task:
        return Task(
            id=f"miniwob/{name}/{split}/{index}",
            goal=f"MiniWoB task {name}",
            seed=derive_seed("miniwob", name, split, index),
            group=name,
            data={"name": name, "split": split, "index": index},
        )


@checked
def tasks(
    names: str | Sequence[str] = (
        "click-test-2",
        "click-button",
        "click-link",
        "click-tab",
        "enter-text",
        "focus-text",
    ),
    *,
    train: int = 64,
    dev: int = 16,
    test: int = 32,
    **options: Any,
) -> MiniWoBTasks:
    """MiniWoB tasks by name, with so many instances a name in each split. Further options: see `Options`.

    Raises `ConfigError` for unknown names or options and for values out of range.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    if not names:
        raise ConfigError("no MiniWoB tasks named", hint="give names, for example names = ['click-button']")
    for name in names:
        if name not in task_names():
            raise ConfigError(f"MiniWoB has no task {name!r}", hint=_nearest(name, task_names()))
    known = tuple(Options.__dataclass_fields__)
    for key in options:
        if key not in known:
            raise ConfigError(f"unknown MiniWoB option {key!r}", hint=_nearest(key, known))
    counts = {"train": train, "dev": dev, "test": test}
    for split, count in counts.items():
        if count < 0:
            raise ConfigError(f"{split} = {count}: a split cannot have fewer than 0 instances a task")
    chosen = typed(Options, options)
    if not 0 <= chosen.format_weight <= 1:
        raise ConfigError(f"format_weight = {chosen.format_weight} is not between 0 and 1")
    if chosen.max_turns is not None and chosen.max_turns < 1:
        raise ConfigError(f"max_turns = {chosen.max_turns}: an episode has at least one turn")
    if chosen.step_timeout_s <= 0:
        raise ConfigError(f"step_timeout_s = {chosen.step_timeout_s} is no time at all")
    return MiniWoBTasks(list(dict.fromkeys(names)), counts, chosen)


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {', '.join(close)}?" if close else f"known are {', '.join(known[:12])} …"
