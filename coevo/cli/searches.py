"""How a search and its heuristics look on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coevo.cli.common import shown

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from coevo.eoh.report import SearchReport


def render_search(made: SearchReport) -> RenderableType:
    """Turns, what failed, the best heuristics, and what was spent. Tables and columns without a value are left out."""
    from rich.console import Group
    from rich.text import Text

    from coevo.report import after_heading

    run = made.run
    parts: list[RenderableType] = [
        Text(f"run {run['id']} · {made.problem} · {made.arm} · {run['status']} · seed {run['seed']}")
    ]
    parts += [Text(line) for line in after_heading(run)]
    if made.turns:
        parts.append(_turns(made.turns))
    if made.best and made.failures:
        told = ", ".join(f"{kind['count']} {kind['status']}" for kind in made.failures)
        parts.append(Text(f"not valid: {told}"))
    elif made.failures:
        rows = [(kind["status"], kind["count"], kind["example"]) for kind in made.failures]
        title = "no heuristic is valid: how they failed, with the commonest message"
        parts.append(_table(title, ("status", "heuristics", "error"), rows))
    if made.best:
        parts.append(_leaders(made.best))
    parts += [Text(line) for line in _yardsticks(made)]
    parts.append(Text(made.budget.sentence()))
    return Group(*parts)


def render_heuristic(facts: Mapping[str, Any]) -> RenderableType:
    """What `coevo.eoh.report.heuristic_facts` found: the scores, the program and the line of ancestors."""
    from rich.console import Group
    from rich.syntax import Syntax
    from rich.text import Text

    found = facts["heuristic"]
    heading = [found["id"], found["operator"], found["status"]]
    heading += [f"train {shown(found['objective'])}"] if found["objective"] is not None else []
    heading += [f"named best by {found['run']}"] if found["named_best"] else []
    parts: list[RenderableType] = [Text(" · ".join(heading))]
    if found["thought"]:
        parts.append(Text(found["thought"]))
    for score in facts["scores"]:
        value = score["status"] if score["objective"] is None else shown(score["objective"])
        gap = "" if score["gap"] is None else f"  gap {_share(score['gap'])}"
        parts.append(Text(f"{score['split']}: {value}{gap}"))
    if found["error"]:
        parts.append(Text(found["error"], style="red"))
    parts.append(Syntax(found["code"] or "", "python", background_color="default"))
    rows = [
        (row["id"], row["operator"], ", ".join(row["parents"]), row["objective"], row["thought"])
        for row in facts["lineage"]
    ]
    parts.append(
        _table("from the oldest ancestor on", ("id", "operator", "parents", "train", "thought"), rows)
    )
    if found["episode"]:
        parts.append(Text(f"next: coevo show {found['episode']}"))
    return Group(*parts)


def source_heading(facts: Mapping[str, Any]) -> str:
    """Comments that say where a program comes from."""
    found = facts["heuristic"]
    scores = [("train", found["objective"]), *((one["split"], one["objective"]) for one in facts["scores"])]
    told = ", ".join(f"{split} {shown(value)}" for split, value in scores if value is not None)
    thought = " ".join((found["thought"] or "").split())
    return f"# {found['id']} of {found['problem']}: {told or found['status']}" + (
        f"\n# {thought}" if thought else ""
    )


def _turns(turns: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            turn["generation"],
            turn["operator"],
            f"{turn['valid']} of {turn['children']}",
            turn["kept"],
            turn["best"],
            turn["step"],
        )
        for turn in turns
    ]
    return _table("turns", ("generation", "operator", "valid", "kept", "best", "weights"), rows)


def _leaders(best: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            one["id"],
            one["operator"],
            one["objective"],
            _share(one["gap"]),
            one["val"],
            _share(one["val_gap"]),
            one["test"],
            _share(one["test_gap"]),
            one["thought"],
        )
        for one in best
    ]
    fresh = any(one["val"] is not None for one in best)
    title = f"best heuristics (smaller is better{_FRESH if fresh else ', in order of train'})"
    return _table(title, ("id", "operator", "train", "gap", "val", "gap", "test", "gap", "thought"), rows)


_FRESH = "; in order of val, then train; val and test: instances the search did not see"


def _yardsticks(made: SearchReport) -> Iterator[str]:
    """What an objective on train may be held against."""
    reference = made.reference
    if made.simple is not None:
        gap = f", gap {_share(reference.gap(made.simple))}" if reference else ""
        yield f"the problem's simple heuristic on train: {shown(made.simple)}{gap}"
    if reference:
        yield f"the reference on train: {shown(reference.objective)}, {reference.source}"


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A column that has no value in any row is left out; numbers stand to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    columns = [(heading, [row[place] for row in rows]) for place, heading in enumerate(headings)]
    columns = [(heading, values) for heading, values in columns if any(v not in (None, "") for v in values)]
    for heading, values in columns:
        text = any(isinstance(value, str) for value in values) and heading != "gap"
        table.add_column(heading, justify="left" if text else "right", overflow="fold")
    for cells in zip(*(values for _, values in columns), strict=True):
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:+.2%}"
