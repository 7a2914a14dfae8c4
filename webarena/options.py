"""Options of task sets come from a file: their types are checked, and an error names the option."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from coevo.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """`function` with its arguments checked against its annotations. Raises `ConfigError` that names the argument."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        from pydantic import ConfigDict, ValidationError, validate_call

        _finite(kwargs)
        validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
        try:
            return validated(*args, **kwargs)
        except ValidationError as error:
            raise _explained(error) from error

    return call


def typed(kind: type[T], values: Mapping[str, Any]) -> T:
    """An options dataclass from values of the right types. Raises `ConfigError` that names the option."""
    from pydantic import TypeAdapter, ValidationError

    _finite(values)
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        raise _explained(error) from error


def _finite(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"option {name} = {value} is no number to work with")


def _explained(error: Any) -> ConfigError:
    first = error.errors(include_url=False)[0]
    name = (
        ".".join(str(part) for part in first["loc"] if isinstance(part, str) and part.isidentifier()) or "?"
    )
    return ConfigError(
        f"option {name.split('.')[0]} = {first['input']!r:.80}: {first['msg']}",
        hint="see the task set's documentation for its options",
    )
