"""What a generation will do, derived from the experiment and (run seed, generation) alone.

Nothing here touches a model, a browser or a database, and nothing hides in the state of a random generator: a run
that is killed and started again plans the same members, tasks and seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coevo.config import Experiment
from coevo.env import Task
from coevo.errors import ConfigError
from coevo.es import Population, draw_population, scheduled
from coevo.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class Slot:
    """A task with the seed of one episode. Whoever is compared faces the same slots."""

    task: Task
    seed: int

    @property
    def key(self) -> str:
        """Names the slot in reward tables."""
        return slot_key(self.task.id, self.seed)


def slot_key(task_id: str, seed: int) -> str:
    return f"{task_id}#{seed}"


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """Members and tasks of a generation, and what happens with their episodes."""

    generation: int
    population: Population
    slots: tuple[Slot, ...]
    moves_weights: bool
    looks_at_skill: bool
    evaluates: bool


def plan_generation(experiment: Experiment, generation: int, tasks: Sequence[Task]) -> GenerationPlan:
    """The plan of one generation; `tasks` is the train split. Raises ConfigError when the split is empty."""
    es = experiment.es
    total = es.generations

    def at(first: float, last: float | None) -> float:
        return scheduled(es.schedule, first, first if last is None else last, generation, total)

    population = draw_population(
        experiment.seed,
        generation,
        size=es.population,
        sigma=at(es.sigma, es.sigma_end),
        alpha=at(es.alpha, es.alpha_end),
        noise=experiment.noise_spec(),
        shaping=es.shaping,
        antithetic=es.antithetic,
        decay=es.decay,
        min_valid=es.min_valid,
    )
    weights, skill = what_evolves(experiment, generation)
    every = experiment.evaluate.every
    return GenerationPlan(
        generation=generation,
        population=population,
        slots=draw_slots(experiment.seed, "rollout", generation, tasks, es.tasks_per_generation),
        moves_weights=weights,
        looks_at_skill=skill and _counts(experiment, generation) % experiment.skill.every == 0,
        evaluates=bool(every) and (generation + 1) % every == 0 and generation + 1 < total,
    )


def what_evolves(experiment: Experiment, generation: int) -> tuple[bool, bool]:
    """(weights move, skill may change) in this generation."""
    mode = experiment.schedule.mode
    if mode == "sequential":
        return generation < _switch(experiment), generation >= _switch(experiment)
    return mode in ("interleaved", "weights"), mode in ("interleaved", "skill")


def draw_slots(
    run_seed: int, phase: str, round_index: int, tasks: Sequence[Task], count: int
) -> tuple[Slot, ...]:
    """`count` slots for one round, walking through shuffled passes over `tasks`: no task comes twice in a pass.

    Rounds continue where the last one stopped, so that every task is met before any is met again. Raises
    ConfigError when there are no tasks.
    """
    if not tasks:
        raise ConfigError(
            f"the task set has no tasks for {phase}", hint="see [tasks.options] in the experiment file"
        )
    slots = []
    shuffled: dict[int, list[Task]] = {}
    for position in range(round_index * count, (round_index + 1) * count):
        lap, place = divmod(position, len(tasks))
        if lap not in shuffled:
            shuffled[lap] = sorted(
                tasks, key=lambda task: derive_seed(run_seed, phase, "order", lap, task.id)
            )
        task = shuffled[lap][place]
        slots.append(Slot(task, derive_seed(run_seed, phase, round_index, position, task.id)))
    return tuple(slots)


def held_out_slots(run_seed: int, tasks: Sequence[Task], *, limit: int, repeats: int) -> tuple[Slot, ...]:
    """The slots of an evaluation: the first `limit` tasks (0: all), each with `repeats` seeds; the same every time."""
    if not tasks:
        raise ConfigError(
            "the task set has no held-out tasks", hint="see [tasks.options] in the experiment file"
        )
    chosen = tasks[:limit] if limit else tasks
    return tuple(
        Slot(task, derive_seed(run_seed, "eval", repeat, task.id))
        for repeat in range(repeats)
        for task in chosen
    )


def _switch(experiment: Experiment) -> int:
    return experiment.schedule.switch or max(1, experiment.es.generations // 2)


def _counts(experiment: Experiment, generation: int) -> int:
    """How many generations the skill has been open to change, this one included."""
    start = _switch(experiment) if experiment.schedule.mode == "sequential" else 0
    return generation - start + 1
