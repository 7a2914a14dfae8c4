"""Shaping, schedules and the ES node. Expected values are worked out by hand or follow from the definitions."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.engine.base import NoiseSpec, Step
from coevo.es import NoStep, draw_population, es_node, scheduled, shape
from coevo.es.shaping import centred_rank, member_means, per_task, zscore

rewards = st.lists(st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 6)), min_size=2, max_size=40)


def population(size: int = 4, **options: object):
    defaults: dict[str, object] = {"size": size, "sigma": 0.1, "alpha": 0.5, "noise": NoiseSpec()}
    return draw_population(7, 3, **(defaults | options))  # type: ignore[arg-type]


def scores(*values: float) -> dict[int, dict[str, float]]:
    return {index: {"task": value} for index, value in enumerate(values)}


class TestShaping:
    def test_zscore_divides_by_the_population_std(self) -> None:
        # mean 2, population variance ((1 + 0 + 1) / 3): std 0.81650, not the sample's 1.
        assert zscore([1.0, 2.0, 3.0]) == pytest.approx((-1.224745, 0.0, 1.224745), abs=1e-6)

    def test_zscore_of_equal_rewards_is_zero_not_an_error(self) -> None:
        assert zscore([0.3, 0.3, 0.3]) == (0.0, 0.0, 0.0)

    def test_equal_rewards_are_all_zero_whatever_the_mean_rounds_to(self) -> None:
        assert zscore([342.041016] * 3) == (0.0, 0.0, 0.0)

    @given(rewards)
    def test_zscore_has_mean_0_and_std_at_most_1(self, values: list[float]) -> None:
        z = zscore(values)
        assert abs(math.fsum(z)) < 1e-6 * len(z)
        assert math.fsum(v * v for v in z) / len(z) <= 1 + 1e-9

    @given(rewards, st.randoms())
    def test_shaping_does_not_depend_on_the_order_of_members(
        self, values: list[float], random: object
    ) -> None:
        order = list(range(len(values)))
        random.shuffle(order)  # type: ignore[attr-defined]
        for function in (zscore, centred_rank):
            shaped = function(values)
            assert function([values[i] for i in order]) == pytest.approx([shaped[i] for i in order])

    def test_centred_rank_spans_half_to_half_and_shares_ties(self) -> None:
        assert centred_rank([5.0, 1.0, 100.0]) == (0.0, -0.5, 0.5)
        # ranks 0, 1.5, 1.5, 3 of 3 → −0.5, 0, 0, 0.5
        assert centred_rank([0.0, 2.0, 2.0, 9.0]) == (-0.5, 0.0, 0.0, 0.5)

    @given(rewards)
    def test_centred_rank_only_looks_at_the_order(self, values: list[float]) -> None:
        assert centred_rank(values) == centred_rank([2 * value + 1 for value in values])
        assert math.fsum(centred_rank(values)) == pytest.approx(0, abs=1e-9)

    def test_per_task_weighs_a_narrow_task_like_a_wide_one(self) -> None:
        table = {0: {"easy": 0.9, "hard": 0.00}, 1: {"easy": 0.1, "hard": 0.02}}
        # Each task's z-scores are ±1: member 0 wins one, member 1 the other.
        assert per_task(table) == pytest.approx((0.0, 0.0), abs=1e-5)
        assert zscore(member_means(table))[0] > 0.9

    def test_per_task_ignores_tasks_without_difference(self) -> None:
        table = {0: {"a": 1.0, "b": 0.5}, 1: {"a": 0.0, "b": 0.5}}
        assert per_task(table) == pytest.approx((0.5, -0.5), abs=1e-6)

    def test_raw_is_the_mean_reward(self) -> None:
        assert shape("raw", {0: {"a": 1.0, "b": 0.5}, 1: {"a": 0.0, "b": 0.5}}) == (0.75, 0.25)

    def test_losing_a_hard_task_to_the_world_is_no_advantage(self) -> None:
        # Both members are alike where both played; member 1 lost the hard task (0.0 for member 0) to a crash.
        table = {0: {"easy": 1.0, "hard": 0.0}, 1: {"easy": 1.0}}
        first, second = member_means(table)
        assert first == pytest.approx(second)

    @given(rewards)
    def test_a_full_table_gives_plain_means(self, values: list[float]) -> None:
        table = {i: {"a": value, "b": 0.0} for i, value in enumerate(values)}
        assert member_means(table) == pytest.approx([value / 2 for value in values])


class TestSchedule:
    @pytest.mark.parametrize("name", ["linear", "cosine"])
    @given(first=st.floats(1e-6, 1.0), last=st.floats(1e-6, 1.0), total=st.integers(2, 300))
    def test_end_points_are_exact(self, name: str, first: float, last: float, total: int) -> None:
        assert scheduled(name, first, last, 0, total) == first  # type: ignore[arg-type]
        assert scheduled(name, first, last, total - 1, total) == last  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
    @given(total=st.integers(1, 60))
    def test_never_leaves_its_range_and_never_turns(self, name: str, total: int) -> None:
        values = [scheduled(name, 0.3, 0.1, i, total) for i in range(total)]  # type: ignore[arg-type]
        assert all(0.1 - 1e-12 <= value <= 0.3 for value in values)
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(values))

    def test_cosine_in_the_middle_and_at_a_quarter(self) -> None:
        assert scheduled("cosine", 1.0, 0.0, 2, 5) == pytest.approx(0.5)
        assert scheduled("cosine", 1.0, 0.0, 1, 5) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)

    def test_linear_and_constant(self) -> None:
        assert scheduled("linear", 1.0, 3.0, 1, 5) == pytest.approx(1.5)
        assert scheduled("constant", 1.0, 3.0, 4, 5) == 1.0

    def test_one_generation_has_the_first_value(self) -> None:
        assert scheduled("cosine", 0.3, 0.1, 0, 1) == 0.3

    def test_outside_the_run(self) -> None:
        with pytest.raises(ValueError, match="generation 5 is outside a run of 5"):
            scheduled("cosine", 1.0, 0.0, 5, 5)


class TestPopulation:
    def test_members_come_from_run_seed_and_generation_alone(self) -> None:
        assert population() == population()
        other = draw_population(7, 4, size=4, sigma=0.1, alpha=0.5, noise=NoiseSpec())
        assert not {m.seed for m in population().members} & {m.seed for m in other.members}

    def test_antithetic_pairs_share_a_seed_with_opposite_signs(self) -> None:
        members = population(6, antithetic=True).members
        assert [m.sigma for m in members] == [0.1, -0.1] * 3
        assert len({m.seed for m in members}) == 3
        assert all(members[2 * k].seed == members[2 * k + 1].seed for k in range(3))

    def test_antithetic_needs_pairs(self) -> None:
        with pytest.raises(ValueError, match="even population, not 5"):
            population(5, antithetic=True)


class TestNode:
    def test_step_carries_zscores_on_the_grid(self) -> None:
        result = es_node(population(decay=0.01), scores(0.0, 0.0, 1.0, 1.0), episodes=1)
        assert isinstance(result.step, Step)
        # z = ±0.5 / (0.5 + 1e-8) ≈ ±1, rounded to a multiple of 2⁻¹² is exactly ±1.
        assert result.step.coefficients == (-1.0, -1.0, 1.0, 1.0)
        assert result.step.seeds == tuple(m.seed for m in population().members)
        assert (result.step.population, result.step.alpha, result.step.sigma) == (4, 0.5, 0.1)
        assert (result.step.generation, result.step.decay) == (3, 0.01)
        assert (result.mean, result.std, result.worst, result.best) == (0.5, 0.5, 0.0, 1.0)

    @given(st.lists(st.floats(0, 1, allow_nan=False), min_size=4, max_size=4))
    def test_coefficients_are_multiples_of_a_4096th(self, values: list[float]) -> None:
        step = es_node(population(), scores(*values), episodes=1).step
        if isinstance(step, Step):
            assert all(z * 4096 == round(z * 4096) for z in step.coefficients)

    def test_a_pair_folds_into_one_coefficient(self) -> None:
        result = es_node(population(antithetic=True), scores(1.0, 0.0, 0.0, 0.0), episodes=1)
        assert isinstance(result.step, Step)
        z_high, z_low = zscore([1.0, 0.0, 0.0, 0.0])[:2]
        assert result.step.coefficients == pytest.approx((z_high - z_low, 0.0), abs=2**-12)
        assert len(result.step.seeds) == 2
        assert result.step.population == 4

    def test_a_half_whose_twin_is_invalid_stands_alone(self) -> None:
        table = scores(1.0, 0.0, 0.0, 0.0)
        del table[1]
        result = es_node(population(antithetic=True), table, episodes=1)
        assert isinstance(result.step, Step)
        assert result.step.population == 3
        assert result.step.coefficients[0] == pytest.approx(zscore([1.0, 0.0, 0.0])[0], abs=2**-12)
        assert [m.valid for m in result.members] == [True, False, True, True]

    def test_the_mirrored_half_pulls_the_other_way(self) -> None:
        result = es_node(population(2, antithetic=True), scores(0.0, 1.0), episodes=1)
        assert isinstance(result.step, Step)
        assert result.step.coefficients == (-2.0,)

    def test_all_equal(self) -> None:
        result = es_node(population(), scores(0.25, 0.25, 0.25, 0.25), episodes=1)
        assert result.step == NoStep("all_equal", "all 4 members scored 0.25")

    @pytest.mark.parametrize("shaping", ["zscore", "centred_rank", "per_task", "raw"])
    def test_equal_up_to_rounding_is_equal(self, shaping: str) -> None:
        table = {
            0: {"a": 0.1, "b": 0.2, "c": 0.3},
            1: {"a": 0.3, "b": 0.1, "c": 0.2},
        }
        if shaping == "per_task":
            table[1] = dict(table[0])
        result = es_node(population(2, shaping=shaping), table, episodes=3)
        assert isinstance(result.step, NoStep)
        assert result.step.kind == "all_equal"

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_a_reward_that_is_no_number_stops_the_step(self, bad: float) -> None:
        result = es_node(population(), scores(0.0, bad, 1.0, 1.0), episodes=1)
        assert result.step == NoStep("non_finite", f"member 1 got the reward {bad} on task")

    def test_too_few_valid_members(self) -> None:
        table = scores(0.0, 1.0)
        result = es_node(population(min_valid=0.75), table, episodes=1)
        assert result.step == NoStep(
            "too_few_valid", "2 of 4 members have enough valid episodes, 3 are needed"
        )
        assert isinstance(es_node(population(min_valid=0.5), table, episodes=1).step, Step)

    def test_nothing_valid_at_all(self) -> None:
        result = es_node(population(), {}, episodes=2)
        assert isinstance(result.step, NoStep)
        assert result.mean is None
        assert [(m.valid, m.episodes, m.invalid) for m in result.members] == [(False, 0, 2)] * 4

    def test_a_member_with_less_than_half_of_its_episodes_does_not_count(self) -> None:
        full = {"a": 1.0, "b": 0.0, "c": 0.0}
        table = {0: full, 1: {"a": 1.0}, 2: {"a": 1.0, "b": 1.0}, 3: {"a": 0.0, "b": 0.0, "c": 0.0}}
        result = es_node(population(), table, episodes=3)
        assert [m.valid for m in result.members] == [True, False, True, True]
        assert [m.invalid for m in result.members] == [0, 2, 1, 0]
        assert isinstance(result.step, Step)
        assert result.step.population == 3

    def test_raw_scores_that_cancel_within_every_pair(self) -> None:
        result = es_node(population(antithetic=True, shaping="raw"), scores(1.0, 1.0, 0.5, 0.5), episodes=1)
        assert isinstance(result.step, NoStep)
        assert "cancel out" in result.step.reason
