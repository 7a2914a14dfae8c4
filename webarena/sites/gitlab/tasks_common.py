"""What the task templates share: how a task is scored, which instances are taken, and how a solver gets around."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from coevo.seeds import derive_seed
from webarena.sites.gitlab.content import Content, Issue

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

T = TypeVar("T")

SITE = "__GITLAB__"
MOST = 24  # instances a template


def answer(text: str) -> dict[str, Any]:
    """The answer is `text`, whatever its case."""
    return _evaluation(string_match={"exact_match": text})


def mentions(*texts: str) -> dict[str, Any]:
    """The answer contains all `texts`."""
    return _evaluation(string_match={"must_include": list(texts)})


def impossible() -> dict[str, Any]:
    """The task cannot be done, and the answer says so."""
    return answer("N/A")


def stands_on(path: str) -> dict[str, Any]:
    """The agent stops on the page `path`. WebArena's own rule for addresses takes /issue12 for /issue1, so the whole path counts."""
    return _evaluation(
        url=f"{SITE}{path}", program_html=[script_target("last", "document.location.pathname", path)]
    )


def shows(*targets: dict[str, Any]) -> dict[str, Any]:
    """Pages, at the end, have on them what `target` says."""
    return _evaluation(program_html=list(targets))


def target(path: str, selector: str, exact: str = "", include: Sequence[str] = ()) -> dict[str, Any]:
    """The text of the first element that `selector` finds on `path` ("last": where the agent stopped)."""
    return script_target(path, f"document.querySelector({selector!r}).innerText", exact, include)


def script_target(path: str, locator: str, exact: str = "", include: Sequence[str] = ()) -> dict[str, Any]:
    contents: dict[str, Any] = {"must_include": list(include)} if include else {"exact_match": exact}
    url = path if path == "last" else f"{SITE}{path}"
    return {"url": url, "locator": locator, "required_contents": contents}


def row_with(table: str, text: str) -> str:
    """JavaScript for the text of the row of `table` that has `text` in it."""
    return f"[...document.querySelectorAll({table + ' tbody tr'!r})].find(row => row.innerText.includes({text!r})).innerText"


def _evaluation(
    string_match: dict[str, Any] | None = None, url: str = "", program_html: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    given = {"string_match": string_match, "url_match": url, "program_html": program_html}
    return {
        "eval_types": [name for name, value in given.items() if value],
        "reference_answers": string_match,
        "reference_url": url,
        "program_html": list(program_html),
    }


def dice(seed: int, template: int) -> random.Random:
    return random.Random(derive_seed("gitlab tasks", seed, template))


def some(rng: random.Random, items: Iterable[T], most: int = MOST) -> list[T]:
    """At most `most` of the items, in their order."""
    found = list(items)
    chosen = sorted(rng.sample(range(len(found)), min(most, len(found))))
    return [found[index] for index in chosen]


def about(issue: Issue) -> str:
    """The entity of tasks about an issue."""
    return f"issue/{issue.title}"


def workable(content: Content, person: str, *roles: str) -> list[Issue]:
    """Open issues in the projects in which `person` has one of the roles."""
    allowed = {project.name for project in content.projects if project.members.get(person) in roles}
    return [issue for issue in content.issues if issue.open and issue.project in allowed]


# how a solver gets around


async def search(page: Page, title: str) -> None:
    """Looks for an issue with the search field of the page's head."""
    await page.get_by_role("searchbox", name="Search issues").fill(title)
    await page.get_by_role("search").get_by_role("button", name="Search").click()
    await page.get_by_role("heading", name="Issues", exact=True).wait_for()


def titled(page: Page, title: str) -> Locator:
    """The link to an issue in a list."""
    return page.get_by_role("main").get_by_role("link", name=re.compile(rf"^#\d+ {re.escape(title)}$"))


async def open_issue(page: Page, title: str) -> str:
    """Finds an issue, opens its page, and returns its number."""
    await search(page, title)
    await titled(page, title).click()
    heading = page.get_by_role("heading", level=1)
    return (await heading.inner_text()).split(" ")[0].removeprefix("#")


async def edit_issue(page: Page, title: str) -> str:
    """Finds an issue, opens its form, and returns its number."""
    number = await open_issue(page, title)
    await page.get_by_role("link", name="Edit issue").click()
    return number


async def save(page: Page, button: str = "Save changes") -> None:
    await page.get_by_role("button", name=button, exact=True).click()
    await page.get_by_role("status").wait_for()


async def choose(page: Page, field: str, option: str) -> None:
    await page.get_by_label(field, exact=True).select_option(label=option)


async def field_text(page: Page, term: str) -> str:
    """What a page's list of facts says for a term."""
    found = page.locator("dt", has_text=re.compile(rf"^{re.escape(term)}$")).locator(
        "xpath=following-sibling::dd[1]"
    )
    return (await found.inner_text()).strip()


async def visit(page: Page, *names: str) -> None:
    """Follows links of the main menu, then of the page, one after the other."""
    menu, *rest = names
    await page.get_by_role("navigation", name="Main").get_by_role("link", name=menu, exact=True).click()
    for name in rest:
        await page.get_by_role("main").get_by_role("link", name=name, exact=True).first.click()


async def filtered(page: Page, **chosen: str) -> None:
    """Opens the issue list with the given choices, by the fields' labels; "" for any."""
    await visit(page, "Issues")
    for field, option in ({"State": ""} | chosen).items():
        if field == "Text":
            await page.get_by_label("Text").fill(option)
        else:
            await choose(page, field, option or "Any")
    await page.get_by_role("button", name="Apply").click()
    await page.wait_for_url("**/issue?*text*")


async def column(page: Page, table: str, name: str) -> list[str]:
    """The cells of a column of a table, from top to bottom."""
    found = page.get_by_role("table", name=table, exact=True)
    heads = await found.locator("thead th").all_inner_texts()
    return await found.locator(f"tbody td:nth-child({heads.index(name) + 1})").all_inner_texts()
