"""Reading what models really answer: wrapped, cut off, chatty, misnamed, hostile."""

from __future__ import annotations

import ast
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.eoh.replies import read_python
from coevo.problem import Argument, Signature
from coevo.sandbox import CandidateError, Category

SIGNATURE = Signature(
    "select", (Argument("current", "int"), Argument("nodes", "array")), Argument("node", "int")
)
BODY = "def select(current, nodes):\n    return nodes[0]"


@pytest.mark.parametrize(
    ("reply", "thought", "code"),
    [
        (f"{{Take the nearest city.}}\n```python\n{BODY}\n```", "Take the nearest city.", BODY),
        (f"{{Take the nearest city.}}\n\n{BODY}\n\nThis is greedy.", "Take the nearest city.", BODY),
        (f"Sure! Here it is:\n```\n{BODY}\n```\nHope it helps.", "Sure! Here it is", BODY),
        (f"```python\n{{Take the nearest city.}}\n{BODY}\n```", "", BODY),
        (
            f"{{A dict {{'a': 1}} inside}} {{Take the nearest city.}}\n```py\n{BODY}\n```",
            "Take the nearest city.",
            BODY,
        ),
        (f"{{Take the nearest city.}}\n```python\n{BODY}", "Take the nearest city.", BODY),
        (
            f"{{Take the nearest city.}}\n```python\nimport numpy as np\n\n{BODY}\n```",
            "Take the nearest city.",
            f"import numpy as np\n\n{BODY}",
        ),
        (
            "{Take the nearest city.}\n```python\ndef helper(x):\n    return x\n\n" + BODY + "\n```",
            "Take the nearest city.",
            f"def helper(x):\n    return x\n\n{BODY}",
        ),
        (f"```python\nprint(1)\n```\nand now\n```python\n{BODY}\n```", "print(1) and now", BODY),
        (f"{{Take the nearest city.}}\r\n```python\r\n{BODY}\r\n```", "Take the nearest city.", BODY),
        (
            "{Use a table of {0: 1} weights.}\n```python\ndef select(current, nodes):\n    t = {0: 1}\n    return t[0]\n```",
            "Use a table of 0 weights.",
            "def select(current, nodes):\n    t = {0: 1}\n    return t[0]",
        ),
    ],
)
def test_replies_of_all_kinds(reply: str, thought: str, code: str) -> None:
    draft = read_python(reply, SIGNATURE)
    assert draft.code.strip() == code
    if thought != "Use a table of 0 weights.":
        assert draft.thought == thought


def test_what_follows_the_program_is_cut_until_it_parses() -> None:
    draft = read_python(f"{BODY}\n\nThe function above is greedy, isn't it?\nYes.", SIGNATURE)
    assert draft.code.strip() == BODY


def test_an_answer_that_was_cut_off_keeps_what_is_whole() -> None:
    """The limit of tokens ends an answer in the middle of a line."""
    draft = read_python(f"```python\n{BODY}\n\ndef other(x):\n    return (x +", SIGNATURE)
    assert draft.code.strip() == BODY
    with pytest.raises(CandidateError, match="that Python can read"):
        read_python("```python\ndef select(current, nodes):\n    return nodes[", SIGNATURE)


def test_the_only_function_may_have_another_name() -> None:
    draft = read_python("```python\ndef choose(current, nodes):\n    return nodes[0]\n```", SIGNATURE)
    assert draft.code.endswith("select = choose\n")
    with pytest.raises(CandidateError, match="no function select"):
        read_python("```python\ndef a(x):\n    return x\n\ndef b(x):\n    return x\n```", SIGNATURE)


@pytest.mark.parametrize(
    "reply", ["", "I can't help with that.", "{An idea without a program.}", "```\n```", "{" * 5000]
)
def test_without_a_program_the_reason_names_what_was_asked(reply: str) -> None:
    with pytest.raises(CandidateError, match=r"def select\(current, nodes\):") as caught:
        read_python(reply, SIGNATURE)
    assert caught.value.category is Category.PARSE_ERROR


@given(st.text(max_size=300), st.text(max_size=300))
def test_whatever_stands_around_it_ends_in_code_that_parses_or_an_error(before: str, after: str) -> None:
    with suppress(
        CandidateError
    ):  # a fence or a bracket in the noise may make it unreadable, never anything else
        draft = read_python(f"{before}\n```python\n{BODY}\n```\n{after}", SIGNATURE)
        ast.parse(draft.code)
        assert "select" in draft.code
        assert len(draft.thought) <= 600


@pytest.mark.parametrize(
    "reply",
    [
        "def select(current, nodes):\n" + "    x = (\n" * 120_000,
        "@a\n" * 16_000,
        "import numpy as np\n" * 2_600,
        BODY + "\n" + "@a\n" * 16_000,
        "```" + " " * 49_000,
        "```\n" * 12_000,
        "{" * 49_000,
    ],
    ids=["brackets", "decorators", "imports", "tail", "spaces", "fences", "braces"],
)
@pytest.mark.timeout(30)
def test_a_long_reply_keeps_nobody_waiting(reply: str) -> None:
    """Each of these once took minutes."""
    with suppress(CandidateError):
        read_python(reply, SIGNATURE)
