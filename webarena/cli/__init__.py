"""`coevo webarena …`. The command line finds this group by its entry point; each command imports what it needs when it runs."""

from __future__ import annotations

import click

from webarena.cli.arena import COMMANDS as ARENA_COMMANDS
from webarena.cli.check import check
from webarena.cli.fetch import fetch
from webarena.cli.verified import verified


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def webarena() -> None:
    """WebArena: its task files, the real sites, and a local arena to train on."""


webarena.add_command(check)
webarena.add_command(fetch)
webarena.add_command(verified)
for command in ARENA_COMMANDS:
    webarena.add_command(command)
