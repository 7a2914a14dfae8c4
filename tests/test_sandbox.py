"""The sandbox as its callers see it: values, messages, limits, workers that die, and what is left at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import processes
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from coevo.errors import ConfigError, WorldError
from coevo.sandbox import (
    CandidateError,
    Category,
    Limits,
    Ragged,
    Sandbox,
    Tuples,
    isolation,
    wire,
    worker,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = "def f(*arguments):\n    return arguments\n"
LIMITS = Limits(cpu_s=5, wall_s=30, memory_mb=512)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(workers=2, limits=LIMITS) as sandbox:
        yield sandbox


async def call(sandbox: Sandbox, code: str, *arguments: Any, **options: Any) -> Any:
    async with sandbox.candidate(code, "f", **options) as candidate:
        (result,) = await candidate.map([arguments])
        return result


async def failure(sandbox: Sandbox, code: str, *arguments: Any, **options: Any) -> CandidateError:
    with pytest.raises(CandidateError) as caught:
        await call(sandbox, code, *arguments, **options)
    return caught.value


# values


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


ARRAYS = hnp.arrays(
    st.sampled_from(["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | ARRAYS,
    lambda inner: st.lists(inner, max_size=5) | st.lists(inner, max_size=5).map(tuple),
    max_leaves=12,
)


def there_and_back(value: Any) -> Any:
    writer = wire.Writer()
    writer.value(value)
    reader = wire.Reader(bytearray(writer.frame(wire.RESULTS)[wire.HEADER.size :]))
    back = reader.value()
    reader.end()
    return back


@given(VALUES)
@settings(deadline=None)
async def test_values_cross_unchanged(value: Any) -> None:
    assert equal(there_and_back(value), value)


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(b"NTFidIstlaSqvbr\0\1\2\10\xff<f8"), max_size=120).map(bytes)
)
async def test_any_bytes_are_a_value_or_a_wire_error(data: bytes) -> None:
    for take in (wire.Reader.value, lambda reader: list(reader.column()), wire.Reader.part):
        with suppress(wire.WireError):
            take(wire.Reader(bytearray(data)))


@given(st.data())
@settings(deadline=None)
async def test_a_damaged_frame_is_a_value_or_a_wire_error(data: st.DataObject) -> None:
    writer = wire.Writer()
    writer.column(data.draw(st.lists(VALUES, max_size=4)))
    payload = bytearray(writer.frame(wire.RESULTS)[wire.HEADER.size :])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(wire.WireError):
        list(wire.Reader(payload).column())


@given(st.lists(st.none() | st.booleans() | st.integers() | st.floats(), min_size=1, max_size=20))
async def test_numbers_of_several_types_are_packed(values: list[Any]) -> None:
    assert equal(there_and_back(values), values)
    writer = wire.Writer()
    writer.value(values)
    if all(type(value) is not int or -(2**63) <= value < 2**63 for value in values):
        assert writer.frame(wire.RESULTS)[wire.HEADER.size + 9] in b"qdx"


async def test_what_a_reply_may_hold() -> None:
    """Arrays are one value, lists of numbers are packed; the same bound holds where replies are written and read."""
    n = wire.MAX_VALUES
    for fits in ([[0.5, 1]] * (n // 2), [np.zeros(9), 1.5, "x"] * (n // 3), [[0, 0.5, True, None] * n]):
        writer = wire.Writer(reply=True)
        writer.column(fits)
        read = wire.Reader(bytearray(writer.frame(wire.RESULTS)[wire.HEADER.size :]))
        assert len(list(read.column())) == len(fits)
    rows = [np.zeros(1)] * (wire.MAX_WORK + 1)
    for beyond in ([()] * (n + 1), ["x"] * (n + 1), [[("x",) * 20]] * (n // 20), rows):
        with pytest.raises(wire.TooMuch, match="more than 65536 values came back"):
            wire.Writer(reply=True).column(beyond)
        writer = wire.Writer()
        writer.column(beyond)  # what the driver sends has no bound
        payload = bytearray(writer.frame(wire.RESULTS)[wire.HEADER.size :])
        assert len(list(wire.Reader(payload, reply=False).column())) == len(beyond)
        with pytest.raises(wire.TooMuch, match="an array counts as one value"):
            list(wire.Reader(payload).column())


async def test_arguments_and_results(sandbox: Sandbox) -> None:
    calls = [
        (1, 2.5, "x", np.arange(3), (1, np.ones((2, 2))), None, True),
        (-1, -2.5, "y", np.arange(4), (2, np.ones((3, 2))), None, False),
    ]
    async with sandbox.candidate(ECHO, "f") as candidate:
        assert equal(await candidate.map(calls), calls)
        assert await candidate.map([]) == []
        assert await candidate.map([(), ()]) == [(), ()]
        transposed = np.arange(6.0).reshape(2, 3).T
        assert equal(
            await candidate.map([(transposed,), (transposed[:, ::-1],)]),
            [(transposed,), (transposed[:, ::-1],)],
        )


async def test_columns_are_the_same_calls(sandbox: Sandbox) -> None:
    async with sandbox.candidate(ECHO, "f") as candidate:
        items, lengths = np.arange(7.0), np.array([3, 0, 4])
        rows = np.arange(12).reshape(3, 4)
        found = await candidate.map_columns(
            Ragged(items, lengths), rows, [1, 2, 3], np.array([0.5, 1.5, 2.5]), calls=3
        )
        parts = np.split(items, [3, 3])
        assert equal(found, [(parts[i], rows[i], i + 1, i + 0.5) for i in range(3)])


BATCHED = "def f(*columns):\n    {body}\nf.batched = True\n"


async def test_a_batched_function_is_called_once_a_round_with_whole_columns(sandbox: Sandbox) -> None:
    async def column(number: int, *columns: object, calls: int = 2) -> list[object]:
        body = f"c = columns[{number}]; return [(type(c).__name__, len(columns), c)] * len(columns[0])"
        async with sandbox.candidate(BATCHED.format(body=body), "f") as candidate:
            found, again = await candidate.map_columns(*columns, calls=calls)
        assert equal(found, again)
        return found

    rows = np.arange(6).reshape(2, 3)
    for sent, expected in [
        (rows, rows),
        ([0.5, 1.5], np.array([0.5, 1.5])),
        (np.array([3, 4]), np.array([3, 4])),
        ([np.arange(3), np.arange(3)], np.tile(np.arange(3), (2, 1))),
        (Tuples(rows), rows),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([True, False], np.array([True, False])),
        (np.array([True, False]), np.array([True, False])),
        ([np.arange(2), np.ones(2)], np.array([[0.0, 1.0], [1.0, 1.0]])),
        ([2**70, 1], [2**70, 1]),
        (["a", "b"], ["a", "b"]),
        (Ragged(np.arange(3), [1, 2]), [np.array([0]), np.array([1, 2])]),
        ([1, None], [1, None]),
        ([(1, 2), (3, 4)], [(1, 2), (3, 4)]),
    ]:
        kind = "ndarray" if isinstance(expected, np.ndarray) else "list"
        assert equal(await column(1, [1, 2], sent), (kind, 2, expected)), sent


async def test_a_round_without_calls_asks_nothing(sandbox: Sandbox) -> None:
    for code in (ECHO, BATCHED.format(body="return columns[0]")):
        async with sandbox.candidate(code, "f") as candidate:
            assert await candidate.map([]) == await candidate.map_columns([], calls=0) == []


async def test_a_truth_value_of_numpy_makes_a_function_batched(sandbox: Sandbox) -> None:
    code = BATCHED.format(body="return columns[0] * 2").replace("True", "np.bool_(True)")
    async with sandbox.candidate(code, "f") as candidate:
        assert await candidate.map([(1,), (2.5,)]) == [2.0, 5.0]


async def test_rows_are_tuples_to_a_plain_function(sandbox: Sandbox) -> None:
    async with sandbox.candidate(ECHO, "f") as candidate:
        assert await candidate.map_columns(Tuples(np.eye(2, dtype=np.int8)), calls=2) == [
            ((1, 0),),
            ((0, 1),),
        ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 3", "the batched function returned a value of type int"),
        ("return np.array(3)", "the batched function returned an array without dimensions"),
        ("return [1]", "1 results came back for 2 calls"),
        ("return np.zeros((3, 2))", "3 results came back for 2 calls"),
        ("return [len, 1]", "call 1 returned"),
        ("return np.zeros(2, 'M8[s]')", "call 1 returned a value of type datetime64"),
    ],
)
async def test_what_a_batched_function_may_not_return(sandbox: Sandbox, body: str, said: str) -> None:
    async with sandbox.candidate(BATCHED.format(body=body), "f") as candidate:
        with pytest.raises(CandidateError, match=said) as caught:
            await candidate.map([(1,), (2,)])
    assert caught.value.category == Category.BAD_REPLY


async def test_replies_have_no_columns_of_calls() -> None:
    payload = bytearray((1).to_bytes(8, "little") + b"t" + bytes(8))
    with pytest.raises(wire.WireError, match="only calls have"):
        list(wire.Reader(payload).column())


async def test_calls_of_different_length_are_refused(sandbox: Sandbox) -> None:
    async with sandbox.candidate(ECHO, "f") as candidate:
        with pytest.raises(ValueError, match="shorter"):
            await candidate.map([(1, 2), (1,)])


async def test_a_column_of_another_length_is_refused(sandbox: Sandbox) -> None:
    async with sandbox.candidate(ECHO, "f") as candidate:
        for column in ([1], np.ones((3, 2)), Ragged(np.ones(2), [1, 1, 0])):
            with pytest.raises(ValueError, match=r"a column of [13] arguments for 2 calls"):
                await candidate.map_columns([1, 2], column, calls=2)
        with pytest.raises(ValueError, match="a value of type dict"):
            await candidate.map([({},)])
        assert await candidate.map([(1,)]) == [(1,)]


async def test_numbers_of_numpy_come_back_as_python(sandbox: Sandbox) -> None:
    code = "def f(i):\n    return [np.int64(3), np.float32(0.5), np.bool_(True), np.uint64(2**64 - 1)][i]\n"
    async with sandbox.candidate(code, "f", arity=1) as candidate:
        results = await candidate.map([(i,) for i in range(4)])
    assert [(type(value), value) for value in results] == [
        (int, 3),
        (float, 0.5),
        (bool, True),
        (int, 2**64 - 1),
    ]


async def test_a_reply_of_too_many_values_says_so(sandbox: Sandbox) -> None:
    error = await failure(sandbox, "def f():\n    return [()] * 1_000_000\n")
    assert error.category == Category.BAD_REPLY
    assert error.message.startswith("more than 65536 values came back")
    forged = (
        "import sys\n"
        "def f():\n"
        "    frame = sys._getframe()\n"
        "    while 'wire' not in frame.f_globals:\n"
        "        frame = frame.f_back\n"
        "    frame.f_globals['wire'].Writer._counted = lambda self, work: None\n"
        "    return [()] * 1_000_000\n"
    )
    error = await failure(sandbox, forged)
    assert error.category == Category.BAD_REPLY
    assert error.message.startswith("the reply cannot be read: more than 65536 values came back")
    assert await call(sandbox, "def f():\n    return [[i, i / 2] * 1000 for i in range(200)]\n") == [
        [i, i / 2] * 1000 for i in range(200)
    ]


async def test_results_can_be_written_to(sandbox: Sandbox) -> None:
    result = await call(sandbox, "def f():\n    return np.zeros(3)\n")
    result += 1
    assert result.tolist() == [1, 1, 1]


async def test_arguments_are_fresh_in_every_call(sandbox: Sandbox) -> None:
    array = np.zeros(3)
    code = "def f(a):\n    a += 1\n    return a.sum()\n"
    async with sandbox.candidate(code, "f") as candidate:
        assert await candidate.map([(array,), (array,)]) == [3.0, 3.0]
        assert await candidate.map([(array,)]) == [3.0]
    assert array.sum() == 0


async def test_state_lasts_for_one_candidate(sandbox: Sandbox) -> None:
    code = "n = 0\ndef f():\n    global n\n    n += 1\n    return n\n"
    for _ in range(2):
        async with sandbox.candidate(code, "f") as candidate:
            assert await candidate.map([(), ()]) == [1, 2]
            assert await candidate.map([()]) == [3]


async def test_randomness_is_the_same_for_every_candidate(sandbox: Sandbox) -> None:
    code = (
        "import random\ndef f():\n    return random.random(), np.random.rand(), list({'a', 'b', 'c', 'd'})\n"
    )
    async with sandbox.candidate(code, "f") as one, sandbox.candidate(code, "f") as other:
        assert await one.map([()]) == await other.map([()])


async def test_numpy_is_there_without_an_import(sandbox: Sandbox) -> None:
    assert await call(sandbox, "def f(): return np.pi") == np.pi


async def test_packages(sandbox: Sandbox) -> None:
    for name in set(worker.package_folders()):
        code = f"import {name}\ndef f():\n    return {name}.__version__\n"
        assert await call(sandbox, code)
    code = "import numpy.linalg\ndef f(a):\n    return numpy.linalg.inv(a) @ a\n"
    assert np.allclose(await call(sandbox, code, np.array([[2.0, 1], [1, 3]])), np.eye(2))


# functions


async def test_arity_is_the_first_that_fits(sandbox: Sandbox) -> None:
    for code, arity in (
        ("def f(a, b): return 0", 2),
        ("def f(a, b, c=0): return 0", 3),
        ("def f(*a): return 0", 3),
    ):
        async with sandbox.candidate(code, "f", arity=(3, 2)) as candidate:
            assert candidate.arity == arity
    error = await failure(sandbox, "def f(a): return 0", arity=(3, 2))
    assert error.category is Category.WRONG_SIGNATURE
    assert error.message == "`f(a)` does not take 3 or 2 positional arguments"


async def test_any_arity_without_a_number(sandbox: Sandbox) -> None:
    assert await call(sandbox, "def f(a, *, b=1): return a + b", 1) == 2


# messages


@pytest.mark.parametrize(
    ("code", "category", "message"),
    [
        (
            "def f(n):\n    x = 1\n    return x / n\n",
            "exception",
            "ZeroDivisionError: division by zero, line 3: return x / n",
        ),
        ("def f(n)\n    return 0", "syntax_error", "SyntaxError: expected ':', line 1: def f(n)"),
        (
            "def g(n): pass\ndef h(n): pass",
            "missing_function",
            "the code defines no function `f`; it has g, h",
        ),
        ("x = 3", "missing_function", "the code defines no function `f`; it has no function at all"),
        ("f = 3", "missing_function", "`f` is a int, not a function"),
        ("async def f(n): pass", "wrong_signature", "`f` is async; a plain function is needed"),
        (
            "import torch",
            "import_error",
            "ModuleNotFoundError: No module named 'torch', line 1: import torch",
        ),
        (
            "def f(n):\n    raise SystemExit",
            "killed",
            "it ended its own process: SystemExit, line 2: raise SystemExit",
        ),
        (
            "def f(n):\n    import os\n    os._exit(4)",
            "killed",
            "it ended its own process with exit status 4",
        ),
        ("def f(n):\n    import os\n    os.abort()", "killed", "it died of SIGABRT"),
        (
            "def f(n):\n    return np.ones(1 << 40)",
            "memory",
            "it asked for more than the 512 MB of memory it may use, line 2: return np.ones(1 << 40)",
        ),
        (
            "def f(n):\n    return {}",
            "bad_reply",
            "call 1 returned a value of type dict, which is no plain data",
        ),
        (
            "def f(n):\n    return [n, {1}]",
            "bad_reply",
            "call 1 returned a value of type set, which is no plain data",
        ),
        ("def f(n):\n    raise KeyError", "exception", "KeyError, line 2: raise KeyError"),
        (
            "def f(n):\n    raise OSError('\\x1b[2J\\n' * 2)",
            "exception",
            r"OSError:  [2J  [2J, line 2: raise OSError('\x1b[2J\n' * 2)",
        ),
    ],
)
async def test_messages(sandbox: Sandbox, code: str, category: str, message: str) -> None:
    error = await failure(sandbox, code, 0)
    assert (error.category, error.message) == (category, message)


async def test_the_line_is_the_candidate_s_own(sandbox: Sandbox) -> None:
    code = "def g(a):\n    return np.linalg.inv(a)\n\ndef f(a):\n    return g(a)\n"
    error = await failure(sandbox, code, np.zeros((2, 2)))
    assert error.message == "LinAlgError: Singular matrix, line 2: return np.linalg.inv(a)"


async def test_the_later_of_several_calls_is_named(sandbox: Sandbox) -> None:
    async with sandbox.candidate("def f(n): return {} if n else 0", "f") as candidate:
        with pytest.raises(CandidateError, match="call 3 returned"):
            await candidate.map([(0,), (0,), (1,)])


async def test_output_comes_with_the_error_and_is_cut(sandbox: Sandbox) -> None:
    code = "print('loading')\ndef f(n):\n    print('n is', n)\n    return 1 / n\n"
    error = await failure(sandbox, code, 0)
    assert error.output == "loading\nn is 0\n"
    limits = Limits(output_kb=1)
    async with sandbox.candidate("def f(n):\n    print('x' * n)\n", "f", limits=limits) as candidate:
        await candidate.map([(3000,)])
        assert candidate.output == "x" * 1024


async def test_standard_error_is_output_too(sandbox: Sandbox) -> None:
    code = "import sys, os\ndef f():\n    print('a', file=sys.stderr)\n    os.write(2, b'b')\n"
    async with sandbox.candidate(code, "f") as candidate:
        await candidate.map([()])
        assert candidate.output == "a\nb"


# limits


async def test_little_memory_is_enough_for_little(sandbox: Sandbox) -> None:
    limits = Limits(memory_mb=1)
    assert await call(sandbox, "def f(): return 1", limits=limits) == 1
    error = await failure(sandbox, "def f(): return np.ones(1 << 24)", limits=limits)
    assert error.category is Category.MEMORY


async def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="wall_s must be above 0, not 0"):
        Limits(wall_s=0)
    with pytest.raises(ValueError, match="at least one worker, not 0"):
        Sandbox(workers=0)


async def test_processor_time_is_counted(sandbox: Sandbox) -> None:
    code = "import time\ndef f(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n"
    async with sandbox.candidate(code, "f") as candidate:
        await candidate.map([(0.1,)])
        first = candidate.cpu_s
        assert first >= 0.1
        await candidate.map([(0.2,)])
        assert candidate.cpu_s >= first + 0.2
    assert candidate.cpu_s >= first + 0.2
    error = await failure(sandbox, code, 10.0, limits=Limits(cpu_s=1, wall_s=60))
    assert (error.category, error.message) == (Category.CPU, "it used more than 1 s of processor time")


async def test_the_driver_s_own_time_does_not_count(sandbox: Sandbox) -> None:
    async with sandbox.candidate("def f(): return 1", "f", limits=Limits(wall_s=1)) as candidate:
        for _ in range(3):
            await asyncio.sleep(0.5)
            assert await candidate.map([()]) == [1]


async def test_waiting_adds_up(sandbox: Sandbox) -> None:
    code = "import time\ndef f(): time.sleep(0.4)"
    async with sandbox.candidate(code, "f", limits=Limits(wall_s=1)) as candidate:
        for _ in range(2):
            await candidate.map([()])
        with pytest.raises(CandidateError) as caught:
            await candidate.map([()])
    assert caught.value.category is Category.TIMEOUT
    assert caught.value.message == "it did not answer within 1 s"


async def test_a_large_argument_and_reply(sandbox: Sandbox) -> None:
    array = np.random.default_rng(0).random(1_000_000)
    assert np.array_equal(await call(sandbox, "def f(a): return a[::-1]", array), array[::-1])
    error = await failure(sandbox, "def f(a): return a", array, limits=Limits(reply_mb=7))
    assert error.category is Category.BAD_REPLY
    error = await failure(sandbox, "import time\ntime.sleep(60)", array, limits=Limits(wall_s=0.5))
    assert error.category is Category.TIMEOUT


# workers


async def test_candidates_run_side_by_side_and_wait_for_their_turn(sandbox: Sandbox) -> None:
    running = most = 0
    code = "import time\ndef f(n):\n    time.sleep(0.1)\n    return n * n\n"

    async def one(number: int) -> int:
        nonlocal running, most
        async with sandbox.candidate(code, "f") as candidate:
            running += 1
            most = max(most, running)
            (result,) = await candidate.map([(number,)])
            running -= 1
            return int(result)

    async with sandbox.candidate(code, "f"), sandbox.candidate(code, "f"):
        pass  # both workers are warm
    assert await asyncio.gather(*map(one, range(6))) == [n * n for n in range(6)]
    assert most == 2


async def test_a_cancelled_candidate_gives_its_worker_back(sandbox: Sandbox) -> None:
    for code in ("while True: pass", "def f():\n    while True: pass"):
        tasks = [asyncio.create_task(call(sandbox, code)) for _ in range(3)]
        await asyncio.sleep(0.3)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert await call(sandbox, "def f(): return 1") == 1


async def test_an_exception_of_the_driver_ends_the_candidate(sandbox: Sandbox) -> None:
    with pytest.raises(RuntimeError, match="the driver's"):
        async with sandbox.candidate("def f(): return 1", "f"):
            raise RuntimeError("the driver's")
    assert await call(sandbox, "def f(): return 1") == 1


def started_by(driver: int) -> list[int]:
    """Workers and candidates of a process."""
    return processes.running(f'"driver": {driver}')


async def until_none_is_left(driver: int) -> None:
    for _ in range(500):
        if not started_by(driver):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(started_by(driver))


async def test_a_worker_that_died_is_replaced() -> None:
    before = set(started_by(os.getpid()))
    async with Sandbox(limits=LIMITS) as sandbox:
        for _ in range(2):
            assert await call(sandbox, "def f(): return 1") == 1
            for pid in sorted(set(started_by(os.getpid())) - before):
                with suppress(ProcessLookupError):  # gone with its parent
                    os.kill(pid, signal.SIGKILL)
        assert await call(sandbox, "def f(): return 1") == 1
    assert set(started_by(os.getpid())) <= before


async def test_a_worker_that_dies_under_a_candidate_is_a_broken_world() -> None:
    before = set(started_by(os.getpid()))
    async with Sandbox(limits=LIMITS) as sandbox:
        async with sandbox.candidate("def f(): return 1", "f") as candidate:
            for pid in sorted(set(started_by(os.getpid())) - before):
                with suppress(ProcessLookupError):  # gone with its parent
                    os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorldError, match="a sandbox worker broke"):
                await candidate.map([()])
        assert await call(sandbox, "def f(): return 1") == 1


async def test_a_worker_that_cannot_start_is_a_broken_world(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(worker, "_BOOT", "import sys; sys.exit('no luck today')")
    with pytest.raises(WorldError, match="the sandbox did not start: no luck today"):
        async with Sandbox():
            pass
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(WorldError, match=r"the sandbox did not start: .* No such file"):
        async with Sandbox():
            pass
    assert list(tmp_path.iterdir()) == []


async def test_closing_ends_what_runs() -> None:
    before = set(started_by(os.getpid()))
    sandbox = Sandbox(workers=2, limits=LIMITS)
    tasks = [asyncio.create_task(call(sandbox, "def f():\n    while True: pass")) for _ in range(2)]
    await asyncio.sleep(0.5)
    await sandbox.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, WorldError) for result in results)
    assert set(started_by(os.getpid())) <= before
    with pytest.raises(WorldError, match="the sandbox is closed"):
        await call(sandbox, "def f(): return 1")


DRIVER = """
import asyncio, os, tempfile
from coevo.sandbox import Sandbox
async def main():
    async with Sandbox(workers=2) as sandbox:
        async with sandbox.candidate("def f(): return 1", "f"):
            async with sandbox.candidate("def f():\\n  while 1: pass", "f") as candidate:
                print("running", flush=True)
                await candidate.map([()])
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_nothing_outlives_the_driver(number: int, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert driver.stdout
    with driver.stdout:
        assert await asyncio.to_thread(driver.stdout.readline) == b"running\n"
    assert started_by(driver.pid)
    driver.send_signal(number)
    await asyncio.to_thread(driver.wait)
    await until_none_is_left(driver.pid)
    assert list(tmp_path.iterdir()) == []


# the machine


async def test_isolation_names_the_layers() -> None:
    layers = isolation(without=["landlock"])
    async with Sandbox(without=["landlock"]) as sandbox:
        assert sandbox.layers == layers
    assert list(layers) == ["bubblewrap", "process", "limits", "namespaces", "files", "landlock", "seccomp"]
    assert layers["landlock"] == "no: left out"
    assert layers["process"] == "fresh for each candidate, ended with its descendants"


async def test_without_numpy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(worker, "PACKAGES", ())
    with pytest.raises(ConfigError, match="pip install numpy"):
        async with Sandbox():
            pass
    assert list(tmp_path.iterdir()) == []


async def test_importing_it_is_cheap() -> None:
    code = "import sys, coevo.sandbox; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_tables_of_system_calls_agree_with_the_kernel_s_headers() -> None:
    from coevo.sandbox import seccomp

    headers = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not headers.exists():
        pytest.skip("no kernel headers here")
    numbers = dict(
        line.split()[1:] for line in headers.read_text().splitlines() if line.startswith("#define __NR_")
    )
    for name, number in seccomp.allowed("x86_64").items():
        assert numbers[f"__NR_{name}"] == str(number), name
