"""The database described: the tables the migrations create, with what `meanings` says of them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import cache

from coevo.store.meanings import TABLES


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column: its SQL type, whether it is part of the primary key, and what it means."""

    name: str
    type: str
    key: bool
    about: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """One table or view (`kind`) with its columns, in the order of the file."""

    name: str
    kind: str
    about: str
    columns: tuple[ColumnDescription, ...]


@cache
def describe_schema() -> tuple[TableDescription, ...]:
    """Every table and view of the current schema, as created by the migrations, with its description."""
    from sqlite_utils import Database

    from coevo.store.migrations import MIGRATIONS

    connection = sqlite3.connect(":memory:")
    try:
        MIGRATIONS.apply(Database(connection))
        kinds = dict(
            connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
        )
        described = []
        for name, doc in TABLES.items():
            columns = tuple(
                ColumnDescription(column, type_, bool(key), doc.columns.get(column, ""))
                for _, column, type_, _, _, key, _ in connection.execute(f"PRAGMA table_xinfo({name})")
            )
            described.append(TableDescription(name, kinds.get(name, "missing"), doc.about, columns))
        return tuple(described)
    finally:
        connection.close()


def schema_markdown() -> str:
    """The documentation page about the database, generated: `docs/schema.md` holds exactly this text."""
    lines = [
        "# The database",
        "",
        "Everything a run does is in one SQLite file (WAL mode). Open it with any SQLite tool while the run goes on.",
        "This page is generated from `coevo/store/meanings.py`; `coevo db schema` prints the same.",
        "",
    ]
    for table in describe_schema():
        lines += [f"## {table.name}", "", table.about, "", "| column | type | meaning |", "|---|---|---|"]
        for column in table.columns:
            name = f"**`{column.name}`**" if column.key else f"`{column.name}`"
            about = column.about.replace("|", "\\|")
            lines.append(f"| {name} | {column.type.lower()} | {about} |")
        lines.append("")
    lines += ["Columns in bold are the primary key.", ""]
    return "\n".join(lines)
