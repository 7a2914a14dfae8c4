"""Every form of evaluator that the public task files have, each with what passes and what does not."""

import re

from webarena.configs import parse_config
from webarena.helpers import Call

BOTH = ("webarena", "vab")
MEMBERS = """<table><tr><td data-label="Account"><span class="gl-avatar-labeled-sublabel">@yjlou</span></td>
<td class="col-max-role"><span>Guest</span></td></tr>
<tr><td data-label="Account"><span class="gl-avatar-labeled-sublabel">@koush</span></td>
<td class="col-max-role"><span>%s</span></td></tr></table>"""
POST = "<div class='submission__inner'>%s</div>"
REVIEW = {"nickname": "Ann", "ratings": [{"rating_name": "Rating", "percent": 80}]}


def task(eval_types, **evaluation):
    raw = {
        "sites": ["shopping", "reddit", "gitlab"],
        "task_id": 1,
        "start_url": "__SHOPPING__",
        "intent": "Do it",
        "intent_template_id": 1,
        "eval": {"eval_types": eval_types, **evaluation},
    }
    return parse_config(raw)


def answers(**references):
    return task(["string_match"], reference_answers=references, string_note="no such product")


def target(url, locator, prep=None, **contents):
    one = {"url": url, "locator": locator, "required_contents": contents}
    return task(["program_html"], program_html=[one | ({"prep_actions": prep} if prep else {})])


# --- answers: form, task, dialects, answer that passes, answer that does not
ANSWERS = [
    ("exact_match one", answers(exact_match="5 hours"), BOTH, "5 Hours", "5"),
    ("must_include one", answers(must_include=["kettle"]), BOTH, "a kettle", "a pot"),
    ("must_include one char", answers(must_include=["0"]), BOTH, "0 of them", "10 of them"),
    ("must_include one OR", answers(must_include=["65 |OR| 3"]), ("vab",), "3 stars", "4 stars"),
    ("must_include many", answers(must_include=["pot", "pan"]), BOTH, "pot, pan", "pot"),
    ("fuzzy_match one", answers(fuzzy_match=["yes"]), BOTH, "indeed", ""),
    ("fuzzy_match one char", answers(fuzzy_match=["3"]), BOTH, "three", ""),
    ("fuzzy_match many", answers(fuzzy_match=["yes", "no"]), BOTH, "either", ""),
    ("unachievable one", answers(fuzzy_match="N/A"), BOTH, "N/A", "done"),
    (
        "must_include one + fuzzy_match one",
        answers(must_include=["42"], fuzzy_match=["yes"]),
        BOTH,
        "yes, 42",
        "yes, 41",
    ),
]

# --- addresses: form, reference, note, path that passes, path that does not
ADDRESSES = [
    ("GOLD in PRED", "__REDDIT__/f/books", "GOLD in PRED", "/f/books/1", "/f/film"),
    ("GOLD in PRED OR", "__REDDIT__/f/a |OR| __REDDIT__/f/b", "GOLD in PRED", "/f/b", "/f/c"),
    (
        "GOLD in PRED query",
        "__GITLAB__/issues?scope=all",
        "GOLD in PRED",
        "/issues?scope=all",
        "/issues?scope=me",
    ),
    ("default", "__GITLAB__/issues", None, "/issues", "/boards"),
]

# --- pages: form, task, dialects, pages that pass, pages that do not; the agent stops on /f/books/7/title
PAGES = [
    (
        "address document. exact_match",
        target("__SHOPPING__/a", "document.querySelector('h1').outerText", exact_match="Kettle"),
        BOTH,
        {"/a": "<h1>kettle</h1>"},
        {"/a": "<h1>kettle two</h1>"},
    ),
    (
        "address document. must_include",
        target(
            "__SHOPPING__/a", "document.querySelector('h1').outerText", must_include=["Copper Kettle", "new"]
        ),
        BOTH,
        {"/a": "<h1>new copper kettle</h1>"},
        {"/a": "<p>new copper kettle</p>"},
    ),
    (
        "address document. must_include OR",
        target("__SHOPPING__/a", "document.querySelector('h1').outerText", must_include=["a pot |OR| a pan"]),
        BOTH,
        {"/a": "<h1>a pan</h1>"},
        {"/a": "<h1>a lid</h1>"},
    ),
    (
        "address func:gitlab_get_project_memeber_role must_include",
        target(
            "__GITLAB__/members",
            "func:gitlab_get_project_memeber_role(__page__, 'koush')",
            must_include=["Developer"],
        ),
        BOTH,
        {"/members": MEMBERS % "Developer"},
        {"/members": MEMBERS % "Reporter"},
    ),
    (
        "address page must_include",
        target("__SHOPPING__/a", "", must_include=["a copper kettle"]),
        BOTH,
        {"/a": "<p>A copper kettle</p>"},
        {"/a": (404, "gone")},
    ),
    (
        "address page must_include OR",
        target("__SHOPPING__/a", "", must_include=["a pot |OR| a pan"]),
        BOTH,
        {"/a": "<p>a pan</p>"},
        {"/a": "<p>a lid</p>"},
    ),
    (
        "func:reddit_get_post_url [...document. must_include",
        target(
            "func:reddit_get_post_url('__last_url__')",
            "[...document.querySelectorAll('.submission__inner a')].map(a => a.getAttribute('href')).join(' ')",
            must_include=["__REDDIT__/f/books/3"],
        ),
        BOTH,
        {"/f/books/7/": POST % "<a href='http://x'></a><a href='SITE/f/books/3'></a>"},
        {"/f/books/7/": POST % "<a href='http://x'></a>"},
    ),
    (
        "func:reddit_get_post_url document. exact_match",
        target(
            "func:reddit_get_post_url('__last_url__')",
            "document.querySelector('.submission__inner').outerText",
            exact_match="hello",
        ),
        BOTH,
        {"/f/books/7/": POST % "Hello"},
        {"/f/books/7/": POST % "Hello you"},
    ),
    (
        "func:reddit_get_post_url document. fuzzy_match",
        target(
            "func:reddit_get_post_url('__last_url__')",
            "document.querySelector('.submission__inner').outerText",
            fuzzy_match=["yes", "no"],
        ),
        ("vab",),
        {"/f/books/7/": POST % "either"},
        {"/f/books/7/": POST % ""},
    ),
    (
        "func:reddit_get_post_url document. must_include",
        target(
            "func:reddit_get_post_url('__last_url__')",
            "document.querySelector('.submission__inner').outerText",
            must_include=["book club"],
        ),
        BOTH,
        {"/f/books/7/": POST % "a book club"},
        {"/f/books/7/title": POST % "a book club"},
    ),
    (
        "func:shopping_get_latest_order_url document. must_include",
        target(
            "func:shopping_get_latest_order_url()",
            "document.querySelector('.items').outerText",
            must_include=["pot"],
        ),
        BOTH,
        {"/sales/order/view/order_id/12/": "<p class=items>a pot"},
        {"/sales/order/view/order_id/11/": "<p class=items>a pot"},
    ),
    (
        "last document. exact_match",
        target("last", "document.querySelector('input').value", exact_match="5"),
        BOTH,
        {"/f/books/7/title": "<input value=5>"},
        {"/f/books/7/title": "<input value=55>"},
    ),
    (
        "last document. exact_match prep",
        target(
            "last",
            "document.querySelector('input').value",
            prep=["document.querySelector('button').click()", "document.querySelector('input').value += '!'"],
            exact_match="5!",
        ),
        BOTH,
        {"/f/books/7/title": "<button onclick=\"document.body.innerHTML='<input value=5>'\">"},
        {"/f/books/7/title": "<input value=5>"},  # without the button nothing is prepared
    ),
    (
        "last document. fuzzy_match",
        target("last", "document.querySelector('[title=\"Mind\"').value", fuzzy_match=["yes", "no"]),
        ("vab",),
        {"/f/books/7/title": "<textarea title=Mind>either</textarea>"},
        {"/f/books/7/title": "<textarea>either</textarea>"},
    ),
    (
        "last document. must_include",
        target("last", "document.querySelector('h1').outerText", must_include=["a pot"]),
        BOTH,
        {"/f/books/7/title": "<h1>a pot &amp; a pan</h1>"},
        {"/f/books/7/title": "<h1>a pan</h1>"},
    ),
    (
        "last func:shopping_get_sku_latest_review_author must_include",
        target("last", "func:shopping_get_sku_latest_review_author('B07')", must_include=["Ann"]),
        BOTH,
        {"reviews": [REVIEW | {"nickname": "Bob"}, REVIEW]},
        {"reviews": [REVIEW, REVIEW | {"nickname": "Bob"}]},
    ),
    (
        "last func:shopping_get_sku_latest_review_rating must_include",
        target("last", "func:shopping_get_sku_latest_review_rating('B07')", must_include=["80"]),
        BOTH,
        {"reviews": [REVIEW]},
        {"reviews": []},
    ),
    (
        "last page must_include",
        target("last", "", must_include=["a pot"]),
        BOTH,
        {"/f/books/7/title": "<p>A pot"},
        {"/f/books/7/title": "<p>A pan"},
    ),
]


def form_of_answers(config):
    def one(check):
        features = [check.kind, "one" if len(check.values) == 1 else "many"]
        if len(check.values) == 1 and len(check.values[0]) == 1:
            features.append("char")
        return " ".join([*features, *["OR"] * any(" |OR| " in value for value in check.values)])

    return " + ".join(map(one, config.eval.reference_answers))


def form_of_address(config):
    reference = config.eval.reference_url
    features = [
        config.eval.url_note or "default",
        *["OR"] * (" |OR| " in reference),
        *["query"] * ("?" in reference),
    ]
    return " ".join(features)


def form_of_target(one):
    url = f"func:{one.url.name}" if isinstance(one.url, Call) else "last" if one.url == "last" else "address"
    if isinstance(one.locator, Call):
        locator = f"func:{one.locator.name}"
    else:
        locator = re.match(r"\[?\.*document\.", one.locator)[0] if one.locator else "page"
    features = [
        url,
        locator,
        one.contents.kind,
        *["OR"] * any(" |OR| " in value for value in one.contents.values),
    ]
    return " ".join([*features, *["prep"] * bool(one.prep_actions)])
