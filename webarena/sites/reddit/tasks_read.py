"""Tasks that change nothing: questions, places to go to, and things that cannot be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.reddit import solving
from webarena.sites.reddit.content import (
    COMMENTS_PER_PAGE,
    MEMBER_ID,
    TOPICS_PER_PAGE,
    Content,
    Topic,
    article,
    content,
    forum_path,
    profile_path,
    words,
)
from webarena.sites.reddit.evals import MOST, about_topics, answer, arrives, generator, mentions, topic_entity

if TYPE_CHECKING:
    from playwright.async_api import Page

SITE = "reddit"
IMPOSSIBLE = "N/A"
MANY_PAGES = 3 * COMMENTS_PER_PAGE


def _listed_first(community: Content, topic: Topic) -> bool:
    """Whether a topic is on the first page of its forum."""
    return topic in community.of_forum(community.forum(topic))[:TOPICS_PER_PAGE]


def _is_open_talk(community: Content, topic: Topic) -> bool:
    return topic.kind != "rules" and topic.author != MEMBER_ID


async def _read_author(page: Page, task: Instance, url: str) -> str:
    return await solving.author_of(page.locator(".js-comment").first)


WHO_STARTED = Template(
    id=1201,
    site=SITE,
    level=1,
    kind="information",
    intent='Who started the topic "{{title}}"? Answer with the username only.',
    instances=about_topics(
        1201,
        _is_open_talk,
        lambda community, topic, _: Instance(
            {"title": topic.title}, topic_entity(topic), answer(community.name(topic.author)), topic.path
        ),
    ),
    solve=_read_author,
)


async def _read_count(page: Page, task: Instance, url: str) -> str:
    row = page.locator(".layout__topics__topic").filter(
        has=page.get_by_role("link", name=task.values["title"], exact=True)
    )
    found = re.search(r"(\d+) comments?", await row.inner_text())
    return found[1] if found else ""


HOW_MANY_COMMENTS = Template(
    id=1202,
    site=SITE,
    level=1,
    kind="information",
    intent='How many comments does the list of topics give for "{{title}}"?',
    instances=about_topics(
        1202,
        lambda community, topic: _is_open_talk(community, topic) and _listed_first(community, topic),
        lambda community, topic, _: Instance(
            {"title": topic.title},
            topic_entity(topic),
            mentions(str(len(topic.comments))),
            forum_path(community.forum(topic)),
        ),
    ),
    solve=_read_count,
)


async def _open_topic(page: Page, task: Instance, url: str) -> str:
    await solving.open_topic(page, task.values["title"])
    return ""


OPEN_TOPIC = Template(
    id=1203,
    site=SITE,
    level=1,
    kind="navigation",
    intent='Open the topic "{{title}}".',
    instances=about_topics(
        1203,
        lambda community, topic: _is_open_talk(community, topic) and _listed_first(community, topic),
        lambda community, topic, _: Instance(
            {"title": topic.title},
            topic_entity(topic),
            arrives(topic.path),
            forum_path(community.forum(topic)),
        ),
    ),
    solve=_open_topic,
)


def _forums(seed: int) -> list[Instance]:
    return [
        Instance({"forum": forum.title}, f"forum/{forum.title}", arrives(forum_path(forum)))
        for forum in content(seed).forums
    ]


async def _open_forum(page: Page, task: Instance, url: str) -> str:
    await page.get_by_role("link", name="All Categories").first.click()
    await (
        page.locator(".js-categories-content")
        .get_by_role("link", name=task.values["forum"], exact=True)
        .click()
    )
    await page.wait_for_url("**/category/**")
    return ""


OPEN_FORUM = Template(
    id=1204,
    site=SITE,
    level=1,
    kind="navigation",
    intent='Go to the list of topics of the category "{{forum}}".',
    instances=_forums,
    solve=_open_forum,
)


def _favourite(topic: Topic) -> int | None:
    """Index of the comment with the most likes, if it is one alone."""
    likes = [len(comment.likes) for comment in topic.comments]
    return likes.index(max(likes)) if likes.count(max(likes)) == 1 else None


def has_favourite(community: Content, topic: Topic) -> bool:
    return (
        _is_open_talk(community, topic)
        and 3 <= len(topic.comments) <= MANY_PAGES
        and _favourite(topic) is not None
    )


def _most_liked(community: Content, topic: Topic) -> Instance:
    author = topic.comments[_favourite(topic) or 0].author
    return Instance({"title": topic.title}, topic_entity(topic), answer(community.name(author)))


async def _find_most_liked(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    return await solving.author_of(await solving.most_liked(page))


MOST_LIKED = Template(
    id=1207,
    site=SITE,
    level=2,
    kind="information",
    intent='Who wrote the comment with the most likes in the topic "{{title}}"? Answer with the username only.',
    instances=about_topics(1207, has_favourite, lambda community, topic, _: _most_liked(community, topic)),
    solve=_find_most_liked,
    account="member",
)


async def _open_author(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.open_author(page)
    return ""


OPEN_AUTHOR = Template(
    id=1208,
    site=SITE,
    level=2,
    kind="navigation",
    intent='Open the profile page of the member who started the topic "{{title}}".',
    instances=about_topics(
        1208,
        _is_open_talk,
        lambda community, topic, _: Instance(
            {"title": topic.title},
            topic_entity(topic),
            arrives(profile_path(community.members[topic.author - 1])),
        ),
    ),
    solve=_open_author,
    account="member",
)


def _shop_is_said_once(community: Content, topic: Topic) -> bool:
    said = [
        other for other in community.topics if any(topic.shop in comment.text for comment in other.comments)
    ]
    return bool(topic.shop) and said == [topic]


async def _find_shop(page: Page, task: Instance, url: str) -> str:
    await solving.search(page, task.values["shop"])
    await page.locator(".layout__topics__topic").first.get_by_role("link").click()
    await page.get_by_text(task.values["shop"]).first.wait_for()
    return ""


FIND_BY_SHOP = Template(
    id=1209,
    site=SITE,
    level=2,
    kind="navigation",
    intent="Find the topic in which a member complains about something from the shop {{shop}}, and open it.",
    instances=about_topics(
        1209,
        _shop_is_said_once,
        lambda community, topic, _: Instance({"shop": topic.shop}, topic_entity(topic), arrives(topic.path)),
    ),
    solve=_find_shop,
    account="member",
)


async def _count_topics(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.open_author(page)
    await solving.open_tab(page, "Topics")
    return str(await page.locator(".layout__topics__topic").count())


HOW_MANY_TOPICS = Template(
    id=1210,
    site=SITE,
    level=2,
    kind="information",
    intent='How many topics has the member who started "{{title}}" started in all? Answer with the number only.',
    instances=about_topics(
        1210,
        lambda community, topic: (
            _is_open_talk(community, topic) and 2 <= len(community.by(topic.author)) <= TOPICS_PER_PAGE
        ),
        lambda community, topic, _: Instance(
            {"title": topic.title}, topic_entity(topic), answer(str(len(community.by(topic.author))))
        ),
    ),
    solve=_count_topics,
    account="member",
)


def _priced(seed: int) -> list[Instance]:
    community, rng = content(seed), generator(1211, seed)
    instances = [
        Instance(
            {"member": community.name(comment.author), "title": topic.title},
            topic_entity(topic),
            mentions(str(comment.price)),
        )
        for topic in community.topics
        for comment in topic.comments
        if comment.price is not None and sum(one.author == comment.author for one in topic.comments) == 1
    ]
    return rng.sample(instances, len(instances))[:MOST]


async def _read_price(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    comment = await solving.comment_of(page, task.values["member"])
    found = re.search(r"(\d+) dollars", await comment.inner_text())
    return found[1] if found else ""


PRICE = Template(
    id=1211,
    site=SITE,
    level=2,
    kind="information",
    intent='How many dollars did {{member}} pay, according to the topic "{{title}}"? Answer with the number only.',
    instances=_priced,
    solve=_read_price,
    account="member",
)


def _votes(topic: Topic) -> list[int]:
    return [len(option.voters) for option in topic.poll.options] if topic.poll else []


def _has_leader(community: Content, topic: Topic) -> bool:
    votes = _votes(topic)
    return bool(votes) and votes.count(max(votes)) == 1


def _leader(topic: Topic) -> str:
    assert topic.poll is not None
    votes = _votes(topic)
    return topic.poll.options[votes.index(max(votes))].text


async def _read_poll(page: Page, task: Instance, url: str) -> str:
    title = f"Poll: {task.values['question']}"
    await solving.find_topic(page, title)
    await page.get_by_role("link", name="Show results").click()
    await page.get_by_role("link", name="Show vote choices").wait_for()
    lines = await page.locator(".comment__text__poll__choices__choice__description").all_inner_texts()
    shares = [re.match(r"(.*), (\d+)%", line) for line in lines]
    return max((int(share[2]), share[1]) for share in shares if share)[1]


POLL_LEADER = Template(
    id=1212,
    site=SITE,
    level=2,
    kind="information",
    intent='Which choice has the most votes in the poll "{{question}}"? Answer with the text of the choice.',
    instances=about_topics(
        1212,
        _has_leader,
        lambda community, topic, _: Instance(
            {"question": topic.poll.question if topic.poll else ""},
            topic_entity(topic),
            mentions(_leader(topic)),
        ),
    ),
    solve=_read_poll,
    account="member",
)


def _absent(seed: int) -> list[Instance]:
    """Titles that could well be there, but are not."""
    community, rng = content(seed), generator(1216, seed)
    titles = {topic.title for topic in community.topics}
    wishes = [
        f"Looking for {article(f'{thing} for {use}')}"
        for forum in words()["forums"]
        for thing in forum["things"]
        for use in forum["uses"]
        if not {f"Looking for {article(f'{thing} for {use}')}", f"Which {thing} for {use}?"} & titles
    ]
    return [
        Instance({"title": title}, f"topic/{title}", answer(IMPOSSIBLE)) for title in rng.sample(wishes, MOST)
    ]


async def _find_count(page: Page, task: Instance, url: str) -> str:
    await solving.search(page, task.values["title"])
    return await _read_count(page, task, url)


FIND_HOW_MANY_COMMENTS = Template(
    id=1228,
    site=SITE,
    level=2,
    kind="information",
    intent='How many comments does the topic "{{title}}" have?',
    instances=about_topics(
        1228,
        lambda community, topic: _is_open_talk(community, topic) and topic.kind == "ask",
        lambda community, topic, _: Instance(
            {"title": topic.title}, topic_entity(topic), mentions(str(len(topic.comments)))
        ),
    ),
    solve=_find_count,
    account="member",
)


async def _miss_topic(page: Page, task: Instance, url: str) -> str:
    await solving.search(page, task.values["title"])
    found = await page.get_by_role("link", name=task.values["title"], exact=True).count()
    return "" if found else IMPOSSIBLE


ABSENT_TOPIC = Template(
    id=1216,
    site=SITE,
    level=2,
    kind="unachievable",
    intent='How many comments does the topic "{{title}}" have?',
    instances=_absent,
    solve=_miss_topic,
    account="member",
)


async def _miss_right(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    return "" if await page.get_by_role("link", name="Moderate").count() else IMPOSSIBLE


NO_RIGHT_TO_CLOSE = Template(
    id=1217,
    site=SITE,
    level=2,
    kind="unachievable",
    intent='Close the topic "{{title}}" so that nobody can answer any more.',
    instances=about_topics(
        1217,
        lambda community, topic: _is_open_talk(community, topic) and not topic.closed,
        lambda community, topic, _: Instance({"title": topic.title}, topic_entity(topic), answer(IMPOSSIBLE)),
    ),
    solve=_miss_right,
    account="member",
)

TEMPLATES: Sequence[Template] = (
    WHO_STARTED,
    HOW_MANY_COMMENTS,
    OPEN_TOPIC,
    OPEN_FORUM,
    MOST_LIKED,
    OPEN_AUTHOR,
    FIND_BY_SHOP,
    HOW_MANY_TOPICS,
    PRICE,
    POLL_LEADER,
    FIND_HOW_MANY_COMMENTS,
    ABSENT_TOPIC,
    NO_RIGHT_TO_CLOSE,
)
