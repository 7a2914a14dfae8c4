"""Ctrl-C: who hears of it."""

from __future__ import annotations

import asyncio
import os
import signal

from coevo.loop.stop import StopSignal


async def told(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(0.05)


async def test_runs_side_by_side_in_one_process_all_hear_of_a_stop() -> None:
    signals = [StopSignal() for _ in range(3)]
    with signals[0].listening(), signals[1].listening(), signals[2].listening():
        await told(signal.SIGTERM)
    assert all(one.requested for one in signals)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_run_that_goes_on_hears_of_a_stop_after_another_has_ended() -> None:
    first, second = StopSignal(), StopSignal()
    with first.listening():
        with second.listening():
            pass
        await told(signal.SIGINT)
    assert first.requested
    assert not second.requested
