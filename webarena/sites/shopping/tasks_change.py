"""Tasks of the storefront that change something: cart, orders, reviews, wish lists, addresses, profile."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.shopping import words
from webarena.sites.shopping.content import SHIPPING, Product, Shop, content
from webarena.sites.shopping.evals import about_products, drawn, generator, shows, text, value
from webarena.sites.shopping.solving import add_to_cart, open_account_page, open_order, open_product

if TYPE_CHECKING:
    from playwright.async_api import Page

SITE = "shopping"
HERE = "__SHOPPING__"
CART = f"{HERE}/basket/"
LINES = "#basket_formset .basket-items h3"
NEXT_ORDER = "100001"
"""Number of the first order that the account places: Oscar numbers an order by its cart, and the account's is the first."""
PRAISE = (
    ("Better than expected", "Arrived early and well packed, I use it every single day."),
    ("Nothing to complain about", "Feels sturdy, looks just like in the picture, fair price."),
    ("Could be lighter", "Good material but heavier than I had hoped it would be."),
    ("Not for me", "The finish is uneven and the edges are sharp, I will return it."),
    ("A fine present", "My sister asked me twice where I had found it, so I ordered another."),
)


def _available(shop: Shop, product: Product) -> bool:
    return product.stock >= 5


def _in_cart(shop: Shop, product: Product, rng: Random) -> Instance:
    wanted = shows(text(CART, LINES, product.title))
    return Instance({"product": product.title}, product.entity, wanted, product.path)


async def _solve_in_cart(page: Page, instance: Instance, url: str) -> str:
    await add_to_cart(page)
    return ""


def _many_in_cart(shop: Shop, product: Product, rng: Random) -> Instance:
    count = str(rng.randint(2, 5))
    quantity = "document.querySelector('#basket_formset input[name=form-0-quantity]').value"
    wanted = shows(text(CART, LINES, product.title), value(CART, quantity, count))
    return Instance({"count": count, "product": product.title}, product.entity, wanted)


async def _solve_many_in_cart(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await add_to_cart(page)
    await _set_quantity(page, instance.values["count"])
    return ""


async def _set_quantity(page: Page, count: str) -> None:
    """Of the only line in the cart."""
    await page.get_by_role("button", name="View cart").click()
    await page.get_by_role("spinbutton").fill(count)
    async with page.expect_response(lambda response: "/basket/" in response.url):
        await page.get_by_role("button", name="Update").click()


def _listed(shop: Shop, product: Product, rng: Random) -> Instance | None:
    wish_list = rng.choice(shop.wish_lists)
    if product.id in wish_list.products:
        return None
    page = f"{HERE}/accounts/wishlists/{wish_list.key}/"
    slots = {"product": product.title, "list": wish_list.name}
    return Instance(slots, product.entity, shows(text(page, "td a", product.title)))


async def _solve_listed(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    async with page.expect_navigation():
        await page.get_by_role("button", name=f"Add to wish list {instance.values['list']}").click()
    return ""


def _renamed(seed: int) -> list[Instance]:
    rng = generator(1024, seed)
    found = []
    for last in rng.sample(words.LAST_NAMES, 24):
        first = rng.choice(words.FIRST_NAMES)
        wanted = shows(text(f"{HERE}/accounts/profile/", "table td", f"{first} {last}"))
        found.append(Instance({"first": first, "last": last}, f"name/{last}", wanted))
    return found


async def _solve_renamed(page: Page, instance: Instance, url: str) -> str:
    await open_account_page(page, "Profile")
    await page.get_by_role("link", name="Edit profile").click()
    await page.get_by_label("First name").fill(instance.values["first"])
    await page.get_by_label("Last name").fill(instance.values["last"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save").click()
    return ""


def _reordered(seed: int) -> list[Instance]:
    shop = content(seed)
    found = []
    for order in drawn(1025, seed, shop.orders_of(shop.account)):
        products = [shop.product(line.product) for line in order.lines]
        if all(shop.product(line.product).stock >= line.quantity for line in order.lines):
            wanted = shows(text(CART, LINES, *(product.title for product in products)))
            found.append(Instance({"number": order.number}, order.entity, wanted))
    return found


async def _solve_reordered(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Re-order all items").click()
    return ""


def _reviewed(shop: Shop, product: Product, rng: Random) -> Instance:
    (title, body), score = rng.choice(PRAISE), rng.randint(1, 5)
    page = f"{HERE}{product.path}reviews/"
    wanted = shows(text(page, "article.review", title, body, f"{score} out of 5 stars", having="by you"))
    slots = {"product": product.title, "score": str(score), "title": title, "text": body}
    return Instance(slots, product.entity, wanted)


async def _solve_reviewed(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await page.get_by_role("link", name="Write a review").click()
    await page.get_by_label("Title").fill(instance.values["title"])
    await page.get_by_label("Score").select_option(instance.values["score"])
    await page.get_by_label("Body").fill(instance.values["text"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save review").click()
    return ""


def _ordered(shop: Shop, product: Product, rng: Random) -> Instance:
    count, address = rng.randint(1, 3), rng.choice(shop.account.addresses)
    method = rng.choice(SHIPPING)[1]
    page = f"{HERE}/accounts/orders/{NEXT_ORDER}/"
    wanted = shows(
        text(page, "p, td", method, address.line1),
        text(page, "tbody tr", f"Write a review {count} $", having=product.title),
    )
    slots = {
        "count": str(count),
        "product": product.title,
        "street": address.line1,
        "method": method.lower(),
    }
    return Instance(slots, product.entity, wanted)


async def _solve_ordered(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await add_to_cart(page)
    if instance.values["count"] != "1":
        await _set_quantity(page, instance.values["count"])
    else:
        await page.get_by_role("button", name="View cart").click()
    await page.get_by_role("link", name="Proceed to checkout").click()
    address = page.locator(".card").filter(has_text=instance.values["street"])
    await address.get_by_role("button", name="Ship to").click()
    await page.get_by_role("button", name=f"Select {instance.values['method']}").click()
    await page.get_by_role("link", name="Continue").click()
    await page.get_by_role("button", name="Place order").click()
    await page.get_by_role("heading", name="confirmation").first.wait_for()
    return ""


def _new_address(seed: int) -> list[Instance]:
    rng = generator(1028, seed)
    found = []
    for number in rng.sample(range(300, 900), 24):
        street = f"{number} {rng.choice(words.STREETS)}"
        city, state = rng.choice(words.CITIES)
        postcode = str(rng.randint(10001, 99950))
        page = f"{HERE}/accounts/addresses/"
        wanted = shows(text(page, "tbody tr", street, city, state, postcode, "United States", having=street))
        slots = {"street": street, "city": city, "state": state, "postcode": postcode}
        found.append(Instance(slots, f"address/{street}", wanted))
    return found


async def _solve_new_address(page: Page, instance: Instance, url: str) -> str:
    await open_account_page(page, "Address Book")
    await page.get_by_role("link", name="Add a new address").click()
    await page.get_by_label("First name").fill("Mara")
    await page.get_by_label("Last name").fill("Ellery")
    await page.get_by_label("First line of address").fill(instance.values["street"])
    await page.get_by_label("City").fill(instance.values["city"])
    await page.get_by_label("State/County").fill(instance.values["state"])
    await page.get_by_label("Post/Zip-code").fill(instance.values["postcode"])
    await page.get_by_label("Country").select_option(label="United States")
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save").click()
    return ""


def _with_coupon(shop: Shop, product: Product, rng: Random) -> Instance:
    voucher = rng.choice(shop.vouchers)
    wanted = shows(text(CART, LINES, product.title), text(CART, "#content_inner", voucher.code))
    slots = {"product": product.title, "code": voucher.code}
    return Instance(slots, product.entity, wanted)


async def _solve_with_coupon(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await add_to_cart(page)
    await page.get_by_role("button", name="View cart").click()
    await page.get_by_role("link", name="I have a coupon code").click()
    await page.get_by_label("Code").fill(instance.values["code"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Add coupon").click()
    return ""


def _new_list(shop: Shop, product: Product, rng: Random) -> Instance:
    name = f"{rng.choice(words.MODELS)} {rng.choice(('plans', 'ideas', 'presents', 'things'))}"
    wanted = shows(text(HERE + product.path, ".product_main p", f"In your wish list {name}"))
    return Instance({"name": name, "product": product.title}, product.entity, wanted)


async def _solve_new_list(page: Page, instance: Instance, url: str) -> str:
    await open_product(page, instance.values["product"])
    await page.get_by_role("link", name="Add to a new wish list").click()
    await page.get_by_label("Name").fill(instance.values["name"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Save").click()
    return ""


TEMPLATES = (
    Template(
        1021,
        SITE,
        1,
        "change",
        "Add the {{product}} to my cart.",
        about_products(1021, _in_cart, _available),
        _solve_in_cart,
        "default",
    ),
    Template(
        1022,
        SITE,
        2,
        "change",
        "Put {{count}} pieces of the {{product}} into my cart.",
        about_products(1022, _many_in_cart, _available),
        _solve_many_in_cart,
        "default",
    ),
    Template(
        1023,
        SITE,
        2,
        "change",
        'Add the {{product}} to my wish list "{{list}}".',
        about_products(1023, _listed, _available),
        _solve_listed,
        "default",
    ),
    Template(
        1024,
        SITE,
        2,
        "change",
        "Change the name in my profile: first name {{first}}, last name {{last}}.",
        _renamed,
        _solve_renamed,
        "default",
    ),
    Template(
        1025,
        SITE,
        2,
        "change",
        "Put everything from my order {{number}} into my cart again.",
        _reordered,
        _solve_reordered,
        "default",
    ),
    Template(
        1026,
        SITE,
        3,
        "change",
        'Review the {{product}} with {{score}} of 5 points, the title "{{title}}" and the text "{{text}}"',
        about_products(1026, _reviewed),
        _solve_reviewed,
        "default",
    ),
    Template(
        1027,
        SITE,
        3,
        "change",
        "Order {{count}} of the {{product}} to my address {{street}}; choose {{method}}.",
        about_products(1027, _ordered, _available),
        _solve_ordered,
        "default",
    ),
    Template(
        1028,
        SITE,
        3,
        "change",
        "Add a new address to my address book: Mara Ellery, {{street}}, {{city}}, {{state}} {{postcode}}, United States.",
        _new_address,
        _solve_new_address,
        "default",
    ),
    Template(
        1029,
        SITE,
        3,
        "change",
        "Put the {{product}} into my cart and use the coupon code {{code}} there.",
        about_products(1029, _with_coupon, _available),
        _solve_with_coupon,
        "default",
    ),
    Template(
        1030,
        SITE,
        3,
        "change",
        'Make a new wish list called "{{name}}" with the {{product}} in it.',
        about_products(1030, _new_list, _available),
        _solve_new_list,
        "default",
    ),
)
