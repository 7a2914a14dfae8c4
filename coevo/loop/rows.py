"""What the database says about a run: the only memory the loop trusts when it continues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coevo.engine.base import NoiseSpec, Step, UpdateReport
from coevo.env import Outcome
from coevo.loop.plan import slot_key

if TYPE_CHECKING:
    from coevo.store import Store


@dataclass(frozen=True, slots=True)
class EpisodeKey:
    """Who faced which slot, told what. `member` is None for the centre; `arm` tells apart what a gate or evaluation compares."""

    member: int | None
    arm: str
    task: str
    seed: int
    skill_version: str | None

    @property
    def slot(self) -> str:
        return slot_key(self.task, self.seed)


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """A finished episode, the last attempt if there were several. `reward` is None when invalid."""

    id: str
    key: EpisodeKey
    attempt: int
    outcome: Outcome
    reward: float | None
    category: str
    error: str
    prompt_tokens: int
    completion_tokens: int

    @property
    def valid(self) -> bool:
        return self.outcome is not Outcome.INVALID and self.reward is not None


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """An update and the checksum of the weights after it."""

    step: Step
    checksum: str


def episode_rows(store: Store, run: str, phase: str, generation: int | None) -> dict[EpisodeKey, EpisodeRow]:
    """Finished episodes of a phase of a generation: the valid attempt where there is one, else the last.

    Attempts in which the engine failed are no finding about anything: they are left out, and so run again.
    """
    rows = store.query(
        "SELECT id, member, arm, task, seed, skill_version, attempt, outcome, reward, category, error, prompt_tokens, completion_tokens"
        " FROM episodes WHERE run = ? AND phase = ? AND generation IS ? AND status = 'finished'"
        " AND coalesce(category, '') != 'engine_error' ORDER BY attempt",
        (run, phase, generation),
    )
    found: dict[EpisodeKey, EpisodeRow] = {}
    for row in rows:
        key = EpisodeKey(row["member"], row["arm"] or "", row["task"], row["seed"], row["skill_version"])
        if key in found and found[key].valid:
            continue
        found[key] = EpisodeRow(
            id=row["id"],
            key=key,
            attempt=row["attempt"],
            outcome=Outcome(row["outcome"]),
            reward=row["reward"],
            category=row["category"] or "",
            error=row["error"] or "",
            prompt_tokens=row["prompt_tokens"] or 0,
            completion_tokens=row["completion_tokens"] or 0,
        )
    return found


def applied_steps(store: Store, run: str) -> list[AppliedStep]:
    """The updates of a run, in order: with the base checkpoint they are the weights."""
    rows = store.query("SELECT * FROM es_steps WHERE run = ? AND status = 'applied' ORDER BY step", (run,))
    return [AppliedStep(step_from_row(row), row["checksum"]) for row in rows]


def step_from_row(row: Mapping[str, Any]) -> Step:
    noise = json.loads(row["noise"])
    noise |= {key: tuple(noise[key]) for key in ("include", "exclude")}
    return Step(
        generation=row["generation"],
        seeds=tuple(json.loads(row["seeds"])),
        coefficients=tuple(float(value) for value in json.loads(row["coefficients"])),
        population=row["population"],
        alpha=row["alpha"],
        sigma=row["sigma"],
        noise=NoiseSpec(**noise),
        decay=row["decay"],
    )


def step_values(step: Step, report: UpdateReport) -> dict[str, Any]:
    """The columns of an applied row of `es_steps`."""
    return {
        "status": "applied",
        "seeds": list(step.seeds),
        "coefficients": list(step.coefficients),
        "population": step.population,
        "alpha": step.alpha,
        "sigma": step.sigma,
        "noise": asdict(step.noise),
        "decay": step.decay,
        "weights_step": report.weights_step,
        "step_norm": report.step_norm,
        "drift_norm": report.drift_norm,
        "share_under_sigma": report.share_under_sigma,
        "checksum": report.checksum,
        "seconds": report.seconds,
    }


def generations_done(store: Store, run: str) -> int:
    """Generations whose update is stored; they are finished in order."""
    return int(store.query("SELECT count(*) AS n FROM es_steps WHERE run = ?", (run,))[0]["n"])


def rewards_by_slot(rows: Iterable[EpisodeRow], arm: str) -> dict[tuple[str, int], float | None]:
    """Rewards of one arm by (task, seed); None where the episode is invalid."""
    return {
        (row.key.task, row.key.seed): row.reward if row.valid else None for row in rows if row.key.arm == arm
    }
