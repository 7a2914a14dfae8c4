"""The command line: what it prints, what it refuses, and that its help is instant and in the docs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from toyrun import workspace

from coevo.cli import main
from coevo.cli.reference import reference

ROOT = Path(__file__).parent.parent
HEAVY = (
    "torch",
    "transformers",
    "langgraph",
    "langchain_core",
    "playwright",
    "pydantic",
    "sqlite_utils",
    "rich",
)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def good(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def bad(*arguments: str) -> str:
    """What is printed to standard error by a command that fails."""
    result = call(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output
    return result.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one finished run."""
    directory = tmp_path_factory.mktemp("work")
    workspace(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        text = good("run", "toy.toml", "es.generations=4", "skill.confidence=0.55")
    assert "run toy-1 is finished" in text
    assert "next: coevo report toy-1 --grid" in text
    return directory


@pytest.fixture
def work(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(finished)
    return finished


class TestHelp:
    def test_help_loads_nothing_heavy(self) -> None:
        code = (
            "import sys\nfrom coevo.cli import main\nmain(['--help'], standalone_mode=False)\n"
            f"print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert "loaded: []" in done.stdout
        assert "Run an experiment" in done.stdout

    def test_the_docs_are_the_help(self) -> None:
        page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        assert page == reference(), "python -m coevo.cli.reference > docs/cli.md"

    @pytest.mark.parametrize(
        "command",
        ["init", "check", "run", "eval", "report", "runs", "show", "export"]
        + [f"skills {name}" for name in ("list", "show", "diff", "export")]
        + [f"db {name}" for name in ("schema", "path", "query")],
    )
    def test_every_command_is_in_the_docs_with_an_example(self, command: str) -> None:
        page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
        section = page.split(f"# coevo {command}\n")[1].split("\n#")[0]
        assert section.count(f"coevo {command}") >= 2, "usage line and an example"


class TestInit:
    def test_it_copies_the_starter_set_and_is_harmless_twice(self, tmp_path: Path) -> None:
        text = good("init", str(tmp_path / "w"))
        for name in ("agents/web.py", "skills/web/SKILL.md", "miniwob.toml"):
            assert (tmp_path / "w" / name).is_file()
            assert name in text
        assert "coevo check miniwob.toml" in text
        assert "coevo run tsp_construct_small.toml search.author=chance" in text
        assert "agents/web.py" not in good("init", str(tmp_path / "w"))

    def test_it_never_overwrites_what_somebody_changed(self, tmp_path: Path) -> None:
        (tmp_path / "miniwob.toml").write_text("mine")
        assert "has other versions of miniwob.toml" in bad("init", str(tmp_path))
        assert (tmp_path / "miniwob.toml").read_text() == "mine"
        assert not (tmp_path / "agents").exists()

    def test_a_build_carries_the_starter_set(self, tmp_path: Path) -> None:
        source = tmp_path / "source"
        ignore = shutil.ignore_patterns("__pycache__")
        for folder in ("agents", "skills", "webarena", "coevo"):
            shutil.copytree(ROOT / folder, source / folder, ignore=ignore)
        for name in ("pyproject.toml", "setup.py", "MANIFEST.in"):
            shutil.copy(ROOT / name, source)
        for name in ("README.md", "LICENSE"):
            (source / name).touch()
        subprocess.run(
            [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "built")],
            cwd=source,
            check=True,
            capture_output=True,
        )
        starter = tmp_path / "built" / "coevo" / "_starter"
        for name in ("agents/web.py", "skills/web/SKILL.md"):
            assert (starter / name).read_bytes() == (ROOT / name).read_bytes()
        assert (starter / "miniwob.toml").read_bytes() == (ROOT / "webarena" / "miniwob.toml").read_bytes()


class TestCheck:
    def test_everything_works(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        checks = json.loads(good("check", "toy.toml", "--json"))
        assert [check["name"] for check in checks] == [
            *(
                "experiment",
                "packages",
                "skill",
                "analyst",
                "agent",
                "tasks",
                "disk",
                "database",
                "world",
                "model",
                "episode",
            )
        ]
        assert {check["status"] for check in checks} == {"ok"}
        assert not (tmp_path / "runs").exists(), "a check leaves nothing behind"
        text = good("check", "toy.toml", "--quick")
        assert "✓" in text
        assert "12 train, 12 dev, 9 test" in text
        assert "model" not in text

    @pytest.mark.parametrize(
        ("override", "name", "expected"),
        [
            ("agent.graph=nowhere.py:graph", "agent", "there is no such file"),
            ("agent.graph=agent.py:grahp", "agent", "grahp"),
            ("agent.skill=nothing", "skill", "there is no such file or directory"),
            ("tasks.set=coevo.testing:toy_taks", "tasks", "has no 'toy_taks'"),
            ("tasks.set=coevo.tseting:toy_tasks", "tasks", "there is no module 'coevo.tseting'"),
            ("tasks.set=toy_tasks", "tasks", "not of the form module:name"),
            ("tasks.options.trian=3", "tasks", "trian"),
            ("tasks.options.test=0", "tasks", "no test tasks"),
            ("model.engine=engine.py:mkae", "model", "mkae"),
            ("model.engine=warp", "model", "unknown engine 'warp'"),
            ("skill.analyst=oracle", "analyst", "known analysts: miner"),
            ("es.sigmaa=1", "experiment", "Did you mean es.sigma?"),
        ],
    )
    def test_what_is_missing_is_named_with_the_next_step(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, name: str, expected: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        result = call("check", "toy.toml", override, "--json")
        assert result.exit_code == 1
        failed = {check["name"]: check for check in json.loads(result.stdout) if check["status"] == "failed"}
        assert list(failed) == [name]
        assert expected in failed[name]["detail"] + failed[name]["next_step"]
        assert failed[name]["next_step"]

    def test_what_needs_something_missing_is_skipped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        result = call("check", "toy.toml", "agent.graph=nowhere.py:graph", "--json")
        checks = {check["name"]: check for check in json.loads(result.stdout)}
        assert (checks["episode"]["status"], checks["episode"]["detail"]) == ("skipped", "needs agent")

    def test_an_agent_that_raises_is_found_before_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        (tmp_path / "agent.py").write_text(RAISING)
        result = call("check", "toy.toml", "--json")
        episode = json.loads(result.stdout)[-1]
        assert (episode["name"], episode["status"]) == ("episode", "failed")
        assert "ZeroDivisionError" in episode["detail"]

    def test_the_other_package_called_webarena_is_pointed_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from importlib import metadata

        known = metadata.version
        monkeypatch.setattr(
            metadata, "version", lambda name: "0.0.4" if name == "libwebarena" else known(name)
        )
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        checks = {
            check["name"]: check for check in json.loads(good("check", "toy.toml", "--quick", "--json"))
        }
        assert checks["packages"]["status"] == "warning"
        assert "pip uninstall libwebarena" in checks["packages"]["next_step"]


class TestRun:
    def test_a_finished_run_is_not_repeated(self, work: Path) -> None:
        text = good("run", "toy.toml", "es.generations=4", "skill.confidence=0.55")
        assert "run toy-1 of this experiment is finished; --new starts another one" in text

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (("run", "nothing.toml"), "there is no experiment file nothing.toml"),
            (("run", "toy.toml", "es.sigma=0"), "es.sigma = 0"),
            (("run", "toy.toml", "tasks.set=coevo.testing:nope"), "has no 'nope'"),
            (("run", "toy.toml", "database=."), "is a folder"),
        ],
    )
    def test_errors_are_a_message_and_a_next_step(
        self, work: Path, arguments: tuple[str, ...], expected: str
    ) -> None:
        assert expected in bad(*arguments)

    def test_the_database_is_named_as_everywhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        short = ("run", "toy.toml", "es.generations=1", "schedule.mode=weights", "evaluate.grid=false", "-q")
        assert "next: coevo report toy-1 --db 'my runs/a.sqlite'\n" in good(
            *short, "--db", "my runs/a.sqlite"
        )
        assert "is finished; --new" in good(*short, "database='my runs/a.sqlite'"), "the same database"
        monkeypatch.setenv("COEVO_DB", "b.sqlite")
        good(*short)
        assert [row["id"] for row in json.loads(good("runs", "--json"))] == ["toy-1"]
        good(*short, "database=c.sqlite")
        assert sorted(path.name for path in tmp_path.rglob("*.sqlite")) == [
            "a.sqlite",
            "b.sqlite",
            "c.sqlite",
        ]
        checks = {one["name"]: one for one in json.loads(good("check", "toy.toml", "--quick", "--json"))}
        assert checks["database"]["detail"] == "b.sqlite: 1 runs"
        assert "--db d.sqlite and database=e.sqlite" in bad(*short, "--db", "d.sqlite", "database=e.sqlite")

    def test_progress_is_lines_when_it_is_not_a_terminal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        text = good("run", "toy.toml", "es.generations=1", "schedule.mode=weights")
        assert "run toy-1: 0 of 1 generations done" in text
        assert "generation 0: reward 0." in text
        assert "σ 0.5" in text
        assert "\x1b" not in text
        assert (
            good("run", "toy.toml", "es.generations=1", "schedule.mode=weights", "--new", "-q").count("\n")
            == 2
        )


class TestResults:
    def test_report_and_grid(self, work: Path) -> None:
        text = good("report", "--svg", "curve.svg")
        assert "run toy-1 · finished · seed 5" in text
        assert "generations" in text
        assert "skill versions" in text
        picture = (work / "curve.svg").read_text()
        assert picture.startswith("<svg")
        arms = json.loads(good("report", "--json"))["evaluations"]
        assert all(f">{row['arm']}</text>" in picture for row in arms if row["generation"] == 4)
        grid = good("report", "toy-1", "--grid")
        assert "mean reward on 9 held-out tasks (test), 95 % intervals" in grid
        for name in (
            "base weights",
            "evolved weights",
            "weights alone",
            "skill alone",
            "both",
            "interaction",
        ):
            assert name in grid

    def test_the_grid_adds_up(self, work: Path) -> None:
        grid = json.loads(good("report", "toy-1", "--grid", "--json"))
        cells = {cell["arm"]: cell["estimate"]["mean"] for cell in grid["cells"]}
        for arm, gain in grid["gains"].items():
            assert gain["mean"] == pytest.approx(cells[arm] - cells["base+seed"])
            assert gain["lower"] <= gain["mean"] <= gain["upper"]
        assert grid["interaction"]["mean"] == pytest.approx(
            cells["evolved+evolved"] - cells["evolved+seed"] - cells["base+evolved"] + cells["base+seed"]
        )
        report = json.loads(good("report", "--json"))
        assert len(report["points"]) == 4
        assert report["grid"] == grid

    def test_runs(self, work: Path) -> None:
        assert "toy-1" in good("runs")
        rows = json.loads(good("runs", "--json"))
        assert [(row["id"], row["status"], row["generations"]) for row in rows] == [("toy-1", "finished", 4)]

    def test_times_are_to_the_second_and_show_gives_the_setting(self, work: Path) -> None:
        import re

        assert len(re.findall(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", good("runs"))) == 2
        text = good("show", "toy-1")
        assert "4 generations × 6 members" in text
        assert re.search(r"rollout +96 episodes, \d+ successes, 0 invalid", text)

    def test_the_report_follows_the_centre_on_held_out_tasks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        workspace(tmp_path)
        text = good("run", "toy.toml", "evaluate.every=1", "evaluate.grid=false", "schedule.mode=weights")
        assert "next: coevo report toy-1\n" in text, "there is no grid to point at"
        (line,) = [line for line in good("report").splitlines() if line.startswith("held-out test")]
        assert " after 1, " in line
        assert line.rstrip().endswith("after 3 generations")

    def test_a_killed_run_is_called_interrupted(self, work: Path, tmp_path: Path) -> None:
        from coevo.store import Store

        copy = tmp_path / "copy.sqlite"
        shutil.copy(work / "runs" / "coevo.sqlite", copy)
        with Store.open(copy) as store:
            store.update("runs", "toy-1", {"status": "running"})
        assert json.loads(good("runs", "--db", str(copy), "--json"))[0]["status"] == "interrupted"
        report = good("report", "toy-1", "--db", str(copy))
        assert (
            "run toy-1 · interrupted · seed 5\nto continue it: coevo run toy.toml es.generations=4" in report
        )
        assert json.loads(good("show", "toy-1", "--db", str(copy), "--json"))["status"] == "interrupted"

    def test_show_follows_the_chain_from_skill_to_model_call(self, work: Path) -> None:
        versions = json.loads(good("skills", "list", "--run", "toy-1", "--json"))
        version = json.loads(good("show", versions[0]["id"], "--json"))
        assert version["kind"] == "skill version"
        evidence = next(edit["evidence"] for edit in version["edits"] if edit["evidence"])
        episode = json.loads(good("show", evidence[0], "--json"))
        assert (episode["kind"], episode["phase"]) == ("episode", "rollout")
        conversation = json.loads(good("show", f"{evidence[0]}.0", "--json"))
        assert conversation["kind"] == "call"
        assert conversation["messages"][-1]["role"] == "assistant"
        for ident in (versions[0]["id"], evidence[0][:10], f"{evidence[0]}.0", "toy-1"):
            assert good("show", ident)

    def test_show_of_nothing_and_of_several(self, work: Path) -> None:
        assert "nothing in" in bad("show", "zzz")
        assert "fits several" in bad("show", "toy-1.g")

    def test_eval(self, work: Path) -> None:
        rows = json.loads(
            good("eval", "toy-1", "--arm", "base+seed", "--split", "dev", "--tasks", "4", "--json")
        )
        assert [(row["arm"], row["split"], row["episodes"]) for row in rows] == [("base+seed@dev", "dev", 4)]

    def test_export(self, work: Path, tmp_path: Path) -> None:
        text = good("export", "toy-1", str(tmp_path / "model"))
        assert "from_pretrained" not in text, "the toy engine saves no Hugging Face model"
        facts = json.loads((tmp_path / "model" / "coevo.json").read_text())
        last = json.loads(
            good(
                "db",
                "query",
                "SELECT checksum FROM es_steps WHERE status = 'applied' ORDER BY step DESC",
                "--json",
            )
        )
        assert facts["checksum"] == last[0]["checksum"]
        assert "is not empty" in bad("export", "toy-1", str(tmp_path / "model"))

    def test_no_database_yet(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert "there is no database" in bad("runs")

    def test_an_unknown_run(self, work: Path) -> None:
        assert "no run 'nope'" in bad("report", "nope")
        assert "`coevo runs` lists them" in bad("report", "nope")


class TestSkills:
    def versions(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(good("skills", "list", "--json"))
        return rows

    def test_list_show_and_diff(self, work: Path) -> None:
        rows = self.versions()
        assert rows[0]["status"] == "seed"
        assert rows[0]["id"] in good("skills", "list")
        assert good("skills", "show", rows[0]["id"]).startswith("---\nname:")
        proposed = next(row for row in rows if row["parent"])
        text = good("skills", "diff", proposed["id"])
        assert f"--- {proposed['parent']}" in text
        assert f"+++ {proposed['id']}" in text
        assert any(line.startswith("+") and not line.startswith("+++") for line in text.splitlines())
        assert "is a seed: it has no parent" in bad("skills", "diff", rows[0]["id"])
        assert good("skills", "diff", proposed["parent"], proposed["id"]) == text, (
            "from the first to the second"
        )

    def test_export_gives_a_valid_stamped_skill(self, work: Path, tmp_path: Path) -> None:
        from coevo.skill import SkillDocument

        good("skills", "export", "toy-1", str(tmp_path))
        document = SkillDocument.load(tmp_path / "press")
        assert document.metadata["coevo-version"]
        assert "there is no skill version 'nope'" in bad("skills", "export", "nope", str(tmp_path))


class TestDatabase:
    def test_path_schema_and_query(self, work: Path) -> None:
        assert good("db", "path").strip() == str(work / "runs" / "coevo.sqlite")
        assert "skill_versions" in good("db", "schema")
        only = good("db", "schema", "runs")
        assert "provenance" in only
        assert "skill_versions" not in only
        rows = json.loads(good("db", "query", "SELECT count(*) AS n FROM runs", "--json"))
        assert rows == [{"n": 1}]
        assert "tables: " in bad("db", "schema", "nope")

    def test_a_wide_row_is_printed_one_value_a_line(self, work: Path) -> None:
        text = good("db", "query", "SELECT * FROM episodes LIMIT 2")
        (first, _) = [line for line in text.splitlines() if line.startswith("id ")]
        assert len(first.split()[1]) == 16, "nothing is cut off"
        assert text.count("\n\n") == 1, "two rows"
        assert good("db", "query", "SELECT id, reward FROM episodes LIMIT 2").count("\n") == 3

    def test_queries_only_read(self, work: Path) -> None:
        assert "query failed" in bad("db", "query", "DELETE FROM runs")
        assert "query failed" in bad("db", "query", "SELEC 1")

    def test_a_database_of_a_newer_version(self, work: Path, tmp_path: Path) -> None:
        import sqlite3

        copy = tmp_path / "newer.sqlite"
        shutil.copy(work / "runs" / "coevo.sqlite", copy)
        with sqlite3.connect(copy) as database:
            table = next(
                name
                for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if "migrations" in name
            )
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            values = {"migration_set": "coevo", "name": "m999_future", "applied_at": "2099-01-01"}
            names = [name for name in columns if name in values]
            database.execute(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
                [values[name] for name in names],
            )
        assert "written by a newer coevo" in bad("runs", "--db", str(copy))


RAISING = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from coevo.agent import AgentContext


class State(TypedDict, total=False):
    observation: str


def broken(state: State) -> State:
    raise ZeroDivisionError("oops")


graph = StateGraph(State, context_schema=AgentContext)
graph.add_node("broken", broken)
graph.add_edge(START, "broken")
graph.add_edge("broken", END)
"""
