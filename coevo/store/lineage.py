"""Where every line of a skill comes from: line → edit → episodes → calls, and the weights that acted in the episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevo.store.writer import Store


@dataclass(frozen=True, slots=True)
class Origin:
    """The edit that brought a line in, with what stands behind it.

    `episodes` are rows with id, task, outcome, member, generation and weights_step; `calls` keys of an author's calls;
    `gain` and `pairs` what the gate measured for the version the edit led to.
    """

    edit: str
    version: str
    op: str
    support: int
    analyst: str
    reason: str
    gain: float | None
    pairs: int | None
    episodes: tuple[dict[str, Any], ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line of a document. `version` is the one that brought it in (None for a blank line, which nobody did), `origin` None
    for lines a person wrote."""

    text: str
    version: str | None
    origin: Origin | None = None
    number: int = field(default=0, compare=False)


def ancestry(store: Store, version: str) -> list[dict[str, Any]]:
    """The version and its parents up to the seed, newest first."""
    chain: list[dict[str, Any]] = []
    wanted: str | None = version
    while wanted is not None:
        rows = store.query("SELECT * FROM skill_versions WHERE id = ?", (wanted,))
        if not rows or any(row["id"] == wanted for row in chain):
            break
        chain.append(rows[0])
        wanted = rows[0]["parent"]
    return chain


def blame(store: Store, version: str) -> list[BlamedLine]:
    """Every line of the version's file with its origin: the oldest ancestor from which on the line has been there."""
    chain = ancestry(store, version)
    if not chain:
        return []
    texts = [set(row["text"].splitlines()) for row in chain]
    origins: dict[str, dict[str, Origin]] = {}
    blamed = []
    for number, line in enumerate(chain[0]["text"].splitlines(), 1):
        if not line.strip():
            blamed.append(BlamedLine(line, None, number=number))
            continue
        age = 0
        while age + 1 < len(chain) and line in texts[age + 1]:
            age += 1
        source = chain[age]
        if source["id"] not in origins:
            origins[source["id"]] = _origins(store, source)
        known = origins[source["id"]]
        link = line[line.rfind("(") :] if line.startswith("- [") else ""
        blamed.append(BlamedLine(line, source["id"], known.get(line.strip()) or known.get(link), number))
    return blamed


def _origins(store: Store, version: dict[str, Any]) -> dict[str, Origin]:
    """Stripped line → the applied edit of this version that has it; list marks do not matter."""
    found: dict[str, Origin] = {}
    for edit in store.query(
        "SELECT * FROM edits WHERE skill_version = ? AND status = 'applied' AND text != '' ORDER BY id",
        (version["id"],),
    ):
        episodes = store.query(
            "SELECT e.id, e.task, e.outcome, e.member, e.generation, e.weights_step, e.perturbation_seed"
            " FROM edit_evidence v JOIN episodes e ON e.id = v.episode WHERE v.edit = ? ORDER BY e.task, e.outcome DESC, e.id",
            (edit["id"],),
        )
        calls = store.query("SELECT call FROM edit_calls WHERE edit = ? ORDER BY call", (edit["id"],))
        origin = Origin(
            edit["id"],
            version["id"],
            edit["op"],
            edit["support"],
            edit["analyst"] or "",
            edit["reason"] or "",
            version["gain"],
            version["pairs"],
            tuple(episodes),
            tuple(row["call"] for row in calls),
        )
        if edit["op"] == "move":
            found[f"({edit['text']})"] = origin
            continue
        for line in edit["text"].splitlines():
            if line.strip():
                found.setdefault(line.strip(), origin)
                found.setdefault(f"- {line.strip()}", origin)
    return found
