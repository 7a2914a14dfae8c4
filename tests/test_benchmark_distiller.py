"""The comparison of selections: both get the same number of pieces, and the scripted analyst knows only what it is shown."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from skill_rows import episode

from coevo.skill import Selection
from coevo.skill.llm import LlmAnalyst
from coevo.skill.select import ContrastPair
from coevo.store.queries import EpisodeRecord
from coevo.testing import FakeEngine

GOAL = "Press the button 'red'."
PAGE = "button 'blue'\nbutton 'red'"


@pytest.fixture(scope="module")
def bench() -> Any:
    path = Path(__file__).parents[1] / "benchmarks" / "distiller.py"
    spec = importlib.util.spec_from_file_location("benchmark_distiller", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def pressed(id: str, words: str, *, success: bool, button: str = "red") -> EpisodeRecord:
    action = f"press '{button}' {words}"
    return episode(id, action, success=success, goal=GOAL, page=PAGE, member=int(success))


async def proposed(bench: Any, selection: Selection) -> list[str]:
    analyst = LlmAnalyst(bench.scripted(), examples=False)
    return [edit.text for edit in await analyst.analyse(bench.SEED_SKILL, selection)]


async def test_the_reader_names_what_differs_in_a_pair(bench: Any) -> None:
    good = pressed("g", "slowly left firmly aloud upwards early", success=True)
    bad = pressed("b", "slowly right firmly aloud upwards early", success=False)
    assert await proposed(bench, Selection(pairs=(ContrastPair(good, bad),))) == ["Press left."]


async def test_the_reader_must_guess_from_a_single_episode(bench: Any) -> None:
    words = "slowly right firmly aloud upwards early"
    guesses: Counter[str] = Counter()
    for number in range(60):
        other = pressed(f"b{number}", words, success=False)
        reply = bench.Reader().invoke(
            [SystemMessage("You improve"), HumanMessage(await shown(bench, other, number))]
        )
        guesses[json.loads(reply.text)["edits"][0]["text"]] += 1
    against = {"quickly", "left", "lightly", "silently", "downwards", "late"}
    assert set(guesses) == {f"Press {option}." for option in against}
    assert max(guesses.values()) < 30


async def shown(bench: Any, failure: EpisodeRecord, number: int) -> str:
    (piece,) = LlmAnalyst(bench.scripted()).pieces(Selection(failures=(failure,)))
    return f"<<<\n{bench.SEED_SKILL.body}\n>>>\n{number}\n<<<\n{piece.text}\n>>>"


async def test_the_reader_blames_no_habit_for_a_wrong_button(bench: Any) -> None:
    words = "slowly right firmly aloud upwards early"
    bad = pressed("b", words, success=False, button="blue")
    good = pressed("g", words.replace("right", "left"), success=True)
    assert await proposed(bench, Selection(failures=(bad,))) == []
    assert await proposed(bench, Selection(pairs=(ContrastPair(good, bad),))) == []


async def test_both_selections_keep_to_the_same_number_of_pieces(bench: Any) -> None:
    world = bench.World(bench.draw_law(1), FakeEngine(bench.answer, size=len(bench.HABITS) + 1), 1)
    episodes = await world.rollouts(bench.SEED_SKILL.body, 0, 0.5)
    for calls in (2, 5, 8):
        paired, single = bench.contrast(episodes, calls), bench.unpaired(episodes, calls)
        analyst = LlmAnalyst(bench.scripted())
        assert len(analyst.pieces(paired)) == len(analyst.pieces(single)) == calls
        assert paired.pairs
        assert not single.pairs
        for group in (single.successes, single.failures):
            assert len({one.task for one in group}) == len(group)
    assert bench.contrast(list(reversed(episodes)), 5) == bench.contrast(episodes, 5)
    assert bench.unpaired(list(reversed(episodes)), 5) == bench.unpaired(episodes, 5)


async def test_pairs_are_worth_more_a_call_and_harm_nothing(bench: Any) -> None:
    table = (await bench.compare([8], 6, 2, 0.5, bench.scripted))[8]
    pairs, singles = table["contrast"], table["unpaired"]
    assert pairs["calls"] == singles["calls"] == 6 * 2 * 8
    assert pairs["gain_per_call"][0] > singles["gain_per_call"][0]
    assert pairs["rules"]["idle"] < singles["rules"]["idle"]
    assert pairs["gain"][1] >= 0
    for low, high in ((row[1], row[2]) for row in (pairs["gain"], singles["gain"], pairs["acceptance_rate"])):
        assert low <= high
