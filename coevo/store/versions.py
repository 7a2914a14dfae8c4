"""Which skill versions a run has: the seed it began with, and the one it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coevo.store.writer import Store


def seed_version(store: Store, run: str) -> str | None:
    """The version a run began with; None for a run that is not there, or never began."""
    rows = store.query("SELECT json_extract(provenance, '$.seed_skill') AS id FROM runs WHERE id = ?", (run,))
    return rows[0]["id"] if rows else None


def final_version(store: Store, run: str) -> str | None:
    """The version a run ended with, or has reached so far; None for a run that is not there, or never began."""
    accepted = store.query(
        "SELECT id FROM skill_versions WHERE run = ? AND status = 'accepted' ORDER BY generation DESC LIMIT 1",
        (run,),
    )
    return str(accepted[0]["id"]) if accepted else seed_version(store, run)
