"""How often the gate accepts what it should not, and what it should, by the true effect of an edit.

    python benchmarks/gate.py [--dev-tasks 48] [--confidence 0.95] [--candidates 1,2,3] [--trials 4000] [--json]

Every trial is one look: candidates of one and the same true effect against the current skill, in batches as the loop runs
them, judged by `coevo.skill.decide_early`. Rewards are 0 or 1. Two kinds of pair:

    independent   the candidate's episodes have nothing to do with the current skill's but the chance of success, 0.5 before
                  and 0.5 + effect after: the worst case, and what rewriting the whole manner of answering comes near to
    steady        one pair in ten turns by chance, half of them each way; beyond that episodes only turn in the direction of the
                  effect, as where a greedy policy is given one more rule

`accepted` is the share of looks that accept a candidate, `twenty` the chance that twenty such looks in a row accept none, `pairs` the
mean number of dev tasks compared.
"""

from __future__ import annotations

import argparse
import json
import random
from functools import cache
from typing import Any, Literal

from coevo.loop.gating import batch_size, share_of_error
from coevo.skill import Verdict, decide_early
from coevo.tables import SkillTable

EFFECTS = (-0.3, -0.2, -0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2, 0.3)
Kind = Literal["independent", "steady"]
CHANCE = 0.05


def differences(draw: random.Random, effect: float, tasks: int, kind: Kind) -> tuple[int, ...]:
    """What `tasks` pairs come to, each −1, 0 or 1; their mean is `effect` in the long run."""
    if kind == "independent":
        return tuple((draw.random() < 0.5 + effect) - (draw.random() < 0.5) for _ in range(tasks))
    up, down = CHANCE + max(effect, 0.0), CHANCE + max(-effect, 0.0)
    return tuple((u < up) - (u >= 1 - down) for u in (draw.random() for _ in range(tasks)))


@cache
def verdict(won: int, lost: int, done: int, tasks: int, confidence: float) -> Verdict:
    """The gate's word when `won` and `lost` of the first `done` pairs of `tasks` went one way or the other."""
    planned = [(f"t{number:04}", 0) for number in range(tasks)]
    seen = list(enumerate(planned[:done]))
    current = {key: float(won <= number < won + lost) for number, key in seen}
    candidate = {key: float(number < won) for number, key in seen}
    return decide_early(current, candidate, planned, confidence=confidence, resamples=400).verdict


def look(
    draw: random.Random, effect: float, tasks: int, confidence: float, candidates: int, kind: Kind
) -> tuple[bool, float]:
    """Whether a candidate passes, and how many pairs were compared on average."""
    own, step = share_of_error(confidence, candidates), batch_size(tasks)
    accepted, pairs = False, 0
    for _ in range(candidates):
        found = differences(draw, effect, tasks, kind)
        for done in [*range(step, tasks, step), tasks]:
            said = verdict(found[:done].count(1), found[:done].count(-1), done, tasks, own)
            if said is not Verdict.CONTINUE:
                break
        accepted |= said is Verdict.ACCEPT
        pairs += done
    return accepted, pairs / candidates


def measure(
    effect: float, tasks: int, confidence: float, candidates: int, kind: Kind, trials: int
) -> dict[str, Any]:
    draw = random.Random(f"{effect} {tasks} {candidates} {kind}")
    looks = [look(draw, effect, tasks, confidence, candidates, kind) for _ in range(trials)]
    share = sum(accepted for accepted, _ in looks) / trials
    return {
        "kind": kind,
        "candidates": candidates,
        "effect": effect,
        "accepted": share,
        "twenty": (1 - share) ** 20,
        "pairs": sum(pairs for _, pairs in looks) / trials,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = SkillTable()
    parser.add_argument("--dev-tasks", type=int, default=defaults.dev_tasks)
    parser.add_argument("--confidence", type=float, default=defaults.confidence)
    parser.add_argument("--candidates", default="1,2,3")
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds: tuple[Kind, ...] = ("independent", "steady")
    rows = [
        measure(effect, options.dev_tasks, options.confidence, count, kind, options.trials)
        for kind in kinds
        for count in map(int, options.candidates.split(","))
        for effect in EFFECTS
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(
        f"dev_tasks = {options.dev_tasks}, confidence = {options.confidence:g}, {options.trials} looks a row"
    )
    print(
        f"{'pairs are':12} {'candidates':>10} {'true effect':>12} {'accepted':>9} {'twenty':>7} {'pairs':>6}"
    )
    for row in rows:
        print(
            f"{row['kind']:12} {row['candidates']:10} {row['effect']:+12.2f} {row['accepted']:9.4f}"
            f" {row['twenty']:7.3f} {row['pairs']:6.1f}"
        )


if __name__ == "__main__":
    main()
