"""The helper functions that WebArena's `func:` expressions may call. A strict grammar and a whitelist; nothing is evaluated.

    func:reddit_get_post_url('__last_url__')
    func:gitlab_get_project_memeber_role(__page__, 'somebody')

An expression is one call of a known function with quoted text, `__page__`, or nothing as arguments. `__last_url__` inside
quotes stands for the address of the page. Magento's REST interface answers for the shop.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from coevo.errors import ConfigError, WorldError
from webarena.accounts import account_of

if TYPE_CHECKING:
    from playwright.async_api import Page

PREFIX = "func:"
PAGE = "__page__"
LAST_URL = "__last_url__"
REST_TIMEOUT_S = 30.0
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.S)
_ARGUMENTS = re.compile(r"""\s*(?:(__page__)|'([^'\\\n]*)'|"([^"\\\n]*)")\s*(,|$)""")


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed expression. `arguments` without the page."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What helpers may look at: the page, and the base URL of each site."""

    page: Page
    urls: Mapping[str, str]


def parse_call(text: str) -> Call:
    """Parses what stands behind `func:`. Raises `ValueError` that says what is wrong."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a call such as reddit_get_post_url('{LAST_URL}')")
    name, rest = match[1], match[2]
    if name not in HELPERS:
        raise ValueError(f"unknown helper {name!r}; known are {', '.join(sorted(HELPERS))}")
    given: list[str] = []
    quoted: list[str] = []
    position = 0
    while rest.strip():
        argument = _ARGUMENTS.match(rest, position)
        if argument is None:
            raise ValueError(
                f"arguments of {name} are quoted text or {PAGE}, found {rest[position:].strip()!r}"
            )
        given.append("page" if argument[1] else "text")
        if not argument[1]:
            quoted.append(argument[2] if argument[2] is not None else argument[3])
        position = argument.end()
        if argument[4] != ",":
            break
    wanted = HELPERS[name].parameters
    if tuple(given) != wanted:
        raise ValueError(f"{name} takes ({', '.join(wanted)}), found ({', '.join(given)})")
    return Call(name, tuple(quoted))


async def perform_call(call: Call, around: Surroundings) -> str:
    """What the helper returns; "" where there is nothing. Raises `WorldError` when the site does not answer."""
    arguments = [argument.replace(LAST_URL, around.page.url) for argument in call.arguments]
    return await HELPERS[call.name].function(around, *arguments)


async def reddit_get_post_url(around: Surroundings, url: str) -> str:
    """The address of the post that a page under it belongs to; other addresses as they are."""
    parts = urlsplit(url)
    path = parts.path.split("/")
    if len(path) < 4 or path[1] != "f":
        return url
    return f"{parts.scheme}://{parts.netloc}/f/{path[2]}/{path[3]}/"


async def gitlab_get_project_memeber_role(around: Surroundings, account: str) -> str:
    """The role of `account` on the page of a project's members. The benchmark spells the name so."""
    script = """(account) => {
        const names = [...document.querySelectorAll("td[data-label='Account'] span.gl-avatar-labeled-sublabel")];
        const row = names.findIndex((name) => name.outerText === '@' + account);
        return document.querySelectorAll('td.col-max-role span')[row]?.outerText ?? '';
    }"""
    return str(await around.page.evaluate(script, account))


async def shopping_get_latest_order_url(around: Surroundings) -> str:
    """The page of the newest order of the whole shop."""
    newest = {
        "searchCriteria[sortOrders][0][field]": "created_at",
        "searchCriteria[sortOrders][0][direction]": "DESC",
        "searchCriteria[pageSize]": "1",
    }
    shop, answer = await _ask_shop(around, "/rest/V1/orders", newest)
    orders = answer.get("items") if isinstance(answer, dict) else None
    if not orders:
        return ""
    return f"{shop}/sales/order/view/order_id/{int(orders[0]['increment_id'])}/"


async def shopping_get_sku_latest_review_author(around: Surroundings, sku: str) -> str:
    review = await _latest_review(around, sku)
    return str(review["nickname"]) if review else ""


async def shopping_get_sku_latest_review_rating(around: Surroundings, sku: str) -> str:
    """In percent."""
    review = await _latest_review(around, sku)
    return str(review["ratings"][0]["percent"]) if review else ""


async def _latest_review(around: Surroundings, sku: str) -> dict[str, Any] | None:
    _, reviews = await _ask_shop(around, f"/rest/V1/products/{quote(sku, safe='')}/reviews", {})
    return reviews[-1] if reviews else None


async def _ask_shop(around: Surroundings, path: str, parameters: Mapping[str, str]) -> tuple[str, Any]:
    """Base URL of the shop and the JSON answer of its REST interface, asked as the administrator."""
    import httpx

    shop = around.urls.get("shopping", "").rstrip("/")
    if not shop:
        raise ConfigError(
            "a helper asks the site 'shopping', which has no URL", hint="give it one in `sites`"
        )
    administrator = account_of("shopping_site_admin")
    credentials = {"username": administrator.name, "password": administrator.password}
    try:
        async with httpx.AsyncClient(
            timeout=REST_TIMEOUT_S, trust_env=False, follow_redirects=True
        ) as client:
            login = await client.post(f"{shop}/rest/default/V1/integration/admin/token", json=credentials)
            login.raise_for_status()
            header = {"Authorization": f"Bearer {login.json()}"}
            response = await client.get(f"{shop}{path}", params=dict(parameters), headers=header)
            response.raise_for_status()
            return shop, response.json()
    except (httpx.HTTPError, ValueError) as error:
        raise WorldError(
            f"the shop's REST interface at {shop} did not answer: {error or type(error).__name__}",
            hint="check the site and the administrator's account (COEVO_WEBARENA_SHOPPING_SITE_ADMIN_USER, …_PASSWORD)",
        ) from error


@dataclass(frozen=True, slots=True)
class Helper:
    """`parameters`: "page" or "text" for each argument of the expression."""

    function: Callable[..., Awaitable[str]]
    parameters: tuple[str, ...] = ()


HELPERS: Mapping[str, Helper] = {
    "reddit_get_post_url": Helper(reddit_get_post_url, ("text",)),
    "gitlab_get_project_memeber_role": Helper(gitlab_get_project_memeber_role, ("page", "text")),
    "shopping_get_latest_order_url": Helper(shopping_get_latest_order_url),
    "shopping_get_sku_latest_review_author": Helper(shopping_get_sku_latest_review_author, ("text",)),
    "shopping_get_sku_latest_review_rating": Helper(shopping_get_sku_latest_review_rating, ("text",)),
}
