"""Shares of time by what was under way."""

from __future__ import annotations

import pytest

from coevo.engine.none import NoModel
from coevo.errors import EngineError
from coevo.meter import Meter


def test_shares_of_overlapping_work() -> None:
    now = 0.0
    meter = Meter(clock=lambda: now)
    with meter.during("writing"):
        now = 2.0
        with meter.during("judging"), meter.during("judging"):
            now = 3.0
    now = 4.0
    with meter.during("judging"):
        now = 8.0
    assert meter.share("writing") == pytest.approx(3 / 8)
    assert meter.share("judging") == pytest.approx(5 / 8)
    assert meter.share("writing", "judging") == pytest.approx(1 / 8)
    assert Meter().share("writing") == 0.0


async def test_a_run_without_a_model_refuses_to_be_asked() -> None:
    engine = NoModel()
    await engine.restore([])
    assert await engine.checksum() == "no model"
    with pytest.raises(EngineError, match="has no model") as caught:
        await engine.generate([])
    assert "search.author" in (caught.value.hint or "")
