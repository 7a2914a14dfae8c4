"""Tasks that change the forum: comments, likes, votes, topics, messages, settings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webarena.sites.base import Instance, Template
from webarena.sites.reddit import solving
from webarena.sites.reddit.content import (
    COMMENTS_PER_PAGE,
    MEMBER,
    MEMBER_ID,
    MONTHS,
    Comment,
    Content,
    Topic,
    article,
    content,
    profile_path,
    words,
)
from webarena.sites.reddit.evals import (
    about_topics,
    generator,
    page_text,
    page_value,
    shows,
    topic_entity,
)
from webarena.sites.reddit.tasks_read import SITE, has_favourite

if TYPE_CHECKING:
    from playwright.async_api import Page

NEWEST_COMMENT = ".comments_list__comment"
NEWEST_TOPIC = ".layout__topics__topic"
ANSWERS = (
    "Thank you, this is exactly what I needed to know.",
    "I had the same trouble. A friend fixed mine in ten minutes.",
    "Please tell us how it ends!",
    "I would wait until spring before I change anything.",
    "Count on me if you need a second pair of hands.",
    "Mine has been fine for three years, so do not give up.",
    "Could you measure it and post the numbers?",
    "There is a good chapter about this in the library's handbook.",
    "I tried that last autumn and would not do it again.",
    "You can borrow mine for a week if you like.",
)
EDITS = (
    "Solved: it was a loose screw. Thanks to all of you.",
    "Update: I sold it and feel much better now.",
    "Update: the second suggestion did it. This can be closed.",
    "Solved. The shop replaced it without a word.",
    "Update: still broken, but I have stopped caring.",
)


def is_open(community: Content, topic: Topic) -> bool:
    return topic.kind != "rules" and topic.author != MEMBER_ID and not topic.closed


def _is_mine(community: Content, topic: Topic) -> bool:
    return topic.author == MEMBER_ID


def _mine(tab: str, community: Content) -> str:
    return profile_path(community.members[MEMBER_ID - 1], tab)


def css_of(comment: Comment, selector: str = "") -> str:
    """CSS of a comment, or of something in it, in its topic."""
    return f'[data-pk="{comment.id}"] {selector}'.strip()


def _liked(topic: Topic, comment: Comment) -> dict[str, object]:
    page = topic.comments.index(comment) // COMMENTS_PER_PAGE + 1
    return shows(page_text(f"{topic.path}?page={page}", css_of(comment, ".comment-like"), "remove like"))


def only_comments(topic: Topic) -> list[Comment]:
    """Comments on the first page of members who wrote no other in the topic; not the opening one."""
    authors = [comment.author for comment in topic.comments]
    return [one for one in topic.comments[1:COMMENTS_PER_PAGE] if authors.count(one.author) == 1]


def _like_one(community: Content, topic: Topic, rng: random.Random) -> Instance:
    comment = rng.choice(only_comments(topic))
    values = {"member": community.name(comment.author), "title": topic.title}
    return Instance(values, topic_entity(topic), _liked(topic, comment), topic.path)


async def _like_comment(page: Page, task: Instance, url: str) -> str:
    await solving.like(await solving.comment_of(page, task.values["member"]))
    return ""


LIKE_COMMENT = Template(
    id=1205,
    site=SITE,
    level=1,
    kind="change",
    intent='Like the comment that {{member}} wrote in the topic "{{title}}".',
    instances=about_topics(
        1205,
        lambda community, topic: is_open(community, topic) and bool(only_comments(topic)),
        _like_one,
    ),
    solve=_like_comment,
    account="member",
)


def _vote_for(community: Content, topic: Topic, rng: random.Random) -> Instance:
    assert topic.poll is not None
    option = rng.choice(topic.poll.options)
    check = page_text(f"/comment/poll/voters/{option.id}/", ".layout__list", MEMBER.name)
    return Instance({"choice": option.text}, topic_entity(topic), shows(check), topic.path)


async def _vote(page: Page, task: Instance, url: str) -> str:
    await page.get_by_role("radio", name=task.values["choice"], exact=True).check()
    await page.get_by_role("button", name="Vote").click()
    await page.get_by_text("Votes:").wait_for()
    return ""


VOTE = Template(
    id=1206,
    site=SITE,
    level=1,
    kind="change",
    intent='Vote for "{{choice}}" in this poll.',
    instances=about_topics(
        1206, lambda community, topic: topic.poll is not None and topic.author != MEMBER_ID, _vote_for
    ),
    solve=_vote,
    account="member",
)


def _comment_on(community: Content, topic: Topic, rng: random.Random) -> Instance:
    text = rng.choice(ANSWERS)
    check = page_text(_mine("", community), NEWEST_COMMENT, topic.title, text)
    return Instance({"text": text, "title": topic.title}, topic_entity(topic), shows(check))


async def _comment(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.write_comment(page, task.values["text"])
    return ""


COMMENT = Template(
    id=1213,
    site=SITE,
    level=2,
    kind="change",
    intent='Write the comment "{{text}}" in the topic "{{title}}".',
    instances=about_topics(1213, is_open, _comment_on),
    solve=_comment,
    account="member",
)


async def _subscribe(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await page.get_by_role("button", name="Notify Me", exact=True).click()
    await page.get_by_role("button", name="Unnotify Me").wait_for()
    return ""


SUBSCRIBE = Template(
    id=1214,
    site=SITE,
    level=2,
    kind="change",
    intent='I want to be notified of new comments in the topic "{{title}}". Turn that on.',
    instances=about_topics(
        1214,
        is_open,
        lambda community, topic, _: Instance(
            {"title": topic.title},
            topic_entity(topic),
            shows(page_value(topic.path, ".comments__footer_menu__notify .button", "Unnotify Me")),
        ),
    ),
    solve=_subscribe,
    account="member",
)


def _towns(seed: int) -> list[Instance]:
    here = content(seed).members[MEMBER_ID - 1].location
    return [
        Instance({"town": town}, f"town/{town}", shows(page_value("/user/", "#id_location", town)))
        for town in words()["towns"]
        if town != here
    ]


async def _move_house(page: Page, task: Instance, url: str) -> str:
    await page.get_by_role("link", name="Preferences").click()
    await page.get_by_label("Location").fill(task.values["town"])
    await page.get_by_role("button", name="Save").click()
    await page.get_by_text("Your profile has been updated!").wait_for()
    return ""


LOCATION = Template(
    id=1215,
    site=SITE,
    level=2,
    kind="change",
    intent="I have moved. Set the location in my profile to {{town}}.",
    instances=_towns,
    solve=_move_house,
    account="member",
)


def _offers(seed: int) -> list[Instance]:
    community, rng = content(seed), generator(1218, seed)
    offers = []
    for forum, entry in zip(community.forums, words()["forums"], strict=True):
        for thing in rng.sample(entry["things"], 3):
            title = "Giving away " + article(f"{rng.choice(entry['makers'])} {thing}")
            text = f"I no longer need it. Collect it in {rng.choice(words()['towns'])} before {rng.choice(MONTHS)} {rng.randint(2, 28)}."
            check = shows(
                page_text(_mine("topics", community), NEWEST_TOPIC, title, forum.title),
                page_text(_mine("", community), NEWEST_COMMENT, title, text),
            )
            values = {"forum": forum.title, "title": title, "text": text}
            offers.append(Instance(values, f"forum/{forum.title}", check))
    return rng.sample(offers, len(offers))


async def _publish(page: Page, task: Instance, url: str) -> str:
    await page.get_by_role("link", name="Create Topic").click()
    await page.get_by_label("Title").fill(task.values["title"])
    await page.get_by_label("Category").select_option(label=task.values["forum"])
    await page.get_by_label("Comment").fill(task.values["text"])
    await page.get_by_role("button", name="Publish").click()
    await page.get_by_role("heading", name=task.values["title"]).wait_for()
    return ""


PUBLISH = Template(
    id=1218,
    site=SITE,
    level=3,
    kind="change",
    intent='Start a topic in the category "{{forum}}" with the title "{{title}}" and the text "{{text}}"',
    instances=_offers,
    solve=_publish,
    account="member",
)


def _edit_of(community: Content, topic: Topic, rng: random.Random) -> Instance:
    text = rng.choice(EDITS)
    check = page_text(topic.path, css_of(topic.comments[0], ".comment__text"), text)
    return Instance({"title": topic.title, "text": text}, topic_entity(topic), shows(check))


async def _edit(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await page.locator(".js-comment").first.get_by_role("link", name="edit", exact=True).click()
    await page.get_by_label("Comment").fill(task.values["text"])
    async with page.expect_navigation():
        await page.get_by_role("button", name="Publish").click()
    return ""


EDIT = Template(
    id=1219,
    site=SITE,
    level=3,
    kind="change",
    intent='Replace what I wrote at the start of my topic "{{title}}" by "{{text}}"',
    instances=about_topics(1219, _is_mine, _edit_of),
    solve=_edit,
    account="member",
)


def _letter_to(community: Content, topic: Topic, rng: random.Random) -> Instance:
    title = f"About your {topic.thing}"
    text = rng.choice(ANSWERS)
    receiver = community.name(topic.author)
    new = len(community.topics) + len(community.private) + 1  # the id that the next topic gets
    check = shows(
        page_text("/topic/private/", NEWEST_TOPIC, title, receiver),
        page_text(f"/topic/private/{new}/", NEWEST_COMMENT, text),
    )
    return Instance({"topic": topic.title, "title": title, "text": text}, topic_entity(topic), check)


async def _write_letter(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["topic"])
    await solving.open_author(page)
    await page.get_by_role("link", name="Private Message").click()
    await page.get_by_label("Title").fill(task.values["title"])
    await page.get_by_label("Comment").fill(task.values["text"])
    await page.get_by_role("button", name="Publish").click()
    await page.get_by_role("heading", name=task.values["title"]).wait_for()
    return ""


PRIVATE_MESSAGE = Template(
    id=1220,
    site=SITE,
    level=3,
    kind="change",
    intent='Send the member who started "{{topic}}" a private message with the title "{{title}}" and the text "{{text}}"',
    instances=about_topics(
        1220, lambda community, topic: is_open(community, topic) and topic.kind == "help", _letter_to
    ),
    solve=_write_letter,
    account="member",
)


def _like_best(community: Content, topic: Topic, rng: random.Random) -> Instance:
    best = max(topic.comments, key=lambda comment: len(comment.likes))
    return Instance({"title": topic.title}, topic_entity(topic), _liked(topic, best))


async def _like_most_liked(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.like(await solving.most_liked(page))
    return ""


LIKE_MOST_LIKED = Template(
    id=1224,
    site=SITE,
    level=3,
    kind="change",
    intent='Like the comment that has the most likes so far in the topic "{{title}}".',
    instances=about_topics(
        1224,
        lambda community, topic: (
            has_favourite(community, topic) and all(one.author != MEMBER_ID for one in topic.comments)
        ),
        _like_best,
    ),
    solve=_like_most_liked,
    account="member",
)


def _newest(community: Content, topic: Topic) -> Topic:
    return community.by(topic.author)[0]


def _answer_newest(community: Content, topic: Topic, rng: random.Random) -> Instance:
    text = rng.choice(ANSWERS)
    check = page_text(_mine("", community), NEWEST_COMMENT, _newest(community, topic).title, text)
    return Instance({"title": topic.title, "text": text}, topic_entity(topic), shows(check))


async def _comment_on_newest(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["title"])
    await solving.open_author(page)
    await solving.open_tab(page, "Topics")
    await page.locator(NEWEST_TOPIC).first.get_by_role("link").first.click()
    await solving.write_comment(page, task.values["text"])
    return ""


COMMENT_ON_NEWEST = Template(
    id=1225,
    site=SITE,
    level=3,
    kind="change",
    intent='Find the newest topic of the member who started "{{title}}", and write the comment "{{text}}" there.',
    instances=about_topics(
        1225,
        lambda community, topic: (
            is_open(community, topic)
            and _newest(community, topic) != topic
            and not _newest(community, topic).closed
        ),
        _answer_newest,
    ),
    solve=_comment_on_newest,
    account="member",
)


def _rename_to(community: Content, topic: Topic, rng: random.Random) -> Instance:
    title = rng.choice(("Solved", "Given up", "Still open", "Help wanted")) + f": {topic.thing}"
    check = page_text(topic.path, ".headline", title)
    return Instance({"old": topic.title, "new": title}, topic_entity(topic), shows(check))


async def _rename(page: Page, task: Instance, url: str) -> str:
    await solving.find_topic(page, task.values["old"])
    await page.get_by_role("heading").get_by_role("link", name="edit").click()
    await page.get_by_label("Title").fill(task.values["new"])
    await page.get_by_role("button", name="Update").click()
    await page.get_by_role("heading", name=task.values["new"]).wait_for()
    return ""


RENAME = Template(
    id=1226,
    site=SITE,
    level=3,
    kind="change",
    intent='Change the title of my topic "{{old}}" to "{{new}}".',
    instances=about_topics(1226, _is_mine, _rename_to),
    solve=_rename,
    account="member",
)


TEMPLATES: Sequence[Template] = (
    LIKE_COMMENT,
    VOTE,
    COMMENT,
    SUBSCRIBE,
    LOCATION,
    PUBLISH,
    EDIT,
    PRIVATE_MESSAGE,
    LIKE_MOST_LIKED,
    COMMENT_ON_NEWEST,
    RENAME,
)
