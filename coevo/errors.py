"""Errors a person sees: what went wrong, where, and what to do next."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
_NOT_THEIRS = (str(Path(__file__).parent), *_LIBRARIES, "<")
"""Where no code of a user's is: coevo, Python's library, installed packages, and what is no file."""


class CoevoError(Exception):
    """Base of every error coevo raises on purpose.

    `hint` is the next step, in the imperative; the command line prints it on its own line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.hint}" if self.hint else self.message


class ConfigError(CoevoError):
    """An experiment file, override or task name that cannot be used."""


class ModelError(CoevoError):
    """A model that cannot be found, loaded or served."""


class EngineError(CoevoError):
    """The engine refused or failed a request or an update."""


class StoreError(CoevoError):
    """The trajectory database cannot be opened, read or written."""


class SkillError(CoevoError):
    """A skill document that breaks the Agent Skills specification, or an edit that does not apply."""


class AgentError(CoevoError):
    """An agent file or graph that cannot be loaded or does not follow the contract."""


class SearchError(CoevoError):
    """A search whose rows or budget do not add up."""


class WorldError(CoevoError):
    """The world around the agent broke (browser died, site down, judge failed): the episode is invalid."""


@contextmanager
def explained(what: str, kind: type[CoevoError]) -> Iterator[None]:
    """Around code that is not coevo's: what it raises (or that it exits) becomes an error of `kind` that says where.

    A CoevoError passes as it is.
    """
    try:
        yield
    except CoevoError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError) and error.filename:
            file, line = error.filename, error.lineno
        else:
            frames = traceback.extract_tb(error.__traceback__)
            theirs = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
            file, line = (theirs or frames)[-1].filename, (theirs or frames)[-1].lineno
        raise kind(
            f"{what} raised {type(error).__name__}: {error}", hint=f"see {file}, line {line}"
        ) from error
