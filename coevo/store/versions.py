"""Which skill versions a run has: the seed it began with, those it keeps side by side, and the one it stands for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coevo.store.writer import Store


@dataclass(frozen=True, slots=True)
class Kept:
    """A version that a run keeps; `weight` is its chance, relative to the others, to be the one in use."""

    version: str
    weight: int


def seed_version(store: Store, run: str) -> str | None:
    """The version a run began with; None for a run that is not there, or never began."""
    rows = store.query("SELECT json_extract(provenance, '$.seed_skill') AS id FROM runs WHERE id = ?", (run,))
    return rows[0]["id"] if rows else None


def kept_versions(
    store: Store, run: str, *, before: int | None = None, without: Collection[str] = ()
) -> list[Kept]:
    """The accepted versions a run keeps, the one it stands for first; none while it has only its seed.

    They are the pool after its last comparison, or, where there was none, the last version accepted. `before`: as it was
    when that generation began. A comparison does not count when one of its versions has been withdrawn since, or is in
    `without`.
    """
    bound = (run, before)
    compared = store.query(
        "SELECT p.generation, p.skill_version AS id, p.weight, v.status FROM skill_pool p"
        " JOIN skill_versions v ON v.id = p.skill_version WHERE p.run = ?1 AND (?2 IS NULL OR p.generation < ?2)"
        " ORDER BY p.generation DESC, p.place",
        bound,
    )
    void = {row["generation"] for row in compared if row["status"] == "rejected" or row["id"] in without}
    counted = [row for row in compared if row["generation"] not in void]
    if counted:
        last = counted[0]["generation"]
        return [
            Kept(row["id"], row["weight"])
            for row in counted
            if row["generation"] == last and row["weight"] > 0
        ]
    accepted = store.query(
        "SELECT id FROM skill_versions WHERE run = ?1 AND status = 'accepted' AND (?2 IS NULL OR generation < ?2)"
        " ORDER BY generation DESC",
        bound,
    )
    return [Kept(row["id"], 1) for row in accepted if row["id"] not in without][:1]


def final_version(store: Store, run: str, *, without: Collection[str] = ()) -> str | None:
    """The version a run ended with, or stands for so far; None for a run that is not there, or never began."""
    kept = kept_versions(store, run, without=without)
    return kept[0].version if kept else seed_version(store, run)
