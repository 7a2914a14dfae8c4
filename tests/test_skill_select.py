"""Selection: contrast pairs first, a reason for everything left out, nothing held out ever used."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from skill_rows import episode

from coevo.env import Outcome
from coevo.skill import select
from coevo.store.queries import EpisodeRecord

records = st.builds(
    lambda n, task, seed, member, answers, outcome, category, phase, skill: replace(
        episode(
            f"e{n}",
            *answers,
            success=outcome is Outcome.SUCCESS,
            task=task,
            seed=seed,
            member=member,
            category=category,
            phase=phase,
            skill=skill,
        ),
        outcome=outcome,
    ),
    st.integers(0, 40),
    st.sampled_from(["t1", "t2", "t3"]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([None, 0, 1, 2]),
    st.lists(st.sampled_from(["click 'Ok'", "click 'Cancel'", "stop"]), max_size=3),
    st.sampled_from(Outcome),
    st.sampled_from(["wrong_action", "turn_limit", "agent_error", "parse_error"]),
    st.sampled_from(["rollout", "rollout", "rollout", "gate", "eval"]),
    st.sampled_from(["seed", "seed", "v2"]),
)
populations = st.lists(records, max_size=16, unique_by=lambda record: record.id)


@given(populations, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_every_episode_is_used_or_left_out_with_a_reason(
    population: list[EpisodeRecord], random: random.Random
) -> None:
    selection = select(population, held_out={"t3"})
    used = set(selection.tasks)
    dropped = {item.episode_id for item in selection.dropped}
    assert used | dropped == {record.id for record in population}
    assert not used & dropped
    assert all(item.why for item in selection.dropped)
    assert "t3" not in selection.tasks.values()
    by_id = {record.id: record for record in population}
    assert all(by_id[id].phase == "rollout" and by_id[id].outcome is not Outcome.INVALID for id in used)
    for pair in selection.pairs:
        one, two = pair.success, pair.failure
        assert (one.task, one.seed, one.skill_version) == (two.task, two.seed, two.skill_version)
        assert one.member != two.member
        assert (one.outcome, two.outcome) == (Outcome.SUCCESS, Outcome.FAILURE)
    shuffled = population[:]
    random.shuffle(shuffled)
    assert select(shuffled, held_out={"t3"}) == selection


def test_members_that_differ_on_a_task_make_a_pair() -> None:
    good = episode("good", "click 'Ok'", success=True, member=1)
    bad = episode("bad", "click 'Cancel'", member=2)
    selection = select([bad, good])
    assert [(pair.success.id, pair.failure.id) for pair in selection.pairs] == [("good", "bad")]
    assert selection.successes == selection.failures == ()


def test_no_pair_across_seeds_skills_weights_or_within_one_member() -> None:
    good = episode("good", "click 'Ok'", success=True, member=1)
    others = [
        episode("seed", "click 'Cancel'", member=2, seed=1),
        episode("skill", "click 'Cancel'", member=2, skill="v2"),
        episode("weights", "click 'Cancel'", member=2, weights=3),
        episode("member", "click 'Cancel'", member=1),
    ]
    selection = select([good, *others])
    assert selection.pairs == ()
    assert selection.successes == (good,)
    assert len(selection.failures) == 1


def test_the_failure_that_goes_along_longest_comes_first() -> None:
    good = episode("good", "type 'Name' 'Ada'", "click 'Ok'", success=True, member=0)
    near = episode("near", "type 'Name' 'Ada'", "click 'Cancel'", member=1)
    far = episode("far", "click 'Cancel'", member=2)
    same = episode("same", "click 'Cancel'", member=3)
    third = episode("third", "stop", member=4)
    selection = select([far, same, third, near, good])
    assert [pair.failure.id for pair in selection.pairs] == ["near", "far"]
    assert dict(selection.dropped) == {
        "same": "the same actions as another failure of the task",
        "third": "2 failures of the task are used",
    }


def test_single_episodes_are_the_shortest_success_and_the_longest_usable_failure() -> None:
    long = episode("long", "click 'A'", "click 'Ok'", success=True, task="won")
    short = episode("short", "click 'Ok'", success=True, task="won")
    brief = episode("brief", "click 'A'", task="lost")
    full = episode("full", "click 'A'", "click 'B'", task="lost")
    endless = episode("endless", "click 'A'", "click 'A'", "click 'A'", task="lost", category="turn_limit")
    selection = select([long, short, brief, full, endless])
    assert selection.successes == (short,)
    assert selection.failures == (full,)
    reasons = dict(selection.dropped)
    assert reasons["long"] == "a shorter success of the task is used"
    assert "turn limit" in reasons["endless"]


def test_a_turn_limit_counts_where_a_success_shows_the_way() -> None:
    good = episode("good", "click 'Ok'", success=True, member=0)
    endless = episode("endless", "click 'Help'", "click 'Help'", member=1, category="turn_limit")
    assert select([good, endless]).pairs[0].failure is endless


def test_held_out_and_broken_episodes_never_teach() -> None:
    rows = [
        episode("gate", "click 'Ok'", success=True, phase="gate"),
        episode("eval", "click 'Ok'", success=True, phase="eval"),
        episode("dev", "click 'Ok'", success=True, task="dev-1"),
        episode("broken", "click 'Ok'", outcome=Outcome.INVALID),
        episode("raised", "click 'Ok'", category="agent_error"),
        episode("silent"),
    ]
    selection = select(rows, held_out={"dev-1"})
    assert selection.tasks == {}
    assert len(selection.dropped) == len(rows)
