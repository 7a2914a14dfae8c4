"""Reading the store: plain dataclasses for what the loop, the distiller and the command line ask."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coevo.env import Outcome
from coevo.errors import StoreError
from coevo.lock import is_running
from coevo.store.writer import Store

_JSON_COLUMNS = frozenset(
    {
        "config",
        "provenance",
        "tasks",
        "components",
        "seeds",
        "coefficients",
        "noise",
        "extra",
        "parents",
        "objectives",
        "population",
    }
)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One action and what the world answered; `ord` 0 is the reset, with no action."""

    ord: int
    action: str | None
    observation: str
    error: str
    reward: float | None
    done: bool
    performed: str = ""
    """The action as the environment understood it, where that differs from `action`."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One finished episode with its steps. `reward` is None for an invalid one, `category` empty on success."""

    id: str
    run: str
    phase: str
    generation: int | None
    member: int | None
    arm: str | None
    task: str
    task_group: str
    goal: str
    seed: int
    attempt: int
    skill_version: str | None
    weights_step: int | None
    perturbation_seed: int | None
    outcome: Outcome
    reward: float | None
    components: Mapping[str, float] = field(default_factory=dict)
    category: str = ""
    error: str = ""
    turns: int = 0
    steps: tuple[StepRecord, ...] = ()
    perturbation_sigma: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


def runs(store: Store) -> list[dict[str, Any]]:
    """All runs, newest first, with counts of what they hold; JSON columns decoded, the status as `run` has it."""
    rows = store.query(
        "SELECT r.*, (SELECT count(*) FROM generations g WHERE g.run = r.id)"
        " + (SELECT count(DISTINCT t.generation) FROM search_turns t WHERE t.run = r.id) AS generations,"
        " (SELECT count(*) FROM episodes e WHERE e.run = r.id AND e.status = 'finished') AS episodes,"
        " (SELECT count(*) FROM heuristics h WHERE h.run = r.id) AS heuristics"
        " FROM runs r ORDER BY r.created_at DESC, r.id"
    )
    return [_run(store, row) for row in rows]


def run(store: Store, run_id: str) -> dict[str, Any]:
    """One run by id, or by a beginning of the id or the whole name that fits only one. Raises `StoreError`.

    One that was killed has the status `interrupted`: no process executes it, and none wrote how it ended.
    """
    rows = store.query("SELECT * FROM runs WHERE id = ?", (run_id,)) or store.query(
        "SELECT * FROM runs WHERE substr(id, 1, length(?1)) = ?1 OR name = ?1 ORDER BY id", (run_id,)
    )
    return _run(store, _only(store, rows, "run", run_id, "`coevo runs` lists them"))


def newest_run(store: Store) -> str:
    """Id of the newest run. Raises `StoreError` when there is none."""
    rows = runs(store)
    if not rows:
        raise StoreError(f"{store.path} has no runs", hint="coevo run FILE makes one")
    return str(rows[0]["id"])


def episode(store: Store, episode_id: str) -> dict[str, Any]:
    """One episode (of any status) by id or a beginning of it, with `steps`, `calls` and `tool_calls`.

    Raises `StoreError` when none or several fit.
    """
    rows = store.query(
        "SELECT * FROM episodes WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id", (episode_id,)
    )
    row = decoded(_only(store, rows, "episode", episode_id, "`coevo show RUN` lists them"))
    key = (row["id"],)
    row["steps"] = store.query("SELECT * FROM step_text WHERE episode = ? ORDER BY ord", key)
    row["calls"] = store.query("SELECT * FROM calls WHERE episode = ? ORDER BY ord", key)
    row["tool_calls"] = store.query(
        "SELECT c.*, t.text AS output_text FROM tool_calls c LEFT JOIN texts t ON t.hash = c.output"
        " WHERE c.episode = ? ORDER BY c.ord",
        key,
    )
    return row


def episodes(
    store: Store,
    run_id: str,
    *,
    phase: str | None = None,
    generation: int | None = None,
    generations: Sequence[int] | None = None,
    member: int | None = None,
    arm: str | None = None,
    skill_version: str | None = None,
    outcome: Outcome | None = None,
    with_steps: bool = True,
) -> list[EpisodeRecord]:
    """Finished episodes of a run that fit all filters given, ordered by (generation, member, task, seed, attempt).

    The centre (no member) comes before member 0. `with_steps=False` leaves `steps` empty.
    """
    conditions, params = ["e.run = ?", "e.status = 'finished'"], [run_id]  # type: tuple[list[str], list[Any]]
    filters = {
        "phase": phase,
        "generation": generation,
        "member": member,
        "arm": arm,
        "skill_version": skill_version,
        "outcome": outcome,
    }
    for column, wanted in filters.items():
        if wanted is not None:
            conditions.append(f"e.{column} = ?")
            params.append(wanted)
    if generations is not None:
        conditions.append("e.generation IN (SELECT value FROM json_each(?))")
        params.append(json.dumps(list(generations)))
    where = " AND ".join(conditions)
    rows = store.query(
        f"SELECT e.* FROM episodes e WHERE {where} ORDER BY e.generation, e.member, e.task, e.seed, e.attempt, e.id",
        params,
    )
    steps: dict[str, list[StepRecord]] = {}
    if with_steps:
        for step in store.query(
            f"SELECT s.* FROM episodes e JOIN step_text s ON s.episode = e.id WHERE {where} ORDER BY s.episode, s.ord",
            params,
        ):
            steps.setdefault(step["episode"], []).append(_step(step))
    return [_episode(row, tuple(steps.get(row["id"], ()))) for row in rows]


def finished_ids(store: Store, ids: Iterable[str]) -> set[str]:
    """Those of `ids` whose episode is finished: what a resumed run need not pay for again."""
    rows = store.query(
        "SELECT id FROM episodes WHERE status = 'finished' AND id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {row["id"] for row in rows}


def conversation(store: Store, call_id: str) -> list[dict[str, Any]]:
    """The messages of a call (`episode.ord`), oldest first, the answer last, as they were sent and received.

    Each is a dict with `role`, `content` and whatever else the message had. Raises `StoreError` for an unknown call.
    """
    episode_id, _, ord_text = call_id.rpartition(".")
    rows = store.query(
        "SELECT coalesce(response, prompt) AS tip FROM calls WHERE episode = ? AND ord = ?",
        (episode_id, int(ord_text) if ord_text.isdigit() else -1),
    )
    tip = _only(
        store, rows, "call", call_id, "ids look like EPISODE.NUMBER; `coevo show EPISODE` lists them"
    )["tip"]
    return messages(store, tip) if tip else []


def messages(store: Store, tip: str) -> list[dict[str, Any]]:
    """The chain of messages that ends in the message with hash `tip`, oldest first."""
    rows = store.query(
        "WITH RECURSIVE chain(hash, parent, depth) AS ("
        " SELECT hash, parent, 0 FROM messages WHERE hash = ?"
        " UNION ALL SELECT m.hash, m.parent, depth + 1 FROM chain JOIN messages m ON m.hash = chain.parent)"
        " SELECT t.role, t.content, t.extra FROM chain JOIN message_text t ON t.hash = chain.hash ORDER BY depth DESC",
        (tip,),
    )
    return [
        {"role": row["role"], "content": row["content"], **json.loads(row["extra"] or "{}")} for row in rows
    ]


def es_steps(store: Store, run_id: str, *, applied_only: bool = False) -> list[dict[str, Any]]:
    """Weight updates of a run in order, JSON columns decoded. The applied ones rebuild the weights."""
    condition = " AND status = 'applied'" if applied_only else ""
    return [
        decoded(row)
        for row in store.query(f"SELECT * FROM es_steps WHERE run = ?{condition} ORDER BY step", (run_id,))
    ]


def _only(store: Store, rows: list[dict[str, Any]], what: str, key: str, hint: str) -> dict[str, Any]:
    if not rows:
        raise StoreError(f"no {what} {key!r} in {store.path}", hint=hint)
    if len(rows) > 1:
        ids = ", ".join(str(row.get("id", "?")) for row in rows[:5])
        raise StoreError(
            f"{key!r} fits {len(rows)} {what}s: {ids}{', …' if len(rows) > 5 else ''}", hint="give more of it"
        )
    return rows[0]


def _run(store: Store, row: dict[str, Any]) -> dict[str, Any]:
    killed = row["status"] == "running" and not is_running(store.path, row["id"])
    return decoded(row) | ({"status": "interrupted"} if killed else {})


def decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its JSON columns as values."""
    return {
        name: json.loads(value) if name in _JSON_COLUMNS and isinstance(value, str) else value
        for name, value in row.items()
    }


def _step(row: Mapping[str, Any]) -> StepRecord:
    return StepRecord(
        ord=row["ord"],
        action=row["action"],
        observation=row["observation"],
        error=row["error"] or "",
        reward=row["reward"],
        done=bool(row["done"]),
        performed=row["performed"] or "",
    )


def _episode(row: Mapping[str, Any], steps: tuple[StepRecord, ...]) -> EpisodeRecord:
    return EpisodeRecord(
        id=row["id"],
        run=row["run"],
        phase=row["phase"],
        generation=row["generation"],
        member=row["member"],
        arm=row["arm"],
        task=row["task"],
        task_group=row["task_group"] or "",
        goal=row["goal"] or "",
        seed=row["seed"] or 0,
        attempt=row["attempt"],
        skill_version=row["skill_version"],
        weights_step=row["weights_step"],
        perturbation_seed=row["perturbation_seed"],
        perturbation_sigma=row["perturbation_sigma"],
        outcome=Outcome(row["outcome"]),
        reward=row["reward"],
        components=json.loads(row["components"] or "{}"),
        category=row["category"] or "",
        error=row["error"] or "",
        turns=row["turns"] or 0,
        steps=steps,
        prompt_tokens=row["prompt_tokens"] or 0,
        completion_tokens=row["completion_tokens"] or 0,
        seconds=row["seconds"] or 0.0,
    )
