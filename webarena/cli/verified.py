"""`coevo webarena verified …`."""

from __future__ import annotations

import click


@click.group()
def verified() -> None:
    """The scorer webarena-verified, which lives in an environment of its own."""


@verified.command()
def install() -> None:
    """Install webarena-verified into its own environment (about 90 MB), apart from coevo's packages.

    Example: coevo webarena verified install
    """
    from webarena.verified import SCORER
    from webarena.verified import install as install_package

    click.echo(f"{SCORER}: {install_package()}")
