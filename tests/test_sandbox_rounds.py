"""Rounds that are played beside a candidate's function: only what the driver repeats of them counts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator
from functools import partial
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import ConfigError
from coevo.sandbox import CandidateError, Category, Limits, Ragged, Sandbox, Tuples, decisions, wire
from coevo.sandbox.rounds import packed, unpacked

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(cpu_s=3, wall_s=30, memory_mb=256)
Asked = Generator[tuple[Any, ...], list[Any], Any]
SECRET = 7


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(workers=2, limits=LIMITS) as sandbox:
        yield sandbox


async def played(sandbox: Sandbox, code: str, rounds: Any, *data: Any) -> Any:
    async with sandbox.candidate(code, "f", limits=LIMITS) as candidate:
        return await candidate.play(rounds, *data)


async def failure(sandbox: Sandbox, code: str, rounds: Any, *data: Any) -> CandidateError:
    with pytest.raises(CandidateError) as caught:
        await played(sandbox, code, rounds, *data)
    return caught.value


def picking(values: Any) -> Asked:
    """Each row's values are taken one after another, by position; the order of the values taken is returned."""
    count, width = values.shape
    left = np.ones(values.shape, bool)
    taken = np.zeros(values.shape)
    row = np.arange(count)
    for step in range(width):

        def where(i: int, step: int = step) -> str:
            return f"row {i}, step {step}"

        chosen = decisions.integers((yield np.full(count, step), np.where(left, values, np.inf)), where)
        for i, position in enumerate(chosen):
            if not 0 <= position < width or not left[i, position]:
                raise decisions.infeasible(f"{where(i)}: position {position} is not left")
        taken[:, step] = values[row, chosen]
        left[row, chosen] = False
    return taken


VALUES = np.random.default_rng(0).random((3, 5))
SMALLEST = "def f(step, values):\n    return values.argmin()\n"
SMALLEST_AT_ONCE = "def f(step, values):\n    return values.argmin(axis=1)\nf.batched = True\n"


@pytest.mark.parametrize("code", [SMALLEST, SMALLEST_AT_ONCE])
async def test_the_result_is_that_of_the_rounds_here(sandbox: Sandbox, code: str) -> None:
    taken = await played(sandbox, code, picking, VALUES)
    assert np.array_equal(taken, np.sort(VALUES, axis=1))


async def test_one_candidate_plays_several_times(sandbox: Sandbox) -> None:
    async with sandbox.candidate(SMALLEST, "f") as candidate:
        for values in (VALUES, VALUES[:, :2], VALUES):
            assert np.array_equal(await candidate.play(picking, values), np.sort(values, axis=1))
        assert await candidate.map([(0, np.array([3.0, 1.0]))]) == [1]


@pytest.mark.parametrize(
    ("body", "category", "said"),
    [
        ("return 0", Category.INFEASIBLE, "row 0, step 1: position 0 is not left"),
        ("return 9", Category.INFEASIBLE, "row 0, step 0: position 9 is not left"),
        ("return 2**70", Category.INFEASIBLE, "row 0, step 0: 1180591620717411303424 is out of range"),
        ("return 0.5", Category.WRONG_SHAPE, "row 0, step 0: 0.5 was returned, not a whole number"),
        ("return np.nan", Category.NON_FINITE, "row 0, step 0: nan was returned, not a whole number"),
        ("return None if step == 2 else values.argmin()", Category.WRONG_SHAPE, "row 0, step 2: None was"),
        (
            "return {} if step == 2 else values.argmin()",
            Category.BAD_REPLY,
            "call 1 returned a value of type dict",
        ),
        ("return 1 / (3 - step)", Category.WRONG_SHAPE, "row 0, step 0: 0.333"),
        ("return values.argmin() if step < 3 else 1 // 0", Category.EXCEPTION, "ZeroDivisionError"),
        (
            "while step == 3: pass\n    return values.argmin()",
            Category.CPU,
            "more than 3 s of processor time",
        ),
        ("return [bytearray(600 << 20)] and 0", Category.MEMORY, "more than the 256 MB"),
        ("raise StopIteration", Category.EXCEPTION, "StopIteration"),
        ("raise GeneratorExit", Category.EXCEPTION, "GeneratorExit"),
        ("raise SystemExit", Category.KILLED, "it ended its own process"),
        ("return open('/etc/passwd')", Category.FORBIDDEN, ""),
    ],
)
async def test_what_fails_is_said_as_if_it_had_been_asked_round_by_round(
    sandbox: Sandbox, body: str, category: Category, said: str
) -> None:
    error = await failure(sandbox, f"def f(step, values):\n    {body}\n", picking, VALUES)
    assert error.category == category
    assert said in error.message


async def test_the_line_is_that_of_the_candidates_code(sandbox: Sandbox) -> None:
    error = await failure(sandbox, "def f(step, values):\n    return values[step + 9]\n", picking, VALUES)
    assert error.message.endswith(", line 2: return values[step + 9]")


def kinds(rows: Any, numbers: list[int], text: str) -> Asked:
    items = np.arange(4.0)
    found = yield rows, [*numbers], Ragged(items, [1, 3]), Tuples(rows.astype(np.int64)), [text, None]
    return found, items, numbers


@pytest.mark.parametrize("batched", [False, True])
async def test_columns_are_what_they_are_to_calls(sandbox: Sandbox, batched: bool) -> None:
    body = (
        "return [[type(c).__name__ for c in columns]] * 2"
        if batched
        else "return [type(c).__name__ for c in columns]"
    )
    code = f"def f(*columns):\n    {body}\nf.batched = {batched}\n"
    found, _, _ = await played(sandbox, code, kinds, np.eye(2), [1, 2], "x")
    if batched:
        assert found == [["ndarray", "ndarray", "list", "ndarray", "list"]] * 2
    else:
        assert found == [["ndarray", "int", "ndarray", "tuple", kind] for kind in ("str", "NoneType")]


@pytest.mark.parametrize("batched", [False, True])
async def test_a_function_cannot_change_what_the_rounds_have(sandbox: Sandbox, batched: bool) -> None:
    """Its arguments are its own; what never changes cannot be written to by a batched one."""
    code = (
        "def f(step, values):\n    best = values.argmin(axis=-1)\n    values[:] = 9\n    step += 3\n"
        f"    return best\nf.batched = {batched}\n"
    )
    assert np.array_equal(await played(sandbox, code, picking, VALUES), np.sort(VALUES, axis=1))


def handing_on(values: Any) -> Asked:
    answers = yield (values,)
    return answers


async def test_data_cannot_be_written_to_by_a_batched_function(sandbox: Sandbox) -> None:
    write = "def f(values):\n    values[:] = 1\n    return [0] * len(values)\n"
    assert await played(sandbox, write, handing_on, np.zeros((2, 2))) == [[0, 0]] * 2
    error = await failure(sandbox, write + "f.batched = True\n", handing_on, np.zeros((2, 2)))
    assert "read-only" in error.message


def writing(values: Any) -> Asked:
    yield ([1],)
    values[0] = 1
    return None


async def test_rounds_cannot_write_to_their_data(sandbox: Sandbox) -> None:
    values = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        await played(sandbox, "def f(x):\n    return 0\n", writing, values)
    assert values.sum() == 0


def adding(count: int) -> Asked:
    total = np.zeros(2)
    for step in range(count):
        answers = yield np.full(2, step), [step, step]
        total += np.array([float(np.sum(answer)) for answer in answers])
    return total.tolist()


@pytest.mark.parametrize(
    "code",
    [
        "out = np.zeros(2)\ndef f(a, b):\n    out[:] = a\n    return out\nf.batched = True\n",
        "out = np.zeros(1)\ndef f(a, b):\n    out[:] = a\n    return out\n",
        "out = []\ndef f(a, b):\n    out[:] = [a]\n    return out\n",
    ],
)
async def test_a_result_that_is_used_again_keeps_its_value(sandbox: Sandbox, code: str) -> None:
    assert await played(sandbox, code, adding, 5) == [10.0, 10.0]


def pausing(counts: list[int]) -> Asked:
    lengths = []
    for count in counts:
        lengths.append(len((yield np.zeros(count), np.zeros((count, 2)))))
    return lengths


async def test_a_round_without_calls_is_not_asked(sandbox: Sandbox) -> None:
    code = "n = 0\ndef f(a, b):\n    global n\n    n += 1\n    return 1 // (4 - n)\n"
    assert await played(sandbox, code, pausing, [0, 2, 0, 1, 0]) == [0, 2, 0, 1, 0]
    assert await played(sandbox, code, pausing, []) == []


def uneven(values: Any) -> Asked:
    yield values, values[:1]


async def test_columns_of_different_length_are_the_rounds_mistake(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match=r"have \[2, 1\] arguments, not as many each"):
        await played(sandbox, "def f(a, b):\n    return 0\n", uneven, np.zeros(2))


FORGED = """
import sys


def rounds():
    frame = sys._getframe()
    while "rounds_begun" not in frame.f_locals:
        frame = frame.f_back
    return frame


def f(step, values):
    {body}
    return values.argmin()
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "if step == 4: rounds().f_locals['answers'].pop()",
            "answers are missing: it did not play all rounds",
        ),
        (
            "if step == 4: rounds().f_locals['answers'].append([values.argmin()])",
            "it played more rounds than there are",
        ),
        ("if step == 4: rounds().f_locals['answers'][1] = []", "0 results came back for 1 calls"),
        ("if step == 4: rounds().f_locals['answers'][1] = [0, 0]", "2 results came back for 1 calls"),
        ("if step == 4: rounds().f_locals['answers'][1] = 7", ""),
        ("if step == 4: rounds().f_locals['answers'][:] = [()] * 100_000", "more than 65536 values"),
        (
            "if step == 4: rounds().f_locals['answers'][:] = [[0.0] * 10**6] * 5",
            "1000000 results came back for 1 calls",
        ),
    ],
)
async def test_forged_answers(sandbox: Sandbox, body: str, said: str) -> None:
    error = await failure(sandbox, FORGED.format(body=body), picking, VALUES[:1])
    assert said in error.message
    assert error.category in (Category.BAD_REPLY, Category.EXCEPTION)


async def test_rounds_that_a_candidate_rewrites_are_checked_here_all_the_same(sandbox: Sandbox) -> None:
    """It makes all positions stay open in its own process and takes the smallest value again and again."""
    always = (
        "import gc, types\n\n\ndef f(step, values):\n"
        "    for each in gc.get_objects():\n"
        "        if isinstance(each, types.GeneratorType) and 'left' in (each.gi_frame.f_locals if each.gi_frame else {}):\n"
        "            each.gi_frame.f_locals['left'][:] = True\n"
        "    return int(values.argmin())\n"
    )
    error = await failure(sandbox, always, picking, VALUES)
    assert error.category == Category.INFEASIBLE
    assert error.message.endswith("is not left")
    lies = "from coevo.sandbox import decisions\n"
    assert (await failure(sandbox, lies + SMALLEST, picking, VALUES)).category == Category.IMPORT_ERROR


def missing_module(values: Any) -> Asked:
    import coevo.stats

    answers = yield (values,)
    return coevo.stats, answers


async def test_rounds_that_only_work_here_say_that_answers_are_missing(sandbox: Sandbox) -> None:
    error = await failure(sandbox, "def f(x):\n    return 0\n", missing_module, np.zeros(2))
    assert error.message == "answers are missing: it did not play all rounds"


def uses_a_constant(values: Any) -> Asked:
    yield (values + SECRET,)


def uses_a_function(values: Any) -> Asked:
    def inner() -> Any:
        return equal(values, values)

    yield (inner(),)


def has_a_default(values: Any = 1) -> Asked:
    yield (values,)


def is_none(values: Any) -> Any:
    return values


class Holder:
    def method(self, values: Any) -> Asked:
        yield (values,)


def equal(a: Any, b: Any) -> Any:
    return a == b


async def test_rounds_that_the_candidate_could_not_run_are_refused() -> None:
    captured = np.zeros(2)

    def closes_over(values: Any) -> Asked:
        yield (values + captured,)

    for rounds, said in [
        (
            uses_a_constant,
            "the rounds uses_a_constant use SECRET, which the candidate's process does not have",
        ),
        (uses_a_function, "the rounds uses_a_function use equal, which"),
        (closes_over, "the rounds closes_over use captured, which"),
        (has_a_default, "the rounds has_a_default have arguments with defaults"),
        (is_none, "the rounds is_none are no generator function"),
        (Holder().method, "the rounds method are no generator function"),
        (partial(picking, VALUES), "are no generator function"),
    ]:
        with pytest.raises(ConfigError, match=said):
            packed(rounds)


async def test_what_is_called_np_must_be_numpy() -> None:
    namespace: dict[str, Any] = {"np": np.random}
    exec("def rounds(x):\n    yield (np.zeros(x),)\n", namespace)
    with pytest.raises(ConfigError, match="use np, which"):
        packed(namespace["rounds"])


async def test_rounds_cross_as_they_are() -> None:
    running = unpacked(packed(picking))(VALUES)
    first = picking(VALUES)
    for mine, theirs in zip(next(running), next(first), strict=True):
        assert np.array_equal(mine, theirs)


@given(st.lists(st.lists(st.integers() | st.floats(allow_nan=False) | st.booleans(), max_size=4), max_size=6))
@settings(deadline=None)
async def test_answers_cross_unchanged(answers: list[list[Any]]) -> None:
    writer = wire.Writer(reply=True)
    writer.rounds(answers)
    reader = wire.Reader(bytearray(writer.frame(wire.PLAYED)[wire.HEADER.size :]))
    back = reader.rounds()
    reader.end()
    assert back == answers
    assert [list(map(type, each)) for each in back] == [list(map(type, each)) for each in answers]


async def test_a_reply_of_very_many_rounds_is_refused_at_once() -> None:
    rounds = 1 << 20
    payload = bytearray(rounds.to_bytes(8, "little") + (bytes(8) + b"q") * rounds)
    started = time.process_time()
    with pytest.raises(wire.TooMuch):
        wire.Reader(payload).rounds()
    assert time.process_time() - started < 3
