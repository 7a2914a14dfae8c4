"""The search as a LangGraph graph: plan → write → settle → [distil → gate] → plan … → choose.

A turn applies one operator: its children are written (episodes, or chance) and judged, rewards become a step of the weights
where the turn moves them, and the best survive. Every node looks at the rows first, so a search that was killed goes on
where it stopped.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from coevo.agent import EpisodeSpec
from coevo.eoh.chance import draft_by_chance
from coevo.eoh.choose import choose_best
from coevo.eoh.context import SearchContext, SearchState, TurnPlan
from coevo.eoh.operators import Operator, Turn
from coevo.eoh.plan import affords_gate, next_turn, plan_children
from coevo.eoh.population import Individual, survivors
from coevo.eoh.rewards import Outcome, rewards_of
from coevo.eoh.start import start_drafts
from coevo.es import NoStep, es_node
from coevo.loop.context import LoopContext
from coevo.loop.gating import choose_version
from coevo.loop.graph import distil as distil_skill
from coevo.loop.graph import gate as gate_skill
from coevo.loop.rollout import key_of
from coevo.loop.rows import EpisodeRow, applied_steps, episode_rows, step_values
from coevo.loop.skills import now
from coevo.problem import Verdict

Search = Runtime[SearchContext]


async def plan(state: SearchState, runtime: Search) -> dict[str, Any]:
    """A stop takes effect between turns at the latest."""
    runtime.context.loop.rollouts.stop.check()
    return {}


async def write(state: SearchState, runtime: Search) -> dict[str, Any]:
    """The children of the next turn that the rows do not have yet, written and judged."""
    context = runtime.context
    planned = context.plan()
    assert planned is not None
    turn = planned.turn
    if _asks_nobody(context, turn):
        await _without_model(context, planned)
        return {}
    specs = _specs(context, planned)
    if not context.loop.rollouts.complete(specs):
        await context.loop.weights.latest()
    version = _skill(context, turn)
    await context.loop.rollouts.run(
        specs,
        context.loop.skills.bodies(version),
        label=f"generation {turn.generation}, {turn.operator}",
    )
    return {}


async def settle(state: SearchState, runtime: Search) -> dict[str, Any]:
    """Rewards become a step where the turn moves the weights, the best survive, and the turn is stored as a whole."""
    context = runtime.context
    planned = context.plan()
    assert planned is not None
    turn = planned.turn
    rows = _episodes(context, planned)
    judged = {
        int(individual.id.rpartition(".")[2]): individual
        for individual in context.ledger.children(turn.number)
    }
    children = [judged.get(child.number) for child in planned.children]
    # A child whose first answer was judged counts, whatever became of its repair.
    broken = [number for number, row in rows.items() if not row.valid and number not in judged]
    _put_unjudged(context, planned, rows, judged)
    step, step_row, member_rows, rewards = await _step(context, planned, children, broken)
    alive = survivors(
        planned.population,
        [child for child in children if child is not None],
        context.table.population,
        context.table.duplicates,
    )
    made = {individual.id for individual in children if individual is not None}
    valid = sum(individual is not None and individual.valid for individual in children)
    with context.loop.store.group():
        for number, row in rows.items():
            if number not in broken:
                context.loop.store.update(
                    "heuristics", context.ledger.heuristic_id(turn, number), {"episode": row.id}
                )
        for number, reward in rewards.items():
            if number not in broken:
                context.ledger.put_reward(turn, number, reward)
        for values in member_rows:
            context.loop.store.put("members", values)
        if step_row is not None:
            context.loop.store.put("es_steps", step_row)
        context.ledger.put_turn(
            turn,
            alive,
            {
                "valid": valid,
                "invalid": len(broken),
                "kept": sum(individual.id in made for individual in alive),
                "step": step or None,
                "sigma": planned.members.sigma if planned.members else None,
                "skill_version": _skill(context, turn),
                "seconds": _seconds(context, turn, rows),
            },
        )
    await context.loop.store.flush()
    failures = [] if valid else context.ledger.failures(turn.number)
    why = f" ({failures[0]['status']}: {failures[0]['example']})" if failures else ""
    context.loop.progress.advance(
        turn.number + 1, _sentence(planned, alive, f"{valid} of {turn.children} valid{why}", step)
    )
    return {"generation": turn.generation}


def _put_unjudged(
    context: SearchContext, planned: TurnPlan, rows: dict[int, EpisodeRow], judged: dict[int, Individual]
) -> None:
    """Rows of children whose agent never came to an answer: candidates that failed."""
    for child in planned.children:
        row = rows.get(child.number)
        if row is not None and row.valid and child.number not in judged:
            context.ledger.put_heuristic(
                planned.turn,
                child.number,
                parents=[parent.id for parent in child.parents],
                draft=None,
                verdict=Verdict(None, error=row.error),
                status=row.category or "gave_up",
                member=child.member.index if child.member else None,
            )


async def distil(state: SearchState, runtime: Search) -> dict[str, Any]:
    """The generation's episodes, read for what breaks code and which ideas pay."""
    generation = runtime.context.ledger.turns()[-1].generation
    found = await distil_skill({"generation": generation}, Runtime(context=runtime.context.loop))
    return {**found, "generation": generation}


async def gate(state: SearchState, runtime: Search) -> dict[str, Any]:
    """Candidates against the current skill on requests of the kind that come next: all operators, today's parents."""
    context, generation = runtime.context, state["generation"]
    loop = _with_requests(context, generation)
    known = [row["id"] for row in loop.skills.candidates(generation) if row["status"] == "proposed"]
    return await gate_skill({"generation": generation, "candidates": known}, Runtime(context=loop))


async def choose(state: SearchState, runtime: Search) -> dict[str, Any]:
    """The skill of the run, where several are kept; the best few on fresh instances, the best of those on the test instances."""
    context = runtime.context
    if len(context.loop.skills.pool()) > 1:
        generation = context.ledger.turns()[-1].generation + 1
        await choose_version(_with_requests(context, generation), generation)
    await choose_best(context)
    return {}


def build_search() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph. Invoke it with an empty state and `context=SearchContext(...)`."""
    graph = StateGraph(SearchState, context_schema=SearchContext)
    for node in (plan, write, settle, distil, gate, choose):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", _after_plan)
    graph.add_edge("write", "settle")
    graph.add_conditional_edges("settle", _after_settle)
    graph.add_conditional_edges("distil", _after_distil)
    graph.add_edge("gate", "plan")
    graph.add_edge("choose", END)
    return graph.compile(name="search")


def _after_plan(state: SearchState, runtime: Search) -> Literal["write", "distil", "choose"]:
    context = runtime.context
    if _looks(context) and _undecided(context):
        return "distil"
    return "choose" if context.plan() is None else "write"


def _after_settle(state: SearchState, runtime: Search) -> Literal["distil", "plan"]:
    return "distil" if _looks(runtime.context) else "plan"


def _after_distil(state: SearchState, runtime: Search) -> Literal["gate", "plan"]:
    return "gate" if state.get("candidates") else "plan"


def _looks(context: SearchContext) -> bool:
    """Whether the last finished turn ended a generation after which the skill is looked at."""
    if context.experiment.schedule.mode not in ("interleaved", "skill") or context.table.author != "model":
        return False
    done = context.ledger.turns()
    if not done:
        return False
    gated = context.ledger.gated()
    following = next_turn(context.table, done, gated)
    last = done[-1].generation
    ended = following is None or following.generation > last
    first = 0 if context.table.method == "sample" else 1
    due = ended and last >= first and (last - first + 1) % context.experiment.skill.every == 0
    return due and affords_gate(context.experiment, done, gated)


def _undecided(context: SearchContext) -> bool:
    """Whether the look after the last finished generation was begun and not ended, or not begun."""
    generation = context.ledger.turns()[-1].generation
    looked = context.loop.store.query(
        "SELECT candidates FROM distillations WHERE run = ? AND generation = ?",
        (context.loop.run, generation),
    )
    if not looked:
        return True
    return any(row["status"] == "proposed" for row in context.loop.skills.candidates(generation))


def _skill(context: SearchContext, turn: Turn) -> str:
    return context.loop.skills.current(turn.generation)


def _asks_nobody(context: SearchContext, turn: Turn) -> bool:
    """Whether the children come from a person or from chance."""
    return turn.operator is Operator.START or context.table.author == "chance"


def _specs(context: SearchContext, planned: TurnPlan) -> list[EpisodeSpec]:
    turn = planned.turn
    return [
        EpisodeSpec(
            run=context.loop.run,
            phase="rollout",
            generation=turn.generation,
            member=child.member.index if child.member else None,
            arm="",
            task=context.task(turn, child),
            seed=child.seed,
            perturbation=child.member.perturbation if child.member else None,
            skill_version=_skill(context, turn),
        )
        for child in planned.children
    ]


def _episodes(context: SearchContext, planned: TurnPlan) -> dict[int, EpisodeRow]:
    """The stored episodes of the turn by the number of the child; none where no model was asked."""
    if _asks_nobody(context, planned.turn):
        return {}
    stored = episode_rows(context.loop.store, context.loop.run, "rollout", planned.turn.generation)
    found = {}
    for child, spec in zip(planned.children, _specs(context, planned), strict=True):
        row = stored.get(key_of(spec))
        if row is not None:
            found[child.number] = row
    return found


async def _without_model(context: SearchContext, planned: TurnPlan) -> None:
    """Heuristics given by a person, or made by chance: judged side by side and stored as they are done."""
    turn = planned.turn
    stored = {individual.id for individual in context.ledger.children(turn.number)}
    given = (
        start_drafts(context.experiment, context.problem.seed_code) if turn.operator is Operator.START else []
    )
    label = f"generation {turn.generation}, {turn.operator}"
    context.loop.progress.phase(label, turn.children, len(stored), "candidates")

    async def one(number: int) -> None:
        child = planned.children[number]
        if context.ledger.heuristic_id(turn, number) in stored:
            return
        draft = given[number] if given else draft_by_chance(context.problem, turn.operator, child)
        verdict = await context.pool.judge(draft.code)
        context.ledger.put_heuristic(
            turn, number, parents=[parent.id for parent in child.parents], draft=draft, verdict=verdict
        )
        await context.loop.store.flush()
        context.loop.progress.item()

    await context.pool.open()
    await asyncio.gather(*(one(number) for number in range(turn.children)))


async def _step(
    context: SearchContext,
    planned: TurnPlan,
    children: list[Individual | None],
    broken: list[int],
) -> tuple[str, dict[str, Any] | None, list[dict[str, Any]], dict[int, float]]:
    """What happened to the weights in words, the rows of step and members, and the rewards by child."""
    members, turn = planned.members, planned.turn
    if members is None:
        return "", None, [], {}
    counted = [child.number for child in planned.children if child.number not in broken]
    outcomes = [
        Outcome(
            individual.objective if (individual := children[number]) is not None else None,
            planned.children[number].parents[0].objective if planned.children[number].parents else None,
        )
        for number in counted
    ]
    worst = max(
        (individual.objective for individual in planned.population if individual.objective is not None),
        default=None,
    )
    found = rewards_of(context.table.rewards, outcomes, worst)
    rewards = dict(zip(counted, found.values, strict=True)) if found.values else {}
    table = {members.members[number].index: {"objective": reward} for number, reward in rewards.items()}
    result = es_node(members, table, episodes=1)
    decision = NoStep("all_equal", found.reason) if found.reason else result.step
    before = len(applied_steps(context.loop.store, context.loop.run))
    row: dict[str, Any] = {
        "run": context.loop.run,
        "step": turn.number,
        "generation": turn.generation,
        "alpha": members.alpha,
        "sigma": members.sigma,
        "decay": members.decay,
        "created_at": now(),
        "weights_step": before,
    }
    if isinstance(decision, NoStep):
        row |= {"status": "skipped", "reason": decision.reason}
        said = f"no step: {decision.reason}"
    else:
        report = await context.loop.weights.apply(decision)
        row |= step_values(decision, report)
        said = f"step {report.weights_step} (‖Δ‖ {report.step_norm:.3g}, drift {report.drift_norm:.3g})"
    rows = [
        {
            "run": context.loop.run,
            "generation": turn.generation,
            "member": member.member.index,
            "seed": member.member.seed,
            "sigma": member.member.sigma,
            "reward": member.reward,
            "coefficient": member.score,
            "valid": member.episodes,
            "invalid": member.invalid,
        }
        for member in result.members
    ]
    return said, row, rows, rewards


def _with_requests(context: SearchContext, generation: int) -> LoopContext:
    """The loop with requests of `generation` as its dev tasks."""
    dev = _requests(context, generation)
    return replace(context.loop, dev=dev) if dev else context.loop


def _requests(context: SearchContext, generation: int) -> list[Any]:
    """Requests the next generation could make, for the gate: every operator in turn, parents by rank."""
    table = context.table
    population = context.ledger.population()
    operators = [Operator.I1] if table.method == "sample" else [Operator(name) for name in table.operators]
    tasks = []
    for place, operator in enumerate(operators):
        turn = Turn(
            -1 - place, generation, operator, -(-context.experiment.skill.dev_tasks // len(operators))
        )
        for child in plan_children(context.experiment, turn, population, None):
            task = context.task(turn, child)
            tasks.append(replace(task, id=f"{context.problem.name}/g{generation}.{operator}.{child.number}"))
    return tasks


def _seconds(context: SearchContext, turn: Turn, rows: dict[int, EpisodeRow]) -> float | None:
    """Since the first of the turn's rows was made."""
    sql = (
        "SELECT (julianday('now') - julianday(min(started))) * 86400 AS seconds FROM ("
        " SELECT min(created_at) AS started FROM heuristics WHERE run = ? AND turn = ?"
        " UNION ALL SELECT min(started_at) FROM episodes WHERE id IN"
        f" ({', '.join('?' for _ in rows)}))"
    )
    found = context.loop.store.query(sql, (context.loop.run, turn.number, *(row.id for row in rows.values())))
    seconds = found[0]["seconds"]
    return None if seconds is None else round(max(0.0, seconds), 3)


def _sentence(planned: TurnPlan, alive: list[Individual], judged: str, step: str) -> str:
    turn = planned.turn
    before = planned.population[0].objective if planned.population else None
    best = alive[0].objective if alive else None
    value = "nothing valid yet" if best is None else f"best {best:.6g}"
    if before is not None and best is not None and best < before:
        value += f" (was {before:.6g})"
    parts = [
        f"generation {turn.generation}, {turn.operator}: {judged}",
        value,
        f"{len(alive)} alive",
    ]
    if planned.members is not None:
        parts += [f"σ {planned.members.sigma:.3g}", step]
    return " · ".join(parts)
