"""The local site gitlab: the same seed gives the same tracker, its pages serve an agent, and its tasks can be solved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from webarena.browser import Browser
from webarena.configs import TaskConfig, parse_config
from webarena.evaluators import Evaluator
from webarena.observation import INIT_SCRIPT
from webarena.sites.base import Instance, Template
from webarena.sites.client import SiteServer
from webarena.sites.gitlab import site
from webarena.sites.gitlab.content import DEVELOPER, MAINTAINER, content

SEED = 1
module_loop = pytest.mark.asyncio(loop_scope="module")
TEMPLATES = {template.id: template for template in site.templates()}
PAGES = (
    "/",
    "/?@template=login",
    "/project",
    "/project3",
    "/project3?@template=members",
    "/project3?@template=milestones",
    "/project3?@template=settings",
    "/milestone",
    "/milestone4",
    "/milestone?@template=new",
    "/milestone?@template=new&project=3",
    "/member3",
    "/member?@template=new&project=3",
    "/label",
    "/user",
    "/user3",
    "/user3?@template=edit",
    "/issue",
    "/issue?@filter=status.closed,labels&status.closed=0&labels=2&@sort=due&@startwith=20",
    "/issue?@filter=project,assignee&project=99&assignee=-1",
    "/issue?@search_text=no+such+words+anywhere",
    "/issue12",
    "/issue12?@template=edit",
    "/issue?@template=new",
    "/issue?@template=new&project=3",
    "/msg5",
)
UNNAMED = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea')]
  .filter(field => !field.labels.length && !field.ariaLabel).map(field => field.outerHTML)"""


@dataclass
class World:
    """One slot of the site with both accounts logged in, and a page for each account ("" for nobody)."""

    server: SiteServer
    browser: Browser
    pages: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.url(0)

    async def page(self, account: str) -> Any:
        if account not in self.pages:
            self.pages[account] = await self.browser.new_page(init_script=INIT_SCRIPT)
            if account:
                await site.login(self.pages[account], site.accounts[account], self.url)
        return self.pages[account]

    async def restore(self) -> None:
        await self.server.ask("restore", slot=0)


def build(folder: Path, hash_seed: str) -> None:
    command = [sys.executable, "-m", "webarena.sites.seed", "webarena.sites.gitlab"]
    command += ["--seed", str(SEED), "--to", str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gitlab")
    build(folder, "0")
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(state: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    root = tmp_path_factory.mktemp("arena")
    server = SiteServer("gitlab", state, root, slots=1)
    browser = Browser(viewport=(1280, 720))
    try:
        await server.start()
        found = World(server, browser)
        for account in site.accounts:
            await found.page(account)
        await server.ask("snapshot", slot=0, to=str(root / "ready"))
        await server.ask("rebase", base=str(root / "ready"))
        yield found
    finally:
        await browser.close()
        await server.stop()


def config(template: Template, instance: Instance) -> TaskConfig:
    intent = template.intent
    for slot, value in instance.values.items():
        intent = intent.replace("{{" + slot + "}}", value)
    assert "{{" not in intent
    raw = {
        "sites": ["gitlab"],
        "task_id": template.id,
        "require_login": True,
        "storage_state": None,
        "start_url": f"__GITLAB__{instance.start}",
        "geolocation": None,
        "intent_template": template.intent,
        "instantiation_dict": dict(instance.values),
        "intent": intent,
        "require_reset": False,
        "eval": instance.eval,
        "intent_template_id": template.id,
    }
    return parse_config(raw)


def test_content_depends_on_nothing_but_the_seed() -> None:
    first = content(SEED)
    content.cache_clear()
    assert content(SEED) == first
    assert content(SEED + 1) != first
    assert len(first.projects) >= 12
    assert len(first.people) >= 25
    assert len(first.issues) >= 250
    assert sum(len(issue.comments) for issue in first.issues) >= 700
    assert len({issue.title for issue in first.issues}) == len(first.issues)


def test_content_is_consistent() -> None:
    found = content(SEED)
    for issue in found.issues:
        project = found.project(issue.project)
        assert issue.created <= issue.updated
        assert not issue.assignee or issue.assignee in project.members
        assert not issue.milestone or issue.milestone in [m.name for m in project.milestones]
        assert (issue.status == "Duplicate") == (issue.duplicate_of is not None)
        moments = [entry.at for entry in issue.comments]
        assert moments == sorted(moments)
        if issue.status != "New":
            assert [change.new for change in issue.changes if change.field == "status"] == [issue.status]


def test_seed_state_is_the_same_byte_for_byte(state: Path, tmp_path: Path) -> None:
    build(tmp_path, "1")  # sets and dictionaries in another order
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "db-otk", "db-session"]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (state / path.name).read_bytes(), path.name


def test_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.missing() == ""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "roundup" in site.missing()
    assert "pip install 'coevo[arena]'" in site.missing()


def test_templates_are_many_and_of_every_kind() -> None:
    assert len(TEMPLATES) == len(site.templates()) >= 12
    assert {template.level for template in TEMPLATES.values()} == {1, 2, 3}
    kinds = {"information", "navigation", "change", "unachievable"}
    assert {template.kind for template in TEMPLATES.values()} == kinds
    for template in TEMPLATES.values():
        assert 1301 <= template.id <= 1399
        assert template.account in site.accounts
        instances = template.instances(SEED)
        assert len(instances) >= 8, template.id
        assert instances == template.instances(SEED)
        intents = [(config(template, one).intent, one.start) for one in instances]
        assert len(set(intents)) == len(intents), template.id


@pytest.mark.browser
@module_loop
@pytest.mark.parametrize("number", TEMPLATES)
async def test_task_can_be_solved_and_is_not_done_already(world: World, number: int) -> None:
    template, evaluator = TEMPLATES[number], Evaluator("vab")
    instance = template.instances(SEED)[0]
    task, urls = config(template, instance), {"gitlab": world.url}
    page = await world.page(template.account)
    if "string_match" not in instance.eval["eval_types"]:
        await page.goto(world.url + instance.start)
    nothing = await evaluator.score(task, answer="", page=page, urls=urls)
    assert nothing.reward == 0
    if page.url != world.url + instance.start:
        await page.goto(world.url + instance.start)
    try:
        answer = await template.solve(page, instance, world.url)
        solved = await evaluator.score(task, answer=answer, page=page, urls=urls)
    finally:
        if template.kind == "change":
            await world.restore()
    assert solved.reward == 1, (answer, page.url, instance)


@pytest.mark.browser
@module_loop
async def test_pages_are_complete_named_and_stay_at_home(world: World) -> None:
    page = await world.page("maintainer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in PAGES:
        response = await page.goto(world.url + path)
        assert response.status == 200, path
        assert (await page.title()).endswith("· Larkfield"), path
        assert await page.evaluate(UNNAMED) == [], path
    assert [url for url in asked if not url.startswith(world.url) and not url.startswith("data:")] == []
    assert (await page.goto(f"{world.url}/issue99999")).status == 404


@pytest.mark.browser
@module_loop
async def test_login_survives_a_restore_and_writes_do_not(world: World) -> None:
    cookies = await (await world.page("developer")).context.storage_state()
    page = await world.browser.new_page(init_script=INIT_SCRIPT, storage_state=cookies)
    await page.goto(f"{world.url}/issue7")
    await page.get_by_label("Comment", exact=True).fill("gone tomorrow")
    await page.get_by_role("button", name="Add comment").click()
    await page.get_by_text("gone tomorrow").wait_for()
    await world.restore()
    await page.goto(f"{world.url}/issue7")
    assert await page.get_by_text("gone tomorrow").count() == 0
    assert await site.logged_in(page, site.accounts["developer"], world.url)
    assert not await site.logged_in(page, site.accounts["maintainer"], world.url)
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("link", name="Sign in").first.wait_for()
    assert not await site.logged_in(page, site.accounts["developer"], world.url)
    await world.restore()


@pytest.mark.browser
@module_loop
async def test_search_reads_comments_and_lists_have_pages(world: World) -> None:
    page = await world.page("")
    issue = next(issue for issue in content(SEED).issues[::-1] if issue.comments)
    await page.goto(f"{world.url}/")
    await page.get_by_role("searchbox").fill("no such words anywhere")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_text("0 issues").wait_for()
    await page.get_by_label("Text").fill(issue.comments[0].text)
    await page.get_by_label("Project").select_option(label=issue.project)
    await page.get_by_role("button", name="Apply").click()
    await page.get_by_role("link", name=issue.title).wait_for()
    await page.goto(f"{world.url}/issue")
    seen = await page.locator("#issues tbody a").all_inner_texts()
    await page.get_by_role("link", name="Next page").click()
    await page.get_by_role("link", name="Previous page").wait_for()
    more = await page.locator("#issues tbody a").all_inner_texts()
    assert len(seen) == len(more) == 20
    assert not set(seen) & set(more)


@pytest.mark.browser
@module_loop
async def test_what_is_not_allowed_is_refused_with_a_reason(world: World) -> None:
    found = content(SEED)
    page = await world.page("developer")

    async def post(path: str, **fields: str) -> str:
        form = {name.replace("AT_", "@"): value for name, value in fields.items()}
        answer = await page.request.post(world.url + path, form=form)
        return str(await answer.text())

    def said(answer: str) -> str:
        match = re.search(r'role="alert">(.*?)</p>', answer, re.DOTALL)
        return match[1] if match else ""

    new = {"AT_action": "new", "AT_template": "new"}
    refused = await post("/member", project="1", user="9", role="3", **new)
    assert "Only a maintainer of the project" in said(refused)
    refused = await post("/milestone", project="1", name="X", **new)
    assert "Only a maintainer of the project" in said(refused)
    assert "needs a title and a project" in said(await post("/issue", project="1", **new))

    guest = next(i for i in found.issues if found.project(i.project).members.get(DEVELOPER) == "Guest")
    edit = {"AT_action": "edit", "AT_template": "item|edit"}
    assert "do not have permission" in said(await post(f"/issue{guest.number}", status="5", **edit))
    own = next(i for i in found.issues if found.project(i.project).members.get(DEVELOPER) == "Developer")
    foreign = next(m for project, m in found.milestones() if project.name != own.project)
    refused = await post(f"/issue{own.number}", milestone=str(found.milestone_id(foreign.name)), **edit)
    assert "belongs to another project" in said(refused)
    refused = await post(f"/issue{own.number}", superseder=str(own.number), **edit)
    assert "duplicate of itself" in said(refused)

    page = await world.page("maintainer")
    owned = next(p for p in found.projects if p.members.get(MAINTAINER) == "Maintainer")
    person = found.user_id(next(iter(owned.members)))
    number = found.project_id(owned.name)
    refused = await post("/member", project=str(number), user=str(person), role="3", **new)
    assert "a member of the project already" in said(refused)
    await world.restore()
