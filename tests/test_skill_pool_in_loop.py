"""The pool inside a run: versions that are good at different kinds of task live side by side until a fair comparison."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import defaultdict
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from toyrun import count, finished, history, start, wait_until, workspace

from coevo.check import episode_count
from coevo.cli import main
from coevo.config import load_experiment
from coevo.loop import evaluate_run, export_run, rollback_skill, run_experiment
from coevo.loop.skills import SkillLedger
from coevo.report import make_report
from coevo.skill import SkillDocument
from coevo.store import Store

KINDS = '''
"""A policy that needs a rule for each kind of task and is distracted by the others; an analyst that finds one at a time."""

import random
import re

from coevo.seeds import derive_seed
from coevo.skill import Evidence, Op, ProposedEdit
from coevo.testing import _WORDS, FakeEngine


def answer(request, theta):
    text = " ".join(str(message["content"]) for message in request.messages)
    goal = re.findall(r"Press the button '([^']+)'", text)[-1]
    rules = re.findall(r"Mind the (\\w+)", text)
    kind = next(name for name, words in _WORDS.items() if goal in words)
    chance = 0.4 + 0.6 * (kind in rules) - 0.1 * len([rule for rule in rules if rule != kind])
    right = random.Random(derive_seed(request.sampling.seed, goal)).random() < chance + 0.05 * theta[1]
    return f"press '{goal}'" if right else "nothing to press"


def make(model_id, **options):
    return FakeEngine(answer, delay_s=0.002)


class Kinds:
    name = "kinds"

    async def analyse(self, skill, selection):
        episodes = [*selection.all_successes, *selection.all_failures]
        missing = sorted(kind for kind in _WORDS if kind not in skill.body)
        if not missing:
            return []
        kind = missing[derive_seed(*sorted(episode.id for episode in episodes)) % len(missing)]
        evidence = tuple(Evidence(episode.id, episode.task) for episode in episodes)
        return [ProposedEdit(Op.ADD, "Rules", f"Mind the {kind}.", evidence=evidence)]
'''

OVERRIDES = (
    "seed=12",
    "model.engine=kinds.py:make",
    "skill.analyst=kinds.py:Kinds",
    "skill.pool=3",
    "skill.every=1",
    "skill.dev_tasks=36",
    "skill.confidence=0.6",
    "tasks.options.dev=36",
    "es.generations=8",
    "es.population=4",
    "evaluate.every=2",
)


def place(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "kinds.py").write_text(KINDS)
    return directory


def execute(directory: Path, *overrides: str) -> Any:
    file = workspace(place(directory))
    made = load_experiment(file, [f"database={directory / 'runs.sqlite'}", *OVERRIDES, *overrides])
    return asyncio.run(run_experiment(made))


def query(directory: Path, sql: str, *params: Any) -> list[dict[str, Any]]:
    with closing(Store.open(directory / "runs.sqlite", readonly=True)) as store:
        return store.query(sql, params)


def pools(directory: Path) -> dict[int, list[dict[str, Any]]]:
    """Rows of each comparison, by generation."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in query(directory, "SELECT * FROM skill_pool ORDER BY generation, place"):
        found[row["generation"]].append(row)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pool")
    assert execute(directory).status == "finished"
    return directory


def test_several_versions_live_on_and_serve_a_whole_population_each(run: Path) -> None:
    kept: dict[int, set[str]] = {
        generation: {row["skill_version"] for row in rows if row["weight"]}
        for generation, rows in pools(run).items()
    }
    assert max(len(versions) for generation, versions in kept.items() if generation < 8) > 1, "no pool at all"
    assert all(1 <= len(versions) <= 3 for versions in kept.values())
    (seed,) = query(run, "SELECT id FROM skill_versions WHERE status = 'seed'")
    alive, used = {seed["id"]}, []
    for generation in range(8):
        rollouts = query(
            run,
            "SELECT DISTINCT skill_version, member FROM episodes WHERE phase = 'rollout' AND generation = ?",
            generation,
        )
        (version,) = {row["skill_version"] for row in rollouts}
        assert len(rollouts) == 4
        assert version in alive
        (look,) = query(run, "SELECT * FROM distillations WHERE generation = ?", generation)
        assert look["skill_version"] == version
        against = query(run, "SELECT DISTINCT against FROM gate_results WHERE generation = ?", generation)
        assert {row["against"] for row in against} <= {version}
        used.append(version)
        if accepted := query(
            run, "SELECT id FROM skill_versions WHERE status = 'accepted' AND generation = ?", generation
        ):
            compared = {row["skill_version"] for row in pools(run)[generation]}
            assert compared == alive | {row["id"] for row in accepted}
            alive = kept[generation]
    assert len(set(used)) < len(used)
    order = [version for at, version in enumerate(used) if at == 0 or used[at - 1] != version]
    assert len(order) > len(set(order)), "no version ever came back: this could be a run without a pool"


def test_the_pool_is_compared_on_the_same_episodes_with_the_same_weights(run: Path) -> None:
    for generation, rows in pools(run).items():
        faced = defaultdict(set)
        for row in query(
            run,
            "SELECT arm, task, seed, weights_step FROM episodes WHERE phase = 'gate' AND generation = ?",
            generation,
        ):
            faced[row["arm"]].add((row["task"], row["seed"], row["weights_step"]))
        compared = [faced[row["skill_version"]] for row in rows]
        assert len(compared) > 1
        assert all(slots == compared[0] for slots in compared)
        assert {row["episodes"] for row in rows} == {len(compared[0])} == {36}
        for row in rows:
            (mean,) = query(
                run,
                "SELECT avg(reward) AS mean FROM episodes WHERE phase = 'gate' AND generation = ? AND arm = ?",
                generation,
                row["skill_version"],
            )
            assert row["mean"] == pytest.approx(mean["mean"])
        stay = [row["mean"] for row in rows if row["weight"]]
        assert stay[0] == max(row["mean"] for row in rows)


def test_the_skill_of_the_run_is_chosen_on_fresh_episodes_with_the_final_weights(run: Path) -> None:
    choice = pools(run)[8]
    assert [bool(row["weight"]) for row in choice] == [True] + [False] * (len(choice) - 1)
    best = choice[0]["skill_version"]
    gates = query(
        run, "SELECT generation, seed, weights_step FROM episodes WHERE phase = 'gate' ORDER BY generation"
    )
    assert not {row["seed"] for row in gates if row["generation"] == 8} & {
        row["seed"] for row in gates if row["generation"] < 8
    }
    (steps,) = query(run, "SELECT count(*) AS n FROM es_steps WHERE status = 'applied'")
    assert {row["weights_step"] for row in gates if row["generation"] == 8} == {steps["n"]}
    arms = query(run, "SELECT DISTINCT arm, skill_version FROM evaluations WHERE generation = 8")
    assert {row["skill_version"] for row in arms if row["arm"].endswith("+evolved")} == {best}
    with closing(Store.open(run / "runs.sqlite", readonly=True)) as store:
        report = make_report(store, "toy-1")
    assert report.skill == best
    assert report.grid is not None
    database = str(run / "runs.sqlite")
    shown = CliRunner().invoke(main, ["skills", "show", "toy-1", "--json", "--db", database])
    assert json.loads(shown.output)["id"] == best
    facts = asyncio.run(export_run(database, "toy-1", run / "exported"))
    assert facts["skill_version"] == best


def test_the_log_tells_of_the_pool(run: Path) -> None:
    database = str(run / "runs.sqlite")
    text = CliRunner().invoke(main, ["skills", "log", "toy-1", "--db", database]).output
    assert "pool, on 36 dev episodes:" in text
    assert "best on colours" in text
    assert "choice at the end, on 36 dev episodes:" in text
    looks = json.loads(CliRunner().invoke(main, ["skills", "log", "--json", "--db", database]).output)
    assert [look["generation"] for look in looks if look["pool"]] == [g for g in pools(run) if g < 8]


def test_no_candidate_is_a_version_that_is_kept(run: Path) -> None:
    alive: set[str] = set()
    compared = pools(run)
    for generation in range(8):
        made = query(
            run,
            "SELECT content_hash FROM skill_versions WHERE generation = ? AND status != 'seed'",
            generation,
        )
        assert not alive & {row["content_hash"] for row in made}
        if generation in compared:
            alive = {
                query(run, "SELECT content_hash FROM skill_versions WHERE id = ?", row["skill_version"])[0][
                    "content_hash"
                ]
                for row in compared[generation]
                if row["weight"]
            }


def test_a_rollback_brings_back_the_pool_of_that_time(run: Path, tmp_path: Path) -> None:
    database = tmp_path / "runs.sqlite"
    database.write_bytes((run / "runs.sqlite").read_bytes())
    accepted = [
        row["id"]
        for row in query(run, "SELECT id FROM skill_versions WHERE status = 'accepted' ORDER BY generation")
    ]
    assert len(accepted) > 2
    target = accepted[1]
    before = pools(run)
    (born,) = query(run, "SELECT generation FROM skill_versions WHERE id = ?", target)
    current, withdrawn = rollback_skill(database, "toy-1", target)
    assert withdrawn == accepted[2:]
    assert current == before[born["generation"]][0]["skill_version"]
    log = CliRunner().invoke(main, ["skills", "log", "toy-1", "--db", str(database)]).output
    assert "it does not count any more: a version was withdrawn" in log
    rows = asyncio.run(evaluate_run(database, "toy-1", arms=("evolved+evolved",)))
    assert rows[-1]["skill_version"] == current
    current, _ = rollback_skill(
        database, "toy-1", query(run, "SELECT id FROM skill_versions WHERE status = 'seed'")[0]["id"]
    )
    assert current.startswith("press@")


def test_a_run_rolled_back_after_its_choice_chooses_again(run: Path, tmp_path: Path) -> None:
    """As when it was stopped in its last evaluation: what was withdrawn has no part in the second choice."""
    database = place(tmp_path) / "runs.sqlite"
    database.write_bytes((run / "runs.sqlite").read_bytes())
    withdrawn = {pools(run)[8][0]["skill_version"]}
    withdrawn |= set(rollback_skill(database, "toy-1")[1])
    with closing(Store.open(database)) as store:
        store.update("runs", "toy-1", {"status": "stopped"})
        store.flush_sync()
    assert not execute(tmp_path).already
    choice = pools(tmp_path)[8]
    assert not withdrawn & {row["skill_version"] for row in choice}
    assert len(choice) > 1, "one alone needs no choice: nothing is shown"
    sql = "SELECT skill_version FROM evaluations WHERE generation = 8 AND arm = 'evolved+evolved'"
    assert query(tmp_path, sql)[0] == {"skill_version": choice[0]["skill_version"]}
    shown = CliRunner().invoke(main, ["skills", "show", "toy-1", "--json", "--db", str(database)])
    assert json.loads(shown.output)["id"] == choice[0]["skill_version"]


def test_check_counts_the_episodes_of_a_pool(tmp_path: Path) -> None:
    file = workspace(place(tmp_path))
    with_pool = episode_count(load_experiment(file, OVERRIDES))
    without = episode_count(load_experiment(file, [*OVERRIDES, "skill.pool=1"]))
    # Eight looks, each of which may bring a third version to two; and three at the end.
    assert with_pool - without == 36 * (8 * 2 + 3)


def test_a_run_stopped_before_its_end_stands_for_the_best_of_its_last_comparison(tmp_path: Path) -> None:
    process = start(place(tmp_path), *OVERRIDES)
    wait_until(lambda: count(tmp_path, "SELECT count(DISTINCT generation) FROM skill_pool") > 1, process)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    generation, last = list(pools(tmp_path).items())[-1]
    assert generation < 8, "too late: it has chosen"
    shown = CliRunner().invoke(
        main, ["skills", "show", "toy-1", "--json", "--db", str(tmp_path / "runs.sqlite")]
    )
    assert json.loads(shown.output)["id"] == last[0]["skill_version"]


def test_killed_runs_end_as_if_nothing_had_happened(run: Path, tmp_path: Path) -> None:
    place(tmp_path)
    total = finished(run)
    instants = random.Random(3)
    # The last few dozen episodes are the choice and the grid; some kills are to fall there.
    points = sorted({*instants.sample(range(1, total), 4), total - 30, total - 60})
    for threshold in points:
        process = start(tmp_path, *OVERRIDES)
        wait_until(lambda enough=threshold: finished(tmp_path) >= enough, process)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        if threshold % 2:  # rows alone must do
            (tmp_path / "runs.sqlite.checkpoints").unlink(missing_ok=True)
    last = start(tmp_path, *OVERRIDES)
    last.join(120)
    assert last.exitcode == 0, (tmp_path / "log").read_text()
    expected, found = history(run), history(tmp_path)
    assert expected["pool"]
    for part in expected:
        assert found[part] == expected[part], part


async def test_the_lot_falls_once_after_each_look(tmp_path: Path) -> None:
    """Between looks the version in use stays; over many looks each has its share."""
    text = "---\nname: press\ndescription: Press buttons.\n---\n\nPress.\n"
    seed = SkillDocument.parse(text)
    with Store.open(tmp_path / "runs.sqlite") as store:
        ledger = SkillLedger(store, "r", seed)
        await ledger.register_seed()
        store.put("runs", {"id": "r", "name": "r", "seed": 3, "created_at": "now"})
        version = {"skill": "press", "run": "r", "status": "accepted", "generation": 1, "text": text}
        store.put("skill_versions", {"id": "r.g1", **version})
        for place, (name, weight) in enumerate((("r.g1", 3), (ledger.seed_version, 1))):
            row = {"run": "r", "generation": 1, "place": place, "weight": weight}
            store.put("skill_pool", {"skill_version": name, **row})
        for look in range(1, 400, 2):
            store.put(
                "distillations",
                {"run": "r", "generation": look, "skill_version": "r.g1", "created_at": "now"},
            )
        await store.flush()
        used = [ledger.current(generation) for generation in range(402)]
        assert set(used[:2]) == {ledger.seed_version}, "before anything was accepted"
        assert used[2::2] == used[3::2]
        assert 0.65 < used[2::2].count("r.g1") / 200 < 0.85
        assert ledger.best() == "r.g1"


def test_without_a_pool_nothing_is_compared_twice(tmp_path: Path) -> None:
    execute(tmp_path, "skill.pool=1", "es.generations=3")
    assert query(tmp_path, "SELECT 1 FROM skill_pool") == []
    assert query(tmp_path, "SELECT 1 FROM episodes WHERE phase = 'gate' AND generation = 3") == []
    used = query(tmp_path, "SELECT generation, skill_version FROM generations ORDER BY generation")
    accepted = {
        row["generation"]: row["id"]
        for row in query(tmp_path, "SELECT id, generation FROM skill_versions WHERE status = 'accepted'")
    }
    assert accepted
    for before, after in pairwise(used):
        assert after["skill_version"] == accepted.get(before["generation"], before["skill_version"])
