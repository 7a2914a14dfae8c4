"""What the shop sells, who buys there and what they said: invented from a seed, as plain data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random

from webarena.sites.base import Account, Names
from webarena.sites.shopping import shelves, words

CUSTOMER = Account("mara.ellery@example.com", "harbour-lantern-42")
"""The account of the storefront's tasks."""
STAFF = Account("owen.tarrant@example.com", "copper-ledger-77")
"""The account of the dashboard's tasks."""

STATUSES = ("Pending", "Being processed", "Shipped", "Delivered", "Cancelled")
PIPELINE = {
    "Pending": ("Being processed", "Cancelled"),
    "Being processed": ("Shipped", "Cancelled"),
    "Shipped": ("Delivered",),
    "Delivered": (),
    "Cancelled": (),
}
"""Which status an order may go to next."""

SHIPPING = (
    ("standard", "Standard delivery", 495),
    ("express", "Express delivery", 1450),
    ("pickup", "Collect in store", 0),
)
"""(code, name, price in cents)."""

NOW = datetime(2025, 6, 30, 12, 0, tzinfo=UTC)
"""The day on which the content was, so to speak, saved; nothing in it is younger."""


def slugify(text: str) -> str:
    """As Django does for plain ASCII: lower case, words joined by hyphens."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text.lower())).strip("-_")


def dollars(cents: int) -> str:
    """As the shop writes it: 129950 → "$1,299.50"."""
    return f"${cents / 100:,.2f}"


@dataclass(frozen=True, slots=True)
class Category:
    id: int
    name: str
    parent: int
    about: str = ""

    def path(self, shop: Shop) -> str:
        """The path of its page."""
        slugs = [slugify(self.name)]
        if self.parent:
            slugs.insert(0, slugify(shop.category(self.parent).name))
        return f"/catalogue/category/{'/'.join(slugs)}_{self.id}/"


@dataclass(frozen=True, slots=True)
class Product:
    """`price` in cents. `category` is the id of the shelf it lies on."""

    id: int
    title: str
    noun: str
    kind: str
    category: int
    department: int
    brand: str
    colour: str
    material: str
    size: str
    weight: str
    description: str
    price: int
    stock: int
    shape: str

    @property
    def upc(self) -> str:
        return f"{4_000_000 + self.id * 37}"

    @property
    def slug(self) -> str:
        return slugify(self.title)

    @property
    def path(self) -> str:
        return f"/catalogue/{self.slug}_{self.id}/"

    @property
    def entity(self) -> str:
        return f"product/{self.title}"

    @property
    def attributes(self) -> dict[str, str]:
        return {
            "Brand": self.brand,
            "Colour": self.colour,
            "Material": self.material,
            "Size": self.size,
            "Weight": self.weight,
        }


@dataclass(frozen=True, slots=True)
class Address:
    line1: str
    city: str
    state: str
    postcode: str


@dataclass(frozen=True, slots=True)
class Customer:
    id: int
    first: str
    last: str
    email: str
    joined: datetime
    addresses: tuple[Address, ...]

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"

    @property
    def entity(self) -> str:
        return f"customer/{self.name}"


@dataclass(frozen=True, slots=True)
class Review:
    """`pending`: not yet let through by the shop."""

    id: int
    product: int
    customer: int
    score: int
    title: str
    body: str
    date: datetime
    pending: bool


@dataclass(frozen=True, slots=True)
class OrderLine:
    product: int
    quantity: int
    unit_price: int


@dataclass(frozen=True, slots=True)
class Order:
    number: str
    customer: int
    date: datetime
    status: str
    lines: tuple[OrderLine, ...]
    shipping: int
    address: Address

    @property
    def total(self) -> int:
        """Cents, with shipping."""
        goods = sum(line.quantity * line.unit_price for line in self.lines)
        return goods + SHIPPING[self.shipping][2]

    @property
    def entity(self) -> str:
        return f"order/{self.number}"


@dataclass(frozen=True, slots=True)
class Voucher:
    """`percent` off everything."""

    code: str
    name: str
    percent: int


@dataclass(frozen=True, slots=True)
class WishList:
    id: int
    name: str
    products: tuple[int, ...]

    @property
    def key(self) -> str:
        """Six letters, as in its address."""
        return f"wl{self.id:04d}"


@dataclass(frozen=True, slots=True)
class TextPage:
    path: str
    title: str
    body: str


@dataclass(frozen=True)
class Shop:
    """Everything. Ids count from 1 in the order of the tuples and are the primary keys of the database."""

    categories: tuple[Category, ...]
    products: tuple[Product, ...]
    customers: tuple[Customer, ...]
    reviews: tuple[Review, ...]
    orders: tuple[Order, ...]
    vouchers: tuple[Voucher, ...]
    wish_lists: tuple[WishList, ...]
    pages: tuple[TextPage, ...]

    def category(self, id: int) -> Category:
        return self.categories[id - 1]

    def product(self, id: int) -> Product:
        return self.products[id - 1]

    def customer(self, id: int) -> Customer:
        return self.customers[id - 1]

    def shelf(self, category: Category) -> list[Product]:
        """The products of a category, those of its sub-categories included."""
        return [p for p in self.products if category.id in (p.category, p.department)]

    def reviews_of(self, product: Product, *, pending: bool = False) -> list[Review]:
        return [r for r in self.reviews if r.product == product.id and r.pending == pending]

    def rating(self, product: Product) -> float | None:
        """Mean score of the published reviews."""
        scores = [review.score for review in self.reviews_of(product)]
        return sum(scores) / len(scores) if scores else None

    @property
    def account(self) -> Customer:
        """The customer whom the storefront's tasks log in."""
        return self.customers[0]

    @property
    def staff(self) -> Customer:
        return self.customers[1]

    def orders_of(self, customer: Customer) -> list[Order]:
        return [order for order in self.orders if order.customer == customer.id]


@lru_cache(maxsize=4)
def content(seed: int) -> Shop:
    """The shop of a seed."""
    rng = Random(f"shopping/{seed}")
    categories = _categories()
    products = _products(rng, categories)
    customers = _customers(rng)
    return Shop(
        categories,
        products,
        customers,
        _reviews(rng, products, customers),
        _orders(rng, products, customers),
        VOUCHERS,
        _wish_lists(rng, products),
        PAGES,
    )


def _categories() -> tuple[Category, ...]:
    found: list[Category] = []
    for department in shelves.DEPARTMENTS:
        found.append(Category(len(found) + 1, department.name, 0, department.about))
        parent = found[-1].id
        for shelf in department.shelves:
            found.append(Category(len(found) + 1, shelf.name, parent))
    return tuple(found)


def _products(rng: Random, categories: Sequence[Category]) -> tuple[Product, ...]:
    by_name = {category.name: category for category in categories}
    names = Names()
    found: list[Product] = []
    for department in shelves.DEPARTMENTS:
        for shelf in department.shelves:
            category = by_name[shelf.name]
            count = rng.randint(6, 9)
            prices = rng.sample(range(shelf.price[0], shelf.price[1] + 1), count)
            for price in prices:
                brand = rng.choice(words.BRANDS)
                model = names.fresh(lambda noun=shelf.noun: f"{rng.choice(words.MODELS)} {noun}")  # type: ignore[misc]
                colour, material = rng.choice(words.COLOURS), rng.choice(shelf.materials)
                parts = {
                    "colour": colour,
                    "material": material,
                    "noun": shelf.noun.lower(),
                    "use": rng.choice(shelf.uses),
                }
                sentences = (
                    rng.choice(words.OPENINGS),
                    rng.choice(words.MIDDLES),
                    rng.choice(words.CLOSINGS),
                )
                description = " ".join(_sentence(text.format(**parts)) for text in sentences)
                found.append(
                    Product(
                        id=len(found) + 1,
                        title=f"{brand} {model}",
                        noun=shelf.noun,
                        kind=department.kind,
                        category=category.id,
                        department=category.parent,
                        brand=brand,
                        colour=colour,
                        material=material,
                        size=rng.choice(shelf.sizes),
                        weight=f"{rng.randrange(shelf.grams[0], shelf.grams[1], 5)} g",
                        description=description,
                        price=price * 100 + rng.choice((0, 25, 49, 50, 75, 95)),
                        stock=0 if rng.random() < 0.1 else rng.randint(3, 60),
                        shape=shelf.shape,
                    )
                )
    return tuple(found)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _address(rng: Random) -> Address:
    city, state = rng.choice(words.CITIES)
    return Address(
        f"{rng.randint(1, 240)} {rng.choice(words.STREETS)}", city, state, f"{rng.randint(10001, 99950)}"
    )


def _customers(rng: Random, count: int = 44) -> tuple[Customer, ...]:
    names = Names({"Mara Ellery", "Owen Tarrant"})
    drawn = ["Mara Ellery", "Owen Tarrant"] + [
        names.fresh(lambda: f"{rng.choice(words.FIRST_NAMES)} {rng.choice(words.LAST_NAMES)}")
        for _ in range(count - 2)
    ]
    found = []
    for number, name in enumerate(drawn, start=1):
        first, last = name.split()
        found.append(
            Customer(
                number,
                first,
                last,
                f"{first}.{last}@example.com".lower(),
                NOW - timedelta(days=rng.randint(400, 900), minutes=rng.randint(0, 1400)),
                tuple(_address(rng) for _ in range(3 if number == 1 else rng.randint(1, 2))),
            )
        )
    return tuple(found)


def _reviews(rng: Random, products: Sequence[Product], customers: Sequence[Customer]) -> tuple[Review, ...]:
    uses = {shelf.name: shelf.uses for department in shelves.DEPARTMENTS for shelf in department.shelves}
    shelf_names = {category.id: category.name for category in _categories()}
    found: list[Review] = []
    for product in products:
        writers = rng.sample(customers[2:], rng.choice((0, 1, 2, 2, 3, 3, 4, 5, 6)))
        titles: set[str] = set()
        for writer in writers:
            score = rng.choices((1, 2, 3, 4, 5), (8, 10, 18, 32, 32))[0]
            fresh = [title for title in words.REVIEW_TITLES[score] if title not in titles]
            if not fresh:
                continue
            title = rng.choice(fresh)
            titles.add(title)
            body = rng.choice(words.REVIEW_BODIES[score]).format(
                noun=product.noun.lower(),
                material=product.material,
                colour=product.colour,
                use=rng.choice(uses[shelf_names[product.category]]),
            )
            date = NOW - timedelta(days=rng.randint(2, 390), minutes=rng.randint(0, 1400))
            found.append(
                Review(
                    len(found) + 1,
                    product.id,
                    writer.id,
                    score,
                    title,
                    body,
                    date,
                    pending=rng.random() < 0.06,
                )
            )
    return tuple(found)


def _orders(rng: Random, products: Sequence[Product], customers: Sequence[Customer]) -> tuple[Order, ...]:
    account, _, *others = customers
    buyers = [account] * 30 + [rng.choice(others) for _ in range(90)]
    rng.shuffle(buyers)
    days = sorted(rng.sample(range(1, 400), len(buyers)), reverse=True)
    found: list[Order] = []
    number = 48_210
    for buyer, day in zip(buyers, days, strict=True):
        number += rng.randint(3, 9)
        bought = rng.sample(products, rng.choice((1, 1, 2, 2, 3, 4)))
        if day < 10:
            status = "Pending"
        elif day < 40:
            status = rng.choice(("Pending", "Being processed", "Shipped"))
        else:
            status = rng.choices(STATUSES, (6, 10, 20, 48, 16))[0]
        found.append(
            Order(
                str(number),
                buyer.id,
                NOW - timedelta(days=day, minutes=rng.randint(0, 600)),
                status,
                tuple(
                    OrderLine(product.id, rng.choice((1, 1, 1, 2, 3)), product.price) for product in bought
                ),
                rng.choice((0, 0, 0, 1, 2)),
                buyer.addresses[0],
            )
        )
    return tuple(found)


def _wish_lists(rng: Random, products: Sequence[Product]) -> tuple[WishList, ...]:
    names = ("Birthday ideas", "New flat", "Summer trip", "For the office")
    drawn = rng.sample(products, 12)
    return tuple(
        WishList(
            number,
            name,
            tuple(product.id for product in drawn[3 * number - 3 : 3 * number - number % 2]),
        )
        for number, name in enumerate(names, start=1)
    )


VOUCHERS = (
    Voucher("WELCOME10", "Welcome discount", 10),
    Voucher("SUMMER15", "Summer weeks", 15),
    Voucher("FRIENDS20", "Friends of the shop", 20),
    Voucher("SPRING5", "Spring greeting", 5),
    Voucher("LANTERN25", "Lantern night", 25),
    Voucher("RAINY12", "Rainy day treat", 12),
    Voucher("BOOKWORM8", "Readers' week", 8),
    Voucher("HARVEST18", "Harvest days", 18),
)

PAGES = (
    TextPage(
        "/about-us/",
        "About us",
        "<p>Lanternhouse began as a market stall in Port Ellery and now sends parcels to seven countries.</p>",
    ),
    TextPage(
        "/delivery/",
        "Delivery",
        "<p>Standard delivery takes three to five working days and costs $4.95. Express delivery takes one working day "
        "and costs $14.50. Collecting in our store is free.</p>",
    ),
    TextPage(
        "/returns/",
        "Returns",
        "<p>Send back what you don't like within 45 days. Games must be unopened.</p>",
    ),
    TextPage(
        "/opening-hours/",
        "Opening hours",
        "<p>Our store in Port Ellery is open from Tuesday to Saturday, 9:30 to 18:00.</p>",
    ),
    TextPage("/gift-cards/", "Gift cards", "<p>Gift cards are valid for three years.</p>"),
    TextPage("/repairs/", "Repairs", "<p>We mend lamps, tents and backpacks on Thursdays.</p>"),
    TextPage("/privacy/", "Privacy", "<p>We keep what an order needs, and nothing else.</p>"),
    TextPage("/contact/", "Contact", "<p>Write to help@lanternhouse.example or ring 555-0142.</p>"),
)
