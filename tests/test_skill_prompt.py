"""A skill as a prompt: examples become turns, everything else stays an instruction."""

from __future__ import annotations

from pathlib import Path

from skill_rows import episode, propose

from coevo.skill import ExampleTurn, MinerAnalyst, SkillDocument, split_examples

SEED = SkillDocument.load(Path(__file__).parent.parent / "skills" / "web")


PLAIN = SEED.with_body("Answer with one action.")


def test_a_body_without_examples_is_all_instruction() -> None:
    for body in ("", PLAIN.body, "# Title\n\nTask: none\nhere"):
        assert split_examples(body) == (body, ())


def test_one_example_becomes_one_turn() -> None:
    body = "Answer with one action.\n\n## Examples\n\nlink 'News' [1]\nTask: Open the news.\nclick 'News'"
    head, turns = split_examples(body)
    assert head == "Answer with one action."
    assert turns == (ExampleTurn("link 'News' [1]\nTask: Open the news.", "click 'News'"),)


def test_examples_become_turns_without_their_general_line() -> None:
    body = (
        "Answer with one action.\n\n## Examples\n\nClick the element that the task names:\nbutton 'Ok' [1]\n"
        "Task: Click Ok.\nclick 'Ok'\n\nA remark.\n\nTask: Say hi.\nstop 'hi'\n\n## More\n\nText"
    )
    head, turns = split_examples(body)
    assert turns == (
        ExampleTurn("button 'Ok' [1]\nTask: Click Ok.", "click 'Ok'"),
        ExampleTurn("Task: Say hi.", "stop 'hi'"),
    )
    assert head == "Answer with one action.\n\n## Examples\n\nA remark.\n\n## More\n\nText"


async def test_the_miners_examples_read_like_the_agents_own_turns() -> None:
    page, goal = "button 'No' [1]\nbutton 'Ok' [2]", 'Click on the "Ok" button.'
    rows = [episode("e", "click 'Ok'", success=True, page=page, goal=goal)]
    for lead in (True, False):
        (candidate,) = await propose(PLAIN, rows, MinerAnalyst(lead=lead))
        head, turns = split_examples(candidate.document.body)
        assert head == PLAIN.body
        assert turns == (ExampleTurn(f"{page}\nTask: {goal}", "click 'Ok'"),)
