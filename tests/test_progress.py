"""What a person sees while a run works."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from coevo.env import Outcome
from coevo.progress import GenerationSummary, PlainProgress, RichProgress, describe, duration, make_progress

SUMMARY = GenerationSummary(2, 0.05, 0.412, 0.1, 0.25, 0.75, "step 3", 75.2)


def test_a_generation_in_one_line() -> None:
    assert (
        describe(SUMMARY) == "generation 2: reward 0.412 ± 0.100 (0.25 … 0.75) · σ 0.05 · step 3 · 1 min 15 s"
    )
    nothing = replace(SUMMARY, mean=None, std=None, worst=None, best=None)
    assert "no valid member" in describe(nothing)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3599, "59 min 59 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_lines_when_it_is_not_a_terminal() -> None:
    stream = io.StringIO()
    progress = make_progress(stream)
    assert isinstance(progress, PlainProgress)
    progress.start("demo-1", 4, 1)
    progress.phase("generation 1", 96, 12)
    progress.episode(Outcome.SUCCESS, 1.0)
    progress.generation(SUMMARY)
    progress.note("skill accepted")
    progress.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "run demo-1: 1 of 4 generations done"
    assert lines[1] == "generation 1: 96 episodes, 12 already stored"
    assert lines[2] == describe(SUMMARY)
    assert lines[3:] == ["skill accepted"]


def test_a_measurement_outside_a_run_has_no_bar_for_the_run() -> None:
    stream = io.StringIO()
    progress = RichProgress(Console(file=stream, force_terminal=True, width=160))
    progress.phase("evaluate base+seed", 4, 0)
    stream.truncate(stream.seek(0))
    progress._bars.refresh()
    progress.close()
    assert "evaluate base+seed" in stream.getvalue()
    assert "preparing" not in stream.getvalue()


def test_bars_on_a_terminal_show_reward_invalid_episodes_and_time_left() -> None:
    stream = io.StringIO()
    progress = RichProgress(Console(file=stream, force_terminal=True, width=160))
    progress.start("demo-1", 4, 2)
    progress.phase("generation 2", 4, 0)
    for outcome, reward in ((Outcome.SUCCESS, 1.0), (Outcome.FAILURE, 0.5), (Outcome.INVALID, None)):
        progress.episode(outcome, reward)
    progress._bars.refresh()
    progress.generation(SUMMARY)
    progress.note("[not markup]")
    progress._bars.refresh()
    progress.close()
    text = stream.getvalue()
    for part in ("demo-1", "3/4", "reward 0.75", "1 invalid", "left", describe(SUMMARY), "[not markup]"):
        assert part in text
