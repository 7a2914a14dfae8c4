"""Measuring the centre on held-out tasks: {base, evolved weights} × {seed, evolved skill}, with common seeds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevo.grid import ARMS, canonical
from coevo.loop.context import LoopContext
from coevo.loop.plan import Slot, held_out_slots
from coevo.loop.rows import EpisodeRow, applied_steps, episode_rows
from coevo.loop.skills import now
from coevo.stats import bootstrap


@dataclass(frozen=True, slots=True)
class Arm:
    """Centre weights after `weights_step` updates with one skill version."""

    label: str
    weights_step: int
    skill_version: str


def final_arms(context: LoopContext) -> list[Arm]:
    """The arms of the grid that differ after the last generation, evolved weights first."""
    step = len(applied_steps(context.store, context.run))
    version = context.skills.best()
    seed = context.skills.seed_version
    labels = {canonical(label, moved=step > 0, changed=version != seed) for label in ARMS}
    return [
        Arm(
            label,
            step if label.startswith("evolved+") else 0,
            version if label.endswith("+evolved") else seed,
        )
        for label in reversed(ARMS)
        if label in labels
    ]


def evaluation_slots(context: LoopContext) -> tuple[Slot, ...]:
    table = context.experiment.evaluate
    return held_out_slots(context.experiment.seed, context.held_out, limit=table.tasks, repeats=table.repeats)


async def measure(
    context: LoopContext,
    generation: int,
    arms: Sequence[Arm],
    *,
    slots: Sequence[Slot],
    split: str,
    suffix: str = "",
) -> None:
    """Run what is missing of `arms` (all with the same weights, side by side) and store their means.

    `suffix` is appended to the arms' labels, to keep other splits apart. The means are over everything an arm has,
    so that a later, larger evaluation adds to an earlier one.
    """
    started = time.monotonic()
    specs = {
        arm: context.specs("eval", generation, slots, skill_version=arm.skill_version, arm=arm.label + suffix)
        for arm in arms
    }
    every = [spec for group in specs.values() for spec in group]
    if not context.rollouts.complete(every):
        await context.weights.at(arms[0].weights_step)
    elif all(_measured(context, generation, arm, arm.label + suffix, split) for arm in arms):
        return
    names = ", ".join(arm.label + suffix for arm in arms)
    await context.rollouts.run(
        every, context.skills.bodies(*(arm.skill_version for arm in arms)), label=f"evaluate {names}"
    )
    rows = episode_rows(context.store, context.run, "eval", generation)
    with context.store.group():
        for arm in arms:
            name, version = arm.label + suffix, arm.skill_version
            mine = [row for key, row in rows.items() if (key.arm, key.skill_version) == (name, version)]
            summary = _summary(mine, context.experiment.seed)
            context.store.put(
                "evaluations",
                {
                    "run": context.run,
                    "generation": generation,
                    "arm": arm.label + suffix,
                    "split": split,
                    "weights_step": arm.weights_step,
                    "skill_version": arm.skill_version,
                    "seconds": time.monotonic() - started,
                    "created_at": now(),
                    **summary,
                },
            )
            context.progress.note(f"{arm.label + suffix} on {split}: {_sentence(summary)}")
    await context.store.flush()


def _measured(context: LoopContext, generation: int, arm: Arm, label: str, split: str) -> bool:
    """Whether the arm's row is there, with the skill it has today: a rollback may have changed it."""
    sql = "SELECT 1 FROM evaluations WHERE run = ? AND generation = ? AND arm = ? AND split = ? AND skill_version = ?"
    return bool(context.store.query(sql, (context.run, generation, label, split, arm.skill_version)))


def _summary(rows: Sequence[EpisodeRow], seed: int) -> dict[str, float | int | None]:
    ordered = sorted(rows, key=lambda row: (row.key.task, row.key.seed))
    rewards = [row.reward for row in ordered if row.valid and row.reward is not None]
    values: dict[str, float | int | None] = {"episodes": len(rewards), "invalid": len(rows) - len(rewards)}
    if rewards:
        estimate = bootstrap([rewards], seed=seed)[0]
        values |= {"mean": estimate.mean, "lower": estimate.lower, "upper": estimate.upper}
        values["success_rate"] = sum(row.outcome == "success" for row in rows) / len(rewards)
    return values


def _sentence(summary: Mapping[str, float | int | None]) -> str:
    if not summary["episodes"]:
        return "no valid episode"
    invalid = f", {summary['invalid']} invalid" if summary["invalid"] else ""
    return (
        f"reward {summary['mean']:.3f} [{summary['lower']:.3f}, {summary['upper']:.3f}] "
        f"over {summary['episodes']} episodes{invalid}"
    )
