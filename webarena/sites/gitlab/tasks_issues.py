"""Tasks that change issues."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.gitlab import words
from webarena.sites.gitlab.content import DEVELOPER, Content, Issue, content
from webarena.sites.gitlab.schema import CLOSED, PRIORITIES, STATUSES
from webarena.sites.gitlab.tasks_common import (
    about,
    choose,
    dice,
    edit_issue,
    impossible,
    open_issue,
    save,
    shows,
    some,
    target,
    visit,
    workable,
)

if TYPE_CHECKING:
    from playwright.async_api import Page

REMARKS = (
    "I will look into this {day}.",
    "Could this be closed by {day}?",
    "Please send me the log of {day}.",
    "This is also what the people in {city} see.",
    "The office in {city} can test a fix.",
    "Let us talk about this with {city} on {day}.",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
STRANGERS = ("Ottoline Marsh", "Casper Voss", "Imelda Finch", "Rupert Kallas", "Sunniva Dahl", "Leander Pike")


def _page(issue: Issue) -> str:
    return f"/issue{issue.number}"


def _remark(rng: random.Random) -> str:
    return rng.choice(REMARKS).format(day=rng.choice(DAYS), city=rng.choice(words.LOCATIONS))


def _workers(found: Content, issue: Issue) -> list[str]:
    """Members of the issue's project that it is not assigned to."""
    return [name for name in found.project(issue.project).members if name != issue.assignee]


def _watch(seed: int) -> Sequence[Instance]:
    issues = [i for i in content(seed).issues if DEVELOPER not in i.watchers]
    return [
        Instance(
            {"number": str(i.number)},
            about(i),
            shows(target(_page(i), "#watcher-names", include=[DEVELOPER])),
            start=_page(i),
        )
        for i in some(dice(seed, 1316), issues)
    ]


async def _press_watch(page: Page, instance: Instance, url: str) -> str:
    await save(page, "Watch")
    return ""


def _comment(seed: int) -> Sequence[Instance]:
    rng = dice(seed, 1317)
    cases = [(i, _remark(rng)) for i in some(rng, content(seed).issues)]
    return [
        Instance(
            {"text": text, "number": str(i.number)},
            about(i),
            shows(target(_page(i), "#comments article:last-child", include=[DEVELOPER, text])),
            start=_page(i),
        )
        for i, text in cases
    ]


async def _write_comment(page: Page, instance: Instance, url: str) -> str:
    await page.get_by_label("Comment", exact=True).fill(instance.values["text"])
    await save(page, "Add comment")
    return ""


def _assign(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1318)
    cases = [(i, rng.choice(_workers(found, i))) for i in some(rng, workable(found, DEVELOPER, "Developer"))]
    return [
        Instance(
            {"title": i.title, "person": person},
            about(i),
            shows(target(_page(i), "#assignee-name", person)),
        )
        for i, person in cases
    ]


async def _set_assignee(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    await choose(page, "Assignee", instance.values["person"])
    await save(page)
    return ""


def _status(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1319)
    names = [name for name in STATUSES if name != "Duplicate"]
    cases = [
        (i, rng.choice([name for name in names if name != i.status]))
        for i in some(rng, workable(found, DEVELOPER, "Developer"))
    ]
    return [
        Instance(
            {"title": i.title, "status": status}, about(i), shows(target(_page(i), "#status-name", status))
        )
        for i, status in cases
    ]


async def _set_status(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    await choose(page, "Status", instance.values["status"])
    await save(page)
    return ""


def _priority(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1320)
    cases = [
        (i, rng.choice([name for name in PRIORITIES if name != i.priority]))
        for i in some(rng, workable(found, DEVELOPER, "Developer"))
    ]
    return [
        Instance(
            {"title": i.title, "priority": priority},
            about(i),
            shows(target(_page(i), "#priority-name", priority)),
        )
        for i, priority in cases
    ]


async def _set_priority(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    await choose(page, "Priority", instance.values["priority"])
    await save(page)
    return ""


def _label(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1321)
    cases = [
        (i, rng.choice([label for label in words.LABELS if label not in i.labels]))
        for i in some(rng, workable(found, DEVELOPER, "Developer"))
    ]
    return [
        Instance(
            {"title": i.title, "label": label},
            about(i),
            shows(target(_page(i), "#label-names", ", ".join(sorted([*i.labels, label])))),
        )
        for i, label in cases
    ]


async def _add_label(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    await choose(page, "Add label", instance.values["label"])
    await save(page)
    return ""


def _milestone(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1322)
    cases = [
        (i, rng.choice([m.name for m in found.project(i.project).milestones if m.name != i.milestone]))
        for i in some(rng, workable(found, DEVELOPER, "Developer"))
    ]
    return [
        Instance(
            {"title": i.title, "milestone": name}, about(i), shows(target(_page(i), "#milestone-name", name))
        )
        for i, name in cases
    ]


async def _set_milestone(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    await choose(page, "Milestone", instance.values["milestone"])
    await save(page)
    return ""


def _create(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1324)
    titles = {issue.title for issue in found.issues}
    instances = []
    for number, project in enumerate(found.projects, 1):
        for component in rng.sample(words.PRODUCTS[project.name][2], 2):
            title = f"{component[0].upper()}{component[1:]} {rng.choice(words.FAULTS)} {rng.choice(words.OCCASIONS)}"
            if title in titles:
                continue
            values = {"project": project.name, "title": title, "priority": rng.choice(PRIORITIES)}
            values |= {
                "label": rng.choice(sorted(words.LABELS)),
                "person": rng.choice(project.with_role("Developer")),
            }
            newest = target(
                f"/issue?@filter=project&project={number}&@sort=-creation",
                "#issues tbody tr",
                include=[*values.values(), DEVELOPER],
            )
            instances.append(Instance(values, f"new issue/{title}", shows(newest)))
    return some(rng, instances)


async def _create_issue(page: Page, instance: Instance, url: str) -> str:
    values = instance.values
    await visit(page, "New issue")
    await choose(page, "Project", values["project"])
    await page.get_by_label("Title", exact=True).fill(values["title"])
    await choose(page, "Priority", values["priority"])
    await choose(page, "Assignee", values["person"])
    await page.get_by_role("checkbox", name=values["label"], exact=True).check()
    await save(page, "Create issue")
    return ""


def _duplicate(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1325)
    cases = []
    for issue in workable(found, DEVELOPER, "Developer"):
        earlier = [i for i in found.issues_of(issue.project) if i.number < issue.number]
        alike = [i for i in earlier if i.component == issue.component] or earlier
        if alike:
            cases.append((issue, rng.choice(alike)))
    return [
        Instance(
            {"title": issue.title, "original": original.title},
            about(issue),
            shows(
                target(_page(issue), "#status-name", "Duplicate"),
                target(_page(issue), "#original", f"#{original.number} {original.title}"),
            ),
        )
        for issue, original in some(rng, cases)
    ]


async def _close_as_duplicate(page: Page, instance: Instance, url: str) -> str:
    number = await open_issue(page, instance.values["original"])
    await edit_issue(page, instance.values["title"])
    await page.get_by_label("Duplicate of", exact=True).fill(number)
    await choose(page, "Status", "Duplicate")
    await save(page)
    return ""


def _hand_over(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1326)
    cases = [
        (i, _remark(rng), rng.choice(_workers(found, i)))
        for i in some(rng, (i for i in workable(found, DEVELOPER, "Developer") if i.status != "In review"))
    ]
    return [
        Instance(
            {"title": i.title, "person": person, "text": text},
            about(i),
            shows(
                target(_page(i), "#status-name", "In review"),
                target(_page(i), "#assignee-name", person),
                target(_page(i), "#comments article:last-child", include=[DEVELOPER, text]),
            ),
        )
        for i, text, person in cases
    ]


async def _hand_issue_over(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    await choose(page, "Status", "In review")
    await choose(page, "Assignee", instance.values["person"])
    await page.get_by_label("Comment", exact=True).fill(instance.values["text"])
    await save(page)
    return ""


def _to_a_stranger(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1331)
    return [
        Instance({"title": i.title, "person": rng.choice(STRANGERS)}, about(i), impossible())
        for i in some(rng, workable(found, DEVELOPER, "Developer"))
    ]


async def _look_for_stranger(page: Page, instance: Instance, url: str) -> str:
    await edit_issue(page, instance.values["title"])
    options = await page.get_by_label("Assignee", exact=True).locator("option").all_inner_texts()
    return "" if instance.values["person"] in options else "N/A"


def _not_allowed(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1335)
    names = [name for name in STATUSES if name in CLOSED and name != "Duplicate"]
    return [
        Instance({"title": i.title, "status": rng.choice(names)}, about(i), impossible())
        for i in some(rng, workable(found, DEVELOPER, "Reporter", "Guest"))
    ]


async def _look_for_form(page: Page, instance: Instance, url: str) -> str:
    await open_issue(page, instance.values["title"])
    return "" if await page.get_by_role("link", name="Edit issue").count() else "N/A"


TEMPLATES = [
    Template(
        1316, "gitlab", 1, "change", "Start watching issue #{{number}}.", _watch, _press_watch, "developer"
    ),
    Template(
        1317,
        "gitlab",
        1,
        "change",
        'Add the comment "{{text}}" to issue #{{number}}.',
        _comment,
        _write_comment,
        "developer",
    ),
    Template(
        1318,
        "gitlab",
        2,
        "change",
        'Assign the issue "{{title}}" to {{person}}.',
        _assign,
        _set_assignee,
        "developer",
    ),
    Template(
        1319,
        "gitlab",
        2,
        "change",
        'Set the status of the issue "{{title}}" to "{{status}}".',
        _status,
        _set_status,
        "developer",
    ),
    Template(
        1320,
        "gitlab",
        2,
        "change",
        'Change the priority of the issue "{{title}}" to {{priority}}.',
        _priority,
        _set_priority,
        "developer",
    ),
    Template(
        1321,
        "gitlab",
        2,
        "change",
        'Add the label "{{label}}" to the issue "{{title}}".',
        _label,
        _add_label,
        "developer",
    ),
    Template(
        1322,
        "gitlab",
        2,
        "change",
        'Plan the issue "{{title}}" for the milestone {{milestone}}.',
        _milestone,
        _set_milestone,
        "developer",
    ),
    Template(
        1324,
        "gitlab",
        3,
        "change",
        'Open a new issue "{{title}}" in the project {{project}} with priority {{priority}} and the label "{{label}}", '
        "assigned to {{person}}.",
        _create,
        _create_issue,
        "developer",
    ),
    Template(
        1325,
        "gitlab",
        3,
        "change",
        'Close the issue "{{title}}" as a duplicate of "{{original}}".',
        _duplicate,
        _close_as_duplicate,
        "developer",
    ),
    Template(
        1326,
        "gitlab",
        3,
        "change",
        'Hand the issue "{{title}}" over to {{person}}: assign it, set the status to "In review" and add the comment '
        '"{{text}}".',
        _hand_over,
        _hand_issue_over,
        "developer",
    ),
    Template(
        1331,
        "gitlab",
        2,
        "unachievable",
        'Assign "{{title}}" to our colleague {{person}}.',
        _to_a_stranger,
        _look_for_stranger,
        "developer",
    ),
    Template(
        1335,
        "gitlab",
        2,
        "unachievable",
        'Close the issue "{{title}}" with the status "{{status}}".',
        _not_allowed,
        _look_for_form,
        "developer",
    ),
]
