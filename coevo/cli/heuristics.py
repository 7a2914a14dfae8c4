"""`coevo heuristics`: what a search over heuristics found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coevo.cli.common import console, database_option, json_option, open_store, print_json, print_rows

if TYPE_CHECKING:
    from coevo.eoh.report import SearchReport
    from coevo.store import Store


@click.group()
def heuristics() -> None:
    """See what a search over heuristics found.

    \b
    coevo heuristics report
    coevo heuristics show tsp-1.t6.3
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
    from coevo.eoh.report import make_search_report, render_curves

    with open_store(database) as store:
        made = make_search_report(store, run_id or _newest(store))
    if svg:
        svg.write_text(render_curves([made]), encoding="utf-8")
        click.echo(f"wrote {svg}", err=True)
    if as_json:
        print_json(made.to_json())
    else:
        _print_report(made)


@heuristics.command("list")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--best", type=click.IntRange(min=1), help="Only the best so many.")
@click.option("--failed", is_flag=True, help="Only those that are not valid, with the reasons.")
@database_option
@json_option
def list_heuristics(run_id: str | None, best: int | None, failed: bool, database: str, as_json: bool) -> None:
    """List the heuristics of a search in the order in which they were made, or the best of them.

    \b
    coevo heuristics list tsp-1 --best 5
    coevo heuristics list tsp-1 --failed
    """
    from coevo.store import queries

    with open_store(database) as store:
        run = queries.run(store, run_id)["id"] if run_id else _newest(store)
        order = "objective, turn, number" if best else "turn, number"
        where = " AND objective IS NULL" if failed else " AND objective IS NOT NULL" if best else ""
        rows = store.query(
            "SELECT id, generation, operator, parents, objective, status, reward, thought, error FROM heuristics"
            f" WHERE run = ?{where} ORDER BY {order} LIMIT ?",
            (run, best or -1),
        )
    for row in rows:
        row["parents"] = json.loads(row["parents"] or "[]")
    columns = ("id", "operator", "objective", "status", "error" if failed else "thought")
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty=f"run {run} has none that {'failed' if failed else 'are valid' if best else 'were judged'}",
    )


@heuristics.command()
@click.argument("heuristic", metavar="ID")
@click.option("--code", is_flag=True, help="Print the program and nothing else.")
@database_option
@json_option
def show(heuristic: str, code: bool, database: str, as_json: bool) -> None:
    """Show a heuristic: its program, its scores, and the line of its ancestors.

    \b
    coevo heuristics show tsp-1.t6.3
    coevo heuristics show tsp-1.t6.3 --code > best.py
    """
    from coevo.eoh.report import lineage

    with open_store(database) as store:
        line = lineage(store, heuristic)
        scores = store.query("SELECT * FROM heuristic_scores WHERE heuristic = ?", (heuristic,))
    found = next(row for row in line if row["id"] == heuristic)
    if code:
        click.echo(found["code"] or "", nl=False)
    elif as_json:
        print_json({"heuristic": found, "scores": scores, "lineage": line})
    else:
        _print_heuristic(found, scores, line)


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
    from coevo.eoh.report import compare_searches, make_search_report, render_curves

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
                row | {"ids": arm.runs, "train": arm.train, "val": arm.val, "test": arm.test}
                for arm, row in zip(arms, rows, strict=True)
            ]
        )
        return
    columns = tuple(rows[0]) if rows else ()
    print_rows(rows, columns, as_json=False, empty="there are no finished searches")


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None


def _newest(store: Store) -> str:
    from coevo.errors import StoreError

    rows = store.query(
        "SELECT id FROM runs WHERE json_extract(config, '$.search') IS NOT NULL ORDER BY created_at DESC LIMIT 1"
    )
    if not rows:
        raise StoreError("there is no search in this database", hint="coevo run FILE with a [search] table")
    return str(rows[0]["id"])


def _print_report(made: SearchReport) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    run = made.run
    out.print(Text(f"run {run['id']} · {made.problem} · {made.arm} · {run['status']} · seed {run['seed']}"))
    turns = Table(title="turns")
    for heading in ("generation", "operator", "valid", "kept", "best", "weights"):
        turns.add_column(heading, justify="left" if heading in ("operator", "weights") else "right")
    for turn in made.turns:
        turns.add_row(
            str(turn["generation"]),
            turn["operator"],
            f"{turn['valid']} of {turn['children']}",
            str(turn["kept"]),
            _number(turn["best"]),
            turn["step"] or "",
        )
    out.print(turns)
    failed = {status: n for status, n in made.budget.by_status.items() if status != "ok"}
    if failed:
        told = ", ".join(f"{n} {status}" for status, n in sorted(failed.items(), key=lambda one: -one[1]))
        out.print(Text(f"not valid: {told}"))
    leaders = Table(
        title="best heuristics (smaller is better; val and test: instances the search did not see)"
    )
    for heading in ("id", "operator", "train", "gap", "val", "gap", "test", "gap", "idea"):
        leaders.add_column(heading, overflow="fold")
    for row in made.best:
        leaders.add_row(
            row["id"],
            row["operator"],
            _number(row["objective"]),
            _share(row["gap"]),
            _number(row["val"]),
            _share(row["val_gap"]),
            _number(row["test"]),
            _share(row["test_gap"]),
            row["thought"] or "",
        )
    out.print(leaders)
    out.print(Text(made.budget.sentence()))


def _print_heuristic(found: dict[str, Any], scores: list[dict[str, Any]], line: list[dict[str, Any]]) -> None:
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(
        Text(f"{found['id']} · {found['operator']} · {found['status']} · {_number(found['objective'])}")
    )
    if found["thought"]:
        out.print(Text(found["thought"]))
    for score in scores:
        out.print(Text(f"{score['split']}: {_number(score['objective'])}  gap {_share(score['gap'])}"))
    if found["error"]:
        out.print(Text(found["error"], style="red"))
    out.print(Syntax(found["code"] or "", "python", background_color="default"))
    ancestors = Table(title="from the oldest ancestor on")
    for heading in ("id", "operator", "parents", "train", "idea"):
        ancestors.add_column(heading, overflow="fold")
    for row in line:
        ancestors.add_row(
            row["id"],
            row["operator"],
            ", ".join(row["parents"]),
            _number(row["objective"]),
            row["thought"] or "",
        )
    out.print(ancestors)
    if found["episode"]:
        out.print(Text(f"next: coevo show {found['episode']}"))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2%}"
