"""`coevo eval`, `report`, `runs`, `show`, `export`: what runs achieved, and taking it elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coevo.cli.common import console, database_option, json_option, open_store, print_json, print_rows
from coevo.grid import ARMS

if TYPE_CHECKING:
    pass


@click.command("eval")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--arm", "arms", multiple=True, type=click.Choice(ARMS), help="Only these arms; may be repeated."
)
@click.option("--split", type=click.Choice(["test", "dev"]), help="Left out: the split of the experiment.")
@click.option("--tasks", type=int, help="Tasks of the split; 0 for all. Left out: as in the experiment.")
@click.option("--repeats", type=int, help="Episodes a task. Left out: as in the experiment.")
@database_option
@json_option
def eval_run(
    run_id: str,
    arms: tuple[str, ...],
    split: str | None,
    tasks: int | None,
    repeats: int | None,
    database: str,
    as_json: bool,
) -> None:
    """Measure a run on held-out tasks.

    The arms are {base, evolved weights} × {seed, evolved skill}. Episodes that are there already are used; more tasks or repeats add to them. Weights are rebuilt from the run's
    updates and held against its checksum.

    \b
    coevo eval miniwob-1 --repeats 3
    coevo eval miniwob-1 --arm evolved+evolved --split dev
    """
    import asyncio
    import sys

    from coevo.loop import RunStopped, evaluate_run, run_async
    from coevo.progress import Progress, make_progress

    progress = Progress() if as_json else make_progress(sys.stdout)
    work = evaluate_run(
        database, run_id, arms=arms, split=split, tasks=tasks, repeats=repeats, progress=progress
    )
    try:
        rows = run_async(work)
    except (RunStopped, asyncio.CancelledError):
        click.echo("stopped; the same command continues", err=True)
        sys.exit(130)
    columns = ("arm", "split", "episodes", "invalid", "mean", "lower", "upper", "success_rate")
    print_rows(rows, columns, as_json=as_json, empty="nothing was measured")


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--grid", is_flag=True, help="Only the grid of weights and skill on held-out tasks.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the curves as a picture.")
@database_option
@json_option
def report(run_id: str | None, grid: bool, svg: Path | None, database: str, as_json: bool) -> None:
    """Show what a run achieved.

    Rewards over generations, skill versions with their verdicts, and the grid {base, evolved weights} × {seed, evolved
    skill} with 95 % intervals of the paired differences. Of a search over heuristics: what `coevo heuristics report` shows.
    RUN left out: the newest.

    \b
    coevo report
    coevo report miniwob-1 --grid
    coevo report miniwob-1 --svg curve.svg
    """
    from coevo.cli.heuristics import print_search
    from coevo.errors import StoreError
    from coevo.report import make_report, render_grid, render_report, render_svg
    from coevo.store import queries

    with open_store(database) as store:
        run = run_id or queries.newest_run(store)
        if (queries.run(store, run)["config"] or {}).get("search"):
            if grid:
                raise StoreError(
                    f"run {run} is a search over heuristics: it has no grid", hint=f"coevo report {run}"
                )
            print_search(store, run, svg=svg, as_json=as_json)
            return
        made = make_report(store, run)
    if svg:
        svg.write_text(render_svg(made), encoding="utf-8")
        click.echo(f"wrote {svg}", err=True)
    if grid and made.grid is None:
        raise StoreError(
            f"run {made.run['id']} has no complete grid yet",
            hint=f"it is made at the end of a run with evaluate.grid = true; or: coevo eval {made.run['id']}",
        )
    if as_json:
        whole = made.to_json()
        print_json(whole["grid"] if grid else whole)
    elif grid and made.grid:
        console().print(render_grid(made.grid))
    else:
        console().print(render_report(made))


@click.command()
@database_option
@json_option
def runs(database: str, as_json: bool) -> None:
    """List all runs, newest first.

    \b
    coevo runs --json
    """
    from coevo.store import queries

    with open_store(database) as store:
        rows = queries.runs(store)
    searches = ("heuristics",) if any(row["heuristics"] for row in rows) else ()
    columns = ("id", "status", "generations", "episodes", *searches, "created_at", "finished_at")
    print_rows(rows, columns, as_json=as_json, empty="no runs yet: coevo run FILE")


@click.command()
@click.argument("ident", metavar="ID")
@database_option
@json_option
def show(ident: str, database: str, as_json: bool) -> None:
    """Show whatever has an ID.

    A run, an episode, a model call, a skill version or a heuristic; a beginning of the ID is enough if it fits only one
    (but for calls and heuristics).

    \b
    coevo show miniwob-1             the run
    coevo show 5d0c2f1a              an episode: goal, actions, what the agent saw
    coevo show 5d0c2f1a9e3b7c44.0    a model call: the whole conversation
    coevo show miniwob-1.g3          a skill version with its edits and their evidence
    coevo show tsp-1.t6.3            a heuristic with its scores and ancestors
    """
    from coevo.cli.show import describe, find

    with open_store(database) as store:
        kind, found = find(store, ident)
    if as_json:
        print_json({"kind": kind, **found})
    else:
        console().print(describe(kind, found))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@database_option
def export(run_id: str, directory: Path, database: str) -> None:
    """Write evolved weights as a Hugging Face model.

    They are rebuilt from the base checkpoint and the run's updates, and held against the run's checksum. The evolved
    skill is written by `coevo skills export`.

    \b
    coevo export miniwob-1 evolved-model
    """
    import asyncio

    from coevo.loop import export_run

    row: dict[str, Any] = asyncio.run(export_run(database, run_id, directory))
    click.echo(f"wrote {directory}: weights of {row['run']} after {row['weights_step']} updates")
    if (directory / "config.json").exists():
        click.echo(f'next: AutoModelForCausalLM.from_pretrained("{directory}")')
