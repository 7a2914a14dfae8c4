"""Options of the browser task sets: wrong types and values are told by name, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevo.errors import ConfigError
from webarena import benchmark, local, miniwob
from webarena.actions import ParseError
from webarena.configs import load_configs
from webarena.dialects import DIALECTS, Name, parse


@pytest.mark.parametrize(
    ("tasks", "options", "says"),
    [
        (local.tasks, {"train": "x"}, "option train"),
        (local.tasks, {"levels": 1}, "option levels"),
        (local.tasks, {"observation_tokens": "x"}, "option observation_tokens"),
        (local.tasks, {"step_timeout_s": float("nan")}, "option step_timeout_s"),
        (local.tasks, {"viewport": 3}, "option viewport"),
        (local.tasks, {"seed": "x"}, "option seed"),
        (benchmark.tasks, {"files": 3}, "option files"),
        (benchmark.tasks, {"drift": "maybe"}, "option drift"),
        (benchmark.tasks, {"urls": 3}, "option urls"),
        (benchmark.tasks, {"sharing": 1.5}, "option sharing"),
        (miniwob.tasks, {"train": "x"}, "option train"),
        (miniwob.tasks, {"success_at": "x"}, "option success_at"),
        (miniwob.tasks, {"timed": "perhaps"}, "option timed"),
    ],
)
def test_wrong_types_are_told_by_name(tasks: Callable[..., Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        tasks(**options)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_number_no_page_can_have_is_a_parse_error(dialect: Name) -> None:
    digits = "9" * 6000
    text = f'do(action="Click", element="{digits}")' if dialect == "webrl" else f"click [{digits}]"
    with pytest.raises(ParseError) as error:
        parse(text, dialect)
    assert len(str(error.value)) < 1000


def test_a_file_of_brackets_is_not_json(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="is not JSON"):
        load_configs(file)
