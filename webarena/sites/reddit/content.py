"""The invented community of a seed: members, forums, topics, comments, likes, polls, private messages. No Django here.

Everything has its database id already, so that tasks know every URL. All dates are fixed and in UTC.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

from coevo.seeds import derive_seed
from webarena.sites.base import Account, Names

SITE_NAME = "Harbor Forum"
COMMENTS_PER_PAGE = 10
TOPICS_PER_PAGE = 15
PRIVATE_FORUM_ID = 1
MEMBER = Account("nora_whitlock", "lantern-orchard-42")
MODERATOR = Account("sam_keeper", "harbor-compass-17")
MEMBER_COUNT = 48
MEMBER_ID, MODERATOR_ID = 1, 2
OPENS = datetime(2022, 2, 1, 8, tzinfo=UTC)
CLOSES = datetime(2023, 11, 20, 20, tzinfo=UTC)
SLUG_LENGTH = 50

Kind = Literal["help", "ask", "show", "meet", "poll", "rules", "private"]
KINDS_PER_FORUM: tuple[tuple[Kind, int], ...] = (
    ("help", 10),
    ("ask", 5),
    ("show", 4),
    ("meet", 2),
    ("poll", 2),
)


@dataclass(frozen=True, slots=True)
class Member:
    id: int
    name: str
    location: str
    joined: datetime


@dataclass(frozen=True, slots=True)
class Forum:
    id: int
    title: str
    description: str
    colour: str


@dataclass(frozen=True, slots=True)
class Comment:
    """`price` (dollars) is what its author says to have paid, if anything. `likes` are ids of members."""

    id: int
    author: int
    text: str
    date: datetime
    likes: tuple[int, ...] = ()
    price: int | None = None


@dataclass(frozen=True, slots=True)
class Option:
    id: int
    text: str
    voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """`id` is that of the poll. It belongs to the opening comment of its topic."""

    id: int
    question: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """`comments` are in order of time; the first one opens the topic. `shop` and `weekends` are facts that it states."""

    id: int
    forum: int
    kind: Kind
    title: str
    comments: tuple[Comment, ...]
    thing: str = ""
    shop: str = ""
    weekends: int = 0
    poll: Poll | None = None
    pinned: bool = False
    closed: bool = False
    participants: tuple[int, ...] = ()

    @property
    def author(self) -> int:
        return self.comments[0].author

    @property
    def date(self) -> datetime:
        return self.comments[0].date

    @property
    def last_active(self) -> datetime:
        return self.comments[-1].date

    @property
    def path(self) -> str:
        return f"/topic/{self.id}/{slugify(self.title)}/"


@dataclass(frozen=True, slots=True)
class Content:
    """`private` topics are messages between members; they are in no public forum."""

    members: tuple[Member, ...]
    forums: tuple[Forum, ...]
    topics: tuple[Topic, ...]
    private: tuple[Topic, ...]

    def name(self, member: int) -> str:
        return self.members[member - 1].name

    def forum(self, topic: Topic) -> Forum:
        return next(forum for forum in self.forums if forum.id == topic.forum)

    def of_forum(self, forum: Forum) -> list[Topic]:
        """The forum's topics as its page lists them: pinned ones first, then by last activity, newest first."""
        topics = [topic for topic in self.topics if topic.forum == forum.id]
        return sorted(topics, key=lambda topic: (topic.pinned, topic.last_active), reverse=True)

    def by(self, member: int) -> list[Topic]:
        """Topics a member started, newest first, as the profile lists them."""
        mine = [topic for topic in self.topics if topic.author == member]
        return sorted(mine, key=lambda topic: (topic.date, topic.id), reverse=True)


def slugify(text: str) -> str:
    """The slug that Django makes of plain ASCII text."""
    slug = re.sub(r"[^\w\s-]", "", text.lower())
    return re.sub(r"[-\s]+", "-", slug).strip("-_")[:SLUG_LENGTH].strip("-")


def forum_path(forum: Forum) -> str:
    return f"/category/{forum.id}/{slugify(forum.title)}/"


def profile_path(member: Member, tab: str = "") -> str:
    """A member's page: comments, or with `tab` "topics" or "likes" those."""
    return f"/user/{tab + '/' if tab else ''}{member.id}/{member.name}/"


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@dataclass(slots=True)
class _Draft:
    """A topic before it has a date and ids."""

    forum: int
    kind: Kind
    title: str
    texts: list[tuple[int, str, int | None]]  # author, text, price
    thing: str = ""
    shop: str = ""
    weekends: int = 0
    poll: tuple[str, tuple[str, ...]] | None = None


@cache
def words() -> dict[str, Any]:
    """The word lists of `community.toml`."""
    return tomllib.loads((Path(__file__).parent / "community.toml").read_text(encoding="utf-8"))


@cache
def content(seed: int) -> Content:
    """The community of a seed; the same one each time."""
    return _Author(random.Random(derive_seed("reddit", seed))).write()


def article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def _say(text: str, slots: Mapping[str, Any]) -> str:
    """Fills the slots of a text; `{a_thing}` and `{a_maker}` come with their article."""
    articles = {f"a_{name}": article(str(slots[name])) for name in ("thing", "maker")}
    return text.format_map({**slots, **articles})


@dataclass
class _Author:
    """Writes a community. Draws everything from one generator, in a fixed order."""

    rng: random.Random
    names: Names = field(default_factory=Names)
    members: tuple[Member, ...] = ()
    weights: list[float] = field(default_factory=list)
    comment_id: int = 0
    option_id: int = 0
    poll_id: int = 0

    def write(self) -> Content:
        self.members = self._people()
        self.weights = [0.0, 0.0] + [1 / (1 + rank / 6) for rank in range(MEMBER_COUNT - 2)]
        forums = tuple(
            Forum(number + PRIVATE_FORUM_ID + 1, entry["title"], entry["description"], entry["colour"])
            for number, entry in enumerate(words()["forums"])
        )
        drafts = [
            draft
            for forum, entry in zip(forums, words()["forums"], strict=True)
            for draft in self._forum(forum, entry)
        ]
        self.rng.shuffle(drafts)
        span = (CLOSES - OPENS).total_seconds()
        dates = sorted(OPENS + timedelta(seconds=int(self.rng.random() * span)) for _ in drafts)
        topics = tuple(
            self._topic(number, draft, date)
            for number, (draft, date) in enumerate(zip(drafts, dates, strict=True), 1)
        )
        return Content(self.members, forums, topics, self._letters(len(topics)))

    def _people(self) -> tuple[Member, ...]:
        lists = words()

        def invent() -> str:
            given, handle = self.rng.choice(lists["given_names"]), self.rng.choice(lists["handles"])
            number = self.rng.choice(("", "", str(self.rng.randint(2, 98))))
            return f"{given}{self.rng.choice(('_', '-', ''))}{handle}{number}"

        names = [MEMBER.name, MODERATOR.name] + [self.names.fresh(invent) for _ in range(MEMBER_COUNT - 2)]
        return tuple(
            Member(
                number,
                name,
                self.rng.choice(lists["towns"]),
                OPENS - timedelta(days=self.rng.randint(20, 1500)),
            )
            for number, name in enumerate(names, 1)
        )

    def _someone(self, *, but: Sequence[int] = ()) -> int:
        while True:
            (number,) = self.rng.choices(range(1, MEMBER_COUNT + 1), self.weights)
            if number not in but:
                return number

    def _slots(self, forum: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        rng, lists = self.rng, words()
        return {
            "thing": rng.choice(forum["things"]),
            "maker": rng.choice(forum["makers"]),
            "town": rng.choice(lists["towns"]),
            "shop": f"{rng.choice(lists['shop_owners'])} {rng.choice(lists['shop_kinds'])}",
            "name": self.members[self._someone() - 1].name,
            "n": rng.randint(3, 11),
            "price": rng.randint(12, 240),
            "year": rng.choice((2019, 2020, 2021)),
            "month": rng.choice(MONTHS),
            "day": rng.randint(2, 28),
            "hour": rng.randint(2, 7),
            **more,
        }  # fmt: skip

    def _forum(self, forum: Forum, entry: Mapping[str, Any]) -> list[_Draft]:
        drafts = [
            _Draft(
                forum.id,
                "rules",
                f"Read this before you post in {forum.title}",
                [(MODERATOR_ID, words()["talk"]["rules"][0], None)],
            )
        ]
        mine = self.rng.randrange(KINDS_PER_FORUM[0][1])  # the account's own topic is one that asks for help
        for kind, count in KINDS_PER_FORUM:
            for number in range(count):
                author = MEMBER_ID if kind == "help" and number == mine else self._someone()
                drafts.append(self._draft(forum, entry, kind, number, author))
        return drafts

    def _draft(self, forum: Forum, entry: Mapping[str, Any], kind: Kind, number: int, author: int) -> _Draft:
        rng, slots, talk = self.rng, self._slots(entry), words()["talk"]
        shop, weekends, poll = "", 0, None
        if kind == "help":

            def make() -> str:
                slots.update(thing=rng.choice(entry["things"]), problem=rng.choice(entry["problems"]))
                return _say("my {thing} {problem}", slots)

            complaint = self.names.fresh(make)
            title = rng.choice((complaint.capitalize(), f"Help, {complaint}"))
            shop = slots["shop"] = self.names.fresh(lambda: str(self._slots(entry)["shop"]))
            opening = rng.choice(talk["help"])
        elif kind == "ask":

            def make() -> str:
                slots.update(thing=rng.choice(entry["things"]), use=rng.choice(entry["uses"]))
                return _say("{thing} for {use}", slots)

            wish = self.names.fresh(make)
            title = rng.choice((f"Which {wish}?", f"Looking for {article(wish)}"))
            opening = rng.choice(talk["ask"])
        elif kind == "show":
            slots["project"] = entry["projects"][number]
            weekends = slots["weekends"] = rng.randint(4, 29)
            title, opening = f"I finally finished {slots['project']}", rng.choice(talk["show"])
        elif kind == "meet":

            def make() -> str:
                slots.update(town=rng.choice(words()["towns"]), month=rng.choice(MONTHS))
                return f"{forum.title} meet-up in " + _say("{town}, {month} {day}", slots)

            title, opening = self.names.fresh(make), talk["meet"][0]
        else:
            poll = (entry["polls"][number]["question"], tuple(entry["polls"][number]["options"]))
            title, opening = f"Poll: {poll[0]}", talk["poll"][0]
        texts = [(author, _say(opening, slots), None), *self._answers(entry, kind, author, slots)]
        return _Draft(forum.id, kind, title, texts, slots["thing"], shop, weekends, poll)

    def _answers(
        self, entry: Mapping[str, Any], kind: Kind, author: int, slots: Mapping[str, Any]
    ) -> list[tuple[int, str, int | None]]:
        rng, talk = self.rng, words()["talk"]
        count = min(1 + int(rng.expovariate(1 / 4.6)), 26)
        special = {"help": entry["fixes"], "show": talk["praise"], "meet": talk["coming"]}.get(kind, ())
        pool = rng.sample(special, len(special))[: max(1, count * 2 // 3)] if special else []
        pool += rng.sample(talk["replies"], len(talk["replies"]))[: max(0, count - len(pool))]
        pool = pool[:count]
        rng.shuffle(pool)
        answers: list[tuple[int, str, int | None]] = []
        for text in pool:
            speaker = (
                author if answers and author > 2 and rng.random() < 0.12 else self._someone(but=(author,))
            )
            own = self._slots(entry, thing=slots["thing"])
            while own["name"] == self.members[speaker - 1].name:
                own = self._slots(entry, thing=slots["thing"])
            answers.append((speaker, _say(text, own), None))
        if kind == "ask":
            payers: list[int] = [author]
            for text in rng.sample(talk["paid"], rng.randint(2, 4)):
                payers.append(self._someone(but=payers))
                own = self._slots(entry)
                answers.insert(rng.randint(0, len(answers)), (payers[-1], _say(text, own), own["price"]))
        return answers

    def _topic(self, number: int, draft: _Draft, date: datetime) -> Topic:
        rng = self.rng
        comments = []
        for author, text, price in draft.texts:
            self.comment_id += 1
            others = [one for one in range(3, MEMBER_COUNT + 1) if one != author]
            likes = tuple(rng.sample(others, min(int(rng.expovariate(1 / 2.6)), 17)))
            comments.append(Comment(self.comment_id, author, text, date, likes, price))
            date += timedelta(minutes=rng.randint(20, 900), seconds=rng.randint(0, 59))
        poll = None
        if draft.poll:
            self.poll_id += 1
            voters = rng.sample(range(3, MEMBER_COUNT + 1), rng.randint(9, 30))
            votes = [rng.randrange(len(draft.poll[1])) for _ in voters]
            options = []
            for index, text in enumerate(draft.poll[1]):
                self.option_id += 1
                chosen = tuple(voter for voter, vote in zip(voters, votes, strict=True) if vote == index)
                options.append(Option(self.option_id, text, chosen))
            poll = Poll(self.poll_id, draft.poll[0], tuple(options))
        closed = draft.kind == "meet" and rng.random() < 0.3
        return Topic(
            number, draft.forum, draft.kind, draft.title, tuple(comments), draft.thing, draft.shop, draft.weekends,
            poll, pinned=draft.kind == "rules", closed=closed,
        )  # fmt: skip

    def _letters(self, topics: int) -> tuple[Topic, ...]:
        """Private topics of the account that the tasks use."""
        entries, talk = words()["forums"], words()["talk"]["letters"]
        letters = []
        for number in range(14):
            said = talk[number % len(talk)]
            slots = self._slots(entries[number % len(entries)])
            other = self._someone()
            while slots["name"] == self.members[other - 1].name:
                slots["name"] = self.members[self._someone() - 1].name
            texts: list[tuple[int, str, int | None]] = [
                (other, _say(said["question"], slots), None),
                (MEMBER_ID, _say(said["answer"], slots), None),
            ]
            draft = _Draft(PRIVATE_FORUM_ID, "private", _say(said["title"], slots), texts)
            date = OPENS + timedelta(days=30 + 40 * number, minutes=self.rng.randint(0, 900))
            letter = self._topic(topics + number + 1, draft, date)
            silent = tuple(replace(comment, likes=()) for comment in letter.comments)
            letters.append(replace(letter, comments=silent, participants=(MEMBER_ID, other)))
        return tuple(letters)
