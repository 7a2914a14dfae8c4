"""Every form of evaluator that the public task files have: with an answer or page that passes, and one that does not."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio
from webarena_cases import (
    ADDRESSES,
    ANSWERS,
    BOTH,
    MEMBERS,
    PAGES,
    answers,
    form_of_address,
    form_of_answers,
    form_of_target,
    target,
    task,
)
from webarena_site import Site

from coevo.errors import ConfigError, WorldError
from webarena.browser import Browser
from webarena.configs import load_configs
from webarena.evaluators import Evaluator
from webarena.observation import INIT_SCRIPT

DATA = Path(__file__).parents[2] / "shared" / "data" / "webarena"


class ScriptedJudge:
    """Finds answers equivalent to the references in `agrees`, and reports the same that contain a word of the reason."""

    def __init__(self, *agrees):
        self.agrees = agrees
        self.asked = []

    async def equivalent(self, intent, reference, answer):
        self.asked.append((intent, reference, answer))
        return reference in self.agrees

    async def same_reason(self, intent, reason, report):
        self.asked.append((intent, reason, report))
        return any(word in report for word in reason.split())


@pytest.mark.skipif(not DATA.is_dir(), reason="the public task files are not beside the repository")
def test_every_form_of_the_public_tasks_is_covered_here():
    configs = load_configs(DATA / "webarena.raw.json") + load_configs(DATA / "webarena_lite.raw.json")
    found = {form_of_answers(config) for config in configs if "string_match" in config.eval.eval_types}
    assert found == {form for form, *_ in ANSWERS}
    found = {form_of_address(config) for config in configs if "url_match" in config.eval.eval_types}
    assert found == {form for form, *_ in ADDRESSES}
    found = {form_of_target(one) for config in configs for one in config.eval.program_html}
    assert found == {form for form, *_ in PAGES}


@pytest.mark.skipif(not DATA.is_dir(), reason="the public task files are not beside the repository")
def test_what_the_dialects_can_score_of_the_public_tasks():
    full, lite = (load_configs(DATA / f"{name}.raw.json") for name in ("webarena", "webarena_lite"))
    judge = ScriptedJudge()

    def refused(evaluator, configs):
        ids = []
        for config in configs:
            try:
                evaluator.check(config)
            except ConfigError:
                ids.append(config.task_id)
        return ids

    assert refused(Evaluator("vab", judge), full) == refused(Evaluator("vab", judge), lite) == []
    assert refused(Evaluator("webarena", judge), full) == []
    assert refused(Evaluator("webarena", judge), lite) == [123, 139, 140, 142]  # fuzzy_match on a page
    assert len(refused(Evaluator("vab"), lite)) == 40
    assert len(refused(Evaluator("webarena"), full)) == 118


def test_the_cases_are_of_the_forms_they_stand_for():
    for form, config, *_ in ANSWERS:
        assert form_of_answers(config) == form
    for form, config, *_ in PAGES:
        assert form_of_target(config.eval.program_html[0]) == form


def at(url="http://site/", context=None):
    """A page that is only looked at for its address."""
    return SimpleNamespace(url=url)


@pytest.mark.parametrize(
    ("config", "dialect", "good", "bad"),
    [
        pytest.param(config, dialect, good, bad, id=f"{dialect}: {form}")
        for form, config, dialects, good, bad in ANSWERS
        for dialect in dialects
    ],
)
async def test_answers(config, dialect, good, bad):
    evaluator = Evaluator(dialect, ScriptedJudge("yes", "no", "yes, no", "3"))
    for answer, reward in ((good, 1.0), (bad, 0.0)):
        score = await evaluator.score(config, answer=answer, page=at(), urls={})
        assert (score.reward, score.components, score.scorer) == (
            reward,
            {"string_match": reward},
            f"{dialect}/1",
        )


async def test_alternatives_in_an_answer_are_text_to_upstream():
    config = answers(must_include=["65 |OR| 3"])
    assert (await Evaluator("webarena").score(config, answer="3 stars", page=at(), urls={})).reward == 0


async def test_upstream_asks_for_each_reference_and_vab_once_for_all():
    config = answers(fuzzy_match=["yes", "no"])
    upstream, vab = ScriptedJudge("yes", "no"), ScriptedJudge("yes, no")
    await Evaluator("webarena", upstream).score(config, answer="'Either'", page=at(), urls={})
    await Evaluator("vab", vab).score(config, answer="'Either'", page=at(), urls={})
    assert upstream.asked == [("Do it", "yes", "either"), ("Do it", "no", "either")]
    assert vab.asked == [("Do it", "yes, no", "either")]


async def test_the_judge_is_not_asked_what_cannot_matter():
    judge = ScriptedJudge("yes")
    config = answers(must_include=["5"], fuzzy_match=["yes"])
    for answer in ("6", "", " "):
        await Evaluator("vab", judge).score(config, answer=answer, page=at(), urls={})
    await Evaluator("vab", judge).score(answers(fuzzy_match=["yes"]), answer="", page=at(), urls={})
    await Evaluator("vab", judge).score(answers(fuzzy_match="N/A"), answer="n/a", page=at(), urls={})
    assert judge.asked == []


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(
    ("answer", "reward", "asked"),
    [("N/A", 1, 0), ("it has no such product", 1, 1), ("the button is broken", 0, 1), ("", 0, 0)],
)
async def test_a_task_that_cannot_be_done(dialect, answer, reward, asked):
    judge = ScriptedJudge()
    config = answers(fuzzy_match="N/A")
    assert (await Evaluator(dialect, judge).score(config, answer=answer, page=at(), urls={})).reward == reward
    assert judge.asked == [("Do it", "no such product", answer.lower())] * asked


@pytest.mark.parametrize("dialect", BOTH)
async def test_the_verdict_on_a_reason_replaces_what_came_before(dialect):
    config = answers(must_include=["5"], fuzzy_match="N/A")
    score = await Evaluator(dialect, ScriptedJudge()).score(
        config, answer="no such product", page=at(), urls={}
    )
    assert score.reward == 1


@pytest.mark.parametrize(
    ("references", "good", "bad"),
    [
        ({"must_exclude": ["pot"]}, "a pan", "a pot"),
        ({"one_of": ["pot", "pan"]}, "a pan", "a lid"),
        ({"required_values": [">= 300", "< 700"]}, "3,00", "299"),
    ],
)
async def test_answers_of_visual_webarena_are_vab_only(references, good, bad):
    config = answers(**references)
    assert (await Evaluator("vab").score(config, answer=good, page=at(), urls={})).reward == 1
    assert (await Evaluator("vab").score(config, answer=bad, page=at(), urls={})).reward == 0
    with pytest.raises(ConfigError, match="task 1: the dialect webarena has no " + next(iter(references))):
        await Evaluator("webarena").score(config, answer=good, page=at(), urls={})


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(
    ("form", "reference", "note", "good", "bad"), ADDRESSES, ids=[row[0] for row in ADDRESSES]
)
async def test_addresses(dialect, form, reference, note, good, bad):
    config = task(["url_match"], reference_url=reference, **({"url_note": note} if note else {}))
    assert form_of_address(config) == form
    urls = {"reddit": "http://site", "gitlab": "http://site/"}
    for path, reward in ((good, 1.0), (bad, 0.0)):
        page = at(f"http://site{path}")
        score = await Evaluator(dialect).score(config, answer="", page=page, urls=urls)
        assert (score.reward, score.components) == (reward, {"url_match": reward})


async def test_the_reward_is_the_product():
    config = task(
        ["string_match", "url_match"],
        reference_answers={"exact_match": "5"},
        reference_url="__GITLAB__/a",
        url_note="GOLD in PRED",
    )
    for answer, path, components in (
        ("5", "/a", {"string_match": 1.0, "url_match": 1.0}),
        ("6", "/a", {"string_match": 0.0, "url_match": 1.0}),
        ("5", "/b", {"string_match": 1.0, "url_match": 0.0}),
    ):
        page, urls = at(f"http://g{path}"), {"gitlab": "http://g"}
        score = await Evaluator("vab").score(config, answer=answer, page=page, urls=urls)
        assert score.components == components
        assert score.reward == min(components.values())


@pytest.mark.parametrize(
    ("evaluator", "config", "message"),
    [
        (
            lambda: Evaluator("verified"),
            None,
            "no evaluator dialect 'verified'\n  → use one of webarena, vab",
        ),
        (lambda: Evaluator("vab"), answers(fuzzy_match=["a"]), "task 1 needs a judge"),
        (lambda: Evaluator("vab"), answers(fuzzy_match="N/A"), "name a chat model, judge = 'provider:model'"),
        (
            lambda: Evaluator("webarena", ScriptedJudge()),
            target("last", "lambda:() => 5", fuzzy_match=["a"]),
            "has no fuzzy_match on a page, lambda: locators",
        ),
        (
            lambda: Evaluator("webarena"),
            task(["url_match"], reference_url="http://x", url_note="EXACT"),
            "no url_match rule 'EXACT'",
        ),
    ],
)
def test_what_cannot_be_scored_is_told_before(evaluator, config, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        evaluator().check(config)


async def test_a_site_without_url_is_named():
    config = task(["url_match"], reference_url="__REDDIT__/f/a", url_note="GOLD in PRED")
    with pytest.raises(ConfigError, match="the site 'reddit', which has no URL"):
        await Evaluator("vab").score(config, answer="", page=at(), urls={"gitlab": "http://g"})


in_a_browser = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def server():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def site(server):
    server.clear()
    server.orders.append({"increment_id": "000000012"})
    return server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    browser = Browser()
    yield browser
    await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(browser):
    return await browser.new_page(init_script=INIT_SCRIPT)


async def score(evaluator, config, page, site, pages, *, stop="/f/books/7/title", answer=""):
    site.reviews["B07"] = pages.get("reviews", [])
    site.pages.clear()
    site.pages[stop] = "<title>here</title>"
    for path, text in pages.items():
        if path.startswith("/"):
            site.pages[path] = text.replace("SITE", site.url) if isinstance(text, str) else text
    await page.goto(site.url + stop)
    urls = dict.fromkeys(("shopping", "reddit", "gitlab"), site.url)
    return await evaluator.score(config, answer=answer, page=page, urls=urls)


class TestPages:
    pytestmark = in_a_browser

    @pytest.mark.parametrize(
        ("config", "dialect", "good", "bad"),
        [
            pytest.param(config, dialect, good, bad, id=f"{dialect}: {form}")
            for form, config, dialects, good, bad in PAGES
            for dialect in dialects
        ],
    )
    async def test_forms(self, page, site, config, dialect, good, bad):
        evaluator = Evaluator(dialect, ScriptedJudge("yes, no"))
        for pages, reward in ((good, 1.0), (bad, 0.0)):
            result = await score(evaluator, config, page, site, pages)
            assert (result.reward, result.components) == (reward, {"program_html": reward})

    async def test_every_target_must_hold(self, page, site):
        html = [
            {"url": "last", "locator": "document.title", "required_contents": {"exact_match": "here"}},
            {"url": "__GITLAB__/b", "locator": "document.title", "required_contents": {"exact_match": "b"}},
            {"url": "last", "locator": "document.title", "required_contents": {"exact_match": "b"}},
        ]
        config = task(["program_html"], program_html=html)
        pages = {"/b": "<title>b</title>"}
        assert (await score(Evaluator("vab"), config, page, site, pages)).reward == 1
        assert (await score(Evaluator("vab"), config, page, site, {"/b": "<title>c</title>"})).reward == 0

    async def test_the_address_is_judged_before_the_pages_are_visited(self, page, site):
        html = [
            {"url": "__GITLAB__/b", "locator": "document.title", "required_contents": {"exact_match": "b"}}
        ]
        types = ["program_html", "url_match"]
        config = task(types, program_html=html, reference_url="__REDDIT__/f/books", url_note="GOLD in PRED")
        result = await score(Evaluator("vab"), config, page, site, {"/b": "<title>b</title>"})
        assert result.components == {"program_html": 1.0, "url_match": 1.0}

    async def test_a_shop_without_orders_has_no_order_to_look_at(self, page, site):
        site.orders.clear()
        config = target("func:shopping_get_latest_order_url()", "", must_include=["a"])
        assert (await score(Evaluator("vab"), config, page, site, {})).reward == 0

    async def test_a_post_url_is_only_that_of_a_post(self, page, site):
        config = target("func:reddit_get_post_url('__last_url__')", "document.title", exact_match="forum")
        pages = {"/f/books": "<title>forum</title>"}
        assert (await score(Evaluator("vab"), config, page, site, pages, stop="/f/books")).reward == 1
        site.pages.clear()
        await page.goto("about:blank")
        urls = {"reddit": site.url}
        assert (await Evaluator("vab").score(config, answer="", page=page, urls=urls)).reward == 0

    async def test_the_address_of_the_page_is_no_code(self, page, site):
        stop = "/f/books/7/');document.title=('"
        config = target("func:reddit_get_post_url('__last_url__')", "document.title", exact_match="post")
        pages = {"/f/books/7/": "<title>post</title>"}
        assert (await score(Evaluator("vab"), config, page, site, pages, stop=stop)).reward == 1

    async def test_members_are_found_whatever_their_name(self, page, site):
        call = "func:gitlab_get_project_memeber_role(__page__, \"x'); throw 1; ('\")"
        config = target("__GITLAB__/members", call, must_include=["Developer"])
        assert (
            await score(Evaluator("vab"), config, page, site, {"/members": MEMBERS % "Developer"})
        ).reward == 0

    @pytest.mark.parametrize(
        ("contents", "html", "webarena", "vab"),
        [
            ({"must_include": ["a & b"]}, "<p>a & b", 1, 0),  # page.content() has a &amp; b
            ({"must_include": ["pot"]}, "<p>pots", 1, 0),
            ({"exact_match": "null"}, "<p>", 0, 0),
        ],
    )
    async def test_where_the_dialects_part(self, page, site, contents, html, webarena, vab):
        config = target("__GITLAB__/a", "", **contents)
        assert (await score(Evaluator("webarena"), config, page, site, {"/a": html})).reward == webarena
        assert (await score(Evaluator("vab"), config, page, site, {"/a": html})).reward == vab

    async def test_what_javascript_calls_nothing_is_the_text_none(self, page, site):
        config = target("last", "document.querySelector('h1')", exact_match="None")
        assert (await score(Evaluator("vab"), config, page, site, {})).reward == 1

    @pytest.mark.parametrize(
        ("locator", "contents", "reward"),
        [
            ("lambda:() => document.title", {"exact_match": "here"}, 1),
            ("lambda: () => document.title", {"must_exclude": ["there"]}, 1),
            ("lambda:() => document.title", {"must_exclude": ["here"]}, 0),
            ("lambda:() => 500", {"required_values": [">= 300"]}, 1),
            ("lambda:() => ''", {"must_exclude": ["x"]}, 0),  # nothing found: not the page that was meant
            ("lambda:() => nothing.there", {"must_exclude": ["x"]}, 0),
            ("document.nothing.there", {"must_exclude": ["x"]}, 1),  # nothing found: blank
        ],
    )
    async def test_locators_of_vab(self, page, site, locator, contents, reward):
        assert (
            await score(Evaluator("vab"), target("last", locator, **contents), page, site, {})
        ).reward == reward

    async def test_what_arrives_after_the_page_is_waited_for(self, page, site):
        script = (
            """<script>fetch('/late').then(r => r.text()).then(t => document.body.innerHTML = t)</script>"""
        )
        config = target("__GITLAB__/a", "document.querySelector('h1').outerText", exact_match="late")
        pages = {"/a": f"<body>{script}", "/late": "<h1>late</h1>"}
        assert (await score(Evaluator("vab"), config, page, site, pages)).reward == 1

    async def test_without_the_page_script_the_network_tells(self, browser, site):
        bare = await browser.new_page()
        script = "<script>setTimeout(() => document.body.innerHTML = '<h1>late</h1>', 100)</script>"
        config = target("__GITLAB__/a", "document.querySelector('h1').outerText", exact_match="late")
        assert (await score(Evaluator("vab"), config, bare, site, {"/a": f"<body>{script}"})).reward == 1
        await browser.close_page(bare)


class TestBrokenWorlds:
    pytestmark = in_a_browser

    async def test_a_site_that_does_not_answer(self, browser, site):
        site.hung.add("/a")
        own = await browser.new_page(init_script=INIT_SCRIPT)
        config = target("__GITLAB__/a", "", must_include=["a"])
        with pytest.raises(WorldError, match=r"/a did not load for scoring"):
            await score(Evaluator("vab", load_timeout_s=0.5), config, own, site, {})
        await browser.close_page(own)

    async def test_a_site_that_is_down(self, browser, site):
        own = await browser.new_page(init_script=INIT_SCRIPT)
        config = target("http://127.0.0.1:9/a", "", must_include=["a"])
        with pytest.raises(WorldError, match=r"127.0.0.1:9/a did not load for scoring: .*ERR_"):
            await score(Evaluator("vab"), config, own, site, {})
        await browser.close_page(own)

    async def test_a_site_with_an_error_of_its_own(self, page, site):
        config = target("__GITLAB__/a", "", must_include=["a"])
        with pytest.raises(WorldError, match="answered 502 while scoring"):
            await score(Evaluator("vab"), config, page, site, {"/a": (502, "a")})

    async def test_a_shop_that_refuses_the_administrator(self, page, site, monkeypatch):
        monkeypatch.setenv("COEVO_WEBARENA_SHOPPING_SITE_ADMIN_PASSWORD", "other")
        config = target("func:shopping_get_latest_order_url()", "", must_include=["a"])
        with pytest.raises(
            WorldError, match=r"REST interface at .* did not answer: .*401[^→]*→ .*COEVO_WEBARENA"
        ):
            await score(Evaluator("vab"), config, page, site, {})

    async def test_a_page_that_hangs(self, browser, site):
        own = await browser.new_page(init_script=INIT_SCRIPT)
        config = target(
            "last",
            "document.body.outerText + (() => { for (const end = performance.now() + 8000; performance.now() < end; ); })()",
            must_include=["a"],
        )
        with pytest.raises(WorldError, match=r"a locator while scoring: no answer within 3 s"):
            await score(Evaluator("vab", work_timeout_s=3), config, own, site, {})
        await browser.close_page(own)

    async def test_a_page_that_was_closed(self, browser, site):
        own = await browser.new_page(init_script=INIT_SCRIPT)
        await own.goto(site.url)
        await own.close()
        config = target("last", "document.title", exact_match="here")
        with pytest.raises(WorldError, match=r"while scoring: .*closed"):
            await Evaluator("vab").score(config, answer="", page=own, urls={})

    async def test_a_page_that_crashes(self, browser, site):
        own = await browser.new_page(init_script=INIT_SCRIPT)
        session = await own.context.new_cdp_session(own)
        config = target(
            "last", "document.head && new Promise(() => { document.title = 'waiting'; })", exact_match="here"
        )
        scoring = asyncio.create_task(score(Evaluator("vab"), config, own, site, {}))
        await own.wait_for_function("document.title === 'waiting'")
        crashing = asyncio.create_task(session.send("Page.crash"))
        with pytest.raises(WorldError, match=r"a locator while scoring: .*crash"):
            await scoring
        await browser.close_page(own)
        await asyncio.gather(crashing, return_exceptions=True)

    async def test_a_judge_that_fails(self, page, site):
        class Broken(ScriptedJudge):
            async def equivalent(self, intent, reference, answer):
                raise WorldError("the judge failed")

        with pytest.raises(WorldError, match="the judge failed"):
            await Evaluator("vab", Broken()).score(answers(fuzzy_match=["a"]), answer="b", page=page, urls={})
