"""Writes the content of a seed into a new database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from webarena.sites.base import Account
from webarena.sites.reddit import app
from webarena.sites.reddit.content import (
    COMMENTS_PER_PAGE,
    MEMBER,
    MEMBER_ID,
    MODERATOR,
    MODERATOR_ID,
    PRIVATE_FORUM_ID,
    SITE_NAME,
    TOPICS_PER_PAGE,
    Comment,
    Content,
    Topic,
    content,
    slugify,
)

UNUSABLE = "!"
# The same in every build, so that a session made on one holds on another; long enough for Django not to replace it at login.
SALT = "localarenaforumaccounts0"
POLL_NAME = "poll"


def build(state: Path, seed: int) -> None:
    """Creates the tables and writes the content. In a process of its own: Django can be set up once."""
    app.setup()
    app.use(state)
    from django.apps import apps
    from django.db import connection, transaction

    with connection.schema_editor() as editor:
        for model in apps.get_models():
            editor.create_model(model)
    with transaction.atomic():
        _write(content(seed))
    connection.close()


def _write(community: Content) -> None:
    from djconfig.models import Config

    _create(
        Config,
        (
            Config(key="site_name", value=SITE_NAME),
            Config(key="site_description", value="A friendly place for people who make and mend things."),
            Config(key="comments_per_page", value=str(COMMENTS_PER_PAGE)),
            Config(key="topics_per_page", value=str(TOPICS_PER_PAGE)),
            Config(key="_updated_at", value=community.topics[-1].date.isoformat()),
        ),
    )
    _write_members(community)
    _write_forums(community)
    _write_topics(community)
    _write_polls(community)
    _write_notifications(community)


def _create(model: Any, rows: Iterable[Any]) -> None:
    model.objects.bulk_create(list(rows), batch_size=500)


def _write_members(community: Content) -> None:
    from django.contrib.auth.models import User
    from spirit.user.models import UserProfile

    passwords = {MEMBER_ID: _hash(MEMBER), MODERATOR_ID: _hash(MODERATOR)}
    started: dict[int, int] = {}
    written: dict[int, int] = {}
    seen: dict[int, datetime] = {}
    for topic in community.topics:
        started[topic.author] = started.get(topic.author, 0) + 1
        for comment in topic.comments:
            written[comment.author] = written.get(comment.author, 0) + 1
            seen[comment.author] = max(comment.date, seen.get(comment.author, comment.date))
    _create(
        User,
        (
            User(
                id=member.id,
                username=member.name,
                email=f"{member.name}@forum.invalid",
                password=passwords.get(member.id, UNUSABLE),
                date_joined=member.joined,
                last_login=member.joined,
            )
            for member in community.members
        ),
    )
    _create(
        UserProfile,
        (
            UserProfile(
                user_id=member.id,
                slug=member.name,
                nickname=member.name,
                location=member.location,
                is_moderator=member.id == MODERATOR_ID,
                is_verified=True,
                topic_count=started.get(member.id, 0),
                comment_count=written.get(member.id, 0),
            )
            for member in community.members
        ),
    )
    for profile in UserProfile.objects.all():  # `last_seen` is set to now by every save
        UserProfile.objects.filter(pk=profile.pk).update(
            last_seen=seen.get(profile.user_id, community.members[profile.user_id - 1].joined)
        )


def _hash(account: Account) -> str:
    from django.contrib.auth.hashers import make_password

    return str(make_password(account.password, salt=SALT))


def _write_forums(community: Content) -> None:
    from spirit.category.models import Category

    opened = community.topics[0].date
    _create(
        Category,
        (
            Category(
                id=PRIVATE_FORUM_ID, title="Private", slug="private", is_private=True, reindex_at=opened
            ),
            *(
                Category(
                    id=forum.id,
                    title=forum.title,
                    slug=slugify(forum.title),
                    description=forum.description,
                    color=forum.colour,
                    reindex_at=opened,
                )
                for forum in community.forums
            ),
        ),
    )


def _write_topics(community: Content) -> None:
    from spirit.comment import models as comments
    from spirit.comment.like.models import CommentLike
    from spirit.core.utils.markdown import Markdown
    from spirit.topic import models as topics
    from spirit.topic.private.models import TopicPrivate

    everything = (*community.topics, *community.private)
    _create(
        topics.Topic,
        (
            topics.Topic(
                id=topic.id,
                user_id=topic.author,
                category_id=topic.forum,
                title=topic.title,
                slug=slugify(topic.title),
                date=topic.date,
                last_active=topic.last_active,
                reindex_at=topic.date,
                is_pinned=topic.pinned,
                is_closed=topic.closed,
                view_count=sum(3 + len(comment.likes) for comment in topic.comments),
                comment_count=len(topic.comments),
            )
            for topic in everything
        ),
    )
    _create(
        comments.Comment,
        (
            comments.Comment(
                id=comment.id,
                user_id=comment.author,
                topic_id=topic.id,
                comment=text,
                comment_html=Markdown().render(text),
                date=comment.date,
                likes_count=len(comment.likes),
            )
            for topic, comment, text in _texts(everything)
        ),
    )
    _create(
        CommentLike,
        (
            CommentLike(user_id=member, comment_id=comment.id, date=topic.last_active)
            for topic, comment, _ in _texts(everything)
            for member in comment.likes
        ),
    )
    _create(
        TopicPrivate,
        (
            TopicPrivate(user_id=member, topic_id=topic.id, date=topic.date)
            for topic in community.private
            for member in topic.participants
        ),
    )


def _texts(topics: Iterable[Topic]) -> Iterator[tuple[Topic, Comment, str]]:
    """Every comment with its text, to which the opening comment of a poll has the poll added in Spirit's notation."""
    for topic in topics:
        for comment in topic.comments:
            text = comment.text
            if topic.poll and comment is topic.comments[0]:
                choices = "\n".join(
                    f"{number}. {option.text}" for number, option in enumerate(topic.poll.options, 1)
                )
                text += f"\n\n[poll name={POLL_NAME}]\n# {topic.poll.question}\n{choices}\n[/poll]"
            yield topic, comment, text


def _write_polls(community: Content) -> None:
    from spirit.comment.poll.models import CommentPoll, CommentPollChoice, CommentPollVote

    polls = [(topic, topic.poll) for topic in community.topics if topic.poll]
    _create(
        CommentPoll,
        (
            CommentPoll(
                id=poll.id,
                comment_id=topic.comments[0].id,
                name=POLL_NAME,
                title=poll.question,
                created_at=topic.date,
            )
            for topic, poll in polls
        ),
    )
    _create(
        CommentPollChoice,
        (
            CommentPollChoice(
                id=option.id,
                poll_id=poll.id,
                number=number,
                description=option.text,
                vote_count=len(option.voters),
            )
            for _, poll in polls
            for number, option in enumerate(poll.options, 1)
        ),
    )
    _create(
        CommentPollVote,
        (
            CommentPollVote(voter_id=member, choice_id=option.id, created_at=topic.last_active)
            for topic, poll in polls
            for option in poll.options
            for member in option.voters
        ),
    )


def _write_notifications(community: Content) -> None:
    """Members are notified of answers to what they started; the newest third of it they have not read yet."""
    from spirit.topic.notification.models import TopicNotification

    started = [topic for topic in community.topics if topic.author in (MEMBER_ID, MODERATOR_ID)]
    newest = {topic.id for topic in started[-len(started) // 3 :]}
    _create(
        TopicNotification,
        (
            TopicNotification(
                user_id=topic.author,
                topic_id=topic.id,
                comment_id=topic.comments[-1].id,
                date=topic.last_active,
                action=TopicNotification.COMMENT if len(topic.comments) > 1 else TopicNotification.UNDEFINED,
                is_read=topic.id not in newest or len(topic.comments) == 1,
                is_active=True,
            )
            for topic in started
        ),
    )
