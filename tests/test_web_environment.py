"""WebArena episodes in a real Chromium on a small site that does everything to make browsing hard."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import pytest_asyncio
from websites import Scorer, config, serving, task, unused_url

from coevo.env import Environment, ScoredAtEnd, Task
from coevo.errors import ConfigError, WorldError
from webarena.addresses import Addresses
from webarena.configs import parse_config
from webarena.environment import Options, WebArenaEnvironment
from webarena.observation import PageView
from webarena.web import WebPool, account_of, writes
from webarena.window import estimated_tokens, fit
from webarena.worlds import Lease

PAGE_CHECK = {
    "eval_types": ["program_html"],
    "reference_answers": None,
    "reference_url": "",
    "program_html": [{"url": "last", "locator": "", "required_contents": {"exact_match": "x"}}],
}
HOME = task()
browser = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


class OneSite:
    """Worlds of one site that everyone shares."""

    size = 8

    def __init__(self, url: str) -> None:
        self.urls = {"shopping": url}
        self.given_back: list[tuple[Sequence[str], bool]] = []

    async def lease(self, sites: Sequence[str], *, account: str, writes: bool) -> Lease:
        return Lease(self.urls)

    async def give_back(self, lease: Lease, *, written: Sequence[str] = (), broken: bool = False) -> None:
        self.given_back.append((written, broken))

    async def close(self) -> None:
        return None


class Fixture:
    def __init__(self, site: Any) -> None:
        self.site = site
        self.worlds = OneSite(site.url)
        self.scorer = Scorer()
        self.pool = WebPool(8, self.worlds, Options(observation_tokens=400), self.scorer)

    async def play(self, *actions: str, task: Task = HOME, **options: Any) -> list[Any]:
        """The first observation, then a transition for each action."""
        environment = await self.pool.acquire(task)
        try:
            environment.options = Options(**options) if options else environment.options
            seen: list[Any] = [await environment.reset(task, seed=0)]
            for action in actions:
                seen.append(await environment.step(action))
            return seen
        finally:
            await self.pool.release(environment)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web():
    with serving() as site:
        fixture = Fixture(site)
        yield fixture
        await fixture.pool.close()


def on(path: str) -> Task:
    return task(start_url=f"__SHOPPING__{path}")


def text(transition: Any) -> str:
    return transition.observation.text


async def until_it_breaks(environment: WebArenaEnvironment) -> None:
    for _ in range(50):
        await environment.step("wait 0")


class TestBrowsing:
    pytestmark = browser

    async def test_what_the_agent_sees(self, web: Fixture) -> None:
        seen, item = await web.play("click 'Item'")
        assert seen.text.splitlines()[:4] == [
            "URL: http://shopping/",
            "Title: Home",
            "heading 'Home'",
            "link 'Item' [1]",
        ]
        assert (seen.goal, seen.url, seen.title) == ("Find it", "http://shopping/", "Home")
        assert text(item).splitlines() == [
            "URL: http://shopping/item",
            "Title: Item",
            "heading 'Item'",
            "link 'Home' [1]",
        ]
        assert item.info == {"performed": "click 'Item'"}
        assert (item.done, item.reward) == (False, 0.0)

    async def test_history(self, web: Fixture) -> None:
        _, _, back, forward, again, nowhere = await web.play("click [1]", "back", "forward", "back", "back")
        assert back.observation.title == "Home"
        assert forward.observation.title == "Item"
        assert again.observation.title == "Home"
        assert nowhere.info["error"] == "there is no page to go back to"
        assert nowhere.observation.title == "Home"

    async def test_addresses(self, web: Fixture) -> None:
        seen = await web.play(
            "goto /item",
            "goto shopping/frame",
            f"goto {web.site.url}/item",
            "goto http://shopping",
            "goto ''",
        )
        assert [step.observation.url for step in seen[1:5]] == [
            "http://shopping/item",
            "http://shopping/frame",
            "http://shopping/item",
            "http://shopping/",
        ]
        assert seen[5].info["category"] == "parse_error"

    async def test_tabs_and_popups(self, web: Fixture) -> None:
        seen = await web.play(
            "click 'New window'",
            "tab 0",
            "new_tab",
            "goto /item",
            "close_tab",
            "tab 5",
            "tab 1",
            "click 'Close me'",
        )
        assert "Tabs: [0] 'Home', [1] 'Popup' (current)" in text(seen[1])
        assert "I popped up" in text(seen[1])
        assert "Tabs: [0] 'Home' (current), [1] 'Popup'" in text(seen[2])
        assert seen[3].observation.url == "about:blank"
        assert "[2] 'Item' (current)" in text(seen[4])
        assert "Tabs: [0] 'Home', [1] 'Popup' (current)" in text(seen[5])
        assert seen[6].info["error"] == "there is no tab 5; there are tabs 0 to 1"
        assert "I popped up" in text(seen[7])
        assert "Tabs:" not in text(seen[8])
        assert seen[8].observation.title == "Home"

    async def test_a_popup_has_no_history(self, web: Fixture) -> None:
        nowhere = (await web.play("click 'New window'", "back"))[2]
        assert nowhere.info["error"] == "there is no page to go back to"
        assert nowhere.observation.title == "Popup"

    async def test_several_start_pages(self, web: Fixture) -> None:
        several = task(start_url="__SHOPPING__/item |AND| __SHOPPING__/popup")
        seen, other = await web.play("tab 1", task=several)
        assert "Tabs: [0] 'Item' (current), [1] 'Popup'" in seen.text
        assert "I popped up" in text(other)

    async def test_a_window_opened_by_a_script(self, web: Fixture) -> None:
        assert "[1] 'Popup' (current)" in text((await web.play("click 'Open'"))[1])

    async def test_dialogs_are_answered_and_told(self, web: Fixture) -> None:
        _, said, asked, named = await web.play(
            "click 'Alert'", "click 'Confirm'", "click 'Prompt'", observation_tokens=2000
        )
        assert "Note: the page said 'Mind the gap'" in text(said)
        assert "Note: the page asked 'Really?' and was told yes" in text(asked)
        assert text(asked).endswith("yes")
        assert "Note: the page asked 'Name?' and got 'Ada'" in text(named)
        assert text(named).endswith("Ada")

    async def test_a_page_that_asks_before_it_is_left(self, web: Fixture) -> None:
        _, _, left = await web.play("type 'Draft' 'words'", "click 'Item'", task=on("/unload"))
        assert left.observation.title == "Item"
        assert "was told yes" in text(left)

    async def test_downloads_and_file_fields(self, web: Fixture) -> None:
        _, file, field = await web.play("click 'File'", "click 'Picture'")
        assert "Note: the file 'report.csv' was downloaded" in text(file)
        assert file.observation.title == "Home"
        assert "Note: the page asked for a file" in text(field)

    async def test_what_comes_late_is_waited_for(self, web: Fixture) -> None:
        _, loaded = await web.play("click 'Load'", observation_tokens=2000)
        assert text(loaded).endswith("loaded data")
        assert "At last" in text((await web.play("click 'Slow'"))[1])

    async def test_frames(self, web: Fixture) -> None:
        _, pressed = await web.play("click 'Inside'", task=on("/frame"))
        assert "button 'pressed' [1]" in text(pressed)

    async def test_forms(self, web: Fixture) -> None:
        assert "Found wool" in text((await web.play("type 'Query' 'wool' enter", task=on("/search")))[1])
        assert web.worlds.given_back[-1] == ([], False)
        assert "Saved" in text((await web.play("type 'Query' 'wool'", "click 'Save'", task=on("/form")))[2])
        assert web.worlds.given_back[-1] == (["shopping"], False)

    async def test_queries_by_post_are_no_writes(self, web: Fixture) -> None:
        await web.play("click 'Query'", task=on("/graph"))
        assert web.worlds.given_back[-1] == ([], False)
        await web.play("click 'Query'", "click 'Mutate'", task=on("/graph"))
        assert web.worlds.given_back[-1] == (["shopping"], False)

    async def test_the_other_dialects(self, web: Fixture) -> None:
        found = (await web.play("type [1] [wool] [1]", task=on("/search"), dialect="webarena"))[1]
        assert "Found wool" in text(found)
        assert found.info["performed"] == "type [1] [wool] [1]"
        call = 'do(action="Search", argument="wool", element="1")'
        assert "Found wool" in text((await web.play(call, task=on("/search"), dialect="webrl"))[1])

    async def test_screenshots(self, web: Fixture) -> None:
        seen, ended = await web.play("stop", screenshots=True)
        assert seen.screenshot_png.startswith(b"\x89PNG")
        assert ended.observation.screenshot_png.startswith(b"\x89PNG")

    async def test_a_large_page_is_cut_and_scrolling_shows_more(self, web: Fixture) -> None:
        first, scrolled, _, clicked = await web.play(
            "scroll down", "scroll up", "click 'Row 350'", task=on("/long"), observation_tokens=150
        )
        assert "Row 0'" in first.text
        assert first.text.splitlines()[-1].endswith("lines left out: scroll down")
        assert estimated_tokens(first.text) < 200
        assert "Row 0'" not in text(scrolled)
        assert "lines left out: scroll up" in text(scrolled)
        assert clicked.observation.title == "Item"  # by its name, though it was left out

    async def test_at_the_end_of_the_page(self, web: Fixture) -> None:
        assert (await web.play("scroll up"))[1].info["error"] == "scroll: already at the top"


class TestBounds:
    """Only the episode's sites can be reached, whatever leads elsewhere."""

    pytestmark = browser

    @pytest.mark.parametrize(
        "action",
        [
            "click 'Elsewhere'",
            "click 'Elsewhere in a new tab'",
            "click 'Open elsewhere'",
            "click 'Leave by script'",
            "click 'Redirect away'",
            "goto http://elsewhere.example/",
        ],
    )
    async def test_leaving_is_refused(self, web: Fixture, action: str) -> None:
        _, refused, after = await web.play(action, "click 'Item'")
        assert refused.info["category"] == "forbidden_host"
        assert "is not allowed: this task has only http://shopping" in refused.info["error"]
        assert f"Error: {refused.info['error']}" in text(refused)
        assert "elsewhere.example" in refused.info["error"]
        assert refused.observation.title == "Home"
        assert after.observation.title == "Item"

    @pytest.mark.parametrize(
        "url", ["file:///etc/passwd", "chrome://version", "javascript:1", "http://127.0.0.1:9/"]
    )
    async def test_no_other_kind_of_address(self, web: Fixture, url: str) -> None:
        assert (await web.play(f"goto {url}"))[1].info["category"] == "forbidden_host"

    async def test_nothing_of_a_page_comes_from_elsewhere(self, web: Fixture) -> None:
        with serving() as other:
            environment = await web.pool.acquire(HOME)
            await environment.reset(HOME, seed=0)
            script = f"fetch('{other.url}/data', {{mode: 'no-cors'}}).then(() => 'came', () => 'did not')"
            assert await environment.tabs.page.evaluate(script) == "did not"
            await web.pool.release(environment)
            assert other.requests == []


class TestMistakes:
    """What the agent does wrong comes back as text."""

    pytestmark = browser

    @pytest.mark.parametrize(
        ("action", "category", "says"),
        [
            ("Hello!", "parse_error", "is not an action; write one line such as"),
            ("click 'Sail'", "parse_error", "there is no 'Sail' on the page; there are: link 'Item' [1]"),
            ("type 'Item' 'x'", "action_failed", "cannot be typed into"),
            ("forward", "action_failed", "there is no page to go forward to"),
            ("goto http://[", "forbidden_host", "not allowed"),
        ],
    )
    async def test_errors_are_told(self, web: Fixture, action: str, category: str, says: str) -> None:
        seen = (await web.play(action))[1]
        assert seen.info["category"] == category
        assert says in seen.info["error"]
        assert seen.observation.error == seen.info["error"]
        assert (seen.done, seen.reward) == (False, 0.0)

    @pytest.mark.parametrize(
        ("actions", "category"),
        [(["Hello!", "Hi!", "Hm?"], "parse_error"), (["wait 0", "wait 0", "wait 0"], "gave_up")],
    )
    async def test_an_agent_that_is_stuck_is_stopped(
        self, web: Fixture, actions: list[str], category: str
    ) -> None:
        *_, before, last = await web.play(*actions, stuck_after=3)
        assert not before.done
        assert (last.done, last.info["category"], last.info["scorer"]) == (True, category, "fake/1")


class TestScores:
    pytestmark = browser

    @pytest.mark.parametrize(
        ("action", "answer", "reward", "category"),
        [
            ("stop '42'", "42", 1.0, None),
            ("stop '41'", "41", 0.0, "wrong_answer"),
            ("stop", "", 0.0, "gave_up"),
            ("infeasible 'no such thing'", "N/A", 0.0, "gave_up"),
        ],
    )
    async def test_stopping_scores(
        self, web: Fixture, action: str, answer: str, reward: float, category: str | None
    ) -> None:
        ended = (await web.play(action))[1]
        assert (ended.done, ended.reward, ended.success) == (True, reward, reward == 1.0)
        assert ended.components == {"string_match": reward}
        assert ended.info["scorer"] == "fake/1"
        assert ended.info.get("category") == category
        assert web.scorer.asked[-1] == (answer, f"{web.site.url}/")

    async def test_an_answer_names_sites_by_their_real_address(self, web: Fixture) -> None:
        await web.play("stop 'http://shopping/item'")
        assert web.scorer.asked[-1][0] == f"{web.site.url}/item"

    async def test_turns_used_up(self, web: Fixture) -> None:
        environment = await web.pool.acquire(HOME)
        assert isinstance(environment, Environment)
        assert isinstance(environment, ScoredAtEnd)
        await environment.reset(HOME, seed=0)
        await environment.step("click 'Item'")
        scored = await environment.finish()
        assert (scored.done, scored.reward, scored.info["category"]) == (True, 0.0, "turn_limit")
        assert web.scorer.asked[-1] == ("", f"{web.site.url}/item")
        with pytest.raises(RuntimeError, match="the episode is over"):
            await environment.step("back")
        await web.pool.release(environment)

    async def test_a_scorer_that_fails_makes_no_zero(
        self, web: Fixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fails(*args: Any, **named: Any) -> None:
            raise WorldError("the judge mumbles")

        monkeypatch.setattr(web.scorer, "score", fails)
        with pytest.raises(WorldError, match="the judge mumbles"):
            await web.play("stop '42'")


class TestBrokenWorlds:
    """A world that breaks is an error, and the next episode works."""

    pytestmark = browser

    @pytest.mark.parametrize(
        ("start", "says"),
        [("/hang", "/hang did not answer within 1 s"), ("http://127.0.0.1:1/x", "not allowed")],
    )
    async def test_a_start_page_that_does_not_come(self, web: Fixture, start: str, says: str) -> None:
        broken = task(start_url=start if start.startswith("http") else f"__SHOPPING__{start}")
        environment = await web.pool.acquire(broken)
        environment.tabs.load_timeout_s = 1
        with pytest.raises(WorldError, match=says):
            await environment.reset(broken, seed=0)
        await web.pool.release(environment)
        assert web.worlds.given_back[-1][1] is True
        assert (await web.play("click 'Item'"))[1].observation.title == "Item"

    @pytest.mark.parametrize("status", [404, 500, 503])
    async def test_a_start_page_that_is_an_error(self, web: Fixture, status: int) -> None:
        web.site.down["/item"] = status
        try:
            with pytest.raises(WorldError, match=f"/item answered {status}"):
                await web.play(task=on("/item"))
        finally:
            web.site.down.clear()

    async def test_a_site_that_goes_away(self, web: Fixture) -> None:
        web.site.down["/item"] = 502
        try:
            with pytest.raises(WorldError, match="http://shopping/item answered 502"):
                await web.play("click 'Item'")
        finally:
            web.site.down.clear()
        gone = OneSite(unused_url())
        web.pool.worlds, kept = gone, web.pool.worlds
        try:
            with pytest.raises(WorldError, match="ERR_CONNECTION_REFUSED"):
                await web.play()
        finally:
            web.pool.worlds = kept
        assert gone.given_back == [([], True)]

    async def test_a_page_that_hangs_while_it_loads(self, web: Fixture) -> None:
        environment = await web.pool.acquire(HOME)
        await environment.reset(HOME, seed=0)
        environment.tabs.load_timeout_s = 1
        with pytest.raises(WorldError, match="did not load within 1 s"):
            await environment.step("click 'Hang'")
        await web.pool.release(environment)

    async def test_a_script_that_never_ends(self, web: Fixture) -> None:
        environment = await web.pool.acquire(HOME)
        await environment.reset(HOME, seed=0)
        environment.options = Options(step_timeout_s=1)
        with pytest.raises(WorldError, match="click: the page did not answer within 1 s"):
            await environment.step("click 'Loop'")
        await web.pool.release(environment)
        assert web.worlds.given_back[-1] == ([], True)
        assert (await web.play("click 'Item'"))[1].observation.title == "Item"

    async def test_a_crash(self, web: Fixture) -> None:
        environment = await web.pool.acquire(HOME)
        await environment.reset(HOME, seed=0)
        session = await environment.tabs.context.new_cdp_session(environment.tabs.page)
        crash = asyncio.ensure_future(session.send("Page.crash"))
        with pytest.raises(WorldError, match="crashed"):
            await until_it_breaks(environment)
        crash.cancel()
        await asyncio.gather(crash, return_exceptions=True)
        await web.pool.release(environment)
        assert (await web.play("click 'Item'"))[1].observation.title == "Item"


class TestWindow:
    """Which lines of a large page are shown."""

    def view(self, *rows: tuple[str, int | None]) -> PageView:
        lines = tuple(line for line, _ in rows)
        return PageView(lines, (), tuple(None if top is None else (0, top, 50, 20) for _, top in rows))

    def rows(self, *tops: int) -> PageView:
        return self.view(*((f"link 'Row {top}' [{number}]", top) for number, top in enumerate(tops, 1)))

    def test_everything_if_it_fits(self) -> None:
        view = self.rows(0, 5000)
        assert fit(view, viewport=(100, 100), tokens=100) == view.lines

    def test_the_screen_first_then_what_is_nearest(self) -> None:
        view = self.rows(*range(-1000, 2000, 50))
        shown = fit(view, viewport=(100, 100), tokens=120)
        assert shown[0].endswith("lines left out: scroll up")
        assert shown[-1].endswith("lines left out: scroll down")
        at = view.lines.index(shown[1])
        assert shown[1:-1] == view.lines[at : at + len(shown) - 2]
        assert {
            "link 'Row -50' [20]",
            "link 'Row 0' [21]",
            "link 'Row 50' [22]",
            "link 'Row 100' [23]",
        } <= set(shown)
        assert sum(map(estimated_tokens, shown)) <= 120

    def test_what_was_acted_on_stays(self) -> None:
        view = self.rows(*range(0, 5000, 50))
        shown = fit(view, viewport=(100, 100), tokens=150, acted_on="link 'Row 4000' [7] = 'x'")
        assert "link 'Row 4000' [81]" in shown
        assert "link 'Row 3950' [80]" in shown
        assert "link 'Row 0' [1]" in shown
        assert sum(map(estimated_tokens, shown)) <= 150

    def test_a_line_without_a_place_is_where_the_one_before_is(self) -> None:
        view = self.view(("a " * 30, 0), ("b " * 30, None), ("c " * 30, 900))
        shown = fit(view, viewport=(100, 100), tokens=90)
        assert shown == ("a " * 30, "b " * 30, "… 1 lines left out: scroll down")

    @pytest.mark.parametrize("tokens", [16, 64, 200])
    def test_never_more_than_asked_for(self, tokens: int) -> None:
        view = self.rows(
            *[top for pair in zip(range(0, 2000, 20), range(3000, 1000, -20), strict=True) for top in pair]
        )
        assert sum(map(estimated_tokens, fit(view, viewport=(100, 500), tokens=tokens))) <= max(tokens, 20)

    def test_tokens(self) -> None:
        assert estimated_tokens("link 'Sign In' [3]") == 9


class TestAddresses:
    addresses = Addresses(
        {
            "shopping": "http://shop.test:7770",
            "shopping_admin": "http://shop.test:7780/admin",
            "reddit": "http://shop.test:77",
        }
    )

    @pytest.mark.parametrize(
        ("real", "shown"),
        [
            ("http://shop.test:7770/cart?a=1", "http://shopping/cart?a=1"),
            ("http://shop.test:7780/admin", "http://shopping_admin"),
            ("at http://shop.test:7780/admin/x, or", "at http://shopping_admin/x, or"),
            ("http://shop.test:77/f", "http://reddit/f"),
            ("git clone shop.test:7770/x", "git clone shopping/x"),
            ("http://shop.test:77701/", "http://shop.test:77701/"),
        ],
    )
    def test_shown(self, real: str, shown: str) -> None:
        assert self.addresses.shown(real) == shown

    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("/cart", "http://shop.test:7770/cart"),
            ("?p=2", "http://shop.test:7770/a/b?p=2"),
            ("shopping_admin/x", "http://shop.test:7780/admin/x"),
            ("http://reddit/f", "http://shop.test:77/f"),
            ("reddit", "http://shop.test:77"),
            ("http://shop.test:7770/x", "http://shop.test:7770/x"),
            ("shop.test:7770/x", "http://shop.test:7770/x"),
            ("elsewhere.example/x", "http://elsewhere.example/x"),
            ("file:///etc/passwd", "file:///etc/passwd"),
        ],
    )
    def test_absolute(self, text: str, url: str) -> None:
        assert self.addresses.absolute(text, "http://shop.test:7770/a/b") == url

    def test_sites(self) -> None:
        assert self.addresses.site("http://shop.test:7780/admin/orders") == "shopping_admin"
        assert self.addresses.site("http://shop.test:7780/media/x") == "shopping_admin"
        assert self.addresses.site("http://shop.test:7770/checkout") == "shopping"
        assert self.addresses.site("http://elsewhere.example/") == ""
        assert not self.addresses.allowed("http://shop.test:7771/")
        assert not self.addresses.allowed("http://shop.test:99999/")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dialect": "html"}, "there is no action dialect 'html'"),
        ({"step_timeout_s": 0}, "step_timeout_s = 0 is no time at all"),
        ({"observation_tokens": 10}, "a page needs at least 64"),
        ({"stuck_after": -1}, "0 means never"),
        ({"viewport": (10, 10)}, "at least 100 pixels each"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Options(**options)


@pytest.mark.parametrize(
    ("changes", "account", "write"),
    [
        ({}, "", False),
        ({"storage_state": "./.auth/shopping_state.json"}, "default", False),
        ({"sites": ["gitlab", "wikipedia"], "storage_state": "./.auth/gitlab_state.json"}, "default", False),
        ({"sites": ["shopping", "reddit"], "storage_state": "./.auth/reddit_state.json"}, "default@reddit", False),
        ({"sites": ["gitlab", "reddit"], "storage_state": "./.auth/gitlab.reddit_state.json"}, "default", False),
        ({"coevo": {"account": "ada", "kind": "change"}}, "ada", True),
        ({"coevo": {"account": "", "kind": "information"}}, "", False),
        ({"eval": PAGE_CHECK}, "", True),
    ],
)  # fmt: skip
def test_who_a_task_is_done_as_and_whether_it_writes(
    changes: dict[str, Any], account: str, write: bool
) -> None:
    parsed = parse_config(config(**changes))
    assert (account_of(parsed), writes(parsed)) == (account, write)
