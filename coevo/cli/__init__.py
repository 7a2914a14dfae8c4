"""The command line. Every command imports what it needs when it runs, so that `coevo --help` is instant."""

from __future__ import annotations

import io
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from coevo.cli import gepa as _gepa  # noqa: F401  these three add commands to `skills`
from coevo.cli import lineage as _lineage  # noqa: F401
from coevo.cli import trials as _trials  # noqa: F401
from coevo.cli.database import db
from coevo.cli.experiment import check, init, run
from coevo.cli.heuristics import heuristics
from coevo.cli.results import eval_run, export, report, runs, show
from coevo.cli.skills import skills
from coevo.errors import CoevoError


class CoevoGroup(click.Group):
    """Prints a CoevoError, or a file that cannot be used, as a message and the next step, and exits with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(
                stream, io.TextIOWrapper
            ):  # σ and ✓ are no reason to fail where there is only ASCII
                stream.reconfigure(errors="replace")
        try:
            try:
                return super().invoke(ctx)
            except OSError as error:
                if error.filename is None:  # a closed pipe, for one, which click knows how to end
                    raise
                raise CoevoError(
                    f"{error.filename}: {error.strerror}",
                    hint="choose another place, or make this one usable",
                ) from error
        except CoevoError as error:
            click.echo(f"Error: {error.message}", err=True)
            if error.hint:
                click.echo(f"  → {error.hint}", err=True)
            ctx.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(point.name for point in _plugins())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            command = next((point.load() for point in _plugins() if point.name == cmd_name), None)
        return command


def _plugins() -> list[EntryPoint]:
    """Commands of other packages: entry points of the group `coevo.commands`, each a click command."""
    return sorted(entry_points(group="coevo.commands"), key=lambda point: point.name)


@click.group(cls=CoevoGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="coevo", message="coevo %(version)s")
def main() -> None:
    """Let an agent's skill document and its model weights evolve from the same rollouts.

    \b
    coevo init work && cd work
    coevo check miniwob.toml
    coevo run miniwob.toml
    coevo report --grid
    """


for command in (init, check, run, eval_run, report, runs, show, skills, heuristics, export, db):
    main.add_command(command)
