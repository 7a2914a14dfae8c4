"""`coevo skills distil, try`: read a run's episodes once more, or hold any document against the run's own."""

from __future__ import annotations

from pathlib import Path

import click

from coevo.cli.common import database_option, json_option, print_json, print_rows
from coevo.cli.skills import skills, write_skill


@skills.command("distil")
@click.argument("run_id", metavar="RUN")
@click.option("--analyst", help="`miner`, `llm`, or module:factory. Left out: the experiment's.")
@click.option("--author", help="`policy` or provider:model: an `llm` analyst with this author.")
@click.option("--last", type=int, help="Only the rollouts of so many of the latest generations.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the best candidate as a skill into DIR, with the other files of its seed.",
)
@database_option
@json_option
def distil(
    run_id: str,
    analyst: str | None,
    author: str | None,
    last: int | None,
    out: Path | None,
    database: str,
    as_json: bool,
) -> None:
    """Distil the episodes of RUN again; shows the candidates, changes nothing.

    Calls of a language model are kept in the database: a distillation that was stopped goes on where it was.

    \b
    coevo skills distil miniwob-1
    coevo skills distil miniwob-1 --author openai:MODEL --out drafts
    """
    from coevo.loop import distil_run, run_async

    version, found, report = run_async(
        distil_run(database, run_id, analyst=analyst, author=author, last=last)
    )
    rows = [
        {
            "label": proposal.label,
            "expected_gain": proposal.expected_gain,
            "edits": len(proposal.applied),
            "reason": proposal.reason,
            "text": proposal.document.render(),
        }
        for proposal in found.proposals
    ]
    if as_json:
        print_json({"version": version, "report": report, "candidates": rows})
    else:
        click.echo(f"from {version}: {len(found.selection.pairs)} contrast pairs, {len(rows)} candidates")
        if report:
            click.echo(report)
        print_rows(
            rows, ("label", "edits", "expected_gain", "reason"), as_json=False, empty="nothing new to teach"
        )
        if rows and not out:
            click.echo(rows[0]["text"])
    if out and found.proposals:
        for line in write_skill(database, version, found.proposals[0].document, out):
            click.echo(line, err=as_json)


@skills.command("try")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--run", "run_id", required=True, metavar="RUN", help="Whose tasks, weights and skill.")
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option("--tasks", type=int, default=0, help="Tasks of the split; 0 for all.")
@database_option
@json_option
def try_directory(directory: Path, run_id: str, split: str, tasks: int, database: str, as_json: bool) -> None:
    """Compare the skill in DIRECTORY with the one RUN ended with: same tasks and seeds, the run's final weights.

    \b
    coevo skills try my-skills/web --run miniwob-1 --tasks 30
    """
    import asyncio
    import sys
    from dataclasses import asdict

    from coevo.loop import RunStopped, run_async, try_skill
    from coevo.progress import Progress, make_progress
    from coevo.skill import SkillDocument

    progress = Progress() if as_json else make_progress(sys.stdout)
    work = try_skill(
        database, run_id, SkillDocument.load(directory), split=split, tasks=tasks, progress=progress
    )
    try:
        trial = run_async(work)
    except (RunStopped, asyncio.CancelledError):
        click.echo("stopped; the same command continues", err=True)
        sys.exit(130)
    decision = trial.decision
    rows = sorted(
        ({**asdict(delta), "difference": delta.difference} for delta in decision.per_task),
        key=lambda row: (row["difference"], row["task"]),
    )
    if as_json:
        print_json(
            {
                "run": trial.run,
                "version": trial.version,
                "against": trial.against,
                "verdict": str(decision.verdict),
                "mean_difference": decision.mean_difference,
                "lower": decision.lower,
                "upper": decision.upper,
                "pairs": decision.pairs,
                "tasks": rows,
            }
        )
        return
    print_rows(rows, ("task", "current", "candidate", "difference", "pairs"), as_json=False, empty="no pairs")
    click.echo(
        f"{trial.version} against {trial.against}: {decision.mean_difference:+.3f}"
        f" [{decision.lower:+.3f}, {decision.upper:+.3f}] over {decision.pairs} pairs; the gate would {decision.verdict} it"
        f" ({decision.reason})"
    )
