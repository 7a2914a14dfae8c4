"""`coevo ahd …`. The command line finds this group by its entry point; each command imports what it needs when it runs."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import pstdev
from typing import TYPE_CHECKING, Any, cast

import click

from ahd import PROBLEMS
from ahd.contract import SPLITS, contract, instances_text, is_bundled, page
from coevo.cli.common import console, json_option, print_json, print_rows
from coevo.errors import ConfigError

if TYPE_CHECKING:
    from ahd.base import BundledProblem
    from coevo.problem import Problem, Reference, Split, Verdict

split_option = click.option(
    "--split", type=click.Choice(SPLITS), default="train", show_default=True, help="Which instances."
)
size_option = click.option(
    "--size", type=click.IntRange(min=1), help="Of the instances; `coevo ahd problems` lists them."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def ahd() -> None:
    """Heuristic design: the problems, their baselines, and what a heuristic in a file is worth."""


@ahd.command()
@click.argument("name", required=False, metavar="[PROBLEM]")
@json_option
def problems(name: str | None, as_json: bool) -> None:
    """List the problems with their instances and reference values, or print what one asks of a heuristic.

    There are six; aco_cvrp_penalised and aco_bpp_colony are two of them with another way of scoring. PROBLEM, one of these
    or your own (module:factory or file.py:factory), is printed whole: its function, a simple heuristic, and the
    variables of its formulas with what a formula's value decides.

    \b
    coevo ahd problems
    coevo ahd problems construct_tsp
    """
    if name is None:
        rows = [_summary(_problem(name)) for name in PROBLEMS]
        for row, factory in zip(rows, PROBLEMS.values(), strict=True):
            row["is"] = (factory.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".")
        columns = ("problem", "function", *SPLITS, "train_reference", "source", "is")
        shown = rows if as_json else [{**row, "train_reference": row["reference"]} for row in rows]
        print_rows(shown, columns, as_json=as_json, empty="No problems.")
        return
    problem = _named("PROBLEM", name)
    if as_json:
        print_json(_summary(problem) if is_bundled(problem) else contract(problem))
    else:
        console().print(page(contract(problem)))


@ahd.command()
@click.argument("names", nargs=-1, metavar="[PROBLEM]...", type=click.Choice(list(PROBLEMS)))
@split_option
@size_option
@json_option
def baselines(names: tuple[str, ...], split: str, size: int | None, as_json: bool) -> None:
    """Measure simple known heuristics in the sandbox, with their gap to the reference.

    Without a name: of all problems. Example: coevo ahd baselines construct_tsp --split test --size 20
    """
    if size is not None and len(names) != 1:
        raise ConfigError(
            "instance sizes differ from problem to problem", hint="name one problem with --size"
        )
    chosen = [_problem(name) for name in names or [name for name in PROBLEMS if name in _families()]]
    for problem in chosen:
        problem.size(_split(split), size)
    with _progress() as say:
        rows = asyncio.run(_measured(chosen, _split(split), size, say))
    columns = ("problem", "heuristic", "objective", "gap", "reference", "source", "seconds")
    print_rows(rows if as_json else [_short(row) for row in rows], columns, as_json=as_json, empty="")


@ahd.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--problem",
    "name",
    required=True,
    metavar="NAME",
    help="One of `coevo ahd problems`, or your own: module:factory or file.py:factory.",
)
@split_option
@size_option
@json_option
@click.pass_context
def evaluate(
    context: click.Context, file: Path, name: str, split: str, size: int | None, as_json: bool
) -> None:
    """Judge the heuristic in a Python file: its objective and gap, or what is wrong with it (and exit status 1).

    The file is run in the sandbox only. Example: coevo ahd evaluate mine.py --problem construct_tsp --split test
    """
    from coevo.problem import check_size

    problem = _named("--problem", name)
    of = _split(split)
    check_size("--size", problem, of, size)
    chosen = problem.size(of, size) if is_bundled(problem) else size
    try:
        code = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: {error}", hint="give a file of Python source") from None
    with _progress() as say:
        say(_doing(problem, of, chosen))
        verdict = asyncio.run(_judged(problem, code, of, chosen))
    reference = problem.reference(of, chosen)
    if as_json:
        print_json(_facts(problem, of, chosen, verdict, reference))
    else:
        _print(problem, of, chosen, verdict, reference)
    if not verdict.valid:
        context.exit(1)


def _families() -> list[str]:
    from ahd.baselines import BASELINES

    return list(BASELINES)


def _split(name: str) -> Split:
    return cast("Split", name)


def _named(key: str, name: str) -> Problem:
    if name in PROBLEMS:
        return _problem(name)
    if ":" not in name and not name.endswith(".py"):
        near = difflib.get_close_matches(name, PROBLEMS, n=1)
        raise ConfigError(
            f"there is no problem {name!r}",
            hint=f"did you mean {near[0]}?"
            if near
            else f"known: {', '.join(PROBLEMS)}; your own: file.py:factory",
        )
    from coevo.problem import load_problem

    return load_problem(key, name)


def _problem(name: str) -> BundledProblem:
    try:
        return PROBLEMS[name]()
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name} needs {error.name}", hint="pip install 'coevo[ahd]'") from error


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being done and for how long; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        line = bar.add_task("")
        yield lambda text: bar.update(line, description=text)


def _doing(problem: Problem, split: Split, size: int | None) -> str:
    return f"{problem.name} on {instances_text(problem, split, size)} of {split}"


async def _measured(
    chosen: list[BundledProblem], split: Split, size: int | None, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    from ahd import baselines
    from coevo.sandbox import Sandbox

    rows = []
    say(_doing(chosen[0], split, chosen[0].size(split, size)))
    async with Sandbox() as sandbox:
        async for problem, baseline, verdict in baselines.run(chosen, split, size, sandbox):
            of_size = problem.size(split, size)
            reference = problem.reference(split, of_size)
            facts = _facts(problem, split, of_size, verdict, reference)
            rows.append({**facts, "heuristic": baseline.name, "formula": baseline.formula})
            say(f"{_doing(problem, split, of_size)}: {len(rows)} heuristics done")
    return rows


async def _judged(problem: Problem, code: str, split: Split, size: int | None) -> Verdict:
    from coevo.problem import evaluate
    from coevo.sandbox import Sandbox

    async with Sandbox() as sandbox:
        return await evaluate(problem, code, sandbox=sandbox, split=split, size=size)


def _summary(problem: BundledProblem) -> dict[str, Any]:
    """A problem's contract, with its instances and the reference of its train split in a row of the list."""
    reference = problem.reference("train")
    sizes: dict[str, str] = {
        split: ", ".join(instances_text(problem, split, size) for size in problem.sizes(split))
        for split in SPLITS
    }
    facts = contract(problem)
    numbers = {"reference": reference.objective, "source": reference.source, "bound": reference.bound}
    return {**facts, **sizes, **numbers}


def _facts(
    problem: Problem, split: Split, size: int | None, verdict: Verdict, reference: Reference | None
) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "split": split,
        "size": size,
        "valid": verdict.valid,
        "objective": verdict.objective,
        "gap": reference.gap(verdict.objective) if reference and verdict.objective is not None else None,
        "reference": reference.objective if reference else None,
        "source": reference.source if reference else None,
        "bound": reference.bound if reference else None,
        "category": verdict.category,
        "error": verdict.error,
        "output": verdict.output,
        "seconds": verdict.seconds,
        "cpu_s": verdict.cpu_s,
        "objectives": list(verdict.objectives),
    }


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """A row for the table: numbers as text with the digits that tell heuristics apart."""
    if not row["valid"]:
        return {**row, "objective": f"{row['category']}: {row['error']}", "gap": ""}
    return {
        **row,
        "objective": f"{row['objective']:.5f}",
        "gap": f"{row['gap']:.2%}",
        "reference": f"{row['reference']:.5f}",
        "seconds": round(row["seconds"], 2),
    }


def _print(
    problem: Problem, split: Split, size: int | None, verdict: Verdict, reference: Reference | None
) -> None:
    click.echo(f"{problem.name}, {instances_text(problem, split, size)} of {split}")
    if verdict.objective is None:
        click.echo(f"invalid ({verdict.category}): {verdict.error}")
    else:
        values = verdict.objectives
        click.echo(f"objective   {verdict.objective:.5f}")
        if reference:
            gap = reference.gap(verdict.objective)
            click.echo(f"gap         {gap:.2%} to {reference.objective:.5f}, {reference.source}")
        if len(values) > 1:
            click.echo(
                f"instances   best {min(values):.5f}, worst {max(values):.5f}, standard deviation {pstdev(values):.5f}"
            )
    click.echo(f"time        {verdict.seconds:.2f} s, {verdict.cpu_s:.2f} s of them in the heuristic")
    if verdict.output:
        click.echo(f"It printed:\n{verdict.output.rstrip()}")
