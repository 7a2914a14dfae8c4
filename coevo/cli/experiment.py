"""`coevo init`, `coevo check` and `coevo run`: from an empty folder to a run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from coevo.cli.common import DEFAULT_DATABASE, Function, console, json_option, open_store, print_json
from coevo.errors import ConfigError


def experiment_arguments(function: Function) -> Function:
    """FILE, the values that replace its own, and where the database is."""
    function = click.option(
        "--db",
        "database",
        envvar="COEVO_DB",
        metavar="FILE",
        help="The trajectory database (also COEVO_DB).  [default: the one the experiment names]",
    )(function)
    function = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")(function)
    return click.argument("file", type=click.Path(path_type=Path))(function)


def with_database(overrides: Sequence[str], database: str | None) -> Sequence[str]:
    """`--db` as the override it stands for. Raises ConfigError when both are given; COEVO_DB gives way to the override."""
    if not database:
        return overrides
    named = [override for override in overrides if override.partition("=")[0].strip() == "database"]
    source = click.get_current_context().get_parameter_source("database")
    if named and source is click.core.ParameterSource.COMMANDLINE:
        raise ConfigError(
            f"the database is named twice: --db {database} and {named[-1]}", hint="leave one out"
        )
    return [f"database={json.dumps(database, ensure_ascii=False)}", *overrides]


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def init(directory: Path) -> None:
    """Copy the starter set into DIRECTORY.

    That is agents, skills and experiment files; they are yours to change. A file that is there already and differs is an
    error, and then nothing is written.

    \b
    coevo init work
    """
    from coevo.starter import copy_starter

    written = copy_starter(directory)
    for path in written:
        click.echo(path)
    there = "" if directory.resolve() == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    click.echo(f"\nnext: {there}coevo check miniwob.toml")
    click.echo(
        f"  or: {there}coevo run tsp_construct_small.toml search.author=chance"
        "  # heuristics, in a minute, without model or browser"
    )


@click.command()
@experiment_arguments
@click.option("--quick", is_flag=True, help="Leave out what loads the model or starts the world.")
@json_option
def check(file: Path, overrides: tuple[str, ...], database: str | None, quick: bool, as_json: bool) -> None:
    """Probe what an experiment needs.

    Nothing is spent before everything is known to work: files, agent graph, skill, tasks, disk, the world (browser) and the model are tried, and one episode is run; it goes
    to a database of its own that is thrown away. Exits with 1 if something is missing.

    \b
    coevo check miniwob.toml
    coevo check miniwob.toml model.id=./my-model --quick
    """
    from dataclasses import asdict

    from coevo.check import check_experiment, render_checks

    checks = check_experiment(file, with_database(overrides, database), quick=quick)
    if as_json:
        print_json([asdict(one) for one in checks])
    else:
        console().print(render_checks(checks))
    if any(one.status == "failed" for one in checks):
        sys.exit(1)


@click.command()
@experiment_arguments
@click.option("--new", is_flag=True, help="Start another run even if this experiment has one.")
@click.option("--quiet", "-q", is_flag=True, help="Print only how it ended.")
def run(file: Path, overrides: tuple[str, ...], database: str | None, new: bool, quiet: bool) -> None:
    """Run an experiment, or continue it.

    A run is continued when experiment, agent file and seed skill are the same as before; no finished episode is run
    twice. Ctrl-C stops when the running episodes are stored, Ctrl-C again at once. KEY=VALUE changes a value of the file.
    Exits with 130 when it was stopped, and with 1 when it failed or a search found no valid heuristic.

    \b
    coevo run miniwob.toml
    coevo run miniwob.toml seed=2 es.population=32 schedule.mode=weights
    coevo run miniwob.toml --db other.sqlite
    """
    from coevo.config import load_experiment
    from coevo.loop import run_async, run_experiment
    from coevo.progress import Progress, make_progress

    experiment = load_experiment(file, with_database(overrides, database))
    progress = Progress() if quiet else make_progress(sys.stdout)
    if experiment.search is None:
        work = run_experiment(experiment, progress=progress, new=new)
    else:
        from coevo.eoh import run_search
        from coevo.eoh.report import best_of

        work = run_search(experiment, progress=progress, new=new)
    result = run_async(work)
    option = "" if experiment.database == DEFAULT_DATABASE else f" --db {shlex.quote(experiment.database)}"
    if result.already:
        click.echo(f"run {result.run} of this experiment is finished; --new starts another one")
    elif result.status == "stopped":
        click.echo(f"run {result.run} stopped; the same command continues it")
        sys.exit(130)
    else:
        click.echo(f"run {result.run} is finished")
    if experiment.search is not None:
        click.echo(f"next: coevo heuristics report {result.run}{option}")
        with open_store(str(experiment.database_path)) as store:
            if not best_of(store, result.run, 1):
                sys.exit(1)
        return
    grid = " --grid" if experiment.evaluate.grid else ""
    click.echo(f"next: coevo report {result.run}{grid}{option}")
