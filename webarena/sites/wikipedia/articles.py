"""The articles of the encyclopaedia as HTML pages, written from the facts of `content`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from webarena.sites.wikipedia.content import (
    Book,
    Company,
    Festival,
    Invention,
    Lake,
    Mountain,
    Person,
    Province,
    River,
    Town,
    World,
)

BOOK = "wikipedia"
"""Name of the ZIM file, and first part of the path of every article."""

MAIN = "Main Page"
STYLE = """
body { font: 16px/1.5 sans-serif; margin: 0 auto; max-width: 60em; padding: 0 1em 3em; color: #202122 }
header { display: flex; gap: 1em; align-items: center; border-bottom: 1px solid #a2a9b1; padding: .6em 0 }
header form { margin-left: auto }
table.infobox { float: right; margin: 0 0 1em 1.5em; background: #f8f9fa; border: 1px solid #a2a9b1; padding: .3em }
table.infobox caption { font-weight: bold }
th { text-align: left; padding-right: 1em; vertical-align: top }
table.list { border-collapse: collapse }
table.list th, table.list td { border: 1px solid #a2a9b1; padding: .2em .6em }
footer { clear: both; border-top: 1px solid #a2a9b1; margin-top: 2em; padding-top: .5em }
"""

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Article:
    """A page; `title` also gives its path. `html` is the whole document."""

    title: str
    html: str

    @property
    def path(self) -> str:
        return path_of(self.title)


def path_of(title: str) -> str:
    """Path of an article inside the ZIM file."""
    return title.replace(" ", "_")


def list_title(what: str) -> str:
    """Title of the list of all things of a kind ("rivers")."""
    return f"List of {what}"


def articles(world: World) -> Iterator[Article]:
    """All pages, the main page first."""
    kinds: list[tuple[str, Sequence[Any], Callable[[World, Any], str], tuple[str, ...], Callable[[Any], Facts]]] = [
        ("provinces", world.provinces, _province, ("Area (km²)", "Capital"), lambda p: _columns(p.area_km2, _link(p.capital.name))),
        ("towns", world.towns, _town, ("Population", "Province"), lambda t: _columns(t.population, _link(t.province.name))),
        ("mountains", world.mountains, _mountain, ("Height (m)", "Province"), lambda m: _columns(m.height_m, _link(m.province.name))),
        ("lakes", world.lakes, _lake, ("Area (km²)", "Province"), lambda k: _columns(k.area_km2, _link(k.province.name))),
        ("rivers", world.rivers, _river, ("Length (km)", "Flows into"), lambda r: _columns(r.length_km, _link(r.mouth.name))),
        ("companies", world.companies, _company, ("Founded", "Seat"), lambda c: _columns(c.founded, _link(c.town.name))),
        ("inventions", world.inventions, _invention, ("Year", "Made by"), lambda i: _columns(i.year, _link(i.maker.name))),
        ("books", world.books, _book, ("Published", "Author"), lambda b: _columns(b.year, _link(b.author.name))),
        ("festivals", world.festivals, _festival, ("Month", "Town"), lambda f: _columns(f.month, _link(f.town.name))),
    ]  # fmt: skip
    fields = sorted({person.field for person in world.people})
    lists = [list_title(kind) for kind, *_ in kinds] + [list_title(f"{field}s") for field in fields]
    yield _page(MAIN, _main(world, lists))
    for kind, things, body, heads, cells in kinds:
        for thing in sorted(things, key=lambda thing: thing.name):
            yield _page(thing.name, body(world, thing))
        yield _list(kind, sorted(things, key=lambda thing: thing.name), heads, cells)
    for person in world.people:
        yield _page(person.name, _person(world, person))
    for field in fields:
        people = sorted((one for one in world.people if one.field == field), key=lambda one: one.name)
        yield _list(
            f"{field}s",
            people,
            ("Lived", "Born in"),
            lambda p: _columns(f"{p.born}–{p.died}", _link(p.birthplace.name)),
        )


def _columns(*cells: object) -> Facts:
    return [("", str(cell)) for cell in cells]


def _link(title: str) -> str:
    return f'<a href="{escape(path_of(title))}">{escape(title)}</a>'


def _links(titles: Sequence[str]) -> str:
    *most, last = [_link(title) for title in titles]
    return f"{', '.join(most)} and {last}" if most else last


def _page(title: str, body: str) -> Article:
    return Article(
        title,
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><header>{_link(MAIN)}"
        '<form action="/search" role="search"><input type="hidden" name="content" value="' + BOOK + '">'
        '<input type="search" name="pattern" aria-label="Search the encyclopaedia"> <button>Search</button></form></header>'
        f"<main><h1>{escape(title)}</h1>{body}</main></body></html>",
    )


def _list(kind: str, things: Sequence[Any], heads: Sequence[str], cells: Callable[[Any], Facts]) -> Article:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("Name", *heads))
    rows = "".join(
        f"<tr><td>{_link(thing.name)}</td>{''.join(f'<td>{cell}</td>' for _, cell in cells(thing))}</tr>"
        for thing in things
    )
    return _page(
        list_title(kind), f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _box(title: str, facts: Facts) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{value}</td></tr>" for name, value in facts)
    return f'<table class="infobox"><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>'


def _article(title: str, facts: Facts, *paragraphs: str, lists: Sequence[str]) -> str:
    text = "".join(part if part.startswith("<h2") else f"<p>{part}</p>" for part in paragraphs if part)
    return f"{_box(title, facts)}{text}<footer>Categories: {', '.join(_link(list_title(name)) for name in lists)}</footer>"


def _section(title: str, titles: Sequence[str]) -> str:
    """A heading with a list of links, nothing if there are none."""
    if not titles:
        return ""
    return f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{_link(one)}</li>' for one in titles)}</ul>"


def _main(world: World, lists: Sequence[str]) -> str:
    items = "".join(f"<li>{_link(title)}</li>" for title in lists)
    return (
        f"<p>An encyclopaedia of {escape(world.country)}: its {len(world.towns)} towns, its rivers and mountains, and the people "
        f"who lived there. Search for a word, or begin with a list.</p><h2>Lists</h2><ul>{items}</ul>"
    )


def _province(world: World, it: Province) -> str:
    rivers = sorted({town.river.name for town in it.towns if town.river})
    return _article(
        it.name,
        [("Capital", _link(it.capital.name)), ("Area", f"{it.area_km2} km²"), ("Towns", str(len(it.towns)))],
        f"{it.name} is one of the {len(world.provinces)} provinces of {world.country}. It covers {it.area_km2} km², and its "
        f"capital is {_link(it.capital.name)}.",
        _section("Towns", [town.name for town in it.towns]),
        _section("Rivers through its towns", rivers),
        _section("Mountains", [mountain.name for mountain in world.mountains if mountain.province is it]),
        lists=["provinces"],
    )


def _town(world: World, it: Town) -> str:
    assert it.river is not None
    born = [person.name for person in world.people if person.birthplace is it]
    capital = f" It is the capital of {_link(it.province.name)}." if it.province.capital is it else ""
    return _article(
        it.name,
        [
            ("Province", _link(it.province.name)),
            ("Population", str(it.population)),
            ("Founded", str(it.founded)),
            ("Elevation", f"{it.elevation_m} m"),
            ("River", _link(it.river.name)),
        ],
        f"{it.name} is a town in {_link(it.province.name)}, {world.country}, on the {_link(it.river.name)}. It was founded in "
        f"{it.founded} and has {it.population} inhabitants.{capital}",
        f"The market square lies {it.elevation_m} m above the sea.",
        _section("People born here", born),
        _section("Companies", [company.name for company in world.companies if company.town is it]),
        _section("Festivals", [festival.name for festival in world.festivals if festival.town is it]),
        lists=["towns"],
    )


def _mountain(world: World, it: Mountain) -> str:
    rivers = [river.name for river in world.rivers if river.source is it]
    return _article(
        it.name,
        [
            ("Height", f"{it.height_m} m"),
            ("Province", _link(it.province.name)),
            ("First ascent", f"{it.ascent_year}, by {_link(it.climber.name)}"),
        ],
        f"{it.name} is a mountain of {it.height_m} m in {_link(it.province.name)}. The explorer {_link(it.climber.name)} was the "
        f"first to stand on its summit, in {it.ascent_year}.",
        _section("Rivers that rise here", rivers),
        lists=["mountains"],
    )


def _lake(world: World, it: Lake) -> str:
    return _article(
        it.name,
        [
            ("Area", f"{it.area_km2} km²"),
            ("Greatest depth", f"{it.depth_m} m"),
            ("Province", _link(it.province.name)),
        ],
        f"{it.name} is a lake in {_link(it.province.name)}. It covers {it.area_km2} km² and is {it.depth_m} m deep at the most.",
        _section("Rivers that flow into it", [river.name for river in world.rivers if river.mouth is it]),
        lists=["lakes"],
    )


def _river(world: World, it: River) -> str:
    towns = (
        f"On its way it passes {_links([town.name for town in it.towns])}."
        if it.towns
        else "No town lies on it."
    )
    return _article(
        it.name,
        [
            ("Length", f"{it.length_km} km"),
            ("Source", _link(it.source.name)),
            ("Mouth", _link(it.mouth.name)),
        ],
        f"The {it.name} is {it.length_km} km long. It rises on {_link(it.source.name)} and flows into {_link(it.mouth.name)}.",
        towns,
        lists=["rivers"],
    )


def _person(world: World, it: Person) -> str:
    facts = [
        ("Born", f"{it.born}, {_link(it.birthplace.name)}"),
        ("Died", f"{it.died}, at the age of {it.age}"),
        ("Profession", it.field),
    ]
    teacher = ""
    if it.teacher:
        facts.append(("Teacher", _link(it.teacher.name)))
        teacher = (
            f"The {it.teacher.field} {_link(it.teacher.name)} was the most important teacher in these years."
        )
    pupils = [person.name for person in world.people if person.teacher is it]
    article = "an" if it.field[0] in "aeio" else "a"
    return _article(
        it.name,
        facts,
        f"{it.name} ({it.born}–{it.died}) was {article} {it.field} from {_link(it.birthplace.name)} in {world.country}.",
        teacher,
        _section("Books", [book.name for book in world.books if book.author is it]),
        _section("Companies founded", [company.name for company in world.companies if company.founder is it]),
        _section(
            "Inventions", [invention.name for invention in world.inventions if invention.inventor is it]
        ),
        _section("First ascents", [mountain.name for mountain in world.mountains if mountain.climber is it]),
        _section("Pupils", pupils),
        lists=[f"{it.field}s"],
    )


def _company(world: World, it: Company) -> str:
    return _article(
        it.name,
        [
            ("Founded", str(it.founded)),
            ("Founder", _link(it.founder.name)),
            ("Seat", _link(it.town.name)),
            ("Employees", str(it.employees)),
        ],
        f"{it.name} is a company in {_link(it.town.name)}. The {it.founder.field} {_link(it.founder.name)} founded it in "
        f"{it.founded}; today it employs {it.employees} people.",
        _section("Products", [invention.name for invention in world.inventions if invention.maker is it]),
        lists=["companies"],
    )


def _invention(world: World, it: Invention) -> str:
    return _article(
        it.name,
        [("Inventor", _link(it.inventor.name)), ("Year", str(it.year)), ("Made by", _link(it.maker.name))],
        f"The {it.name} was invented by {_link(it.inventor.name)} in {it.year}. It {it.purpose}. "
        f"{_link(it.maker.name)} has made it ever since.",
        lists=["inventions"],
    )


def _book(world: World, it: Book) -> str:
    article = "A" if it.genre[0] not in "aeio" else "An"
    return _article(
        it.name,
        [
            ("Author", _link(it.author.name)),
            ("Published", str(it.year)),
            ("Pages", str(it.pages)),
            ("Genre", it.genre),
        ],
        f"{article} {it.genre} by {_link(it.author.name)}, published in {it.year}. The first edition has {it.pages} pages.",
        lists=["books"],
    )


def _festival(world: World, it: Festival) -> str:
    return _article(
        it.name,
        [("Town", _link(it.town.name)), ("Month", it.month), ("Held since", str(it.since))],
        f"The {it.name} has been held every {it.month} in {_link(it.town.name)} since {it.since}.",
        lists=["festivals"],
    )
