"""The two sites of the local shop: invented content, pages in a real browser, and tasks solved by their scripts."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from webarena.arena import Arena
from webarena.browser import Browser
from webarena.configs import TaskConfig, parse_config
from webarena.evaluators import Evaluator
from webarena.observation import INIT_SCRIPT
from webarena.sites import load_site
from webarena.sites.base import Account, Instance, Template
from webarena.sites.seed import seed_state
from webarena.sites.shopping.content import Shop, content, dollars, slugify
from webarena.sites.shopping.pictures import draw, picture_name

SEED = 3
SITES = {name: load_site(name) for name in ("shopping", "shopping_admin")}
SAMPLE = (1002, 1008, 1012, 1027, 1102, 1121)
"""Templates of every kind and level whose first instance is solved here; `coevo webarena solve` does them all."""


# content, without the application


def test_content_depends_on_the_seed_alone() -> None:
    assert content.__wrapped__(5) == content(5)
    assert content(5).products != content(6).products


@pytest.mark.parametrize("seed", range(3))
def test_content_is_rich_and_consistent(seed: int) -> None:
    shop = content(seed)
    assert len(shop.products) >= 150
    assert len([category for category in shop.categories if category.parent]) >= 12
    assert len(shop.customers) >= 25
    assert len(shop.reviews) >= 300
    assert len(shop.orders) >= 60
    assert len({order.status for order in shop.orders}) == 5
    assert any(product.stock == 0 for product in shop.products)
    assert any(review.pending for review in shop.reviews)
    for things in (shop.categories, shop.products, shop.customers, shop.reviews):
        assert [thing.id for thing in things] == list(range(1, len(things) + 1))
    for names in (
        [product.title for product in shop.products],
        [category.name for category in shop.categories],
        [customer.email for customer in shop.customers],
        [order.number for order in shop.orders],
        [(review.product, review.customer) for review in shop.reviews],
        [(review.product, review.title) for review in shop.reviews],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []
    texts = [product.description for product in shop.products] + [review.body for review in shop.reviews]
    assert [text for text in texts if re.search(r"[{}]", text)] == []


def test_amounts_and_slugs_are_those_of_the_shop() -> None:
    assert dollars(129950) == "$1,299.50"
    assert dollars(0) == "$0.00"
    text = importlib.import_module("django.utils.text")
    for product in content(0).products:
        assert slugify(product.title) == text.slugify(product.title)


def test_pictures_are_drawn_from_their_names() -> None:
    for product in content(0).products:
        stem = picture_name(product.shape, product.colour).removeprefix("drawn/").removesuffix(".svg")
        assert (draw(stem) or "").startswith("<svg")
    assert draw("pot_octarine") is None
    assert draw("../settings") is None


# templates


@pytest.mark.parametrize(
    ("name", "first", "last", "least"), [("shopping", 1001, 1099, 12), ("shopping_admin", 1101, 1199, 10)]
)
def test_templates_have_levels_kinds_and_many_distinct_instances(
    name: str, first: int, last: int, least: int
) -> None:
    templates = SITES[name].templates()
    assert len({template.id for template in templates}) == len(templates) >= least
    assert all(first <= template.id <= last and template.site == name for template in templates)
    assert {template.level for template in templates} == {1, 2, 3}
    assert {template.kind for template in templates} == {
        "information",
        "navigation",
        "change",
        "unachievable",
    }
    few = []
    for template in templates:
        instances = template.instances(SEED)
        configs = [config_of(template, instance) for instance in instances]
        assert len({config.intent for config in configs}) == len(configs)
        assert not [config.intent for config in configs if re.search(r"{{|}}", config.intent)]
        assert instances == template.instances(SEED)
        if len(instances) < 8:
            few.append(template.id)
    assert few == ([] if name == "shopping" else [1101, 1103]), (
        "those have as many as there are figures and statuses"
    )


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SITES["shopping"].missing() == ""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "django-oscar" in SITES["shopping"].missing()
    assert "coevo[arena]" in SITES["shopping_admin"].missing()


# the application


@dataclass
class Running:
    """Both sites with a browser. `requests` are those that any page has made, `failures` what answered with 500 or more."""

    arena: Arena
    browser: Browser
    requests: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def urls(self) -> dict[str, str]:
        return self.arena.urls(0)

    async def page(self, site: str) -> Any:
        state = self.arena.storage_state(0, [site], "default")
        page = await self.browser.new_page(init_script=INIT_SCRIPT, storage_state=state)
        page.set_default_timeout(30_000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("response", lambda found: self.failures.append(found.url) if found.status >= 500 else None)
        page.on("pageerror", lambda error: self.failures.append(str(error)))
        return page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    browser = Browser(viewport=(1280, 720))
    try:
        arena = await Arena.start(list(SITES), slots=1, seed=SEED, browser=browser)
        try:
            yield Running(arena, browser)
        finally:
            await arena.close()
    finally:
        await browser.close()
        patch.undo()


def config_of(template: Template, instance: Instance) -> TaskConfig:
    intent = template.intent
    for name, value in instance.values.items():
        intent = intent.replace(f"{{{{{name}}}}}", value)
    raw = {
        "sites": [template.site],
        "task_id": template.id,
        "intent": intent,
        "intent_template_id": template.id,
        "start_url": f"__{template.site.upper()}__{instance.start}",
        "eval": dict(instance.eval),
    }
    return parse_config(raw)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_tasks_are_solved_by_their_scripts_and_not_by_doing_nothing(running: Running) -> None:
    """In both dialects. Afterwards no page has asked for anything from elsewhere, and nothing has failed."""
    verdicts: dict[int, list[float]] = {}
    for name, site in SITES.items():
        page, url = await running.page(name), running.urls[name]
        for template in site.templates():
            if template.id not in SAMPLE:
                continue
            instance = template.instances(SEED)[0]
            config = config_of(template, instance)
            await running.arena.restore(0, [name])
            found = verdicts[template.id] = []
            for answer in (None, ""):
                await page.goto(url + instance.start)
                if answer is None:
                    idle = await Evaluator("vab").score(config, answer="", page=page, urls=running.urls)
                    found.append(idle.reward)
                    continue
                said = await template.solve(page, instance, url)
                for dialect in ("vab", "webarena"):
                    score = await Evaluator(dialect).score(config, answer=said, page=page, urls=running.urls)
                    found.append(score.reward)
    assert verdicts == {number: [0.0, 1.0, 1.0] for number in SAMPLE}
    own = (*running.urls.values(), "data:")
    assert len(running.requests) > 100
    assert [url for url in running.requests if not url.startswith(own)] == []
    assert running.failures == []


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_who_only_looks_changes_nothing(running: Running) -> None:
    """Pages, searches, and the links at which Oscar would write: a restore afterwards finds every file as it was."""
    page, url = await running.page("shopping"), running.urls["shopping"]
    server = running.arena.servers["shopping"]
    await running.arena.restore(0, ["shopping"])
    shop = content(SEED)
    product = shop.products[0]
    paths = [
        "/catalogue/",
        product.path,
        "/search/?q=teapot",
        "/accounts/",
        "/accounts/orders/",
        "/basket/",
        "/checkout/",
        "/offers/",
        shop.pages[0].path,
        f"/accounts/wishlists/add/{product.id}/",
        f"/accounts/wishlists/{shop.wish_lists[0].key}/add/{product.id}/",
        "/accounts/addresses/2/default_for_shipping/",
    ]
    for path in paths:
        response = await page.request.get(url + path)
        assert response.status == 200, path
    assert "Confirm" in await response.text()
    assert (await server.ask("restore", slot=0))["files"] == 0
    await page.goto(url + paths[-1])
    await page.get_by_role("button", name="Confirm").click()
    await page.wait_for_url("**/accounts/addresses/")
    assert (await server.ask("restore", slot=0))["files"] > 0


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", SITES)
async def test_a_login_outlives_a_restore_to_the_seed(running: Running, name: str) -> None:
    site, url = SITES[name], running.urls[name]
    page = await running.page(name)
    account = site.accounts["default"]
    seed = seed_state(name, SEED)
    await running.arena.servers[name].ask("restore", slot=0, **{"from": str(seed)})
    assert await site.logged_in(page, account, url)
    assert not await site.logged_in(page, Account("nora@example.com", ""), url)
    cookies = {cookie["name"] for cookie in await page.context.cookies()}
    assert f"coevo_{name}_session" in cookies
    await page.context.clear_cookies()
    assert not await site.logged_in(page, account, url)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_search_filters_and_sorts_as_the_content_says(running: Running) -> None:
    page, url = await running.page("shopping"), running.urls["shopping"]
    shop = content(SEED)
    wool = [product for product in shop.products if "wool" in product.material]
    within = [product for product in wool if 2000 <= product.price <= 5000]
    await page.goto(f"{url}/search/?q=wool&sort_by=price-asc&selected_facets=price%3A%5B20+TO+50%5D")
    shown = await page.locator(".product_pod .price_color").all_inner_texts()
    prices = sorted(product.price for product in shop.products if _has(shop, product.id, "wool"))
    expected = [dollars(price) for price in prices if 2000 <= price <= 5000]
    assert len(within) <= len(expected)
    assert shown == expected[:12]
    assert await page.get_by_text(f"Found {len(expected)} results").count() == 1
    lamps = next(category for category in shop.categories if category.name == "Lamps")
    await page.goto(url + lamps.path(shop) + "?sort_by=title-desc")
    titles = await page.locator(".product_pod h3").all_inner_texts()
    assert titles == sorted((product.title for product in shop.shelf(lamps)), reverse=True)[:12]
    await page.goto(f"{url}/search/?q=zeppelin")
    await page.get_by_text("Found 0 results").wait_for()


def _has(shop: Shop, number: int, word: str) -> bool:
    product = shop.product(number)
    texts = (product.title, product.description, *product.attributes.values())
    return any(word in text.lower() for text in (*texts, shop.category(product.category).name))


@pytest.mark.browser  # it takes the states that the browser tests serve
@pytest.mark.asyncio(loop_scope="module")
async def test_builds_are_equal_and_hold_the_content(running: Running) -> None:
    """Both sites build the same shop, in processes of their own: so a build is a function of the seed."""
    first, second = (dump(seed_state(name, SEED)) for name in SITES)
    assert first == second
    shop = content(SEED)
    tables = Counter(line.split('"')[1] for line in first if line.startswith("INSERT INTO"))
    assert tables["catalogue_product"] == len(shop.products)
    assert tables["reviews_productreview"] == len(shop.reviews)
    assert tables["order_order"] == len(shop.orders)
    assert tables["auth_user"] == len(shop.customers)


def dump(state: Path) -> list[str]:
    (file,) = state.glob("*.sqlite3")
    with sqlite3.connect(file) as connection:
        return list(connection.iterdump())


def test_a_process_serves_one_of_the_two_sites() -> None:
    script = (
        "from webarena.sites.shopping import app\n"
        "app.setup('shopping')\n"
        "app.setup('shopping')\n"
        "try:\n    app.setup('shopping_admin')\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "another site than shopping_admin" in found.stdout, found.stderr
