"""Objects that an experiment names: `package.module:name`, or `path/to/file.py:name`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevo.errors import ConfigError, explained


def load_object(key: str, spec: str) -> Callable[..., Any]:
    """The object that `module:name` or `/path/file.py:name` names. Raises ConfigError saying which part is missing."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise ConfigError(
            f"{key} = {spec!r} is not of the form module:name", hint='for example "webarena.miniwob:tasks"'
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
        public = sorted(n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n)))
        near = difflib.get_close_matches(name, public, n=1)
        hint = (
            f"did you mean {near[0]}?" if near else f"it has: {', '.join(public[:12]) or 'nothing callable'}"
        )
        raise ConfigError(f"{key} = {spec!r}: {place} has no {name!r}", hint=hint)
    found: Callable[..., Any] = getattr(module, name)
    return found


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
