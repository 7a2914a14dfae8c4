"""What commands print where no terminal reads it."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner, Result
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ahd.cli import ahd
from coevo.cli import main
from coevo.cli.common import console, print_rows
from coevo.cli.pipe import WIDEST, Pipe
from coevo.store import Store

IDEA = "first the nearest node, then " * 20 + "the end"
ERROR = "ValueError: shapes\n  (3,) and (4,)  " + "do not fit " * 60 + "at all"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell whose window is small."""
    monkeypatch.setenv("COLUMNS", "40")


@pytest.fixture
def database(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """A search with one heuristic that has a long idea, and one with a long error."""
    monkeypatch.chdir(tmp_path)
    from toysearch import search_workspace

    from coevo.config import load_experiment

    experiment = load_experiment(search_workspace(tmp_path))
    with Store.open(tmp_path / "runs" / "coevo.sqlite") as store:
        config = experiment.model_dump(mode="json")
        store.put(
            "runs",
            {
                "id": "s",
                "name": "s",
                "status": "finished",
                "seed": 1,
                "config": config,
                "provenance": {"directory": str(tmp_path)},
            },
        )
        common = {
            "run": "s",
            "problem": "doubling",
            "turn": 0,
            "generation": 0,
            "operator": "i1",
            "parents": "[]",
        }
        for row in (
            {
                "id": "s.t0.0",
                "number": 0,
                "status": "ok",
                "objective": 1.5,
                "thought": IDEA,
                "code": "x = 1\n",
            },
            {"id": "s.t0.1", "number": 1, "status": "exception", "error": ERROR},
        ):
            store.put("heuristics", common | row)


def lines(*arguments: str) -> list[str]:
    result: Result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = result.stdout.splitlines()
    assert all(line == line.rstrip() for line in found), "no padding at the end"
    assert not set(result.stdout) & set("…━┃│"), "nothing cut, no frames"
    return found


@pytest.mark.usefixtures("narrow", "database")
def test_heuristics_are_one_a_line_and_whole() -> None:
    header, first, second = lines("heuristics", "list")
    assert header == "id      operator  objective  status     thought"
    assert first == f"s.t0.0  i1              1.5  ok         {IDEA}"
    assert second == "s.t0.1  i1                   exception"
    _, failed = lines("heuristics", "list", "--failed")
    assert failed.endswith("  exception  " + " ".join(ERROR.split()))


@pytest.mark.usefixtures("narrow", "database")
def test_reports_are_whole() -> None:
    report = lines("heuristics", "report")
    assert next(line for line in report if line.startswith("s.t0.0  i1")).endswith(IDEA)
    assert "best heuristics (smaller is better, in order of train)" in report
    assert max(map(len, set(report) - {line for line in report if IDEA in line})) < WIDEST
    shown = lines("heuristics", "show", "s.t0.0")
    assert sum(line.endswith(IDEA) for line in shown) == 2, "its thought, and its row among the ancestors"
    assert "x = 1" in shown
    (header, row) = lines("heuristics", "compare")
    assert header.split()[:2] == ["problem", "method"]
    assert row.split()[0] == "doubling"


@pytest.mark.usefixtures("narrow")
def test_problems_are_one_a_line() -> None:
    header, *rows = lines("ahd", "problems")
    assert re.split("  +", header.strip()) == [
        "problem",
        "function",
        "train",
        "val",
        "test",
        "train reference",
        "source",
        "is",
    ]
    assert len(rows) == len({row.split()[0] for row in rows}) == 8
    assert "  1000 × 20, 1000 × 50, 1000 × 100, 1000 × 200  " in rows[0]
    assert CliRunner().invoke(ahd, ["problems"]).stdout.splitlines() == [header, *rows]


def test_numbers_stand_to_the_right_and_wide_rows_go_one_value_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(
        [{"n": 7, "name": "a"}, {"n": None, "name": "漢字"}, {"n": 1234, "name": "b\nc"}],
        ("name", "n"),
        as_json=False,
        empty="",
    )
    assert capsys.readouterr().out == "name     n\na        7\n漢字\nb c   1234\n"
    print_rows([{"a": "x" * 201, "b": "line\nline"}] * 2, ("a", "b"), as_json=False, empty="")
    block = f"a  {'x' * 201}\nb  line\n   line\n"
    assert capsys.readouterr().out == f"{block}\n{block}"


def test_texts_and_tables_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title="points")
    table.add_column("x", justify="right")
    table.add_column("about")
    table.add_row("10", Text("ten"))
    screen = console()
    assert isinstance(screen, Pipe)
    screen.print(Group(Text("long " * 4000 + "end"), table))
    assert capsys.readouterr().out == "long " * 4000 + "end\npoints\n x  about\n10  ten\n"


def test_a_terminal_gets_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    assert not isinstance(console(), Pipe)
