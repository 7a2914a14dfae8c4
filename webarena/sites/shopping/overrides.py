"""Where this shop differs from Oscar's default: delivery, pictures, texts in the footer. Imported by Django."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from webarena.sites.shopping.content import SHIPPING


def load_classes(module: str, names: Sequence[str], prefix: str) -> list[Any]:
    """Oscar's class loader, with our `shipping.repository.Repository`."""
    from oscar.core.loading import default_class_loader

    classes = default_class_loader(module, names, prefix)
    if module == "shipping.repository":
        return [
            _repository(cls) if name == "Repository" else cls
            for name, cls in zip(names, classes, strict=True)
        ]
    return list(classes)


def _repository(base: Any) -> Any:
    from oscar.apps.shipping.methods import FixedPrice

    def method(code: str, name: str, cents: int) -> Any:
        price = Decimal(cents) / 100
        return type("Delivery", (FixedPrice,), {"code": code, "name": name})(price, price)

    return type("Repository", (base,), {"methods": tuple(method(*row) for row in SHIPPING)})


class Thumbnailer:
    """Shows pictures as they are: they are small drawings."""

    def generate_thumbnail(self, source: Any, **options: Any) -> Any:
        return source if hasattr(source, "url") else Missing()

    def delete_thumbnails(self, source: Any) -> None:
        """There are none."""


class Missing:
    """The picture of a product that has none."""

    url = "/static/oscar/img/image_not_found.jpg"


def pages(request: Any) -> dict[str, Any]:
    """The shop's text pages, for the footer of every page."""
    from django.contrib.flatpages.models import FlatPage

    return {"text_pages": FlatPage.objects.order_by("pk")}


WRITING_LINKS = frozenset(
    {
        "customer:wishlists-add-product",
        "customer:wishlists-move-product-to-another",
        "customer:address-change-status",
        "customer:alerts-confirm",
        "customer:alerts-cancel-by-key",
        "customer:alerts-cancel-by-pk",
        "dashboard:partner-user-link",
    }
)
"""Addresses at which Oscar writes when somebody merely follows a link."""


class LinksDoNotWrite:
    """Middleware: where a link would write, ask first. Only requests that may write are then ones that do, so whoever
    watches a browser can tell from its requests whether the state is still what it was."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        return self.get_response(request)

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> Any:
        from django.shortcuts import render

        if request.resolver_match.view_name not in WRITING_LINKS:
            return None
        if request.method in ("GET", "HEAD"):
            return render(request, "oscar/confirm.html")
        if request.resolver_match.view_name != "customer:wishlists-add-product":
            request.method = "GET"
        return None
