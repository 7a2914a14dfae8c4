"""What is told of searches: finished, killed, failed, with nothing valid, and several side by side."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from toysearch import search_workspace

from coevo.cli import main
from coevo.config import load_experiment
from coevo.env import Outcome
from coevo.eoh import SearchReport, make_search_report, run_search
from coevo.eoh.curves import render_curves
from coevo.lock import RunLock
from coevo.problem import Reference
from coevo.progress import Progress
from coevo.store import Store


def ask(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1, result.output
    return result.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a finished search."""
    directory = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        asyncio.run(run_search(load_experiment(search_workspace(directory), ["search.budget=40"])))
    return directory


@pytest.fixture
def work(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(finished)
    return finished


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The database of a workspace, with a search `toy-1` that has no rows yet and that no process executes."""
    monkeypatch.chdir(tmp_path)
    experiment = load_experiment(search_workspace(tmp_path))
    opened = Store.open(tmp_path / "runs" / "coevo.sqlite")
    run = {"id": "toy-1", "name": "toy", "status": "running", "seed": 8, "created_at": "2026-01-01"}
    config = {
        "config": experiment.model_dump(mode="json"),
        "provenance": {"directory": str(tmp_path), "origin": [str(tmp_path / "toy.toml"), "name=my run"]},
    }
    opened.put("runs", run | config)
    opened.flush_sync()
    return opened


def put(store: Store, number: int, **values: Any) -> None:
    common = {"run": "toy-1", "problem": "doubling", "turn": 0, "generation": 0, "operator": "i1"}
    row = {"id": f"toy-1.t0.{number}", "number": number, "parents": [], "status": "ok", **values}
    store.put("heuristics", common | row)
    store.flush_sync()


def test_a_killed_search_is_called_the_same_everywhere_and_told_how_to_continue(store: Store) -> None:
    with store:
        for arguments in (("runs",), ("show", "toy-1"), ("heuristics", "report"), ("report",)):
            text = ask(*arguments)
            assert "interrupted" in text
            assert "running" not in text
        lines = ask("heuristics", "report").splitlines()
        assert lines[0] == "run toy-1 · doubling · EoH+ES · interrupted · seed 8"
        assert lines[1] == "to continue it: coevo run toy.toml 'name=my run'"
        Path("toy.toml").unlink()
        assert "to continue it: the same `coevo run` as before" in ask("heuristics", "report")
        lock = RunLock.acquire(store.path, "toy-1")
        text = ask("heuristics", "report")
        assert "running" in text
        assert "to continue" not in text
        lock.release()


def test_a_failed_search_says_why(store: Store) -> None:
    with store:
        store.update("runs", "toy-1", {"status": "failed", "error": "ConfigError: no scale"})
        store.flush_sync()
        lines = ask("heuristics", "report").splitlines()
        assert lines[0] == "run toy-1 · doubling · EoH+ES · failed · seed 8", (
            "the problem's name, not its factory"
        )
        assert lines[1] == "ConfigError: no scale"
        assert lines[2].startswith("to continue it: coevo run toy.toml")
        assert not any(line == "turns" or line.startswith("best heuristics") for line in lines), (
            "no empty tables"
        )


def test_nothing_valid_is_told_with_reasons(store: Store) -> None:
    with store:
        for number in range(5):
            put(store, number, status="bad_reply", error=f"no object of kind {min(number, 3) % 3}")
        put(store, 5, status="exception", error="ZeroDivisionError: by zero")
        lines = [line.split(maxsplit=2) for line in ask("heuristics", "report").splitlines()]
        assert ["bad_reply", "5", "no object of kind 0"] in lines
        assert ["exception", "1", "ZeroDivisionError: by zero"] in lines
        assert json.loads(ask("heuristics", "report", "--json"))["failures"][0] == {
            "status": "bad_reply",
            "count": 5,
            "example": "no object of kind 0",
        }
        assert "run toy-1 has no valid heuristic" in refused("heuristics", "show", "toy-1")


def test_json_has_no_json_within(work: Path) -> None:
    shown = json.loads(ask("heuristics", "show", "toy-1", "--json"))
    rows = [shown["heuristic"], *shown["scores"], *shown["lineage"]]
    assert all(isinstance(row["objectives"], list) for row in rows)
    assert all(isinstance(row["parents"], list) for row in shown["lineage"])
    assert json.loads(ask("show", shown["heuristic"]["id"], "--json")) == {"kind": "heuristic", **shown}


def test_the_best_of_a_run_is_the_one_it_named(work: Path) -> None:
    best = json.loads(ask("heuristics", "report", "--json"))["best"][0]
    shown = json.loads(ask("heuristics", "show", "toy-1", "--json"))["heuristic"]
    assert shown["named_best"]
    assert shown["id"] == best["id"]
    assert "named best by toy-1" in ask("heuristics", "show", "toy")
    heading, *code = ask("heuristics", "show", "toy-1", "--code").splitlines(keepends=True)
    assert heading.startswith(f"# {shown['id']} of doubling: train ")
    assert "".join(line for line in code if not line.startswith("# ")) == shown["code"]
    listed = json.loads(ask("heuristics", "list", "--best", "40", "--json"))
    assert [row["id"] for row in listed if row["named_best"]] == [best["id"]]
    assert "there is no heuristic nobody, and no run 'nobody'" in refused("heuristics", "show", "nobody")


def test_the_best_are_listed_once_and_the_named_one_is_marked(store: Store) -> None:
    with store:
        put(store, 0, objective=2.0, objectives=[1.0, 3.0], code="a")
        put(store, 1, objective=2.0, objectives=[1.0, 3.0], code="b")
        put(store, 2, objective=1.5, objectives=[1.0, 2.0], code="c")
        assert "named best" not in ask("heuristics", "list", "--best", "3")
        for split in ("val", "test"):
            store.put("heuristic_scores", {"heuristic": "toy-1.t0.0", "split": split, "objective": 1.0})
        store.flush_sync()
        header, *rows = (
            re.split("  +", line) for line in ask("heuristics", "list", "--best", "3").splitlines()
        )
        assert header == ["id", "operator", "objective", "named best", "status", "thought"]
        assert [row[:1] + row[3:] for row in rows] == [["toy-1.t0.2", "ok"], ["toy-1.t0.0", "yes", "ok"]]
        assert ask("heuristics", "list", "--best", "1").splitlines()[-1] == "named best: toy-1.t0.0"


def test_numbers_and_words_are_the_same_everywhere(store: Store) -> None:
    with store:
        put(store, 0, objective=6.6955912, code="a", thought="straight on")
        for arguments in (("report",), ("list",), ("list", "--best", "1"), ("show", "toy-1.t0.0")):
            text = ask("heuristics", *arguments)
            assert "6.69559" in text
            assert "6.695591" not in text
            assert "thought" in text
            assert "idea" not in text
        store.update("runs", "toy-1", {"status": "finished"})
        store.flush_sync()
        assert "6.69559" in ask("heuristics", "compare")


@pytest.mark.parametrize("known", [True, False])
def test_gaps_are_left_out_without_a_reference(store: Store, known: bool) -> None:
    if not known:
        path = Path("toysearch.py")
        path.write_text(path.read_text().replace("return Reference(", "return None and Reference("))
    with store:
        put(store, 0, objective=1.0, code="a")
        store.put("heuristic_scores", {"heuristic": "toy-1.t0.0", "split": "val", "objective": 1.0})
        store.flush_sync()
        assert ("gap" in ask("heuristics", "report")) is known
        assert "the reference" in ask("heuristics", "report") or not known
        assert "gap" not in ask("heuristics", "show", "toy-1.t0.0")


def test_the_simple_heuristic_is_told_of_every_search(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`seed_code` is off by x + 1: 3.75 on average."""
    assert "the problem's simple heuristic on train: 3.75, gap" in ask("heuristics", "report")
    monkeypatch.chdir(tmp_path)
    file = search_workspace(tmp_path)
    chance = ["search.author=chance", "search.language=formula", "search.budget=6"]
    experiment = load_experiment(file, chance)
    run = asyncio.run(run_search(experiment)).run
    with Store.open(experiment.database_path) as store:
        assert make_search_report(store, run).simple == 3.75


def test_a_search_tells_what_it_spent_on_fresh_instances_and_shows_them_go_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counts(Progress):
        def __init__(self) -> None:
            self.phases: list[tuple[str, int, int, str]] = []
            self.items, self.notes = 0, ""

        def phase(self, label: str, total: int, done: int, unit: str = "episodes") -> None:
            self.phases.append((label, total, done, unit))

        def episode(self, outcome: Outcome, reward: float | None) -> None:
            assert self.phases[-1][3] == "episodes"

        def item(self) -> None:
            self.items += 1

        def note(self, text: str) -> None:
            self.notes += f"{text}\n"

    monkeypatch.chdir(tmp_path)
    file, told = search_workspace(tmp_path), Counts()
    path = tmp_path / "toysearch.py"
    slow = '        points = POINTS[split]\n        if split != "train":\n            time.sleep(0.1)\n'
    text = path.read_text().replace("        points = POINTS[split]\n", slow)
    path.write_text(text.replace("from pathlib import Path\n", "import time\nfrom pathlib import Path\n"))
    asyncio.run(run_search(load_experiment(file, ["search.budget=20"]), progress=told))
    assert told.phases[-1] == ("fresh instances", 4, 0, "evaluations")
    assert told.items == 4
    assert "the simple heuristic of the problem: 3.75" in told.notes
    assert re.search(r" s of evaluation, 0\.[4-9] s more on fresh instances\n", told.notes)


@pytest.fixture
def made(work: Path) -> SearchReport:
    with Store.open(work / "runs" / "coevo.sqlite", readonly=True) as store:
        return make_search_report(store, "toy-1")


def variant(made: SearchReport, run: str, budget: int = 40, **values: Any) -> SearchReport:
    counted = replace(made.budget, candidates=budget)
    return replace(made, run=made.run | {"id": run}, budget=counted, **values)


LABEL = re.compile(r'text-anchor="start" fill="#\w+">([^<]+)<')


def test_every_line_of_a_picture_has_its_label(made: SearchReport) -> None:
    def labels(*reports: SearchReport) -> list[str]:
        return LABEL.findall(render_curves(reports))

    assert labels(made) == ["EoH+ES"]
    assert labels(made, variant(made, "b", arm="EoH")) == ["EoH+ES", "EoH"]
    assert labels(made, variant(made, "b", 80)) == ["EoH+ES, 40 candidates", "EoH+ES, 80 candidates"]
    assert labels(made, variant(made, "b")) == ["EoH+ES, toy-1", "EoH+ES, b"]
    dashes = re.findall(r"<path [^>]*stroke-width=\"1.6\"([^>]*)>", render_curves([made, variant(made, "b")]))
    assert len(set(dashes)) == 2
    many = [variant(made, str(number)) for number in range(17)]
    assert labels(*many) == ["EoH+ES, 17 runs"]


def test_a_picture_shows_where_the_runs_end(made: SearchReport) -> None:
    near = Reference(1.0, "a strong solver")
    curve = ((1, 1e6), (3, 50.0), (4, 3.0), (30, 2.0))
    other = variant(made, "b", 80, curve=((1, 5.0), (70, 1.5)), reference=near)
    picture = render_curves([variant(made, "a", curve=curve, reference=near), other])
    ticks = re.findall(r'text-anchor="end" fill="#333">([-\d.e+]+)<', picture)
    assert ticks == ["1", "2", "3", "4", "5"]
    assert "mean objective on train, smaller is better" in picture
    assert "a strong solver" in picture
    assert picture.count('stroke-dasharray="5 4"') == 1
    assert "budgets differ: 40 to 80 candidates; values above 5 are cut off" in picture


def test_a_constant_line_has_one_tick(made: SearchReport) -> None:
    picture = render_curves([variant(made, "a", curve=((1, 2.5),), reference=None)])
    assert re.findall(r'text-anchor="end" fill="#333">([-\d.e+]+)<', picture) == ["2.5"]
    assert "budgets differ" not in picture


def test_a_far_reference_is_told_instead_of_drawn(made: SearchReport) -> None:
    far = Reference(-100.0, "the optimum")
    picture = render_curves([variant(made, "a", curve=((1, 5.0), (30, 2.0)), reference=far)])
    assert "the optimum, -100, is outside the picture" in picture
    assert 'stroke-dasharray="5 4"' not in picture


def test_unequal_budgets_have_a_footnote(store: Store) -> None:
    with store:
        put(store, 0, objective=1.0, code="a")
        store.update("runs", "toy-1", {"status": "finished"})
        turn = {"run": "toy-1", "turn": 0, "generation": 0, "operator": "i1", "population": [], "children": 1}
        store.put("search_turns", turn)
        store.flush_sync()
        (row,) = store.query("SELECT * FROM runs")
        assert "budgets differ" not in ask("heuristics", "compare")
        store.put("runs", row | {"id": "toy-2"})
        store.put("search_turns", turn | {"run": "toy-2", "children": 3})
        store.flush_sync()
        assert "budgets differ" not in ask("heuristics", "compare", "toy-1")
        last = ask("heuristics", "compare").splitlines()[-1]
        assert last.startswith("budgets differ on doubling: 1 to 3 candidates")


def test_runs_that_do_not_belong_together_are_not_averaged_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = search_workspace(tmp_path)
    chance = ["search.author=chance", "search.language=formula", "search.budget=10"]
    for overrides in ([], ["search.population=4"], ["search.population=4", "name=again"], ["search.size=3"]):
        asyncio.run(run_search(load_experiment(file, [*chance, *overrides])))
    told = ask("heuristics", "compare")
    assert "doubling (train: size 3)" in told
    whole = " ".join(told.split())
    assert "the runs of EoH, no model with 10 candidates on doubling differ in search.population" in whole
    assert "have a seed twice (8)" in whole
    arms = {arm["problem"]: arm for arm in json.loads(ask("heuristics", "compare", "--json"))}
    assert arms["doubling"]["differing"] == ["search.population"]
    assert arms["doubling (train: size 3)"]["runs"] == 1
    assert (
        "exclude each other"
        in CliRunner().invoke(main, ["heuristics", "list", "--best", "1", "--failed"]).output
    )
