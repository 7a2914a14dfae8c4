"""Output that no terminal reads: a row of a table on one line, nothing cut, nothing wrapped, nothing padded at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

WIDEST = 200
"""Characters of a table's columns but the last; one that is wider is printed one value a line."""
_NO_WIDTH = 10_000


class Pipe(Console):
    """A console that prints tables without frames."""

    def __init__(self) -> None:
        super().__init__(width=_NO_WIDTH)

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options, soft_wrap=True)
        lines = captured.get().removesuffix("\n").split("\n")
        self.file.write("".join(f"{line.rstrip()}\n" for line in lines))
        self.file.flush()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every part passes here, the tables in a group, too."""
        if isinstance(renderable, Table) and renderable.box is not None:
            renderable = _plain(renderable)
        return super().render(renderable, options)


def by_value(table: Table) -> RenderableType:
    """The rows of a table one value a line, with a line between two rows."""
    names = [str(column.header) for column in table.columns]
    parts: list[RenderableType] = [table.title] if table.title else []
    for number, cells in enumerate(zip(*(column.cells for column in table.columns), strict=True)):
        facts = Table.grid(padding=(0, 2))
        for name, cell in zip(names, cells, strict=True):
            facts.add_row(name, cell)
        parts += [Text(), facts] if number else [facts]
    return Group(*parts)


def _plain(table: Table) -> RenderableType:
    columns = [[_line(column.header), *map(_line, column.cells)] for column in table.columns]
    widths = [max(map(cell_len, cells)) for cells in columns]
    if sum(widths[:-1]) > WIDEST:
        return by_value(table)
    padded = [
        [_pad(cell, width, right=column.justify == "right") for cell in cells]
        for column, cells, width in zip(table.columns, columns, widths, strict=True)
    ]
    title = [Text(_line(table.title))] if table.title else []
    return Group(*title, *(Text("  ".join(row)) for row in zip(*padded, strict=True)))


def _line(cell: RenderableType) -> str:
    """A cell on one line."""
    return " ".join(str(cell).split())


def _pad(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if right else cell + space
