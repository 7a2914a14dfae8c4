"""Finding an agent's graph: `agents/web.py:graph`, as `langgraph.json` spells it."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from coevo.errors import AgentError, explained


def load_graph(spec: str, *, base: Path | None = None) -> Any:
    """The compiled LangGraph graph that `path/to/file.py:name` names; a relative path counts from `base` or from here.

    A `StateGraph` is compiled; a function is called without arguments and must return one of the two. Raises
    `AgentError` when the file or the name is missing, the file fails to run, or the name is not a graph.
    """
    path_text, colon, name = spec.rpartition(":")
    if not colon or not name.isidentifier() or not path_text:
        raise AgentError(f"{spec!r} does not name a graph", hint="write it as path/to/file.py:name")
    path = (base or Path()) / path_text
    if not path.is_file():
        near = sorted(entry.name for entry in path.parent.glob("*.py")) if path.parent.is_dir() else []
        where = (
            f"files there: {', '.join(near)}"
            if near
            else "check the path; it counts from the experiment file"
        )
        raise AgentError(f"there is no agent file {path}", hint=where)
    module = _run_file(path)
    if not hasattr(module, name):
        graphs = sorted(key for key, value in vars(module).items() if _is_graph(value))
        near_names = difflib.get_close_matches(
            name, [key for key in vars(module) if not key.startswith("_")], 1
        )
        hint = f"graphs in it: {', '.join(graphs)}" if graphs else "define one at the top level of the file"
        raise AgentError(
            f"{path} has no {name!r}", hint=f"did you mean {near_names[0]!r}?" if near_names else hint
        )
    return _compiled(getattr(module, name), f"{path}:{name}")


def _run_file(path: Path) -> ModuleType:
    # A name of its own, so that two agents' `web.py` can be loaded side by side and type hints still resolve.
    digest = hashlib.blake2b(str(path.resolve()).encode(), digest_size=4).hexdigest()
    module_name = f"coevo_agent_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise AgentError(f"{path} is not a Python file", hint="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    with explained(f"{path} could not be loaded: it", AgentError):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
    return module


def _compiled(value: Any, where: str) -> Any:
    if not _is_graph(value) and callable(value):
        required = [
            parameter.name
            for parameter in inspect.signature(value).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if required:
            raise AgentError(
                f"{where} is a function that wants {', '.join(required)}",
                hint="a graph factory takes no arguments; what an episode needs is in runtime.context",
            )
        with explained(f"{where}()", AgentError):
            value = value()
    if not _is_graph(value):
        raise AgentError(
            f"{where} is a {type(value).__name__}, not a LangGraph graph",
            hint="name a StateGraph, a compiled graph, or a function that returns one",
        )
    try:
        return value.compile() if hasattr(value, "compile") else value
    except ValueError as error:
        raise AgentError(f"{where} does not compile: {error}", hint="check its nodes and edges") from error


def _is_graph(value: Any) -> bool:
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    return isinstance(value, StateGraph | Pregel)
