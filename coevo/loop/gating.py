"""The gate inside a run: candidates against the current skill, in batches, each until its verdict is clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coevo.loop.context import LoopContext
from coevo.loop.plan import Slot
from coevo.loop.rows import rewards_by_slot
from coevo.skill import GateDecision, Verdict, decide, decide_early

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
        versions = [current, *open_ones]
        specs = [
            spec
            for version in versions
            for spec in context.specs(
                "gate", generation, slots[start : start + batch], skill_version=version, arm=version + suffix
            )
        ]
        if not context.rollouts.complete(specs):
            await context.weights.latest()
        found = await context.rollouts.run(
            specs, context.skills.bodies(*versions), label=f"gate {', '.join(open_ones)}"
        )
        rows += found.values()
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
    groups = {slot.task.id: slot.task.group or slot.task.id for slot in slots}
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
