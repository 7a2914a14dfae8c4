"""What the shop's staff does in the dashboard, for the scripts that solve its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

START = "/dashboard/"
HERE = "__SHOPPING_ADMIN__"
SITE = "shopping_admin"


async def open_menu(page: Page, menu: str, entry: str) -> None:
    """An entry of the bar at the top of every page of the dashboard."""
    await page.get_by_role("button", name=menu, exact=True).click()
    async with page.expect_navigation():
        await page.locator(".dropdown-menu.show").get_by_role("link", name=entry, exact=True).click()


async def open_product(page: Page, title: str) -> None:
    await open_menu(page, "Catalog", "Products")
    await page.get_by_label("Product title").fill(title)
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name=title, exact=True).first.click()
    await page.get_by_role("heading", name=title, level=1).wait_for()


async def open_stock(page: Page, title: str) -> None:
    await open_product(page, title)
    await page.get_by_role("link", name="Stock and pricing").click()
    await page.get_by_label("Num in stock").first.wait_for()


async def save_product(page: Page) -> None:
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_text("Updated product").wait_for()


async def search_order(page: Page, number: str) -> None:
    await open_menu(page, "Fulfilment", "Orders")
    await page.get_by_label("Order number").first.fill(number)
    async with page.expect_navigation():
        await page.get_by_role("button", name="Search").first.click()


async def open_order(page: Page, number: str) -> None:
    await search_order(page, number)
    await page.get_by_role("heading", name=f"Order #{number}").wait_for()


async def open_customer(page: Page, name: str) -> None:
    await open_menu(page, "Customers", "Customers")
    await page.get_by_label("Name").fill(name)
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("row").filter(has_text=name).get_by_role("link", name="View").click()
    await page.get_by_text("General").wait_for()


async def fact(page: Page, table: str, column: str) -> str:
    """The text below a column's header, in the first row of a table named by its caption."""
    found = page.get_by_role("table", name=table)
    headers = await found.get_by_role("columnheader").all_inner_texts()
    at = [header.strip() for header in headers].index(column)
    return (await found.get_by_role("cell").nth(at).inner_text()).strip()
