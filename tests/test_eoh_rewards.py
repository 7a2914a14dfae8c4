"""Rewards of directions in EoH: the released rule's truth table, and the properties of the sound one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.eoh.rewards import Outcome, improvement, reference_improvement, reference_sampled, rewards_of

OBJECTIVES = st.floats(-1e4, 1e4)
OUTCOMES = st.lists(st.builds(Outcome, st.none() | OBJECTIVES, OBJECTIVES), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("parent", "child", "worst", "reward"),
    [
        (10.0, 8.0, 13.0, 2.0),
        (10.0, 10.0, 13.0, 0.0),
        (10.0, 12.0, 13.0, -2.0),
        (10.0, 15.0, 13.0, -1.0),
        (10.0, None, 13.0, -1.0),
        (-2780.0, None, -2700.0, -1.0),
        (-2780.0, -2740.0, -2700.0, -40.0),
        (-2780.0, -2500.0, -2700.0, -1.0),
        (6.5, None, 6.5, 0.0),
        (6.5, 6.5, 6.5, 0.0),
        (6.5, 9.0, 6.5, 0.0),
        (6.5, 6.4, 6.5, pytest.approx(0.1)),
        (10.0, 8.0, None, 2.0),
        (10.0, 12.0, None, -1.0),
        (10.0, None, None, -1.0),
    ],
)
def test_reference_rule_of_improvement(
    parent: float, child: float | None, worst: float | None, reward: float
) -> None:
    assert reference_improvement(parent, child, worst) == reward
    assert rewards_of("reference", [Outcome(child, parent)], worst).values == (reward,)


def test_reference_rule_of_samples() -> None:
    rewards = reference_sampled([4.0, 5.0, 7.0, None])
    assert rewards[:3] == (-4.0, -5.0, -7.0)
    assert rewards[3] == pytest.approx(-8.247, abs=1e-3)
    assert reference_sampled([None, None]) == (0.0, 0.0)
    assert reference_sampled([202.4, None, 202.4])[1] == pytest.approx(-202.4 - 2.024)
    assert reference_sampled([0.5, None])[1] == pytest.approx(-1.5)
    assert rewards_of("reference", [Outcome(4.0, None), Outcome(None, None)], 9.0).values[0] == -4.0


@given(OUTCOMES)
def test_an_invalid_child_is_worse_than_every_valid_one(outcomes: list[Outcome]) -> None:
    found = improvement(outcomes)
    if found.reason:
        return
    valid = [r for r, outcome in zip(found.values, outcomes, strict=True) if outcome.child is not None]
    invalid = [r for r, outcome in zip(found.values, outcomes, strict=True) if outcome.child is None]
    assert all(math.isfinite(reward) for reward in found.values)
    assert all(bad < good for bad in invalid for good in valid)


@given(OUTCOMES)
def test_a_better_child_of_the_same_parent_is_never_rewarded_less(outcomes: list[Outcome]) -> None:
    found = improvement(outcomes)
    rewarded = list(zip(found.values, outcomes, strict=False))
    for reward, outcome in rewarded:
        for other_reward, other in rewarded:
            if (
                outcome.parent == other.parent
                and outcome.child is not None
                and other.child is not None
                and outcome.child < other.child
            ):
                assert reward >= other_reward


@given(OUTCOMES, st.floats(-1e4, 1e4))
def test_a_parent_that_is_better_is_no_credit_to_the_direction(outcomes: list[Outcome], shift: float) -> None:
    """Moving a parent and its child together changes nothing."""
    moved = [
        Outcome(None if o.child is None else o.child + shift, (o.parent or 0.0) + shift) for o in outcomes
    ]
    before, after = improvement(outcomes), improvement(moved)
    if before.reason or after.reason:
        return
    assert after.values == pytest.approx(before.values, abs=1e-6)


@given(st.lists(st.builds(Outcome, st.none(), OBJECTIVES), min_size=1), st.lists(OBJECTIVES, max_size=1))
def test_no_step_without_two_different_valid_gains(broken: list[Outcome], single: list[float]) -> None:
    outcomes = [*broken, *(Outcome(value, 0.0) for value in single)]
    found = improvement(outcomes)
    assert found.values == ()
    assert "two different gains are needed" in found.reason


def test_equal_gains_are_no_signal() -> None:
    found = improvement([Outcome(5.0, 6.0), Outcome(7.0, 8.0), Outcome(None, 8.0)])
    assert found.reason.startswith("2 of 3 children are valid, and they gained the same")
