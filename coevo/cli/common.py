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
    """Standard output; without frames and widths when it is not a terminal, so that pipes get whole lines."""
    from rich.console import Console

    from coevo.cli.pipe import Pipe

    screen = Console()
    return screen if screen.is_terminal else Pipe()


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_rows(
    rows: Sequence[Mapping[str, Any]], columns: Iterable[str], *, as_json: bool, empty: str
) -> None:
    """Rows as a table of some columns, or as JSON with all of them.

    What does not fit the width as a table is printed one value a line.
    """
    if as_json:
        print_json([dict(row) for row in rows])
        return
    if not rows:
        click.echo(empty)
        return
    from rich.table import Table
    from rich.text import Text

    from coevo.cli.pipe import by_value

    names = list(columns)
    cells = [[_moment(name, row.get(name)) for name in names] for row in rows]
    table = Table()
    for name, column in zip(names, zip(*cells, strict=True), strict=True):
        values = [row[name] for row in rows if row.get(name) is not None]
        numeric = bool(values) and all(isinstance(value, int | float) for value in values)
        whole = numeric or not any(" " in cell or "\n" in cell for cell in column)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", no_wrap=whole)
    for row_cells in cells:
        table.add_row(*map(Text, row_cells))
    screen = console()
    needed = table.__rich_measure__(screen, screen.options.update(max_width=10_000)).minimum
    screen.print(table if needed <= screen.width else by_value(table))


def _moment(name: str, value: Any) -> str:
    """A cell, with a time to the second."""
    is_time = name.endswith("_at") and isinstance(value, str)
    return value[:19].replace("T", " ") if is_time else shown(value)


def shown(value: Any) -> str:
    """A value in a table or a line: numbers with six significant digits, nothing for None and False."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
