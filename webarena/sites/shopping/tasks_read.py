"""Tasks of the storefront that leave it as it is: questions, ways to pages, and what cannot be done."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.shopping import words
from webarena.sites.shopping.content import Category, Order, Product, Shop, content, dollars
from webarena.sites.shopping.evals import (
    about_products,
    answer,
    arrives,
    at,
    drawn,
    generator,
    impossible,
    mentions,
    value,
)
from webarena.sites.shopping.solving import (
    cell,
    open_account_page,
    open_category,
    open_order,
    open_product,
    search,
    sort_by,
)

if TYPE_CHECKING:
    from playwright.async_api import Page

SITE = "shopping"
HERE = "__SHOPPING__"
ORDERS_BY = {
    "price, lowest first": ("price-asc", "Price low to high"),
    "price, highest first": ("price-desc", "Price high to low"),
    "customer rating": ("rating", "Customer rating"),
    "title, from A to Z": ("title-asc", "Title A to Z"),
}


def _price(shop: Shop, product: Product, rng: Random) -> Instance:
    return Instance({"product": product.title}, product.entity, answer(dollars(product.price)), product.path)


async def _solve_price(page: Page, instance: Instance, url: str) -> str:
    return (await page.locator(".product_main .price_color").inner_text()).strip()


def _stock(shop: Shop, product: Product, rng: Random) -> Instance:
    return Instance({"product": product.title}, product.entity, answer(str(product.stock)), product.path)


async def _solve_stock(page: Page, instance: Instance, url: str) -> str:
    found = re.search(r"\((\d+) available\)", await cell(page, "Availability"))
    return found[1] if found else ""


def _attribute(shop: Shop, product: Product, rng: Random) -> Instance:
    name = rng.choice(("Brand", "Colour", "Material", "Size", "Weight"))
    slots = {"attribute": name.lower(), "product": product.title}
    return Instance(slots, product.entity, answer(product.attributes[name]), product.path)


async def _solve_attribute(page: Page, instance: Instance, url: str) -> str:
    return await cell(page, instance.values["attribute"].capitalize())


def _categories(seed: int) -> list[Instance]:
    shop = content(seed)
    return [
        Instance({"category": found.name}, f"category/{found.name}", arrives(HERE + found.path(shop)))
        for found in drawn(1004, seed, shop.categories)
    ]


async def _solve_category(page: Page, instance: Instance, url: str) -> str:
    await open_category(page, instance.values["category"])
    return ""


def _build(shop: Shop, product: Product, rng: Random) -> Instance:
    wanted = mentions(product.material, product.weight)
    return Instance({"product": product.title}, product.entity, wanted)


async def _solve_build(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    return f"{await cell(page, 'Material')}, {await cell(page, 'Weight')}"


def _reviewer(shop: Shop, product: Product, rng: Random) -> Instance:
    review = rng.choice(shop.reviews_of(product))
    slots = {"title": review.title, "product": product.title}
    return Instance(slots, product.entity, mentions(shop.customer(review.customer).name))


async def _solve_reviewer(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await page.get_by_role("link", name=re.compile(r"customer reviews?$")).click()
    title = page.get_by_role("link", name=instance.values["title"], exact=True)
    return await page.locator("article.review").filter(has=title).locator("strong").inner_text()


def _cheapest(shop: Shop, category: Category) -> Product | None:
    cheapest, second, *_ = sorted(shop.shelf(category), key=lambda product: product.price)
    return None if cheapest.price == second.price else cheapest


def _cheapest_of_categories(seed: int) -> list[Instance]:
    shop = content(seed)
    found = []
    for category in drawn(1007, seed, shop.categories):
        product = _cheapest(shop, category)
        if product is not None:
            wanted = mentions(product.title, dollars(product.price))
            found.append(Instance({"category": category.name}, f"category/{category.name}", wanted))
    return found


async def _solve_cheapest(page: Page, instance: Instance, url: str) -> str:
    await open_category(page, instance.values["category"])
    await sort_by(page, "Price low to high")
    first = page.locator("article.product_pod").first
    title = await first.get_by_role("heading").inner_text()
    return f"{title}: {await first.locator('.price_color').inner_text()}"


def _sorted(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1008, seed)
    found = []
    for category in drawn(1008, seed, shop.categories):
        order = rng.choice(tuple(ORDERS_BY))
        target = value("last", "document.querySelector('#id_sort_by').value", ORDERS_BY[order][0])
        wanted = arrives(HERE + category.path(shop), target)
        slots = {"category": category.name, "order": order}
        found.append(Instance(slots, f"category/{category.name}", wanted))
    return found


async def _solve_sorted(page: Page, instance: Instance, url: str) -> str:
    await open_category(page, instance.values["category"])
    await sort_by(page, ORDERS_BY[instance.values["order"]][1])
    return ""


def _all_reviews(shop: Shop, product: Product, rng: Random) -> Instance:
    path = f"{product.path}reviews/"
    return Instance({"product": product.title}, product.entity, arrives(HERE + path, at(path)))


async def _solve_all_reviews(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await page.get_by_role("link", name=re.compile(r"customer reviews?$")).click()
    await page.get_by_role("heading", name="Customer reviews").wait_for()
    return ""


def _my_orders(template: int, seed: int) -> list[Order]:
    shop = content(seed)
    return drawn(template, seed, shop.orders_of(shop.account))


def _status(seed: int) -> list[Instance]:
    return [
        Instance({"number": order.number}, order.entity, answer(order.status))
        for order in _my_orders(1010, seed)
    ]


async def _solve_status(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    heading = page.get_by_role("heading", name="Status", exact=True)
    return (await heading.locator("xpath=following::p[1]").inner_text()).strip()


def _paid(seed: int) -> list[Instance]:
    return [
        Instance({"number": order.number}, order.entity, answer(dollars(order.total)))
        for order in _my_orders(1011, seed)
    ]


async def _solve_paid(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    return await cell(page, "Order total")


def _absent(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1012, seed)
    titles = {product.title for product in shop.products}
    nouns = sorted({product.noun for product in shop.products})
    found: list[Instance] = []
    while len(found) < 24:
        title = f"{rng.choice(words.BRANDS)} {rng.choice(words.MODELS)} {rng.choice(nouns)}"
        if title not in titles:
            titles.add(title)
            found.append(Instance({"product": title}, f"absent/{title}", impossible()))
    return found


async def _solve_absent(page: Page, instance: Instance, url: str) -> str:
    await search(page, instance.values["product"])
    exact = page.get_by_role("heading", name=instance.values["product"], exact=True)
    return "N/A" if await exact.count() == 0 else ""


def _better_rated(shop: Shop, product: Product, rng: Random) -> Instance | None:
    mine = shop.rating(product)
    rivals = [
        other
        for other in shop.shelf(shop.category(product.category))
        if other is not product and abs((shop.rating(other) or 0) - (mine or 0)) >= 0.3 and shop.rating(other)
    ]
    if mine is None or not rivals:
        return None
    other = rng.choice(rivals)
    better = max(product, other, key=lambda found: shop.rating(found) or 0)
    slots = {"first": product.title, "second": other.title}
    return Instance(slots, product.entity, answer(better.title))


async def _solve_better_rated(page: Page, instance: Instance, url: str) -> str:
    ratings = {}
    for title in (instance.values["first"], instance.values["second"]):
        await open_product(page, title)
        shown = await page.locator(".product_main .star-rating small").inner_text()
        ratings[title] = float(shown.split()[0])
    return max(ratings, key=lambda title: ratings[title])


def _month_spent(seed: int) -> list[Instance]:
    shop = content(seed)
    months: dict[str, int] = {}
    for order in shop.orders_of(shop.account):
        name = order.date.strftime("%B %Y")
        months[name] = months.get(name, 0) + order.total
    return [
        Instance({"month": month}, f"month/{month}", answer(dollars(months[month])))
        for month in drawn(1014, seed, sorted(months))
    ]


async def _solve_month_spent(page: Page, instance: Instance, url: str) -> str:
    await open_account_page(page, "Order History")
    month, year = instance.values["month"].split()
    cents = 0
    while True:
        for row in await page.get_by_role("row").all():
            cells = await row.get_by_role("cell").all_inner_texts()
            if len(cells) == 4 and cells[3].startswith(month[:3]) and f", {year}," in cells[3]:
                cents += round(float(cells[2].strip("$").replace(",", "")) * 100)
        following = page.get_by_role("link", name="next")
        if await following.count() == 0:
            break
        async with page.expect_navigation():
            await following.click()
    return dollars(cents)


def _cancel(seed: int) -> list[Instance]:
    return [
        Instance({"number": order.number}, order.entity, impossible())
        for order in _my_orders(1015, seed)
        if order.status != "Cancelled"
    ]


async def _solve_cancel(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    return "N/A" if await page.get_by_role("button", name=re.compile("cancel", re.I)).count() == 0 else ""


TEMPLATES = (
    Template(
        1001,
        SITE,
        1,
        "information",
        "What does the {{product}} cost? Answer with the price only, as the shop writes it.",
        about_products(1001, _price),
        _solve_price,
        "default",
    ),
    Template(
        1002,
        SITE,
        1,
        "information",
        "How many pieces of the {{product}} are available? Answer with the number only.",
        about_products(1002, _stock, lambda shop, product: product.stock > 0),
        _solve_stock,
        "default",
    ),
    Template(
        1003,
        SITE,
        1,
        "information",
        "Which {{attribute}} does the shop give for the {{product}}? Answer with just that, as the shop writes it.",
        about_products(1003, _attribute),
        _solve_attribute,
        "default",
    ),
    Template(
        1004,
        SITE,
        1,
        "navigation",
        "Open the category {{category}}.",
        _categories,
        _solve_category,
        "default",
    ),
    Template(
        1005,
        SITE,
        2,
        "information",
        "What is the {{product}} made of, and what does it weigh?",
        about_products(1005, _build),
        _solve_build,
        "default",
    ),
    Template(
        1006,
        SITE,
        2,
        "information",
        'Who wrote the review "{{title}}" about the {{product}}?',
        about_products(1006, _reviewer, lambda shop, product: bool(shop.reviews_of(product))),
        _solve_reviewer,
        "default",
    ),
    Template(
        1007,
        SITE,
        2,
        "information",
        "Which is the cheapest product in the category {{category}}, and what does it cost?",
        _cheapest_of_categories,
        _solve_cheapest,
        "default",
    ),
    Template(
        1008,
        SITE,
        2,
        "navigation",
        "Show the category {{category}} sorted by {{order}}.",
        _sorted,
        _solve_sorted,
        "default",
    ),
    Template(
        1009,
        SITE,
        2,
        "navigation",
        "Open the page with all customer reviews of the {{product}}.",
        about_products(1009, _all_reviews, lambda shop, product: bool(shop.reviews_of(product))),
        _solve_all_reviews,
        "default",
    ),
    Template(
        1010,
        SITE,
        2,
        "information",
        "What is the status of my order {{number}}? Answer with the status only.",
        _status,
        _solve_status,
        "default",
    ),
    Template(
        1011,
        SITE,
        2,
        "information",
        "What was the total of my order {{number}}, shipping included? Answer with the amount only, as the shop writes it.",
        _paid,
        _solve_paid,
        "default",
    ),
    Template(
        1012,
        SITE,
        2,
        "unachievable",
        "What does the {{product}} cost? Answer with the price only.",
        _absent,
        _solve_absent,
        "default",
    ),
    Template(
        1013,
        SITE,
        3,
        "information",
        "Which do customers rate higher, the {{first}} or the {{second}}? Answer with its full name only.",
        about_products(1013, _better_rated),
        _solve_better_rated,
        "default",
    ),
    Template(
        1014,
        SITE,
        2,
        "information",
        "How much did I spend in {{month}}, all orders of that month together, whatever their status? Answer with the amount "
        "only, as the shop writes it.",
        _month_spent,
        _solve_month_spent,
        "default",
    ),
    Template(1015, SITE, 2, "unachievable", "Cancel my order {{number}}.", _cancel, _solve_cancel, "default"),
)
