"""Naming the best: what did well on the training instances is judged again on instances the search did not see."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coevo.eoh.population import Individual
from coevo.problem import Split

if TYPE_CHECKING:
    from coevo.eoh.context import SearchContext


async def choose_best(context: SearchContext) -> None:
    """Scores the best few on `val`, then the best of them on `test`. What is stored already is not done again."""
    leaders = context.ledger.best(context.table.rescore)
    if not leaders:
        why = "".join(
            f"\n  {kind['count']} {kind['status']}, for instance: {kind['example']}"
            for kind in context.ledger.failures()
        )
        context.loop.progress.note(f"no valid heuristic was found{why}")
        return
    await context.pool.open()
    known = context.ledger.scored("val")
    missing = [individual for individual in leaders if individual.id not in known]
    done = len(leaders) - len(missing) + len(context.ledger.scored("test"))
    context.loop.progress.phase("fresh instances", len(leaders) + 1, done, "evaluations")

    async def one(individual: Individual, split: Split) -> None:
        verdict = await context.pool.judge(individual.code, split)
        reference = context.problem.reference(split)
        context.ledger.put_score(individual.id, split, verdict, reference)
        await context.loop.store.flush()
        context.loop.progress.item()

    await asyncio.gather(*(one(individual, "val") for individual in missing))
    scored = context.ledger.scored("val")
    valid = [individual for individual in leaders if scored.get(individual.id) is not None]
    if not valid:
        context.loop.progress.note("none of the best heuristics is valid on fresh instances")
        return
    best = min(valid, key=lambda individual: scored[individual.id] or 0.0)
    if best.id not in context.ledger.scored("test"):
        await one(best, "test")
    test = context.ledger.scored("test")[best.id]
    told = "not valid" if test is None else f"{test:.6g}"
    context.loop.progress.note(
        f"best heuristic {best.id}: {best.objective:.6g} on train, {scored[best.id]:.6g} on val, {told} on test"
    )
