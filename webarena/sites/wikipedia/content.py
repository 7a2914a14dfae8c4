"""An invented country, its places, people and things, as facts that agree with each other. Pure data; same seed, same facts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from coevo.seeds import derive_seed
from webarena.sites.base import Names

PROVINCES, TOWNS, MOUNTAINS, LAKES, RIVERS, PEOPLE, COMPANIES, BOOKS, FESTIVALS = (
    7,
    56,
    28,
    14,
    35,
    112,
    42,
    36,
    21,
)

ONSETS = [
    "b",
    "br",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "sk",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
]
VOWELS = ["a", "e", "i", "o", "u", "ae", "ei", "io", "ou"]
CODAS = ["l", "n", "r", "s", "th", "nd", "rk", "ld", "m", "v"]
TOWN_ENDS = ("ham", "stead", "wick", "mouth", "gate", "haven", "field", "bridge", "holm", "market")
MOUNTAIN_FORMS = ("Mount {}", "{} Peak", "{} Horn", "The {} Tooth")
COMPANY_ENDS = ("Works", "Brothers", "Foundry", "Mills", "Instruments", "Shipyard", "Printers", "Glassworks")
BOOK_NOUNS = (
    "Lantern",
    "Ferry",
    "Orchard",
    "Winter",
    "Clockmaker",
    "Harbour",
    "Letter",
    "Bridge",
    "Miller",
    "Snow",
    "Well",
    "Quarry",
)
BOOK_ADJECTIVES = (
    "Silent",
    "Second",
    "Crooked",
    "Last",
    "Borrowed",
    "Hollow",
    "Green",
    "Patient",
    "Distant",
    "Unfinished",
)
FESTIVAL_THINGS = ("Lantern", "Kite", "Barge", "Apple", "Bell", "Mask", "Eel", "Straw", "Candle", "Drum")
GENRES = ("novel", "travel account", "collection of poems", "memoir", "collection of stories")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
FIELDS = ("botanist", "engineer", "painter", "composer", "writer", "explorer", "physician", "astronomer")
DEVICES = (
    ("loom", "weaves patterned cloth from punched cards"), ("pump", "lifts water out of deep mines"),
    ("lamp", "burns for a week without tending"), ("press", "prints both sides of a sheet at once"),
    ("barometer", "warns of storms a day ahead"), ("plough", "turns stony ground"),
    ("telescope", "is small enough to be carried on horseback"), ("clock", "needs winding once a year"),
    ("oven", "bakes forty loaves on one bundle of wood"), ("bridge crane", "lifts whole barges over a weir"),
    ("seed drill", "sows three rows at a time"), ("kiln", "fires tiles in half a day"),
)  # fmt: skip


@dataclass(slots=True)
class Province:
    name: str
    area_km2: int
    capital: Town = field(init=False)
    towns: list[Town] = field(default_factory=list)


@dataclass(slots=True)
class Town:
    name: str
    population: int
    founded: int
    elevation_m: int
    province: Province
    river: River | None = None


@dataclass(slots=True)
class Mountain:
    name: str
    height_m: int
    province: Province
    ascent_year: int
    climber: Person


@dataclass(slots=True)
class Lake:
    name: str
    area_km2: int
    depth_m: int
    province: Province


@dataclass(slots=True)
class River:
    name: str
    length_km: int
    source: Mountain
    mouth: Lake
    towns: list[Town] = field(default_factory=list)


@dataclass(slots=True)
class Person:
    name: str
    field: str
    born: int
    died: int
    birthplace: Town
    teacher: Person | None = None

    @property
    def age(self) -> int:
        """Years lived, as the articles state it: no days are known."""
        return self.died - self.born


@dataclass(slots=True)
class Company:
    name: str
    founded: int
    founder: Person
    town: Town
    employees: int


@dataclass(slots=True)
class Invention:
    name: str
    purpose: str
    year: int
    inventor: Person
    maker: Company


@dataclass(slots=True)
class Book:
    name: str
    genre: str
    year: int
    pages: int
    author: Person


@dataclass(slots=True)
class Festival:
    name: str
    month: str
    since: int
    town: Town


@dataclass(slots=True)
class World:
    """Everything there are articles about, in a fixed order. `absent`: names that nothing in it has."""

    country: str
    provinces: list[Province]
    towns: list[Town]
    mountains: list[Mountain]
    lakes: list[Lake]
    rivers: list[River]
    people: list[Person]
    companies: list[Company]
    inventions: list[Invention]
    books: list[Book]
    festivals: list[Festival]
    absent: list[str]


@cache
def world(seed: int) -> World:
    """The encyclopaedia's world for a content seed."""
    return _Inventor(random.Random(derive_seed("wikipedia", seed))).world()


class _Inventor:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.names = Names()
        self.numbers: dict[str, set[int]] = {}

    def world(self) -> World:
        country = self.word(3)
        provinces, towns = self.places()
        people = self.people(towns)
        explorers = [person for person in people if person.field == "explorer"]
        mountains = [
            self.mountain(provinces[i % PROVINCES], explorers[i % len(explorers)]) for i in range(MOUNTAINS)
        ]
        lakes = [
            Lake(
                f"Lake {self.word(2)}",
                self.number("lake", 4, 390),
                self.dice.randint(12, 240),
                provinces[i % PROVINCES],
            )
            for i in range(LAKES)
        ]
        rivers = self.rivers(mountains, lakes, towns)
        companies = [self.company(people, towns) for _ in range(COMPANIES)]
        books = [
            self.book([person for person in people if person.field in ("writer", "explorer")])
            for _ in range(BOOKS)
        ]
        return World(
            country, provinces, towns, mountains, lakes, rivers, people, companies,
            [self.invention(company) for company in companies], books,
            [self.festival(towns[i]) for i in self.dice.sample(range(TOWNS), FESTIVALS)],
            [self.word(2) for _ in range(40)],
        )  # fmt: skip

    def word(self, syllables: int) -> str:
        """A distinct invented word, capitalised."""

        def make() -> str:
            parts = [self.dice.choice(ONSETS) + self.dice.choice(VOWELS) for _ in range(syllables)]
            return ("".join(parts) + self.dice.choice(CODAS)).capitalize()

        return self.names.fresh(make)

    def number(self, kind: str, low: int, high: int) -> int:
        """A number that no other thing of its kind has, so that a question about it has one answer."""
        taken = self.numbers.setdefault(kind, set())
        while True:
            number = self.dice.randint(low, high)
            if number not in taken:
                taken.add(number)
                return number

    def places(self) -> tuple[list[Province], list[Town]]:
        provinces: list[Province] = []
        towns: list[Town] = []
        for index in range(TOWNS):
            name = self.word(1) + self.dice.choice(TOWN_ENDS)
            population, founded = self.number("town", 1100, 98_000), self.dice.randint(870, 1760)
            if index < PROVINCES:  # the capitals come first
                province = Province(f"{self.word(2)} Province", self.number("area", 1900, 23_000))
                provinces.append(province)
            province = provinces[index % PROVINCES]
            town = Town(name, population, founded, self.number("elevation", 5, 1400), province)
            if index < PROVINCES:
                province.capital = town
            province.towns.append(town)
            towns.append(town)
        return provinces, towns

    def people(self, towns: Sequence[Town]) -> list[Person]:
        given = [self.word(1) for _ in range(40)]
        people: list[Person] = []
        for index in range(PEOPLE):
            name = self.names.fresh(lambda: f"{self.dice.choice(given)} {self.word(2)}")
            born = self.dice.randint(1712, 1888)
            person = Person(
                name,
                FIELDS[index % len(FIELDS)],
                born,
                born + self.dice.randint(37, 93),
                self.dice.choice(towns),
            )
            older = [
                one
                for one in people
                if one.field == person.field and 20 <= born - one.born <= 45 and one.died > born + 20
            ]
            person.teacher = self.dice.choice(older) if older else None
            people.append(person)
        return people

    def mountain(self, province: Province, climber: Person) -> Mountain:
        name = self.dice.choice(MOUNTAIN_FORMS).format(self.word(2))
        ascent = self.dice.randint(climber.born + 20, climber.died - 5)
        return Mountain(name, self.number("mountain", 1150, 4480), province, ascent, climber)

    def rivers(
        self, mountains: Sequence[Mountain], lakes: Sequence[Lake], towns: Sequence[Town]
    ) -> list[River]:
        rivers = [
            River(
                f"River {self.word(2)}",
                self.number("river", 31, 640),
                mountains[index % MOUNTAINS],
                self.dice.choice(lakes),
            )
            for index in range(RIVERS)
        ]
        for town in towns:
            town.river = self.dice.choice(rivers)
            town.river.towns.append(town)
        return rivers

    def company(self, people: Sequence[Person], towns: Sequence[Town]) -> Company:
        founder = self.dice.choice(
            [
                person
                for person in people
                if person.field in ("engineer", "botanist", "physician", "astronomer")
            ]
        )
        founded = self.dice.randint(founder.born + 21, founder.died - 3)
        name = f"{self.word(2)} {self.dice.choice(COMPANY_ENDS)}"
        return Company(name, founded, founder, self.dice.choice(towns), self.number("employees", 24, 4900))

    def invention(self, maker: Company) -> Invention:
        device, purpose = self.dice.choice(DEVICES)
        inventor = maker.founder
        return Invention(
            f"{self.word(2)} {device}",
            purpose,
            self.dice.randint(maker.founded, inventor.died),
            inventor,
            maker,
        )

    def book(self, authors: Sequence[Person]) -> Book:
        name = self.names.fresh(
            lambda: f"The {self.dice.choice(BOOK_ADJECTIVES)} {self.dice.choice(BOOK_NOUNS)}"
        )
        author = self.dice.choice(authors)
        year = self.dice.randint(author.born + 22, author.died)
        return Book(name, self.dice.choice(GENRES), year, self.number("pages", 64, 980), author)

    def festival(self, town: Town) -> Festival:
        name = f"{town.name} {self.dice.choice(FESTIVAL_THINGS)} Festival"
        return Festival(name, self.dice.choice(MONTHS), self.dice.randint(town.founded + 50, 1950), town)
