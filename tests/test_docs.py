"""The documentation holds: its examples run, its links and commands exist, and imports keep to the floors it describes."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest
from click.testing import CliRunner
from toyrun import workspace
from toysearch import search_workspace

from ahd.problems.construct_kp import ConstructKp
from coevo.agent import EpisodeSpec, load_graph, run_episode
from coevo.cli import main
from coevo.config import load_experiment
from coevo.engine.base import NoiseSpec, Request, Sampling
from coevo.env import Outcome, Task, TaskSet
from coevo.eoh import make_search_report, run_search
from coevo.eoh.skill import foreign_skill
from coevo.es import EsOperator
from coevo.starter import copy_starter
from coevo.store import Store, queries
from coevo.testing import FakeEngine, ToyTaskSet

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
EXEMPT = {"coevo.testing", "coevo.testing_agent", "coevo.testing_models"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every fenced block in a language."""
    return [
        (page.name, text) for page in PAGES for kind, text in FENCE.findall(read(page)) if kind == language
    ]


def examples() -> dict[str, str]:
    """The Python blocks that begin with a file name, by that name."""
    named = [(re.match(r"# (\S+\.py)\n", text), text) for _, text in blocks("python")]
    return {match[1]: text for match, text in named if match}


@pytest.fixture
def examples_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in examples().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def episode(
    graph: Any, tasks: TaskSet, task: Task, answers: list[str], directory: Path
) -> dict[str, Any]:
    """One episode as stored, in which a fake engine gives these answers."""
    spec = EpisodeSpec("docs", "rollout", 0, None, None, task, 1, None, None)
    with Store.open(directory / "docs.sqlite") as store:
        await run_episode(
            spec,
            graph=graph,
            generate=FakeEngine(answers).complete,
            pool=tasks.pool(1),
            sampling=Sampling(max_tokens=40),
            skill_text="Say what to press.",
            max_turns=3,
            deadline_s=20,
            store=store,
        )
        row = queries.episode(store, spec.id)
        row["prompt"] = queries.conversation(store, row["calls"][0]["id"])
        return row


class TestExamples:
    def test_every_python_block_has_a_file_name(self) -> None:
        assert len(examples()) == len(blocks("python"))

    async def test_a_state_graph(self, examples_on_disk: Path) -> None:
        tasks = ToyTaskSet(rounds=2)
        task = tasks.tasks("train")[0]
        press = f"press '{task.data['target']}'"
        row = await episode(load_graph("agents/buttons.py:graph"), tasks, task, [press] * 2, examples_on_disk)
        assert (row["outcome"], row["turns"]) == (Outcome.SUCCESS, 2)
        assert row["prompt"][0] == {"role": "system", "content": "Say what to press."}
        assert row["prompt"][1]["content"].endswith(f"Task: {task.goal}")

    async def test_a_graph_from_create_agent(self, examples_on_disk: Path) -> None:
        tasks = ToyTaskSet()
        task = tasks.tasks("train")[0]
        call = json.dumps({"name": "press_button", "arguments": {"name": task.data["target"]}})
        answers = [f"<tool_call>{call}</tool_call>"]
        row = await episode(load_graph("agents/presser.py:graph"), tasks, task, answers, examples_on_disk)
        assert (row["outcome"], row["turns"]) == (Outcome.SUCCESS, 1)
        assert row["prompt"][0]["content"] == "You press buttons.\n\nSay what to press."
        assert [used["tool"] for used in row["tool_calls"]] == ["press_button"]

    async def test_a_task_set(self, examples_on_disk: Path) -> None:
        sums: TaskSet = runpy.run_path("worlds/sums.py")["Sums"](train=4, dev=3, test=5)
        goals = [task.goal for split in ("train", "dev", "test") for task in sums.tasks(split)]
        assert len(goals) == len(set(goals)) == 12
        task = sums.tasks("dev")[0]
        answers = ["many", str(sum(int(part) for part in task.goal.split(" + ")))]
        row = await episode(load_graph("agents/buttons.py:graph"), sums, task, answers, examples_on_disk)
        assert (row["outcome"], row["turns"]) == (Outcome.SUCCESS, 2)
        assert row["steps"][1]["error"] == "write a number"

    def test_an_analyst_in_a_run(self, examples_on_disk: Path) -> None:
        workspace(examples_on_disk)
        overrides = ("skill.analyst=analysts/short.py:Short", "es.generations=1", "evaluate.tasks=2")
        (row,) = toy_run(examples_on_disk, *overrides, sql="SELECT text, analyst FROM edits LIMIT 1")
        assert (row["text"], row["analyst"]) == ("Keep the action short.", "short")

    async def test_a_reflection_loop_that_learns(self, examples_on_disk: Path) -> None:
        loop = runpy.run_path("loops/reflect.py")

        def answer(request: Request, theta: Sequence[float]) -> str:
            hint = 0.1 if "too small" in str(request.messages[-1]["content"]) else 0.0
            return f"{20 * (theta[0] + hint):.4f}"

        engine = FakeEngine(answer)
        es = EsOperator(engine, NoiseSpec(), size=16, sigma=0.2, alpha=0.3, antithetic=True)
        state = await loop["graph"].ainvoke({}, {"recursion_limit": 100}, context=loop["Context"](es))
        assert state["error"] == ""
        assert 1 < state["round"] == engine.weights_step < 40
        again = await loop["graph"].ainvoke({}, {"recursion_limit": 100}, context=loop["Context"](es))
        assert again["round"] < state["round"], "what was learned stays"

    def test_a_found_heuristic_in_use(self, examples_on_disk: Path) -> None:
        expressions = ConstructKp().expressions
        (examples_on_disk / "best.py").write_text(expressions.code("weight / value"))
        done = subprocess.run([sys.executable, "use_best.py"], capture_output=True, text=True, check=True)
        assert done.stdout == "0\n"

    async def test_a_problem_in_one_file(self, examples_on_disk: Path) -> None:
        search_workspace(examples_on_disk)
        overrides = [
            "search.problem=problems/online_bins.py:problem",
            "search.language=formula",
            "search.author=chance",
            "search.budget=20",
        ]
        experiment = load_experiment(examples_on_disk / "toy.toml", overrides)
        await run_search(experiment)
        with Store.open(experiment.database_path) as store:
            report = make_search_report(store, "toy-1")
        assert report.problem == "online_bins"
        assert report.budget.valid > 15
        assert 20 < report.best[0]["test"] < 40

    def test_the_small_search_on_another_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (line,) = [line for line in command_lines() if "search.problem=" in line and "name=" in line]
        copy_starter(tmp_path)
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(main, line.split()[1:], catch_exceptions=False)
        assert "run kp_small-1 is finished" in done.output
        assert "20 candidates" in done.output
        with Store.open(tmp_path / "runs" / "coevo.sqlite") as store:
            skill = queries.run(store, "kp_small-1")["provenance"]["seed_skill"].partition("@")[0]
            assert foreign_skill(skill, make_search_report(store, "kp_small-1").problem) is None

    def test_the_script(self, examples_on_disk: Path) -> None:
        done = subprocess.run(
            [sys.executable, "try_buttons.py"],
            capture_output=True,
            text=True,
            check=True,
            cwd=examples_on_disk,
        )
        assert done.stdout == "success in 1 turn\n"

    def test_the_sandbox(self, examples_on_disk: Path) -> None:
        done = subprocess.run(
            [sys.executable, "try_sandbox.py"],
            capture_output=True,
            text=True,
            check=True,
            cwd=examples_on_disk,
        )
        assert done.stdout.splitlines() == ["[1, 0]", "[1, 0]", "[[1, 2], [0, 2]]", "forbidden"]

    @pytest.mark.parametrize(
        "overrides", [(), ("model.engine=engine.py:make", "agent.graph=agents/presser.py:graph")]
    )
    def test_a_whole_run(self, examples_on_disk: Path, overrides: tuple[str, ...]) -> None:
        (file,) = [text for _, text in blocks("toml") if text.startswith("# toy.toml")]
        (skill,) = [text for _, text in blocks("markdown") if text.startswith("---\nname: buttons")]
        (examples_on_disk / "toy.toml").write_text(file, encoding="utf-8")
        (examples_on_disk / "skills" / "buttons").mkdir(parents=True)
        (examples_on_disk / "skills" / "buttons" / "SKILL.md").write_text(skill, encoding="utf-8")
        quick = ("es.generations=2", "es.population=4", "evaluate.tasks=6", "skill.dev_tasks=8")
        sql = "SELECT count(*) AS n FROM generations"
        assert toy_run(examples_on_disk, *quick, *overrides, sql=sql) == [{"n": 2}]

    @pytest.mark.parametrize("text", [text for _, text in blocks("toml")])
    def test_experiment_files_name_keys_that_exist(self, text: str, tmp_path: Path) -> None:
        import tomllib

        given = tomllib.loads(text)
        rest = {"model": {"id": "m"}, "agent": {"graph": "a.py:g", "skill": "s"}, "tasks": {"set": "t:t"}}
        whole = given | {table: values | given.get(table, {}) for table, values in rest.items()}
        (tmp_path / "whole.toml").write_text(toml(whole), encoding="utf-8")
        load_experiment(tmp_path / "whole.toml")


def toml(tables: dict[str, Any]) -> str:
    """Two levels of tables, with inline ones below: enough for the examples."""

    def value(given: Any) -> str:
        if isinstance(given, dict):
            return "{ " + ", ".join(f"{key} = {value(one)}" for key, one in given.items()) + " }"
        return json.dumps(given)

    return "\n".join(
        f"[{name}]\n" + "\n".join(f"{key} = {value(one)}" for key, one in table.items())
        for name, table in tables.items()
    )


def toy_run(directory: Path, *overrides: str, sql: str = "") -> list[dict[str, Any]]:
    """A toy run from start to end in `directory`; the rows of a query afterwards."""
    from coevo.loop import run_experiment

    database = directory / "runs.sqlite"
    experiment = load_experiment(directory / "toy.toml", [f"database={database}", *overrides])
    assert asyncio.run(run_experiment(experiment)).status == "finished"
    if not sql:
        return []
    with Store.open(database, readonly=True) as store:
        return store.query(sql)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a toy run."""
    directory = tmp_path_factory.mktemp("queries")
    workspace(directory)
    toy_run(directory, "es.generations=2", "skill.dev_tasks=8", "evaluate.grid=false", "evaluate.tasks=2")
    return directory / "runs.sqlite"


class TestQueries:
    @pytest.mark.parametrize(("page", "sql"), blocks("sql"))
    def test_they_find_something(self, page: str, sql: str, database: Path) -> None:
        with Store.open(database, readonly=True) as store:
            rows = store.query(sql.replace("miniwob-1", "toy-1"))
        assert rows or "outcome = 'invalid'" in sql, page


def command_lines() -> list[str]:
    """Every `coevo …` in the prose and the shell blocks of the pages, comments cut off."""
    lines = set()
    for page in PAGES:
        text = read(page)
        code = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
        code += [body for kind, body in FENCE.findall(text) if kind == "sh"]
        for line in re.findall(r"(?<![\w/-])coevo [a-z][^\n&|]*", "\n".join(code)):
            lines.add(re.sub(r"\s+#.*", "", line).strip())
    return sorted(lines)


class TestLinksAndCommands:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_local_links_resolve(self, page: Path) -> None:
        prose = FENCE.sub("", read(page))
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            assert file.exists(), f"{page.name}: {target}"
            if anchor:
                assert anchor in anchors(read(file)), f"{page.name}: {target}"

    def test_every_page_is_reached_from_the_readme(self) -> None:
        front = read(ROOT / "README.md")
        assert [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in front] == []

    @pytest.mark.parametrize("line", command_lines())
    def test_commands_and_options_exist(self, line: str) -> None:
        command: click.Command = main
        words = line.split()[1:]
        while words and isinstance(command, click.Group):
            inner = command.get_command(click.Context(command), words.pop(0))
            assert inner is not None, line
            command = inner
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word.strip("[]") for word in words if word.strip("[").startswith("-")} <= known, line

    def test_the_graphs_of_langgraph_json_load(self) -> None:
        listed = json.loads(read(ROOT / "langgraph.json"))
        assert json.loads(next(text for _, text in blocks("json"))) == listed
        for spec in listed["graphs"].values():
            graph = load_graph(spec, base=ROOT)
            assert graph.get_graph().nodes


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def modules() -> dict[str, Path]:
    """Every module of the packages and the agent files, by dotted name."""
    found = {}
    for folder in ("coevo", "webarena", "ahd", "agents"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path
    return found


def imports(module: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of ours that a module imports, wherever in the file."""
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else str(node.module) for name in inside]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in ("coevo", "webarena", "ahd", "agents"))


def floors() -> dict[str, int]:
    """Floor of each name in the list of docs/design.md, 0 at the bottom."""
    (text,) = [text for _, text in blocks("floors")]
    lines = [line.split() for line in reversed(text.strip().splitlines())]
    return {name: height for height, names in enumerate(lines) for name in names}


def floor_of(module: str, heights: dict[str, int]) -> int:
    """The floor of the longest listed name that a module belongs to. Raises KeyError for a module without a floor."""
    if module == "coevo":
        return 0
    parts = module.removeprefix("coevo.").split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in heights:
            return heights[name]
    raise KeyError(f"{module} has no floor: add it to the list in docs/design.md")


def import_graph() -> dict[str, list[str]]:
    """Every module of ours with the modules of ours that it imports."""
    known = modules()
    return {name: sorted(set(imports(name, path, known))) for name, path in known.items()}


class TestFloors:
    graph: ClassVar[dict[str, list[str]]] = import_graph()

    def test_no_import_runs_upwards(self) -> None:
        heights = floors()
        ours = [
            name for name in self.graph if name.split(".")[0] in ("coevo", "agents") and name not in EXEMPT
        ]
        upwards = [
            f"{name} → {target}"
            for name in ours
            for target in self.graph[name]
            if floor_of(target, heights) > floor_of(name, heights)
        ]
        assert upwards == []

    def test_every_floor_is_lived_on(self) -> None:
        used = {name.removeprefix("coevo.") for name in self.graph} | {"agents"}
        assert [name for name in floors() if name not in used] == []

    def test_no_circles(self) -> None:
        graph = {name: [t for t in targets if t != name] for name, targets in self.graph.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(" → ".join(error.args[1]))

    def test_packages_keep_apart(self) -> None:
        allowed = {
            *("coevo.env", "coevo.errors", "coevo.seeds", "coevo.problem"),
            *("coevo.sandbox", "coevo.sandbox.decisions"),
        }
        for name, targets in self.graph.items():
            package = name.split(".")[0]
            foreign = {target for target in targets if target.split(".")[0] != package}
            if package == "coevo":
                assert not foreign, name
                assert name in EXEMPT or not EXEMPT & set(targets), name
            elif package in ("webarena", "ahd"):
                assert foreign <= allowed | ({"coevo.cli.common"} if ".cli." in f"{name}." else set()), name
