"""The local arena as a task set: `set = "webarena.local:tasks"`. Needs no WebArena sites, only what `coevo webarena up` builds."""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from coevo.env import Task
from coevo.errors import ConfigError
from coevo.seeds import derive_seed
from webarena.arena import ArenaWorlds, usable_sites
from webarena.browser import Browser
from webarena.environment import Options
from webarena.evaluators import Evaluator
from webarena.matching import Dialect
from webarena.options import checked, typed
from webarena.sites.tasks import SPLITS, LocalTask, local_tasks, to_config
from webarena.standing import connect
from webarena.web import WebPool

LOG = logging.getLogger(__name__)
KINDS = ("information", "navigation", "change", "unachievable")
LEVELS = (1, 2, 3)
EVALUATOR: Dialect = "vab"


class LocalTasks:
    """Tasks of the local arena. Each split has one task of each template in turn, the templates by site in turn."""

    name = "local"

    def __init__(
        self, tasks: Sequence[LocalTask], counts: dict[str, int | None], *, seed: int, options: Options
    ) -> None:
        self.options = options
        self.seed = seed
        self.sites = tuple(dict.fromkeys(task.template.site for task in tasks))
        self._tasks: dict[str, list[LocalTask]] = {
            split: in_turn([task for task in tasks if task.split == split])[: counts[split]]
            for split in SPLITS
        }

    def local(self, split: str) -> list[LocalTask]:
        """The tasks of a split with their templates. Raises `ConfigError` for an unknown split."""
        if split not in SPLITS:
            raise ConfigError(
                f"the local arena has no split {split!r}", hint=f"use one of {', '.join(SPLITS)}"
            )
        return list(self._tasks[split])

    def tasks(self, split: str) -> list[Task]:
        return [as_task(task) for task in self.local(split)]

    def pool(self, size: int, *, browser: Browser | None = None) -> WebPool:
        """Environments on the arena that is up if it has the sites and enough free slots, else on one of its own, which starts
        at the first `acquire`."""
        return WebPool(
            size,
            ArenaWorlds(partial(connect, self.sites, slots=size, seed=self.seed, report=LOG.info), size),
            self.options,
            Evaluator(EVALUATOR),
            browser=browser,
        )


def as_task(task: LocalTask) -> Task:
    """The task for an environment; its group is site and level."""
    template = task.template
    config = to_config(task)
    return Task(
        id=f"local/{template.site}/{template.id}/{task.number}",
        goal=config["intent"],
        seed=derive_seed("local", task.task_id),
        group=f"{template.site}/{template.level}",
        data={"config": config},
    )


def in_turn(tasks: Sequence[LocalTask]) -> list[LocalTask]:
    """Sites in turn, of each site its templates in turn (in the order of a hash), of each template its instances (likewise)."""
    by_template: dict[int, list[LocalTask]] = defaultdict(list)
    for task in tasks:
        by_template[task.template.id].append(task)
    places: dict[str, int] = defaultdict(int)
    keyed: list[tuple[int, int, int, LocalTask]] = []
    sites = list(dict.fromkeys(task.template.site for task in tasks))
    for number in sorted(by_template, key=lambda one: derive_seed("turn", one)):
        site = by_template[number][0].template.site
        place, places[site] = places[site], places[site] + 1
        instances = sorted(by_template[number], key=lambda task: derive_seed("turn", task.task_id))
        keyed += [(turn, place, sites.index(site), task) for turn, task in enumerate(instances)]
    return [task for *_, task in sorted(keyed, key=lambda entry: entry[:3])]


@checked
def tasks(
    sites: str | Sequence[str] | None = None,
    *,
    levels: Sequence[int] = LEVELS,
    kinds: Sequence[str] = KINDS,
    train: int | None = None,
    dev: int | None = None,
    test: int | None = None,
    seed: int = 0,
    **options: Any,
) -> LocalTasks:
    """Tasks of the local arena.

    `sites`: all that can run here if left out. `levels`: 1 (on the start page), 2 (search or navigate), 3 (several pages).
    `kinds`: information, navigation, change, unachievable. `train`, `dev`, `test`: how many tasks (all if left out); `seed`: of
    the sites' content. Further options (`dialect`, `observation_tokens`, …): see `webarena.environment.Options`.

    Raises `ConfigError` for unknown names or values, and for sites that cannot run here.
    """
    names = usable_sites((sites,) if isinstance(sites, str) else sites, lambda _: None)
    _known("level", levels, LEVELS)
    _known("kind", kinds, KINDS)
    counts = {"train": train, "dev": dev, "test": test}
    for split, count in counts.items():
        if count is not None and count < 0:
            raise ConfigError(f"{split} = {count}: a split cannot have fewer than 0 tasks")
    known = [field.name for field in dataclasses.fields(Options)]
    for key in options:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(
                f"unknown option {key!r} of the local arena",
                hint=f"did you mean {close[0]}?" if close else f"options: {', '.join(known)}",
            )
    chosen = [
        task
        for task in local_tasks(seed)
        if task.template.site in names and task.template.level in levels and task.template.kind in kinds
    ]
    if not chosen:
        raise ConfigError("no task has these sites, levels and kinds")
    return LocalTasks(chosen, counts, seed=seed, options=typed(Options, options))


def _known(what: str, given: Sequence[Any], known: Sequence[Any]) -> None:
    for value in given:
        if value not in known:
            raise ConfigError(f"there is no {what} {value!r}", hint=f"use {', '.join(map(str, known))}")
