"""What the pages show, read from the database into plain values. Templates reach it as `utils`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from roundup.cgi.templating import TemplatingUtils

from webarena.sites.gitlab.schema import PRIORITIES, ROLES, STATUSES, role_in
from webarena.sites.gitlab.words import COMPANY

FILTERS = ("project", "status.closed", "status", "priority", "labels", "assignee", "creator", "milestone")
NAMES = {"status.closed": "State", "labels": "Label", "creator": "Author"}
SORTS = {
    "-activity": "Last updated first",
    "activity": "Longest untouched first",
    "-creation": "Newest first",
    "creation": "Oldest first",
    "priority": "Most urgent first",
    "due": "Due date, earliest first",
    "title": "Title A to Z",
}
PAGE = 20
FIELDS = {"superseder": "duplicate of", "labels": "labels", "nosy": "watchers"}


def _day(stored: str | None) -> str:
    """A date of the database, YYYYMMDDHHMMSS, as YYYY-MM-DD; "" for none."""
    return f"{stored[:4]}-{stored[4:6]}-{stored[6:8]}" if stored else ""


class Views(TemplatingUtils):  # type: ignore[misc]
    """Queries for templates; one object a request."""

    company = COMPANY
    statuses = tuple((str(number), name) for number, name in enumerate(STATUSES, 1))
    priorities = tuple((str(number), name) for number, name in enumerate(PRIORITIES, 1))
    roles = tuple((str(number), name) for number, name in enumerate(ROLES, 1))
    sorts = SORTS

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._names: dict[tuple[str, str], str] = {}

    @property
    def db(self) -> Any:
        return self.client.db

    @property
    def me(self) -> str:
        """Id of who is logged in, "" for nobody."""
        return "" if self.client.user in (None, "anonymous") else str(self.client.userid)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        self.db.sql(sql, values or None)
        return [tuple(row) for row in self.db.cursor.fetchall()]

    def name(self, kind: str, number: str | None) -> str:
        """How a page calls a node; "" for none."""
        if not number:
            return ""
        key = kind, str(number)
        if key not in self._names:
            column = {"user": "coalesce(_realname, _username)", "issue": "_title"}.get(kind, "_name")
            found = self.rows(f"select {column} from _{kind} where id = ?", key[1])
            self._names[key] = str(found[0][0]) if found else ""
        return self._names[key]

    def day(self, when: Any) -> str:
        return str(when.pretty("%Y-%m-%d")) if when else ""

    def minute(self, when: Any) -> str:
        return str(when.pretty("%Y-%m-%d %H:%M")) if when else ""

    def choices(self, kind: str) -> list[tuple[str, str]]:
        """(id, name) of all nodes that a field can be set to, by name."""
        if kind == "user":
            sql = "select id, _realname from _user where id > 2 and __retired__ = 0 order by _realname"
        else:
            sql = f"select id, _name from _{kind} where __retired__ = 0 order by _name"
        return [(str(number), str(name)) for number, name in self.rows(sql)]

    def member_choices(self, project: str) -> list[tuple[str, str]]:
        """Members of a project that an issue can be assigned to."""
        return sorted(
            ((row["user"], row["name"]) for row in self.members(project)), key=lambda choice: choice[1]
        )

    def outsiders(self, project: str) -> list[tuple[str, str]]:
        """Users that are not members of a project."""
        members = {row["user"] for row in self.members(project)}
        return [choice for choice in self.choices("user") if choice[0] not in members]

    def milestone_choices(self, project: str = "") -> list[tuple[str, str]]:
        """Milestones of a project, or of all."""
        return [(row["id"], row["name"]) for row in self.milestones(project)]

    def projects(self) -> list[dict[str, Any]]:
        issues = {
            row[0]: row[1:]
            for row in self.rows(
                "select i._project, sum(1 - s._closed), count(*) from _issue i join _status s on s.id = i._status "
                "where i.__retired__ = 0 group by i._project"
            )
        }
        members = dict(
            self.rows("select _project, count(*) from _member where __retired__ = 0 group by _project")
        )
        stars = dict(self.rows("select nodeid, count(*) from project_stars group by nodeid"))
        mine = {
            row[0] for row in self.rows("select nodeid from project_stars where linkid = ?", self.me or "0")
        }
        sql = "select id, _name, _topic, _description, _started from _project where __retired__ = 0 order by _name"
        return [
            {"id": str(number), "name": name, "topic": topic, "description": description}
            | {"started": _day(started), "members": members.get(number, 0), "stars": stars.get(number, 0)}
            | dict(zip(("open", "total"), issues.get(number, (0, 0)), strict=True))
            | {"starred": number in mine}
            for number, name, topic, description, started in self.rows(sql)
        ]

    def project(self, number: str | None) -> dict[str, Any] | None:
        """A project by id; None for an unknown one."""
        return next((project for project in self.projects() if project["id"] == str(number)), None)

    def role(self, project: str) -> str:
        """The role of who is logged in, "" for none."""
        return role_in(self.db, self.me, project) if self.me else ""

    def members(self, project: str = "", user: str = "") -> list[dict[str, Any]]:
        """Memberships of a project, or of a user, maintainers first."""
        column, value = ("_project", project) if project else ("_user", user)
        sql = (
            "select m.id, m._project, p._name, m._user, u._realname, m._role from _member m "
            "join _project p on p.id = m._project join _user u on u.id = m._user "
            f"where m.__retired__ = 0 and m.{column} = ? order by m._role desc, u._realname, p._name"
        )
        return [
            {"id": row[0], "project": row[1], "project_name": row[2], "user": str(row[3]), "name": row[4]}
            | {"role": str(row[5]), "role_name": ROLES[int(row[5]) - 1]}
            for row in self.rows(sql, value)
        ]

    def milestones(self, project: str = "") -> list[dict[str, Any]]:
        """Milestones of a project, or of all, by due date, with their numbers of open and closed issues."""
        counts = {
            row[0]: (row[1], row[2])
            for row in self.rows(
                "select i._milestone, sum(1 - s._closed), sum(s._closed) from _issue i join _status s "
                "on s.id = i._status where i.__retired__ = 0 and i._milestone is not null group by i._milestone"
            )
        }
        condition, values = ("and m._project = ?", (project,)) if project else ("", ())
        rows = self.rows(
            "select m.id, m._name, m._project, p._name, m._due from _milestone m join _project p on p.id = m._project "
            f"where m.__retired__ = 0 {condition} order by m._due, m._name",
            *values,
        )
        return [
            {"id": str(row[0]), "name": row[1], "project": str(row[2]), "project_name": row[3]}
            | {"due": _day(row[4])}
            | dict(zip(("open", "closed"), counts.get(row[0], (0, 0)), strict=True))
            for row in rows
        ]

    def labels(self) -> list[dict[str, Any]]:
        """Labels with the number of open issues that carry them."""
        counts = dict(
            self.rows(
                "select l.linkid, count(*) from issue_labels l join _issue i on i.id = l.nodeid "
                "join _status s on s.id = i._status where s._closed = 0 and i.__retired__ = 0 group by l.linkid"
            )
        )
        return [
            {"id": number, "name": name, "description": self.db.label.get(number, "description")}
            | {"open": counts.get(int(number), 0)}
            for number, name in self.choices("label")
        ]

    def people(self) -> list[dict[str, Any]]:
        return [self.person(number) for number, _ in self.choices("user")]

    def person(self, number: str) -> dict[str, Any]:
        node = self.db.user.getnode(number)
        return {
            "id": str(number),
            "username": node.username,
            "name": node.realname or node.username,
            "position": node.position,
            "location": node.location,
            "joined": self.day(node.joined),
        }

    def issue(self, number: str) -> dict[str, Any]:
        """The fields of an issue as a list or page shows them."""
        node = SimpleNamespace(**self.db.getnode("issue", str(number)))
        return {
            "id": str(number),
            "title": node.title,
            "description": node.description or "",
            "project": node.project,
            "project_name": self.name("project", node.project),
            "status": node.status,
            "status_name": STATUSES[int(node.status) - 1],
            "priority": node.priority,
            "priority_name": PRIORITIES[int(node.priority) - 1],
            "labels": sorted((self.name("label", label), label) for label in node.labels),
            "assignee": node.assignee,
            "assignee_name": self.name("user", node.assignee),
            "milestone": node.milestone,
            "milestone_name": self.name("milestone", node.milestone),
            "due": self.day(node.due),
            "author": node.creator,
            "author_name": self.name("user", node.creator),
            "created": self.minute(node.creation),
            "updated": self.minute(node.activity),
            "comments": len(node.messages),
            "watchers": sorted((self.name("user", user), user) for user in node.nosy),
            "watched": self.me in node.nosy,
            "blocks": [(other, self.name("issue", other)) for other in node.blocks],
            "superseder": [(other, self.name("issue", other)) for other in node.superseder],
        }

    def blockers(self, number: str) -> list[tuple[str, str]]:
        """Issues that block an issue."""
        return [(other, self.name("issue", other)) for other in self.db.issue.find(blocks=str(number))]

    def may_edit(self, number: str) -> bool:
        """Whether who is logged in may change the fields of an issue."""
        allowed = self.db.security.hasPermission(
            "Edit", self.client.userid, "issue", "status", itemid=str(number)
        )
        return bool(allowed)

    def comments(self, number: str) -> list[dict[str, Any]]:
        """Comments of an issue, oldest first."""
        nodes = [self.db.msg.getnode(message) for message in self.db.issue.get(str(number), "messages")]
        nodes.sort(key=lambda node: (node.date, int(node.id)))
        return [
            {"id": node.id, "author": node.author, "author_name": self.name("user", node.author)}
            | {"at": self.minute(node.date), "text": node.content}
            for node in nodes
        ]

    def history(self, number: str) -> list[dict[str, str]]:
        """Changes of an issue's fields, oldest first, in words."""
        issue = self.db.issue
        now: dict[str, Any] = {}
        entries: list[dict[str, str]] = []
        for _, at, user, action, values in sorted(
            issue.history(str(number)), key=lambda e: e[1], reverse=True
        ):
            what = ""
            if action == "create":
                what = "opened this issue"
            elif action == "set":
                parts = []
                for field, old in values.items():
                    if field in ("messages", "files"):
                        continue
                    new = now.get(field, issue.get(str(number), field))
                    parts.append(self._change(field, old, new))
                    if not isinstance(old, tuple):
                        now[field] = old
                what = ", ".join(part for part in parts if part)
            if what:
                entries.append({"at": self.minute(at), "who": self.name("user", user), "what": what})
        return entries[::-1]

    def _change(self, field: str, old: Any, new: Any) -> str:
        called = FIELDS.get(field, field)
        if isinstance(old, tuple):  # what was added to and removed from a list
            names = {"+": "added", "-": "removed"}
            done = [
                f"{names[sign]} {', '.join(self._value(field, item) for item in items)}"
                for sign, items in old
            ]
            return f"{called}: {' and '.join(done)}"
        if field in ("title", "description"):
            return f"changed the {field}"
        return f"changed {called} from {self._value(field, old) or 'none'} to {self._value(field, new) or 'none'}"

    def _value(self, field: str, value: Any) -> str:
        prop = self.db.issue.getprops()[field]
        to = getattr(prop, "classname", "")
        if not to:
            return self.day(value) if hasattr(value, "pretty") else str(value or "")
        return f"#{value}" if to == "issue" and value else self.name(to, value)

    def issues(self, request: Any) -> dict[str, Any]:
        """One page of the issues that the request's filters, search text and order ask for."""
        request.pagesize = PAGE
        if not request.sort:
            request.sort = [("-", "activity")]
        batch = request.batch()
        rows = [self.issue(batch[index].id) for index in range(batch.length)]
        last = batch.first + batch.length
        return {
            "rows": rows,
            "total": batch.sequence_length,
            "first": batch.first + 1 if rows else 0,
            "last": last,
            "previous": self.issues_url(request, max(0, batch.first - PAGE)) if batch.first else "",
            "next": self.issues_url(request, last) if last < batch.sequence_length else "",
        }

    def find(self, most: int | None = None, **spec: Any) -> list[dict[str, Any]]:
        """Issues by exact field values, last updated first."""
        ids = self.db.issue.filter(None, spec, [("-", "activity")])
        return [self.issue(number) for number in ids[:most]]

    def chosen(self, request: Any, field: str) -> str:
        """The value of a filter field in the request, "" for any."""
        value = request.filterspec.get(field, "")
        return str(value[0] if isinstance(value, list) and value else value or "")

    def sorting(self, request: Any) -> str:
        sign, name = request.sort[0] if request.sort else ("-", "activity")
        return f"{'-' if sign == '-' else ''}{name}"

    def summary(self, request: Any) -> list[tuple[str, str]]:
        """The filters and order of an issue list, in words."""
        kinds = {"labels": "label", "assignee": "user", "creator": "user"}
        found = [("Search", str(request.search_text))] if request.search_text else []
        for field in FILTERS:
            value = self.chosen(request, field)
            if not value:
                continue
            called = NAMES.get(field, field.capitalize())
            if field == "status.closed":
                found.append((called, "Closed" if value in ("1", "yes") else "Open"))
            elif value == "-1":
                found.append((called, "None"))
            else:
                found.append((called, self.name(kinds.get(field, field), value)))
        return [*found, ("Order", SORTS.get(self.sorting(request), self.sorting(request)))]

    def issues_url(self, request: Any, start: int) -> str:
        """URL of the request's issue list from its `start`th issue on."""
        query = {"@search_text": request.search_text or ""}
        query |= {field: self.chosen(request, field) for field in FILTERS}
        query = {name: value for name, value in query.items() if value}
        return self.listing(
            query | {"@sort": self.sorting(request)} | ({"@startwith": str(start)} if start else {})
        )

    def listing(self, query: Mapping[str, str]) -> str:
        """URL of an issue list with filters by field, such as `{"project": "3", "status.closed": "0"}`."""
        fields: Sequence[str] = [field for field in FILTERS if field in query]
        return "issue?" + urlencode({"@filter": ",".join(fields), **query}, safe="@,")
