"""Loading agents: what a graph file may hold, and what is said about one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevo.agent import load_graph
from coevo.errors import AgentError

GRAPH = """
from __future__ import annotations
from typing_extensions import TypedDict
from langgraph.graph import START, StateGraph
from coevo.agent import AgentContext

class State(TypedDict):
    goal: str

def work(state: State) -> State:
    return {"goal": state["goal"].upper()}

graph = StateGraph(State, context_schema=AgentContext)
graph.add_node("work", work)
graph.add_edge(START, "work")
compiled = graph.compile()

def make():
    return graph

def choosy(config):
    return graph

def broken():
    raise RuntimeError("no luck")

unconnected = StateGraph(State)
number = 7
"""


@pytest.fixture
def agent_file(tmp_path: Path) -> Path:
    path = tmp_path / "agents" / "mine.py"
    path.parent.mkdir()
    path.write_text(GRAPH)
    return path


@pytest.mark.parametrize("name", ["graph", "compiled", "make"])
def test_a_graph_a_compiled_graph_and_a_factory_all_load(agent_file: Path, name: str):
    assert load_graph(f"{agent_file}:{name}").invoke({"goal": "buy"}) == {"goal": "BUY"}


def test_a_relative_path_counts_from_the_base(agent_file: Path):
    assert load_graph("agents/mine.py:graph", base=agent_file.parent.parent).invoke({"goal": "a"}) == {
        "goal": "A"
    }


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("agents/mine.py", "write it as path/to/file.py:name"),
        ("agents/mine.py:not a name", "write it as path/to/file.py:name"),
        ("agents/mien.py:graph", "files there: mine.py"),
        ("nowhere/mine.py:graph", "there is no agent file"),
        ("agents/mine.py:grahp", "did you mean 'graph'?"),
        ("agents/mine.py:zzz", "graphs in it: compiled, graph, unconnected"),
        ("agents/mine.py:number", "is a int, not a LangGraph graph"),
        ("agents/mine.py:choosy", "is a function that wants config"),
        ("agents/mine.py:broken", "raised RuntimeError: no luck"),
        ("agents/mine.py:unconnected", "does not compile"),
    ],
)
def test_what_cannot_be_used_is_explained(agent_file: Path, spec: str, says: str):
    with pytest.raises(AgentError) as caught:
        load_graph(spec, base=agent_file.parent.parent)
    assert says in str(caught.value)
    assert caught.value.hint


def test_a_file_that_fails_to_run_names_the_error(tmp_path: Path):
    (tmp_path / "bad.py").write_text("import no_such_module_anywhere\n")
    with pytest.raises(AgentError, match="ModuleNotFoundError: No module named 'no_such_module_anywhere'"):
        load_graph(f"{tmp_path}/bad.py:graph")


def test_two_files_of_the_same_name_stay_apart(agent_file: Path, tmp_path: Path):
    other = tmp_path / "mine.py"
    other.write_text(GRAPH.replace("upper", "lower"))
    first, second = load_graph(f"{agent_file}:graph"), load_graph(f"{other}:graph")
    assert first.invoke({"goal": "Aa"}) == {"goal": "AA"}
    assert second.invoke({"goal": "Aa"}) == {"goal": "aa"}
