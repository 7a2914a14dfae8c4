"""Stems: which beginnings of prompts are shared, cut at message borders, and remembered."""

from __future__ import annotations

from coevo.engine.stems import StemFinder

BORDER = 0
SKILL = (*range(10, 30), BORDER)


def prompt(*page: int) -> tuple[int, ...]:
    return (*SKILL, *page)


def test_the_common_messages_of_several_prompts_are_their_stem() -> None:
    found = StemFinder({BORDER}).lengths([prompt(1, 2), prompt(3, 4), prompt(5)])
    assert found == [len(SKILL)] * 3


def test_pages_that_begin_alike_do_not_make_the_stem_longer() -> None:
    found = StemFinder({BORDER}).lengths([prompt(7, 7, 1), prompt(7, 7, 2), prompt(7, 7, 3)])
    assert found == [len(SKILL)] * 3


def test_a_lone_prompt_finds_the_stem_of_an_earlier_call() -> None:
    finder = StemFinder({BORDER})
    assert finder.lengths([prompt(1)]) == [0]
    finder.lengths([prompt(1), prompt(2)])
    assert finder.lengths([prompt(9)]) == [len(SKILL)]


def test_two_skills_in_one_call_keep_stems_of_their_own() -> None:
    longer = (*SKILL, *range(40, 60), BORDER)
    prompts = [prompt(1), prompt(2), prompt(3), (*longer, 1), (*longer, 2), (*longer, 3)]
    assert StemFinder({BORDER}).lengths(prompts) == [len(SKILL)] * 3 + [len(longer)] * 3


def test_a_stem_never_is_the_whole_prompt_and_short_ones_are_not_worth_it() -> None:
    finder = StemFinder({BORDER})
    assert finder.lengths([SKILL, SKILL, prompt(1), prompt(2)])[0] < len(SKILL)
    short = (1, 2, BORDER)
    assert StemFinder({BORDER}).lengths([(*short, 5), (*short, 6), (*short, 7)]) == [0, 0, 0]


def test_members_that_read_the_same_text_count_as_one_prompt() -> None:
    assert StemFinder({BORDER}).lengths([prompt(1)] * 16) == [0] * 16
