"""Skills inside a run: every line has its chain of evidence, harm is stopped, and no call is paid for twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from scripted import Scripted
from toyrun import experiment

from coevo.config import Experiment
from coevo.errors import ConfigError, StoreError
from coevo.loop import Resources, authors, run_experiment
from coevo.loop.resources import load_agent, load_skill
from coevo.skill import SkillDocument
from coevo.skill.author import Limits
from coevo.store import Store
from coevo.tables import SkillTable
from coevo.testing import FakeEngine, ToyTaskSet

RULE = "Answer with press 'NAME' alone."


async def execute(made: Experiment) -> Any:
    tasks = ToyTaskSet(train=24, dev=24, test=9)
    return await run_experiment(
        made, resources=Resources(FakeEngine(), tasks, load_agent(made), load_skill(made))
    )


def query(directory: Path, sql: str, *params: Any) -> list[dict[str, Any]]:
    with closing(Store.open(directory / "runs.sqlite", readonly=True)) as store:
        return store.query(sql, params)


def llm(directory: Path, *overrides: str) -> Experiment:
    return experiment(
        directory,
        "skill.analyst=llm",
        "skill.author.model=test:scripted",
        "skill.dev_tasks=24",
        "es.tasks_per_generation=12",
        "evaluate.tasks=3",
        *overrides,
    )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    def rule(messages: list[BaseMessage]) -> str:
        if "tidy up" in messages[0].text:
            return "{}"
        return json.dumps({"edits": [{"op": "add", "text": RULE, "why": "the failed one wrote prose"}]})

    scripted = Scripted(rule=rule)
    monkeypatch.setattr(authors, "_chat_model", lambda table: lambda seed: scripted)
    return scripted


async def test_every_line_of_an_accepted_skill_leads_back_to_episodes_and_calls(
    tmp_path: Path, model: Scripted
) -> None:
    made = llm(tmp_path)
    await execute(made)
    accepted = query(tmp_path, "SELECT * FROM skill_versions WHERE status = 'accepted' ORDER BY generation")
    assert accepted
    seed = set(load_skill(made).body.splitlines())
    for version in accepted:
        edits = query(
            tmp_path, "SELECT * FROM edits WHERE skill_version = ? AND status = 'applied'", version["id"]
        )
        explained = {line for edit in edits for line in edit["text"].splitlines()}
        parent = query(tmp_path, "SELECT text FROM skill_versions WHERE id = ?", version["parent"])[0]["text"]
        before = set(SkillDocument.parse(parent).body.splitlines())
        for line in SkillDocument.parse(version["text"]).body.splitlines():
            if line.strip() and line not in before and line not in seed and not line.startswith("#"):
                assert line.removeprefix("- ") in explained
        for edit in edits:
            episodes = query(
                tmp_path,
                "SELECT e.* FROM edit_evidence v JOIN episodes e ON e.id = v.episode WHERE v.edit = ?",
                edit["id"],
            )
            assert len({episode["task"] for episode in episodes}) == edit["support"]
            assert edit["support"] >= (1 if edit["section"] == "Examples" else 2)
            for episode in episodes:
                assert (episode["phase"], episode["status"]) == ("rollout", "finished")
                assert episode["skill_version"] == version["parent"]
                steps = query(
                    tmp_path,
                    "SELECT count(*) AS n FROM es_steps WHERE status = 'applied' AND generation < ?",
                    episode["generation"],
                )
                assert episode["weights_step"] == steps[0]["n"]
            if edit["op"] == "add" and edit["section"] == "Rules":
                calls = query(
                    tmp_path,
                    "SELECT a.* FROM edit_calls c JOIN author_calls a ON a.key = c.call WHERE c.edit = ?",
                    edit["id"],
                )
                assert calls
                assert all(RULE in call["reply"] for call in calls)
        decided = query(tmp_path, "SELECT * FROM gate_results WHERE skill_version = ?", version["id"])
        assert len(decided) == 24


async def test_what_was_read_left_out_and_put_aside_is_stored(tmp_path: Path, model: Scripted) -> None:
    await execute(llm(tmp_path, "es.generations=1"))
    (look,) = query(tmp_path, "SELECT * FROM distillations")
    assert look["pairs"] + look["successes"] + look["failures"] > 0
    assert look["episodes"] == len(query(tmp_path, "SELECT 1 FROM episodes WHERE phase = 'rollout'"))
    left = json.loads(look["left_out"])
    assert all(why for _, why in left)
    assert "calls" in look["report"]
    assert look["analyst"].startswith("llm test:scripted")


async def test_a_stopped_distillation_resumes_without_paying_again(
    tmp_path: Path, model: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = llm(tmp_path, "es.generations=1", "skill.author.concurrency=1")
    add = authors.StoredCalls.add

    async def breaks(self: Any, call: Any) -> None:
        if self._store.query("SELECT count(*) AS n FROM author_calls")[0]["n"] >= 2:
            raise StoreError("the disk is full")
        await add(self, call)

    monkeypatch.setattr(authors.StoredCalls, "add", breaks)
    with pytest.raises(StoreError):
        await execute(made)
    assert len(query(tmp_path, "SELECT 1 FROM author_calls")) == 2
    monkeypatch.setattr(authors.StoredCalls, "add", add)
    model.asked.clear()
    await execute(made)
    calls = query(tmp_path, "SELECT key FROM author_calls")
    assert len(calls) == len({call["key"] for call in calls})
    assert len(model.asked) == len(calls) - 2
    await execute(made)
    assert len(query(tmp_path, "SELECT 1 FROM author_calls")) == len(calls)


async def test_one_ctrl_c_gives_up_an_author_that_hangs_and_keeps_what_was_answered(
    tmp_path: Path, model: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(Scripted):
        async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
            if len(self.asked) < 2:
                return self._generate(messages)
            os.kill(os.getpid(), signal.SIGINT)
            return await asyncio.Event().wait()

    hanging = Hanging(rule=model.rule)
    monkeypatch.setattr(authors, "_chat_model", lambda table: lambda seed: hanging)
    monkeypatch.setattr(authors, "_limits", lambda table: Limits(concurrency=1, timeout_s=None, grace_s=0.0))
    made = llm(tmp_path, "es.generations=1")
    assert (await execute(made)).status == "stopped"
    assert len(query(tmp_path, "SELECT 1 FROM author_calls WHERE error IS NULL")) == 2
    assert query(tmp_path, "SELECT 1 FROM distillations") == []
    monkeypatch.setattr(authors, "_chat_model", lambda table: lambda seed: model)
    assert (await execute(made)).status == "finished"
    calls = query(tmp_path, "SELECT error FROM author_calls")
    assert len(model.asked) == len(calls) - 2


async def test_the_policy_may_be_its_own_author(tmp_path: Path) -> None:
    await execute(llm(tmp_path, "es.generations=1", "skill.author.model=policy"))
    calls = query(tmp_path, "SELECT * FROM author_calls")
    assert calls  # the toy policy answers, though never with JSON
    assert {call["author"] for call in calls} == {"policy T=0 n=1024"}
    assert "came to nothing" in query(tmp_path, "SELECT report FROM distillations")[0]["report"]


POISON = """
from coevo.skill import Evidence, Op, ProposedEdit

class Poison:
    name = "poison"
    count = 0

    async def analyse(self, skill, selection):
        episodes = [*selection.all_successes, *selection.all_failures]
        evidence = tuple(Evidence(e.id, e.task) for e in episodes)
        Poison.count += 1
        new = f"Variant {Poison.count}: explain at length what you would do, in prose."
        return [ProposedEdit(Op.REPLACE, "Rules", new, target="- Answer with press 'NAME' alone.", evidence=evidence)]
"""


async def test_the_gate_stops_twenty_of_twenty_harmful_versions(tmp_path: Path) -> None:
    made = experiment(
        tmp_path,
        "skill.analyst=poison.py:Poison",
        "skill.every=1",
        f"skill.dev_tasks={SkillTable().dev_tasks}",
        f"skill.confidence={SkillTable().confidence}",
        f"skill.candidates={SkillTable().candidates}",
        "schedule.mode=skill",
        "es.generations=20",
        "es.population=2",
        "es.tasks_per_generation=6",
        "evaluate.tasks=3",
    )
    (tmp_path / "poison.py").write_text(POISON)
    skill = tmp_path / "press" / "SKILL.md"
    skill.write_text(skill.read_text() + f"\n## Rules\n\n- {RULE}\n")
    await execute(made)
    verdicts = query(tmp_path, "SELECT status, gain FROM skill_versions WHERE author = 'poison'")
    assert [row["status"] for row in verdicts] == ["rejected"] * 20
    assert sum(row["gain"] for row in verdicts) / 20 < -0.1


def test_a_provider_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    made = experiment(tmp_path, "skill.analyst=llm", "skill.author.model=nosuch:model")
    with pytest.raises(ConfigError, match=r"skill\.author\.model = 'nosuch:model'"):
        authors.load_analyst(made)
