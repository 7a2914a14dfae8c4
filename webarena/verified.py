"""`webarena-verified` (ServiceNow, Apache-2.0) as another scorer: typed answers and network traffic, no judge.

It pins its dependencies exactly, so it lives in an environment of its own and runs as a process of its own. What passes
between are its files: `agent_response.json`, `network.har` and a list of sites in, `eval_result.json` out. It has its
own wording of the 812 tasks; an agent that is scored by it should get that wording (`reword`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, WorldError
from webarena import har
from webarena.cache import cache_dir
from webarena.configs import AND, TaskConfig, parse_config
from webarena.evaluators import Score

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

PACKAGE = "webarena-verified"
VERSION = "1.2.3"
SCORER = f"{PACKAGE}/{VERSION}"
PYTHON_VARIABLE = "COEVO_WEBARENA_VERIFIED"
INSTALL_TIMEOUT_S = 900.0
SCORE_TIMEOUT_S = 120.0
DATASET = "webarena_verified/assets/dataset/webarena-verified.json"
TASK_TYPES = ("RETRIEVE", "MUTATE", "NAVIGATE")
STATUSES = (
    "SUCCESS",
    "ACTION_NOT_ALLOWED_ERROR",
    "PERMISSION_DENIED_ERROR",
    "NOT_FOUND_ERROR",
    "DATA_VALIDATION_ERROR",
    "UNKNOWN_ERROR",
)
ANSWER_FORMAT = f"""When you stop, answer with one JSON object:
"task_type": what the task asks for, {", ".join(TASK_TYPES[:-1])} or {TASK_TYPES[-1]};
"status": SUCCESS, or why not: {", ".join(STATUSES[1:])};
"retrieved_data": for RETRIEVE a list of what was asked for, numbers as numbers; null otherwise;
"error_details": null on success, else the reason in a sentence."""


def environment() -> Path:
    """The folder of its virtual environment."""
    return cache_dir() / f"{PACKAGE}-{VERSION}"


def find_python() -> Path:
    """The interpreter that has the package: `$COEVO_WEBARENA_VERIFIED`, or that of `install`.

    Raises `ConfigError` where there is none.
    """
    wanted = os.environ.get(PYTHON_VARIABLE)
    path = Path(wanted) if wanted else environment() / "bin" / "python"
    if not path.is_file():
        raise ConfigError(
            f"{PYTHON_VARIABLE}={wanted} is no file" if wanted else f"{PACKAGE} {VERSION} is not installed",
            hint="install it: coevo webarena verified install",
        )
    return path


def install() -> Path:
    """Makes the environment if it is not there; its interpreter. Raises `ConfigError` with pip's words on failure."""
    target = environment()
    if (target / "bin" / "python").is_file():
        return target / "bin" / "python"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="installing-") as scratch:
        made = Path(scratch) / "environment"
        _run([sys.executable, "-m", "venv", str(made)])
        _run([str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{PACKAGE}=={VERSION}"])
        _run([str(made / "bin" / "python"), "-m", "webarena_verified", "--version"])
        try:
            made.rename(target)
        except OSError:  # another process finished first
            if not (target / "bin" / "python").is_file():
                shutil.rmtree(target, ignore_errors=True)
                made.rename(target)
    return target / "bin" / "python"


def _run(command: Sequence[str]) -> None:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
        )
        problem = (result.stderr.strip() or result.stdout.strip())[-600:] if result.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise ConfigError(
            f"could not install {PACKAGE} {VERSION}: {problem}",
            hint=f"connect to a package index, or install it yourself and set {PYTHON_VARIABLE} to its python",
        )


def reword(configs: Sequence[TaskConfig], python: Path) -> list[TaskConfig]:
    """The tasks with the package's own intents and start addresses, and `ANSWER_FORMAT` behind each intent.

    Raises `ConfigError` when the package's tasks cannot be read, or lack one.
    """
    found = sorted(python.parent.parent.glob(f"lib/python*/site-packages/{DATASET}"))
    if not found:
        raise ConfigError(f"{python} has no {PACKAGE}", hint="install it: coevo webarena verified install")
    theirs = {task["task_id"]: task for task in json.loads(found[0].read_text(encoding="utf-8"))}
    reworded = []
    for config in configs:
        task = theirs.get(_full_id(config))
        if task is None:
            raise ConfigError(f"{PACKAGE} has no task {_full_id(config)}", hint="use the public task files")
        changed = {
            "intent": f"{task['intent']}\n\n{ANSWER_FORMAT}",
            "intent_template": task["intent_template"],
            "sites": list(task["sites"]),
            "start_url": f" {AND} ".join(task["start_urls"]),
        }
        reworded.append(parse_config({**config.raw, **changed}, source=PACKAGE))
    return reworded


def agent_response(answer: str, archive: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's final answer as the package wants it.

    An answer that is (or ends with) a JSON object with a "status" is taken as it is. For any other, the kind of task is
    guessed: RETRIEVE where something was said, else MUTATE or NAVIGATE by whether anything was sent.
    """
    start = answer.find("{")
    if start >= 0:
        with contextlib.suppress(json.JSONDecodeError):
            given, _ = json.JSONDecoder().raw_decode(answer[start:])
            if "status" in given:
                return dict(given)
    said = answer.strip()
    sent = any(entry["request"]["method"] not in ("GET", "HEAD") for entry in archive["log"]["entries"])
    if said.lower() == "n/a":
        return {
            "task_type": "RETRIEVE",
            "status": "NOT_FOUND_ERROR",
            "retrieved_data": None,
            "error_details": said,
        }
    return {
        "task_type": "RETRIEVE" if said else "MUTATE" if sent else "NAVIGATE",
        "status": "SUCCESS",
        "retrieved_data": [said] if said else None,
        "error_details": None,
    }


class VerifiedEvaluator:
    """Scores episodes with the package. `watch` a context before its first page is opened, `score` it at the end."""

    scorer = SCORER

    def __init__(self, python: Path | None = None, *, timeout_s: float = SCORE_TIMEOUT_S) -> None:
        self.python = python or find_python()
        self._timeout_s = timeout_s
        self._recorders: dict[BrowserContext, har.Recorder] = {}

    def check(self, config: TaskConfig) -> None:
        """Every public task can be scored; here for evaluators that cannot score all."""

    def watch(self, context: BrowserContext) -> None:
        """From now on the context's requests count for the next `score`, and none before."""
        for known, recorder in list(self._recorders.items()):
            if recorder.closed or known is context:
                recorder.end()
                del self._recorders[known]
        self._recorders[context] = har.Recorder(context)

    async def score(self, config: TaskConfig, *, answer: str, page: Page, urls: Mapping[str, str]) -> Score:
        """Scores the answer and the traffic since `watch`. Raises `WorldError` when the package gives no verdict."""
        recorder = self._recorders.pop(page.context, None)
        if recorder is None:
            raise WorldError("the episode's network traffic was not recorded")
        archive = await recorder.stop()
        if not archive["log"]["entries"]:
            raise WorldError("the episode has no network traffic to score")
        return await evaluate(
            self.python,
            _full_id(config),
            response=agent_response(answer, archive),
            archive=archive,
            urls=urls,
            timeout_s=self._timeout_s,
        )


async def evaluate(
    python: Path,
    task_id: int,
    *,
    response: Mapping[str, Any],
    archive: Mapping[str, Any],
    urls: Mapping[str, str],
    timeout_s: float = SCORE_TIMEOUT_S,
) -> Score:
    """One verdict of the package, by files in a folder of its own. Raises `WorldError` when there is none."""
    with tempfile.TemporaryDirectory(prefix="verified-") as scratch:
        folder = Path(scratch)
        write_exchange(folder, task_id, response=response, archive=archive, urls=urls)
        log = await _evaluate_folder(python, folder, task_id, timeout_s)
        return read_result(folder, task_id, log)


def write_exchange(
    folder: Path,
    task_id: int,
    *,
    response: Mapping[str, Any],
    archive: Mapping[str, Any],
    urls: Mapping[str, str],
) -> None:
    """Lays out what the package reads: `config.json`, and the task's folder with answer and traffic."""
    (folder / str(task_id)).mkdir(parents=True, exist_ok=True)
    environments = {f"__{site.upper()}__": {"urls": [url.rstrip("/")]} for site, url in urls.items()}
    (folder / "config.json").write_text(json.dumps({"environments": environments}), encoding="utf-8")
    answer = folder / str(task_id) / "agent_response.json"
    answer.write_text(json.dumps(dict(response), ensure_ascii=False), encoding="utf-8")
    har.write(dict(archive), folder / str(task_id) / "network.har")


def read_result(folder: Path, task_id: int, log: str = "") -> Score:
    """The verdict the package left; one component for each of its evaluators, numbered where it has several of a kind.

    Raises `WorldError` where it left none or calls it an error.
    """
    path = folder / str(task_id) / "eval_result.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        verdicts = [(str(one["evaluator_name"]), float(one["score"])) for one in result["evaluators_results"]]
        status, reward = str(result["status"]), float(result["score"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorldError(
            f"{PACKAGE} gave no verdict on task {task_id}: {type(error).__name__}: {error}; {log[-400:]}"
        ) from error
    if status not in ("success", "failure") or not math.isfinite(reward):
        raise WorldError(f"{PACKAGE} could not score task {task_id}: {result.get('error_msg') or status}")
    components: dict[str, float] = {}
    for name, value in verdicts:
        count = sum(key.split("#")[0] == name for key in components)
        components[f"{name}#{count + 1}" if count else name] = value
    return Score(reward, components, SCORER)


async def _evaluate_folder(python: Path, folder: Path, task_id: int, timeout_s: float) -> str:
    """Runs the package on a folder; what it printed."""
    arguments = ["eval-tasks", "--task-ids", str(task_id), "--output-dir", str(folder)]
    process = await asyncio.create_subprocess_exec(
        str(python),
        *("-m", "webarena_verified", *arguments, "--config", str(folder / "config.json")),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        raise WorldError(f"{PACKAGE} gave no verdict on task {task_id} within {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return output.decode("utf-8", errors="replace")


def _full_id(config: TaskConfig) -> int:
    """Its number among the 812."""
    return config.task_id if config.old_task_id is None else config.old_task_id
