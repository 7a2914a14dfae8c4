"""What a moderator does: closing, moving and pinning topics, deleting comments."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.reddit import solving
from webarena.sites.reddit.content import Content, Topic
from webarena.sites.reddit.evals import about_topics, page_html, page_text, shows, topic_entity
from webarena.sites.reddit.tasks_read import SITE
from webarena.sites.reddit.tasks_write import css_of, is_open, only_comments

if TYPE_CHECKING:
    from playwright.async_api import Page


async def _close(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.moderate(page, "Close topic")
    return ""


CLOSE = Template(
    id=1221,
    site=SITE,
    level=3,
    kind="change",
    intent='Close the topic "{{title}}" so that nobody can answer any more.',
    instances=about_topics(
        1221,
        is_open,
        lambda community, topic, _: Instance(
            {"title": topic.title},
            topic_entity(topic),
            shows(page_html(topic.path, ".headline", "fa-lock")),
        ),
    ),
    solve=_close,
    account="moderator",
)


def _move_to(community: Content, topic: Topic, rng: random.Random) -> Instance:
    forum = rng.choice([forum for forum in community.forums if forum.id != topic.forum])
    check = page_text(topic.path, ".breadcrumb_nav", forum.title)
    return Instance({"title": topic.title, "forum": forum.title}, topic_entity(topic), shows(check))


async def _move(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await page.get_by_role("heading").get_by_role("link", name="edit").click()
    await page.get_by_label("Category").select_option(label=task.values["forum"])
    await page.get_by_role("button", name="Update").click()
    await page.locator(".js-comment").first.wait_for()
    return ""


MOVE = Template(
    id=1222,
    site=SITE,
    level=3,
    kind="change",
    intent='The topic "{{title}}" is in the wrong category. Move it to "{{forum}}".',
    instances=about_topics(1222, is_open, _move_to),
    solve=_move,
    account="moderator",
)


async def _pin(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.moderate(page, "Pin topic")
    return ""


PIN = Template(
    id=1223,
    site=SITE,
    level=3,
    kind="change",
    intent='Pin the topic "{{title}}" in its category.',
    instances=about_topics(
        1223,
        is_open,
        lambda community, topic, _: Instance(
            {"title": topic.title},
            topic_entity(topic),
            shows(
                page_text(topic.path, f'[href="/topic/moderate/unpin/{topic.id}/"]', "Unpin topic"),
                page_text(
                    topic.path, f'[href="/topic/moderate/global-pin/{topic.id}/"]', "Pin topic globally"
                ),
            ),
        ),
    ),
    solve=_pin,
    account="moderator",
)


def _delete_one(community: Content, topic: Topic, rng: random.Random) -> Instance:
    comment = rng.choice(only_comments(topic))
    values = {"member": community.name(comment.author), "title": topic.title}
    check = page_html(topic.path, css_of(comment), "comments_list__item")
    return Instance(values, topic_entity(topic), shows(check))


async def _delete_comment(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    comment = await solving.comment_of(page, task.values["member"])
    async with page.expect_navigation():
        await comment.get_by_role("link", name="delete").click()
    return ""


DELETE_COMMENT = Template(
    id=1227,
    site=SITE,
    level=3,
    kind="change",
    intent='Delete the comment that {{member}} wrote in the topic "{{title}}".',
    instances=about_topics(
        1227,
        lambda community, topic: is_open(community, topic) and bool(only_comments(topic)),
        _delete_one,
    ),
    solve=_delete_comment,
    account="moderator",
)

TEMPLATES: Sequence[Template] = (CLOSE, MOVE, PIN, DELETE_COMMENT)
