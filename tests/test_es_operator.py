"""ES as an operator inside a graph of one's own. A whole loop is in docs/heuristics.md, which `test_docs` runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coevo.engine.base import NoiseSpec, Request
from coevo.errors import ConfigError
from coevo.es import EsOperator, Member, NoStep
from coevo.testing import FakeEngine, noise

SPEC = NoiseSpec("gaussian")


async def test_a_round_moves_the_weights_towards_what_was_rewarded() -> None:
    engine = FakeEngine()
    es = EsOperator(engine, SPEC, size=16, sigma=0.2, alpha=0.3, antithetic=True)

    async def reward(member: Member) -> float | None:
        return member.sigma * noise(member.seed, len(engine.theta))[0]

    found = [await es.round(number, reward) for number in range(3)]
    assert all(one.moved and one.report is not None for one in found)
    assert [one.report.weights_step for one in found if one.report] == [1, 2, 3]
    assert engine.theta[0] > 0.3


async def test_a_round_without_signal_moves_nothing() -> None:
    engine = FakeEngine()
    es = EsOperator(engine, SPEC, size=4)

    async def same(member: Member) -> float | None:
        return 1.0

    async def broken(member: Member) -> float | None:
        return None if member.index else 1.0

    for evaluate, kind in ((same, "all_equal"), (broken, "too_few_valid")):
        found = await es.round(0, evaluate)
        assert not found.moved
        assert isinstance(found.result.step, NoStep)
        assert found.result.step.kind == kind
    assert engine.weights_step == 0


async def test_what_members_ask_at_the_same_time_is_one_batch() -> None:
    engine = FakeEngine()
    es = EsOperator(engine, SPEC, size=6, sigma=0.2)
    request = Request(({"role": "user", "content": "?"},))

    async def reward(member: Member) -> float | None:
        for _ in range(1 + member.index % 2):
            await es.ask(request, member)
        return float(member.index)

    await es.ask(request)
    await es.round(0, reward)
    await es.ask(request)
    assert engine.batches == [1, 6, 3, 1]


@pytest.mark.parametrize(
    "wrong",
    [{"size": 1}, {"size": 3, "antithetic": True}, {"sigma": 0.0}, {"alpha": -1.0}, {"alpha": math.inf}],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        EsOperator(FakeEngine(), SPEC, **wrong)


async def test_members_follow_from_seed_and_round() -> None:
    es = EsOperator(FakeEngine(), SPEC, seed=3)
    assert es.members(0) == EsOperator(FakeEngine(), SPEC, seed=3).members(0)
    assert {m.seed for m in es.members(0)}.isdisjoint(m.seed for m in es.members(1))
