"""Tasks of the dashboard that change something: prices, stock, orders, coupons, pages, reviews, categories."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.shopping import words
from webarena.sites.shopping.content import PIPELINE, Product, Shop, content, dollars
from webarena.sites.shopping.evals import about_products, drawn, generator, shows, text, value
from webarena.sites.shopping_admin.solving import (
    HERE,
    SITE,
    START,
    open_menu,
    open_order,
    open_product,
    open_stock,
    save_product,
)

if TYPE_CHECKING:
    from playwright.async_api import Page

NOTES = (
    "Customer asked for delivery after six in the evening.",
    "Please add a gift card and leave out the invoice.",
    "The parcel came back once, check the house number.",
    "Customer rang about a missing part; send it separately.",
    "Leave the parcel with the neighbour on the left.",
)
PAGE_TEXTS = (
    "We are closed for stocktaking in the first week of March.",
    "This page was checked and brought up to date in June.",
    "Ask us anything by telephone between ten and noon.",
    "Our new store in Larkfield opens its doors in autumn.",
)
NEW_CATEGORIES = ("Gift Sets", "Clearance", "New Arrivals", "Handmade", "Travel Size", "Seconds")


def _priced(shop: Shop, product: Product, rng: Random) -> Instance:
    cents = product.price + rng.choice((-200, -100, 150, 275, 300))
    price = f"{cents / 100:.2f}"
    wanted = shows(text(HERE + product.path, ".product_main .price_color", dollars(cents)))
    return Instance({"product": product.title, "price": price}, product.entity, wanted, START)


async def _solve_priced(page: Page, instance: Instance, url: str) -> str:
    await open_stock(page, instance.values["product"])
    await page.get_by_label("Price").first.fill(instance.values["price"])
    await save_product(page)
    return ""


def _stocked(shop: Shop, product: Product, rng: Random) -> Instance:
    count = rng.randint(61, 140)
    wanted = shows(text(HERE + product.path, ".product_main .availability", f"({count} available)"))
    return Instance({"product": product.title, "count": str(count)}, product.entity, wanted, START)


async def _solve_stocked(page: Page, instance: Instance, url: str) -> str:
    await open_stock(page, instance.values["product"])
    await page.get_by_label("Num in stock").first.fill(instance.values["count"])
    await save_product(page)
    return ""


def _hidden(shop: Shop, product: Product, rng: Random) -> Instance:
    page = f"{HERE}/dashboard/catalogue/products/{product.id}/"
    wanted = shows(value(page, "document.querySelector('#id_is_public').checked.toString()", "false"))
    return Instance({"product": product.title}, product.entity, wanted, START)


async def _solve_hidden(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await page.get_by_label("Is public").uncheck()
    await save_product(page)
    return ""


def _moved(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1124, seed)
    found = []
    for order in drawn(1124, seed, [order for order in shop.orders if PIPELINE[order.status]]):
        status = rng.choice(PIPELINE[order.status])
        page = f"{HERE}/dashboard/orders/{order.number}/"
        wanted = shows(text(page, "table", status, having="Date of purchase"))
        found.append(Instance({"number": order.number, "status": status}, order.entity, wanted, START))
    return found


async def _solve_moved(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    await page.get_by_label("New order status").select_option(label=instance.values["status"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Change status").click()
    return ""


def _noted(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1125, seed)
    found = []
    for order in drawn(1125, seed, shop.orders):
        note = rng.choice(NOTES)
        wanted = shows(text(f"{HERE}/dashboard/orders/{order.number}/", "#notes table", note))
        found.append(Instance({"number": order.number, "note": note}, order.entity, wanted, START))
    return found


async def _solve_noted(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    await page.get_by_role("link", name="Notes").click()
    await page.get_by_label("Message").fill(instance.values["note"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save note").click()
    return ""


def _coupon(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1126, seed)
    found = []
    for number in rng.sample(range(100, 999), 24):
        word, offer = rng.choice(words.MODELS), rng.choice(shop.vouchers).name
        slots = {
            "name": f"{word} days {number}",
            "code": f"{word.upper()}{number}",
            "date": f"{rng.randint(2027, 2031)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "offer": offer,
        }
        form = f"{HERE}/dashboard/vouchers/update/{len(shop.vouchers) + 1}/"
        chosen = "document.querySelector('#id_offers').selectedOptions[0].textContent.trim()"
        wanted = shows(
            value(form, "document.querySelector('#id_name').value", slots["name"]),
            value(form, "document.querySelector('#id_code').value", slots["code"]),
            value(form, "document.querySelector('#id_end_datetime').value.slice(0, 10)", slots["date"]),
            value(form, chosen, offer),
        )
        found.append(Instance(slots, f"coupon/{slots['code']}", wanted, START))
    return found


async def _solve_coupon(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, "Offers", "Coupons")
    await page.get_by_role("link", name="Create new coupon").click()
    await page.get_by_label("Name").fill(instance.values["name"])
    await page.get_by_label("Code").fill(instance.values["code"])
    await page.get_by_label("End datetime").fill(f"{instance.values['date']} 12:00:00")
    await page.get_by_label("Which offers apply").select_option(label=instance.values["offer"])
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("link", name="Create new coupon").wait_for()
    return ""


def _page_text(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1127, seed)
    found = []
    for page in drawn(1127, seed, shop.pages):
        line = rng.choice(PAGE_TEXTS)
        wanted = shows(text(HERE + page.path, "#content_inner", line))
        found.append(Instance({"page": page.title, "text": line}, f"page/{page.title}", wanted, START))
    return found


async def _solve_page_text(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, "Content", "Pages")
    await page.get_by_role("link", name=instance.values["page"], exact=True).click()
    await page.get_by_label("Content").fill(f"<p>{instance.values['text']}</p>")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("link", name="Create new page").wait_for()
    return ""


def _page_title(seed: int) -> list[Instance]:
    shop = content(seed)
    found = []
    for page in drawn(1128, seed, shop.pages):
        title = f"{page.title} at Lanternhouse"
        wanted = shows(text(HERE + page.path, "h1", title))
        found.append(Instance({"page": page.title, "title": title}, f"page/{page.title}", wanted, START))
    return found


async def _solve_page_title(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, "Content", "Pages")
    await page.get_by_role("link", name=instance.values["page"], exact=True).click()
    await page.get_by_label("Title").fill(instance.values["title"])
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("link", name="Create new page").wait_for()
    return ""


def _approved(seed: int) -> list[Instance]:
    shop = content(seed)
    found = []
    for review in drawn(1129, seed, [review for review in shop.reviews if review.pending]):
        product, writer = shop.product(review.product), shop.customer(review.customer)
        page = f"{HERE}{product.path}reviews/"
        wanted = shows(text(page, "article.review", review.title, having=f"by {writer.name}"))
        slots = {"title": review.title, "name": writer.name, "product": product.title}
        found.append(Instance(slots, product.entity, wanted, START))
    return found


async def _solve_approved(page: Page, instance: Instance, url: str) -> str:
    await _judge(page, instance, "Approved")
    return ""


def _rejected(seed: int) -> list[Instance]:
    shop = content(seed)
    found = []
    for review in drawn(1130, seed, [review for review in shop.reviews if review.pending]):
        product, writer = shop.product(review.product), shop.customer(review.customer)
        page = f"{HERE}/dashboard/reviews/?status=2&name={writer.last}"
        wanted = shows(text(page, "tbody tr", review.title, "Rejected", having=product.title))
        slots = {"title": review.title, "name": writer.name, "product": product.title}
        found.append(Instance(slots, product.entity, wanted, START))
    return found


async def _solve_rejected(page: Page, instance: Instance, url: str) -> str:
    await _judge(page, instance, "Rejected")
    return ""


async def _judge(page: Page, instance: Instance, verdict: str) -> None:
    await open_menu(page, "Content", "Reviews")
    await page.get_by_label("Status").select_option(label="Requires moderation")
    await page.get_by_label("Customer name").fill(instance.values["name"].split()[-1])
    await page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text=instance.values["product"])
    row = row.filter(has=page.get_by_role("link", name=instance.values["name"]))
    await row.get_by_role("link", name=instance.values["title"], exact=True).click()
    await page.get_by_role("combobox", name="Status").select_option(label=verdict)
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save").click()


def _category(seed: int) -> list[Instance]:
    shop, rng = content(seed), generator(1131, seed)
    found = []
    for category in drawn(1131, seed, shop.categories):
        name = rng.choice(NEW_CATEGORIES)
        parent = category.name
        if category.parent:
            parent = f"{shop.category(category.parent).name} > {parent}"
        page = f"{HERE}/dashboard/catalogue/categories/{category.id}/"
        wanted = shows(text(page, "tbody tr", name))
        found.append(Instance({"name": name, "parent": parent}, f"category/{category.name}", wanted, START))
    return found


async def _solve_category(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, "Catalog", "Categories")
    await page.get_by_role("link", name="Create new category").click()
    await page.get_by_label("Name").fill(instance.values["name"])
    await page.get_by_label("Position").select_option(label="First child of")
    await page.get_by_label("Relative to").select_option(label=instance.values["parent"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save", exact=True).click()
    return ""


TEMPLATES = (
    Template(
        1121,
        SITE,
        3,
        "change",
        "Set the price of the {{product}} to {{price}} dollars.",
        about_products(1121, _priced, lambda shop, product: product.stock > 0),
        _solve_priced,
        "default",
    ),
    Template(
        1122,
        SITE,
        3,
        "change",
        "A delivery came in: set the number in stock of the {{product}} to {{count}}.",
        about_products(1122, _stocked),
        _solve_stocked,
        "default",
    ),
    Template(
        1123,
        SITE,
        2,
        "change",
        "Take the {{product}} out of the public catalogue, but don't delete it.",
        about_products(1123, _hidden),
        _solve_hidden,
        "default",
    ),
    Template(
        1124,
        SITE,
        2,
        "change",
        'Change the status of order {{number}} to "{{status}}".',
        _moved,
        _solve_moved,
        "default",
    ),
    Template(
        1125,
        SITE,
        3,
        "change",
        'Add this note to order {{number}}: "{{note}}"',
        _noted,
        _solve_noted,
        "default",
    ),
    Template(
        1126,
        SITE,
        3,
        "change",
        'Create a coupon named "{{name}}" with the code {{code}}. It holds until {{date}} and gives the offer "{{offer}}".',
        _coupon,
        _solve_coupon,
        "default",
    ),
    Template(
        1127,
        SITE,
        3,
        "change",
        'Replace the content of the page "{{page}}" by this: {{text}}',
        _page_text,
        _solve_page_text,
        "default",
    ),
    Template(
        1128,
        SITE,
        3,
        "change",
        'Change the title of the page "{{page}}" to "{{title}}".',
        _page_title,
        _solve_page_title,
        "default",
    ),
    Template(
        1129,
        SITE,
        3,
        "change",
        'Approve the review "{{title}}" that {{name}} wrote about the {{product}}.',
        _approved,
        _solve_approved,
        "default",
    ),
    Template(
        1130,
        SITE,
        3,
        "change",
        'Reject the review "{{title}}" that {{name}} wrote about the {{product}}.',
        _rejected,
        _solve_rejected,
        "default",
    ),
    Template(
        1131,
        SITE,
        3,
        "change",
        'Create a category named "{{name}}" as a child of "{{parent}}".',
        _category,
        _solve_category,
        "default",
    ),
)
