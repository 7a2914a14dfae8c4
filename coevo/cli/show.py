"""Finding what an id names, and showing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coevo.cli.common import shown
from coevo.errors import StoreError
from coevo.store import queries

if TYPE_CHECKING:
    from rich.console import RenderableType

    from coevo.store import Store


def find(store: Store, ident: str) -> tuple[str, dict[str, Any]]:
    """(kind, what it is) of a run, skill version, heuristic, call or episode.

    Raises StoreError when nothing, or several, fit.
    """
    if store.query("SELECT 1 FROM runs WHERE id = ?", (ident,)):
        return "run", _run(store, ident)
    if rows := store.query("SELECT * FROM skill_versions WHERE id = ?", (ident,)):
        return "skill version", _version(store, rows[0])
    if store.query("SELECT 1 FROM heuristics WHERE id = ?", (ident,)):
        from coevo.eoh.report import heuristic_facts

        return "heuristic", heuristic_facts(store, ident)
    if store.query("SELECT 1 FROM calls WHERE id = ?", (ident,)):
        return "call", {"id": ident, "messages": queries.conversation(store, ident)}
    like = (ident,)
    prefix = "WHERE substr(id, 1, length(?1)) = ?1"
    fits = [
        (kind, row["id"])
        for kind, table in (("run", "runs"), ("skill version", "skill_versions"), ("episode", "episodes"))
        for row in store.query(f"SELECT id FROM {table} {prefix} LIMIT 6", like)
    ]
    if not fits:
        raise StoreError(
            f"nothing in {store.path} has the id {ident!r}",
            hint="`coevo runs` and `coevo skills list` list ids",
        )
    if len(fits) > 1:
        raise StoreError(
            f"{ident!r} fits several: {', '.join(f'{kind} {one}' for kind, one in fits[:6])}",
            hint="give more of it",
        )
    kind, whole = fits[0]
    if kind == "episode":
        return kind, queries.episode(store, whole)
    return find(store, whole)


def describe(kind: str, found: dict[str, Any]) -> RenderableType:
    """For a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if kind == "heuristic":
        from coevo.cli.searches import render_heuristic

        return render_heuristic(found)
    parts: list[RenderableType] = [Text(f"{kind} {found['id']}", style="bold")]
    if kind == "call":
        for message in found["messages"]:
            parts += [Text(f"\n{message['role']}", style="bold"), Text(str(message["content"]))]
        return Group(*parts)
    facts = Table.grid(padding=(0, 2))
    for name, value in found.items():
        if not isinstance(value, list | dict) and value is not None and name not in ("id", "text"):
            facts.add_row(name.replace("_", " "), Text(shown(value)))
    parts.append(facts)
    if kind == "episode":
        for step in found["steps"]:
            action = "reset" if step["action"] is None else step["action"]
            parts.append(Text(f"\n{step['ord']}. {action}", style="bold"))
            if step["error"]:
                parts.append(Text(step["error"], style="red"))
            parts.append(Text(step["observation"] or ""))
        calls = ", ".join(f"{call['id']} ({call['node'] or 'graph'})" for call in found["calls"])
        parts.append(Text(f"\nmodel calls: {calls}" if calls else "\nno model calls"))
    elif kind == "skill version":
        for edit in found["edits"]:
            parts.append(
                Text(
                    f"\n{edit['op']} in {edit['section'] or 'the beginning'}: {edit['status']}", style="bold"
                )
            )
            parts.append(Text(edit["text"] or ""))
            parts.append(
                Text(
                    f"{edit['support']} task{'' if edit['support'] == 1 else 's'}; episodes {', '.join(edit['evidence'])}",
                    style="dim",
                )
            )
        parts += [Text("\nSKILL.md", style="bold"), Text(found["text"])]
    else:
        config = found["config"]
        for name, value in (
            (
                "model",
                "none" if (config.get("search") or {}).get("author") == "chance" else config["model"]["id"],
            ),
            ("agent", config["agent"]["graph"]),
            *_what_it_does(config),
        ):
            facts.add_row(name, Text(value))
        for phase in found["phases"]:
            counts = "{episodes} episodes, {successes} successes, {invalid} invalid".format_map(phase)
            facts.add_row(phase["phase"], Text(counts))
        command = "coevo heuristics report" if config.get("search") else "coevo report"
        parts.append(Text(f"`{command} {found['id']}` shows what it achieved", style="dim"))
    return Group(*parts)


def _what_it_does(config: dict[str, Any]) -> list[tuple[str, str]]:
    if search := config.get("search"):
        size = "{generations} generations × {population}".format_map(search)
        if search["budget"]:
            size += f", at most {search['budget']} candidates"
        return [("problem", search["problem"]), ("method", search["method"]), ("size", size)]
    size = "{generations} generations × {population} members".format_map(config["es"])
    return [("tasks", config["tasks"]["set"]), ("evolves", config["schedule"]["mode"]), ("size", size)]


def _run(store: Store, run: str) -> dict[str, Any]:
    row = queries.run(store, run)
    counts = store.query(
        "SELECT phase, count(*) AS episodes, sum(outcome = 'success') AS successes, sum(outcome = 'invalid') AS invalid"
        " FROM episodes WHERE run = ? AND status = 'finished' GROUP BY phase",
        (run,),
    )
    return {**row, "phases": counts}


def _version(store: Store, row: dict[str, Any]) -> dict[str, Any]:
    edits = store.query("SELECT * FROM edits WHERE skill_version = ? ORDER BY id", (row["id"],))
    for edit in edits:
        evidence = store.query(
            "SELECT episode FROM edit_evidence WHERE edit = ? ORDER BY episode", (edit["id"],)
        )
        edit["evidence"] = [entry["episode"] for entry in evidence]
    return {**row, "edits": edits}
