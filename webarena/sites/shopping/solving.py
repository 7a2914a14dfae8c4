"""What a customer does in the shop, for the scripts that solve its tasks. Roles and labels, as somebody sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page


async def search(page: Page, query: str) -> None:
    await page.get_by_role("textbox", name="Search").fill(query)
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("heading", name="Products matching").wait_for()


async def open_product(page: Page, title: str) -> None:
    """Searches for a product by its title and opens it."""
    await search(page, title)
    await page.get_by_role("heading", name=title, exact=True).get_by_role("link").click()
    await page.get_by_role("heading", name=title, level=1).wait_for()


async def open_category(page: Page, name: str) -> None:
    """From a page with the list of categories."""
    await page.get_by_role("complementary").get_by_role("link", name=name, exact=True).click()
    await page.get_by_role("heading", name=name, level=1, exact=True).wait_for()


async def sort_by(page: Page, label: str) -> None:
    async with page.expect_navigation():
        await page.get_by_label("Sort by").select_option(label=label)


async def open_order(page: Page, number: str) -> None:
    """One of the customer's own orders."""
    await open_account_page(page, "Order History")
    await page.get_by_label("Order number").fill(number)
    await page.get_by_role("button", name="Filter results").click()
    await page.get_by_role("heading", name=f"Order #{number}").wait_for()


async def cell(page: Page, header: str) -> str:
    """The text beside a row's header."""
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=header, exact=True))
    return (await row.get_by_role("cell").first.inner_text()).strip()


async def open_account_page(page: Page, name: str) -> None:
    await page.get_by_role("link", name="Account", exact=True).click()
    await page.get_by_role("complementary").get_by_role("link", name=name).click()
    await page.get_by_role("heading", name=name, level=1).wait_for()


async def add_to_cart(page: Page) -> None:
    """On the page of a product."""
    await page.get_by_role("button", name="Add to cart").first.click()
    await page.get_by_text("has been added to your cart").wait_for()
