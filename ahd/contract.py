"""What a problem asks of a heuristic: as facts, and as a page to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from coevo.errors import ConfigError, explained

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ahd.base import BundledProblem
    from coevo.problem import Argument, Problem, Split

SPLITS = cast("tuple[Split, ...]", ("train", "val", "test"))

FORMULA = "+ - * /, sqrt, exp, square, parentheses, and numbers from 0.001 to 999.999"
"""What formulas are made of besides the variables."""


def is_bundled(problem: Problem) -> TypeGuard[BundledProblem]:
    return hasattr(problem, "counts")


def instances_text(problem: Problem, split: Split, size: int | None) -> str:
    """`64 × 50`: instances and their size."""
    if is_bundled(problem) and size is not None:
        return f"{problem.counts[split, size]} × {problem.size_text(size)}"
    return "the instances" if size is None else f"the instances of size {size}"


def contract(problem: Problem) -> dict[str, Any]:
    """Everything that a heuristic of the problem has to know, as plain data. Raises ConfigError for what fails in it."""
    signature, expressions = problem.signature, problem.expressions
    return {
        "problem": problem.name,
        "goal": problem.goal,
        "function": signature.function,
        "header": signature.header,
        "arguments": dict(map(_pair, signature.arguments)),
        "result": dict([_pair(signature.result)]),
        "notes": problem.notes,
        "seed_code": problem.seed_code,
        "variables": dict(expressions.variables) if expressions else None,
        "value": expressions.value if expressions else None,
        "template": expressions.template if expressions else None,
        "size_of": problem.unit if is_bundled(problem) else None,
        "splits": [_instances(problem, split, size) for split in SPLITS for size in _sizes(problem, split)],
    }


def page(facts: Mapping[str, Any]) -> RenderableType:
    """The facts to read."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(facts["problem"], style="bold"), Text(facts["goal"])]

    def section(title: str, *texts: RenderableType) -> None:
        parts.extend((Text(), Text(title, style="bold"), *texts))

    arguments = [
        *facts["arguments"].items(),
        *((f"→ {name}", said) for name, said in facts["result"].items()),
    ]
    section("The function", Text(facts["header"]), _columns(arguments))
    if facts["notes"]:
        section("Notes", Text(facts["notes"]))
    section("A simple heuristic", Text(facts["seed_code"].strip()))
    if facts["variables"] is None:
        section('No formulas: search.language = "python" only')
    else:
        texts: list[RenderableType] = [_columns(facts["variables"].items()), Text(f"with {FORMULA}")]
        if facts["value"]:
            texts.append(Text(f"what a value decides: {facts['value']}"))
        section('The variables of a formula (search.language = "formula")', *texts)
        section("The template, with a formula in the place of {expression}", Text(facts["template"].strip()))
    if any(row["size"] is not None or row["reference"] is not None for row in facts["splits"]):
        section("Instances; the objective is their mean, smaller is better", _instances_table(facts))
    if len(facts["splits"]) > len(SPLITS):
        parts.append(
            Text("Of each split the first is the usual one; --size names another (evaluate, baselines).")
        )
    return Group(*parts)


def _pair(argument: Argument) -> tuple[str, str]:
    return argument.name, argument.meaning


def _sizes(problem: Problem, split: Split) -> list[int | None]:
    """The sizes a split has, the usual one first; None where the problem does not name any."""
    with explained(f"sizes of the problem {problem.name}", ConfigError):
        if is_bundled(problem):
            usual = problem.size(split)
            return [usual, *(size for size in problem.sizes(split) if size != usual)]
        sizes = getattr(problem, "sizes", None)
        return [int(size) for size in sizes(split)] if callable(sizes) else [None]


def _instances(problem: Problem, split: Split, size: int | None) -> dict[str, Any]:
    with explained(f"reference of the problem {problem.name}", ConfigError):
        reference = problem.reference(split, size)
    return {
        "split": split,
        "size": size,
        "instances": instances_text(problem, split, size),
        "reference": reference.objective if reference else None,
        "source": reference.source if reference else None,
        "bound": reference.bound if reference else None,
    }


def _columns(rows: Iterable[tuple[str, str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for left, right in rows:
        table.add_row(Text(left), Text(right))
    return table


def _instances_table(facts: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    size = f"count × {facts['size_of']}" if facts["size_of"] else "instances"
    table.add_row("split", size, "reference", "from", "proven bound")
    for row in facts["splits"]:
        numbers = {name: "" if row[name] is None else f"{row[name]:.5f}" for name in ("reference", "bound")}
        cells = (
            row["split"],
            row["instances"],
            numbers["reference"],
            row["source"] or "none",
            numbers["bound"],
        )
        table.add_row(*map(Text, cells))
    return table
