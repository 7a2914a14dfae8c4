"""Classes and permissions of the tracker, in Roundup's terms.

Roundup runs `define` for every database it opens. Ids of priorities, statuses and roles are their places in the tuples
below, counted from 1, so that URLs stay the same over all content seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PRIORITIES = ("Critical", "High", "Medium", "Low")
STATUSES = ("New", "In progress", "In review", "On hold", "Done", "Duplicate", "Declined")
CLOSED = frozenset({"Done", "Duplicate", "Declined"})
ROLES = ("Guest", "Reporter", "Developer", "Maintainer")

PUBLIC = ("project", "issue", "msg", "file", "label", "milestone", "member", "priority", "status", "role")
USER_PROPERTIES = ("id", "username", "realname", "position", "location", "joined", "creation")
ISSUE_FIELDS = (
    "title",
    "description",
    "status",
    "priority",
    "labels",
    "assignee",
    "milestone",
    "due",
    "blocks",
    "superseder",
)


def identifier(names: tuple[str, ...], name: str) -> str:
    """Id of a priority, status or role."""
    return str(names.index(name) + 1)


def role_in(db: Any, user: str, project: str) -> str:
    """The role's name of user `user` (an id) in a project, "" for none."""
    for member in db.member.filter(None, {"project": project, "user": user}):
        return ROLES[int(db.member.get(member, "role")) - 1]
    return ""


def define(env: Mapping[str, Any]) -> None:
    """Declares classes, permissions and auditors on `env["db"]`; `env` holds Roundup's class and property types."""
    db = env["db"]
    _classes(env)
    _permissions(db)
    db.issue.audit("create", _complete_issue)
    db.issue.audit("set", _check_issue)
    db.member.audit("create", _only_by_maintainers)
    db.member.audit("create", _one_role_each)
    db.milestone.audit("create", _only_by_maintainers)


def _classes(env: Mapping[str, Any]) -> None:
    db, new = env["db"], env["Class"]
    text, date, boolean, number = env["String"], env["Date"], env["Boolean"], env["Number"]

    def link(to: str) -> Any:
        return env["Link"](to, do_journal="no")

    def many(to: str) -> Any:
        return env["Multilink"](to, do_journal="no")

    for name in ("priority", "role"):
        new(db, name, name=text(), order=number()).setkey("name")
    new(db, "status", name=text(), order=number(), closed=boolean()).setkey("name")
    new(db, "label", name=text(), description=text()).setkey("name")
    user = new(
        db,
        "user",
        username=text(),
        realname=text(),
        password=env["Password"](),
        address=text(),
        roles=text(),
        timezone=text(),
        position=text(),
        location=text(),
        joined=date(),
    )
    user.setkey("username")
    new(
        db, "project", name=text(), topic=text(), description=text(), started=date(), stars=many("user")
    ).setkey("name")
    new(db, "member", project=link("project"), user=link("user"), role=link("role"))
    new(db, "milestone", name=text(), project=link("project"), due=date(), description=text()).setkey("name")
    env["FileClass"](db, "file", name=text())
    new(
        db,
        "msg",
        author=link("user"),
        date=date(),
        content=text(indexme="yes"),
        recipients=many("user"),
        files=many("file"),
        summary=text(),
        messageid=text(),
        inreplyto=text(),
    )
    env["IssueClass"](
        db,
        "issue",
        project=link("project"),
        description=text(indexme="yes"),
        status=link("status"),
        priority=link("priority"),
        labels=many("label"),
        assignee=link("user"),
        milestone=link("milestone"),
        due=date(),
        blocks=many("issue"),
    )


def _permissions(db: Any) -> None:
    security = db.security

    def allow(name: str, klass: str, **options: Any) -> Any:
        return security.addPermission(name=name, klass=klass, **options)

    public = [allow("View", "user", properties=USER_PROPERTIES), allow("Search", "user")]
    for role in ("Anonymous", "User"):
        security.addPermissionToRole(role, "Web Access")
        for name in PUBLIC:
            security.addPermissionToRole(role, "View", name)
        for permission in public:
            security.addPermissionToRole(role, permission)
    granted = [
        allow("Create", "msg"),
        allow("Create", "file"),
        allow("Create", "issue"),
        allow("Create", "member"),
        allow("Create", "milestone"),
        allow("Edit", "issue", properties=("messages", "files", "nosy")),
        allow("Edit", "issue", properties=ISSUE_FIELDS, check=_may_edit_issue),
        allow("Edit", "project", properties=("topic", "description"), check=_maintains("project")),
        allow("Edit", "project", properties=("stars",)),
        allow("Edit", "member", properties=("role",), check=_maintains("member")),
        allow("Retire", "member", check=_maintains("member")),
        allow("Edit", "milestone", properties=("due", "description"), check=_maintains("milestone")),
        allow("Edit", "user", properties=("realname", "position", "location"), check=_is_self),
    ]
    for permission in granted:
        security.addPermissionToRole("User", permission)


def _is_self(db: Any, user: str, item: str) -> bool:
    return user == item


def _may_edit_issue(db: Any, user: str, item: str) -> bool:
    return role_in(db, user, db.issue.get(item, "project")) in ("Developer", "Maintainer")


def _maintains(klass: str) -> Callable[[Any, str, str], bool]:
    def check(db: Any, user: str, item: str) -> bool:
        project = item if klass == "project" else db.getclass(klass).get(item, "project")
        return role_in(db, user, project) == "Maintainer"

    return check


def _reject(why: str) -> Exception:
    from roundup.exceptions import Reject

    problem: Exception = Reject(why)
    return problem


def _only_by_maintainers(db: Any, cl: Any, nodeid: str | None, values: dict[str, Any]) -> None:
    project = values.get("project")
    if not project or role_in(db, db.getuid(), project) != "Maintainer":
        raise _reject("Only a maintainer of the project can do this.")


def _one_role_each(db: Any, cl: Any, nodeid: str | None, values: dict[str, Any]) -> None:
    if not values.get("user") or not values.get("role"):
        raise _reject("Choose a person and a role.")
    if role_in(db, values["user"], values["project"]):
        raise _reject("This person is a member of the project already.")


def _complete_issue(db: Any, cl: Any, nodeid: str | None, values: dict[str, Any]) -> None:
    if not values.get("title") or not values.get("project"):
        raise _reject("An issue needs a title and a project.")
    values["status"] = values.get("status") or identifier(STATUSES, "New")
    values["priority"] = values.get("priority") or identifier(PRIORITIES, "Medium")
    _check_issue(db, cl, nodeid, values)


def _check_issue(db: Any, cl: Any, nodeid: str | None, values: dict[str, Any]) -> None:
    """Milestones belong to the issue's project; an issue that gets an original becomes a duplicate."""
    if values.get("milestone"):
        project = values.get("project") or cl.get(nodeid, "project")
        if db.milestone.get(values["milestone"], "project") != project:
            raise _reject("This milestone belongs to another project.")
    if values.get("superseder"):
        if nodeid in values["superseder"]:
            raise _reject("An issue cannot be a duplicate of itself.")
        values["status"] = identifier(STATUSES, "Duplicate")
