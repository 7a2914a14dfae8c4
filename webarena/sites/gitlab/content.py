"""The company's projects, people and issues, invented from a seed. Pure data: no tracker, no clock."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from coevo.seeds import derive_seed
from webarena.sites.base import Account, Names
from webarena.sites.gitlab import words
from webarena.sites.gitlab.schema import CLOSED

ISSUES = 288
PEOPLE = 30  # without the two accounts
FIRST_ISSUE, LAST_ISSUE = datetime(2023, 1, 9, 9), datetime(2024, 5, 31, 17)
TODAY = datetime(2024, 6, 14, 18)  # nothing in the content is younger

DEVELOPER = "Nora Ekdal"
MAINTAINER = "Tomas Brandl"
ACCOUNTS = {
    "developer": Account("nora.ekdal", "heron-lantern-42"),
    "maintainer": Account("tomas.brandl", "walnut-harbour-17"),
}


@dataclass(frozen=True, slots=True)
class Person:
    username: str
    name: str
    position: str
    location: str
    joined: date


@dataclass(frozen=True, slots=True)
class Milestone:
    name: str
    due: date


@dataclass(frozen=True, slots=True)
class Project:
    """`members`: role by person's name, maintainers first."""

    name: str
    topic: str
    description: str
    started: date
    members: dict[str, str]
    milestones: tuple[Milestone, ...]
    stars: tuple[str, ...]

    def with_role(self, *roles: str) -> list[str]:
        return [name for name, role in self.members.items() if role in roles]


@dataclass(frozen=True, slots=True)
class Comment:
    author: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A field of an issue went from `old` to `new` ("" for nothing)."""

    author: str
    at: datetime
    field: str
    old: str
    new: str


@dataclass(slots=True)
class Issue:
    """People, projects and labels by name, other issues by number."""

    number: int
    project: str
    component: str
    title: str
    description: str
    author: str
    created: datetime
    priority: str
    status: str = "New"
    labels: list[str] = field(default_factory=list)
    assignee: str = ""
    milestone: str = ""
    due: date | None = None
    watchers: list[str] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    duplicate_of: int | None = None
    comments: list[Comment] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return self.status not in CLOSED

    @property
    def updated(self) -> datetime:
        return max([self.created, *(c.at for c in self.comments), *(c.at for c in self.changes)])

    @property
    def last_actor(self) -> str:
        """Who did the last thing to it."""
        done = [(c.at, c.author) for c in self.comments] + [(c.at, c.author) for c in self.changes]
        return max([(self.created, self.author), *done])[1]


@dataclass(frozen=True, slots=True)
class Content:
    """Ids in the tracker are places in these lists, counted from 1 (people from 3: two users are Roundup's own)."""

    people: tuple[Person, ...]
    projects: tuple[Project, ...]
    issues: tuple[Issue, ...]

    def person(self, name: str) -> Person:
        return next(person for person in self.people if person.name == name)

    def project(self, name: str) -> Project:
        return next(project for project in self.projects if project.name == name)

    def project_id(self, name: str) -> int:
        return [project.name for project in self.projects].index(name) + 1

    def user_id(self, name: str) -> int:
        return [person.name for person in self.people].index(name) + 3

    def milestones(self) -> list[tuple[Project, Milestone]]:
        """In the order of their ids."""
        return [(project, milestone) for project in self.projects for milestone in project.milestones]

    def milestone_id(self, name: str) -> int:
        return [milestone.name for _, milestone in self.milestones()].index(name) + 1

    def issues_of(self, project: str) -> list[Issue]:
        return [issue for issue in self.issues if issue.project == project]


@functools.lru_cache(maxsize=4)
def content(seed: int) -> Content:
    """The content of `seed`, always the same."""
    rng = random.Random(derive_seed("gitlab", seed))
    people = _people(rng)
    projects = _projects(rng, [person.name for person in people])
    return Content(people, projects, _issues(rng, projects, [person.name for person in people]))


def _day(rng: random.Random, first: date, last: date) -> date:
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def _people(rng: random.Random) -> tuple[Person, ...]:
    names = [DEVELOPER, MAINTAINER]
    firsts = rng.sample(words.FIRST_NAMES, PEOPLE)
    names += [
        f"{first} {last}" for first, last in zip(firsts, rng.sample(words.LAST_NAMES, PEOPLE), strict=True)
    ]
    return tuple(
        Person(
            name.lower().replace(" ", "."),
            name,
            rng.choice(words.POSITIONS),
            rng.choice(words.LOCATIONS),
            _day(rng, date(2017, 2, 1), date(2022, 11, 1)),
        )
        for name in names
    )


def _projects(rng: random.Random, people: Sequence[str]) -> tuple[Project, ...]:
    order = list(words.PRODUCTS)
    rng.shuffle(order)
    developer = ["Developer"] * 8 + ["Reporter"] * 2 + ["Guest"] + [""] * 3
    maintainer = ["Maintainer"] * 9 + ["Developer"] * 2 + [""] * 3
    rng.shuffle(maintainer)
    return tuple(
        _project(rng, name, people[2:], developer[index], maintainer[index])
        for index, name in enumerate(order)
    )


def _project(
    rng: random.Random, name: str, people: Sequence[str], developer: str, maintainer: str
) -> Project:
    topic, description, _ = words.PRODUCTS[name]
    roles = ["Maintainer"] * rng.choice((1, 1, 2)) + ["Developer"] * rng.randint(4, 6)
    roles += ["Reporter"] * rng.randint(1, 3) + ["Guest"] * rng.randint(1, 2)
    members = [*zip(rng.sample(people, len(roles)), roles, strict=True)]
    members += [(person, role) for person, role in ((DEVELOPER, developer), (MAINTAINER, maintainer)) if role]
    order = ("Maintainer", "Developer", "Reporter", "Guest")
    major, minor = rng.randint(1, 4), rng.randint(1, 6)
    versions = (f"{major}.{minor}", f"{major}.{minor + 1}", f"{major + 1}.0")
    windows = (
        (date(2024, 3, 4), date(2024, 4, 26)),
        (date(2024, 7, 1), date(2024, 8, 30)),
        (date(2024, 10, 1), date(2024, 12, 13)),
    )
    return Project(
        name,
        topic,
        description,
        _day(rng, date(2019, 3, 1), date(2022, 9, 30)),
        dict(sorted(members, key=lambda member: order.index(member[1]))),
        tuple(
            Milestone(f"{name} {version}", _day(rng, *window))
            for version, window in zip(versions, windows, strict=True)
        ),
        tuple(rng.sample(people, rng.randint(2, 12))),
    )


def _issues(rng: random.Random, projects: Sequence[Project], people: Sequence[str]) -> tuple[Issue, ...]:
    span = int((LAST_ISSUE - FIRST_ISSUE).total_seconds() // 60)
    times = sorted(FIRST_ISSUE + timedelta(minutes=minute) for minute in rng.sample(range(span), ISSUES))
    places = [project for project in projects for _ in range(ISSUES // len(projects) + 1)]
    rng.shuffle(places)
    names = Names()
    issues = [
        _issue(rng, number, project, people, times[number - 1], names)
        for number, project in enumerate(places[:ISSUES], 1)
    ]
    for issue in issues:
        _link(rng, issue, issues)
        _history(rng, issue, next(project for project in projects if project.name == issue.project))
    return tuple(issues)


def _issue(
    rng: random.Random, number: int, project: Project, people: Sequence[str], created: datetime, names: Names
) -> Issue:
    kind = rng.choices(("bug", "feature", "documentation", "maintenance"), (55, 25, 8, 12))[0]
    component = fault = occasion = ""

    def title() -> str:
        nonlocal component, fault, occasion
        component = rng.choice(words.PRODUCTS[project.name][2])
        if kind == "bug":
            fault, occasion = rng.choice(words.FAULTS), rng.choice(words.OCCASIONS)
            return f"{component[0].upper()}{component[1:]} {fault} {occasion}"
        patterns = {"feature": words.WISHES, "documentation": words.PAPERS, "maintenance": words.CHORES}
        return rng.choice(patterns[kind]).format(c=component)

    heading = names.fresh(title)
    parts = {
        "bug": (words.BUG_OPENINGS, words.BUG_BODIES, words.BUG_ENDINGS),
        "feature": (words.WISH_BODIES,),
        "documentation": (words.PAPER_BODIES,),
        "maintenance": (words.CHORE_BODIES,),
    }[kind]
    text = " ".join(rng.choice(part) for part in parts)
    extra = rng.sample(words.EXTRA_LABELS[kind], rng.choice((0, 1, 1, 2)))
    members = list(project.members)
    return Issue(
        number,
        project.name,
        component,
        heading,
        _fill(rng, text, project, component, fault=fault, occasion=occasion),
        rng.choice(members if rng.random() < 0.7 else people),
        created,
        rng.choices(("Critical", "High", "Medium", "Low"), (8, 24, 46, 22))[0],
        labels=sorted([kind, *extra]),
        milestone=rng.choice(project.milestones).name if rng.random() < 0.6 else "",
        due=_day(rng, created.date() + timedelta(days=20), date(2024, 12, 20))
        if rng.random() < 0.25
        else None,
        watchers=sorted(rng.sample(people[2:], rng.choice((0, 1, 1, 2, 3, 4)))),
    )


def _fill(rng: random.Random, text: str, project: Project, component: str, who: str = "", **more: str) -> str:
    version = f"{rng.randint(1, 4)}.{rng.randint(0, 9)}.{rng.randint(0, 9)}"
    return text.format(
        c=component,
        v=version,
        n=rng.randint(3, 40),
        e=rng.choice(words.SYSTEMS),
        city=rng.choice(words.LOCATIONS),
        who=who.split(" ")[0],
        **more,
    )


def _link(rng: random.Random, issue: Issue, issues: Sequence[Issue]) -> None:
    """Status and relations to other issues of the project."""
    others = [other for other in issues if other.project == issue.project and other is not issue]
    issue.status = rng.choices(
        ("New", "In progress", "In review", "On hold", "Done", "Duplicate", "Declined"),
        (28, 15, 8, 7, 30, 5, 7),
    )[0]
    if issue.status == "Duplicate":
        earlier = [other for other in others if other.number < issue.number]
        same = [other for other in earlier if other.component == issue.component]
        if not earlier:
            issue.status = "Done"
        else:
            issue.duplicate_of = rng.choice(same or earlier).number
    if rng.random() < 0.15 and issue.status != "Duplicate":
        issue.blocks = sorted(other.number for other in rng.sample(others, rng.choice((1, 1, 2))))


def _history(rng: random.Random, issue: Issue, project: Project) -> None:
    """Assignment, comments and changes of status, in the order in which they happened."""
    workers, members = project.with_role("Maintainer", "Developer"), list(project.members)
    now = issue.created
    end = min(TODAY, issue.created + timedelta(days=rng.randint(25, 150)))

    def later() -> datetime:
        nonlocal now
        left = max(2, int((end - now).total_seconds() // 60))
        now += timedelta(minutes=rng.randint(1, max(1, left // 4)))
        return now

    def change(author: str, name: str, old: str, new: str) -> None:
        issue.changes.append(Change(author, later(), name, old, new))

    def say(author: str, text: str) -> None:
        who = rng.choice([name for name in members if name != author])
        issue.comments.append(Comment(author, later(), _fill(rng, text, project, issue.component, who)))

    if rng.random() < 0.8 or issue.status in ("In progress", "In review"):
        issue.assignee = rng.choice(workers)
        change(rng.choice(workers), "assignee", "", issue.assignee)
    texts = rng.sample(words.COMMENTS, rng.choice((0, 1, 2, 2, 3, 3, 4, 5)))
    for text in texts:
        say(rng.choice(members), text)
        if rng.random() < 0.12:
            issue.priority, old = (
                rng.choice([p for p in ("Critical", "High", "Medium", "Low") if p != issue.priority]),
                issue.priority,
            )
            change(rng.choice(workers), "priority", old, issue.priority)
    if issue.open and issue.status != "New":
        change(issue.assignee or rng.choice(workers), "status", "New", issue.status)
    if not issue.open:
        closer = rng.choice(workers)
        if rng.random() < 0.8:
            say(closer, rng.choice(words.CLOSING[issue.status]))
        change(closer, "status", "New", issue.status)
