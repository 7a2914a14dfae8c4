"""construct_kp: choose the next item to pack, again and again, until nothing fits."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahd.base import BundledProblem
from ahd.instances import counts, instances, knapsack_capacity
from coevo.problem import Argument, Expressions, Signature, Split
from coevo.sandbox import Candidate, decisions

SLACK = 1e-12
"""An item that is heavier than the capacity left by no more than this still fits."""

TEMPLATE = """\
import numpy as np
from numpy import exp, sqrt, square


def select_next_item(remaining_capacity, weights, values):
    weight, value, capacity = np.asarray(weights), np.asarray(values), np.asarray(remaining_capacity)[..., None]
    mean_weight, mean_value = weight.mean(axis=-1, keepdims=True), value.mean(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        try:
            score = {expression}  # the item of the smallest score that fits is next
        except (ZeroDivisionError, OverflowError):
            score = np.inf
        score = score + np.zeros(weight.shape)
    fits = weight <= capacity
    score[np.isnan(score) | ~fits] = np.inf
    best = score.argmin(axis=-1)
    first = np.where(fits.any(axis=-1), fits.argmax(axis=-1), weight.argmin(axis=-1))
    chosen = np.where(np.take_along_axis(fits, best[..., None], axis=-1)[..., 0], best, first)
    return chosen if np.ndim(remaining_capacity) else int(chosen)


select_next_item.batched = True
"""


class ConstructKp(BundledProblem):
    """Knapsacks of 100 items (capacity 25). The objective of an instance is minus the value packed.

    Weights and values are uniform in the unit interval. Every round each unfinished instance asks for an item; an instance
    is finished when its lightest item left does not fit.
    """

    name = family = "construct_kp"
    goal = (
        "Fill a knapsack of limited capacity with items of different weight and value, one item at a time. The function "
        "chooses the item to pack next. The average total value is maximised: its negative is minimised."
    )
    signature = Signature(
        "select_next_item",
        (
            Argument("remaining_capacity", "float, the weight that can still be packed"),
            Argument("weights", "1-D float array, weights of the items that are left"),
            Argument("values", "1-D float array, their values"),
        ),
        Argument("next_item", "int, position of the item in weights and values"),
    )
    notes = (
        "The item must fit: weights[next_item] <= remaining_capacity. At least one item does. Items that are packed are "
        "taken out of the arrays, so positions change from call to call. The function is called once for every packed item."
    )
    seed_code = """\
import numpy as np


def select_next_item(remaining_capacity, weights, values):
    score = np.where(weights <= remaining_capacity, values, -np.inf)
    return int(np.argmax(score))
"""
    expressions = Expressions(
        {
            "weight": "weight of each item that is left",
            "value": "value of each item that is left",
            "capacity": "weight that can still be packed",
            "mean_weight": "mean weight of the items that are left",
            "mean_value": "mean value of the items that are left",
        },
        TEMPLATE,
        "of the items that fit, the one of the smallest value is packed next",
    )
    counts = counts("construct_kp")
    unit = "items"
    growth = 2

    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]:
        size = self.size(split, size)
        items = instances(self.name, split, size)
        packed = await candidate.play(pack, items[..., 0], items[..., 1], knapsack_capacity(size), SLACK)
        return [float(-value) for value in packed]


def pack(
    weights: NDArray[np.float64], values: NDArray[np.float64], capacity: float, slack: float
) -> Generator[tuple[Any, ...], list[Any], NDArray[np.float64]]:
    """Rounds: the value packed in each instance. `weights`, `values`: (instances, items)."""
    packed = np.zeros(len(weights))
    room = np.full(len(weights), capacity)
    running = np.arange(len(weights))
    step = 0
    while True:
        fits = weights.min(axis=1, initial=np.inf) <= room + slack
        if not fits.all():
            weights, values, room, running = weights[fits], values[fits], room[fits], running[fits]
        if not len(running):
            return packed
        step += 1
        answers = yield room, weights, values

        def where(i: int, running: NDArray[np.int64] = running, step: int = step) -> str:
            return f"instance {running[i]}, step {step}"

        left = weights.shape[1]
        chosen = decisions.positions(answers, left, where)
        row = np.arange(len(running))
        weight = weights[row, chosen]
        heavy = weight > room + slack
        if heavy.any():
            i = int(heavy.argmax())
            raise decisions.infeasible(
                f"{where(i)}: item {chosen[i]} weighs {weight[i]:.6g}, only {room[i]:.6g} fits"
            )
        packed[running] += values[row, chosen]
        room = np.maximum(room - weight, 0.0)
        kept = np.ones(weights.shape, bool)
        kept[row, chosen] = False
        weights, values = weights[kept].reshape(-1, left - 1), values[kept].reshape(-1, left - 1)


def problem() -> ConstructKp:
    return ConstructKp()
