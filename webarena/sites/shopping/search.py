"""Product search on the shop's own database: a Haystack engine without an index, so that nothing can be out of step.

It answers what Oscar's pages ask: words, categories, facets (type, rating, price range) and the orders to sort by.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from haystack.backends import BaseEngine, BaseSearchBackend, BaseSearchQuery, SearchNode

WORD = re.compile(r"[\w'-]+")
RANGE = re.compile(r"\[(\S+) TO (\S+)\]")


def _leaves(node: Any) -> Iterator[tuple[str, Any]]:
    for child in node.children:
        if isinstance(child, SearchNode):
            yield from _leaves(child)
        else:
            yield child


def _within(value: float | None, bounds: str) -> bool:
    found = RANGE.search(bounds)
    if value is None or found is None:
        return False
    low, high = (None if end == "*" else float(end) for end in found.groups())
    return (low is None or value >= low) and (high is None or value <= high)


class Query(BaseSearchQuery):  # type: ignore[misc]
    """Carries the filters of a search to the backend as they are."""

    def build_query(self) -> Any:
        wanted: dict[str, Any] = {"words": [], "categories": None}
        for expression, value in _leaves(self.query_filter):
            field = expression.split("__")[0]
            if field == "content":
                wanted["words"] += [
                    word.lower() for word in WORD.findall(str(getattr(value, "query_string", value)))
                ]
            elif field == "category":
                wanted["categories"] = list(value)
        return wanted

    def clean(self, query_fragment: Any) -> Any:
        return query_fragment


class Backend(BaseSearchBackend):  # type: ignore[misc]
    """Reads the products that may be bought and sorts them here: a shop of some hundred products needs no more."""

    def update(self, index: Any, iterable: Any, commit: bool = True) -> None:
        """Nothing to do: there is no index."""

    def remove(self, obj_or_string: Any, commit: bool = True) -> None:
        """Nothing to do: there is no index."""

    def clear(self, models: Any = None, commit: bool = True) -> None:
        """Nothing to do: there is no index."""

    def search(self, query_string: Any, **options: Any) -> dict[str, Any]:
        """`query_string` is what `Query.build_query` made."""
        rows = [
            row
            for row in self._rows(query_string)
            if self._narrowed(row, options.get("narrow_queries") or ())
        ]
        rows.sort(key=lambda row: (-row["score"], row["title"]))
        for field in reversed(options.get("sort_by") or ()):
            self._sort(rows, field)
        first, last = options.get("start_offset") or 0, options.get("end_offset")
        # Without an end Haystack only counts; a page of results has one.
        page = [] if last is None else self._results(rows[first:last], options.get("result_class"))
        found: dict[str, Any] = {"results": page, "hits": len(rows)}
        if options.get("facets") or options.get("query_facets"):
            found["facets"] = self._facets(rows, options)
        return found

    def _rows(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        from django.db.models import Q
        from oscar.core.loading import get_model

        products = get_model("catalogue", "Product").objects.browsable()
        if wanted["categories"] is not None:
            products = products.filter(categories__in=wanted["categories"])
        for word in wanted["words"]:
            products = products.filter(
                Q(title__icontains=word)
                | Q(description__icontains=word)
                | Q(upc=word)
                | Q(attribute_values__value_text__icontains=word)
                | Q(categories__name__icontains=word)
            )
        columns = {
            "pk": "pk",
            "title": "title",
            "rating": "rating",
            "date_created": "date_created",
            "product_class": "product_class__name",
            "price": "stockrecords__price",
        }
        rows = []
        for values in products.order_by("pk").values_list(*columns.values()).distinct():
            row = dict(zip(columns, values, strict=True))
            row["price"] = None if row["price"] is None else float(row["price"])
            row["stars"] = None if row["rating"] is None else int(row["rating"])
            row["score"] = sum(word in row["title"].lower() for word in wanted["words"])
            rows.append(row)
        return rows

    def _narrowed(self, row: dict[str, Any], narrow: Any) -> bool:
        for query in narrow:
            field, _, values = query.partition(":")
            if field == "price":
                fits = any(_within(row["price"], bounds) for bounds in values.split(" OR "))
            else:
                value = row["stars"] if field == "rating" else row.get(field)
                fits = str(value) in re.findall(r'"([^"]*)"', values)
            if not fits:
                return False
        return True

    def _sort(self, rows: list[dict[str, Any]], field: str) -> None:
        down = field.startswith("-")
        name = field.lstrip("-").removesuffix("_exact")
        known = [row for row in rows if row[name] is not None]
        unknown = [row for row in rows if row[name] is None]
        known.sort(key=lambda row: row[name], reverse=down)
        rows[:] = known + unknown

    def _facets(self, rows: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
        fields = {}
        for field in options.get("facets") or ():
            name = "stars" if field.startswith("rating") else field
            counts = Counter(row[name] for row in rows if row.get(name) is not None)
            fields[field] = sorted(counts.items())
        queries = {
            f"price:{bounds}": sum(_within(row["price"], bounds) for row in rows)
            for _, bounds in options.get("query_facets") or ()
        }
        return {"fields": fields, "queries": queries, "dates": {}}

    def _results(self, rows: list[dict[str, Any]], result_class: Any) -> list[Any]:
        """Results with their products, read together."""
        from haystack.models import SearchResult
        from oscar.core.loading import get_model

        products = (
            get_model("catalogue", "Product").objects.base_queryset().in_bulk([row["pk"] for row in rows])
        )
        results = []
        for row in rows:
            result = (result_class or SearchResult)("catalogue", "product", row["pk"], row["score"])
            result._object = products[row["pk"]]
            results.append(result)
        return results


class Engine(BaseEngine):  # type: ignore[misc]
    backend = Backend
    query = Query
