"""What several commands share: options, opening the database, printing rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from coevo.store import Store

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_DATABASE = "runs/coevo.sqlite"


def database_option(function: Function) -> Function:
    return click.option(
        "--db",
        "database",
        default=DEFAULT_DATABASE,
        envvar="COEVO_DB",
        show_default=True,
        metavar="FILE",
        help="The trajectory database (also COEVO_DB).",
    )(function)


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def open_store(database: str) -> Store:
    """Read-only. Raises StoreError when there is no such database."""
    from coevo.store import Store

    return Store.open(database, readonly=True)


def console() -> Console:
    """Standard output; wide when it is not a terminal, so that pipes get whole lines."""
    from rich.console import Console

    plain = Console()
    return plain if plain.is_terminal else Console(width=200)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_rows(
    rows: Sequence[Mapping[str, Any]], columns: Iterable[str], *, as_json: bool, empty: str
) -> None:
    """Rows as a table of some columns, or as JSON with all of them."""
    if as_json:
        print_json([dict(row) for row in rows])
        return
    if not rows:
        click.echo(empty)
        return
    from rich.table import Table
    from rich.text import Text

    names = list(columns)
    table = Table()
    for name in names:
        numeric = all(isinstance(row.get(name), int | float) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(shown(row.get(name))) for name in names))
    console().print(table)


def shown(value: Any) -> str:
    """A cell of a table: numbers short, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
