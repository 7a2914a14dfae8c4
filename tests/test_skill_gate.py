"""The gate: what it accepts, what it refuses, and how often it is wrong."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import SkillError
from coevo.skill import GateDecision, Verdict, decide, decide_early, paired_interval

QUICK = 200  # resamples; enough for tests that do not look at the third digit

rewards = st.sampled_from([0.0, 0.25, 0.5, 1.0])
tables = st.lists(st.tuples(rewards, rewards), min_size=1, max_size=24)


def keyed(values: list[float]) -> dict[tuple[str, int], float | None]:
    return {(f"t{index:03}", 7): value for index, value in enumerate(values)}


def verdict(current: list[float], candidate: list[float], **options: float) -> GateDecision:
    return decide(keyed(current), keyed(candidate), resamples=QUICK, **options)  # type: ignore[arg-type]


def test_a_clear_gain_is_accepted_with_its_numbers() -> None:
    decision = verdict([0.0] * 10 + [1.0] * 10, [1.0] * 18 + [0.0] * 2)
    assert decision.verdict is Verdict.ACCEPT
    assert decision.accepted
    assert decision.mean_difference == pytest.approx((10 - 2) / 20)
    assert 0 < decision.lower < decision.mean_difference < decision.upper
    assert decision.pairs == 20


@pytest.mark.parametrize(
    ("current", "candidate"),
    [
        ([0.0] * 20, [0.0] * 20),
        ([1.0] * 20, [0.0] * 20),
        ([0.0] * 20, [1.0] + [0.0] * 19),
        ([1.0] * 10 + [0.0] * 10, [0.0] * 10 + [1.0] * 10),
    ],
    ids=["no difference", "harm", "one lucky pair", "a wash"],
)
def test_no_clear_gain_is_refused(current: list[float], candidate: list[float]) -> None:
    decision = verdict(current, candidate)
    assert decision.verdict is Verdict.REJECT
    assert "no clear gain" in decision.reason


def test_more_confidence_asks_for_more() -> None:
    current, candidate = [0.0] * 20, [1.0] * 2 + [0.0] * 18
    assert verdict(current, candidate, confidence=0.8).accepted
    assert not verdict(current, candidate, confidence=0.95).accepted


def test_too_few_pairs_decide_nothing() -> None:
    assert "2 pairs, at least 8 needed" in verdict([0.0] * 2, [1.0] * 2).reason
    # a row of four wins happens by chance once in sixteen: not enough at 95 %
    assert "at least 5 needed" in verdict([0.0] * 4, [1.0] * 4, confidence=0.95, min_pairs=1).reason
    assert decide({}, {}).verdict is Verdict.REJECT


def test_pairs_without_a_valid_reward_are_left_out_and_counted() -> None:
    current, candidate = keyed([0.0] * 12), keyed([1.0] * 12)
    current["t000", 7] = None
    candidate["t001", 7] = math.nan
    del candidate["t002", 7]
    decision = decide(current, candidate, resamples=QUICK)
    assert decision.accepted
    assert decision.pairs == 9
    assert decision.left_out == (("t000", 7), ("t001", 7), ("t002", 7))


def test_a_comparison_with_many_holes_is_refused() -> None:
    current, candidate = keyed([0.0] * 12), keyed([1.0] * 12)
    candidate.update({(f"t{index:03}", 7): None for index in range(4)})
    decision = decide(current, candidate, resamples=QUICK)
    assert not decision.accepted
    assert "4 of 12 pairs have no valid reward" in decision.reason


def test_no_regression_names_the_task_that_loses() -> None:
    current = {(task, seed): float(task == "b") for task in "abc" for seed in range(6)}
    candidate = {(task, seed): float(task != "b" or seed < 3) for task in "abc" for seed in range(6)}
    assert decide(current, candidate, resamples=QUICK).accepted
    strict = decide(current, candidate, no_regression=0.1, resamples=QUICK)
    assert not strict.accepted
    assert "b loses 0.500" in strict.reason
    assert [(task.task, task.difference, task.pairs) for task in strict.per_task] == [
        ("a", 1, 6),
        ("b", -0.5, 6),
        ("c", 1, 6),
    ]
    groups = dict.fromkeys("abc", "all")
    assert decide(current, candidate, no_regression=0.1, groups=groups, resamples=QUICK).accepted


@given(tables, st.data())
@settings(max_examples=60, deadline=None)
def test_a_better_candidate_is_never_turned_away(
    pairs: list[tuple[float, float]], data: st.DataObject
) -> None:
    current, candidate = [one for one, _ in pairs], [two for _, two in pairs]
    better = [data.draw(st.sampled_from([value, 1.0])) for value in candidate]
    before, after = verdict(current, candidate, min_pairs=1), verdict(current, better, min_pairs=1)
    assert after.lower >= before.lower
    assert after.upper >= before.upper
    if before.accepted:
        assert after.accepted


@given(tables)
@settings(max_examples=60, deadline=None)
def test_a_skill_is_never_better_than_itself_nor_both_ways(pairs: list[tuple[float, float]]) -> None:
    current, candidate = [one for one, _ in pairs], [two for _, two in pairs]
    assert not verdict(current, current, min_pairs=1).accepted
    assert not (
        verdict(current, candidate, min_pairs=1).accepted
        and verdict(candidate, current, min_pairs=1).accepted
    )


@given(tables, st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_does_not_matter(pairs: list[tuple[float, float]], random: random.Random) -> None:
    current, candidate = keyed([one for one, _ in pairs]), keyed([two for _, two in pairs])
    rows = list(candidate.items())
    random.shuffle(rows)
    assert decide(current, dict(rows), resamples=QUICK) == decide(current, candidate, resamples=QUICK)


def test_the_interval_agrees_with_the_normal_one_on_many_pairs() -> None:
    differences = [1.0] * 30 + [0.0] * 60 + [-1.0] * 10
    mean = 0.2
    deviation = math.sqrt((30 * 0.8**2 + 60 * 0.2**2 + 10 * 1.2**2) / 100)
    lower, upper = paired_interval(differences, confidence=0.975, resamples=4000)
    half = 1.96 * deviation / math.sqrt(100)
    assert lower == pytest.approx(mean - half, abs=0.025)
    assert upper == pytest.approx(mean + half, abs=0.025)


@pytest.mark.parametrize("confidence", [0.0, 0.5, 1.0])
def test_a_confidence_without_meaning_is_an_error(confidence: float) -> None:
    with pytest.raises(SkillError, match=r"between 0\.5 and 1"):
        verdict([0.0] * 9, [1.0] * 9, confidence=confidence)


def noisy(draw: random.Random, count: int, ups: float, downs: float) -> tuple[list[float], list[float]]:
    current, candidate = [], []
    for _ in range(count):
        chance = draw.random()
        current.append(float(ups <= chance < ups + downs))
        candidate.append(float(chance < ups))
    return current, candidate


def in_batches(
    current: list[float], candidate: list[float], size: int = 8, **options: float
) -> tuple[GateDecision, int]:
    """The decision of a gate that looks after every batch, and how many pairs it took."""
    one, two = keyed(current), keyed(candidate)
    planned = list(one)
    for done in range(size, len(planned) + size, size):
        seen = planned[:done]
        decision = decide_early(
            {key: one[key] for key in seen},
            {key: two[key] for key in seen},
            planned,
            resamples=QUICK,
            **options,  # type: ignore[arg-type]
        )
        if decision.verdict is not Verdict.CONTINUE:
            return decision, min(done, len(planned))
    raise AssertionError("the last look must decide")


def test_without_a_gain_acceptance_is_as_rare_as_promised() -> None:
    draw = random.Random(1)
    trials = [noisy(draw, 40, 0.2, 0.2) for _ in range(60)]
    fixed = sum(verdict(*trial, confidence=0.8).accepted for trial in trials)
    early = sum(in_batches(*trial, size=10, confidence=0.8)[0].accepted for trial in trials)
    # 60 trials at error 0.2: 12 expected, standard deviation 3.1
    assert fixed <= 12 + 3 * 3.1
    assert early <= 12 + 3 * 3.1


def test_a_harmful_skill_is_stopped_every_time_and_mostly_early() -> None:
    draw = random.Random(2)
    taken = []
    for _ in range(20):
        current, candidate = noisy(draw, 32, 0.05, 0.4)
        assert not verdict(current, candidate).accepted
        decision, pairs = in_batches(current, candidate)
        assert decision.verdict is Verdict.REJECT
        taken.append(pairs)
    assert sum(taken) / len(taken) <= 16


def test_what_asks_for_more_confidence_is_turned_down_no_later() -> None:
    """A harmful candidate costs no more dev episodes because acceptance is made harder."""
    draw = random.Random(4)
    trials = [noisy(draw, 48, 0.1, 0.3) for _ in range(20)]
    loose, strict = ([in_batches(*trial, confidence=level)[1] for trial in trials] for level in (0.8, 0.95))
    assert all(two <= one for one, two in zip(loose, strict, strict=True))
    with pytest.raises(SkillError, match="early_loss is 1"):
        in_batches([0.0] * 16, [1.0] * 16, early_loss=1.0)


def test_a_good_skill_is_found_and_early() -> None:
    draw = random.Random(3)
    trials = [in_batches(*noisy(draw, 48, 0.4, 0.05)) for _ in range(20)]
    assert sum(decision.accepted for decision, _ in trials) >= 19
    assert sum(pairs for _, pairs in trials) / 20 < 36


def test_it_stops_when_the_rest_cannot_matter() -> None:
    # Two wins in twenty: a resample misses both with probability 0.9 ** 20 = 0.12, too likely for confidence 0.95.
    # Eight wins could still come after twelve pairs.
    decision, pairs = in_batches([0.0] * 20, [0.0] * 20, size=6, confidence=0.95, worthwhile=0.0)
    assert decision.verdict is Verdict.REJECT
    assert pairs == 18
    assert "the 2 pairs left cannot bring a clear gain" in decision.reason


@given(st.lists(st.tuples(rewards, rewards), min_size=10, max_size=24))
@settings(max_examples=15, deadline=None)
def test_stopping_for_lack_of_hope_is_never_premature(pairs: list[tuple[float, float]]) -> None:
    current, candidate = [one for one, _ in pairs], [two for _, two in pairs]
    decision, taken = in_batches(current, candidate, size=5, worthwhile=0.0, confidence=0.8)
    if "cannot bring" in decision.reason:
        rest = len(pairs) - taken
        best = decide(
            keyed(current[:taken] + [0.0] * rest),
            keyed(candidate[:taken] + [1.0] * rest),
            confidence=0.85,
            resamples=QUICK,
        )
        assert not best.accepted


def test_the_last_look_is_the_full_comparison_at_the_confidence_left() -> None:
    current, candidate = keyed([0.0] * 16), keyed([1.0] * 5 + [0.0] * 11)
    last = decide_early(current, candidate, list(current), confidence=0.8, early_share=0.25, resamples=QUICK)
    assert last == decide(current, candidate, confidence=1 - 0.75 * (1 - 0.8), resamples=QUICK)


def test_invalid_pairs_count_as_done() -> None:
    current, candidate = keyed([0.0] * 10), keyed([1.0] * 10)
    candidate["t009", 7] = None
    assert decide_early(current, candidate, list(current), resamples=QUICK).accepted


def test_a_reward_out_of_range_would_break_the_bet() -> None:
    with pytest.raises(SkillError, match="outside"):
        decide_early(keyed([0.0] * 9), keyed([2.0] * 9), list(keyed([0.0] * 10)))
    wide = decide_early(
        keyed([0.0] * 16),
        keyed([2.0] * 16),
        list(keyed([0.0] * 17)),
        reward_range=(0.0, 2.0),
        resamples=QUICK,
    )
    assert wide.accepted
