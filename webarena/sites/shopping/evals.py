"""WebArena evaluations for the two sites of the shop, and the choice of what their tasks are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from webarena.sites.base import Instance
from webarena.sites.shopping.content import Product, Shop, content

T = TypeVar("T")
MOST = 24
"""Instances of a template, at most."""


def answer(text: str) -> dict[str, Any]:
    """The agent answers exactly this."""
    return _evaluation(["string_match"], reference_answers={"exact_match": text})


def mentions(*texts: str) -> dict[str, Any]:
    """The agent's answer has all of these in it."""
    return _evaluation(["string_match"], reference_answers={"must_include": list(texts)})


def impossible() -> dict[str, Any]:
    """The agent says that it cannot be done."""
    return answer("N/A")


def arrives(url: str, *targets: Mapping[str, Any]) -> dict[str, Any]:
    """The agent stops on this page, and the targets hold."""
    kinds = ["url_match", "program_html"] if targets else ["url_match"]
    return _evaluation(kinds, reference_url=url, url_note="GOLD in PRED", program_html=list(targets))


def shows(*targets: Mapping[str, Any]) -> dict[str, Any]:
    """Pages show what they should: see `text` and `value`."""
    return _evaluation(["program_html"], program_html=list(targets))


def text(url: str, selector: str, *wanted: str, having: str = "") -> dict[str, Any]:
    """On the page, the elements that `selector` (CSS) finds and whose text has `having` in it, together have these texts."""
    only = f".filter(e => e.textContent.includes({having!r}))" if having else ""
    locator = f"[...document.querySelectorAll({selector!r})]{only}.map(e => e.textContent).join(' ').replace(/\\s+/g, ' ')"
    return {"url": url, "locator": locator, "required_contents": {"must_include": list(wanted)}}


def value(url: str, locator: str, wanted: str) -> dict[str, Any]:
    """On the page, this JavaScript (which begins with `document.`) is exactly this, spaces around it aside."""
    return {"url": url, "locator": locator, "required_contents": {"exact_match": wanted}}


def at(path: str) -> dict[str, Any]:
    """The page on which the agent stops has this path, and not a longer one that begins with it."""
    return value("last", "document.location.pathname", path)


def _evaluation(kinds: Sequence[str], **parts: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {"reference_answers": None, "reference_url": "", "program_html": []}
    return {"eval_types": list(kinds), **blank, **parts}


def generator(template: int, seed: int) -> Random:
    """What a template draws from: of its own, so that templates do not change each other's instances."""
    return Random(f"shopping/template/{template}/{seed}")


def drawn(template: int, seed: int, things: Sequence[T]) -> list[T]:
    """At most `MOST` of the things, in an order of the template's own."""
    return generator(template, seed).sample(list(things), len(things))[:MOST]


def about_products(
    template: int,
    make: Callable[[Shop, Product, Random], Instance | None],
    suits: Callable[[Shop, Product], bool] = lambda shop, product: True,
) -> Callable[[int], list[Instance]]:
    """Instances for products that suit, in an order of the template's own. `make` returns None for those that do not."""

    def instances(seed: int) -> list[Instance]:
        shop, rng = content(seed), generator(template, seed)
        products = rng.sample(shop.products, len(shop.products))
        made = (make(shop, product, rng) for product in products if suits(shop, product))
        found = [instance for instance in made if instance is not None]
        return found[:MOST]

    return instances
