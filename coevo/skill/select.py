"""Which episodes an analyst sees: a pure function of rows that gives a reason for every episode it leaves out.

An ES population faces one task many times, with the same seed and the same skill, differing only in the perturbation
of the weights. A success and a failure from there are the sharpest evidence there is, and they cost nothing extra.
Tasks without such a pair give at most one shortest success and one longest usable failure (the rule of Trace2Skill's
representative selection).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from coevo.env import Outcome

if TYPE_CHECKING:
    from coevo.store.queries import EpisodeRecord

# Failures that say nothing about what the agent should have done.
_UNUSABLE = frozenset({"agent_error", "deadline", "world_error", "interrupted"})


@dataclass(frozen=True, slots=True)
class ContrastPair:
    """The same task, seed, skill version and centre weights; only the perturbation differs."""

    success: EpisodeRecord
    failure: EpisodeRecord


class LeftOut(NamedTuple):
    episode_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes to the analyst, and what does not. Every episode is in exactly one role, except that the success of
    a pair may face several failures."""

    pairs: tuple[ContrastPair, ...] = ()
    successes: tuple[EpisodeRecord, ...] = ()
    failures: tuple[EpisodeRecord, ...] = ()
    dropped: tuple[LeftOut, ...] = ()

    @property
    def all_successes(self) -> tuple[EpisodeRecord, ...]:
        """Successes of pairs and single ones, each once."""
        return tuple(
            {
                episode.id: episode for episode in (*(pair.success for pair in self.pairs), *self.successes)
            }.values()
        )

    @property
    def all_failures(self) -> tuple[EpisodeRecord, ...]:
        return (*(pair.failure for pair in self.pairs), *self.failures)

    @property
    def tasks(self) -> dict[str, str]:
        """Episode id → task, of the episodes in use."""
        return {episode.id: episode.task for episode in (*self.all_successes, *self.all_failures)}


def actions(episode: EpisodeRecord) -> tuple[str, ...]:
    """What the agent did, in order."""
    return tuple(step.action.strip() for step in episode.steps if step.action is not None)


def select(
    episodes: Sequence[EpisodeRecord],
    *,
    held_out: Collection[str] = (),
    pairs_per_instance: int = 2,
) -> Selection:
    """Choose contrast pairs first, then single episodes of the tasks that have no pair.

    `held_out` are task ids that must never be learned from (dev and test), whatever the phase of their episodes; only
    rollouts are used in any case. `pairs_per_instance` bounds the pairs of one task, seed and skill version.
    The order of `episodes` does not matter.
    """
    held_out = frozenset(held_out)
    dropped: dict[str, str] = {}
    usable: list[EpisodeRecord] = []
    for episode in sorted(
        {episode.id: episode for episode in episodes}.values(), key=lambda episode: episode.id
    ):
        if why := _unusable(episode, held_out):
            dropped[episode.id] = why
        else:
            usable.append(episode)

    pairs, paired_tasks = _pairs(usable, pairs_per_instance, dropped)
    used = {episode.id for pair in pairs for episode in (pair.success, pair.failure)}
    successes, failures = [], []
    for task, group in _by_task(usable, used).items():
        good = sorted((e for e in group if e.outcome == Outcome.SUCCESS), key=lambda e: (e.turns, e.id))
        bad = sorted((e for e in group if e.outcome == Outcome.FAILURE), key=lambda e: (-e.turns, e.id))
        if task in paired_tasks:
            dropped.update((e.id, "the task has a contrast pair") for e in group if e.id not in dropped)
            continue
        successes += good[:1]
        dropped.update((e.id, "a shorter success of the task is used") for e in good[1:])
        for e in bad:
            if e.category == "turn_limit":
                dropped[e.id] = "ran into the turn limit and has no success to compare with"
        bad = [e for e in bad if e.id not in dropped]
        failures += bad[:1]
        dropped.update((e.id, "a longer failure of the task is used") for e in bad[1:])
    return Selection(
        pairs=tuple(pairs),
        successes=tuple(successes),
        failures=tuple(failures),
        dropped=tuple(LeftOut(*item) for item in sorted(dropped.items())),
    )


def _unusable(episode: EpisodeRecord, held_out: frozenset[str]) -> str:
    if episode.phase != "rollout":
        return f"{episode.phase} episodes are held out"
    if episode.task in held_out:
        return "the task is held out"
    if episode.outcome == Outcome.INVALID:
        return "invalid: the world broke"
    if episode.outcome not in (Outcome.SUCCESS, Outcome.FAILURE):
        return "not finished"
    if episode.category in _UNUSABLE:
        return f"ended by {episode.category}, not by what the agent did"
    if not actions(episode):
        return "no action was taken"
    return ""


def _pairs(
    usable: list[EpisodeRecord], limit: int, dropped: dict[str, str]
) -> tuple[list[ContrastPair], frozenset[str]]:
    instances: dict[tuple[object, ...], list[EpisodeRecord]] = defaultdict(list)
    for episode in usable:
        key = (episode.task, episode.seed, str(episode.skill_version), str(episode.weights_step))
        instances[key].append(episode)
    pairs: list[ContrastPair] = []
    for _, group in sorted(instances.items(), key=lambda item: tuple(map(str, item[0]))):
        good = [episode for episode in group if episode.outcome == Outcome.SUCCESS]
        success = min(good, key=lambda e: (e.turns, e.id), default=None)
        if success is None:
            continue
        bad = [e for e in group if e.outcome == Outcome.FAILURE and _differs(success, e)]
        # The failure that goes along longest with the success shows the deciding action best.
        bad.sort(key=lambda e: (-_common(success, e), e.turns, e.id))
        seen: set[tuple[str, ...]] = set()
        for failure in bad:
            if actions(failure) in seen:
                dropped[failure.id] = "the same actions as another failure of the task"
            elif len(seen) == limit:
                dropped[failure.id] = f"{limit} failures of the task are used"
            else:
                seen.add(actions(failure))
                pairs.append(ContrastPair(success, failure))
    return pairs, frozenset(pair.success.task for pair in pairs)


def _differs(one: EpisodeRecord, other: EpisodeRecord) -> bool:
    """Different perturbations: the mirrored members of an antithetic pair share a seed, not a member index."""
    return (one.perturbation_seed, one.member) != (other.perturbation_seed, other.member)


def _common(one: EpisodeRecord, other: EpisodeRecord) -> int:
    count = 0
    for first, second in zip(actions(one), actions(other), strict=False):
        if first != second:
            break
        count += 1
    return count


def _by_task(usable: list[EpisodeRecord], used: set[str]) -> dict[str, list[EpisodeRecord]]:
    groups: dict[str, list[EpisodeRecord]] = defaultdict(list)
    for episode in usable:
        if episode.id not in used:
            groups[episode.task].append(episode)
    return dict(sorted(groups.items()))
