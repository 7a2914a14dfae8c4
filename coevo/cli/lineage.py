"""`coevo skills log, blame, rollback, lint`: the history of a skill, and what stands behind each of its lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from coevo.cli.common import database_option, json_option, open_store, print_json, print_rows
from coevo.cli.skills import find_version, skills


@skills.command("log")
@click.argument("run_id", metavar="[RUN]", required=False)
@database_option
@json_option
def log(run_id: str | None, database: str, as_json: bool) -> None:
    """Show every look at the episodes: what was read, what was proposed, and what the gate said.

    RUN left out: the newest.

    \b
    coevo skills log miniwob-1
    """
    from coevo.store import queries

    with open_store(database) as store:
        run = queries.run(store, run_id)["id"] if run_id else queries.newest_run(store)
        looks = store.query("SELECT * FROM distillations WHERE run = ? ORDER BY generation", (run,))
        for look in looks:
            look["left_out"], look["aside"] = json.loads(look["left_out"]), json.loads(look["aside"])
            look["versions"] = store.query(
                "SELECT id, status, gain, gain_lower, gain_upper, pairs, reason FROM skill_versions"
                " WHERE run = ? AND generation = ? AND status != 'seed' ORDER BY id",
                (run, look["generation"]),
            )
            for version in look["versions"]:
                version["tasks"] = store.query(
                    "SELECT task, avg(reward_candidate - reward_current) AS difference, count(*) AS pairs"
                    " FROM gate_results WHERE skill_version = ? GROUP BY task ORDER BY difference, task",
                    (version["id"],),
                )
        pools: dict[int, list[dict[str, Any]]] = {}
        for row in store.query(
            "SELECT p.*, v.status FROM skill_pool p JOIN skill_versions v ON v.id = p.skill_version WHERE p.run = ?"
            " ORDER BY p.generation, p.place",
            (run,),
        ):
            pools.setdefault(row["generation"], []).append(row | {"best_on": json.loads(row["best_on"])})
        for look in looks:
            look["pool"] = pools.pop(look["generation"], [])
    if as_json:
        print_json(looks)
        return
    if not looks:
        click.echo(f"{run} has not looked at its episodes yet")
    for look in looks:
        click.echo(
            f"generation {look['generation']}: {look['episodes']} episodes → {look['pairs']} contrast pairs, {look['successes']}"
            f" successes, {look['failures']} failures; {len(look['left_out'])} left out; by {look['analyst']}"
        )
        if look["report"]:
            click.echo(f"  {look['report']}")
        for version in look["versions"]:
            click.echo(f"  {version['id']} {version['status']}: {version['reason'] or ''}")
            worse = [row for row in version["tasks"] if (row["difference"] or 0) < 0]
            better = [row for row in version["tasks"] if (row["difference"] or 0) > 0]
            if version["tasks"]:
                click.echo(f"    {len(better)} tasks better, {len(worse)} worse, of {len(version['tasks'])}")
        for item in look["aside"][:5]:
            click.echo(
                f"  {item['status']}: {item['op']} {(item['text'] or item['target'])[:70]!r}: {item['why']}"
            )
        if len(look["aside"]) > 5:
            click.echo(f"  … and {len(look['aside']) - 5} more put aside (--json shows all)")
        _show_pool("  pool", look["pool"])
    for choice in pools.values():
        _show_pool("choice at the end", choice)


def _show_pool(title: str, rows: list[dict[str, Any]]) -> None:
    """A line a version in a comparison of the pool."""
    if not rows:
        return
    void = "; it does not count any more: a version was withdrawn"
    withdrawn = any(row["status"] == "rejected" for row in rows)
    click.echo(f"{title}, on {rows[0]['episodes']} dev episodes{void if withdrawn else ''}:")
    for row in rows:
        mean = "no mean" if row["mean"] is None else f"mean {row['mean']:.3f}"
        place = f"best on {', '.join(row['best_on']) or 'average'}" if row["weight"] else "leaves"
        click.echo(f"    {row['skill_version']} {mean}, {place}")


@skills.command("blame")
@click.argument("version")
@click.option("--line", type=int, help="Only this line, with every episode and call behind it.")
@database_option
@json_option
def blame_version(version: str, line: int | None, database: str, as_json: bool) -> None:
    """Show where each line of VERSION (or of the version a run ended with) comes from.

    Line → version → edit → episodes → calls of the author, and the weights that acted.

    \b
    coevo skills blame miniwob-1
    coevo skills blame miniwob-1 --line 14
    """
    from dataclasses import asdict

    from coevo.errors import SkillError
    from coevo.store.lineage import blame

    with open_store(database) as store:
        lines = blame(store, find_version(store, version)["id"])
    if line is not None:
        lines = [entry for entry in lines if entry.number == line]
        if not lines:
            raise SkillError(f"{version} has no line {line}", hint="leave --line out to see all")
    if as_json:
        print_json([asdict(entry) for entry in lines])
        return
    width = max((len(entry.version or "") for entry in lines), default=0)
    for entry in lines:
        origin = entry.origin
        note = f"{origin.support} tasks, {len(origin.episodes)} episodes" if origin else ""
        click.echo(f"{entry.number:4} {entry.version or '':{width}} {note:24} {entry.text}")
        if line is not None and origin:
            gain = (
                ""
                if origin.gain is None
                else f"; the gate measured {origin.gain:+.3f} over {origin.pairs} pairs"
            )
            click.echo(f"     {origin.edit} ({origin.op}, by {origin.analyst}): {origin.reason}{gain}")
            for episode in origin.episodes:
                who = "centre" if episode["member"] is None else f"member {episode['member']}"
                click.echo(
                    f"     {episode['outcome']:8} {episode['task']}  episode {episode['id']}, generation"
                    f" {episode['generation']}, {who}, weights after {episode['weights_step']} steps"
                )
            for call in origin.calls:
                click.echo(f"     call {call}")


@skills.command("rollback")
@click.argument("run_id", metavar="RUN")
@click.argument("version", required=False)
@click.option(
    "--reason", default="withdrawn by hand", show_default=True, help="Kept with the versions withdrawn."
)
@database_option
def rollback(run_id: str, version: str | None, reason: str, database: str) -> None:
    """Make RUN use VERSION again (left out: the one before the current); a continued run goes on from there.

    Versions accepted since are marked as rejected, with the reason, and are not proposed again. A pool of versions
    becomes what it was when VERSION was accepted.

    \b
    coevo skills rollback miniwob-1
    coevo skills rollback miniwob-1 miniwob-1.g1
    """
    from coevo.loop import rollback_skill

    current, withdrawn = rollback_skill(database, run_id, version, reason)
    click.echo(f"{run_id} uses {current} again; withdrawn: {', '.join(withdrawn)}")


@skills.command("lint")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIRECTORY…")
@click.option("--max-lines", type=int, default=500, show_default=True)
@click.option("--max-tokens", type=int, default=5000, show_default=True, help="About four characters each.")
@json_option
def lint(directories: tuple[Path, ...], max_lines: int, max_tokens: int, as_json: bool) -> None:
    """Check skill directories against the Agent Skills specification, and for what weakens a skill.

    \b
    coevo skills lint skills/web
    """
    import sys

    from coevo.errors import SkillError
    from coevo.skill import Budgets, SkillDocument
    from coevo.skill.lint import weaknesses

    rows: list[dict[str, Any]] = []
    for directory in directories:
        try:
            document = SkillDocument.load(directory)
        except SkillError as error:
            rows.append({"skill": str(directory), "kind": "error", "finding": error.message})
            continue
        budgets = Budgets(max_lines=max_lines, max_tokens=max_tokens)
        rows += [
            {"skill": str(directory), "kind": "error", "finding": problem}
            for problem in document.problems(budgets=budgets)
        ]
        rows += [
            {"skill": str(directory), "kind": "warning", "finding": finding}
            for finding in weaknesses(document, directory)
        ]
    print_rows(rows, ("skill", "kind", "finding"), as_json=as_json, empty="nothing to complain about")
    if any(row["kind"] == "error" for row in rows):
        sys.exit(1)
