"""Scoring an episode: what WebArena's three evaluators say of the agent's answer and of the pages it leaves behind.

The reward is the product of the evaluators a task names, in one of two dialects (`webarena.matching`). A world that does
not answer, or a judge that gives no verdict, is a `WorldError`: such an episode has no score.
"""

from __future__ import annotations

import asyncio
import html
import math
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from coevo.errors import ConfigError, WorldError
from webarena.browser import first_line
from webarena.configs import Check, Evaluation, Target, TaskConfig, resolve_evaluation
from webarena.helpers import Call, Surroundings, perform_call
from webarena.judge import Judge
from webarena.matching import (
    DIALECTS,
    Dialect,
    exact_match,
    must_exclude,
    must_include,
    normalise,
    one_of,
    required_values,
    url_match,
)
from webarena.watch import is_loss

if TYPE_CHECKING:
    from playwright.async_api import Page, Request

T = TypeVar("T")

VERSION = 1
LOAD_TIMEOUT_S = 30.0
WORK_TIMEOUT_S = 15.0
QUIET_LIMIT_MS = 3000
QUIET_MOMENT_S = 0.1
ONLY_VAB = frozenset({"must_exclude", "one_of", "required_values"})
_SETTLE = """async (limit) => {
  if (!window.__coevo?.settle) return false;
  await __coevo.settle(limit);
  return true;
}"""


@dataclass(frozen=True, slots=True)
class Score:
    """`components`: 0 or 1 for each evaluator of the task. `reward`: their product. `scorer`: dialect and version."""

    reward: float
    components: Mapping[str, float]
    scorer: str


class Evaluator:
    """Scores tasks in one dialect. `judge` is asked for the references that only a reader can compare."""

    def __init__(
        self,
        dialect: Dialect,
        judge: Judge | None = None,
        *,
        load_timeout_s: float = LOAD_TIMEOUT_S,
        work_timeout_s: float = WORK_TIMEOUT_S,
    ) -> None:
        if dialect not in DIALECTS:
            raise ConfigError(
                f"there is no evaluator dialect {dialect!r}", hint=f"use one of {', '.join(DIALECTS)}"
            )
        self.dialect = dialect
        self.judge = judge
        self.scorer = f"{dialect}/{VERSION}"
        self._load_timeout_s = load_timeout_s
        self._work_timeout_s = work_timeout_s

    def check(self, config: TaskConfig) -> None:
        """Raises `ConfigError` where this evaluator cannot score a task: no judge, or not in the dialect."""
        evaluation = config.eval
        answers = evaluation.reference_answers if "string_match" in evaluation.eval_types else ()
        targets = evaluation.program_html if "program_html" in evaluation.eval_types else ()
        contents = [target.contents for target in targets]
        kinds = {check.kind for check in (*answers, *contents)}
        if self.dialect == "webarena":
            foreign = sorted(kinds & ONLY_VAB)
            foreign += ["fuzzy_match on a page"] * any(check.kind == "fuzzy_match" for check in contents)
            foreign += ["lambda: locators"] * any(
                isinstance(target.locator, str) and target.locator.startswith("lambda:") for target in targets
            )
            if foreign:
                raise ConfigError(
                    f"task {config.task_id}: the dialect webarena has no {', '.join(foreign)}",
                    hint="use the dialect vab",
                )
        if "url_match" in evaluation.eval_types:
            url_match(evaluation.reference_url, "", evaluation.url_note, self.dialect)
        if self.judge is None and kinds & {"fuzzy_match", "unachievable"}:
            raise ConfigError(
                f"task {config.task_id} needs a judge: its reference is compared by meaning",
                hint="name a chat model, judge = 'provider:model', or leave such tasks out",
            )

    async def score(self, config: TaskConfig, *, answer: str, page: Page, urls: Mapping[str, str]) -> Score:
        """Scores the agent's final `answer` ("" for none) and the pages as they are; `page` is where the agent stopped, and
        is navigated. `urls`: base URL of each site.

        Raises `ConfigError` as `check` does and for a site without URL, `WorldError` when page, site or judge fail.
        """
        self.check(config)
        evaluation = resolve_evaluation(config, urls)
        stopped_at = page.url
        components = {}
        for eval_type in evaluation.eval_types:
            if eval_type == "string_match":
                passed = await self._answers(evaluation, config.intent, answer)
            elif eval_type == "url_match":
                passed = url_match(evaluation.reference_url, stopped_at, evaluation.url_note, self.dialect)
            else:
                passed = await self._pages(evaluation, config.intent, page, urls)
            components[eval_type] = float(passed)
        return Score(math.prod(components.values()), components, self.scorer)

    async def _answers(self, evaluation: Evaluation, intent: str, answer: str) -> bool:
        said = normalise(answer, self.dialect)
        passed = True
        for check in evaluation.reference_answers:
            if check.kind == "unachievable":
                # As in the benchmark, the verdict on the reason replaces what came before.
                passed = passed and exact_match(check.values[0], said, self.dialect)
                passed = passed or await self._agrees_it_cannot_be_done(evaluation.string_note, intent, said)
            elif passed:
                passed = await self._matches(check, intent, said)
        return passed

    async def _agrees_it_cannot_be_done(self, reason: str, intent: str, said: str) -> bool:
        return bool(said.strip()) and await self._judge.same_reason(intent, reason, said)

    async def _matches(self, check: Check, intent: str, text: str, *, page: bool = False) -> bool:
        """Whether a text, the agent's or a page's, meets a reference."""
        if check.kind == "exact_match":
            return exact_match(check.values[0], text, self.dialect)
        if check.kind == "must_include":  # in a thread: tokenising a large page takes a while
            return await asyncio.to_thread(must_include, check.values, text, self.dialect, page=page)
        if check.kind == "must_exclude":
            return await asyncio.to_thread(must_exclude, check.values, text)
        if check.kind == "one_of":
            return one_of(check.values, text)
        if check.kind == "required_values":
            return required_values(check.values, text)
        if not text.strip():
            return False  # nothing was said: no judge can find it right
        references = [", ".join(check.values)] if self.dialect == "vab" else check.values
        for reference in references:
            if not await self._judge.equivalent(intent, reference, text):
                return False
        return True

    async def _pages(self, evaluation: Evaluation, intent: str, page: Page, urls: Mapping[str, str]) -> bool:
        passed = True
        with _Traffic(page) as traffic:
            for target in evaluation.program_html:
                passed = await self._target(target, intent, page, urls, traffic) and passed
        return passed

    async def _target(
        self, target: Target, intent: str, page: Page, urls: Mapping[str, str], traffic: _Traffic
    ) -> bool:
        around = Surroundings(page, urls)
        url = target.url
        if isinstance(url, Call):
            _, found = await self._try(page, perform_call(url, around), f"helper {url.name}")
            url = found or ""
            if not url.startswith(("http://", "https://")):
                return False  # there is no such order or post
        if url != "last":
            await self._visit(page, url)
        await self._settle(page)
        for script in target.prep_actions:
            done, _ = await self._try(page, page.evaluate(f"() => {script}"), "a preparing script")
            if not done:
                break  # a page without its elements is judged as it is
        if target.prep_actions:
            await self._settle(page)
        if await self._holds(target, intent, await self._select(page, target, around)):
            return True
        if target.contents.kind == "fuzzy_match":
            return False  # not worth a second opinion
        await traffic.rest()  # scripts may still have been fetching what was looked for
        await self._settle(page)
        return await self._holds(target, intent, await self._select(page, target, around))

    async def _holds(self, target: Target, intent: str, text: str | None) -> bool:
        if text is None:
            return False
        if self.dialect == "webarena":
            text = html.unescape(text)
        return await self._matches(target.contents, intent, text, page=True)

    async def _select(self, page: Page, target: Target, around: Surroundings) -> str | None:
        """The text a target's locator picks; None where the page is not one that has it."""
        locator = target.locator
        if isinstance(locator, Call):
            _, text = await self._try(page, perform_call(locator, around), f"helper {locator.name}")
            return text or ""
        if not locator:
            _, content = await self._try(page, page.content(), "reading the page")
            return content or ""
        if locator.startswith("lambda:"):
            script = locator.removeprefix("lambda:").strip()
            _, value = await self._try(page, page.evaluate(script), "a locator")
            return str(value) if value else None
        found, value = await self._try(page, page.evaluate(f"() => {locator}"), "a locator")
        return str(value) if found else ""

    async def _visit(self, page: Page, url: str) -> None:
        from playwright.async_api import Error, TimeoutError

        limit_s = self._load_timeout_s
        for attempt in (1, 2):
            try:
                loading = page.goto(url, wait_until="load", timeout=limit_s * 1000)
                response = await self._within(page, loading, f"loading {url}", limit_s + 1)
            except Error as error:
                if attempt == 1 and not isinstance(error, TimeoutError):
                    continue  # a redirect of the page itself can cut a navigation short
                raise WorldError(f"{url} did not load for scoring: {first_line(error)}") from error
            if response is not None and response.status >= 500:
                raise WorldError(
                    f"{url} answered {response.status} while scoring", hint="check the site's own log"
                )
            return

    async def _settle(self, page: Page) -> None:
        """Until the document is at rest: by the page script where it is there, else by the network. For a limited time: a
        page that never rests is judged as it is."""
        _, settled = await self._try(page, page.evaluate(_SETTLE, QUIET_LIMIT_MS), "waiting for the page")
        if not settled:
            waiting = page.wait_for_load_state("networkidle", timeout=QUIET_LIMIT_MS)
            await self._try(page, waiting, "waiting for the network")

    async def _try(self, page: Page, work: Awaitable[T], what: str) -> tuple[bool, T | None]:
        """Whether work on the page came to an end, and its result. A failing script is not the world's failure."""
        from playwright.async_api import Error

        try:
            return True, await self._within(page, work, what, self._work_timeout_s)
        except Error:
            return False, None

    async def _within(self, page: Page, work: Awaitable[T], what: str, timeout_s: float) -> T:
        """Awaits work on the page. Raises `WorldError` when the page is lost or hangs; other errors pass."""
        from playwright.async_api import Error

        try:
            return await asyncio.wait_for(work, timeout_s)
        except TimeoutError as error:
            raise WorldError(f"{what} while scoring: no answer within {timeout_s:g} s") from error
        except Error as error:
            if page.is_closed() or is_loss(error):
                raise WorldError(f"{what} while scoring: {first_line(error)}") from error
            raise

    @property
    def _judge(self) -> Judge:
        assert self.judge is not None  # see `check`
        return self.judge


class _Traffic:
    """The requests of a page that are under way, counted while in use."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: set[Request] = set()
        self._seen = 0

    def __enter__(self) -> _Traffic:
        self._page.on("request", self._sent)
        self._page.on("requestfinished", self._ended)
        self._page.on("requestfailed", self._ended)
        return self

    def __exit__(self, *_: object) -> None:
        self._page.remove_listener("request", self._sent)
        self._page.remove_listener("requestfinished", self._ended)
        self._page.remove_listener("requestfailed", self._ended)

    async def rest(self) -> None:
        """Until nothing has been under way for a moment, for a limited time."""
        clock = asyncio.get_running_loop().time
        end = clock() + QUIET_LIMIT_MS / 1000
        while clock() < end:
            seen = self._seen
            await asyncio.sleep(QUIET_MOMENT_S)
            if not self._open and seen == self._seen:
                return

    def _sent(self, request: Request) -> None:
        self._seen += 1
        self._open.add(request)

    def _ended(self, request: Request) -> None:
        self._open.discard(request)
