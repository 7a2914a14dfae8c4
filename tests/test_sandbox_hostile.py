"""Hostile programs: each ends with its category or harmlessly, and the sandbox goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import processes
import pytest
from hostile_programs import GOOD, PROGRAMS, Expected, inside

from coevo.sandbox import CandidateError, Category, Limits, Sandbox

LIMITS = Limits(cpu_s=1, wall_s=30, memory_mb=512, reply_mb=4)
HASTY = Limits(cpu_s=20, wall_s=0.5, memory_mb=512)
"""For programs that wait without using the processor."""

FEWER_LAYERS = [
    ("namespaces",),
    ("landlock",),
    ("seccomp",),
    ("landlock", "seccomp"),
    ("namespaces", "landlock", "seccomp"),
]
"""What other machines lack."""

ANYWHERE = {
    *(
        "unclosed",
        "two others",
        "missing package",
        "the scorer",
        "raises",
        "endless loop",
        "sleep",
        "sys.exit",
    ),
    *("segmentation fault", "stack overflow", "eight gigabytes", "raises its limit", "environment"),
    *("a large file", "its own files", "files of others", "deep folders", "prints much", "closes everything"),
    *("writes everywhere", "closes its channel and goes on", "generator", "huge array"),
    "changes what it was given",
}
"""Programs that end the same whatever the kernel offers."""
WITH_SECCOMP_OR_NAMESPACES = {"connection", "kills its parent", "kills all"}
"""Denied, or without effect."""
WITH_FILES_OR_LANDLOCK = {
    "passwords",
    "this file",
    "another package's file",
    "a file of coevo",
    "writes outside",
    "link to a file",
    "climbs out",
}

DAEMON = inside(
    """
import os, time
try:
    if os.fork():
        return 1
except OSError:
    return 1
os.close(3)
os.setsid()
if os.fork():
    os._exit(0)
os.setsid()
time.sleep(600)
"""
)
"""Leaves a process behind that has left its group and its session, where it can."""


@contextmanager
def running(runner: asyncio.Runner, *, without: tuple[str, ...] = ()) -> Iterator[Sandbox]:
    """A sandbox, and no process of it after that."""
    before = sandbox_processes()
    sandbox = Sandbox(limits=LIMITS, without=without)
    runner.run(sandbox.__aenter__())
    try:
        yield sandbox
    finally:
        runner.run(sandbox.close())
    assert sandbox_processes() <= before
    assert not Path("/tmp/evil").exists()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def sandbox(runner: asyncio.Runner) -> Iterator[Sandbox]:
    with running(runner) as sandbox:
        yield sandbox


def sandbox_processes() -> set[int]:
    """Workers and candidates that this process's sandboxes have started."""
    return set(processes.running(f'"driver": {os.getpid()}'))


async def outcome(sandbox: Sandbox, code: str, limits: Limits) -> Any:
    """The call's result, or the error."""
    try:
        async with sandbox.candidate(code, "step", arity=2, limits=limits) as candidate:
            (result,) = await candidate.map([(np.arange(3.0), 2)])
            return result
    except CandidateError as error:
        return error


def same(found: Any, expected: Expected) -> bool:
    if isinstance(expected, set):
        return any(same(found, each) for each in expected)
    if isinstance(expected, np.ndarray):
        return type(found) is np.ndarray and found.dtype == expected.dtype and np.array_equal(found, expected)
    if isinstance(expected, float) and expected != expected:
        return isinstance(found, float) and found != found
    return type(found) is type(expected) and found == expected


def check(runner: asyncio.Runner, sandbox: Sandbox, code: str, expected: Expected) -> None:
    """The program ends as expected, and a good one runs after it."""
    found = runner.run(outcome(sandbox, code, HASTY if expected is Category.TIMEOUT else LIMITS))
    if isinstance(found, CandidateError):
        assert same(found.category, expected), f"{found.category}: {found.message}"
        assert found.message
        assert found.message.isprintable()
        assert len(found.message) < 1000
    else:
        assert same(found, expected), repr(found)
    assert runner.run(outcome(sandbox, GOOD, LIMITS)) == 5.0


@pytest.mark.parametrize(("name", "code", "expected"), PROGRAMS, ids=[name for name, *_ in PROGRAMS])
def test_program(runner: asyncio.Runner, sandbox: Sandbox, name: str, code: str, expected: Expected) -> None:
    check(runner, sandbox, code, expected)


@pytest.mark.parametrize("without", FEWER_LAYERS, ids="+".join)
def test_machines_with_fewer_layers(runner: asyncio.Runner, without: tuple[str, ...]) -> None:
    names = ANYWHERE.copy()
    if not {"seccomp", "namespaces"} <= set(without):
        names.update(WITH_SECCOMP_OR_NAMESPACES)
    if "seccomp" not in without:
        names.add("fork bomb")
    if not {"namespaces", "landlock"} <= set(without):
        names.update(WITH_FILES_OR_LANDLOCK)
    chosen = [program for program in PROGRAMS if program[0] in names]
    assert len(chosen) == len(names)
    with running(runner, without=without) as sandbox:
        for name, code, expected in chosen:
            try:
                if name in WITH_SECCOMP_OR_NAMESPACES:
                    expected = {expected, None, Category.EXCEPTION}
                check(runner, sandbox, code, expected)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("without", [(), *FEWER_LAYERS], ids="+".join)
def test_no_process_is_left_by_a_candidate(runner: asyncio.Runner, without: tuple[str, ...]) -> None:
    with running(runner, without=without) as sandbox:
        alone = sandbox_processes()
        assert runner.run(outcome(sandbox, DAEMON, LIMITS)) == 1
        assert runner.run(outcome(sandbox, GOOD, LIMITS)) == 5.0
        runner.run(until(lambda: sandbox_processes() == alone))


async def until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come true")


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 100
    assert len({name for name, *_ in PROGRAMS}) == len(PROGRAMS)
