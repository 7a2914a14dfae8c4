"""Tasks that change projects, their members and their milestones, and issues along with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.gitlab.content import DEVELOPER, MAINTAINER, Issue, content
from webarena.sites.gitlab.schema import ROLES
from webarena.sites.gitlab.tasks_common import (
    choose,
    dice,
    edit_issue,
    filtered,
    impossible,
    row_with,
    save,
    script_target,
    shows,
    some,
    target,
    visit,
    workable,
)

if TYPE_CHECKING:
    from playwright.async_api import Page


def _members(project: int, person: str, role: str) -> dict[str, object]:
    return script_target(
        f"/project{project}?@template=members", row_with("#members", person), include=[person, role]
    )


def _star(seed: int) -> Sequence[Instance]:
    found = content(seed)
    return [
        Instance(
            {"project": project.name},
            f"project/{project.name}",
            shows(target(f"/project{number}", "main form button", "Remove star")),
        )
        for number, project in enumerate(found.projects, 1)
    ]


async def _press_star(page: Page, instance: Instance, url: str) -> str:
    await visit(page, "Projects", instance.values["project"])
    await save(page, "Star")
    return ""


def _reassign(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1327)
    loads: dict[tuple[str, str], list[Issue]] = defaultdict(list)
    for issue in workable(found, DEVELOPER, "Developer"):
        if issue.assignee:
            loads[issue.project, issue.assignee].append(issue)
    cases = []
    for (project, person), issues in sorted(loads.items()):
        if len(issues) in (2, 3):
            heirs = [
                name for name in found.project(project).with_role("Developer", "Maintainer") if name != person
            ]
            cases.append((project, person, rng.choice(heirs), issues))
    return [
        Instance(
            {"project": project, "person": person, "heir": heir},
            f"person/{person}",
            shows(*(target(f"/issue{issue.number}", "#assignee-name", heir) for issue in issues)),
        )
        for project, person, heir, issues in some(rng, cases)
    ]


async def _reassign_all(page: Page, instance: Instance, url: str) -> str:
    values = instance.values
    await filtered(page, Project=values["project"], Assignee=values["person"], State="Open")
    links = page.get_by_role("table", name="Issues").get_by_role("link")
    titles = [(await link.inner_text()).split(" ", 1)[1] for link in await links.all()]
    for title in titles:
        await edit_issue(page, title)
        await choose(page, "Assignee", values["heir"])
        await save(page)
    return ""


def _add_member(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1328)
    cases = []
    for number, project in enumerate(found.projects, 1):
        if project.members.get(MAINTAINER) == "Maintainer":
            strangers = [person.name for person in found.people if person.name not in project.members]
            cases += [(number, project.name, name, rng.choice(ROLES)) for name in rng.sample(strangers, 3)]
    return [
        Instance(
            {"person": name, "project": project, "role": role},
            f"person/{name}",
            shows(_members(number, name, role)),
        )
        for number, project, name, role in some(rng, cases)
    ]


async def _add_member_by_form(page: Page, instance: Instance, url: str) -> str:
    await visit(page, "Projects", instance.values["project"], "Members", "Add a member")
    await choose(page, "Person", instance.values["person"])
    await choose(page, "Role", instance.values["role"])
    await save(page, "Add member")
    return ""


def _change_role(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1329)
    cases = [
        (number, project.name, name, rng.choice([other for other in ROLES if other != role]))
        for number, project in enumerate(found.projects, 1)
        if project.members.get(MAINTAINER) == "Maintainer"
        for name, role in project.members.items()
        if name != MAINTAINER
    ]
    return [
        Instance(
            {"person": name, "project": project, "role": role},
            f"person/{name}",
            shows(_members(number, name, role)),
        )
        for number, project, name, role in some(rng, cases)
    ]


async def _change_role_by_form(page: Page, instance: Instance, url: str) -> str:
    values = instance.values
    await visit(page, "Projects", values["project"], "Members", f"Change role of {values['person']}")
    await choose(page, "New role", values["role"])
    await save(page)
    return ""


def _new_milestone(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1330)
    cases = []
    for issue in some(rng, workable(found, MAINTAINER, "Maintainer")):
        name = f"{issue.project} {rng.choice(('Spring', 'Summer', 'Autumn', 'Winter'))} {rng.randint(2025, 2027)}"
        cases.append((issue, name, date(2025, 1, 7) + timedelta(days=rng.randrange(700))))
    return [
        Instance(
            {"milestone": name, "project": issue.project, "due": str(due), "title": issue.title},
            f"issue/{issue.title}",
            shows(
                script_target(
                    f"/project{found.project_id(issue.project)}?@template=milestones",
                    row_with("#milestones", name),
                    include=[name, str(due)],
                ),
                target(f"/issue{issue.number}", "#milestone-name", name),
            ),
        )
        for issue, name, due in cases
    ]


async def _create_milestone(page: Page, instance: Instance, url: str) -> str:
    values = instance.values
    await visit(page, "Projects", values["project"], "Milestones", "Add a milestone")
    await page.get_by_label("Name", exact=True).fill(values["milestone"])
    await page.get_by_label("Due date", exact=True).fill(values["due"])
    await save(page, "Add milestone")
    await edit_issue(page, values["title"])
    await choose(page, "Milestone", values["milestone"])
    await save(page)
    return ""


def _add_without_right(seed: int) -> Sequence[Instance]:
    found, rng = content(seed), dice(seed, 1332)
    cases = []
    for project in found.projects:
        strangers = [person.name for person in found.people if person.name not in project.members]
        cases += [(project.name, name, rng.choice(ROLES)) for name in rng.sample(strangers, 2)]
    return [
        Instance({"person": name, "project": project, "role": role}, f"person/{name}", impossible())
        for project, name, role in some(rng, cases)
    ]


async def _look_for_right(page: Page, instance: Instance, url: str) -> str:
    await visit(page, "Projects", instance.values["project"], "Members")
    await page.get_by_role("table", name="Members").wait_for()
    return "" if await page.get_by_role("link", name="Add a member").count() else "N/A"


TEMPLATES = [
    Template(1323, "gitlab", 2, "change", "Star the project {{project}}.", _star, _press_star, "developer"),
    Template(
        1327,
        "gitlab",
        3,
        "change",
        "{{person}} leaves the project {{project}}. Assign all open issues that {{person}} has there to {{heir}}.",
        _reassign,
        _reassign_all,
        "developer",
    ),
    Template(
        1328,
        "gitlab",
        3,
        "change",
        "Add {{person}} to the project {{project}} with the role {{role}}.",
        _add_member,
        _add_member_by_form,
        "maintainer",
    ),
    Template(
        1329,
        "gitlab",
        3,
        "change",
        "Change the role of {{person}} in the project {{project}} to {{role}}.",
        _change_role,
        _change_role_by_form,
        "maintainer",
    ),
    Template(
        1330,
        "gitlab",
        3,
        "change",
        'Create the milestone "{{milestone}}" in the project {{project}}, due on {{due}}, and plan the issue "{{title}}" '
        "for it.",
        _new_milestone,
        _create_milestone,
        "maintainer",
    ),
    Template(
        1332,
        "gitlab",
        2,
        "unachievable",
        "Make {{person}} a member of the project {{project}}, with the role {{role}}.",
        _add_without_right,
        _look_for_right,
        "developer",
    ),
]
