"""Tasks on the encyclopaedia, each with the script that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from webarena.sites.base import Instance, Kind, Level, Template
from webarena.sites.wikipedia.articles import BOOK, MAIN, list_title, path_of
from webarena.sites.wikipedia.content import FIELDS, Company, Person, World, world

if TYPE_CHECKING:
    from playwright.async_api import Page

Solve = Callable[["Page", Instance, str], Awaitable[str]]
START = f"/{BOOK}/{path_of(MAIN)}"
NOT_POSSIBLE = "N/A"


def _page(title: str) -> str:
    return f"/{BOOK}/{path_of(title)}"


def _says(*parts: object) -> dict[str, Any]:
    """The answer contains every part."""
    return {
        "eval_types": ["string_match"],
        "reference_answers": {"must_include": [str(part) for part in parts]},
    }


def _is(answer: str) -> dict[str, Any]:
    return {"eval_types": ["string_match"], "reference_answers": {"exact_match": answer}}


def _shows(title: str) -> dict[str, Any]:
    """The browser shows the article. Newer versions of kiwix-serve put a word before the path."""
    urls = [f"__WIKIPEDIA__/{BOOK}/{path_of(title)}", f"__WIKIPEDIA__/content/{BOOK}/{path_of(title)}"]
    return {"eval_types": ["url_match"], "reference_url": " |OR| ".join(urls), "url_note": "GOLD in PRED"}


# What a careful reader does


async def _open(page: Page, title: str) -> None:
    """Searches for a title and opens the article."""
    await page.get_by_role("searchbox").fill(title)
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name=title, exact=True).first.click()
    await page.get_by_role("heading", name=title, exact=True).wait_for()


async def _follow(page: Page, title: str) -> None:
    await page.locator("main").get_by_role("link", name=title, exact=True).first.click()
    await page.get_by_role("heading", name=title, exact=True).wait_for()


async def _fact(page: Page, name: str) -> str:
    """A line of the box beside an article."""
    row = page.locator("table.infobox tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return (await row.locator("td").inner_text()).strip()


async def _follow_fact(page: Page, name: str) -> None:
    row = page.locator("table.infobox tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    link = row.get_by_role("link")
    title = (await link.inner_text()).strip()
    await link.click()
    await page.get_by_role("heading", name=title, exact=True).wait_for()


def _number(text: str) -> str:
    return text.split()[0].rstrip(",")


# Templates


def _template(
    number: int,
    level: Level,
    kind: Kind,
    intent: str,
    make: Callable[[World], Iterable[Instance]],
    solve: Solve,
) -> Template:
    return Template(number, BOOK, level, kind, intent, lambda seed: list(make(world(seed))), solve)


def _about(kind: str, name: str) -> str:
    return f"{kind}/{name}"


def _river_lengths(world: World) -> Iterable[Instance]:
    for river in world.rivers:
        yield Instance(
            {"river": river.name}, _about("river", river.name), _says(river.length_km), _page(river.name)
        )


async def _solve_river_length(page: Page, instance: Instance, url: str) -> str:
    return _number(await _fact(page, "Length"))


def _company_founders(world: World) -> Iterable[Instance]:
    for company in world.companies:
        yield Instance(
            {"company": company.name},
            _about("company", company.name),
            _says(company.founder.name),
            _page(company.name),
        )


async def _solve_company_founder(page: Page, instance: Instance, url: str) -> str:
    return await _fact(page, "Founder")


def _listed_towns(world: World) -> Iterable[Instance]:
    for town in world.towns:
        yield Instance(
            {"population": str(town.population)},
            _about("town", town.name),
            _says(town.name),
            _page(list_title("towns")),
        )


async def _solve_listed(page: Page, instance: Instance, url: str) -> str:
    cell = page.get_by_role("cell", name=instance.values["population"], exact=True)
    row = page.get_by_role("row").filter(has=cell)
    return (await row.locator("td").first.inner_text()).strip()


def _birthplaces(world: World) -> Iterable[Instance]:
    for person in world.people:
        yield Instance(
            {"person": person.name}, _about("person", person.name), _says(person.birthplace.name), START
        )


async def _solve_birthplace(page: Page, instance: Instance, url: str) -> str:
    await _open(page, instance.values["person"])
    return (await _fact(page, "Born")).split(", ", 1)[1]


def _mountains(world: World) -> Iterable[Instance]:
    for mountain in world.mountains:
        yield Instance(
            {"mountain": mountain.name}, _about("mountain", mountain.name), _shows(mountain.name), START
        )


async def _solve_mountain(page: Page, instance: Instance, url: str) -> str:
    await _open(page, instance.values["mountain"])
    return ""


def _professions(world: World) -> Iterable[Instance]:
    for field in FIELDS:
        title = list_title(f"{field}s")
        yield Instance({"profession": f"{field}s"}, _about("profession", field), _shows(title), START)


async def _solve_profession(page: Page, instance: Instance, url: str) -> str:
    await _follow(page, list_title(instance.values["profession"]))
    return ""


def _book_pages(world: World) -> Iterable[Instance]:
    for book in world.books:
        yield Instance({"book": book.name}, _about("book", book.name), _says(book.pages), START)


async def _solve_book_pages(page: Page, instance: Instance, url: str) -> str:
    await _open(page, instance.values["book"])
    return await _fact(page, "Pages")


def _birthplace_populations(world: World) -> Iterable[Instance]:
    for person in world.people:
        yield Instance(
            {"person": person.name}, _about("person", person.name), _says(person.birthplace.population), START
        )


async def _solve_birthplace_population(page: Page, instance: Instance, url: str) -> str:
    await _open(page, instance.values["person"])
    await _follow_fact(page, "Born")
    return await _fact(page, "Population")


def _source_heights(world: World) -> Iterable[Instance]:
    for river in world.rivers:
        yield Instance(
            {"river": river.name}, _about("river", river.name), _says(river.source.height_m), START
        )


async def _solve_source_height(page: Page, instance: Instance, url: str) -> str:
    await _open(page, instance.values["river"])
    await _follow_fact(page, "Source")
    return _number(await _fact(page, "Height"))


def _makers(world: World) -> Iterable[Instance]:
    for invention in world.inventions:
        yield Instance(
            {"invention": invention.name},
            _about("invention", invention.name),
            _shows(invention.maker.town.name),
            START,
        )


async def _solve_maker(page: Page, instance: Instance, url: str) -> str:
    await _open(page, instance.values["invention"])
    await _follow_fact(page, "Made by")
    await _follow_fact(page, "Seat")
    return ""


def _pairs(world: World) -> Iterable[Instance]:
    """Neighbours in the list of a profession who did not reach the same age."""
    for field in FIELDS:
        people = [person for person in world.people if person.field == field]
        for one, two in zip(people[::2], people[1::2], strict=False):
            if one.age != two.age:
                longer: Person = max(one, two, key=lambda person: person.age)
                yield Instance(
                    {"one": one.name, "two": two.name},
                    _about("pair", f"{one.name} and {two.name}"),
                    _is(longer.name),
                    START,
                )


async def _solve_pair(page: Page, instance: Instance, url: str) -> str:
    ages = {}
    for key in ("one", "two"):
        name = instance.values[key]
        await _open(page, name)
        ages[name] = int((await _fact(page, "Died")).rsplit(" ", 1)[1])
    return max(ages, key=lambda name: ages[name])


def _unknown_rivers(world: World) -> Iterable[Instance]:
    for name in world.absent:
        yield Instance({"river": f"River {name}"}, _about("absent", name), _is(NOT_POSSIBLE), START)


async def _solve_unknown_river(page: Page, instance: Instance, url: str) -> str:
    await page.get_by_role("link", name=list_title("rivers"), exact=True).click()
    await page.get_by_role("heading", name=list_title("rivers"), exact=True).wait_for()
    found = await page.get_by_role("link", name=instance.values["river"], exact=True).count()
    return await _fact(page, "Length") if found else NOT_POSSIBLE


def _corrections(world: World) -> Iterable[Instance]:
    companies: Sequence[Company] = world.companies
    for company in companies:
        yield Instance(
            {"company": company.name, "year": str(company.founded + 1)},
            _about("company", company.name),
            _is(NOT_POSSIBLE),
            _page(company.name),
        )


async def _solve_correction(page: Page, instance: Instance, url: str) -> str:
    """There is nothing to edit a page with."""
    return NOT_POSSIBLE if await page.get_by_role("link", name="Edit").count() == 0 else ""


TEMPLATES: Sequence[Template] = (
    _template(1401, 1, "information", "How many kilometres long is the {{river}}?", _river_lengths, _solve_river_length),
    _template(1402, 1, "information", "Who founded {{company}}?", _company_founders, _solve_company_founder),
    _template(
        1403, 1, "information", "Which town on this list has {{population}} inhabitants?", _listed_towns, _solve_listed
    ),
    _template(1404, 2, "information", "In which town was {{person}} born?", _birthplaces, _solve_birthplace),
    _template(1405, 2, "navigation", "Open the article about {{mountain}}.", _mountains, _solve_mountain),
    _template(1406, 2, "navigation", "Show me the list of all {{profession}}.", _professions, _solve_profession),
    _template(
        1407, 2, "information", 'How many pages does the first edition of "{{book}}" have?', _book_pages, _solve_book_pages
    ),
    _template(
        1408, 3, "information", "How many people live in the town where {{person}} was born?",
        _birthplace_populations, _solve_birthplace_population,
    ),
    _template(
        1409, 3, "information", "How high, in metres, is the mountain on which the {{river}} rises?",
        _source_heights, _solve_source_height,
    ),
    _template(
        1410, 3, "navigation", "Open the article about the town that is the seat of the company that makes the {{invention}}.",
        _makers, _solve_maker,
    ),
    _template(
        1411, 3, "information", "Who lived longer, {{one}} or {{two}}? Answer with the name only.", _pairs, _solve_pair
    ),
    _template(1412, 2, "unachievable", "How many kilometres long is the {{river}}?", _unknown_rivers, _solve_unknown_river),
    _template(
        1413, 1, "unachievable", "Correct this article: {{company}} was founded in {{year}}.", _corrections, _solve_correction
    ),
)  # fmt: skip
