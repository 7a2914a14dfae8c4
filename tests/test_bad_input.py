"""What a person reads when code or input of theirs is not what coevo needs: a message, a place, a next step."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from toyrun import workspace

from coevo.cli import main
from coevo.errors import CoevoError, ConfigError, explained

SHORT = ("es.generations=1", "es.population=2", "es.tasks_per_generation=2", "evaluate.tasks=2")

THEIRS = """
import time
from coevo.testing import FakeEngine, ToyTaskSet, toy_graph
from langgraph.graph import END, START, MessagesState, StateGraph

def raises(*args, **options):
    raise RuntimeError("no luck")

def nothing(*args, **options):
    return None

class NoTasks(ToyTaskSet):
    tasks = raises

class NoPool(ToyTaskSet):
    pool = raises

class Analyst:
    name = "mine"
    analyse = raises

class Silent:
    name = "mine"
    async def analyse(self, skill, selection):
        return None

def once(node, again=False):
    graph = StateGraph(MessagesState)
    graph.add_node("work", node)
    graph.add_edge(START, "work")
    graph.add_edge("work", "work" if again else END)
    return graph

def leaves(state):
    raise SystemExit(0)

def blocks(state):
    time.sleep(600)

raising, leaving, blocking = once(raises), once(leaves), once(blocks)
endless = once(lambda state: {}, again=True)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy experiment with a file of code that fails in every way."""
    workspace(tmp_path)
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "unreadable.py").write_text("x = 1\ndef (\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments: str) -> str:
    """Standard error of a command that fails, without a traceback."""
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("tasks.set=theirs.py:raises", "task set 'theirs.py:raises' raised RuntimeError: no luck"),
        ("tasks.set=theirs.py:nothing", "made a NoneType, not a task set"),
        ("tasks.set=theirs.py:NoTasks", "task set 'theirs.py:NoTasks' raised RuntimeError: no luck"),
        (
            "tasks.set=theirs.py:NoPool",
            "the pool of task set 'theirs.py:NoPool' raised RuntimeError: no luck",
        ),
        ("tasks.options.train='x'", "raised TypeError: 'str' object cannot be interpreted as an integer"),
        ("model.engine=theirs.py:raises", "model.engine = 'theirs.py:raises' raised RuntimeError: no luck"),
        ("model.engine=theirs.py:nothing", "made a NoneType, not an engine"),
        ("skill.analyst=theirs.py:raises", "skill.analyst = 'theirs.py:raises' raised RuntimeError"),
        ("skill.analyst=theirs.py:nothing", "made a NoneType, not an analyst"),
        ("skill.analyst=theirs.py:Analyst", "the analyst 'mine' raised RuntimeError: no luck"),
        ("skill.analyst=theirs.py:Silent", "the analyst 'mine' raised TypeError: 'NoneType'"),
    ],
)
def test_code_that_is_not_what_it_should_be_is_named(work: Path, override: str, expected: str) -> None:
    text = refused("run", "-q", "toy.toml", *SHORT, override)
    assert expected in text
    assert "  → " in text
    if "no luck" in text:
        assert re.search(r"see .*theirs\.py, line 7\n", text)


@pytest.mark.parametrize(
    ("file", "expected", "line"),
    [("unreadable.py", "SyntaxError: invalid syntax", 2), ("leaves.py", "SystemExit: 0", 2)],
)
@pytest.mark.parametrize("key", ["agent.graph", "tasks.set", "model.engine", "skill.analyst"])
def test_a_file_that_cannot_be_loaded_names_the_line(
    work: Path, key: str, file: str, expected: str, line: int
) -> None:
    text = refused("run", "-q", "toy.toml", f"{key}={file}:name")
    assert expected in text
    assert f"see {work / file}, line {line}\n" in text


def test_errors_of_coevo_pass_through_as_they_are() -> None:
    with pytest.raises(ConfigError, match=r"^mine$"), explained("the file", CoevoError):
        raise ConfigError("mine")


@pytest.mark.parametrize("override", ["tasks.set=coevo.testing:nope", "agent.graph=theirs.py:nope"])
def test_a_wrong_name_is_told_before_a_run_is(work: Path, override: str) -> None:
    result = CliRunner().invoke(main, ["run", "toy.toml", override], catch_exceptions=False)
    assert result.exit_code == 1
    assert result.stdout == "", "no `run toy-1: 0 of 3 generations done`"
    assert "nope" in result.stderr


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_an_empty_split_is_found_before_the_first_episode(work: Path, split: str) -> None:
    assert f"the task set has no {split} tasks" in refused(
        "run", "-q", "toy.toml", f"tasks.options.{split}=0"
    )
    database = sqlite3.connect(work / "runs" / "coevo.sqlite")
    assert database.execute("SELECT count(*) FROM episodes").fetchone() == (0,)
    database.close()


def test_a_model_that_is_missing(work: Path) -> None:
    text = refused("run", "toy.toml", "model.engine=transformers", "model.id=./nowhere")
    assert "model.id = './nowhere': there is no such file or directory" in text
    assert f"looked for {work / 'nowhere'}" in text
    (work / "empty").mkdir()
    text = refused("run", "toy.toml", "model.engine=transformers", "model.id=./empty")
    assert "has no config.json" in text
    assert "save_pretrained" in text


@pytest.mark.parametrize(
    ("graph", "category", "error"),
    [
        ("raising", "agent_error", "RuntimeError: no luck"),
        ("endless", "turn_limit", "the graph went round without end"),
    ],
)
def test_an_agent_that_raises_or_never_stops_is_told_and_counted(
    work: Path, graph: str, category: str, error: str
) -> None:
    result = CliRunner().invoke(
        main, ["run", "toy.toml", *SHORT, f"agent.graph=theirs.py:{graph}"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    note = f"the agent raised in every episode; most often: {error}"
    assert (note in result.output) == (category == "agent_error")
    database = sqlite3.connect(work / "runs" / "coevo.sqlite")
    rows = database.execute("SELECT DISTINCT outcome, category, error FROM episodes").fetchall()
    database.close()
    assert [(outcome, kind) for outcome, kind, _ in rows] == [("failure", category)]
    assert error in rows[0][2]


def test_places_that_cannot_be_written(work: Path) -> None:
    CliRunner().invoke(main, ["run", "-q", "toy.toml", *SHORT], catch_exceptions=False)
    assert "nowhere/x.svg: No such file or directory" in refused("report", "--svg", "nowhere/x.svg")
    assert "agent.py" in refused("skills", "export", "toy-1", "agent.py/inside")
    assert "agent.py" in refused("export", "toy-1", "agent.py/inside")
    assert "agent.py/agents" in refused("init", "agent.py")


def test_evaluations_that_measure_nothing(work: Path) -> None:
    CliRunner().invoke(main, ["run", "-q", "toy.toml", *SHORT], catch_exceptions=False)
    assert "evaluate.repeats = 0: input should be greater than or equal to 1" in refused(
        "eval", "toy-1", "--repeats", "0"
    )
    assert "evaluate.tasks = -1" in refused("eval", "toy-1", "--tasks", "-1")
    assert "no run 'toy-7'" in refused("skills", "list", "--run", "toy-7")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("es.sigma=inf", "es.sigma = inf: input should be a finite number"),
        ("sampling.presence_penalty=nan", "sampling.presence_penalty = nan"),
        ("seed=99999999999999999999999", "seed = 99999999999999999999999: input should be less than"),
        ("es=3", "es = 3: input should be a table"),
        ("tasks.options=3", "tasks.options = 3: input should be a table"),
        ("sampling.stop='x'", "sampling.stop = 'x': input should be a list"),
        ("es.sigma=", "'es.sigma=' has no value"),
    ],
)
def test_values_that_cannot_be(work: Path, override: str, expected: str) -> None:
    assert expected in refused("run", "toy.toml", override)


def test_an_agent_that_exits_does_not_end_the_run_without_a_word(work: Path) -> None:
    text = refused("run", "toy.toml", *SHORT, "agent.graph=theirs.py:leaving")
    assert "code of the agent or of its world raised SystemExit: 0" in text
    assert "theirs.py, line " in text


def test_an_agent_that_blocks_its_thread_meets_the_deadline_and_holds_up_nobody(work: Path) -> None:
    command = [sys.executable, "-m", "coevo.cli", "run", "toy.toml", *SHORT, "agent.graph=theirs.py:blocking"]
    result = subprocess.run(
        [*command, "agent.deadline_s=0.2", "agent.retries=0"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 1
    assert (
        "evaluate base+seed: all 2 episodes were invalid; most often: not finished after 0.2 s"
        in result.stderr
    )


def test_a_terminal_without_unicode_gets_question_marks(work: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "coevo.cli", "check", "toy.toml", "--quick"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert b"3 generations ? 6 members" in result.stdout


def test_an_error_inside_a_library_names_the_line_that_called_it(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text("import json\n\n\ndef raises():\n    return json.loads('no JSON')\n")
    namespace: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    with pytest.raises(ConfigError) as caught, explained("their function", ConfigError):
        namespace["raises"]()  # type: ignore[operator]
    assert caught.value.message.startswith("their function raised JSONDecodeError: ")
    assert caught.value.hint == f"see {file}, line 5"
