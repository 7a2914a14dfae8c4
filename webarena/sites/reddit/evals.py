"""WebArena evaluations for the forum's tasks, and the choice of what they are about."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from coevo.seeds import derive_seed
from webarena.sites.base import Instance
from webarena.sites.reddit.content import Content, Topic, content

T = TypeVar("T")

PLACEHOLDER = "__REDDIT__"
MOST = 40
"""Instances of a template, at most."""


def evaluation(eval_type: str, **parts: Any) -> dict[str, Any]:
    """An `eval` object with all of WebArena's fields."""
    blank: dict[str, Any] = {"reference_answers": None, "reference_url": "", "program_html": []}
    return {"eval_types": [eval_type], **blank, **parts}


def answer(text: str) -> dict[str, Any]:
    """The agent answers exactly this."""
    return evaluation("string_match", reference_answers={"exact_match": text})


def mentions(*texts: str) -> dict[str, Any]:
    """The agent's answer has all of these in it."""
    return evaluation("string_match", reference_answers={"must_include": list(texts)})


def arrives(path: str) -> dict[str, Any]:
    """The agent stops on this page."""
    return evaluation("url_match", reference_url=PLACEHOLDER + path, url_note="GOLD in PRED")


def shows(*targets: Mapping[str, Any]) -> dict[str, Any]:
    """Pages show what they should; see `page_text` and `page_value`."""
    return evaluation("program_html", program_html=list(targets))


def page_text(path: str, selector: str, *texts: str) -> dict[str, Any]:
    """The first element that `selector` (CSS) finds on the page has these texts."""
    return _target(path, f"document.querySelector('{selector}').innerText", texts)


def page_html(path: str, selector: str, *texts: str) -> dict[str, Any]:
    """As `page_text`, of the element's HTML with its own tag."""
    return _target(path, f"document.querySelector('{selector}').outerHTML", texts)


def page_value(path: str, selector: str, *texts: str) -> dict[str, Any]:
    """As `page_text`, of the value of a form's element."""
    return _target(path, f"document.querySelector('{selector}').value", texts)


def _target(path: str, locator: str, texts: Sequence[str]) -> dict[str, Any]:
    contents = {"must_include": list(texts)}
    return {"url": PLACEHOLDER + path, "locator": locator, "required_contents": contents}


def about_topics(
    template: int,
    suits: Callable[[Content, Topic], bool],
    make: Callable[[Content, Topic, random.Random], Instance],
) -> Callable[[int], list[Instance]]:
    """Instances for the topics that suit, in an order of the template's own. `make` gets a generator for what else it draws."""

    def instances(seed: int) -> list[Instance]:
        community, rng = content(seed), generator(template, seed)
        topics = [topic for topic in community.topics if suits(community, topic)]
        return [make(community, topic, rng) for topic in rng.sample(topics, len(topics))[:MOST]]

    return instances


def generator(template: int, seed: int) -> random.Random:
    return random.Random(derive_seed("reddit", "template", template, seed))


def topic_entity(topic: Topic) -> str:
    return f"topic/{topic.title}"
