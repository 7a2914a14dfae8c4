"""Bootstrap intervals: exact where arithmetic says so, and of the right width where statistics do."""

from __future__ import annotations

import math
import random

import pytest

from coevo.stats import bootstrap, quantile


def test_mean_is_exact_and_the_interval_has_the_width_of_the_standard_error() -> None:
    values = [1.0] * 60 + [0.0] * 40
    estimate = bootstrap([values], seed=1)[0]
    assert (estimate.mean, estimate.n) == (0.6, 100)
    # A mean of 100 draws with p = 0.6 has a standard error of √(0.24/100) ≈ 0.049; 95 % lie within 1.96 of it.
    half = 1.96 * math.sqrt(0.24 / 100)
    assert estimate.lower == pytest.approx(0.6 - half, abs=0.02)
    assert estimate.upper == pytest.approx(0.6 + half, abs=0.02)


def test_pairs_stay_pairs() -> None:
    generator = random.Random(0)
    base = [generator.random() for _ in range(80)]
    better = [value + 0.1 for value in base]
    difference = [one - other for one, other in zip(better, base, strict=True)]
    alone, paired = bootstrap([better, difference], seed=3)
    assert paired.lower == pytest.approx(0.1)
    assert paired.upper == pytest.approx(0.1)
    assert alone.upper - alone.lower > 0.05


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [0.1, 0.5, 0.9, 0.3]
    assert bootstrap([values], seed=2) == bootstrap([values], seed=2)


def test_more_confidence_is_wider() -> None:
    values = [float(i % 7) for i in range(50)]
    narrow, wide = (bootstrap([values], confidence=c)[0] for c in (0.5, 0.99))
    assert wide.lower < narrow.lower < narrow.upper < wide.upper


def test_nothing_and_ragged_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        bootstrap([[]])
    with pytest.raises(ValueError, match="one length"):
        bootstrap([[1.0], [1.0, 2.0]])


def test_quantile_interpolates() -> None:
    assert quantile([0.0, 1.0, 2.0, 3.0], 0.5) == 1.5
    assert quantile([0.0, 10.0], 0.25) == 2.5
    assert quantile([4.0], 0.9) == 4.0


def test_repeats_of_a_task_count_as_one_unit() -> None:
    values = [1.0] * 6 + [0.0] * 4
    single = bootstrap([values], seed=1)[0]
    repeated = bootstrap([values * 5], clusters=list(range(10)) * 5, seed=1)[0]
    assert (repeated.mean, repeated.n) == (0.6, 10)
    assert (repeated.lower, repeated.upper) == (pytest.approx(single.lower), pytest.approx(single.upper))
