"""Rounds that are played beside a candidate's function: only what the driver repeats of them counts."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Generator
from functools import partial
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import ConfigError, WorldError
from coevo.sandbox import CandidateError, Category, Limits, Ragged, Sandbox, Tuples, decisions, wire
from coevo.sandbox.candidate import _ASTRAY
from coevo.sandbox.rounds import packed, unpacked

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(cpu_s=3, wall_s=30, memory_mb=256)
Asked = Generator[tuple[Any, ...], list[Any], Any]
SECRET = 7
NOTHING = None


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


def untupled(values: Any) -> Asked:
    yield (values, values)
    yield values.sum()


def bare(values: Any) -> Asked:
    yield values, 3.0


def narrow(values: Any) -> Asked:
    yield (values,)


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        (uneven, "round 1 of uneven: the columns have 2, 1 values, not as many each"),
        (untupled, "round 2 of untupled yields float64, not a tuple with a column for each argument"),
        (bare, "round 1 of bare: column 2 is float, not one value for each call"),
        (narrow, "round 1 of narrow has 1 columns; the function takes 2 arguments"),
    ],
)
async def test_what_is_no_round_is_the_rounds_mistake(sandbox: Sandbox, rounds: Any, said: str) -> None:
    async with sandbox.candidate("def f(a, b):\n    return 0\n", "f", arity=2) as candidate:
        with pytest.raises(ConfigError, match=said):
            await candidate.play(rounds, np.zeros(2))


@pytest.mark.parametrize(
    ("data", "said"), [({}, "a value of type dict"), ([np.zeros(2, "M8[s]")], "an array of dtype datetime64")]
)
async def test_data_that_is_not_plain_is_the_rounds_mistake(sandbox: Sandbox, data: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await played(sandbox, "def f(a):\n    return 0\n", handing_on, data)


def summing(values: Any, number: Any, more: Any) -> Asked:
    total = values.sum(axis=0) * number
    (first,) = yield ([total.tolist()],)
    return total, first, type(number), more


async def test_data_are_the_same_to_the_last_bit(sandbox: Sandbox) -> None:
    """Sums depend on where numbers lie in memory."""
    values = np.asfortranarray(np.random.default_rng(1).random((1000, 3)))[:, ::-1]
    code = "def f(total):\n    return total\n"
    here, there, number, more = await played(
        sandbox, code, summing, values, np.float32(1.1), (np.int8(3), [np.bool_(True)])
    )
    assert here.tolist() == there
    assert number is float
    assert more == (3, [True])
    assert [type(more[0]), type(more[1][0])] == [int, bool]


def shuffled(values: Any) -> Asked:
    left = np.random.permutation(values)
    for step in range(2):
        yield (left[step:],)
    return left


def stopping(values: Any) -> Asked:
    for _ in range(np.random.randint(2, 40)):
        yield (values,)


@pytest.mark.parametrize("rounds", [shuffled, stopping])
async def test_rounds_that_go_two_ways_are_noticed(sandbox: Sandbox, rounds: Any) -> None:
    np.random.seed(5)  # another state than that of candidates
    error = await failure(sandbox, "def f(a):\n    return 0\n", rounds, np.random.random(50))
    assert (error.category, error.message) == (Category.BAD_REPLY, _ASTRAY)


FORGED = """
import os, sys


def rounds():
    frame = sys._getframe()
    while "rounds_begun" not in frame.f_locals:
        frame = frame.f_back
    return frame


def column(values):
    writer = rounds().f_globals["wire"].Writer()
    writer.column(values)
    return writer.payload()


def f(step, values):
    if step == 4:
        answers = rounds().f_locals["answers"]
        {body}
    return values.argmin()
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("answers.pop()", _ASTRAY),
        ("answers.append(column([values.argmin()]))", _ASTRAY),
        ("rounds().f_globals['rounds'].mark = lambda columns: 1", _ASTRAY),
        ("rounds().f_globals['rounds'].mark = lambda columns: 'x'", "no answers of rounds"),
        ("answers[1] = b''", "the reply cannot be read: a value that is cut off"),
        ("answers[1] = column([3]) + b'x'", "the reply cannot be read: bytes after the end of a value"),
        ("answers[1] = column([])", "0 results came back for 1 calls"),
        ("answers[1] = column([0, 0])", "2 results came back for 1 calls"),
        ("answers[1] = column([0.0] * 10**6)", "1000000 results came back for 1 calls"),
        ("answers[1] = column([[()] * 100_000])", "more than 65536 values"),
        ("answers[1] = column([[1] * (1 << 21)])", "more than 1048576 in lists"),
        ("answers[1] = column(['x' * (20 << 20)])", "'xxx"),
        ("answers[1] = bytes(60 << 20) + bytes(60 << 20)", "more than the 256 MB"),
        ("answers[1] = column([[0]])", "row 0, step 1: a list of 1 was returned, not one number"),
    ],
)
async def test_forged_answers(sandbox: Sandbox, body: str, said: str) -> None:
    error = await failure(sandbox, FORGED.format(body=body), picking, VALUES[:1])
    assert said in error.message
    assert error.category in (Category.BAD_REPLY, Category.WRONG_SHAPE, Category.MEMORY)


SENT = """
import os, sys


def f(step, values):
    frame = sys._getframe()
    while "rounds_begun" not in frame.f_locals:
        frame = frame.f_back
    wire, rounds = frame.f_globals["wire"], frame.f_globals["rounds"]
    writer, answer = wire.Writer(), wire.Writer()
    writer.value(({played}, 0, ""))
    answer.column([int(values.argmin())])
    writer.part(answer.payload())
    sent = writer.frame(wire.PLAYED)
    {send}
"""


@pytest.mark.parametrize(
    ("send", "category", "said"),
    [
        ("os.write(3, sent); os._exit(0)", Category.BAD_REPLY, _ASTRAY),
        ("os.write(3, sent)\n    while True: os.write(1, b'x' * 65536)", Category.BAD_REPLY, _ASTRAY),
        ("os.write(3, sent[:40]); os._exit(0)", Category.KILLED, "exit status 0"),
        ("os.write(3, sent * 2)", Category.BAD_REPLY, "bytes that are no reply"),
    ],
)
async def test_a_reply_of_the_candidates_own(
    sandbox: Sandbox, send: str, category: Category, said: str
) -> None:
    """It answers the first round, and ends or goes on while the driver still plays."""
    for _ in range(20):
        error = await failure(sandbox, SENT.format(send=send, played=1), picking, VALUES[:1])
        assert (error.category, said in error.message) == (category, True), error.message


async def test_a_failure_longer_than_any_is_no_reply(sandbox: Sandbox) -> None:
    send = "w = wire.Writer(); w.value(('exception', 'x' * 100_000, None)); os.write(3, w.frame(wire.FAILED)); os._exit(0)"
    error = await failure(sandbox, SENT.format(send=send, played=1), picking, VALUES[:1])
    assert (error.category, error.message) == (Category.BAD_REPLY, "the reply cannot be read")


async def test_what_comes_drop_by_drop_costs_little(sandbox: Sandbox) -> None:
    limits = Limits(cpu_s=10, wall_s=3, memory_mb=256)
    drip = "import os\ndef f(step, values):\n    sent = {header}\n    while True: os.write({to}, sent[:1])\n"
    header = wire.HEADER.pack(wire.MAGIC, wire.PLAYED, 60 << 20)
    for to in (1, 3):
        code = drip.format(header=f"{header!r}; os.write(3, sent)", to=to)
        started = time.process_time()
        async with sandbox.candidate(code, "f", limits=limits) as candidate:
            with pytest.raises(CandidateError, match="did not answer within 3 s"):
                await candidate.play(picking, VALUES)
        assert time.process_time() - started < 1.5


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


async def test_rounds_that_only_work_here_are_noticed(sandbox: Sandbox) -> None:
    error = await failure(sandbox, "def f(x):\n    return 0\n", missing_module, np.zeros(2))
    assert error.message == f"{_ASTRAY} (there: ModuleNotFoundError: No module named 'coevo')"


def uses_a_constant(values: Any) -> Asked:
    yield (values + SECRET,)


def uses_none(values: Any) -> Asked:
    yield (values if NOTHING is None else 0,)


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
        (uses_none, "the rounds uses_none use NOTHING, which"),
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


def echoing(rounds: Any) -> Asked:
    back = []
    for results in rounds:
        back.append((yield (results,)))
    return back


@given(st.lists(st.lists(st.integers() | st.floats(allow_nan=False) | st.booleans(), max_size=4), max_size=6))
@settings(deadline=None, max_examples=25)
async def test_answers_cross_unchanged(sandbox: Sandbox, answers: list[list[Any]]) -> None:
    for code in ("def f(x):\n    return x\n", "def f(x):\n    return list(x)\nf.batched = True\n"):
        back = await played(sandbox, code, echoing, answers)
        assert back == answers
        if "batched" not in code:
            assert [list(map(type, each)) for each in back] == [list(map(type, each)) for each in answers]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("np.longdouble(2)", 2.0),
        ("np.array(2)", np.array(2)),
        ("np.float32(0.5)", 0.5),
        ("np.uint64(2**64 - 1)", 2**64 - 1),
        ("(1, [x])", (1, [3])),
        ("None", None),
    ],
)
async def test_results_are_what_calls_give(sandbox: Sandbox, result: str, expected: Any) -> None:
    code = f"def f(x):\n    return {result}\n"
    async with sandbox.candidate(code, "f") as candidate:
        (asked,) = await candidate.map([(3,)])
    ((found,),) = await played(sandbox, code, echoing, [[3]])
    assert type(found) is type(asked) is type(expected)
    assert found == asked == expected


async def test_many_odd_results_are_counted_by_the_round(sandbox: Sandbox) -> None:
    """Each is a value of its own to read; there may be as many in a round as in a round of calls."""
    code = "def f(x):\n    return str(x)\n"
    back = await played(sandbox, code, echoing, [list(range(1000))] * 70)
    assert back == [list(map(str, range(1000)))] * 70
    assert len(await played(sandbox, "def f(x):\n    return x\n", echoing, [[1]] * 70_000)) == 70_000


def changing(count: int) -> Asked:
    total = 0.0
    for _ in range(count):
        answers = yield ([1.0, 2.0],)
        for answer in answers:
            answer += [5.0] if isinstance(answer, list) else 5.0
        total += sum(float(np.sum(answer)) for answer in answers)
    return total


@pytest.mark.parametrize("result", ["np.array([x])", "[x]"])
async def test_rounds_may_change_the_answers(sandbox: Sandbox, result: str) -> None:
    assert await played(sandbox, f"def f(x):\n    return {result}\n", changing, 2) == 26.0


def underflowing(values: Any) -> Asked:
    answers = yield (np.exp(-values),)
    return answers


async def test_how_numpy_complains_in_the_function_is_its_own(sandbox: Sandbox) -> None:
    strict = "np.seterr(all='raise')\ndef f(x):\n    return {}\n"
    assert await played(sandbox, strict.format("x"), underflowing, np.full(2, 1e4)) == [0.0, 0.0]
    error = await failure(sandbox, strict.format("np.float64(1e300) ** 2"), underflowing, np.full(2, 1e4))
    assert "FloatingPointError: overflow" in error.message


async def test_two_at_once_on_one_candidate_take_turns(sandbox: Sandbox) -> None:
    async with sandbox.candidate(SMALLEST, "f", limits=LIMITS) as candidate:
        found = await asyncio.gather(
            candidate.play(picking, VALUES),
            candidate.play(picking, VALUES[:2]),
            candidate.map([(0, VALUES[0])]),
        )
    assert np.array_equal(found[0], np.sort(VALUES, axis=1))
    assert np.array_equal(found[1], found[0][:2])
    assert found[2] == [VALUES[0].argmin()]
    with pytest.raises(WorldError, match="the candidate has been ended"):
        await candidate.play(picking, VALUES)


async def test_data_beyond_the_memory_limit(sandbox: Sandbox) -> None:
    error = await failure(sandbox, SMALLEST, picking, np.zeros((1, 50_000_000)))
    assert (error.category, "more than the 256 MB" in error.message) == (Category.MEMORY, True)


def slow(values: Any) -> Asked:
    import time

    for _ in range(100):
        time.sleep(0.05)
        yield (values,)


async def test_nobody_plays_on_for_somebody_who_is_gone(sandbox: Sandbox) -> None:
    code = "import time\ntime.sleep = lambda s: None\ndef f(x):\n    return 0\n"
    threads = threading.active_count()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await played(sandbox, code, slow, np.zeros(2))
    deadline = time.monotonic() + 3
    while (
        len(playing := [t for t in sys._current_frames().values() if "slow" in _names(t)])
        and time.monotonic() < deadline
    ):
        await asyncio.sleep(0.05)
    assert not playing
    assert threading.active_count() <= threads + 1


def _names(frame: Any) -> list[str]:
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names
