"""Symmetric admissible sets of constant weight, built greedily from priorities (Romera-Paredes et al. 2023, FunSearch).

Vectors over {0, 1, 2} of length n = 3g are g groups of three digits. A vector stands for all vectors that rotating its
groups makes, so only seven kinds of group matter. A set is admissible when every three of its vectors have a place where
their digits are {0, 1, 2}, {0, 0, 1} or {0, 0, 2}, and no two vectors have the same support.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement, permutations, product
from math import comb

import numpy as np
from numpy.typing import NDArray

KINDS = ("000", "001", "002", "012", "021", "111", "222")
WEIGHTS = tuple(sum(digit != "0" for digit in kind) for kind in KINDS)
ROTATIONS = tuple(len({kind[turn:] + kind[:turn] for turn in range(3)}) for kind in KINDS)
SEPARATING = (("0", "1", "2"), ("0", "0", "1"), ("0", "0", "2"))

Indices = NDArray[np.int64]
Bits = NDArray[np.uint64]


def _separated(place: tuple[str, ...]) -> bool:
    """Whether three digits are {0, 1, 2}, {0, 0, 1} or {0, 0, 2}."""
    return tuple(sorted(place)) in SEPARATING


def _bad(kinds: tuple[int, ...]) -> bool:
    """Whether three groups can be rotated so that no place separates them."""
    turned = [[KINDS[kind][turn:] + KINDS[kind][:turn] for turn in range(3)] for kind in kinds]
    return any(not any(map(_separated, zip(*groups, strict=True))) for groups in product(*turned))


@lru_cache(maxsize=1)
def bad_triples() -> NDArray[np.bool_]:
    """(7, 7, 7): whether groups of these three kinds can fail to separate their vectors."""
    table = np.zeros((len(KINDS),) * 3, bool)
    for kinds in combinations_with_replacement(range(len(KINDS)), 3):
        for order in permutations(kinds):
            table[order] = _bad(kinds)
    return table


@lru_cache(maxsize=4)
def candidates(n: int, w: int) -> Indices:
    """Kinds of the groups of every vector of length n and weight w, in lexicographic order: (vectors, n / 3)."""
    weight = np.array(WEIGHTS)
    rows = np.zeros((1, 0), np.int64)
    total = np.zeros(1, np.int64)
    groups = n // 3
    for group in range(groups):
        rows = np.concatenate(
            [np.repeat(rows, len(KINDS), axis=0), np.tile(np.arange(len(KINDS)), len(rows))[:, None]], axis=1
        )
        total = np.repeat(total, len(KINDS)) + np.tile(weight, len(total))
        possible = (total <= w) & (total + 3 * (groups - 1 - group) >= w)
        rows, total = rows[possible], total[possible]
    return rows


def vectors(n: int, w: int) -> NDArray[np.int8]:
    """The digits of every candidate: (vectors, n)."""
    digits = np.array([[int(digit) for digit in kind] for kind in KINDS], np.int8)
    return digits[candidates(n, w)].reshape(-1, n)


def upper_bound(n: int, w: int) -> int:
    """C(n, w): no two vectors have the same support."""
    return comb(n, w)


def chosen(priorities: NDArray[np.float64], n: int, w: int) -> Indices:
    """Which candidates a greedy set takes: always the one of highest priority that still fits, the first of equals.

    Taking a vector excludes every vector of the same weights, and every one that together with it and a vector taken
    before has a bad triple in each group. That is looked up in sets of taken vectors, 64 to a word: for each group and
    kind, the taken vectors that are bad there; a candidate is out when the sets of its groups have a vector in common.
    """
    kinds = candidates(n, w)
    groups = kinds.shape[1]
    bad = bad_triples()
    weights = np.array(WEIGHTS)[kinds]
    open_ = np.argsort(-priorities, kind="stable")
    having = np.zeros((groups, len(KINDS), 1), np.uint64)
    taken: list[int] = []
    while len(open_):
        new = open_[0]
        open_ = open_[1:]
        open_ = open_[(weights[open_] != weights[new]).any(axis=1)]
        against = np.zeros_like(having)
        for group, kind in enumerate(kinds[new]):
            for other in range(len(KINDS)):
                against[group, bad[other, kind]] |= having[group, other]
        common = against[0][kinds[open_, 0]]
        for group in range(1, groups):
            common &= against[group][kinds[open_, group]]
        open_ = open_[~common.any(axis=1)]
        word, bit = divmod(len(taken), 64)
        if word == having.shape[2]:
            having = np.concatenate([having, np.zeros_like(having[:, :, :1])], axis=2)
        having[np.arange(groups), kinds[new], word] |= np.uint64(1 << bit)
        taken.append(int(new))
    return np.array(taken)


def size(taken: Indices, n: int, w: int) -> int:
    """How many vectors the chosen ones stand for: the product of their groups' rotations, summed."""
    return int(np.array(ROTATIONS)[candidates(n, w)[taken]].prod(axis=1).sum())
