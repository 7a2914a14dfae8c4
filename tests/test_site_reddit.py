"""The local forum: its invented content, its pages in a real browser, and every kind of task solved once by its script."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from webarena.arena import Arena
from webarena.browser import Browser
from webarena.configs import TaskConfig, parse_config
from webarena.evaluators import Evaluator
from webarena.observation import INIT_SCRIPT
from webarena.sites import base, load_site
from webarena.sites.base import Instance, Template
from webarena.sites.reddit.content import Content, content, slugify
from webarena.sites.seed import seed_state

SEED = 3
SLOTS = 2

site = load_site("reddit")


# content, without the application


def test_content_depends_on_the_seed_alone() -> None:
    assert content.__wrapped__(5) == content(5)
    assert {topic.title for topic in content(5).topics} != {topic.title for topic in content(6).topics}


@pytest.mark.parametrize("seed", range(2))
def test_content_is_rich_and_consistent(seed: int) -> None:
    community = content(seed)
    comments = [comment for topic in community.topics for comment in topic.comments]
    assert len(community.forums) >= 10
    assert len(community.members) >= 40
    assert len(community.topics) >= 250
    assert len(comments) >= 1200
    assert len({topic.title.lower() for topic in community.topics}) == len(community.topics)
    assert len({member.name for member in community.members}) == len(community.members)
    assert len({comment.id for comment in comments}) == len(comments)
    for topic in (*community.topics, *community.private):
        dates = [comment.date for comment in topic.comments]
        assert dates == sorted(set(dates))
        assert all(comment.author not in comment.likes for comment in topic.comments)
    texts = [topic.title for topic in community.topics] + [comment.text for comment in comments]
    assert not [text for text in texts if re.search(r"[{}]|\ba [aeiouAEIOU]", text)]


def test_slugs_are_those_of_django() -> None:
    text = importlib.import_module("django.utils.text")
    for topic in content(0).topics:
        assert slugify(topic.title) == text.slugify(topic.title)[:50].strip("-")


# templates


def test_templates_have_levels_kinds_and_many_distinct_instances() -> None:
    templates = site.templates()
    assert len({template.id for template in templates}) == len(templates) >= 12
    assert all(1201 <= template.id <= 1299 and template.site == "reddit" for template in templates)
    assert {template.level for template in templates} == {1, 2, 3}
    assert {template.kind for template in templates} == {
        "information",
        "navigation",
        "change",
        "unachievable",
    }
    for template in templates:
        instances = template.instances(SEED)
        assert instances == template.instances(SEED)
        assert len(instances) >= 8
        assert len({instance.entity for instance in instances}) >= 8
        assert len({tuple(instance.values.items()) for instance in instances}) >= 8 or template.id == 1206
        slots = set(re.findall(r"\{\{(\w+)\}\}", template.intent))
        assert all(slots == set(instance.values) for instance in instances)
        assert template.account in {"", *site.accounts}


def test_the_wording_does_not_give_unachievable_tasks_away() -> None:
    wordings = Counter(re.sub(r"\{\{.*?\}\}", "", template.intent) for template in site.templates())
    for template in site.templates():
        if template.kind == "unachievable":
            assert wordings[re.sub(r"\{\{.*?\}\}", "", template.intent)] == 2


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.missing() == ""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "spirit" in site.missing()
    assert "coevo[arena]" in site.missing()


# the application


@dataclass
class Forum:
    """A running forum with a browser. `requests` are those that any page has made."""

    arena: Arena
    browser: Browser
    requests: list[str]

    def url(self, slot: int) -> str:
        return self.arena.urls(slot)["reddit"]

    async def page(self, slot: int, account: str) -> Any:
        state = self.arena.storage_state(slot, ["reddit"], account)
        page = await self.browser.new_page(init_script=INIT_SCRIPT, storage_state=state)
        page.on("request", lambda request: self.requests.append(request.url))
        page.set_default_timeout(20_000)
        return page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def forum(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Forum]:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    browser = Browser(viewport=(900, 600))
    try:
        arena = await Arena.start(["reddit"], slots=SLOTS, seed=SEED, browser=browser)
        try:
            yield Forum(arena, browser, [])
        finally:
            await arena.close()
    finally:
        await browser.close()
        patch.undo()


def config_of(template: Template, instance: Instance) -> TaskConfig:
    intent = template.intent
    for name, value in instance.values.items():
        intent = intent.replace(f"{{{{{name}}}}}", value)
    raw = {
        "sites": ["reddit"],
        "task_id": template.id,
        "intent": intent,
        "intent_template_id": template.id,
        "start_url": "__REDDIT__" + instance.start,
        "eval": dict(instance.eval),
    }
    return parse_config(raw)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_every_task_is_solved_by_its_script_and_not_by_doing_nothing(forum: Forum) -> None:
    """The first instance of each template. Afterwards no page has asked for anything from elsewhere."""
    waiting = list(site.templates())
    verdicts: dict[int, tuple[float, float]] = {}
    pages: dict[tuple[int, str], Any] = {}

    async def work(slot: int) -> None:
        urls = {"reddit": forum.url(slot)}
        while waiting:
            template = waiting.pop()
            instance = template.instances(SEED)[0]
            config = config_of(template, instance)
            await forum.arena.restore(slot)
            key = (slot, template.account)
            page = pages[key] = pages.get(key) or await forum.page(slot, template.account)
            start = urls["reddit"] + instance.start
            if "program_html" in config.eval.eval_types:  # the evaluator goes where it has to look
                idle = await Evaluator("webarena").score(config, answer="", page=page, urls=urls)
                await page.goto(start)
            else:
                await page.goto(start)
                idle = await Evaluator("webarena").score(config, answer="", page=page, urls=urls)
            answer = await template.solve(page, instance, urls["reddit"])
            solved = await Evaluator("vab").score(config, answer=answer, page=page, urls=urls)
            verdicts[template.id] = (idle.reward, solved.reward)

    await asyncio.gather(*(work(slot) for slot in range(SLOTS)))
    assert {
        number: found for number, found in verdicts.items() if found[0] != 0 or set(found[1:]) != {1}
    } == {}
    assert len(verdicts) == len(site.templates())
    own = tuple(forum.url(slot) for slot in range(SLOTS))
    assert len(forum.requests) > 100
    assert [url for url in forum.requests if not url.startswith((*own, "data:"))] == []


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_a_login_outlives_a_restore_to_the_seed(forum: Forum) -> None:
    page = await forum.page(0, "member")
    account = site.accounts["member"]
    seed = seed_state("reddit", SEED)
    await forum.arena.servers["reddit"].ask("restore", slot=0, **{"from": str(seed)})
    assert await site.logged_in(page, account, forum.url(0))
    assert await site.logged_in(page, account, forum.url(1))
    assert not await site.logged_in(page, base.Account("nora", ""), forum.url(0))
    await page.get_by_role("link", name="Log out").click()
    await page.get_by_role("link", name="Log in").wait_for()
    assert not await site.logged_in(page, account, forum.url(0))


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_search_finds_a_new_topic_at_once_and_only_in_its_category(forum: Forum) -> None:
    await forum.arena.restore(0)
    page = await forum.page(0, "member")
    url = forum.url(0)
    community = content(SEED)
    here, there = community.forums[0], community.forums[1]
    await page.goto(f"{url}/topic/publish/{here.id}/")
    await page.get_by_label("Title").fill("Quince marmalade without sugar")
    await page.get_by_label("Comment").fill("Does anybody dare?")
    await page.get_by_role("button", name="Publish").click()
    await page.get_by_role("heading", name="Quince marmalade").wait_for()
    for query, found in (
        ("q=marmalade+quince", 1),
        ("q=dare+quince", 1),
        (f"q=quince&category={here.id}", 1),
        (f"q=quince&category={there.id}", 0),
        ("q=quince+zeppelin", 0),
    ):
        await page.goto(f"{url}/search/?{query}")
        assert await page.get_by_role("link", name="Quince marmalade without sugar").count() == found, query
    await forum.arena.restore(0)
    await page.goto(f"{url}/search/?q=quince+marmalade")
    await page.get_by_text("There are no search results.").wait_for()


@pytest.mark.browser  # it takes the state that the browser tests serve
@pytest.mark.asyncio(loop_scope="module")
async def test_two_builds_are_equal_and_hold_the_content(forum: Forum, tmp_path: Path) -> None:
    script = "import sys; from webarena.sites.reddit import site; from pathlib import Path; site.build(Path(sys.argv[1]), int(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", script, str(tmp_path), str(SEED)], check=True, timeout=120)
    first, second = dump(seed_state("reddit", SEED)), dump(tmp_path)
    assert first == second
    community: Content = content(SEED)
    tables = Counter(line.split('"')[1] for line in first if line.startswith("INSERT INTO"))
    assert tables["spirit_topic_topic"] == len(community.topics) + len(community.private)
    assert tables["auth_user"] == len(community.members)


def dump(state: Path) -> list[str]:
    (file,) = [path for path in state.iterdir() if path.suffix == ".sqlite"]
    with sqlite3.connect(file) as connection:
        return list(connection.iterdump())
