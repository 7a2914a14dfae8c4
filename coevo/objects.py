"""Objects that an experiment names: `package.module:name`, or `path/to/file.py:name`."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from coevo.errors import ConfigError, explained

MOST = 12
"""Names that an error lists at most."""


def load_object(key: str, spec: str, example: str = "webarena.miniwob:tasks") -> Callable[..., Any]:
    """The object that `module:name` or `/path/file.py:name` names. Raises ConfigError saying which part is missing."""
    place, colon, name = spec.rpartition(":")
    if not colon and spec.endswith(".py"):
        raise ConfigError(f"{key} = {spec!r} is a file, and nothing in it is named", hint=_which(spec))
    if not colon or not place or not name:
        raise ConfigError(f"{key} = {spec!r} is not of the form module:name", hint=f'for example "{example}"')
    if place.endswith(".py") and not Path(place).is_file():
        raise ConfigError(
            f"{key} = {spec!r}: there is no file {place}", hint="check the spelling and the folder"
        )
    with explained(f"{key} = {spec!r}: loading it", ConfigError):
        try:
            module = _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and (place == error.name or place.startswith(f"{error.name}.")):
                raise ConfigError(
                    f"{key} = {spec!r}: there is no module {error.name!r}",
                    hint="check the spelling, or install its package",
                ) from error
            raise ConfigError(
                f"{key} = {spec!r} needs the package {error.name!r}, which is not installed",
                hint="pip install 'coevo[web]'"
                if error.name in ("playwright", "miniwob")
                else f"pip install {error.name}",
            ) from error
    if not hasattr(module, name):
        public = _offered(module)
        near = difflib.get_close_matches(name, public, n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"it has: {', '.join(public[:MOST]) or 'nothing callable'}"
        )
        raise ConfigError(f"{key} = {spec!r}: {place} has no {name!r}", hint=hint)
    found: Callable[..., Any] = getattr(module, name)
    return found


def _offered(module: ModuleType) -> list[str]:
    """What a module has to offer: what its `__all__` names and what it defines itself, not what it imports."""
    offered = set(getattr(module, "__all__", ()))
    own = (module.__name__, f"{module.__name__}.")
    for name, value in vars(module).items():
        home = str(getattr(value, "__module__", ""))
        if not name.startswith("_") and (home == own[0] or home.startswith(own[1])):
            offered.add(name)
    return sorted(name for name in offered if callable(getattr(module, name, None)))


def _which(file: str) -> str:
    """Asks for a name in a file, and says which there are: it is read, not run."""
    try:
        body = ast.parse(Path(file).read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        body = []
    defined = [
        one
        for one in body
        if isinstance(one, ast.FunctionDef | ast.ClassDef) and not one.name.startswith("_")
    ]
    if not defined:
        return f"name the factory in it: {file}:name"
    functions = [one for one in defined if isinstance(one, ast.FunctionDef)]
    bare = [one for one in functions if len(one.args.args) <= len(one.args.defaults)]
    likely = (bare or functions or defined)[-1].name
    others = [one.name for one in functions or defined if one.name != likely][-MOST:]
    also = f" (it also has {', '.join(others)})" if others else ""
    return f"name the factory in it: {file}:{likely}{also}"


def _load_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"_coevo_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
