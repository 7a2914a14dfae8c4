"""The pool of accepted versions: who stays after a comparison, and who is drawn."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coevo.skill import Entrant, Standing, draw, standings

KINDS = {f"{kind}{number}": kind for kind in "abc" for number in range(2)}
KEYS = [(task, 7) for task in KINDS]

values = st.sampled_from([0.0, 0.5, 1.0, None])
rows = st.lists(values, min_size=len(KEYS), max_size=len(KEYS))
tables = st.lists(rows, min_size=1, max_size=6)


def entrants(table: list[list[float | None]]) -> list[Entrant]:
    """The first is a seed, the others were accepted one after the other."""
    return [
        Entrant(f"v{number}", number - 1, dict(zip(KEYS, row, strict=True)))
        for number, row in enumerate(table)
    ]


def stay(found: tuple[Standing, ...]) -> list[str]:
    return [standing.version for standing in found if standing.stays]


def by_kind(a: float, b: float, c: float) -> list[float | None]:
    """The same reward on both tasks of a kind."""
    return [a, a, b, b, c, c]


def means(row: list[float | None], valid: list[int]) -> dict[str, float]:
    """Mean by kind and over `all`, on the episodes that count, as a person would reckon it."""
    found: dict[str, list[float]] = {"all": []}
    for place in valid:
        reward = row[place]
        assert reward is not None
        found["all"].append(reward)
        found.setdefault(KINDS[KEYS[place][0]], []).append(reward)
    return {name: sum(own) / len(own) for name, own in found.items() if own}


def test_the_best_on_average_and_specialists_stay() -> None:
    found = standings(
        entrants([by_kind(0.5, 0.5, 0.5), by_kind(1, 0, 0), by_kind(0, 0.5, 0.5), by_kind(0.5, 0.5, 1)]),
        KINDS,
        4,
    )
    # v3 leads with 2/3, on c alone, on b with v0 and v2; v1 is alone on a. v0 and v2 have nothing that v3 lacks.
    assert stay(found) == ["v3", "v1"]
    assert found[0] == Standing("v3", 2 / 3, 6, ("b", "c"), 3)
    assert found[1] == Standing("v1", 1 / 3, 6, ("a",), 1)
    assert [standing.weight for standing in found[2:]] == [0, 0]


def test_of_equals_the_youngest_stays() -> None:
    assert stay(standings(entrants([by_kind(1, 0, 1)] * 3), KINDS, 3)) == ["v2"]


def test_a_full_pool_loses_who_is_best_on_the_fewest_kinds() -> None:
    table = [by_kind(0, 0, 1), by_kind(1, 1, 0.5), by_kind(0.5, 1, 0)]
    kinds = KINDS | {"b1": "d"}
    assert stay(standings(entrants(table), kinds, 2)) == ["v1", "v0"]
    assert stay(standings(entrants(table), kinds, 1)) == ["v1"]


def test_only_what_is_valid_for_all_counts() -> None:
    """v1 looks better where v0 was not measured, and is not."""
    found = standings(entrants([[None, None, 1.0, 1.0, 0.0, 0.5], [1.0, 1.0, 1.0, 0.5, 0.0, 0.5]]), KINDS, 2)
    assert stay(found) == ["v0"]
    assert [standing.episodes for standing in found] == [4, 4]
    nothing = standings(entrants([[None] * 6, by_kind(0, 0, 0)]), KINDS, 2)
    assert stay(nothing) == ["v1"], "nothing is known: the youngest, as without a pool"
    assert nothing[0].mean is None


@given(tables, st.integers(1, 5), st.randoms(use_true_random=False))
def test_whoever_comes_first_the_pool_is_the_same(
    table: list[list[float | None]], limit: int, order: random.Random
) -> None:
    ordered = entrants(table)
    shuffled = [
        Entrant(entrant.version, entrant.born, dict(order.sample([*entrant.rewards.items()], len(KEYS))))
        for entrant in order.sample(ordered, len(ordered))
    ]
    assert standings(shuffled, KINDS, limit) == standings(ordered, KINDS, limit)


@given(tables, st.integers(1, 5))
def test_what_holds_for_every_pool(table: list[list[float | None]], limit: int) -> None:
    found = standings(entrants(table), KINDS, limit)
    kept = stay(found)
    assert sorted(standing.version for standing in found) == [f"v{number}" for number in range(len(table))]
    assert 1 <= len(kept) <= limit
    valid = [place for place in range(len(KEYS)) if all(row[place] is not None for row in table)]
    if not valid:
        assert kept == [f"v{len(table) - 1}"]
        return
    score = {f"v{number}": means(row, valid) for number, row in enumerate(table)}
    best = max(own["all"] for own in score.values())
    assert score[kept[0]]["all"] == best, "the best mean is never dropped"
    assert [score[version]["all"] for version in kept] == sorted(
        (score[version]["all"] for version in kept), reverse=True
    )
    aims = list(score["v0"])
    for standing in found[: len(kept)]:
        own = [aim for aim in aims if score[standing.version][aim] == max(score[v][aim] for v in kept)]
        assert standing.weight == len(own) >= 1
        assert list(standing.best_on) == sorted(set(own) - {"all"})
    leaders = {
        aim: {v for v in score if score[v][aim] == max(s[aim] for s in score.values())} for aim in aims
    }
    if len(kept) < limit:
        assert all(leaders[aim] & set(kept) for aim in aims), "nothing that anybody is best on is lost"
    for version in kept[1:]:
        assert any(leaders[aim] & set(kept) == {version} for aim in aims), "nobody stays for nothing"


@given(tables, st.integers(1, 4))
def test_a_comparison_of_those_who_stayed_keeps_them(table: list[list[float | None]], limit: int) -> None:
    """Among themselves, on the same episodes, they are a front again."""
    everybody = entrants(table)
    valid = [key for key in KEYS if all(entrant.rewards[key] is not None for entrant in everybody)]
    alike = [Entrant(e.version, e.born, {key: e.rewards[key] for key in valid}) for e in everybody]
    kept = stay(standings(alike, KINDS, limit))
    assert stay(standings([e for e in alike if e.version in kept], KINDS, limit)) == kept


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(1, 4), min_size=1))
def test_a_draw_gives_each_its_weight_whatever_the_order(weights: dict[str, int]) -> None:
    total = sum(weights.values())
    drawn = Counter(draw(weights, seed) for seed in range(3 * total, 4 * total))
    assert drawn == weights
    backwards = dict(reversed(weights.items()))
    assert all(draw(backwards, seed) == draw(weights, seed) for seed in range(total))
