"""The one noise module: ε(seed, tensor name, shape), the same bits on every engine, device and thread count.

Three choices make an update reproducible bit for bit wherever it is replayed:

* Random bits come from Philox-4x64 (Salmon et al., 2011), keyed by BLAKE2b(seed, tensor name): a counter-based
  generator, so every tensor has a stream of its own and no state hides anywhere.
* A 16-bit word picks one of 65,536 quantiles of N(0,1), rounded to multiples of 2⁻¹⁰. No logarithm or cosine is
  evaluated at run time, so no math library can change a bit. (Largest value 4.33; standard deviation 0.99999.)
* Coefficients are multiples of 2⁻¹². Sums Σ z_i·ε_i of such numbers are exact in float64 in *any* order (13 + 13 bits
  of a rank-one product, 16 of the coefficient, 10 for 1,024 terms make 52), so GEMM blocking, threads and devices
  do not matter; each coordinate is then rounded once.

Families: `gaussian` fills every tensor; `lowrank` (EGGROLL, arXiv 2511.16652) is a·bᵀ/√r on matrices of linear layers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from coevo.engine.base import NoiseSpec
from coevo.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

NOISE_VERSION = "philox-q10/1"
NOISE_GRID = 2.0**-10
COEFFICIENT_GRID = 2.0**-12
COEFFICIENT_LIMIT = 8.0
MAX_TERMS = 1024


class Factors(NamedTuple):
    """Low-rank factors of one tensor [out, in]: `a` is [rank, in], `b` is [rank, out]; ε = Σ_r b_r a_rᵀ / √rank."""

    a: torch.Tensor
    b: torch.Tensor


def quantise_coefficients(z: Sequence[float]) -> tuple[float, ...]:
    """Round shaped rewards to multiples of 2⁻¹² within ±8, so that sums of noise are exact in float64.

    Raises `EngineError` for a value that is not finite.
    """
    if not all(math.isfinite(value) for value in z):
        raise EngineError("an ES coefficient is not finite", hint="shape the rewards with coevo.es first")
    return tuple(
        min(COEFFICIENT_LIMIT, max(-COEFFICIENT_LIMIT, round(value / COEFFICIENT_GRID) * COEFFICIENT_GRID))
        for value in z
    )


@cache
def _quantiles() -> NDArray[np.float32]:
    from statistics import NormalDist

    import numpy as np

    half = 32768
    inverse = NormalDist().inv_cdf
    upper = np.array([inverse(0.5 + (k + 0.5) / 65536) for k in range(half)])
    upper = np.round(upper / NOISE_GRID) * NOISE_GRID
    return np.concatenate([-upper[::-1], upper]).astype(np.float32)


def normals(seed: int, name: str, count: int, start: int = 0) -> NDArray[np.float32]:
    """Draws `start` … `start + count` of the stream (seed, name): N(0,1) on the grid of 2⁻¹⁰, shape [count], float32."""
    import numpy as np

    key = np.frombuffer(hashlib.blake2b(f"{seed}\x1f{name}".encode(), digest_size=16).digest(), dtype="<u8")
    block, skip = divmod(start, 16)  # one Philox block holds four 64-bit words, sixteen draws
    philox = np.random.Philox(key=key.astype(np.uint64), counter=block)
    words = philox.random_raw((skip + count + 3) // 4).astype("<u8", copy=False).view("<u2")
    draws: NDArray[np.float32] = _quantiles()[words[skip : skip + count]]
    return draws


def lowrank_factors(spec: NoiseSpec, seed: int, name: str, shape: Sequence[int]) -> Factors:
    """The factors behind ε of one matrix of shape [out, in]."""
    import torch

    rows, columns = shape
    flat = torch.from_numpy(normals(seed, name, spec.rank * (rows + columns)))
    a = flat[: spec.rank * columns].view(spec.rank, columns)
    b = flat[spec.rank * columns :].view(spec.rank, rows)
    return Factors(a, b)


def row_blocks(shape: Sequence[int], limit: int = 1 << 21) -> Iterator[slice]:
    """Slices along the first axis of `shape` that hold about `limit` numbers each, so that no pass over a large tensor
    needs more than a few tens of megabytes of scratch memory."""
    rows = shape[0]
    height = max(1, limit // max(1, math.prod(shape[1:])))
    for start in range(0, rows, height):
        yield slice(start, min(rows, start + height))


def epsilon(
    spec: NoiseSpec, seed: int, name: str, shape: Sequence[int], rows: slice | None = None
) -> torch.Tensor:
    """ε(seed, name) as a float32 tensor on the CPU, of `shape` or only its `rows`."""
    return accumulate(spec, (seed,), (1.0,), name, shape, rows).float()


def accumulate(
    spec: NoiseSpec,
    seeds: Sequence[int],
    coefficients: Sequence[float],
    name: str,
    shape: Sequence[int],
    rows: slice | None = None,
) -> torch.Tensor:
    """Σ_i coefficient_i · ε(seed_i, name) in float64 on the CPU, of `shape` or only its `rows` (a slice of axis 0).

    Exact up to one rounding of 1/√rank. Coefficients must lie on the grid of `quantise_coefficients`; more than 1,024
    terms (members × rank) are refused, because the sum could then round.
    """
    import torch

    terms = len(seeds) * (spec.rank if spec.family == "lowrank" else 1)
    if terms > MAX_TERMS:
        raise EngineError(
            f"{terms} noise terms in one step; sums stay exact up to {MAX_TERMS}",
            hint="use a smaller population or rank",
        )
    rows = rows or slice(0, shape[0])
    width = math.prod(shape[1:])
    if spec.family == "gaussian":
        total = torch.zeros((rows.stop - rows.start, *shape[1:]), dtype=torch.float64)
        flat = total.view(-1)
        for seed, coefficient in zip(seeds, coefficients, strict=True):
            if coefficient:
                draws = normals(seed, name, flat.numel(), rows.start * width)
                flat.add_(torch.from_numpy(draws).double(), alpha=coefficient)
        return total
    factors = [lowrank_factors(spec, seed, name, shape) for seed in seeds]
    a = torch.cat([f.a for f in factors]).double()  # [members · rank, in]
    b = torch.cat(
        [f.b[:, rows] * c for f, c in zip(factors, coefficients, strict=True)]
    ).double()  # [m · r, rows]
    total = b.T @ a
    return total if spec.rank == 1 else total.mul_(1 / math.sqrt(spec.rank))


def rms_scale(values: torch.Tensor) -> float:
    """Root mean square of a tensor, rounded to four significant digits so that no summation order can change it.

    An all-zero tensor has scale 0: it would not move; callers treat that as 1 (absolute).
    """
    import torch

    mean_square = float(values.to(torch.float64).square().mean())
    return float(f"{math.sqrt(mean_square):.4g}") or 1.0
