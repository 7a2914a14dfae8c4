"""`coevo webarena …`. The command line finds this group by its entry point; each command imports what it needs when it runs."""

from __future__ import annotations

import click


@click.group()
def webarena() -> None:
    """WebArena: its task files, the real sites, and a local arena to train on."""
