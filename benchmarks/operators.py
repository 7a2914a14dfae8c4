"""What a child of each operator is worth: how often it is better than the best parent it was made from.

    python benchmarks/operators.py FILE RUN --db DB [--turn N] [--children 40] [--author NAME …] [--operator NAME …]

FILE is an experiment with formulas, RUN a stored search on the same problem. The parents are those alive after turn N (left out:
the last). Every author gets the same parents and seeds: `chance` draws and changes formulas at random, `free` is the model
writing any formula, `held` the model with its grammar (`search.edits`). Nothing is stored. Objectives are of the valid children;
processor seconds are those of this process, with one thread, judging not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from coevo.cli.common import open_store
from coevo.config import load_experiment
from coevo.engine.base import Engine, Request, Sampling
from coevo.eoh.chance import draft_by_chance
from coevo.eoh.environment import HeuristicTasks, Judge
from coevo.eoh.language import Edits, language_of
from coevo.eoh.ledger import SearchLedger
from coevo.eoh.operators import Operator, Turn
from coevo.eoh.plan import Child, plan_children
from coevo.eoh.replies import Draft
from coevo.loop.resources import open_resources
from coevo.sandbox import CandidateError, Sandbox

AUTHORS = ("chance", "free", "held")


@dataclass(frozen=True)
class Model:
    """Who writes what is not left to chance."""

    engine: Engine
    skill: str
    sampling: Sampling


async def write(
    model: Model, tasks: HeuristicTasks, edits: Edits, operator: Operator, children: Sequence[Child]
) -> tuple[list[Draft | None], int]:
    """The drafts (None for an answer that is no formula), and the tokens of all."""
    language = language_of("formula", tasks.problem, edits)
    system = {"role": "system", "content": f"{model.skill}\n\n{language.goal}".strip()}
    requests = []
    for child in children:
        asked = {"role": "user", "content": language.request(operator, child.parents)}
        grammar = language.grammar(operator, child.parents, child.seed)
        requests.append(Request((system, asked), replace(model.sampling, seed=child.seed, grammar=grammar)))
    answers = await model.engine.generate(requests)
    drafts: list[Draft | None] = []
    for answer in answers:
        try:
            drafts.append(language.read(answer.text))
        except CandidateError:
            drafts.append(None)
    return drafts, sum(answer.completion_tokens for answer in answers)


async def measure(
    file: Path, run: str, db: Path, turn: int | None, count: int, authors: Sequence[str], names: Sequence[str]
) -> None:
    experiment = load_experiment(file, ["search.language=formula", "model.threads=1"])
    with open_store(str(db)) as store:
        alive = SearchLedger(store, run, "").population(turn)
    if not alive:
        raise click.ClickException(f"{run}: nobody is alive after that turn, or there is no such turn")
    click.echo(f"{len(alive)} parents, {alive[0].objective:.4g} to {alive[-1].objective:.4g}")
    click.echo(
        f"{'operator':<8} {'author':<7} {'valid':<10} {'copies':>6} {'better':>7} {'best':>8} {'quarter':>8} {'median':>8}"
        f" {'tokens':>7} {'cpu s':>7}"
    )
    resources = open_resources(experiment)
    tasks = resources.task_set
    assert isinstance(tasks, HeuristicTasks)
    model = Model(resources.engine, resources.skill.body, experiment.base_sampling())
    async with Sandbox(workers=1, limits=tasks.problem.limits) as sandbox:
        judge = Judge(tasks.problem, sandbox, tasks.size)
        for operator in map(Operator, names):
            children = plan_children(experiment, Turn(-1, 0, operator, count), alive, None)
            for author in authors:
                tokens, began = 0, time.process_time()
                drafts: list[Draft | None]
                if author == "chance":
                    drafts = [draft_by_chance(tasks.problem, operator, child) for child in children]
                else:
                    edits: Edits = "held" if author == "held" else "free"
                    drafts, tokens = await write(model, tasks, edits, operator, children)
                seconds = time.process_time() - began
                found = [(await judge(draft.code)).objective if draft else None for draft in drafts]
                counted = _counts(children, drafts, found)
                values = sorted(value for value in found if value is not None)
                click.echo(
                    f"{operator:<8} {author:<7} {len(values):3} of {count:<4} {counted[0]:>6} {counted[1] / count:>7.0%}"
                    + "".join(f" {_quantile(values, share):8}" for share in (0, 1, 2))
                    + f" {tokens / count:7.1f} {seconds / count:7.2f}"
                )
    await model.engine.close()


def _counts(
    children: Sequence[Child], drafts: Sequence[Draft | None], found: Sequence[float | None]
) -> tuple[int, int]:
    """Copies of a parent, and children better than their best parent."""
    copies = better = 0
    for child, draft, value in zip(children, drafts, found, strict=True):
        copies += draft is not None and any(draft.thought == parent.thought for parent in child.parents)
        bar = min(
            (parent.objective for parent in child.parents if parent.objective is not None), default=None
        )
        better += value is not None and bar is not None and value < bar
    return copies, better


def _quantile(values: Sequence[float], quarters: int) -> str:
    return f"{values[len(values) * quarters // 4]:.4g}" if values else "-"


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("run")
@click.option("--db", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--turn", type=int)
@click.option("--children", default=40, show_default=True)
@click.option("--author", "authors", multiple=True, type=click.Choice(AUTHORS))
@click.option("--operator", "operators", multiple=True, type=click.Choice(["e1", "e2", "m1", "m2", "m3"]))
def main(
    file: Path,
    run: str,
    db: Path,
    turn: int | None,
    children: int,
    authors: tuple[str, ...],
    operators: tuple[str, ...],
) -> None:
    asyncio.run(
        measure(
            file, run, db, turn, children, authors or AUTHORS, operators or ("e1", "e2", "m1", "m2", "m3")
        )
    )


if __name__ == "__main__":
    main()
