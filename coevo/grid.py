"""{base, evolved weights} × {seed, evolved skill}: what each side of the co-evolution brought, on held-out tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coevo.stats import Estimate, bootstrap

if TYPE_CHECKING:
    from coevo.store import Store

ARMS = ("base+seed", "base+evolved", "evolved+seed", "evolved+evolved")
CONFIDENCE = 0.95


def canonical(label: str, *, moved: bool, changed: bool) -> str:
    """The arm whose episodes stand for `label`: weights that never moved are the base, an unchanged skill the seed."""
    weights, _, skill = label.partition("+")
    return f"{weights if moved else 'base'}+{skill if changed else 'seed'}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm of the grid. `same_as` names the arm whose episodes it shares, where nothing tells the two apart."""

    arm: str
    estimate: Estimate
    success_rate: float
    invalid: int
    same_as: str | None


@dataclass(frozen=True, slots=True)
class Grid:
    """{base, evolved weights} × {seed, evolved skill} on the same tasks and seeds.

    Everything is computed on the slots that are valid in every arm (`dropped` are not), so that differences are paired.
    `gains` are against base+seed; `interaction` is both − weights alone − skill alone + base: above 0, the two help
    each other.
    """

    split: str
    cells: tuple[Cell, ...]
    gains: dict[str, Estimate]
    interaction: Estimate | None
    dropped: int


def make_grid(store: Store, run: str) -> Grid | None:
    """The grid of a run, or None while an arm is missing. Intervals are paired bootstraps over tasks."""
    from coevo.store import queries
    from coevo.store.versions import final_version, seed_version

    row = queries.run(store, run)
    seed, table = row["seed"], row["config"]["evaluate"]
    final = row["config"]["es"]["generations"]
    last = {
        entry["arm"]: entry
        for entry in store.query(
            "SELECT * FROM evaluations WHERE run = ? AND split = ? AND (generation = ? OR arm = 'base+seed')"
            " ORDER BY generation",
            (row["id"], table["split"], final),
        )
    }
    moved = bool(
        store.query("SELECT 1 FROM es_steps WHERE run = ? AND status = 'applied' LIMIT 1", (row["id"],))
    )
    changed = final_version(store, row["id"]) != seed_version(store, row["id"])
    sources = {arm: canonical(arm, moved=moved, changed=changed) for arm in ARMS}
    done = store.query("SELECT count(*) AS n FROM es_steps WHERE run = ?", (row["id"],))[0]["n"]
    if done < final or not set(sources.values()) <= set(last):
        return None
    episodes = {arm: _episodes(store, row["id"], last[arm]) for arm in set(sources.values())}
    common = sorted(set.intersection(*(set(values) for values in episodes.values())))
    if not common:
        return None
    columns = [[episodes[sources[arm]][slot][0] for slot in common] for arm in ARMS]
    base, skill, weights, both = columns
    differences = {
        "base+evolved": [s - b for s, b in zip(skill, base, strict=True)],
        "evolved+seed": [w - b for w, b in zip(weights, base, strict=True)],
        "evolved+evolved": [e - b for e, b in zip(both, base, strict=True)],
    }
    interaction = [e - w - s + b for e, w, s, b in zip(both, weights, skill, base, strict=True)]
    estimates = bootstrap(
        [*columns, *differences.values(), interaction],
        clusters=[task for task, _ in common],
        confidence=CONFIDENCE,
        seed=seed,
    )
    union = set.union(*(set(values) for values in episodes.values()))
    return Grid(
        split=table["split"],
        cells=tuple(
            Cell(
                arm=arm,
                estimate=estimate,
                success_rate=sum(episodes[sources[arm]][slot][1] for slot in common) / len(common),
                invalid=last[sources[arm]]["invalid"],
                same_as=sources[arm] if sources[arm] != arm else None,
            )
            for arm, estimate in zip(ARMS, estimates, strict=False)
        ),
        gains=dict(zip(differences, estimates[4:7], strict=True)),
        interaction=estimates[7],
        dropped=len(union) - len(common),
    )


def _episodes(
    store: Store, run: str, evaluation: dict[str, Any]
) -> dict[tuple[str, int], tuple[float, bool]]:
    """(reward, success) of the valid episodes behind a row of `evaluations`, by slot."""
    rows = store.query(
        "SELECT task, seed, reward, outcome FROM episodes WHERE run = ? AND phase = 'eval' AND generation = ?"
        " AND arm = ? AND skill_version IS ? AND status = 'finished' AND outcome != 'invalid'",
        (run, evaluation["generation"], evaluation["arm"], evaluation["skill_version"]),
    )
    return {(row["task"], row["seed"]): (row["reward"], row["outcome"] == "success") for row in rows}
