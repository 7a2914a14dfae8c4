"""Which tasks are for training, which to steer by, which to report on.

`reference_split` is the published one, so that numbers can be compared. It puts instances of one template on both sides.
`template_split` does not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coevo.errors import ConfigError
from coevo.seeds import derive_seed
from webarena.configs import TaskConfig

REFERENCE_SEED = 20260605
REFERENCE_DEV_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Splits:
    """Tasks by use; `dev` is also called validation."""

    train: tuple[TaskConfig, ...]
    dev: tuple[TaskConfig, ...]
    test: tuple[TaskConfig, ...]


def reference_split(full: Sequence[TaskConfig], lite: Sequence[TaskConfig]) -> Splits:
    """Train and dev of Agentic-ESOpt (582 and 65 of the 812), WebArena-Lite (165) as test; same order, too.

    Buckets by sites are shuffled, then emptied in rounds whose order is shuffled; dev is the first tenth. Raises
    `ConfigError` when `lite` does not say which tasks of `full` it took.
    """
    held_out = set(_old_ids(full, lite))
    draw = random.Random(REFERENCE_SEED)
    buckets: dict[str, list[TaskConfig]] = {}
    for config in sorted(full, key=lambda config: config.task_id):
        if config.task_id not in held_out:
            buckets.setdefault("|".join(config.sites), []).append(config)
    for bucket in buckets.values():
        draw.shuffle(bucket)
    keys = list(buckets)
    draw.shuffle(keys)
    ordered = []
    while keys:
        ordered += [buckets[key].pop() for key in keys]
        keys = [key for key in keys if buckets[key]]
        draw.shuffle(keys)
    size = round(len(ordered) * REFERENCE_DEV_SHARE)
    return Splits(train=tuple(ordered[size:]), dev=tuple(ordered[:size]), test=tuple(lite))


def template_split(
    full: Sequence[TaskConfig],
    *,
    dev: int,
    train: int | None = None,
    test: int | None = None,
    lite: Sequence[TaskConfig] | None = None,
    seed: int = 0,
) -> Splits:
    """Splits that share no template, each with the mix of sites and evaluators of the whole as far as templates allow.

    With `lite` that is the test split, and every template of it is kept out of the others (25 templates with 115 tasks
    remain); without, `test` tasks are drawn. Where a template has more tasks than a split has room for, the rest of them
    are left out. `train` None: all that remain. The same arguments give the same splits on every machine.

    Raises `ConfigError` when there are not enough tasks for the sizes.
    """
    if (lite is None) == (test is None):
        raise ConfigError("a template split takes either lite (as its test split) or a size for test")
    for name, size in (("train", train), ("dev", dev), ("test", test)):
        if size is not None and size < 0:
            raise ConfigError(f"{name} = {size}: a split cannot have fewer than 0 tasks")
    groups = _template_groups([*full, *(lite or ())])
    if lite is None:
        test_tasks, groups = _draw(groups, test or 0, "test", seed)
    else:
        test_tasks, held_out = tuple(lite), set(_old_ids(full, lite))
        published = {id(config) for config in lite}
        groups = [
            group
            for group in groups
            if not any(id(config) in published or config.task_id in held_out for config in group)
        ]
    dev_tasks, groups = _draw(groups, dev, "dev", seed)
    train_tasks, _ = _draw(groups, sum(map(len, groups)) if train is None else train, "train", seed)
    return Splits(train_tasks, dev_tasks, test_tasks)


def _old_ids(full: Sequence[TaskConfig], lite: Sequence[TaskConfig]) -> list[int]:
    known = {config.task_id for config in full}
    found = []
    for config in lite:
        if config.old_task_id not in known:
            raise ConfigError(
                f"Lite task {config.task_id} has old_task_id {config.old_task_id}, which is no task of the full set",
                hint="give the 812 tasks as full and the 165 as lite",
            )
        found.append(config.old_task_id)
    return found


def _template_groups(configs: Iterable[TaskConfig]) -> list[list[TaskConfig]]:
    """Tasks that share a template's number or its text, directly or by way of others; ordered by smallest task."""
    parent: dict[object, object] = {}

    def root(key: object) -> object:
        while parent.setdefault(key, key) != key:
            key = parent[key]
        return key

    ordered = list(configs)
    for config in ordered:
        text = " ".join(config.intent_template.lower().split())
        if text:
            parent[root(text)] = root(config.intent_template_id)
    groups: dict[object, list[TaskConfig]] = {}
    for config in ordered:
        groups.setdefault(root(config.intent_template_id), []).append(config)
    return list(groups.values())


def _draw(
    groups: list[list[TaskConfig]], size: int, name: str, seed: int
) -> tuple[tuple[TaskConfig, ...], list[list[TaskConfig]]]:
    """`size` tasks in whole groups (the last may be cut), and the groups that are left.

    The next group always comes from the stratum that is furthest behind its share.
    """
    available = sum(map(len, groups))
    if size > available:
        raise ConfigError(
            f"{name} = {size}, but only {available} tasks are left whose templates are in no other split",
            hint="make the splits smaller",
        )
    strata: dict[tuple[object, ...], list[list[TaskConfig]]] = {}
    for group in sorted(groups, key=lambda group: derive_seed(seed, name, group[0].intent_template_id)):
        strata.setdefault(_stratum(group), []).append(group)
    shares = {key: size * sum(map(len, stratum)) / max(available, 1) for key, stratum in strata.items()}
    drawn: dict[tuple[object, ...], int] = dict.fromkeys(strata, 0)
    tasks: list[TaskConfig] = []
    while len(tasks) < size:
        key = max(
            (key for key in strata if strata[key]), key=lambda key: (shares[key] - drawn[key], repr(key))
        )
        group = strata[key].pop(0)[: size - len(tasks)]
        tasks += group
        drawn[key] += len(group)
    tasks.sort(key=lambda config: derive_seed(seed, name, "order", config.task_id))
    return tuple(tasks), [group for stratum in strata.values() for group in stratum]


def _stratum(group: Sequence[TaskConfig]) -> tuple[object, ...]:
    """Sites and evaluators of a template, by its first task."""
    return tuple(sorted(group[0].sites)), tuple(sorted(group[0].eval.eval_types))
