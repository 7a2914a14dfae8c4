"""`coevo db`: the trajectory database itself."""

from __future__ import annotations

from pathlib import Path

import click

from coevo.cli.common import database_option, json_option, open_store, print_json, print_rows


@click.group()
def db() -> None:
    """Look into the trajectory database.

    It is one SQLite file, made to be queried by hand.
    """


@db.command()
@click.argument("table", required=False)
@json_option
def schema(table: str | None, as_json: bool) -> None:
    """Print every table and column with its meaning, or those of TABLE.

    \b
    coevo db schema
    coevo db schema episodes
    """
    from dataclasses import asdict

    from coevo.errors import StoreError
    from coevo.store import describe_schema

    tables = [one for one in describe_schema() if table in (None, one.name)]
    if not tables:
        known = ", ".join(one.name for one in describe_schema())
        raise StoreError(f"there is no table {table!r}", hint=f"tables: {known}")
    if as_json:
        print_json([asdict(one) for one in tables])
        return
    for one in tables:
        click.echo(f"{click.style(one.name, bold=True)} ({one.kind}): {one.about}")
        for column in one.columns:
            mark = "*" if column.key else " "
            click.echo(f"  {mark} {column.name} {column.type.lower()}: {column.about}")
        click.echo()


@db.command()
@database_option
def path(database: str) -> None:
    """Print where the database is, for other tools.

    \b
    sqlite3 "$(coevo db path)"
    """
    with open_store(database) as store:
        click.echo(Path(store.path).resolve())


@db.command()
@click.argument("sql")
@database_option
@json_option
def query(sql: str, database: str, as_json: bool) -> None:
    """Run a read-only SQL query.

    \b
    coevo db query "SELECT category, count(*) AS n FROM episodes GROUP BY category"
    """
    with open_store(database) as store:
        rows = store.query(sql)
    print_rows(rows, rows[0] if rows else (), as_json=as_json, empty="no rows")
