"""One process a run: a lock the operating system drops when the process dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coevo.errors import StoreError


class RunLock:
    """Held while a run is executed. Other runs on the same database are not affected."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    def acquire(cls, database: Path, run: str) -> RunLock:
        """Raises StoreError naming the process that already executes the run."""
        file = _open(database, run)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "unknown"
            file.close()
            raise StoreError(
                f"run {run} is being executed by process {holder}",
                hint="wait for it, stop it with Ctrl-C there, or start another run with --new",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        return cls(file)

    def release(self) -> None:
        self._file.close()


def is_running(database: Path, run: str) -> bool:
    """Whether some process executes the run right now."""
    path = _path(database, run)
    if not path.exists():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@contextmanager
def allocating(database: Path) -> Iterator[None]:
    """Held for the moment in which a run's name is chosen. Waits for others."""
    with _open(database, "") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _path(database: Path, run: str) -> Path:
    return database.with_name(f"{database.name}.locks") / f"{run}.lock"


def _open(database: Path, run: str) -> IO[str]:
    path = _path(database, run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
        file.seek(0)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}", hint="free space or fix its rights"
        ) from error
    return file
