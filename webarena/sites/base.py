"""What a site of the local arena is: a real application, its seed state, its tasks, and a script that solves each of them."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from playwright.async_api import Page

Level = Literal[1, 2, 3]
Kind = Literal["information", "navigation", "change", "unachievable"]


@dataclass(frozen=True, slots=True)
class Account:
    """Someone who can log in. Local sites only, so the password is no secret."""

    name: str
    password: str


@dataclass(frozen=True, slots=True)
class Instance:
    """One task of a template.

    `values` fill the `{{slots}}` of the template's intent. `entity` names what the task is about ("product/Copper
    Kettle"); tasks about the same entity always land in the same split. `eval` is WebArena's own (`eval_types`,
    `reference_answers`, `reference_url`, `program_html`), with URLs that begin with the site's placeholder
    (`__SHOPPING__/…`). `start` is the path of the page the episode begins on.
    """

    values: Mapping[str, str]
    entity: str
    eval: Mapping[str, Any]
    start: str = "/"


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of task. `id` is its `intent_template_id`, unique over the arena.

    `level` 1: the answer or the element is on the start page. 2: search or navigate, then act. 3: several pages and a write.
    `instances` lists every instance there is for a content seed, in a fixed order. `solve` does the task in a browser as a
    careful person would, and returns the answer to stop with ("" where none is asked for). It gets a page that stands on
    `start`, logged in as `account`, and the site's base URL without a trailing slash.
    """

    id: int
    site: str
    level: Level
    kind: Kind
    intent: str
    instances: Callable[[int], Sequence[Instance]]
    solve: Callable[[Page, Instance, str], Awaitable[str]]
    account: str = ""
    """Key of `Site.accounts`; "" if the task is done without logging in."""


class Site(Protocol):
    """A real application with file state. `name` is WebArena's name for its kind of site.

    A site runs as one process that imports the application (`load`) and forks a child for each slot (`serve`), so that
    every slot has a private copy of the state and a fresh start costs milliseconds. `read_only` sites keep no state and
    share one child.
    """

    name: str
    read_only: bool
    accounts: Mapping[str, Account]

    def missing(self) -> str:
        """What this machine lacks to run the site, as a sentence with the remedy; "" if nothing."""
        ...

    def build(self, state: Path, seed: int) -> None:
        """Fill the empty folder `state` with the content of `seed`. Runs in a process of its own. Same seed, same content."""
        ...

    def load(self) -> None:
        """Import everything, open no state: the process is about to be forked."""
        ...

    def serve(self, state: Path, listener: socket.socket, url: str) -> None:
        """Serve `state` at `url` (http://127.0.0.1:PORT) on a listening socket until killed. In the slot's own process."""
        ...

    async def login(self, page: Page, account: Account, url: str) -> None:
        """Log in through the site's own form."""
        ...

    async def logged_in(self, page: Page, account: Account, url: str) -> bool:
        """Whether the page's cookies still stand for `account`."""
        ...

    def templates(self) -> Sequence[Template]: ...


@dataclass(slots=True)
class Names:
    """Draws distinct names from word lists; for sites that invent content. Not for security."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, make: Callable[[], str]) -> str:
        """The first name `make` returns that has not been taken."""
        for _ in range(10_000):
            name = make()
            if name not in self.taken:
                self.taken.add(name)
                return name
        raise ValueError("the word lists are too short for so many distinct names")
