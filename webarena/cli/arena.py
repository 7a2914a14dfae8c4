"""`coevo webarena up`, `down`, `status`, `tasks`, `solve`: the local arena."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coevo.cli.common import json_option, print_json, print_rows
from coevo.errors import ConfigError

if TYPE_CHECKING:
    from webarena.arena import Arena
    from webarena.sites.tasks import LocalTask

DEFAULT_SLOTS = 4

sites_option = click.option(
    "--site", "sites", multiple=True, metavar="NAME", help="Only this site; can be given several times."
)
templates_option = click.option(
    "--template",
    "templates",
    type=int,
    multiple=True,
    metavar="NUMBER",
    help="Only this template's tasks; can be given several times.",
)
seed_option = click.option("--seed", default=0, show_default=True, help="Of the sites' content.")


@click.command()
@click.option("--slots", default=DEFAULT_SLOTS, show_default=True, help="Private copies of each site.")
@sites_option
@seed_option
def up(slots: int, sites: tuple[str, ...], seed: int) -> None:
    """Start the local arena and leave it running. The first time, its content is built.

    Runs with `tasks.set = "webarena.local:tasks"` use it while it has free slots; without it they start their own.

    Example: coevo webarena up --slots 8
    """
    from webarena import standing

    async def start() -> tuple[Arena, bool]:
        return await standing.up(sites or None, slots=slots, seed=seed, report=_say)

    begun = time.monotonic()
    arena, made = asyncio.run(start())
    for name, url in arena.urls(0).items():
        click.echo(f"{name:15} {url}")
    state = f"up after {time.monotonic() - begun:.1f} s" if made else "was up already"
    click.echo(f"The arena {state}, with {arena.slots} slots. `coevo webarena down` ends it.")


@click.command()
def down() -> None:
    """End the arena that `coevo webarena up` has started.

    Example: coevo webarena down
    """
    from webarena import standing

    stopped = asyncio.run(standing.down())
    click.echo(f"Stopped {', '.join(stopped)}." if stopped else "No arena was up.")


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show the arena that is up: sites, addresses, and how often a site's process has died.

    Example: coevo webarena status --json
    """
    from webarena import standing

    record = standing.read_record()
    answers = asyncio.run(standing.attach(record).status()) if record is not None else {}
    rows = [_site_row(name, answer) for name, answer in answers.items()]
    print_rows(
        rows, ("site", "state", "pid", "slots", "deaths", "url"), as_json=as_json, empty="No arena is up."
    )


@click.command("tasks")
@sites_option
@templates_option
@seed_option
@click.option("--split", type=click.Choice(["train", "dev", "test"]), help="Only this split.")
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write them as a WebArena task file.",
)
@json_option
def list_tasks(
    sites: tuple[str, ...],
    templates: tuple[int, ...],
    seed: int,
    split: str | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """Count the arena's tasks by template, or write them in WebArena's JSON.

    Example: coevo webarena tasks --split test --write test.json
    """
    from webarena.sites import load_site
    from webarena.sites.tasks import SPLITS, local_tasks, to_config

    for name in sites:
        load_site(name)
    chosen = [
        task
        for task in local_tasks(seed)
        if task.split in ((split,) if split else SPLITS) and (not sites or task.template.site in sites)
    ]
    chosen = _of_templates(chosen, templates)
    if target is not None:
        target.write_text(
            json.dumps([to_config(task) for task in chosen], indent=1, ensure_ascii=False) + "\n"
        )
        click.echo(f"{target}: {len(chosen)} tasks")
        return
    if as_json:
        print_json([to_config(task) for task in chosen])
        return
    counts: dict[int, dict[str, Any]] = {}
    for task in chosen:
        one = task.template
        row = counts.setdefault(
            one.id,
            {"template": one.id, "site": one.site, "level": one.level, "kind": one.kind, "split": task.split, "tasks": 0, "intent": one.intent},
        )  # fmt: skip
        row["tasks"] += 1
    columns = ("template", "site", "level", "kind", "split", "tasks", "intent")
    print_rows(list(counts.values()), columns, as_json=False, empty="No tasks.")
    click.echo(f"{len(chosen)} tasks of {len(counts)} templates")


@click.command()
@sites_option
@templates_option
@seed_option
@click.option(
    "--sample", "count", type=click.IntRange(1), help="So many tasks of each template (default: all)."
)
@click.option("--slots", default=DEFAULT_SLOTS, show_default=True, help="How many at once.")
@json_option
@click.pass_context
def solve(
    ctx: click.Context,
    sites: tuple[str, ...],
    templates: tuple[int, ...],
    seed: int,
    count: int | None,
    slots: int,
    as_json: bool,
) -> None:
    """Prove that the arena's tasks can be done: each task's own script must score 1, doing nothing 0.

    Exits with 1 when that fails for a task. Example: coevo webarena solve --sample 1
    """
    from webarena import local
    from webarena.sites.tasks import SPLITS
    from webarena.solve import Proof, prove, sample

    task_set = local.tasks(sites or None, seed=seed)
    every = [task for split in SPLITS for task in task_set.local(split)]
    chosen = sample(_of_templates(every, templates), count)
    done: list[Proof] = []

    def progress(proof: Proof) -> None:
        done.append(proof)
        if not proof.holds or len(done) % 20 == 0:
            why = "" if proof.holds else f": {proof.task}: {_failure(proof)}"
            click.echo(f"{len(done)}/{len(chosen)}{why}", err=True)

    async def run() -> list[Proof]:
        pool = task_set.pool(slots)
        try:
            return await prove(chosen, pool, report=progress)
        finally:
            await pool.close()

    proofs = asyncio.run(run())
    if as_json:
        print_json([{**dataclasses.asdict(proof), "holds": proof.holds} for proof in proofs])
    else:
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for proof in proofs:
            row = rows.setdefault(
                (proof.site, proof.level),
                {
                    "site": proof.site,
                    "level": proof.level,
                    "tasks": 0,
                    "solved": 0,
                    "idle_scores_0": 0,
                    "seconds": 0.0,
                },
            )
            row["tasks"] += 1
            row["solved"] += proof.solved == 1.0
            row["idle_scores_0"] += proof.idle == 0.0
            row["seconds"] = round(row["seconds"] + proof.seconds, 1)
        columns = ("site", "level", "tasks", "solved", "idle_scores_0", "seconds")
        print_rows([rows[key] for key in sorted(rows)], columns, as_json=False, empty="No tasks.")
    failed = sum(not proof.holds for proof in proofs)
    if not as_json:
        click.echo(f"{len(proofs) - failed} of {len(proofs)} tasks hold")
    if failed:
        ctx.exit(1)


def _of_templates(tasks: Sequence[LocalTask], templates: Sequence[int]) -> list[LocalTask]:
    """Those of the templates, all if none is named. Raises ConfigError for a template without tasks here."""
    known = {task.template.id for task in tasks}
    for number in templates:
        if number not in known:
            raise ConfigError(
                f"the template {number} has no tasks here",
                hint="`coevo webarena tasks` lists templates with their sites and splits",
            )
    return [task for task in tasks if not templates or task.template.id in templates]


def _failure(proof: Any) -> str:
    if proof.problem:
        return str(proof.problem)
    if proof.solved != 1.0:
        return f"its script scores {proof.solved} with the answer {proof.answer!r}"
    return f"doing nothing scores {proof.idle}"


def _site_row(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        return {"site": name, "state": "down", "error": answer["error"]}
    slots = answer["slots"]
    return {
        "site": name,
        "state": "up",
        "pid": answer["pid"],
        "slots": len(slots),
        "deaths": sum(slot["deaths"] for slot in slots),
        "url": f"http://127.0.0.1:{slots[0]['port']}",
        "ports": [slot["port"] for slot in slots],
    }


def _say(line: str) -> None:
    click.echo(line, err=True)


COMMANDS: tuple[click.Command, ...] = (up, down, status, list_tasks, solve)
