"""What the nodes of the loop work with, and the state they pass on (ids only)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from coevo.agent import EpisodeSpec
from coevo.config import Experiment
from coevo.engine.base import Perturbation
from coevo.env import Task, TaskSet
from coevo.loop.plan import GenerationPlan, Slot, plan_generation
from coevo.loop.rollout import Rollouts
from coevo.loop.skills import SkillLedger
from coevo.loop.weights import Weights
from coevo.progress import Progress

if TYPE_CHECKING:
    from coevo.skill import Analyst
    from coevo.store import Store


class LoopState(TypedDict, total=False):
    """Checkpointed. `generation` is the one under way, `candidates` the skill versions that wait for the gate."""

    run: str
    generation: int
    candidates: list[str]


@dataclass(frozen=True, slots=True)
class LoopContext:
    """Handed to every node as LangGraph's runtime context; never checkpointed."""

    experiment: Experiment
    run: str
    store: Store
    weights: Weights
    rollouts: Rollouts
    skills: SkillLedger
    analyst: Analyst
    task_set: TaskSet
    train: Sequence[Task]
    dev: Sequence[Task]
    held_out: Sequence[Task]
    progress: Progress

    def plan(self, generation: int) -> GenerationPlan:
        return plan_generation(self.experiment, generation, self.train)

    def specs(
        self,
        phase: str,
        generation: int | None,
        slots: Iterable[Slot],
        *,
        skill_version: str,
        arm: str = "",
        member: int | None = None,
        perturbation: Perturbation | None = None,
    ) -> list[EpisodeSpec]:
        """One episode a slot."""
        return [
            EpisodeSpec(
                run=self.run,
                phase=phase,
                generation=generation,
                member=member,
                arm=arm,
                task=slot.task,
                seed=slot.seed,
                perturbation=perturbation,
                skill_version=skill_version,
            )
            for slot in slots
        ]
