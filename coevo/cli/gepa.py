"""`coevo skills gepa`: GEPA writes a successor of a run's skill, the run's gate judges it."""

from __future__ import annotations

from pathlib import Path

import click

from coevo.cli.common import database_option, json_option, print_json
from coevo.cli.skills import skills, write_skill


@skills.command("gepa")
@click.argument("run_id", metavar="RUN")
@click.option("--budget", type=click.IntRange(min=1), required=True, help="Episodes on train tasks.")
@click.option("--author", help="`policy` or provider:model. Left out: the experiment's skill.author.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of GEPA's own choices.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a version that passes as a skill into DIR, with the other files of its seed.",
)
@database_option
@json_option
def evolve(
    run_id: str, budget: int, author: str | None, seed: int, out: Path | None, database: str, as_json: bool
) -> None:
    """Let GEPA rewrite the skill of RUN; the gate decides whether the result is better.

    GEPA (install `coevo[tools]`) sees train tasks only; its best document then meets the skill RUN ended with on dev
    tasks, with the run's final weights. RUN stays as it is. Episodes and calls are kept in the database: the same
    command, after a stop, pays only for what is missing.

    \b
    coevo skills gepa miniwob-1 --budget 60
    coevo skills gepa miniwob-1 --budget 200 --author openai:MODEL --out drafts
    """
    import asyncio
    import sys

    from coevo.loop import RunStopped, evolve_with_gepa, run_async
    from coevo.progress import Progress, make_progress

    progress = Progress() if as_json else make_progress(sys.stdout)
    work = evolve_with_gepa(database, run_id, budget=budget, author=author, seed=seed, progress=progress)
    try:
        trial = run_async(work)
    except (RunStopped, asyncio.CancelledError):
        click.echo("stopped; the same command continues", err=True)
        sys.exit(130)
    decision = trial.decision
    if as_json:
        print_json(
            {
                "run": trial.run,
                "version": trial.version,
                "against": trial.against,
                "verdict": str(decision.verdict) if decision else None,
                "reason": decision.reason if decision else None,
                "mean_difference": decision.mean_difference if decision else None,
                "pairs": decision.pairs if decision else None,
                "candidates": trial.candidates,
                "evaluations": trial.evaluations,
                "report": trial.report,
                "text": trial.document.render() if trial.document else None,
            }
        )
    else:
        click.echo(f"{trial.candidates} candidates, {trial.evaluations} evaluations, {trial.report}")
        if decision is None:
            click.echo(f"GEPA found nothing better than {trial.against} on its train tasks")
        else:
            click.echo(
                f"{trial.version} against {trial.against}: the gate would {decision.verdict} it ({decision.reason})"
            )
    if out and trial.document and decision and decision.accepted:
        for line in write_skill(database, trial.against, trial.document, out):
            click.echo(line, err=as_json)
