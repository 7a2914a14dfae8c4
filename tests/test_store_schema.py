"""Every table and column is described, and the page in the documentation says what the code says."""

from __future__ import annotations

from pathlib import Path

from coevo.store import describe_schema, schema_markdown
from coevo.store.meanings import TABLES

DOCS = Path(__file__).parent.parent / "docs" / "schema.md"


def test_the_descriptions_are_those_of_the_tables_that_exist(tmp_path: Path):
    import sqlite3

    from coevo.store import Store

    Store.open(tmp_path / "a.sqlite").close()
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    real = {name: [row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")] for (name,) in names}
    connection.close()
    del real["_sqlite_migrations"]
    assert {name: list(doc.columns) for name, doc in TABLES.items()} == real


def test_every_description_says_something():
    for table in describe_schema():
        assert table.about.endswith("."), table.name
        for column in table.columns:
            assert column.about.endswith("."), (table.name, column.name)


def test_keys_and_kinds_are_told():
    tables = {table.name: table for table in describe_schema()}
    assert [column.name for column in tables["members"].columns if column.key] == [
        "run",
        "generation",
        "member",
    ]
    assert (tables["steps"].kind, tables["step_text"].kind) == ("table", "view")


def test_the_page_in_the_documentation_is_up_to_date():
    fix = 'python -c "from coevo.store import schema_markdown; print(schema_markdown(), end=str())" > docs/schema.md'
    assert DOCS.read_text(encoding="utf-8") == schema_markdown(), f"docs/schema.md is stale; run: {fix}"
