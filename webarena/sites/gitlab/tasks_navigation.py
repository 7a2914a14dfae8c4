"""Tasks that end on a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.gitlab.content import content
from webarena.sites.gitlab.tasks_common import (
    about,
    dice,
    filtered,
    open_issue,
    shows,
    some,
    stands_on,
    target,
    visit,
)

if TYPE_CHECKING:
    from playwright.async_api import Page


def _by_component(seed: int) -> Sequence[Instance]:
    issues = content(seed).issues
    counts = Counter((i.project, i.component, i.author) for i in issues)
    unique = [i for i in issues if counts[i.project, i.component, i.author] == 1]
    return [
        Instance(
            {"project": i.project, "component": i.component, "author": i.author},
            about(i),
            stands_on(f"/issue{i.number}"),
        )
        for i in some(dice(seed, 1310), unique)
    ]


async def _find_by_component(page: Page, instance: Instance, url: str) -> str:
    values = instance.values
    await filtered(page, Project=values["project"], Author=values["author"], Text=values["component"])
    component = re.compile(re.escape(values["component"]), re.IGNORECASE)
    await page.get_by_role("main").get_by_role("link", name=component).click()
    await page.wait_for_url(re.compile(r"/issue\d+$"))
    return ""


def _open_by_priority(seed: int) -> Sequence[Instance]:
    counts = Counter((i.project, i.priority) for i in content(seed).issues if i.open)
    return [
        Instance(
            {"project": project, "priority": priority},
            f"project/{project}",
            shows(
                target(
                    "last",
                    "#summary",
                    f"Project: {project}; State: Open; Priority: {priority}; Order: Newest first",
                )
            ),
        )
        for project, priority in some(dice(seed, 1311), sorted(counts))
    ]


async def _list_by_priority(page: Page, instance: Instance, url: str) -> str:
    values = instance.values
    await filtered(
        page, Project=values["project"], Priority=values["priority"], State="Open", Order="Newest first"
    )
    return ""


def _closed_by_author(seed: int) -> Sequence[Instance]:
    authors = sorted({i.author for i in content(seed).issues if not i.open})
    return [
        Instance(
            {"person": name},
            f"person/{name}",
            shows(target("last", "#summary", f"State: Closed; Author: {name}; Order: Oldest first")),
        )
        for name in some(dice(seed, 1312), authors)
    ]


async def _list_by_author(page: Page, instance: Instance, url: str) -> str:
    await filtered(page, Author=instance.values["person"], State="Closed", Order="Oldest first")
    return ""


def _author_profile(seed: int) -> Sequence[Instance]:
    found = content(seed)
    return [
        Instance({"title": i.title}, about(i), stands_on(f"/user{found.user_id(i.author)}"))
        for i in some(dice(seed, 1313), found.issues)
    ]


async def _open_author(page: Page, instance: Instance, url: str) -> str:
    await open_issue(page, instance.values["title"])
    author = page.locator("dt", has_text=re.compile("^Author$")).locator("xpath=following-sibling::dd[1]")
    await author.get_by_role("link").click()
    await page.wait_for_url("**/user*")
    return ""


def _next_milestone(seed: int) -> Sequence[Instance]:
    found = content(seed)
    months = Counter((project.name, m.due.strftime("%B %Y")) for project, m in found.milestones())
    return [
        Instance(
            {"project": project.name, "month": m.due.strftime("%B %Y")},
            f"milestone/{m.name}",
            stands_on(f"/milestone{found.milestone_id(m.name)}"),
        )
        for project, m in some(dice(seed, 1314), found.milestones())
        if months[project.name, m.due.strftime("%B %Y")] == 1
    ]


async def _open_milestone(page: Page, instance: Instance, url: str) -> str:
    from datetime import datetime

    month = datetime.strptime(instance.values["month"], "%B %Y").strftime("%Y-%m-")
    await visit(page, "Projects", instance.values["project"], "Milestones")
    row = page.get_by_role("table", name="Milestones").get_by_role("row").filter(has_text=month)
    await row.get_by_role("link").first.click()
    await page.wait_for_url(re.compile(r"/milestone\d+$"))
    return ""


def _blocker(seed: int) -> Sequence[Instance]:
    issues = content(seed).issues
    blockers: dict[int, list[int]] = {}
    for issue in issues:
        for other in issue.blocks:
            blockers.setdefault(other, []).append(issue.number)
    cases = [(issues[number - 1], by[0]) for number, by in sorted(blockers.items()) if len(by) == 1]
    return [
        Instance({"title": blocked.title}, about(blocked), stands_on(f"/issue{by}"))
        for blocked, by in some(dice(seed, 1315), cases)
    ]


async def _open_blocker(page: Page, instance: Instance, url: str) -> str:
    await open_issue(page, instance.values["title"])
    before = page.url
    blocker = page.locator("dt", has_text="Blocked by").locator("xpath=following-sibling::dd[1]")
    await blocker.get_by_role("link").click()
    await page.wait_for_url(lambda now: now != before)
    return ""


TEMPLATES = [
    Template(
        1310,
        "gitlab",
        2,
        "navigation",
        "Open the issue about the {{component}} of {{project}} that {{author}} reported.",
        _by_component,
        _find_by_component,
        "developer",
    ),
    Template(
        1311,
        "gitlab",
        2,
        "navigation",
        "List the open issues of the project {{project}} with priority {{priority}}, newest first.",
        _open_by_priority,
        _list_by_priority,
        "developer",
    ),
    Template(
        1312,
        "gitlab",
        2,
        "navigation",
        "List the closed issues that {{person}} reported, oldest first.",
        _closed_by_author,
        _list_by_author,
        "developer",
    ),
    Template(
        1313,
        "gitlab",
        2,
        "navigation",
        'Open the profile of the person who reported the issue "{{title}}".',
        _author_profile,
        _open_author,
        "developer",
    ),
    Template(
        1314,
        "gitlab",
        2,
        "navigation",
        "Open the milestone of the project {{project}} that is due in {{month}}.",
        _next_milestone,
        _open_milestone,
        "developer",
    ),
    Template(
        1315,
        "gitlab",
        2,
        "navigation",
        'Open the issue that blocks "{{title}}".',
        _blocker,
        _open_blocker,
        "developer",
    ),
]
