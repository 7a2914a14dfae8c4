"""`coevo webarena fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from coevo.cli.common import json_option, print_rows

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option("--from", "given", type=FOLDER, help="Copy the files from this folder instead of asking pip.")
@click.option("--to", "target", type=FOLDER, help="Where they go; by default the user's cache.")
@json_option
def fetch(given: Path | None, target: Path | None, as_json: bool) -> None:
    """Get the public task files: WebArena's 812 tasks and WebArena-Lite's 165, checked against pinned hashes.

    Example: coevo webarena fetch --from ~/Downloads
    """
    from webarena.fetch import fetch as fetch_files

    rows = fetch_files(target, given=given)
    print_rows(rows, ("name", "tasks", "path", "from"), as_json=as_json, empty="no files")
