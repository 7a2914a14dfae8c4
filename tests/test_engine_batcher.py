"""The batcher: requests of concurrent episodes travel together, errors reach those who asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from coevo.engine import Completion, Deliver, Request, Sampling
from coevo.engine.batcher import Batcher
from coevo.errors import EngineError


class Echo:
    """Answers with the text it was asked, "held" only when released; notes the size of each batch."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[int] = []
        self.seconds = seconds
        self.released = asyncio.Event()

    async def generate(
        self, requests: Sequence[Request], *, deliver: Deliver | None = None
    ) -> list[Completion]:
        self.batches.append(len(requests))
        await asyncio.sleep(self.seconds)
        answers = [Completion(str(r.messages[0]["content"]), 1, 1, "stop", 0) for r in requests]
        for position, answer in enumerate(answers):
            if answer.text == "held":
                await self.released.wait()
            if answer.text == "fail":
                raise EngineError("out of tokens")
            if deliver is not None:
                deliver(position, answer)
        return answers


def ask(text: str) -> Request:
    return Request(({"role": "user", "content": text},), Sampling())


def batcher(engine: Any, **options: Any) -> Batcher:
    return Batcher(engine, **options)


async def test_concurrent_requests_make_one_batch_and_each_gets_its_own_answer() -> None:
    engine = Echo()
    async with batcher(engine) as shared:
        shared.expected = 20
        answers = await asyncio.gather(*(shared.generate(ask(str(i))) for i in range(20)))
    assert [a.text for a in answers] == [str(i) for i in range(20)]
    assert engine.batches == [20]


async def test_an_incomplete_batch_leaves_when_patience_ends() -> None:
    engine = Echo()
    async with batcher(engine, first_wait_s=0.05) as shared:
        shared.expected = 20
        await asyncio.wait_for(shared.generate(ask("alone")), 2)
        await asyncio.wait_for(shared.generate(ask("again")), 2)
    assert engine.batches == [1, 1]


async def test_a_slow_engine_is_worth_waiting_for_the_late_ones() -> None:
    engine = Echo(seconds=1.0)
    async with batcher(engine, first_wait_s=0.01) as shared:
        shared.expected = 2
        await shared.generate(ask("first"))

        async def late() -> Completion:
            await asyncio.sleep(0.1)
            return await shared.generate(ask("late"))

        await asyncio.gather(shared.generate(ask("early")), late())
    assert engine.batches == [1, 2]


async def test_more_than_expected_travel_together_when_they_wait_anyway() -> None:
    """An author asks several questions at once, while no episode is under way."""
    engine = Echo(seconds=0.1)
    async with batcher(engine) as shared:
        shared.expected = 1
        first = asyncio.create_task(shared.generate(ask("first")))
        while not engine.batches:
            await asyncio.sleep(0)
        await asyncio.gather(first, *(shared.generate(ask(str(i))) for i in range(6)))
    assert engine.batches == [1, 6]


async def test_batches_hold_at_most_max_batch() -> None:
    engine = Echo()
    async with batcher(engine, max_batch=8, first_wait_s=0.05) as shared:
        await asyncio.gather(*(shared.generate(ask(str(i))) for i in range(20)))
    assert engine.batches == [8, 8, 4]


async def test_an_engine_error_reaches_the_callers_and_the_next_batch_still_works() -> None:
    engine = Echo()
    async with batcher(engine, first_wait_s=0.05) as shared:
        with pytest.raises(EngineError, match="out of tokens"):
            await shared.generate(ask("fail"))
        assert (await shared.generate(ask("fine"))).text == "fine"


async def test_an_answer_is_handed_on_while_the_engine_works_on_the_others() -> None:
    engine = Echo()
    async with batcher(engine) as shared:
        shared.expected = 2
        first, held = (asyncio.create_task(shared.generate(ask(text))) for text in ("first", "held"))
        assert (await asyncio.wait_for(first, 5)).text == "first"
        assert not held.done()
        engine.released.set()
        assert (await held).text == "held"
    assert engine.batches == [2]


async def test_an_engine_may_deliver_nothing_before_the_end() -> None:
    class AtOnce(Echo):
        async def generate(
            self, requests: Sequence[Request], *, deliver: Deliver | None = None
        ) -> list[Completion]:
            return await super().generate(requests)

    async with batcher(AtOnce(), first_wait_s=0.05) as shared:
        assert (await asyncio.wait_for(shared.generate(ask("late")), 5)).text == "late"


async def test_an_answer_that_was_complete_survives_the_failure_of_its_batch() -> None:
    engine = Echo()
    async with batcher(engine) as shared:
        shared.expected = 3
        tasks = [asyncio.create_task(shared.generate(ask(text))) for text in ("done", "fail", "lost")]
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], Completion)
    assert [type(answer) for answer in found[1:]] == [EngineError, EngineError]
    assert engine.batches == [3]


async def test_a_cancelled_request_does_not_disturb_the_others() -> None:
    engine = Echo(seconds=0.1)
    async with batcher(engine, first_wait_s=0.05) as shared:
        gone = asyncio.create_task(shared.generate(ask("gone")))
        stays = asyncio.create_task(shared.generate(ask("stays")))
        await asyncio.sleep(0.01)
        gone.cancel()
        assert (await stays).text == "stays"
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_closing_tells_those_who_still_wait() -> None:
    shared = batcher(Echo(), first_wait_s=60.0)
    waiting = asyncio.create_task(shared.generate(ask("never")))
    await asyncio.sleep(0.05)
    await shared.close()
    with pytest.raises(EngineError, match="closed while a request waited"):
        await waiting
