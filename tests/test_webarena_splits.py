"""The reference's split bit for bit, and ours, which shares no template."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from coevo.errors import ConfigError
from webarena.configs import load_configs, parse_config
from webarena.splits import reference_split, template_split

DATA = Path(__file__).parents[2] / "shared" / "data" / "webarena"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the public task files are not beside the repository"
)
SITES = ("shopping", "reddit", "gitlab")


@pytest.fixture(scope="module")
def full():
    return load_configs(DATA / "webarena.raw.json")


@pytest.fixture(scope="module")
def lite():
    return load_configs(DATA / "webarena_lite.raw.json")


def task(number, template, *, site="shopping", text=None, kind="string_match", old=None):
    evaluation = {
        "eval_types": [kind],
        "reference_answers": {"exact_match": "x"},
        "reference_url": "http://x",
    }
    raw = {
        "sites": [site],
        "task_id": number,
        "start_url": "http://x",
        "intent": f"task {number}",
        "intent_template": text or f"template {template}",
        "intent_template_id": template,
        "eval": evaluation,
    }
    return parse_config(raw if old is None else raw | {"old_task_id": old})


def made(templates=30, each=4):
    """Tasks of templates that take turns in site and evaluator."""
    return [
        task(
            template * each + index,
            template,
            site=SITES[template % 3],
            kind=("string_match", "url_match")[template % 2],
        )
        for template in range(templates)
        for index in range(each)
    ]


def ids_hash(configs, field="task_id"):
    ids = [getattr(config, field) for config in configs]
    return hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()


def templates(configs):
    return {config.intent_template_id for config in configs}


@needs_data
class TestReference:
    def test_it_is_the_published_one(self, full, lite):
        splits = reference_split(full, lite)
        assert [len(splits.train), len(splits.dev), len(splits.test)] == [582, 65, 165]
        assert ids_hash(splits.train) == "c0a433f7ca57809442f97c1042f4d4154fd2cb26bd049e805ab567d28058c271"
        assert ids_hash(splits.dev) == "5b772371a33363601a6fe094208b39ad732c1824e3cebdb09fe02f3d9e12f49b"
        assert ids_hash(splits.test) == "ccde5c90a96e54627d1b78c9a53d289c47b7671c9bc30862be93b0d027749339"
        assert (
            ids_hash(splits.test, "old_task_id")
            == "79e446fc5738d4a616d5b11f5d804e7d339c8b1932b9f09627394a0977bc7642"
        )

    def test_the_order_of_the_file_does_not_matter(self, full, lite):
        assert reference_split(full[::-1], lite).train == reference_split(full, lite).train

    def test_what_is_wrong_with_it(self, full, lite):
        splits = reference_split(full, lite)
        assert templates(splits.train) & templates(splits.dev)
        assert templates(splits.train) & templates(splits.test)


@needs_data
class TestOursOnThePublicTasks:
    def test_with_lite_as_test(self, full, lite):
        splits = template_split(full, dev=25, lite=lite)
        assert [len(splits.train), len(splits.dev), len(splits.test)] == [87, 25, 165]
        sides = [templates(splits.train), templates(splits.dev), templates(splits.test)]
        assert sum(map(len, sides)) == len(set().union(*sides))
        held_out = {config.old_task_id for config in lite}
        assert not held_out & {config.task_id for config in (*splits.train, *splits.dev)}

    def test_without(self, full):
        splits = template_split(full, dev=80, test=160)
        sides = [templates(split) for split in (splits.train, splits.dev, splits.test)]
        assert sum(map(len, sides)) == len(set().union(*sides))
        assert [len(splits.dev), len(splits.test)] == [80, 160]
        for split in (splits.train, splits.dev, splits.test):
            share = Counter(config.sites[0] for config in split)
            for site in ("shopping", "shopping_admin", "reddit", "gitlab", "map"):
                whole = sum(config.sites[0] == site for config in full) / len(full)
                assert abs(share[site] / len(split) - whole) < 0.06


class TestOurs:
    def test_sizes_are_exact_and_templates_apart(self):
        splits = template_split(made(), dev=10, test=22, train=50)
        assert [len(splits.train), len(splits.dev), len(splits.test)] == [50, 10, 22]
        sides = [templates(splits.train), templates(splits.dev), templates(splits.test)]
        assert sum(map(len, sides)) == len(set().union(*sides))

    def test_every_split_has_the_mix_of_sites_and_evaluators(self):
        splits = template_split(made(templates=60), dev=48, test=48)
        for split in (splits.train, splits.dev, splits.test):
            counts = Counter((config.sites, config.eval.eval_types) for config in split)
            assert len(counts) == 6
            assert max(counts.values()) - min(counts.values()) <= 4

    def test_the_same_every_time_and_another_with_another_seed(self):
        first, second = (template_split(made(), dev=12, test=24) for _ in range(2))
        assert first == second
        assert template_split(made()[::-1], dev=12, test=24).test != ()
        assert template_split(made(), dev=12, test=24, seed=1) != first

    def test_templates_of_equal_text_are_one(self):
        configs = [task(0, 1, text="Find {{x}}"), task(1, 2, text="find  {{x}}"), task(2, 3), task(3, 4)]
        splits = template_split(configs, dev=1, test=1)
        sides = [{c.task_id for c in split} for split in (splits.train, splits.dev, splits.test)]
        assert all(side <= {0, 1} or not side & {0, 1} for side in sides)

    def test_templates_of_lite_are_out_even_where_their_numbers_differ(self):
        lite = [task(0, 99, text="template 0", old=5)]
        splits = template_split(made(templates=4), dev=4, lite=lite)
        assert not {0, 1} & templates((*splits.train, *splits.dev))
        assert len(splits.train) == 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"dev": 2}, "takes either lite"),
            ({"dev": 2, "test": 2, "lite": []}, "takes either lite"),
            ({"dev": -1, "test": 2}, "dev = -1"),
            ({"dev": 10, "test": 115}, "dev = 10, but only 4 tasks are left"),
            ({"dev": 2, "lite": [task(0, 1, old=999)]}, "old_task_id 999, which is no task of the full set"),
        ],
    )
    def test_mistakes(self, arguments, message):
        with pytest.raises(ConfigError, match=message):
            template_split(made(), **arguments)
