"""Search over the forum's own tables, as a backend of haystack: nothing to index, so a new post is found at once.

A topic matches when every word of the query occurs in its title or in one of its comments. Those that have the whole
query in the title come first, then those that have it in a comment, then the rest; newest activity first.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, Value, When
from haystack.backends import BaseEngine, BaseSearchBackend, BaseSearchQuery, SearchNode
from haystack.models import SearchResult
from spirit.comment.models import Comment
from spirit.topic.models import Topic


class DatabaseBackend(BaseSearchBackend):  # type: ignore[misc]
    """Reads what `DatabaseQuery` passes on: the words, and the categories to search in (none: all)."""

    def search(self, query_string: str, **options: Any) -> dict[str, Any]:
        words = query_string.split()
        topics = Topic.objects.visible().select_related("category__parent")
        if options["categories"]:
            topics = topics.filter(category_id__in=options["categories"])
        for word in words:
            topics = topics.filter(Q(title__icontains=word) | Exists(_comments(word)))
        phrase = " ".join(words)
        topics = topics.annotate(
            titled=Case(
                When(title__icontains=phrase, then=Value(True)),
                default=Value(False),
                output_field=BooleanField(),
            ),
            said=Exists(_comments(phrase)),
        ).order_by("-titled", "-said", "-last_active", "-pk")
        hits = topics.count()
        start, end = options.get("start_offset", 0), options.get("end_offset")
        return {"results": [_result(topic) for topic in topics[start:end]], "hits": hits}

    def update(self, index: Any, iterable: Any, commit: bool = True) -> None:
        """Nothing to do."""

    def remove(self, obj_or_string: Any) -> None:
        """Nothing to do."""

    def clear(self, models: Any = None, commit: bool = True) -> None:
        """Nothing to do."""


class DatabaseQuery(BaseSearchQuery):  # type: ignore[misc]
    """The words of a query, and separately the categories it is restricted to."""

    def build_query(self) -> str:
        self.categories: list[int] = []
        return " ".join(self._words(self.query_filter))

    def build_params(self, spelling_query: str | None = None) -> dict[str, Any]:
        limits = {"start_offset": self.start_offset, "end_offset": self.end_offset}
        return limits | {"categories": self.categories}

    def _words(self, node: SearchNode) -> list[str]:
        words: list[str] = []
        for child in node.children:
            if isinstance(child, SearchNode):
                words += self._words(child)
                continue
            expression, value = child
            name, _ = node.split_expression(expression)
            if name == "content":
                words += str(getattr(value, "query_string", value)).replace('"', " ").split()
            elif name == "category_id":
                self.categories += list(value)
        return words


class DatabaseEngine(BaseEngine):  # type: ignore[misc]
    backend = DatabaseBackend
    query = DatabaseQuery


def _comments(text: str) -> Any:
    return Comment.objects.filter(topic=OuterRef("pk"), is_removed=False, comment__icontains=text)


def _result(topic: Any) -> SearchResult:
    return SearchResult(
        "spirit_topic",
        "topic",
        topic.pk,
        0,
        title=topic.title,
        slug=topic.slug,
        comment_count=topic.comment_count,
        last_active=topic.last_active,
        main_category_name=topic.main_category.title,
    )
