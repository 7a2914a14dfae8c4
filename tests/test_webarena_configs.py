"""WebArena's task files: every public task loads, and a mistake is named with file, task and field."""

import copy
import json
import re
from pathlib import Path

import pytest

from coevo.errors import ConfigError
from webarena.configs import (
    Check,
    Target,
    load_configs,
    parse_config,
    resolve,
    resolve_evaluation,
)
from webarena.helpers import Call, parse_call

DATA = Path(__file__).parents[2] / "shared" / "data" / "webarena"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the public task files are not beside the repository"
)
FULL, LITE = DATA / "webarena.raw.json", DATA / "webarena_lite.raw.json"

URLS = {"shopping": "http://shop:7770/", "shopping_admin": "http://shop:7780/admin", "gitlab": "http://git"}
TASK = {
    "sites": ["shopping", "gitlab"],
    "task_id": 7,
    "require_login": True,
    "storage_state": "./.auth/shopping_state.json",
    "start_url": "__SHOPPING__/a |AND| __GITLAB__",
    "geolocation": None,
    "intent_template": "Find {{thing}}",
    "instantiation_dict": {"thing": "a kettle", "count": 2},
    "intent": "Find a kettle",
    "require_reset": False,
    "eval": {
        "eval_types": ["string_match", "program_html"],
        "reference_answers": {"must_include": ["kettle", "pot |OR| pan"]},
        "reference_url": "",
        "program_html": [
            {
                "url": "__GITLAB__/x",
                "locator": "document.title",
                "required_contents": {"must_include": ["__SHOPPING__/kettle"]},
            },
            {
                "url": "func:shopping_get_latest_order_url()",
                "locator": "",
                "required_contents": {"exact_match": "1"},
            },
        ],
    },
    "intent_template_id": 12,
}


def changed(**fields):
    """The task with some fields other; a name with two underscores leads into objects and lists."""
    task = copy.deepcopy(TASK)
    for name, value in fields.items():
        *path, last = name.split("__")
        place = task
        for step in path:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return task


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


class TestFields:
    def test_a_task(self):
        config = parse_config(TASK)
        assert (config.task_id, config.sites, config.intent_template_id) == (7, ("shopping", "gitlab"), 12)
        assert config.start_urls == ("__SHOPPING__/a", "__GITLAB__")
        assert (config.require_login, config.storage_state) == (True, "./.auth/shopping_state.json")
        assert config.eval.eval_types == ("string_match", "program_html")
        assert config.eval.reference_answers == (Check("must_include", ("kettle", "pot |OR| pan")),)
        first, second = config.eval.program_html
        assert first == Target(
            "__GITLAB__/x", "document.title", Check("must_include", ("__SHOPPING__/kettle",))
        )
        assert (second.url, second.contents) == (
            Call("shopping_get_latest_order_url"),
            Check("exact_match", ("1",)),
        )
        assert config.raw == TASK
        assert (config.level, config.split, config.old_task_id) == (None, None, None)

    def test_extras_of_the_local_arena(self):
        extras = {
            "level": 2,
            "kind": "change",
            "account": "ann",
            "split": "dev",
            "entity": "product/x",
            "note": 1,
        }
        config = parse_config(changed(coevo=extras))
        assert (config.level, config.kind, config.account, config.split, config.entity) == (
            2,
            "change",
            "ann",
            "dev",
            "product/x",
        )

    def test_what_may_be_left_out_may_be(self):
        least = {key: TASK[key] for key in ("sites", "task_id", "start_url", "intent", "intent_template_id")}
        config = parse_config(least | {"eval": {"eval_types": ["url_match"], "reference_url": "http://x"}})
        assert (config.require_login, config.storage_state, config.intent_template) == (False, None, "")

    def test_n_a_is_another_kind_of_reference(self):
        answers = {"fuzzy_match": "N/A"}
        config = parse_config(changed(eval__eval_types=["string_match"], eval__reference_answers=answers))
        assert config.eval.reference_answers == (Check("unachievable", ("N/A",)),)

    def test_a_single_text_is_a_list_of_one(self):
        config = parse_config(changed(eval__reference_answers={"must_include": "yjlou"}))
        assert config.eval.reference_answers == (Check("must_include", ("yjlou",)),)

    def test_of_several_contents_the_first_kind_counts(self):
        contents = {"must_include": ["b"], "exact_match": "a"}
        config = parse_config(changed(eval__program_html__0__required_contents=contents))
        assert config.eval.program_html[0].contents == Check("exact_match", ("a",))

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"intent": ...}, "intent: is missing"),
            ({"intent": None}, "intent: is null"),
            ({"intent": 5}, "intent: expected text, found 5"),
            ({"sites": "shop"}, "sites: unknown site 'shop'\n  → did you mean 'shopping'?"),
            ({"sites": [1]}, "sites: expected a list of text, found 1 in it"),
            ({"require_login": 1}, "require_login: expected true or false, found 1"),
            ({"intent_template_id": True}, "intent_template_id: expected a whole number, found true"),
            ({"start_url": "a |AND| "}, "start_url: an address is blank"),
            ({"instantiation_dict": []}, "instantiation_dict: expected an object, found []"),
            ({"reqire_login": True}, "reqire_login: unknown field\n  → did you mean 'require_login'?"),
            ({"eval": []}, "eval: expected an object, found []"),
            ({"eval__url_not": ""}, "eval.url_not: unknown field\n  → did you mean 'url_note'?"),
            ({"eval__eval_types": []}, "eval.eval_types: names no evaluator"),
            (
                {"eval__eval_types": ["program-html"]},
                "eval.eval_types: unknown evaluator 'program-html'\n  → did you mean 'program_html'?",
            ),
            ({"eval__eval_types": ["url_match"]}, "eval.reference_url: url_match needs one"),
            ({"eval__reference_answers": None}, "eval.reference_answers: string_match needs one"),
            (
                {"eval__reference_answers": {"must_contain": []}},
                "eval.reference_answers.must_contain: unknown field",
            ),
            (
                {"eval__reference_answers": {"must_include": []}},
                "eval.reference_answers.must_include: is empty",
            ),
            (
                {"eval__reference_answers": {"exact_match": ["a"]}},
                "eval.reference_answers.exact_match: expected text",
            ),
            (
                {"eval__reference_answers": {"required_values": ["about 5"]}},
                "eval.reference_answers.required_values: 'about 5' is not a comparison such as '>= 300'",
            ),
            ({"eval__program_html": []}, "eval.program_html: program_html needs one"),
            (
                {"eval__program_html__1__url": "lst"},
                "eval.program_html[1].url: 'lst' is not 'last', an address, or func:",
            ),
            (
                {"eval__program_html__1__locator": "$('a')"},
                "eval.program_html[1].locator: \"$('a')\" is blank or begins",
            ),
            (
                {"eval__program_html__0__required_contents": {}},
                "program_html[0].required_contents: needs one of exact_match",
            ),
            (
                {"eval__program_html__1__url": "func:open('/etc')"},
                "program_html[1].url: unknown helper 'open'",
            ),
            ({"coevo": {"level": "two"}}, 'coevo.level: expected a whole number, found "two"'),
        ],
    )
    def test_mistakes_name_task_and_field(self, fields, message):
        with pytest.raises(ConfigError) as caught:
            parse_config(changed(**fields), source="my.json")
        assert str(caught.value).startswith(f"my.json, task 7: {message}") or message in str(caught.value)
        assert str(caught.value).startswith("my.json, task 7: ")


class TestFiles:
    def test_a_list_or_one_task(self, tmp_path):
        second = changed(task_id=8)
        assert [c.task_id for c in load_configs(write(tmp_path / "many.json", [TASK, second]))] == [7, 8]
        assert [c.task_id for c in load_configs(write(tmp_path / "one.json", TASK))] == [7]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                "[{]",
                "tasks.json is not JSON: Expecting property name enclosed in double quotes (line 1, column 3)",
            ),
            ([], "tasks.json: expected a JSON list of tasks, found []"),
            ([TASK, TASK], "tasks.json: entries 0 and 1 both have task_id 7"),
            ([5], "tasks.json, entry 0: a task: expected an object, found 5"),
            ([{"sites": []}], "tasks.json, entry 0: start_url: is missing"),
            (
                [TASK, changed(task_id="8")],
                'tasks.json, entry 1: task_id: expected a whole number, found "8"',
            ),
        ],
    )
    def test_mistakes_name_the_file(self, tmp_path, content, message):
        with pytest.raises(ConfigError, match=re.escape(message)):
            load_configs(write(tmp_path / "tasks.json", content))

    def test_a_file_that_is_not_there_tells_how_to_get_it(self, tmp_path):
        with pytest.raises(ConfigError, match="coevo webarena fetch gets the public files"):
            load_configs(tmp_path / "none.json")


class TestPlaceholders:
    def test_they_become_base_urls(self):
        assert (
            resolve("__SHOPPING__/a __SHOPPING_ADMIN__/b", URLS)
            == "http://shop:7770/a http://shop:7780/admin/b"
        )

    def test_others_stay(self):
        assert resolve("'__last_url__' __page__ __OTHER__", URLS) == "'__last_url__' __page__ __OTHER__"

    def test_a_site_without_url_is_named(self):
        with pytest.raises(ConfigError, match=r"__REDDIT__ stands for the site 'reddit', which has no URL"):
            resolve("__REDDIT__/f/books", URLS)

    def test_in_an_evaluation(self):
        first, _ = resolve_evaluation(parse_config(TASK), URLS).program_html
        assert (first.url, first.contents.values) == ("http://git/x", ("http://shop:7770/kettle",))


class TestCalls:
    @pytest.mark.parametrize(
        ("text", "call"),
        [
            ("reddit_get_post_url('__last_url__')", Call("reddit_get_post_url", ("__last_url__",))),
            ("shopping_get_latest_order_url()", Call("shopping_get_latest_order_url")),
            (
                'gitlab_get_project_memeber_role(__page__, "o\'neil")',
                Call("gitlab_get_project_memeber_role", ("o'neil",)),
            ),
            (
                " shopping_get_sku_latest_review_rating( 'B00' ) ",
                Call("shopping_get_sku_latest_review_rating", ("B00",)),
            ),
        ],
    )
    def test_known_ones(self, text, call):
        assert parse_call(text) == call

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("__import__('os').system('id')", "unknown helper '__import__'"),
            ("reddit_get_post_url('a').lower()", "arguments of reddit_get_post_url"),
            (
                "reddit_get_post_url('a' + 'b')",
                "arguments of reddit_get_post_url are quoted text or __page__",
            ),
            ("reddit_get_post_url(open('x'))", "are quoted text or __page__"),
            ("reddit_get_post_url('a', 'b')", r"takes \(text\), found \(text, text\)"),
            ("reddit_get_post_url('a',)", r"reddit_get_post_url"),
            ("reddit_get_post_url()", r"takes \(text\), found \(\)"),
            ("gitlab_get_project_memeber_role('a', __page__)", r"takes \(page, text\)"),
            ("reddit_get_post_url", "is not a call such as"),
            ("reddit_get_post_url('a\\'b')", "are quoted text or __page__"),
        ],
    )
    def test_anything_else_is_refused(self, text, problem):
        with pytest.raises(ValueError, match=problem):
            parse_call(text)


@needs_data
class TestPublicFiles:
    def test_every_task_loads(self):
        full, lite = load_configs(FULL), load_configs(LITE)
        assert [config.task_id for config in full] == list(range(812))
        assert [config.task_id for config in lite] == list(range(165))
        assert all(config.old_task_id is not None for config in lite)

    def test_they_hold_what_they_are_known_to_hold(self):
        full = load_configs(FULL)
        assert [c.task_id for c in full if len(c.start_urls) > 1] == [431, 432, 433, 434, 435]
        assert sum(c.eval.reference_answers == (Check("unachievable", ("N/A",)),) for c in full) == 36
        assert sum(len(c.eval.program_html) for c in full) == 651
        assert sum(bool(target.prep_actions) for c in full for target in c.eval.program_html) == 10
        assert sum("url_match" in c.eval.eval_types for c in load_configs(LITE)) == 39

    def test_every_placeholder_is_of_a_site_the_task_has(self):
        for config in (*load_configs(FULL), *load_configs(LITE)):
            urls = {site: f"http://{site.replace('_', '-')}" for site in config.sites}
            for text in (*config.start_urls, json.dumps(config.raw["eval"])):
                assert not re.search(r"__[A-Z]+__", resolve(text, urls))
            resolve_evaluation(config, urls)
