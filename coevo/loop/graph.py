"""The co-evolution graph: plan → rollout → es_update → [distil → gate] → [evaluate] → plan … → final.

Every node first looks at the rows: what is already there is not done again. A run that was killed therefore
continues from its last checkpoint, or, without one, from the rows alone.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from coevo.env import Outcome
from coevo.es import EsResult, NoStep, es_node
from coevo.loop.context import LoopContext, LoopState
from coevo.loop.evaluate import Arm, evaluation_slots, final_arms, measure
from coevo.loop.gating import choose_version, compare, compare_pool, sentence
from coevo.loop.plan import GenerationPlan, draw_slots
from coevo.loop.rows import (
    EpisodeRow,
    applied_steps,
    episode_rows,
    generations_done,
    step_values,
)
from coevo.loop.skills import budgets, now
from coevo.progress import GenerationSummary
from coevo.skill import Standing
from coevo.skill import distil as distil_episodes
from coevo.store.queries import episodes

Loop = Runtime[LoopContext]

FLAT_SPREAD = 0.02
"""A standard deviation of the members' rewards below this is told to the person: there is little to learn from."""


async def baseline(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """Base weights with the seed skill on the held-out tasks, before anything moves."""
    context = runtime.context
    if context.experiment.evaluate.grid:
        arm = Arm("base+seed", 0, context.skills.seed_version)
        await measure(
            context, 0, [arm], slots=evaluation_slots(context), split=context.experiment.evaluate.split
        )
    return {}


async def plan(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """Nothing is decided here that seeds do not decide; a stop takes effect between generations at the latest."""
    runtime.context.rollouts.stop.check()
    return {"candidates": []}


async def rollout(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """All members face the same tasks with the same seeds under one skill version."""
    context, generation = runtime.context, state["generation"]
    if generations_done(context.store, context.run) > generation:
        return {}
    planned = context.plan(generation)
    version = context.skills.current(generation)
    specs = [
        spec
        for member in planned.population.members
        for spec in context.specs(
            "rollout",
            generation,
            planned.slots,
            skill_version=version,
            member=member.index,
            perturbation=member.perturbation,
        )
    ]
    if not context.rollouts.complete(specs):
        await context.weights.latest()
    await context.rollouts.run(specs, context.skills.bodies(version), label=f"generation {generation}")
    return {}


async def es_update(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """Rewards become a step, or the reason for none; the generation's rows are stored together."""
    context, generation = runtime.context, state["generation"]
    if generations_done(context.store, context.run) > generation:
        return {}
    planned = context.plan(generation)
    rows = list(episode_rows(context.store, context.run, "rollout", generation).values())
    rewards: dict[int, dict[str, float]] = {}
    for row in rows:
        if row.valid and row.reward is not None and row.key.member is not None:
            rewards.setdefault(row.key.member, {})[row.key.slot] = row.reward
    result = es_node(planned.population, rewards, episodes=len(planned.slots))
    before = len(applied_steps(context.store, context.run))
    values, said = await _move(context, planned, result)
    await _store_generation(context, planned, result, rows, before, values)
    context.progress.generation(
        GenerationSummary(
            generation=generation,
            sigma=planned.population.sigma,
            mean=result.mean,
            std=result.std,
            worst=result.worst,
            best=result.best,
            step=said,
            seconds=_generation_seconds(context, generation),
        )
    )
    if result.std is not None and result.std < FLAT_SPREAD and planned.moves_weights:
        context.progress.note(
            f"members hardly differ (spread {result.std:.3f}): a larger es.sigma, or tasks that are neither always nor"
            " never solved, give the update something to go by"
        )
    return {}


async def distil(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """The same episodes, read for what separates success from failure: candidates for a new skill version."""
    context, generation = runtime.context, state["generation"]
    known = context.skills.candidates(generation)
    if known:
        return {"candidates": [row["id"] for row in known if row["status"] == "proposed"]}
    version = context.skills.current(generation)
    first = max(0, generation - context.experiment.skill.every + 1)
    read = episodes(
        context.store,
        context.run,
        phase="rollout",
        generations=range(first, generation + 1),
        skill_version=version,
    )
    found = await context.rollouts.stop.interrupts(
        distil_episodes(
            context.skills.document(version),
            read,
            context.analyst,
            rejected=context.skills.ruled_out(generation),
            budgets=budgets(context.experiment.skill),
            held_out={task.id for task in (*context.dev, *context.held_out)},
            max_examples=context.experiment.skill.examples,
        )
    )
    report = str(getattr(context.analyst, "report", ""))
    if report:
        context.progress.note(f"{context.analyst.name}: {report}")
    if not found.proposals:
        context.progress.note("the episodes teach nothing new about the skill")
    versions = await context.skills.record(
        generation,
        version,
        found,
        context.analyst.name,
        candidates=context.experiment.skill.candidates,
        report=report,
    )
    return {"candidates": versions}


async def gate(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """Candidates against the current skill, paired on dev slots, with the current centre weights (`coevo.loop.gating`).

    With `skill.pool` above 1 the accepted one joins the versions that are kept, and those it makes superfluous leave.
    """
    context, generation = runtime.context, state["generation"]
    table = context.experiment.skill
    current = context.skills.current(generation)
    made = {
        row["id"]: row["reason"]
        for row in context.skills.candidates(generation)
        if row["status"] == "proposed"
    }
    candidates = list(made)
    if not candidates:
        return {"candidates": []}
    slots = draw_slots(context.experiment.seed, "gate", generation, context.dev, table.dev_tasks)
    decisions, rewards = await compare(context, generation, slots, current, candidates)
    good = [candidate for candidate in candidates if decisions[candidate].accepted]
    best = max(good, key=lambda candidate: decisions[candidate].mean_difference, default=None)
    reasons = {
        candidate: f"{made[candidate]}; {decision.reason}"
        + (f"; {best} gained more" if decision.accepted and candidate != best else "")
        for candidate, decision in decisions.items()
    }
    pool: tuple[Standing, ...] = ()
    if best is not None and table.pool > 1:
        kept = [one.version for one in context.skills.pool(generation)]
        pool = await compare_pool(context, generation, slots, [*kept, best], table.pool)
    await context.skills.decide(
        generation,
        current,
        best,
        {candidate: (decisions[candidate], reasons[candidate]) for candidate in candidates},
        {
            candidate: [
                (task, seed, rewards[current][task, seed], rewards[candidate][task, seed])
                for task, seed in rewards[candidate]
            ]
            for candidate in candidates
        },
        pool,
    )
    for candidate in candidates:
        verdict = "accepted" if candidate == best else "rejected"
        context.progress.note(f"skill {candidate} {verdict}: {reasons[candidate]}")
    if pool:
        context.progress.note(f"skill pool: {sentence(pool)}")
    return {"candidates": []}


async def evaluate(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """The centre on the held-out tasks, for the curve."""
    context, done = runtime.context, state["generation"] + 1
    arm = Arm("evolved+evolved", len(applied_steps(context.store, context.run)), context.skills.best())
    await measure(
        context, done, [arm], slots=evaluation_slots(context), split=context.experiment.evaluate.split
    )
    return {}


async def advance(state: LoopState, runtime: Loop) -> dict[str, Any]:
    return {"generation": state["generation"] + 1}


async def final(state: LoopState, runtime: Loop) -> dict[str, Any]:
    """The skill of the run, where several are kept, and the rest of the grid. Arms that share weights run side by side;
    the base weights come last."""
    context = runtime.context
    table, generations = context.experiment.evaluate, context.experiment.es.generations
    await choose_version(context, generations)
    arms = final_arms(context)
    if not table.grid:
        arms = arms[:1]
    for evolved in (True, False):
        group = [arm for arm in arms if (arm.weights_step > 0) is evolved]
        if table.grid:
            group = [arm for arm in group if arm.label != "base+seed"]
        if group:
            await measure(context, generations, group, slots=evaluation_slots(context), split=table.split)
    return {}


def build_loop(
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph. Invoke it with a LoopState and `context=LoopContext(...)`."""
    graph = StateGraph(LoopState, context_schema=LoopContext)
    for node in (baseline, plan, rollout, es_update, distil, gate, evaluate, advance, final):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "baseline")
    graph.add_edge("baseline", "plan")
    graph.add_edge("plan", "rollout")
    graph.add_edge("rollout", "es_update")
    graph.add_conditional_edges("es_update", _after_update)
    graph.add_conditional_edges("distil", _after_distil)
    graph.add_conditional_edges("gate", _after_gate)
    graph.add_edge("evaluate", "advance")
    graph.add_conditional_edges("advance", _after_generation)
    graph.add_edge("final", END)
    return graph.compile(checkpointer=checkpointer, name="coevo")


def _after_update(state: LoopState, runtime: Loop) -> Literal["distil", "evaluate", "advance"]:
    planned = runtime.context.plan(state["generation"])
    return "distil" if planned.looks_at_skill else _after_gate(state, runtime)


def _after_distil(state: LoopState, runtime: Loop) -> Literal["gate", "evaluate", "advance"]:
    return "gate" if state["candidates"] else _after_gate(state, runtime)


def _after_gate(state: LoopState, runtime: Loop) -> Literal["evaluate", "advance"]:
    return "evaluate" if runtime.context.plan(state["generation"]).evaluates else "advance"


def _after_generation(state: LoopState, runtime: Loop) -> Literal["plan", "final"]:
    return "plan" if state["generation"] < runtime.context.experiment.es.generations else "final"


async def _move(
    context: LoopContext, planned: GenerationPlan, result: EsResult
) -> tuple[dict[str, Any], str]:
    """Apply the step if there is one; returns the columns of its `es_steps` row and a few words for a person."""
    if not planned.moves_weights:
        reason = f"weights are held fixed in this generation (mode {context.experiment.schedule.mode})"
        return {"status": "skipped", "reason": reason}, "weights held fixed"
    if isinstance(result.step, NoStep):
        return {"status": "skipped", "reason": result.step.reason}, f"no step: {result.step.reason}"
    report = await context.weights.apply(result.step)
    said = f"step {report.weights_step} (‖Δ‖ {report.step_norm:.3g}, drift {report.drift_norm:.3g})"
    return step_values(result.step, report), said


async def _store_generation(
    context: LoopContext,
    planned: GenerationPlan,
    result: EsResult,
    rows: list[EpisodeRow],
    weights_before: int,
    step_columns: dict[str, Any],
) -> None:
    generation, population = planned.generation, planned.population
    valid = [row for row in rows if row.valid]
    outcomes = Counter(row.outcome for row in valid)
    times = context.store.query(
        "SELECT min(started_at) AS started, count(*) AS episodes FROM episodes"
        " WHERE run = ? AND phase = 'rollout' AND generation = ?",
        (context.run, generation),
    )[0]
    with context.store.group():
        for member in result.members:
            context.store.put(
                "members",
                {
                    "run": context.run,
                    "generation": generation,
                    "member": member.member.index,
                    "seed": member.member.seed,
                    "sigma": member.member.sigma,
                    "reward": member.reward,
                    "coefficient": member.score,
                    "valid": member.episodes,
                    "invalid": member.invalid,
                },
            )
        context.store.put(
            "es_steps",
            {
                "run": context.run,
                "step": generation,
                "generation": generation,
                "alpha": population.alpha,
                "sigma": population.sigma,
                "decay": population.decay,
                "created_at": now(),
                "weights_step": weights_before,
                **step_columns,
            },
        )
        context.store.put(
            "generations",
            {
                "run": context.run,
                "generation": generation,
                "sigma": population.sigma,
                "alpha": population.alpha,
                "weights_step": weights_before,
                "skill_version": context.skills.current(generation),
                "tasks": [slot.task.id for slot in planned.slots],
                "episodes": times["episodes"],
                "valid": len(valid),
                "invalid": len(rows) - len(valid),
                "mean_reward": fmean(row.reward for row in valid if row.reward is not None)
                if valid
                else None,
                "std_reward": result.std,
                "best_reward": result.best,
                "success_rate": outcomes[Outcome.SUCCESS] / len(valid) if valid else None,
                "prompt_tokens": sum(row.prompt_tokens for row in rows),
                "completion_tokens": sum(row.completion_tokens for row in rows),
                "started_at": times["started"],
                "finished_at": now(),
                "seconds": _seconds_since(times["started"]),
            },
        )
    await context.store.flush()


def _generation_seconds(context: LoopContext, generation: int) -> float:
    rows = context.store.query(
        "SELECT seconds FROM generations WHERE run = ? AND generation = ?", (context.run, generation)
    )
    return float(rows[0]["seconds"] or 0.0)


def _seconds_since(started: str | None) -> float | None:
    return (datetime.now(UTC) - datetime.fromisoformat(started)).total_seconds() if started else None
