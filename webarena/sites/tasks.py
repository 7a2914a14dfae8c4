"""The arena's tasks in WebArena's JSON, and their splits.

No template and no entity is on both sides of a split. Templates are dealt out within each site and level, in an order
given by a hash, so that kinds are spread, too; an entity that templates of several splits ask about goes to the one that needs it most. What is about
an entity of another split than its template's is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from coevo.seeds import derive_seed
from webarena.sites import SITES, load_site
from webarena.sites.base import Instance, Template

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
DEAL: tuple[Split, ...] = ("train", "test", "train", "dev", "train")
"""Splits that the templates of a site and level go to, as many as there are of them."""

WEIGHTS: Mapping[Split, float] = {"train": 3.0, "dev": 1.0, "test": 1.5}
INSTANCES_LIMIT = 1000  # of a template, so that task ids are distinct
EVAL_DEFAULTS: Mapping[str, Any] = {
    "reference_answers": None,
    "reference_url": "",
    "program_html": [],
    "string_note": "",
    "reference_answer_raw_annotation": "",
}


@dataclass(frozen=True, slots=True)
class LocalTask:
    """An instance with its template, its number within the template, and the split it belongs to (None: left out)."""

    template: Template
    number: int
    instance: Instance
    split: Split | None

    @property
    def task_id(self) -> int:
        return self.template.id * INSTANCES_LIMIT + self.number


@cache
def local_tasks(seed: int = 0, sites: tuple[str, ...] | None = None) -> tuple[LocalTask, ...]:
    """Every instance of every template (of all registered sites if None), by task id, with its split."""
    return assign([template for name in sites or SITES for template in load_site(name).templates()], seed)


def assign(templates: Iterable[Template], seed: int) -> tuple[LocalTask, ...]:
    """All instances of `templates` with their splits. Raises `ValueError` when two templates share an id."""
    ordered = sorted(templates, key=lambda template: template.id)
    ids = Counter(template.id for template in ordered)
    twice = [number for number, count in ids.items() if count > 1]
    if twice:
        raise ValueError(f"templates share the ids {twice}")
    split_of = deal(ordered)
    instances = {template.id: template.instances(seed) for template in ordered}
    uses: dict[str, Counter[int]] = defaultdict(Counter)
    for template in ordered:
        if len(instances[template.id]) > INSTANCES_LIMIT:
            raise ValueError(f"template {template.id} has more than {INSTANCES_LIMIT} instances")
        for instance in instances[template.id]:
            uses[instance.entity][template.id] += 1
    home = settle(uses, split_of)
    return tuple(
        LocalTask(
            template,
            number,
            instance,
            split_of[template.id] if home[instance.entity] == split_of[template.id] else None,
        )
        for template in ordered
        for number, instance in enumerate(instances[template.id])
    )


def deal(templates: Sequence[Template]) -> dict[int, Split]:
    """The split of each template. Each site and level gets its share of every split (`DEAL`); among what is left of it, a
    template takes the split in which the site has the fewest of its kind."""
    left: dict[tuple[str, int], Counter[Split]] = defaultdict(Counter)
    for template in templates:
        stratum = left[template.site, template.level]
        stratum[DEAL[stratum.total() % len(DEAL)]] += 1
    have: Counter[tuple[str, str, Split]] = Counter()
    dealt: dict[int, Split] = {}
    for template in sorted(templates, key=lambda one: derive_seed("split", one.id)):
        stratum, kind = left[template.site, template.level], (template.site, template.kind)
        open_splits = [split for split in dict.fromkeys(DEAL) if stratum[split]]
        split = min(open_splits, key=lambda one: have[(*kind, one)] / WEIGHTS[one])
        stratum[split] -= 1
        have[(*kind, split)] += 1
        dealt[template.id] = split
    return dealt


def settle(uses: Mapping[str, Mapping[int, int]], split_of: Mapping[int, Split]) -> dict[str, Split]:
    """The split of each entity. `uses[entity][template id]`: how many instances of the template are about it.

    An entity of one split's templates goes there. A contested one goes where the poorest of its templates has kept least so
    far, for that split's weight.
    """
    kept: Counter[int] = Counter()
    home: dict[str, Split] = {}
    contested = []
    for entity, counts in uses.items():
        splits = {split_of[number] for number in counts}
        if len(splits) == 1:
            (home[entity],) = splits
            kept.update(counts)
        else:
            contested.append(entity)
    for entity in sorted(contested, key=lambda one: derive_seed("entity", one)):
        by_split: dict[Split, list[int]] = defaultdict(list)
        for number in uses[entity]:
            by_split[split_of[number]].append(number)
        home[entity] = min(
            sorted(by_split),
            key=lambda split: min(kept[number] for number in by_split[split]) / WEIGHTS[split],
        )
        kept.update({number: uses[entity][number] for number in by_split[home[entity]]})
    return home


def to_config(task: LocalTask) -> dict[str, Any]:
    """The task in WebArena's JSON. Extras are under "coevo". Raises `ValueError` for an intent that values do not fill."""
    template, instance = task.template, task.instance
    intent = template.intent
    for name, value in instance.values.items():
        intent = intent.replace(f"{{{{{name}}}}}", value)
    if "{{" in intent:
        raise ValueError(f"template {template.id}: no value for a slot of {intent!r}")
    return {
        "sites": [template.site],
        "task_id": task.task_id,
        "require_login": bool(template.account),
        "storage_state": None,
        "start_url": f"__{template.site.upper()}__{instance.start}",
        "geolocation": None,
        "intent_template": template.intent,
        "instantiation_dict": dict(instance.values),
        "intent": intent,
        "require_reset": False,
        "eval": {**EVAL_DEFAULTS, **instance.eval},
        "intent_template_id": template.id,
        "coevo": {
            "level": template.level,
            "kind": template.kind,
            "split": task.split,
            "entity": instance.entity,
            "account": template.account,
        },
    }
