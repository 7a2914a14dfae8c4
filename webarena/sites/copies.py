"""Folders of application state, copied by what differs: restoring a slot costs as much as the episode wrote."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

BLOCK_BYTES = 1 << 30


def mirror(source: Path, target: Path) -> int:
    """Makes the folder `target` equal to `source`; returns how many files had to be copied.

    A file counts as unchanged when its size and its time of modification (ns) are those of the source: copies are given
    the source's time, so whatever was written since has another. Nothing may write to either folder meanwhile.
    """
    target.mkdir(parents=True, exist_ok=True)
    wanted = {entry.name: entry for entry in os.scandir(source)}
    for entry in os.scandir(target):
        match = wanted.get(entry.name)
        if match is None or _kind(entry) != _kind(match):
            _remove(entry)
    copied = 0
    for name, entry in wanted.items():
        place = target / name
        if entry.is_symlink():
            link = os.readlink(entry.path)
            if not place.is_symlink() or os.readlink(place) != link:
                place.unlink(missing_ok=True)
                place.symlink_to(link)
        elif entry.is_dir():
            copied += mirror(Path(entry.path), place)
        elif not _same(entry.stat(), place):
            copy_file(entry.path, place)
            copied += 1
    return copied


def differs(source: Path, target: Path) -> bool:
    """Whether `mirror` would have something to do, but for what SQLite leaves beside a database that is only read."""
    there = {entry.name: entry for entry in os.scandir(target)}
    for entry in os.scandir(source):
        match = there.pop(entry.name, None)
        if match is None or _kind(match) != _kind(entry):
            return True
        if entry.is_symlink():
            if os.readlink(entry.path) != os.readlink(match.path):
                return True
        elif entry.is_dir():
            if differs(Path(entry.path), Path(match.path)):
                return True
        elif not _same(entry.stat(), Path(match.path)):
            return True
    return not all(_idle_sqlite(entry) for entry in there.values())


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copies content, rights and times; shares the blocks where the file system can."""
    with open(source, "rb") as read, open(target, "wb") as write:
        facts = os.fstat(read.fileno())
        left = facts.st_size
        try:
            while left > 0:
                done = os.copy_file_range(read.fileno(), write.fileno(), min(left, BLOCK_BYTES))
                if done == 0:
                    break
                left -= done
        except (OSError, AttributeError):  # across file systems, or an old kernel
            read.seek(0)
            write.seek(0)
            write.truncate()
            shutil.copyfileobj(read, write, 1 << 20)
            write.flush()
        os.fchmod(write.fileno(), stat.S_IMODE(facts.st_mode))
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _idle_sqlite(entry: os.DirEntry[str]) -> bool:
    """A write-ahead log with nothing in it, or its index."""
    return entry.name.endswith("-shm") or (entry.name.endswith("-wal") and entry.stat().st_size == 0)


def _kind(entry: os.DirEntry[str]) -> str:
    return "link" if entry.is_symlink() else "folder" if entry.is_dir() else "file"


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)


def _same(facts: os.stat_result, place: Path) -> bool:
    try:
        found = place.stat()
    except FileNotFoundError:
        return False
    return found.st_size == facts.st_size and found.st_mtime_ns == facts.st_mtime_ns
