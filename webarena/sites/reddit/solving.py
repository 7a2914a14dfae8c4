"""What a person does on the forum, for the scripts that solve its tasks. Roles and labels, as somebody sees them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

_LIKES = re.compile(r"like \((\d+)\)")


async def search(page: Page, query: str) -> None:
    await page.get_by_role("searchbox", name="Search the forum").fill(query)
    await page.get_by_role("button", name="Search").first.click()
    await page.get_by_role("heading", name="Results").wait_for()


async def find_topic(page: Page, title: str) -> None:
    """Searches for a topic by its title and opens it."""
    await search(page, title)
    await open_topic(page, title)


async def open_topic(page: Page, title: str) -> None:
    await page.get_by_role("link", name=title, exact=True).first.click()
    await page.get_by_role("heading", name=title).wait_for()


async def open_author(page: Page) -> None:
    """From the first page of a topic to the profile of who started it."""
    await page.locator(".js-comment").first.get_by_role("link").first.click()
    await page.get_by_text("Joined at").wait_for()


async def open_tab(page: Page, name: str) -> None:
    """Another tab of a profile: Comments, Topics or Likes."""
    await page.locator(".nav__tabs").get_by_role("link", name=name).click()
    await page.wait_for_url(f"**/user/{name.lower()}/**")


async def comment_of(page: Page, member: str) -> Locator:
    """A member's comment in the open topic; turns pages until there is one."""
    while True:
        comment = page.locator(".js-comment").filter(has=page.get_by_text(member, exact=True)).first
        if await comment.count() or not await next_page(page):
            return comment


async def author_of(comment: Locator) -> str:
    return (await comment.locator(".comment__info__username").inner_text()).strip()


async def likes_of(comment: Locator) -> int:
    found = _LIKES.search(await comment.inner_text())
    return int(found[1]) if found else 0


async def most_liked(page: Page) -> Locator:
    """The comment with the most likes in the open topic, on the page it is on."""
    best, best_page, best_id = -1, page.url, ""
    while True:
        for comment in await page.locator(".js-comment").all():
            likes = await likes_of(comment)
            if likes > best:
                best, best_page = likes, page.url
                best_id = str(await comment.get_attribute("id"))
        if not await next_page(page):
            break
    await page.goto(best_page)
    return page.locator(f"#{best_id}")


async def next_page(page: Page) -> bool:
    """Turns to the next page of a list; False on the last one."""
    link = page.get_by_role("link", name="Next", exact=True)
    if not await link.count():
        return False
    async with page.expect_navigation():
        await link.click()
    return True


async def like(comment: Locator) -> None:
    await comment.get_by_role("link", name=re.compile(r"^\W*like \(")).click()
    await comment.get_by_role("link", name=re.compile("remove like")).wait_for()


async def write_comment(page: Page, text: str) -> None:
    """Publishes a comment in the open topic."""
    await page.get_by_placeholder("Write comment...").fill(text)
    async with page.expect_navigation():
        await page.get_by_role("button", name="Publish").click()


async def moderate(page: Page, action: str) -> None:
    """An entry of a moderator's menu in the open topic."""
    await page.get_by_role("link", name="Moderate").click()
    async with page.expect_navigation():
        await page.get_by_role("link", name=action, exact=False).first.click()
