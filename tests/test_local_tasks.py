"""The arena's tasks as WebArena files: their form, and splits that share neither template nor entity."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import ConfigError
from webarena import local
from webarena.cli import webarena
from webarena.configs import load_configs, parse_config
from webarena.matching import DIALECTS, Dialect, url_match
from webarena.sites import SITES, load_site
from webarena.sites.base import Instance, Kind, Level, Template
from webarena.sites.tasks import SPLITS, assign, deal, local_tasks, settle, to_config
from webarena.solve import sample


@pytest.fixture(autouse=True)
def everything_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks do not depend on what is installed."""
    for name in SITES:
        monkeypatch.setattr(type(load_site(name)), "missing", lambda self: "")


async def _solve(page: Any, instance: Instance, url: str) -> str:
    return ""


def template(
    number: int,
    entities: Sequence[str],
    *,
    level: Level = 1,
    kind: Kind = "information",
    intent: str = "What?",
) -> Template:
    answer = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "x"}}
    instances = [Instance({}, entity, answer) for entity in entities]
    return Template(number, "shopping", level, kind, intent, lambda seed: instances, _solve)


def test_every_task_is_a_webarena_task() -> None:
    tasks = local_tasks()
    sites = defaultdict(set)
    for task in tasks:
        config = parse_config(to_config(task))
        assert config.task_id == task.task_id
        assert (config.level, config.kind, config.split) == (
            task.template.level,
            task.template.kind,
            task.split,
        )
        assert config.start_urls[0].startswith(f"__{task.template.site.upper()}__/")
        assert config.require_login == bool(config.account)
        assert config.account in ("", *load_site(task.template.site).accounts)
        sites[task.template.site].add(task.template.id)
    assert len({task.task_id for task in tasks}) == len(tasks)
    assert sum(map(len, sites.values())) >= 40
    for site, first in {
        "shopping": 1001,
        "shopping_admin": 1101,
        "reddit": 1201,
        "gitlab": 1301,
        "wikipedia": 1401,
    }.items():
        assert all(first <= number < first + 99 for number in sites[site]), site


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_other_page_of_a_site_is_taken_for_the_right_one(dialect: Dialect) -> None:
    """Addresses are compared by containment: /issue12 has /issue1 in it. What follows from that, another check must catch."""
    tasks = [to_config(task) for task in local_tasks()]
    pages = defaultdict(set)
    for task in tasks:
        if "url_match" in task["eval"]["eval_types"]:
            pages[task["sites"][0]].update(task["eval"]["reference_url"].split(" |OR| "))
    for task in tasks:
        site, judged = task["sites"][0], task["eval"]
        if "url_match" not in judged["eval_types"]:
            continue
        right = {url.rstrip("/") for url in judged["reference_url"].split(" |OR| ")}
        wrong = [
            url
            for url in pages[site]
            if url.rstrip("/") not in right
            and url_match(judged["reference_url"], url, judged.get("url_note"), dialect)
        ]
        if not wrong:
            continue
        checks = [check for check in judged["program_html"] if check["url"] == "last"]
        assert checks, f"{task['intent']}: {wrong[0]} would do"
        for check in checks:
            if check["locator"] == "document.location.pathname":
                path = check["required_contents"]["exact_match"]
                assert all(url.removeprefix(f"__{site.upper()}__") != path for url in wrong)


def test_splits_share_neither_template_nor_entity() -> None:
    tasks = [task for task in local_tasks() if task.split]
    for of in (lambda task: task.template.id, lambda task: task.instance.entity):
        where = defaultdict(set)
        for task in tasks:
            where[of(task)].add(task.split)
        assert [thing for thing, splits in where.items() if len(splits) > 1] == []


def test_every_split_has_every_site_and_level_and_no_template_is_lost() -> None:
    tasks = local_tasks()
    strata = defaultdict(set)
    for task in tasks:
        strata[task.template.site, task.template.level].add(task.template.id)
    assert len(strata) == 15
    for split in SPLITS:
        there = {(task.template.site, task.template.level) for task in tasks if task.split == split}
        assert strata.keys() - there == set()
    kept = {task.template.id for task in tasks if task.split}
    assert {task.template.id for task in tasks} - kept == set()


def test_templates_are_dealt_by_site_and_level() -> None:
    templates = [
        template(number, ["e"], level=level)
        for level in (1, 2)
        for number in range(level * 10, level * 10 + 5)
    ]
    dealt = deal(templates)
    for level in (1, 2):
        splits = sorted(dealt[one.id] for one in templates if one.level == level)
        assert splits == ["dev", "test", "train", "train", "train"]


def test_kinds_are_spread_over_splits() -> None:
    kinds: list[Kind] = ["unachievable", "unachievable", "information", "information"]
    templates = [template(number, ["e"], kind=kind) for number, kind in enumerate(kinds, 1)]
    dealt = deal([*templates, template(9, ["e"], level=2)])
    for kind in set(kinds):
        assert len({dealt[one.id] for one in templates if one.kind == kind}) == 2


@given(st.lists(st.integers(1, 63), max_size=25))
def test_an_entity_goes_to_a_split_that_asks_about_it(masks: list[int]) -> None:
    """A mask says which of the templates 0 to 5 ask about an entity."""
    split_of = {number: SPLITS[number % 3] for number in range(6)}
    uses = {
        str(place): {number: number + 1 for number in range(6) if mask >> number & 1}
        for place, mask in enumerate(masks)
    }
    home = settle(uses, split_of)
    assert home.keys() == uses.keys()
    assert all(home[entity] in {split_of[number] for number in counts} for entity, counts in uses.items())
    assert settle(dict(reversed(uses.items())), split_of) == home


def test_contested_entities_keep_every_template_alive() -> None:
    shared = [f"thing/{number}" for number in range(20)]
    tasks = assign([template(number, shared) for number in range(1, 6)], 0)
    for number in range(1, 6):
        assert any(task.split for task in tasks if task.template.id == number)


def test_bad_templates_are_refused() -> None:
    with pytest.raises(ValueError, match=r"share the ids \[3\]"):
        assign([template(3, ["a"]), template(3, ["b"])], 0)
    with pytest.raises(ValueError, match="more than 1000 instances"):
        assign([template(3, ["a"] * 1001)], 0)
    (task,) = assign([template(3, ["a"], intent="Buy {{what}}")], 0)
    with pytest.raises(ValueError, match=r"no value for a slot of 'Buy \{\{what\}\}'"):
        to_config(task)


def test_the_task_set() -> None:
    tasks = local.tasks(
        ["wikipedia", "gitlab"], levels=[1, 2], kinds=["information"], train=10, dev=3, test=None
    )
    train = tasks.tasks("train")
    assert len(train) == 10
    assert {task.group.split("/")[0] for task in train[:2]} == {"wikipedia", "gitlab"}  # in turn
    assert {task.group.split("/")[1] for task in train} <= {"1", "2"}
    assert len(tasks.tasks("dev")) == 3
    assert len(tasks.tasks("test")) > 10
    everything = [task.id for split in SPLITS for task in tasks.tasks(split)]
    assert len(set(everything)) == len(everything)
    assert (
        train
        == local.tasks(["gitlab", "wikipedia"], levels=[2, 1], kinds=["information"], train=10).tasks(
            "train"
        )[:10]
    )
    again = local.tasks(["wikipedia", "gitlab"], train=4)
    first = [task.template.id for task in again.local("train")]
    assert len(set(first)) == 4  # a template each, before a second of any


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sites": "wikipaedia"}, "no site 'wikipaedia'"),
        ({"levels": [4]}, "there is no level 4"),
        ({"kinds": ["chat"]}, "there is no kind 'chat'"),
        ({"train": -1}, "train = -1: a split cannot"),
        ({"dialct": "webrl"}, "unknown option 'dialct' of the local arena"),
        ({"dialect": "french"}, "option dialect = 'french'"),
        ({"sites": "wikipedia", "kinds": ["change"]}, "no task has these sites, levels and kinds"),
    ],
)
def test_bad_options_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        local.tasks(**options)
    with pytest.raises(ConfigError, match="no split 'exam'"):
        local.tasks("wikipedia").tasks("exam")


def test_a_site_that_cannot_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        type(load_site("wikipedia")), "missing", lambda self: "kiwix-serve is not installed: get it"
    )
    assert "wikipedia" not in local.tasks().sites
    with pytest.raises(
        ConfigError, match="site wikipedia cannot run here: kiwix-serve is not installed: get it"
    ):
        local.tasks(["wikipedia"])


def test_a_sample_takes_some_of_each_template() -> None:
    tasks = [task for task in local_tasks() if task.template.site == "wikipedia"]
    chosen = sample(tasks, 2)
    counts = defaultdict(int)
    for task in chosen:
        counts[task.template.id] += 1
    assert set(counts.values()) == {2}
    assert sample(list(reversed(tasks)), 2) == chosen


def test_the_tasks_command_writes_a_task_file(tmp_path: Path) -> None:
    target = tmp_path / "tasks.json"
    runner = CliRunner()
    done = runner.invoke(
        webarena, ["tasks", "--site", "wikipedia", "--split", "test", "--write", str(target)]
    )
    assert done.exit_code == 0, done.output
    configs = load_configs(target)
    assert f"{len(configs)} tasks" in done.output
    assert {config.split for config in configs} == {"test"}
    listed = runner.invoke(webarena, ["tasks", "--site", "wikipedia", "--json"])
    assert len(json.loads(listed.output)) > len(configs)
    table = runner.invoke(webarena, ["tasks", "--site", "wikipedia"])
    assert "tasks of 13 templates" in table.output
