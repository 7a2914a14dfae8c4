"""Tasks of the dashboard that leave the shop as it is: questions, ways to pages, and what cannot be done."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.shopping.content import STATUSES, Customer, Order, Product, Shop, content, dollars
from webarena.sites.shopping.evals import (
    about_products,
    answer,
    arrives,
    at,
    drawn,
    generator,
    impossible,
    mentions,
)
from webarena.sites.shopping_admin.solving import (
    HERE,
    SITE,
    START,
    fact,
    open_customer,
    open_menu,
    open_order,
    open_stock,
    search_order,
)

if TYPE_CHECKING:
    from playwright.async_api import Page

MENU = {
    ("Catalog", "Products"): "/dashboard/catalogue/",
    ("Catalog", "Product Types"): "/dashboard/catalogue/product-types/",
    ("Catalog", "Categories"): "/dashboard/catalogue/categories/",
    ("Catalog", "Ranges"): "/dashboard/ranges/",
    ("Catalog", "Low stock alerts"): "/dashboard/catalogue/stock-alerts/",
    ("Fulfilment", "Orders"): "/dashboard/orders/",
    ("Fulfilment", "Statistics"): "/dashboard/orders/statistics/",
    ("Fulfilment", "Partners"): "/dashboard/partners/",
    ("Customers", "Customers"): "/dashboard/users/",
    ("Offers", "Offers"): "/dashboard/offers/",
    ("Offers", "Coupons"): "/dashboard/vouchers/",
    ("Content", "Pages"): "/dashboard/pages/",
    ("Content", "Reviews"): "/dashboard/reviews/",
}


def _figures(shop: Shop) -> dict[str, str]:
    """What the front page of the dashboard says, by its words."""
    buyers = {order.customer for order in shop.orders}
    return {
        "total orders": str(len(shop.orders)),
        "total lines": str(sum(len(order.lines) for order in shop.orders)),
        "total revenue": dollars(sum(order.total for order in shop.orders)),
        "total customers": str(len(buyers)),
        "total products": str(len(shop.products)),
        "active coupons": str(len(shop.vouchers)),
    }


_PLACES = {
    "total orders": "Orders - All Time",
    "total lines": "Orders - All Time",
    "total revenue": "Orders - All Time",
    "total customers": "Customers",
    "total products": "Catalog and stock",
    "active coupons": "Offers, vouchers",
}


def _figure(seed: int) -> list[Instance]:
    figures = _figures(content(seed))
    return [
        Instance({"figure": name, "table": _PLACES[name]}, f"figure/{name}", answer(figures[name]), START)
        for name in drawn(1101, seed, list(figures))
    ]


async def _solve_figure(page: Page, instance: Instance, url: str) -> str:
    table = page.get_by_role("table").filter(has=page.locator("caption", has_text=instance.values["table"]))
    name = instance.values["figure"]
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))
    return (await row.get_by_role("cell").inner_text()).strip()


def _menu(seed: int) -> list[Instance]:
    found = []
    for menu, entry in drawn(1102, seed, list(MENU)):
        path = MENU[menu, entry]
        slots = {"menu": menu, "entry": entry}
        found.append(Instance(slots, f"menu/{entry}", arrives(HERE + path, at(path)), START))
    return found


async def _solve_menu(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, instance.values["menu"], instance.values["entry"])
    return ""


def _with_status(seed: int) -> list[Instance]:
    shop = content(seed)
    return [
        Instance(
            {"status": status},
            f"status/{status}",
            answer(str(sum(order.status == status for order in shop.orders))),
            START,
        )
        for status in drawn(1103, seed, STATUSES)
    ]


async def _solve_with_status(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, "Fulfilment", "Statistics")
    row = page.get_by_role("row").filter(
        has=page.get_by_role("link", name=instance.values["status"], exact=True)
    )
    return (await row.get_by_role("cell").last.inner_text()).strip()


def _customers(template: int, seed: int) -> list[Customer]:
    shop = content(seed)
    others = [customer for customer in shop.customers if customer not in (shop.account, shop.staff)]
    return drawn(template, seed, others)


def _email(seed: int) -> list[Instance]:
    return [
        Instance({"name": customer.name}, customer.entity, mentions(customer.email), START)
        for customer in _customers(1104, seed)
    ]


async def _solve_email(page: Page, instance: Instance, url: str) -> str:
    await open_customer(page, instance.values["name"])
    return (await page.get_by_role("heading", level=1).inner_text()).strip()


def _orders_of_customer(seed: int) -> list[Instance]:
    shop = content(seed)
    return [
        Instance({"name": customer.name}, customer.entity, answer(str(len(shop.orders_of(customer)))), START)
        for customer in _customers(1105, seed)
    ]


async def _solve_orders_of_customer(page: Page, instance: Instance, url: str) -> str:
    await open_menu(page, "Customers", "Customers")
    await page.get_by_label("Name").fill(instance.values["name"])
    await page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text=instance.values["name"])
    return (await row.get_by_role("cell").nth(6).inner_text()).strip()


def _stock(shop: Shop, product: Product, rng: Random) -> Instance:
    return Instance({"product": product.title}, product.entity, answer(str(product.stock)), START)


async def _solve_stock(page: Page, instance: Instance, url: str) -> str:
    await open_stock(page, instance.values["product"])
    return await page.get_by_label("Num in stock").first.input_value()


def _who_paid(seed: int) -> list[Instance]:
    shop = content(seed)
    return [
        Instance(
            {"number": order.number},
            order.entity,
            mentions(shop.customer(order.customer).name, dollars(order.total)),
            START,
        )
        for order in drawn(1107, seed, shop.orders)
    ]


async def _solve_who_paid(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    name = await fact(page, "Customer Information", "Name")
    return f"{name}, {await fact(page, 'Order information', 'Order Total')}"


def _show_order(seed: int) -> list[Instance]:
    return [
        Instance(
            {"number": order.number},
            order.entity,
            arrives(f"{HERE}/dashboard/orders/{order.number}/"),
            START,
        )
        for order in drawn(1108, seed, content(seed).orders)
    ]


async def _solve_show_order(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    return ""


def _no_order(seed: int) -> list[Instance]:
    rng = generator(1109, seed)
    taken = {order.number for order in content(seed).orders}
    numbers = [str(number) for number in range(48_000, 49_400) if str(number) not in taken]
    return [
        Instance({"number": number}, f"absent/order {number}", impossible(), START)
        for number in rng.sample(numbers, 24)
    ]


async def _solve_no_order(page: Page, instance: Instance, url: str) -> str:
    await search_order(page, instance.values["number"])
    found = await page.get_by_role("link", name=instance.values["number"], exact=True).count()
    return "N/A" if found == 0 and instance.values["number"] not in page.url.split("?")[0] else ""


def _no_way_on(seed: int) -> list[Instance]:
    orders = [order for order in content(seed).orders if order.status == "Cancelled"]
    return [
        Instance({"number": order.number}, order.entity, impossible(), START)
        for order in drawn(1110, seed, orders)
    ]


async def _solve_no_way_on(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    return "N/A" if await page.get_by_role("button", name="Change status").count() == 0 else ""


def _best_line(seed: int) -> list[Instance]:
    """Orders in which one line cost more than any other."""
    shop = content(seed)
    found = []
    for order in drawn(1111, seed, shop.orders):
        lines = sorted(order.lines, key=lambda line: line.quantity * line.unit_price, reverse=True)
        if (
            len(lines) > 1
            and lines[0].quantity * lines[0].unit_price > lines[1].quantity * lines[1].unit_price
        ):
            product = shop.product(lines[0].product)
            wanted = mentions(product.title, str(product.stock))
            found.append(Instance({"number": order.number}, order.entity, wanted, START))
    return found


async def _solve_best_line(page: Page, instance: Instance, url: str) -> str:
    await open_order(page, instance.values["number"])
    best, title = 0.0, ""
    for row in await page.get_by_role("row").all():
        cells = [text.strip() for text in await row.get_by_role("cell").all_inner_texts()]
        if len(cells) == 12 and cells[-2].startswith("$"):
            price = float(cells[-2].strip("$").replace(",", ""))
            if price > best:
                best, title = price, cells[4]
    await open_stock(page, title)
    return f"{title}: {await page.get_by_label('Num in stock').first.input_value()}"


def _order_page(order: Order) -> str:
    return f"{START}orders/{order.number}/"


def _total_here(seed: int) -> list[Instance]:
    return [
        Instance({"number": order.number}, order.entity, mentions(dollars(order.total)), _order_page(order))
        for order in drawn(1112, seed, content(seed).orders)
    ]


async def _solve_total_here(page: Page, instance: Instance, url: str) -> str:
    return await fact(page, "Order information", "Order Total")


def _buyer_here(seed: int) -> list[Instance]:
    shop = content(seed)
    return [
        Instance(
            {"number": order.number},
            order.entity,
            mentions(shop.customer(order.customer).name),
            _order_page(order),
        )
        for order in drawn(1113, seed, shop.orders)
    ]


async def _solve_buyer_here(page: Page, instance: Instance, url: str) -> str:
    return await fact(page, "Customer Information", "Name")


TEMPLATES = (
    Template(
        1101,
        SITE,
        1,
        "information",
        'What is the number beside "{{figure}}" in the table "{{table}}"? Answer with what stands there only.',
        _figure,
        _solve_figure,
        "default",
    ),
    Template(
        1102,
        SITE,
        1,
        "navigation",
        'Open "{{entry}}" from the menu "{{menu}}".',
        _menu,
        _solve_menu,
        "default",
    ),
    Template(
        1103,
        SITE,
        2,
        "information",
        'How many orders have the status "{{status}}"? Answer with the number only.',
        _with_status,
        _solve_with_status,
        "default",
    ),
    Template(
        1104,
        SITE,
        2,
        "information",
        "What is the email address of the customer {{name}}?",
        _email,
        _solve_email,
        "default",
    ),
    Template(
        1105,
        SITE,
        2,
        "information",
        "How many orders has the customer {{name}} placed? Answer with the number only.",
        _orders_of_customer,
        _solve_orders_of_customer,
        "default",
    ),
    Template(
        1106,
        SITE,
        2,
        "information",
        "How many pieces of the {{product}} are in stock? Answer with the number only.",
        about_products(1106, _stock),
        _solve_stock,
        "default",
    ),
    Template(
        1107,
        SITE,
        2,
        "information",
        "Who placed order {{number}}, and what is its total?",
        _who_paid,
        _solve_who_paid,
        "default",
    ),
    Template(
        1108,
        SITE,
        2,
        "navigation",
        "Show me order {{number}}.",
        _show_order,
        _solve_show_order,
        "default",
    ),
    Template(
        1109,
        SITE,
        2,
        "unachievable",
        "What is the total of order {{number}}?",
        _no_order,
        _solve_no_order,
        "default",
    ),
    Template(
        1110,
        SITE,
        2,
        "unachievable",
        'Change the status of order {{number}} to "Delivered".',
        _no_way_on,
        _solve_no_way_on,
        "default",
    ),
    Template(
        1111,
        SITE,
        3,
        "information",
        "For which product was most paid in order {{number}}, and how many pieces of it are in stock now?",
        _best_line,
        _solve_best_line,
        "default",
    ),
    Template(
        1112,
        SITE,
        1,
        "information",
        "What is the total of order {{number}}, the one on the page?",
        _total_here,
        _solve_total_here,
        "default",
    ),
    Template(
        1113,
        SITE,
        1,
        "information",
        "Who placed order {{number}}, the one on the page? Answer with the customer's name.",
        _buyer_here,
        _solve_buyer_here,
        "default",
    ),
)
