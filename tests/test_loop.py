"""The loop on a fake engine and a toy world: what a run does, in which order, and what it stores."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from toyrun import experiment, history

from coevo.config import Experiment
from coevo.env import Task
from coevo.errors import EngineError, StoreError, WorldError
from coevo.lock import RunLock, is_running
from coevo.loop import Resources, RunResult, evaluate_run, export_run, run_experiment
from coevo.loop.plan import draw_slots, held_out_slots, what_evolves
from coevo.loop.resources import load_agent, load_skill
from coevo.report import make_report
from coevo.store import Store
from coevo.testing import FakeEngine, ToyTaskSet


def resources(made: Experiment, engine: FakeEngine | None = None, **tasks: Any) -> Resources:
    options: dict[str, Any] = {"train": 12, "dev": 12, "test": 9} | tasks
    return Resources(engine or FakeEngine(), ToyTaskSet(**options), load_agent(made), load_skill(made))


async def execute(made: Experiment, engine: FakeEngine | None = None, **options: Any) -> RunResult:
    tasks = options.pop("tasks", {})
    return await run_experiment(made, resources=resources(made, engine, **tasks), **options)


def query(directory: Path, sql: str, *params: Any) -> list[dict[str, Any]]:
    with closing(Store.open(directory / "runs.sqlite", readonly=True)) as store:
        return store.query(sql, params)


def applied(directory: Path, before: int = 1000) -> int:
    """Updates that moved the weights in the generations before one."""
    sql = "SELECT count(*) AS n FROM es_steps WHERE status = 'applied' AND generation < ?"
    return int(query(directory, sql, before)[0]["n"])


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One longer run, looked at by several tests."""
    directory = tmp_path_factory.mktemp("learned")
    made = experiment(
        directory,
        "es.generations=6",
        "es.population=12",
        "es.tasks_per_generation=12",
        "es.alpha=2.5",
        "skill.every=2",
        "skill.dev_tasks=24",
        "tasks.slots=64",
    )
    asyncio.run(execute(made, tasks={"train": 36, "dev": 24, "test": 60}))
    return directory


class TestWhatARunDoes:
    def test_it_learns_on_held_out_tasks(self, learned: Path) -> None:
        with closing(Store.open(learned / "runs.sqlite", readonly=True)) as store:
            grid = make_report(store, "toy-1").grid
        assert grid is not None
        assert grid.cells[0].estimate.n == 60
        assert grid.gains["evolved+evolved"].mean >= 0.15
        assert grid.gains["evolved+evolved"].lower > 0

    def test_members_of_a_generation_face_the_same_tasks_and_seeds_under_one_skill(
        self, learned: Path
    ) -> None:
        faced: dict[int, dict[int, set[tuple[str, int]]]] = defaultdict(lambda: defaultdict(set))
        rows = query(learned, "SELECT * FROM episodes WHERE phase = 'rollout'")
        for row in rows:
            faced[row["generation"]][row["member"]].add((row["task"], row["seed"]))
        assert sorted(faced) == list(range(6))
        for members in faced.values():
            assert len(members) == 12
            assert len({frozenset(slots) for slots in members.values()}) == 1
            assert all(len(slots) == 12 for slots in members.values())
        for generation in range(6):
            mine = [row for row in rows if row["generation"] == generation]
            assert len({row["skill_version"] for row in mine}) == 1
            assert len({row["perturbation_seed"] for row in mine}) == 12
            assert {row["weights_step"] for row in mine} == {applied(learned, before=generation)}

    def test_a_new_skill_takes_effect_from_the_next_generation(self, learned: Path) -> None:
        accepted = query(learned, "SELECT id, generation FROM skill_versions WHERE status = 'accepted'")
        assert accepted, "nothing was accepted: the test shows nothing"
        used = {
            row["generation"]: row["skill_version"] for row in query(learned, "SELECT * FROM generations")
        }
        for version in accepted:
            assert used[version["generation"]] != version["id"]
            if version["generation"] + 1 in used:
                assert used[version["generation"] + 1] == version["id"]

    def test_the_skill_is_looked_at_every_second_generation(self, learned: Path) -> None:
        rows = query(learned, "SELECT DISTINCT generation FROM skill_versions WHERE run IS NOT NULL")
        assert {row["generation"] for row in rows} <= {1, 3, 5}
        assert rows

    def test_every_line_of_a_new_skill_leads_to_rollouts_of_train_tasks(self, learned: Path) -> None:
        rows = query(
            learned,
            "SELECT e.id, count(p.id) AS evidence, min(p.phase = 'rollout' AND p.task LIKE 'train-%') AS clean"
            " FROM edits e LEFT JOIN edit_evidence v ON v.edit = e.id LEFT JOIN episodes p ON p.id = v.episode"
            " WHERE e.status = 'applied' GROUP BY e.id",
        )
        assert rows
        assert all(row["evidence"] >= 1 and row["clean"] == 1 for row in rows)

    def test_the_gate_compares_pairs_on_dev_tasks_with_the_centre(self, learned: Path) -> None:
        rows = query(learned, "SELECT * FROM episodes WHERE phase = 'gate'")
        assert all(row["task"].startswith("dev-") and row["perturbation_seed"] is None for row in rows)
        arms: dict[tuple[int, str], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            arms[row["generation"], row["arm"]].add((row["task"], row["seed"]))
        for generation in {generation for generation, _ in arms}:
            assert len({frozenset(slots) for (one, _), slots in arms.items() if one == generation}) == 1

    def test_the_grid_uses_the_same_test_tasks_and_seeds_in_every_arm(self, learned: Path) -> None:
        rows = query(
            learned, "SELECT arm, task, seed, weights_step, skill_version FROM episodes WHERE phase = 'eval'"
        )
        arms = defaultdict(set)
        for row in rows:
            arms[row["arm"]].add((row["task"], row["seed"]))
        assert set(arms) == {"base+seed", "base+evolved", "evolved+seed", "evolved+evolved"}
        assert len({frozenset(slots) for slots in arms.values()}) == 1
        assert all(task.startswith("test-") for task, _ in arms["base+seed"])
        assert {row["weights_step"] for row in rows if row["arm"].startswith("base+")} == {0}
        assert {row["weights_step"] for row in rows if row["arm"].startswith("evolved+")} == {
            applied(learned)
        }
        by_skill = {row["arm"]: row["skill_version"] for row in rows}
        assert by_skill["base+seed"] == by_skill["evolved+seed"] != by_skill["evolved+evolved"]

    def test_sigma_has_exact_end_points(self, learned: Path) -> None:
        sigmas = [row["sigma"] for row in query(learned, "SELECT sigma FROM generations ORDER BY generation")]
        assert (sigmas[0], sigmas[-1]) == (0.5, 0.3)

    async def test_base_and_steps_rebuild_the_weights(self, learned: Path) -> None:
        facts = await export_run(learned / "runs.sqlite", "toy-1", learned / "out", engine=FakeEngine())
        last = query(
            learned, "SELECT checksum FROM es_steps WHERE status = 'applied' ORDER BY step DESC LIMIT 1"
        )
        assert facts["checksum"] == last[0]["checksum"]
        assert facts["weights_step"] == applied(learned) >= 4
        assert (learned / "out" / "theta.json").exists()


class TestSchedules:
    async def test_weights_only_leaves_the_skill_alone(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "schedule.mode=weights"))
        assert [row["status"] for row in query(tmp_path, "SELECT status FROM skill_versions")] == ["seed"]
        assert applied(tmp_path) >= 2
        assert not query(tmp_path, "SELECT 1 FROM episodes WHERE phase = 'gate'")
        # Nothing tells evolved from seed skill: two arms are run, the grid shows four.
        arms = query(tmp_path, "SELECT DISTINCT arm FROM episodes WHERE phase = 'eval'")
        assert {row["arm"] for row in arms} == {"base+seed", "evolved+seed"}
        with closing(Store.open(tmp_path / "runs.sqlite", readonly=True)) as store:
            grid = make_report(store, "toy-1").grid
        assert grid is not None
        cells = {cell.arm: cell for cell in grid.cells}
        assert cells["evolved+evolved"].same_as == "evolved+seed"
        assert cells["evolved+evolved"].estimate == cells["evolved+seed"].estimate
        assert (grid.gains["base+evolved"].mean, grid.gains["base+evolved"].upper) == (0.0, 0.0)

    async def test_skill_only_leaves_the_weights_alone(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "schedule.mode=skill"))
        steps = query(tmp_path, "SELECT status, reason, weights_step FROM es_steps")
        assert {(row["status"], row["weights_step"]) for row in steps} == {("skipped", 0)}
        assert "held fixed" in steps[0]["reason"]
        assert query(tmp_path, "SELECT 1 FROM skill_versions WHERE run = 'toy-1'")
        assert {row["weights_step"] for row in query(tmp_path, "SELECT weights_step FROM episodes")} == {0}

    async def test_one_after_the_other(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "schedule.mode=sequential", "es.generations=4"))
        steps = query(tmp_path, "SELECT status FROM es_steps ORDER BY step")
        assert [row["status"] for row in steps] == ["applied", "applied", "skipped", "skipped"]
        looked = query(tmp_path, "SELECT DISTINCT generation FROM skill_versions WHERE run IS NOT NULL")
        assert {row["generation"] for row in looked} <= {2, 3}
        assert looked

    @pytest.mark.parametrize(
        ("override", "expected"),
        [
            ("schedule.mode=interleaved", [(True, True)] * 3),
            ("schedule.mode=skill", [(False, True)] * 3),
            ("schedule.mode=weights", [(True, False)] * 3),
            ("schedule.mode=sequential", [(True, False), (False, True), (False, True)]),
        ],
    )
    def test_what_evolves_when(
        self, tmp_path: Path, override: str, expected: list[tuple[bool, bool]]
    ) -> None:
        made = experiment(tmp_path, override)
        assert [what_evolves(made, generation) for generation in range(3)] == expected

    async def test_evaluation_on_the_way(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "evaluate.every=1", "evaluate.tasks=3", "schedule.mode=weights"))
        rows = query(
            tmp_path, "SELECT generation, arm, weights_step, episodes FROM evaluations ORDER BY generation"
        )
        assert [tuple(row.values()) for row in rows] == [
            (0, "base+seed", 0, 3),
            (1, "evolved+evolved", applied(tmp_path, before=1), 3),
            (2, "evolved+evolved", applied(tmp_path, before=2), 3),
            (3, "evolved+seed", applied(tmp_path), 3),
        ]

    async def test_the_built_in_analyst_needs_no_model(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "schedule.mode=skill", "skill.analyst=miner"))
        assert query(tmp_path, "SELECT 1 FROM skill_versions WHERE author = 'miner'")


class TestPlans:
    TASKS = tuple(Task(id=f"t{i}", goal="") for i in range(10))

    def test_every_task_is_met_before_any_is_met_again(self) -> None:
        met = [slot.task.id for g in range(5) for slot in draw_slots(3, "rollout", g, self.TASKS, 4)]
        assert sorted(met[:10]) == sorted(met[10:]) == sorted(task.id for task in self.TASKS)
        assert met[:10] != met[10:], "each pass is shuffled anew"

    def test_slots_of_one_round_are_distinct_even_when_tasks_are_few(self) -> None:
        slots = draw_slots(3, "rollout", 0, self.TASKS[:2], 6)
        assert len({slot.key for slot in slots}) == 6

    def test_held_out_slots_are_the_same_every_time(self) -> None:
        slots = held_out_slots(3, self.TASKS, limit=4, repeats=2)
        assert slots == held_out_slots(3, self.TASKS, limit=4, repeats=2)
        assert [slot.task.id for slot in slots] == ["t0", "t1", "t2", "t3"] * 2
        assert len({slot.seed for slot in slots}) == 8


class TestNoSignal:
    async def test_equal_rewards_make_no_step_and_say_why(self, tmp_path: Path) -> None:
        engine = FakeEngine(lambda request, theta: "nonsense")
        await execute(experiment(tmp_path, "schedule.mode=weights"), engine)
        steps = query(tmp_path, "SELECT status, reason, checksum FROM es_steps")
        assert {(row["status"], row["reason"]) for row in steps} == {("skipped", "all 6 members scored 0")}
        assert engine.theta == (0.0,) * 8

    async def test_an_invalid_episode_is_retried_and_never_a_zero(self, tmp_path: Path) -> None:
        broken: dict[str, int] = defaultdict(int)

        def fault(task: Task, turn: int) -> None:
            broken[task.id] += 1
            if task.id == "train-3" or (task.id == "train-4" and broken[task.id] == 1):
                raise WorldError("the page crashed")

        made = experiment(tmp_path, "es.generations=1", "es.tasks_per_generation=12", "schedule.mode=weights")
        await execute(made, tasks={"fault": fault})
        lost = query(tmp_path, "SELECT * FROM episodes WHERE task = 'train-3' ORDER BY member, attempt")
        assert [row["attempt"] for row in lost] == [0, 1] * 6
        assert {(row["outcome"], row["reward"], row["category"]) for row in lost} == {
            ("invalid", None, "world_error")
        }
        again = query(
            tmp_path, "SELECT outcome, count(*) AS n FROM episodes WHERE task = 'train-4' GROUP BY 1"
        )
        assert {row["outcome"]: row["n"] for row in again}["invalid"] == 1
        assert sum(row["n"] for row in again) == 7
        members = query(tmp_path, "SELECT valid, invalid FROM members")
        assert {(row["valid"], row["invalid"]) for row in members} == {(11, 1)}
        generation = query(tmp_path, "SELECT valid, invalid FROM generations")[0]
        assert (generation["valid"], generation["invalid"]) == (66, 6)
        assert query(tmp_path, "SELECT status FROM es_steps")[0]["status"] == "applied"

    async def test_a_world_that_is_down_stops_the_run_instead_of_scoring_it(self, tmp_path: Path) -> None:
        def fault(task: Task, turn: int) -> None:
            raise WorldError("the browser is gone")

        with pytest.raises(WorldError) as caught:
            await execute(experiment(tmp_path), tasks={"fault": fault})
        assert "evaluate base+seed: all 9 episodes were invalid; most often: the browser is gone" in str(
            caught.value
        )
        assert "coevo check" in str(caught.value)
        row = query(tmp_path, "SELECT status, error FROM runs")[0]
        assert row["status"] == "failed"
        assert "the browser is gone" in row["error"]


class TestContinuing:
    async def test_a_finished_run_is_not_run_again(self, tmp_path: Path) -> None:
        made = experiment(tmp_path, "es.generations=1")
        assert await execute(made) == RunResult("toy-1", "finished")
        engine = FakeEngine()
        assert await execute(made, engine) == RunResult("toy-1", "finished", already=True)
        assert engine.requests == []

    async def test_new_starts_another_with_the_same_result(self, tmp_path: Path) -> None:
        made = experiment(tmp_path, "es.generations=2")
        await execute(made)
        assert await execute(made, new=True) == RunResult("toy-2", "finished")
        checksums = query(tmp_path, "SELECT checksum FROM es_steps ORDER BY step, run")
        assert [row["checksum"] for row in checksums[::2]] == [row["checksum"] for row in checksums[1::2]]

    async def test_a_changed_agent_or_experiment_is_another_run(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "es.generations=1"))
        assert (await execute(experiment(tmp_path, "es.generations=1", "seed=6"))).run == "toy-2"
        made = experiment(tmp_path, "es.generations=1")
        (tmp_path / "agent.py").write_text("# changed\nfrom coevo.testing import toy_graph as graph\n")
        assert (await execute(made)).run == "toy-3"

    async def test_rows_alone_are_enough(self, tmp_path: Path) -> None:
        straight, broken = tmp_path / "straight", tmp_path / "broken"
        await execute(experiment(straight))
        with pytest.raises(EngineError, match="the engine failed on task"):
            await execute(experiment(broken), FailingAfter(90))
        for file in broken.glob("runs.sqlite.checkpoints*"):
            file.unlink()
        await execute(experiment(broken))
        assert history(broken) == history(straight)

    async def test_a_row_that_was_tampered_with_is_noticed(self, tmp_path: Path) -> None:
        made = experiment(tmp_path)
        with pytest.raises(EngineError, match="the engine failed on task"):
            await execute(made, FailingAfter(150))
        with closing(Store.open(tmp_path / "runs.sqlite")) as store:
            store.update("es_steps", ("toy-1", 0), {"alpha": 0.999})
        with pytest.raises(EngineError) as caught:
            await execute(made)
        assert "the weights rebuilt from" in str(caught.value)
        assert "--new" in str(caught.value)

    async def test_another_base_model_is_noticed(self, tmp_path: Path) -> None:
        made = experiment(tmp_path)
        with pytest.raises(EngineError, match="the engine failed on task"):
            await execute(made, FailingAfter(90))
        with pytest.raises(EngineError, match="began with a base model of checksum"):
            await execute(made, FakeEngine(size=9))

    async def test_the_same_run_is_not_executed_twice_at_once(self, tmp_path: Path) -> None:
        made = experiment(tmp_path)
        with pytest.raises(EngineError, match="the engine failed on task"):
            await execute(made, FailingAfter(20))
        lock = RunLock.acquire(tmp_path / "runs.sqlite", "toy-1")
        assert is_running(tmp_path / "runs.sqlite", "toy-1")
        with pytest.raises(StoreError, match=r"run toy-1 is being executed by process \d+"):
            await execute(made)
        lock.release()
        assert not is_running(tmp_path / "runs.sqlite", "toy-1")
        assert (await execute(made)).status == "finished"


class TestEvaluatingAgain:
    async def test_more_repeats_add_to_what_is_there(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "es.generations=1", "schedule.mode=weights"))
        engine = FakeEngine()
        rows = await evaluate_run(tmp_path / "runs.sqlite", "toy-1", repeats=2, engine=engine)
        assert {(row["arm"], row["episodes"]) for row in rows} == {("base+seed", 18), ("evolved+seed", 18)}
        assert len(query(tmp_path, "SELECT 1 FROM episodes WHERE phase = 'eval'")) == 36
        with closing(Store.open(tmp_path / "runs.sqlite", readonly=True)) as store:
            grid = make_report(store, "toy-1").grid
        assert grid is not None
        assert grid.cells[0].estimate.n == 9  # tasks: repeats of one are not independent

    async def test_another_split_stays_apart(self, tmp_path: Path) -> None:
        await execute(experiment(tmp_path, "es.generations=1", "schedule.mode=weights"))
        rows = await evaluate_run(
            tmp_path / "runs.sqlite", "toy-1", split="dev", arms=["evolved+seed"], engine=FakeEngine()
        )
        assert [(row["arm"], row["split"], row["episodes"]) for row in rows] == [
            ("evolved+seed@dev", "dev", 12)
        ]


class FailingAfter(FakeEngine):
    """Serves a number of requests and then breaks in a way nobody expects."""

    def __init__(self, requests: int) -> None:
        super().__init__()
        self._left = requests

    async def generate(self, requests: Any, *, deliver: Any = None) -> Any:
        self._left -= len(requests)
        if self._left < 0:
            raise KeyError("defect")
        return await super().generate(requests, deliver=deliver)


async def test_two_runs_of_one_process_share_a_database(tmp_path: Path) -> None:
    made = [experiment(tmp_path, "es.generations=1", f"seed={seed}") for seed in (1, 2)]
    results = await asyncio.wait_for(asyncio.gather(*map(execute, made)), 120)
    assert [result.status for result in results] == ["finished", "finished"]
    assert {row["id"] for row in query(tmp_path, "SELECT id FROM runs")} == {"toy-1", "toy-2"}
