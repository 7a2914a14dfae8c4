"""Noise: reproducible bits, independence across tensors, exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.engine.base import NoiseSpec
from coevo.engine.noise import (
    COEFFICIENT_GRID,
    accumulate,
    epsilon,
    lowrank_factors,
    normals,
    quantise_coefficients,
    rms_scale,
    row_blocks,
)
from coevo.errors import EngineError

GAUSSIAN, LOWRANK = NoiseSpec("gaussian"), NoiseSpec("lowrank", rank=2)


def test_moments_of_a_long_stream_are_those_of_the_standard_normal() -> None:
    draws = normals(1, "w", 1_000_000).astype(np.float64)
    error = 1 / math.sqrt(len(draws))
    assert abs(draws.mean()) < 4 * error
    assert abs(draws.std() - 1) < 4 * error
    assert abs((draws**4).mean() - 3) < 4 * math.sqrt(96) * error
    assert abs((np.abs(draws) < 1).mean() - 0.6827) < 4 * error


def test_philox_words_come_from_the_published_generator() -> None:
    """Known answer of Philox4x64-10 for counter 0 and key 0 (Random123 test vectors, kat_vectors)."""
    generator = np.random.Philox(
        key=np.zeros(2, dtype=np.uint64), counter=np.array([0, 0, 0, 0], dtype=np.uint64)
    )
    # NumPy steps the counter before it draws, so its first words are those of counter 1; the vector is for counter 0
    generator.state = {
        **generator.state,
        "state": {"counter": np.full(4, 2**64 - 1, dtype=np.uint64), "key": np.zeros(2, dtype=np.uint64)},
    }
    first = [int(word) for word in generator.random_raw(4)]
    assert first == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]


def test_any_part_of_a_stream_can_be_drawn_alone() -> None:
    whole = normals(5, "layer", 100)
    for start, count in ((0, 100), (1, 7), (16, 16), (37, 63), (99, 1)):
        assert np.array_equal(normals(5, "layer", count, start), whole[start : start + count])


def test_noise_of_two_tensors_or_two_seeds_is_uncorrelated() -> None:
    streams = [
        normals(seed, name, 40_000) for seed in (1, 2) for name in ("a", "b", "model.layers.0.q_proj.weight")
    ]
    correlation = np.corrcoef(np.stack(streams)) - np.eye(len(streams))
    assert np.abs(correlation).max() < 5 / math.sqrt(40_000)


def test_lowrank_noise_has_unit_variance_and_the_stated_rank() -> None:
    noise = epsilon(LOWRANK, 3, "w", (300, 200))
    factors = lowrank_factors(LOWRANK, 3, "w", (300, 200))
    assert torch.linalg.matrix_rank(noise) == 2
    assert torch.allclose(noise, factors.b.T @ factors.a / math.sqrt(2), atol=1e-5)
    many = torch.stack([epsilon(LOWRANK, seed, "w", (30, 20)) for seed in range(200)])
    assert abs(float(many.square().mean()) - 1) < 0.05


@pytest.mark.parametrize("spec", [GAUSSIAN, LOWRANK])
def test_sum_does_not_depend_on_order_or_on_row_blocks(spec: NoiseSpec) -> None:
    seeds = list(range(40))
    z = quantise_coefficients(np.random.default_rng(0).normal(size=40).tolist())
    total = accumulate(spec, seeds, z, "w", (50, 30))
    backwards = accumulate(spec, seeds[::-1], z[::-1], "w", (50, 30))
    blocks = torch.cat(
        [accumulate(spec, seeds, z, "w", (50, 30), rows) for rows in row_blocks((50, 30), limit=200)]
    )
    assert torch.equal(total, backwards)
    assert torch.equal(total, blocks)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-7.9, 7.9), min_size=1, max_size=20))
def test_quantised_coefficients_are_near_and_on_the_grid(z: list[float]) -> None:
    for before, after in zip(z, quantise_coefficients(z), strict=True):
        assert abs(before - after) <= COEFFICIENT_GRID / 2
        assert (after / COEFFICIENT_GRID).is_integer()


def test_bad_coefficients_and_too_many_terms_are_refused() -> None:
    with pytest.raises(EngineError, match="not finite"):
        quantise_coefficients([0.0, float("nan")])
    with pytest.raises(EngineError, match="smaller population or rank"):
        accumulate(LOWRANK, range(600), [0.5] * 600, "w", (2, 2))


def test_rms_scale_has_four_digits_and_treats_zero_as_one() -> None:
    assert rms_scale(torch.full((3, 3), 0.123456)) == 0.1235
    assert rms_scale(torch.zeros(4)) == 1.0
