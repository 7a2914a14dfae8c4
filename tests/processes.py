"""Processes of this machine, as tests look for those that must be gone.

A process can end while it is looked at; it is gone then. One that has ended and that nobody has waited for is gone, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import psutil


def _living() -> Iterator[psutil.Process]:
    """With `info`: pid, ppid, and cmdline as a list, None where it may not be read."""
    for process in psutil.process_iter(["ppid", "status", "cmdline"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE:
            yield process


def _command(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or [])


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def running(*words: str, parent: int | None = None) -> list[int]:
    """Processes with all these words in their command lines; of one parent only, if it is named."""
    return [
        process.pid
        for process in _living()
        if all(word in _command(process) for word in words) and parent in (None, process.info["ppid"])
    ]


def descendants(of: int) -> dict[int, str]:
    """Processes below one, with their command lines."""
    living = list(_living())
    found: dict[int, str] = {}
    above = {of}
    while above:
        children = [each for each in living if each.info["ppid"] in above and each.pid not in found]
        found |= {child.pid: _command(child) for child in children}
        above = {child.pid for child in children}
    return found
