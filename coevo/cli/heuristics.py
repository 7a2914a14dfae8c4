"""`coevo heuristics`: what a search over heuristics found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coevo.cli.common import console, database_option, json_option, open_store, print_json, print_rows

if TYPE_CHECKING:
    from coevo.eoh.report import ArmSummary
    from coevo.store import Store


@click.group()
def heuristics() -> None:
    """See what a search over heuristics found.

    \b
    coevo heuristics report
    coevo heuristics show tsp-1
    coevo heuristics compare --svg arms.svg
    """


@heuristics.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the curve as a picture.")
@database_option
@json_option
def report(run_id: str | None, svg: Path | None, database: str, as_json: bool) -> None:
    """Show a search: its turns, what it spent, and its best heuristics with their gaps on fresh instances.

    RUN left out: the newest search.

    \b
    coevo heuristics report
    coevo heuristics report tsp-1 --svg curve.svg
    """
    with open_store(database) as store:
        print_search(store, run_id or _newest(store), svg=svg, as_json=as_json)


@heuristics.command("list")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--best",
    type=click.IntRange(min=1),
    help="Only the best so many on the training instances; of those that score the same on each, the first.",
)
@click.option("--failed", is_flag=True, help="Only those that are not valid, with the reasons.")
@database_option
@json_option
def list_heuristics(run_id: str | None, best: int | None, failed: bool, database: str, as_json: bool) -> None:
    """List the heuristics of a search in the order in which they were made, or the best of them.

    With --best it is marked which one the search named best, on instances it did not see.

    \b
    coevo heuristics list tsp-1 --best 5
    coevo heuristics list tsp-1 --failed
    """
    from coevo.eoh.ledger import FIRST_OF_ITS_KIND
    from coevo.eoh.report import named_best
    from coevo.store import queries

    if best and failed:
        raise click.UsageError("--best and --failed exclude each other: what failed has no objective")
    with open_store(database) as store:
        run = queries.run(store, run_id)["id"] if run_id else _newest(store)
        order = "objective, turn, number" if best else "turn, number"
        where = "run = ? AND objective IS NULL" if failed else FIRST_OF_ITS_KIND if best else "run = ?"
        rows = store.query(
            "SELECT id, generation, operator, parents, objective, status, reward, thought, error FROM heuristics"
            f" WHERE {where} ORDER BY {order} LIMIT ?",
            (run, best or -1),
        )
        named = named_best(store, run)
    rows = [queries.decoded(row) | {"named_best": row["id"] == named} for row in rows]
    mark = () if failed or not best or named is None else ("named_best",)
    columns = ("id", "operator", "objective", *mark, "status", "error" if failed else "thought")
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty=f"run {run} has none that {'failed' if failed else 'are valid' if best else 'were judged'}",
    )
    if mark and not as_json and named not in {row["id"] for row in rows}:
        click.echo(f"named best: {named}")


@heuristics.command()
@click.argument("ident", metavar="ID")
@click.option("--code", is_flag=True, help="Print the program and nothing else.")
@database_option
@json_option
def show(ident: str, code: bool, database: str, as_json: bool) -> None:
    """Show a heuristic: its program, its scores, and the line of its ancestors.

    ID is that of a heuristic, or of a search, for its best.

    \b
    coevo heuristics show tsp-1.t6.3
    coevo heuristics show tsp-1 --code > best.py
    """
    from coevo.cli.searches import render_heuristic, source_heading
    from coevo.eoh.report import heuristic_facts

    with open_store(database) as store:
        facts = heuristic_facts(store, ident)
    if code:
        click.echo(f"{source_heading(facts)}\n{facts['heuristic']['code'] or ''}", nl=False)
    elif as_json:
        print_json(facts)
    else:
        console().print(render_heuristic(facts))


@heuristics.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the curves as a picture.")
@database_option
@json_option
def compare(run_ids: tuple[str, ...], svg: Path | None, database: str, as_json: bool) -> None:
    """Compare finished searches: best objective by problem, method and number of candidates, over runs.

    \b
    coevo heuristics compare
    coevo heuristics compare tsp-1 tsp-2 --svg arms.svg
    """
    from coevo.eoh.curves import render_curves
    from coevo.eoh.report import compare_searches, make_search_report

    with open_store(database) as store:
        arms = compare_searches(store, run_ids)
        if svg:
            reports = [make_search_report(store, run) for arm in arms for run in arm.runs]
            svg.write_text(render_curves(reports), encoding="utf-8")
            click.echo(f"wrote {svg}", err=True)
    rows = [
        {
            "problem": arm.problem,
            "method": arm.arm,
            "candidates": arm.candidates,
            "runs": len(arm.runs),
            "train_mean": arm.mean,
            "train_std": arm.deviation,
            "train_best": min(arm.train, default=None),
            "val_mean": _mean(arm.val),
            "test_mean": _mean(arm.test),
            "valid_share": arm.valid_share,
        }
        for arm in arms
    ]
    if as_json:
        print_json(
            [
                row
                | {"ids": arm.runs, "train": arm.train, "val": arm.val, "test": arm.test}
                | {"differing": arm.differing, "repeated": arm.repeated}
                for arm, row in zip(arms, rows, strict=True)
            ]
        )
        return
    columns = tuple(rows[0]) if rows else ()
    print_rows(rows, columns, as_json=False, empty="there are no finished searches")
    for note in (*_unequal_budgets(arms), *_mixtures(arms)):
        click.echo(note)


def print_search(store: Store, run_id: str, *, svg: Path | None, as_json: bool) -> None:
    """The report of a search, its curve into a file if one is named."""
    from coevo.cli.searches import render_search
    from coevo.eoh.curves import render_curves
    from coevo.eoh.report import make_search_report

    made = make_search_report(store, run_id)
    if svg:
        svg.write_text(render_curves([made]), encoding="utf-8")
        click.echo(f"wrote {svg}", err=True)
    if as_json:
        print_json(made.to_json())
    else:
        console().print(render_search(made))


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None


def _unequal_budgets(arms: Sequence[ArmSummary]) -> Iterator[str]:
    """A footnote for each problem on which searches of different budgets are listed."""
    for problem in dict.fromkeys(arm.problem for arm in arms):
        budgets = sorted({arm.candidates for arm in arms if arm.problem == problem})
        if len(budgets) > 1:
            yield f"budgets differ on {problem}: {budgets[0]} to {budgets[-1]} candidates; only equal ones compare methods"


def _mixtures(arms: Sequence[ArmSummary]) -> Iterator[str]:
    """A footnote for runs in one row that are not the same search with other seeds."""
    for arm in arms:
        row = f"the runs of {arm.arm} with {arm.candidates} candidates on {arm.problem}"
        if arm.differing:
            yield f"{row} differ in {', '.join(arm.differing)}: name those that belong together"
        if arm.repeated:
            yield f"{row} have a seed twice ({', '.join(map(str, arm.repeated))}): their spread says too little"


def _newest(store: Store) -> str:
    from coevo.errors import StoreError

    rows = store.query(
        "SELECT id FROM runs WHERE json_extract(config, '$.search') IS NOT NULL ORDER BY created_at DESC LIMIT 1"
    )
    if not rows:
        raise StoreError("there is no search in this database", hint="coevo run FILE with a [search] table")
    return str(rows[0]["id"])
