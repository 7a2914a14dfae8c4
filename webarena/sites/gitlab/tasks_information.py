"""Tasks that end with an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.gitlab import words
from webarena.sites.gitlab.content import content
from webarena.sites.gitlab.tasks_common import (
    about,
    answer,
    column,
    dice,
    field_text,
    filtered,
    mentions,
    open_issue,
    some,
    visit,
)

if TYPE_CHECKING:
    from playwright.async_api import Page


def _assignee(seed: int) -> Sequence[Instance]:
    issues = some(dice(seed, 1301), (issue for issue in content(seed).issues if issue.assignee))
    return [
        Instance({"number": str(i.number)}, about(i), mentions(i.assignee), start=f"/issue{i.number}")
        for i in issues
    ]


async def _read_assignee(page: Page, instance: Instance, url: str) -> str:
    return await field_text(page, "Assignee")


def _role(seed: int) -> Sequence[Instance]:
    found = content(seed)
    pairs = [(project, name, role) for project in found.projects for name, role in project.members.items()]
    return [
        Instance(
            {"person": name, "project": project.name},
            f"person/{name}",
            answer(role),
            start=f"/project{found.project_id(project.name)}?@template=members",
        )
        for project, name, role in some(dice(seed, 1302), pairs)
    ]


async def _read_role(page: Page, instance: Instance, url: str) -> str:
    row = (
        page.get_by_role("table", name="Members")
        .get_by_role("row")
        .filter(has_text=instance.values["person"])
    )
    return await row.get_by_role("cell").nth(1).inner_text()


def _label_count(seed: int) -> Sequence[Instance]:
    counts = Counter((i.project, label) for i in content(seed).issues if i.open for label in i.labels)
    cases = [(*pair, count) for pair, count in sorted(counts.items()) if count > 1]
    return [
        Instance({"label": label, "project": project}, f"project/{project}", answer(str(count)))
        for project, label, count in some(dice(seed, 1303), cases)
    ]


async def _count_labelled(page: Page, instance: Instance, url: str) -> str:
    await filtered(page, Project=instance.values["project"], Label=instance.values["label"], State="Open")
    return (await page.locator("#count").inner_text()).split(" ")[0]


def _last_comment(seed: int) -> Sequence[Instance]:
    issues = some(dice(seed, 1304), (i for i in content(seed).issues if len(i.comments) > 1))
    return [Instance({"title": i.title}, about(i), mentions(i.comments[-1].author)) for i in issues]


async def _read_last_comment(page: Page, instance: Instance, url: str) -> str:
    await open_issue(page, instance.values["title"])
    comments = page.get_by_role("region", name="Comments").get_by_role("article")
    return await comments.last.get_by_role("link").first.inner_text()


def _milestone_due(seed: int) -> Sequence[Instance]:
    milestones = some(dice(seed, 1305), (milestone for _, milestone in content(seed).milestones()))
    return [Instance({"milestone": m.name}, f"milestone/{m.name}", answer(str(m.due))) for m in milestones]


async def _read_due(page: Page, instance: Instance, url: str) -> str:
    await visit(page, "Milestones", instance.values["milestone"])
    return await field_text(page, "Due")


def _closer(seed: int) -> Sequence[Instance]:
    issues = some(dice(seed, 1306), (i for i in content(seed).issues if not i.open))
    return [
        Instance({"title": i.title, "status": i.status}, about(i), mentions(i.changes[-1].author))
        for i in issues
    ]


async def _read_closer(page: Page, instance: Instance, url: str) -> str:
    await open_issue(page, instance.values["title"])
    change = f"to {instance.values['status']}"
    entry = await page.locator("#history li").filter(has_text=change).last.inner_text()
    return entry.split(": ", 1)[1].split(" changed ")[0]


def _original(seed: int) -> Sequence[Instance]:
    issues = some(dice(seed, 1307), (i for i in content(seed).issues if i.duplicate_of))
    return [Instance({"title": i.title}, about(i), answer(str(i.duplicate_of))) for i in issues]


async def _read_original(page: Page, instance: Instance, url: str) -> str:
    await open_issue(page, instance.values["title"])
    return (await field_text(page, "Duplicate of")).split(" ")[0].removeprefix("#")


def _load(seed: int) -> Sequence[Instance]:
    counts = Counter(i.assignee for i in content(seed).issues if i.open and i.assignee)
    cases = some(dice(seed, 1308), sorted(counts.items()))
    return [Instance({"person": name}, f"person/{name}", answer(str(count))) for name, count in cases]


async def _count_load(page: Page, instance: Instance, url: str) -> str:
    await visit(page, "People", instance.values["person"])
    return str(len(await column(page, "Assigned issues", "Issue")))


def _busiest(seed: int) -> Sequence[Instance]:
    found = content(seed)
    cases = []
    for project in found.projects:
        for state in ("open", "closed"):
            issues = [i for i in found.issues_of(project.name) if i.assignee and i.open == (state == "open")]
            first, second = [*Counter(i.assignee for i in issues).most_common(2), ("", 0), ("", 0)][:2]
            if first[1] > second[1]:
                cases.append((state, project.name, first[0]))
    return [
        Instance({"state": state, "project": name}, f"project/{name}", mentions(person))
        for state, name, person in some(dice(seed, 1309), cases)
    ]


async def _find_busiest(page: Page, instance: Instance, url: str) -> str:
    await filtered(page, Project=instance.values["project"], State=instance.values["state"].capitalize())
    names = await column(page, "Issues", "Assignee")
    while await page.get_by_role("link", name="Next page").count():
        await page.get_by_role("link", name="Next page").click()
        names += await column(page, "Issues", "Assignee")
    return Counter(name for name in names if name != "nobody").most_common(1)[0][0]


def _phone(seed: int) -> Sequence[Instance]:
    people = some(dice(seed, 1333), content(seed).people)
    return [Instance({"person": person.name}, f"person/{person.name}", answer("N/A")) for person in people]


async def _look_for_phone(page: Page, instance: Instance, url: str) -> str:
    await visit(page, "People", instance.values["person"])
    terms = await page.locator("main dt").all_inner_texts()
    return "N/A" if not any("phone" in term.lower() for term in terms) else await field_text(page, "Phone")


def _no_such_issue(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1334)
    titles = {issue.title for issue in found.issues}
    cases = []
    for project in found.projects * 2:
        component = rng.choice(words.PRODUCTS[project.name][2])
        title = rng.choice(words.WISHES).format(c=component)
        if title not in titles:
            titles.add(title)
            cases.append((title, project.name))
    return [
        Instance({"title": title, "project": project}, f"absent/{title}", answer("N/A"))
        for title, project in some(rng, cases)
    ]


async def _look_for_issue(page: Page, instance: Instance, url: str) -> str:
    await filtered(page, Project=instance.values["project"], Text=instance.values["title"])
    links = await page.get_by_role("main").get_by_role("link").all_inner_texts()
    return "N/A" if not any(instance.values["title"] in link for link in links) else ""


ONLY_NUMBER = "Answer with the number only."
TEMPLATES = [
    Template(
        1301,
        "gitlab",
        1,
        "information",
        "Who is assigned to issue #{{number}}?",
        _assignee,
        _read_assignee,
        "developer",
    ),
    Template(
        1302,
        "gitlab",
        1,
        "information",
        "Which role does {{person}} have in the project {{project}}? Answer with the role only.",
        _role,
        _read_role,
        "developer",
    ),
    Template(
        1303,
        "gitlab",
        2,
        "information",
        f'How many open issues with the label "{{{{label}}}}" does the project {{{{project}}}} have? {ONLY_NUMBER}',
        _label_count,
        _count_labelled,
        "developer",
    ),
    Template(
        1304,
        "gitlab",
        2,
        "information",
        'Who wrote the latest comment on the issue "{{title}}"?',
        _last_comment,
        _read_last_comment,
        "developer",
    ),
    Template(
        1305,
        "gitlab",
        2,
        "information",
        "When is the milestone {{milestone}} due? Answer in the form YYYY-MM-DD.",
        _milestone_due,
        _read_due,
        "developer",
    ),
    Template(
        1306,
        "gitlab",
        2,
        "information",
        'Who set the status of the issue "{{title}}" to {{status}}?',
        _closer,
        _read_closer,
        "developer",
    ),
    Template(
        1307,
        "gitlab",
        2,
        "information",
        f'What is the number of the issue that "{{{{title}}}}" is a duplicate of? {ONLY_NUMBER}',
        _original,
        _read_original,
        "developer",
    ),
    Template(
        1308,
        "gitlab",
        2,
        "information",
        f"How many open issues are assigned to {{{{person}}}}? {ONLY_NUMBER}",
        _load,
        _count_load,
        "developer",
    ),
    Template(
        1309,
        "gitlab",
        2,
        "information",
        "Who has the most {{state}} issues of the project {{project}} assigned to them?",
        _busiest,
        _find_busiest,
        "developer",
    ),
    Template(
        1333,
        "gitlab",
        2,
        "unachievable",
        "What is the phone number of {{person}}?",
        _phone,
        _look_for_phone,
        "developer",
    ),
    Template(
        1334,
        "gitlab",
        2,
        "unachievable",
        'Who is assigned to the issue "{{title}}" of the project {{project}}?',
        _no_such_issue,
        _look_for_issue,
        "developer",
    ),
]
