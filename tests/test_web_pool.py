"""Episodes side by side: nobody meets another's cookies, storage or pages, whatever breaks meanwhile."""

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

import processes
import pytest
import pytest_asyncio
from websites import Scorer, serving, task

from coevo.env import Task
from coevo.errors import ConfigError, WorldError
from webarena.browser import Browser
from webarena.environment import Options, WebArenaEnvironment
from webarena.web import WebPool
from webarena.worlds import Lease

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
WHO = task(start_url="__SHOPPING__/who")
STORAGE = task(start_url="__SHOPPING__/storage")


class Numbered:
    """Worlds in which every episode is logged in as someone else."""

    size = 8

    def __init__(self, url: str) -> None:
        self.url = url
        self.lent = 0
        self.open = 0
        self.given_back: list[tuple[Sequence[str], bool]] = []
        self.asked: list[tuple[Sequence[str], str, bool]] = []
        self.fails = False
        self.local_storage: list[dict[str, str]] = []
        self.closed = False

    async def lease(self, sites: Sequence[str], *, account: str, writes: bool) -> Lease:
        if self.fails:
            raise WorldError("the site is down")
        self.asked.append((sites, account, writes))
        self.lent += 1
        self.open += 1
        cookie = {"name": "user", "value": f"user-{self.lent}", "domain": "127.0.0.1", "path": "/"}
        origins = [{"origin": self.url, "localStorage": self.local_storage}] if self.local_storage else []
        return Lease({"shopping": self.url}, {"cookies": [cookie], "origins": origins}, key=self.lent)

    async def give_back(self, lease: Lease, *, written: Sequence[str] = (), broken: bool = False) -> None:
        self.open -= 1
        self.given_back.append((written, broken))

    async def close(self) -> None:
        self.closed = True


def chromium_processes() -> set[int]:
    """Processes below this one that belong to a browser."""
    return {pid for pid, command in processes.descendants(os.getpid()).items() if "chrom" in command}


class Fixture:
    def __init__(self, site: Any, size: int) -> None:
        self.site = site
        self.worlds = Numbered(site.url)
        self.pool = WebPool(size, self.worlds, Options(), Scorer())

    async def shows(self, what: Task) -> str:
        """The text of the first page of an episode."""
        environment = await self.pool.acquire(what)
        try:
            return (await environment.reset(what, seed=0)).text
        finally:
            await self.pool.release(environment)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web():
    with serving() as site:
        fixture = Fixture(site, 8)
        yield fixture
        await fixture.pool.close()


async def test_eight_at_once_have_their_own_cookies(web: Fixture) -> None:
    environments = await asyncio.gather(*(web.pool.acquire(WHO) for _ in range(8)))
    seen = await asyncio.gather(*(environment.reset(WHO, seed=0) for environment in environments))
    for environment, observation in zip(environments, seen, strict=True):
        assert f"You are user-{environment.lease.key}" in observation.text.splitlines()
    again = await asyncio.gather(*(environment.step("goto /who") for environment in environments))
    for environment, transition in zip(environments, again, strict=True):
        assert f"You are user-{environment.lease.key}" in transition.observation.text.splitlines()
    await asyncio.gather(*(web.pool.release(environment) for environment in environments))
    assert web.worlds.open == 0


async def test_a_context_is_used_again_and_remembers_nothing(web: Fixture) -> None:
    contexts = set()
    for _ in range(3):
        environment = await web.pool.acquire(STORAGE)
        contexts.add(environment.tabs.context)
        assert "found nothing and nothing" in (await environment.reset(STORAGE, seed=0)).text
        left = await environment.step("back")
        assert left.info["error"] == "there is no page to go back to"
        await web.pool.release(environment)
    assert len(contexts) < 3
    who = web.worlds.lent + 1
    assert f"You are user-{who}\n" in await web.shows(WHO) + "\n"


async def test_storage_of_the_lease_is_there(web: Fixture) -> None:
    web.worlds.local_storage = [{"name": "mark", "value": "given"}]
    try:
        assert "found given and nothing" in await web.shows(STORAGE)
    finally:
        web.worlds.local_storage = []
    assert "found nothing and nothing" in await web.shows(STORAGE)


async def test_what_a_task_needs_is_leased(web: Fixture) -> None:
    await web.shows(task(storage_state="./.auth/shopping_state.json"))
    await web.shows(task(coevo={"account": "ada", "kind": "change"}))
    assert web.worlds.asked[-2:] == [(("shopping",), "default", False), (("shopping",), "ada", True)]


async def test_a_pool_lends_no_more_than_its_size(web: Fixture) -> None:
    small = Fixture(web.site, 1)
    try:
        first = await small.pool.acquire(WHO)
        waiting = asyncio.ensure_future(small.pool.acquire(WHO))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await small.pool.release(first)
        await small.pool.release(first)
        second = await waiting
        assert small.worlds.open == 1
        await small.pool.release(second)
    finally:
        await small.pool.close()
    assert small.worlds.closed


async def test_a_lease_that_fails_keeps_no_place(web: Fixture) -> None:
    web.worlds.fails = True
    try:
        for _ in range(10):
            with pytest.raises(WorldError, match="the site is down"):
                await web.pool.acquire(WHO)
    finally:
        web.worlds.fails = False
    assert "You are" in await web.shows(WHO)


async def test_a_task_that_is_none(web: Fixture) -> None:
    with pytest.raises(ConfigError, match="task odd"):
        await web.pool.acquire(Task("odd", "?"))
    assert "You are" in await web.shows(WHO)


async def test_a_cancelled_episode_is_broken_and_gone(web: Fixture) -> None:
    hang = task(start_url="__SHOPPING__/hang")
    environment = await web.pool.acquire(hang)
    running = asyncio.ensure_future(environment.reset(hang, seed=0))
    while ("GET", "/hang") not in web.site.requests:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await web.pool.release(environment)
    assert web.worlds.given_back[-1] == ([], True)
    assert "You are" in await web.shows(WHO)


async def test_chromium_dies_in_the_middle(web: Fixture) -> None:
    own = Fixture(web.site, 2)
    try:
        environments = [await own.pool.acquire(WHO) for _ in range(2)]
        for environment in environments:
            await environment.reset(WHO, seed=0)
        kept = chromium_processes()
        assert kept
        steps = [asyncio.ensure_future(step_on(environment)) for environment in environments]
        await own.pool.browser._browser.close()
        for step in steps:
            with pytest.raises(WorldError):
                await step
        for environment in environments:
            await own.pool.release(environment)
        assert own.worlds.open == 0
        assert "You are user-3" in await own.shows(WHO)
    finally:
        await own.pool.close()


async def step_on(environment: WebArenaEnvironment) -> None:
    while True:
        await environment.step("goto /who")


async def test_nothing_is_left_behind() -> None:
    """A browser that is killed from outside, then a new one, then the end: no process of either stays."""
    before = chromium_processes()
    with serving() as site:
        own = Fixture(site, 2)
        environment = await own.pool.acquire(WHO)
        await environment.reset(WHO, seed=0)
        started = chromium_processes() - before
        assert started
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorldError):
            await step_on(environment)
        await own.pool.release(environment)
        assert "You are" in await own.shows(WHO)
        lent = await own.pool.acquire(WHO)
        await lent.reset(WHO, seed=0)
        await own.pool.close()  # with an episode under way
        assert own.worlds.open == 0
    for _ in range(200):
        if not chromium_processes() - before:
            break
        await asyncio.sleep(0.05)
    assert chromium_processes() - before == set()


async def test_a_size_that_is_none() -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        WebPool(0, Numbered(""), Options(), Scorer(), browser=Browser())
