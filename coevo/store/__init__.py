"""The trajectory store: everything a run does, in one SQLite file that people can read."""

from coevo.store.schema import describe_schema, schema_markdown
from coevo.store.writer import Store

__all__ = ["Store", "describe_schema", "schema_markdown"]
