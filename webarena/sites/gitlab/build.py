"""Writes the content of a seed into Roundup's SQLite files, with the content's own dates instead of today's."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from webarena.sites.gitlab import words
from webarena.sites.gitlab.content import ACCOUNTS, Content, Issue, content
from webarena.sites.gitlab.schema import CLOSED, PRIORITIES, ROLES, STATUSES, identifier

START = datetime(2019, 1, 7, 9)  # when the tracker was set up


def build(state: Path, seed: int) -> None:
    """Fill the empty folder `state`: `db` (everything), `db-session` and `db-otk` (logins)."""
    from webarena.sites.gitlab.app import Tracker

    tracker = Tracker()
    tracker.use(state, "http://127.0.0.1")
    db = tracker.open("admin")
    _Writer(db, content(seed)).write()
    db.getSessionManager()
    db.getOTKManager()
    db.commit()
    db.close()
    for path in sorted(state.glob("db*")):
        _settle(path)


def _settle(path: Path) -> None:
    """One file a database, without a write-ahead log beside it: a copy of the folder is a copy of the state."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode=delete")
    connection.execute("vacuum")
    connection.close()


def _encrypted(password: str, user: str) -> str:
    """Roundup's PBKDF2 form of a password, with a salt that depends on the user only."""
    from roundup.password import h64encode, pbkdf2_sha512

    salt = hashlib.sha256(user.encode()).digest()[:20]
    return f"{{PBKDF2S5}}1000${h64encode(salt)}${h64encode(pbkdf2_sha512(password, salt, 1000, 64))}"


class _Writer:
    """Adds nodes and journal entries below Roundup's classes, which would date them now."""

    def __init__(self, db: Any, content: Content) -> None:
        from roundup.date import Date
        from roundup.hyperdb import Multilink

        self.db, self.content = db, content
        self._date = Date
        self._many = {
            name: [key for key, prop in cl.properties.items() if isinstance(prop, Multilink)]
            for name, cl in db.classes.items()
        }
        self._last: dict[str, int] = {}

    def write(self) -> None:
        self._users()
        for names, kind in ((PRIORITIES, "priority"), (ROLES, "role"), (STATUSES, "status")):
            for order, name in enumerate(names, 1):
                closed = {"closed": name in CLOSED} if kind == "status" else {}
                self._add(kind, {"name": name, "order": order, **closed})
        for name in sorted(words.LABELS):
            self._add("label", {"name": name, "description": words.LABELS[name]})
        self._projects()
        for issue in self.content.issues:
            self._issue(issue)
        for kind, last in self._last.items():
            self.db.setid(kind, last + 1)
        self.db.sql("create temp table sorted as select * from __words order by _textid, _word")
        self.db.sql("delete from __words")  # Roundup writes the words of a text in the order of a set
        self.db.sql("insert into __words select * from sorted order by rowid")
        self.db.sql("drop table sorted")

    def _users(self) -> None:
        from roundup.password import Password

        self._add("user", {"username": "admin", "roles": "Admin"})
        self._add("user", {"username": "anonymous", "roles": "Anonymous"})
        passwords = {account.name: account.password for account in ACCOUNTS.values()}
        for person in self.content.people:
            known = passwords.get(person.username)
            secret = Password(encrypted=_encrypted(known, person.username)) if known else None
            self._add(
                "user",
                {
                    "username": person.username,
                    "realname": person.name,
                    "password": secret,
                    "roles": "User",
                    "position": person.position,
                    "location": person.location,
                    "joined": self._when(person.joined),
                },
            )

    def _projects(self) -> None:
        user = self.content.user_id
        for number, project in enumerate(self.content.projects, 1):
            self._add(
                "project",
                {
                    "name": project.name,
                    "topic": project.topic,
                    "description": project.description,
                    "started": self._when(project.started),
                    "stars": self._users_of(project.stars),
                },
            )
            for name, role in project.members.items():
                values = {"project": str(number), "user": str(user(name)), "role": identifier(ROLES, role)}
                self._add("member", values)
        for project, milestone in self.content.milestones():
            values = {"name": milestone.name, "due": self._when(milestone.due)}
            self._add("milestone", {**values, "project": str(self.content.project_id(project.name))})

    def _issue(self, issue: Issue) -> None:
        content, labels = self.content, sorted(words.LABELS)
        messages = [
            self._add(
                "msg",
                {
                    "author": self._user(comment.author),
                    "date": self._when(comment.at),
                    "content": comment.text,
                },
                by=comment.author,
                at=comment.at,
            )
            for comment in issue.comments
        ]
        self._add(
            "issue",
            {
                "title": issue.title,
                "description": issue.description,
                "project": str(content.project_id(issue.project)),
                "status": identifier(STATUSES, issue.status),
                "priority": identifier(PRIORITIES, issue.priority),
                "labels": [str(labels.index(label) + 1) for label in issue.labels],
                "assignee": self._user(issue.assignee) if issue.assignee else None,
                "milestone": str(content.milestone_id(issue.milestone)) if issue.milestone else None,
                "due": self._when(issue.due) if issue.due else None,
                "nosy": self._users_of(issue.watchers),
                "blocks": [str(number) for number in issue.blocks],
                "superseder": [str(issue.duplicate_of)] if issue.duplicate_of else [],
                "messages": messages,
            },
            by=issue.author,
            at=issue.created,
            changed=(issue.last_actor, issue.updated),
        )
        ids = {
            "status": lambda name: identifier(STATUSES, name),
            "priority": lambda name: identifier(PRIORITIES, name),
        }
        for change in issue.changes:
            old = (ids.get(change.field, self._user)(change.old)) if change.old else None
            journal = ("issue", str(issue.number), "set", {change.field: old})
            self.db.addjournal(*journal, creator=self._user(change.author), creation=self._when(change.at))

    def _user(self, name: str) -> str:
        return str(self.content.user_id(name))

    def _users_of(self, names: Iterable[str]) -> list[str]:
        return [self._user(name) for name in names]

    def _when(self, at: datetime | date) -> Any:
        moment = at if isinstance(at, datetime) else datetime.combine(at, time())
        return self._date((moment.year, moment.month, moment.day, moment.hour, moment.minute, 0, 0, 0, 0))

    def _add(
        self,
        kind: str,
        values: Mapping[str, Any],
        *,
        by: str = "",
        at: datetime = START,
        changed: tuple[str, datetime] | None = None,
    ) -> str:
        """Adds a node with its creation in the journal, indexes its text, and returns its id."""
        self._last[kind] = self._last.get(kind, 0) + 1
        number = str(self._last[kind])
        creator = self._user(by) if by else "1"
        actor, activity = (self._user(changed[0]), changed[1]) if changed else (creator, at)
        stamps = {
            "creator": creator,
            "creation": self._when(at),
            "actor": actor,
            "activity": self._when(activity),
        }
        many: dict[str, Any] = {name: [] for name in self._many[kind]}
        self.db.addnode(kind, number, {**many, **values, **stamps})
        self.db.addjournal(kind, number, "create", {}, creator=creator, creation=stamps["creation"])
        for name, prop in self.db.getclass(kind).properties.items():
            if getattr(prop, "indexme", False) and values.get(name):
                self.db.indexer.add_text((kind, number, name), values[name])
        return number
