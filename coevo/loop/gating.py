"""The gate inside a run: candidates against the current skill, in batches, each until its verdict is clear; and the pool:
versions that are kept against each other, on the whole of the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coevo.loop.context import LoopContext
from coevo.loop.plan import Slot, draw_slots
from coevo.loop.rows import rewards_by_slot
from coevo.skill import Entrant, GateDecision, Standing, Verdict, decide, decide_early, standings

if TYPE_CHECKING:
    from coevo.loop.rows import EpisodeRow

_SMALLEST_BATCH = 8
_BATCHES = 3

Rewards = dict[tuple[str, int], float | None]


def batch_size(slots: int) -> int:
    """How many of so many slots run before the next look."""
    return max(_SMALLEST_BATCH, -(-slots // _BATCHES))


def share_of_error(confidence: float, candidates: int) -> float:
    """The confidence for one of several candidates: each gets its share of the chance to pass by luck."""
    return 1 - (1 - confidence) / candidates


async def compare(
    context: LoopContext,
    generation: int | None,
    slots: Sequence[Slot],
    current: str,
    candidates: Sequence[str],
    *,
    suffix: str = "",
) -> tuple[dict[str, GateDecision], dict[str, Rewards]]:
    """The decision on each candidate, and the rewards of every version by (task, seed).

    Current version and candidates face the same slots with the centre weights. The slots run in batches; after each one
    `decide_early` drops the candidates whose verdict is clear, and when none is left the rest is not run. `suffix` is
    appended to the arms' labels: without a generation it has to tell the weights apart.
    """
    batch = batch_size(len(slots))
    rows: list[EpisodeRow] = []
    decisions: dict[str, GateDecision] = {}
    for start in range(0, len(slots), batch):
        open_ones = [c for c in candidates if c not in decisions]
        rows += await _run(
            context,
            generation,
            slots[start : start + batch],
            [current, *open_ones],
            f"gate {', '.join(open_ones)}",
            suffix,
        )
        last = start + batch >= len(slots)
        for candidate in open_ones:
            decision = _decide(
                context, slots, rows, current + suffix, candidate + suffix, len(candidates), last
            )
            if decision.verdict is not Verdict.CONTINUE:
                decisions[candidate] = decision
        if len(decisions) == len(candidates):
            break
    return decisions, {version: rewards_by_slot(rows, version + suffix) for version in (current, *candidates)}


async def compare_pool(
    context: LoopContext, generation: int, slots: Sequence[Slot], versions: Sequence[str], limit: int
) -> tuple[Standing, ...]:
    """How `versions` stand against each other on all of `slots`, with the centre weights; at most `limit` of them stay.

    Episodes that a gate of this generation has run on these slots count here, too.
    """
    rows = await _run(context, generation, slots, versions, f"pool of {len(versions)} skill versions")
    entrants = [
        Entrant(version, context.skills.born(version), rewards_by_slot(rows, version)) for version in versions
    ]
    return standings(entrants, _kinds(slots), limit)


async def choose_version(context: LoopContext, generation: int) -> None:
    """Of several versions that are kept, the one with the best mean on dev slots of their own, with the final weights.

    `generation`: the number of generations; the comparison is stored under it, and from then on the run keeps one version.
    """
    kept = [one.version for one in context.skills.pool()]
    if len(kept) == 1:
        return
    slots = draw_slots(context.experiment.seed, "choose", 0, context.dev, context.experiment.skill.dev_tasks)
    pool = await compare_pool(context, generation, slots, kept, limit=1)
    await context.skills.keep(generation, pool)
    context.progress.note(f"skill of the run: {sentence(pool)}")


def sentence(pool: Sequence[Standing]) -> str:
    """Who stays, with means, and who leaves."""

    def named(standing: Standing) -> str:
        return f"{standing.version} ({'–' if standing.mean is None else f'{standing.mean:.3f}'})"

    stay = ", ".join(named(standing) for standing in pool if standing.stays)
    leave = ", ".join(named(standing) for standing in pool if not standing.stays)
    return f"{stay} on {pool[0].episodes} dev episodes" + (f"; without {leave}" if leave else "")


async def _run(
    context: LoopContext,
    generation: int | None,
    slots: Sequence[Slot],
    versions: Sequence[str],
    label: str,
    suffix: str = "",
) -> list[EpisodeRow]:
    """The episodes of every version on every slot, with the centre weights."""
    specs = [
        spec
        for version in versions
        for spec in context.specs("gate", generation, slots, skill_version=version, arm=version + suffix)
    ]
    if not context.rollouts.complete(specs):
        await context.weights.latest()
    found = await context.rollouts.run(specs, context.skills.bodies(*versions), label=label)
    return list(found.values())


def _kinds(slots: Sequence[Slot]) -> dict[str, str]:
    return {slot.task.id: slot.task.group or slot.task.id for slot in slots}


def _decide(
    context: LoopContext,
    slots: Sequence[Slot],
    rows: Sequence[EpisodeRow],
    current: str,
    candidate: str,
    candidates: int,
    last: bool,
) -> GateDecision:
    table = context.experiment.skill
    now, then = rewards_by_slot(rows, current), rewards_by_slot(rows, candidate)
    now = {key: now[key] for key in then}
    confidence = share_of_error(table.confidence, candidates)
    groups = _kinds(slots)
    seed = context.experiment.seed
    if any(reward is not None and not 0 <= reward <= 1 for reward in (*now.values(), *then.values())):
        # Bets need bounded rewards; without bounds only the whole comparison counts.
        decision = decide(
            now, then, confidence=confidence, no_regression=table.no_regression, groups=groups, seed=seed
        )
        if last:
            return decision
        return GateDecision(Verdict.CONTINUE, "", 0.0, 0.0, 0.0, confidence, decision.pairs)
    planned = [(slot.task.id, slot.seed) for slot in slots]
    return decide_early(
        now,
        then,
        planned,
        confidence=confidence,
        no_regression=table.no_regression,
        groups=groups,
        seed=seed,
    )
