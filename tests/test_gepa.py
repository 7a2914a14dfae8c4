"""GEPA as an author, the real package: it proposes, coevo runs and judges, and the run stays as it was."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from langchain_core.messages import BaseMessage
from scripted import Scripted
from toyrun import SKILL, experiment

from coevo.cli import main
from coevo.errors import ConfigError, StoreError
from coevo.loop import RunStopped, authors, evolve_with_gepa, run_experiment
from coevo.loop.gepa_bridge import PATIENCE
from coevo.report import make_report
from coevo.store import Store
from coevo.store.lineage import blame
from coevo.testing import FakeEngine, ToyTaskSet

RULE = "Answer with press 'NAME' alone."
GOOD = f"Press the button the task names.\n\n## Rules\n\n- {RULE}"
BAD = "Press the button the task names.\n\n## Rules\n\n- Explain in prose."
BRIEF = "Press the button the task names. Be brief."
TRICK = "Press the button the task names.\n\n## Rules\n\n- Trust the usual one."
TRAIN = sorted({str(task.data["target"]) for task in ToyTaskSet(train=12).tasks("train")})
ENGINE = f"""
import random
import re

from coevo.seeds import derive_seed
from coevo.testing import FakeEngine

TRAIN = {TRAIN!r}

def answer(request, theta):
    system = " ".join(str(m["content"]) for m in request.messages if m["role"] == "system")
    said = " ".join(str(m["content"]) for m in request.messages if m["role"] != "system")
    goal = (re.findall(r"Press the button '([^']+)'", said) or ["nothing"])[-1]
    if "press 'NAME'" in system:
        right = True
    elif "prose" in system:
        right = False
    elif "usual" in system:
        right = goal in TRAIN
    else:
        draw = random.Random(derive_seed(request.sampling.seed, goal)).random()
        right = draw < (0.8 if "brief" in system else 0.4)
    return f"press '{{goal}}'" if right else f"I would press {{goal}}"

def make(model_id="", **options):
    return FakeEngine(answer)
"""


def engine() -> FakeEngine:
    """Obeys its skill: always right with RULE, never with BAD, right on train tasks only with TRICK, 8 of 10 with BRIEF,
    else 4 of 10."""
    scope: dict[str, Any] = {}
    exec(ENGINE, scope)
    made: FakeEngine = scope["make"]()
    return made


def fenced(text: str) -> str:
    return f"Here it is:\n```\n{text}\n```"


Script = Callable[..., Scripted]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Makes the author `test:scripted` answer by a rule, or always the same."""

    def make(rule: Callable[[list[BaseMessage]], str] | str) -> Scripted:
        model = Scripted(rule=rule if callable(rule) else lambda messages: rule)
        monkeypatch.setattr(authors, "_chat_model", lambda table: lambda seed: model)
        return model

    return make


OVERRIDES = (
    "schedule.mode=weights",
    "es.generations=1",
    "es.population=2",
    "evaluate.tasks=3",
    "agent.max_turns=1",
    "skill.dev_tasks=24",
    "skill.confidence=0.9",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose skill never changed."""
    directory = tmp_path_factory.mktemp("gepa")
    made = experiment(directory, *OVERRIDES)
    (directory / "engine.py").write_text(ENGINE)
    asyncio.run(run_experiment(made))
    return directory


@pytest.fixture
def database(finished: Path, tmp_path: Path) -> Path:
    """A copy of its database that a test may write to."""
    (tmp_path / "runs.sqlite").write_bytes((finished / "runs.sqlite").read_bytes())
    return tmp_path / "runs.sqlite"


def query(database: Path, sql: str, *params: Any) -> list[dict[str, Any]]:
    with closing(Store.open(database, readonly=True)) as store:
        return store.query(sql, params)


async def evolve(database: Path, **options: Any) -> Any:
    given = {"budget": 40, "author": "test:scripted", "engine": engine()} | options
    return await evolve_with_gepa(database, "toy-1", **given)


async def test_a_better_document_passes_the_gate_with_its_evidence_and_the_run_stays_as_it_was(
    database: Path, script: Script
) -> None:
    model = script(fenced(GOOD))
    with closing(Store.open(database, readonly=True)) as store:
        before = make_report(store, "toy-1")
    trial = await evolve(database)
    assert trial.decision.accepted
    assert trial.decision.mean_difference > 0.3
    assert trial.document.body == GOOD
    assert trial.evaluations <= 40

    (version,) = query(database, "SELECT * FROM skill_versions WHERE author = 'gepa'")
    assert (version["id"], version["status"], version["run"]) == (trial.version, "proposed", "toy-1")
    assert version["generation"] is None
    assert "the gate would accept it" in version["reason"]
    assert version["pairs"] == len(
        query(database, "SELECT 1 FROM gate_results WHERE skill_version = ?", trial.version)
    )

    (edit,) = query(database, "SELECT * FROM edits WHERE skill_version = ?", trial.version)
    assert (edit["op"], edit["text"], edit["analyst"]) == ("replace", GOOD, "gepa")
    assert edit["target"] == "Press the button the task names."
    evidence = query(
        database,
        "SELECT e.* FROM edit_evidence v JOIN episodes e ON e.id = v.episode WHERE v.edit = ?",
        edit["id"],
    )
    assert len({row["task"] for row in evidence}) == edit["support"] == 3
    assert {(row["phase"], row["skill_version"]) for row in evidence} == {("gepa", trial.against)}
    calls = query(
        database,
        "SELECT a.* FROM edit_calls c JOIN author_calls a ON a.key = c.call WHERE c.edit = ?",
        edit["id"],
    )
    assert [(call["purpose"], call["reply"]) for call in calls] == [("gepa", fenced(GOOD))]
    prompt = model.asked[0][1].text
    for row in evidence:
        assert f"Task: {row['goal']}" in prompt

    with closing(Store.open(database, readonly=True)) as store:
        (line,) = [line for line in blame(store, trial.version) if RULE in line.text]
        after = make_report(store, "toy-1")
    assert line.origin is not None
    assert line.origin.edit == edit["id"]
    assert (after.grid, after.evaluations) == (before.grid, before.evaluations)
    assert query(database, "SELECT 1 FROM skill_versions WHERE status = 'accepted'") == []


async def test_gepa_sees_train_tasks_only_at_the_weights_of_the_run(database: Path, script: Script) -> None:
    script(fenced(GOOD))
    trial = await evolve(database)
    tried = query(database, "SELECT DISTINCT task, member, weights_step FROM episodes WHERE phase = 'gepa'")
    steps = query(database, "SELECT count(*) AS n FROM es_steps WHERE status = 'applied'")[0]["n"]
    assert {row["task"].partition("-")[0] for row in tried} == {"train"}
    assert {(row["member"], row["weights_step"]) for row in tried} == {(None, steps)}
    judged = query(database, "SELECT task FROM gate_results WHERE skill_version = ?", trial.version)
    assert {row["task"].partition("-")[0] for row in judged} == {"dev"}


async def test_what_works_on_train_tasks_alone_is_turned_down_at_the_gate(
    database: Path, script: Script
) -> None:
    script(fenced(TRICK))
    trial = await evolve(database)
    assert trial.document.body == TRICK
    assert not trial.decision.accepted
    (version,) = query(database, "SELECT * FROM skill_versions WHERE author = 'gepa'")
    assert version["status"] == "rejected"
    assert "1.000 on 6 train tasks" in version["reason"]
    assert "0.667 before; the gate turned it down: " in version["reason"]


async def test_what_gepa_drops_itself_is_stored_with_the_reason(database: Path, script: Script) -> None:
    script(fenced(BAD))
    trial = await evolve(database)
    assert (trial.version, trial.decision, trial.candidates) == (None, None, 1)
    (version,) = query(database, "SELECT * FROM skill_versions WHERE author = 'gepa'")
    assert (version["status"], version["pairs"]) == ("rejected", None)
    assert "GEPA dropped it" in version["reason"]


async def test_a_chain_of_candidates_is_a_chain_of_versions(database: Path, script: Script) -> None:
    script(lambda messages: fenced(GOOD if "brief" in messages[1].text else BRIEF))
    trial = await evolve(database, budget=100)
    assert trial.document.body == GOOD
    versions = {
        version["id"]: version
        for version in query(database, "SELECT * FROM skill_versions WHERE author = 'gepa'")
    }
    between = versions[versions[trial.version]["parent"]]
    assert BRIEF in between["text"]
    assert between["parent"] == trial.against
    assert (between["status"], between["pairs"]) == ("rejected", None)
    assert "chose another" in between["reason"]
    with closing(Store.open(database, readonly=True)) as store:
        lines = blame(store, trial.version)
    assert {line.version for line in lines if "Rules" in line.text or RULE in line.text} == {trial.version}


async def test_the_same_call_again_pays_for_nothing(database: Path, script: Script) -> None:
    model = script(fenced(GOOD))
    first = await evolve(database)
    episodes = query(database, "SELECT id FROM episodes ORDER BY id")
    asked = len(model.asked)
    second = await evolve(database)
    assert (second.version, second.decision) == (first.version, first.decision)
    assert query(database, "SELECT id FROM episodes ORDER BY id") == episodes
    assert len(model.asked) == asked


async def test_a_call_that_was_cancelled_ends_at_once_and_continues_later(
    database: Path, script: Script
) -> None:
    model = script(fenced(GOOD))
    slow = engine()
    slow._delay_s = 0.02
    work = asyncio.create_task(evolve(database, engine=slow))
    while not query(database, "SELECT 1 FROM episodes WHERE phase = 'gepa' AND status = 'finished'"):
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(asyncio.gather(work)), 20)
    done = query(database, "SELECT id FROM episodes WHERE phase = 'gepa' AND status = 'finished'")
    fresh = engine()
    trial = await evolve(database, engine=fresh)
    assert trial.decision.accepted
    assert len(model.asked) == 1
    gepa = query(database, "SELECT id FROM episodes WHERE phase = 'gepa' AND status = 'finished'")
    assert {row["id"] for row in done} < {row["id"] for row in gepa}


async def test_ctrl_c_stops_between_episodes(database: Path, script: Script) -> None:
    script(fenced(GOOD))
    slow = engine()
    slow._delay_s = 0.02
    work = asyncio.create_task(evolve(database, engine=slow))
    while not query(database, "SELECT 1 FROM episodes WHERE phase = 'gepa' AND status = 'finished'"):
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(RunStopped):
        await asyncio.wait_for(asyncio.shield(work), 20)
    assert query(database, "SELECT 1 FROM episodes WHERE status != 'finished'") == []
    assert (await evolve(database)).decision.accepted


async def test_a_full_disk_is_not_swallowed(
    database: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(fenced(GOOD))

    async def breaks(self: Any, call: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(authors.StoredCalls, "add", breaks)
    with pytest.raises(StoreError, match="the disk is full"):
        await evolve(database)


FAULTY = """
from coevo.errors import WorldError
from coevo.testing import ToyTaskSet

def break_some(task, turn):
    if task.id in ("train-1", "train-4", "train-7"):
        raise WorldError("the page is gone")

def tasks(**options):
    return ToyTaskSet(fault=break_some, **options)
"""


async def test_an_episode_that_stays_invalid_is_no_evidence_and_no_zero(
    tmp_path: Path, script: Script
) -> None:
    made = experiment(tmp_path, *OVERRIDES, "tasks.set=faulty.py:tasks")
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "faulty.py").write_text(FAULTY)
    await run_experiment(made)
    model = script(fenced(GOOD))
    trial = await evolve(tmp_path / "runs.sqlite", budget=60)
    assert trial.decision.accepted
    (version,) = query(tmp_path / "runs.sqlite", "SELECT reason FROM skill_versions WHERE author = 'gepa'")
    assert "GEPA measured 1.000" in version["reason"]  # a zero for the broken tasks would make it less
    invalid = query(
        tmp_path / "runs.sqlite",
        "SELECT id, goal FROM episodes WHERE phase = 'gepa' AND outcome = 'invalid'",
    )
    assert invalid
    evidence = query(tmp_path / "runs.sqlite", "SELECT episode FROM edit_evidence")
    assert not {row["id"] for row in invalid} & {row["episode"] for row in evidence}
    assert all("invalid" not in asked[1].text for asked in model.asked)


REFUSED = {
    GOOD: "between two lines of ```",
    fenced(SKILL): "front matter",
    fenced(""): "empty",
    fenced("Long. " * 3000): "too long",
    fenced(f"{GOOD}\n<!-- hidden -->"): "a comment hides text",
    fenced(f"{GOOD}\x00"): "control characters",
    "`" * 100_001: "100000 are read",
}


async def test_a_reply_that_is_no_document_goes_back_with_the_reason(database: Path, script: Script) -> None:
    left = list(REFUSED)
    model = script(lambda messages: left.pop(0) if left else fenced(GOOD))
    trial = await evolve(database, budget=60)
    assert trial.document.body == GOOD
    returned = {
        asked[index].text: asked[index + 1].text
        for asked in model.asked
        for index in range(2, len(asked) - 1, 2)
    }
    assert len(returned) >= 4
    for reply, said in returned.items():
        assert REFUSED[reply] in said
    refused = query(database, "SELECT count(*) AS n FROM author_calls WHERE purpose = 'gepa'")[0]["n"]
    assert refused == len(REFUSED) + 1
    assert trial.candidates == 1


async def test_names_of_the_tasks_shown_are_refused_as_rules(database: Path, script: Script) -> None:
    def rule(messages: list[BaseMessage]) -> str:
        goal = re.findall(r"Press the button '([^']+)'", messages[1].text)[0]
        return fenced(GOOD if len(messages) > 2 else f"{GOOD}\n- Press '{goal}' first.")

    model = script(rule)
    trial = await evolve(database)
    assert trial.document.body == GOOD
    corrected = next(asked for asked in model.asked if len(asked) > 2)
    assert "belongs to a task" in corrected[3].text


async def test_an_author_of_no_use_does_not_spend_the_budget(database: Path, script: Script) -> None:
    model = script("I cannot help with that.")
    trial = await evolve(database, budget=200)
    assert trial.version is None
    assert trial.candidates == 0
    assert trial.evaluations < 100
    assert len(model.asked) <= 3 * PATIENCE


async def test_the_policy_may_be_the_author(database: Path) -> None:
    trial = await evolve(database, author="policy")
    assert trial.version is None  # the toy policy answers, though never with a document
    calls = query(database, "SELECT DISTINCT author FROM author_calls WHERE purpose = 'gepa'")
    assert [call["author"] for call in calls] == ["policy T=0 n=1024"]


async def test_the_purse_of_the_author_ends_it(database: Path, script: Script) -> None:
    with closing(Store.open(database)) as store:
        row = store.query("SELECT config FROM runs")[0]
        config = json.loads(row["config"])
        config["skill"]["author"] |= {"max_calls": 1}
        store.update("runs", "toy-1", {"config": config})
        store.flush_sync()
    model = script(lambda messages: fenced(f"{BAD}\n- Variant {len(messages[1].text)}."))
    trial = await evolve(database, budget=400)
    assert len(model.asked) == 1
    assert trial.candidates <= 1


async def test_a_budget_too_small_for_one_candidate_is_refused(database: Path, script: Script) -> None:
    script(fenced(GOOD))
    with pytest.raises(ConfigError, match="9 evaluations is too small") as caught:
        await evolve(database, budget=9)
    assert caught.value.hint
    assert "at least 10" in caught.value.hint
    assert (await evolve(database, budget=10)).evaluations <= 10


async def test_a_missing_package_is_said_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(ConfigError, match="not installed") as caught:
        await evolve_with_gepa(tmp_path / "no.sqlite", "toy-1", budget=40)
    assert caught.value.hint
    assert "coevo[tools]" in caught.value.hint


def test_the_command(database: Path, script: Script, tmp_path: Path) -> None:
    script(fenced(GOOD))
    arguments = ["skills", "gepa", "toy-1", "--budget", "40", "--author", "test:scripted"]
    arguments += ["--db", str(database)]
    shown = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "the gate would accept it" in " ".join(shown.output.split())
    assert RULE in (tmp_path / "out" / "press" / "SKILL.md").read_text()
    data = json.loads(CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False).output)
    assert data["verdict"] == "accept"
    assert RULE in data["text"]
