"""construct_asp: priorities by which an admissible set is built greedily."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ahd import admissible
from ahd.base import BundledProblem
from coevo.problem import Argument, Expressions, Signature, Split
from coevo.sandbox import Candidate, Tuples, decisions

WEIGHT_OF_LENGTH = {12: 7, 15: 10, 18: 13, 21: 15}
COUNTS: Mapping[tuple[Split, int], int] = {("train", 15): 1, ("val", 18): 1, ("test", 12): 1, ("test", 21): 1}

TEMPLATE = """\
import numpy as np
from numpy import exp, sqrt, square

LOWEST = -1e300


def priority(el, n, w):
    digits = np.asarray(el)
    groups = digits.reshape(*digits.shape[:-1], -1, 3)
    zeros = (groups == 0).sum(axis=-1)
    place = np.arange(digits.shape[-1])
    ones, twos = (digits == 1).sum(axis=-1) * 1.0, (digits == 2).sum(axis=-1) * 1.0
    place_ones, place_twos = ((digits == 1) * place).sum(axis=-1) / n, ((digits == 2) * place).sum(axis=-1) / n
    pairs, triples = (zeros == 1).sum(axis=-1) * 1.0, (zeros == 0).sum(axis=-1) * 1.0
    changes = (digits[..., 1:] != digits[..., :-1]).sum(axis=-1) * 1.0
    with np.errstate(all="ignore"):
        try:
            score = {expression}  # vectors of larger scores are taken earlier
        except (ZeroDivisionError, OverflowError):
            score = LOWEST
        score = score + np.zeros(digits.shape[:-1])
    score = np.where(np.isfinite(score), score, LOWEST)
    return score if np.ndim(n) else float(score)


priority.batched = True
"""


class ConstructAsp(BundledProblem):
    """One set a size: (n, w) = (15, 10) to train on, (18, 13), (12, 7) or (21, 15) after. The objective is minus its size.

    All vectors of the symmetric construction are scored once, then taken greedily (`ahd.admissible`).
    """

    name = family = "construct_asp"
    goal = (
        "Build a large symmetric admissible set of vectors with n digits 0, 1 or 2, of which w are not 0. Vectors are taken "
        "greedily, the one of highest priority first, and each taken vector excludes others. The function gives a vector's "
        "priority. The size of the set is maximised: its negative is minimised."
    )
    signature = Signature(
        "priority",
        (
            Argument("el", "tuple of n ints in {0, 1, 2}, the vector"),
            Argument("n", "int, its length, a multiple of three"),
            Argument("w", "int, how many of its digits are not 0"),
        ),
        Argument("priority", "float, larger to be taken earlier"),
    )
    notes = (
        "The priority must be a finite number. Of equal priorities the vector that comes first in lexicographic order is taken. "
        "Vectors consist of groups of three digits that may be rotated. The function is called thousands of times."
    )
    seed_code = """\
def priority(el, n, w):
    return 0.0
"""
    expressions = Expressions(
        {
            "ones": "number of digits 1",
            "twos": "number of digits 2",
            "place_ones": "sum of the positions (from 0) of the digits 1, divided by n",
            "place_twos": "sum of the positions (from 0) of the digits 2, divided by n",
            "pairs": "number of groups of three with exactly one 0",
            "triples": "number of groups of three without a 0",
            "changes": "number of neighbouring digits that differ",
        },
        TEMPLATE,
        "the vector of the largest value is taken first",
    )
    counts = COUNTS
    unit = "digits"

    def size_text(self, size: int) -> str:
        return f"n={size} w={WEIGHT_OF_LENGTH[size]}"

    def _work(self, split: Split, size: int | None = None) -> float:
        n = self.size(split, size)
        return float(len(admissible.candidates(n, WEIGHT_OF_LENGTH[n])))

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        n = self.size(split, size)
        w = WEIGHT_OF_LENGTH[n]
        vectors = admissible.vectors(n, w)
        many = len(vectors)
        answers = await candidate.map_columns(Tuples(vectors), [n] * many, [w] * many, calls=many)
        scores = decisions.reals(answers, lambda i: f"vector {tuple(vectors[i].tolist())}")
        taken = await asyncio.to_thread(admissible.chosen, scores, n, w)
        return [-float(admissible.size(taken, n, w))]


def problem() -> ConstructAsp:
    return ConstructAsp()
