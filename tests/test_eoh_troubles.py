"""Searches in which something goes wrong: candidates, agents and problems that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_eoh_search import ANALYST, ROWS, Notes
from toysearch import search_workspace

from coevo.check import check_experiment
from coevo.cli import main
from coevo.config import load_experiment
from coevo.eoh import make_search_report, run_search
from coevo.errors import ConfigError
from coevo.loop.resources import load_task_set
from coevo.loop.stop import RunStopped
from coevo.store import Store

Edit = Callable[[str, str], None]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return search_workspace(tmp_path)


@pytest.fixture
def edit(file: Path) -> Edit:
    """Replace something in the problem or in what the model writes."""

    def replace(old: str, new: str) -> None:
        path = file.parent / "toysearch.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return replace


async def search(file: Path, *overrides: str) -> list[dict[str, Any]]:
    experiment = load_experiment(file, overrides)
    result = await run_search(experiment)
    assert result.status == "finished"
    with Store.open(experiment.database_path) as store:
        assert make_search_report(store, result.run).budget.holds
        return store.query(ROWS, (result.run,))


async def refused_at_once(file: Path, *overrides: str) -> str:
    """What a search says that ends before a model is asked or a heuristic tried."""
    experiment = load_experiment(file, overrides)
    with pytest.raises(ConfigError) as caught:
        await run_search(experiment)
    with Store.open(experiment.database_path) as store:
        assert store.query("SELECT 1 FROM calls") == store.query("SELECT 1 FROM heuristics") == []
    return caught.value.message


REFUSAL = 'return "I would rather not."'


def program(body: str) -> str:
    return f'return "{{an odd idea}}\\n```python\\ndef guess(x):\\n    {body}\\n```"'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1e200", "instance 0: the objective is 1e+200"),
        ("return 1e308 * 10", "instance 0: the objective is inf"),
        ("return float('nan')", "instance 0: the objective is nan"),
        ("return 10 ** 400", ""),
    ],
)
async def test_enormous_results_are_invalid_and_hurt_nobody(
    file: Path, edit: Edit, body: str, said: str
) -> None:
    edit(REFUSAL, program(body))
    rows = await search(file)
    odd = [row for row in rows if row["thought"] == "an odd idea"]
    assert odd
    assert {row["status"] for row in odd} == {"non_finite"}
    assert all(said in row["error"] for row in odd)


def test_a_size_that_the_problem_does_not_have_is_told_before_the_model_is_loaded(
    file: Path, edit: Edit
) -> None:
    edit("return FakeEngine(writes, delay_s=0.002)", 'raise RuntimeError("the model was loaded")')
    overrides = ["search.problem=ahd:construct_tsp", "search.size=20"]
    with pytest.raises(
        ConfigError, match=r"search\.size = 20: construct_tsp has no train instances"
    ) as caught:
        asyncio.run(search(file, *overrides))
    assert caught.value.hint == "choose 50, or leave it out"
    (failed,) = [one for one in check_experiment(file, overrides, quick=True) if one.status == "failed"]
    assert (failed.name, failed.next_step) == ("tasks", caught.value.hint)


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [
        ("    def sizes(self, split):\n        return [3, 4]\n", "choose 3 or 4, or leave it out"),
        ("    def sizes(self, split):\n        return 1 / 0\n", "toysearch.py, line"),
        ("    sizes = (3, 4)\n", None),
        ("", None),
    ],
)
def test_a_problem_may_say_its_sizes_and_need_not(
    file: Path, edit: Edit, sizes: str, refused: str | None
) -> None:
    edit("    async def solve(", sizes + "    async def solve(")
    experiment = load_experiment(file, ["search.size=7"])
    if refused is None:
        load_task_set(experiment)
    else:
        with pytest.raises(ConfigError) as caught:
            load_task_set(experiment)
        assert refused in (caught.value.hint or "")


async def test_a_reference_of_zero_has_a_gap(file: Path, edit: Edit) -> None:
    edit('Reference(0.001, "the hidden rule", bound=0.0)', 'Reference(0.0, "the hidden rule", bound=0.0)')
    await search(file, "search.budget=20")


async def test_an_agent_that_raises_made_a_candidate_that_failed(file: Path) -> None:
    agent = file.parent / "agent.py"
    text = agent.read_text()
    agent.write_text(
        text.replace(
            "    transition = await runtime.context.env.step",
            '    if "rather not" in state["reply"]:\n        raise ValueError("no wish to go on")\n'
            "    transition = await runtime.context.env.step",
        )
    )
    rows = await search(file)
    raised = [row for row in rows if row["status"] == "agent_error"]
    assert raised
    assert all("no wish to go on" in row["error"] and row["episode"] for row in raised)


async def test_a_repair_that_takes_too_long_leaves_the_first_answer(file: Path) -> None:
    agent = file.parent / "agent.py"
    text = agent.read_text()
    slow = text.replace(
        "    answer = await context.policy.ainvoke(messages)",
        '    if state.get("conversation"):\n        import asyncio\n\n        await asyncio.sleep(30)\n'
        "    answer = await context.policy.ainvoke(messages)",
    )
    agent.write_text(slow)
    rows = await search(
        file, "agent.max_turns=2", "agent.deadline_s=1", "agent.retries=0", "search.budget=10"
    )
    assert len(rows) == 10
    assert {row["status"] for row in rows} > {"ok"}


async def test_what_was_judged_before_costs_nothing_again(file: Path, edit: Edit) -> None:
    edit('a = 1.0 + theta[0] + (derive_seed(seed, "a") % 100) / 200', "a = 1.5")
    edit('b = theta[1] + (derive_seed(seed, "b") % 100) / 200', "b = 0.5")
    rows = await search(file, "search.move=[]")
    same = [row for row in rows if row["status"] == "ok"]
    assert len(same) > 10
    assert sum(row["seconds"] > 0 for row in same) == 1


@pytest.mark.parametrize("where", ["analyst", "gate"])
async def test_stopped_while_the_skill_is_looked_at(file: Path, where: str) -> None:
    """The same command goes on with the look, and then with the search."""
    (file.parent / "analyst.py").write_text(ANALYST.replace("        assert", "        #"))
    experiment = load_experiment(
        file, ["schedule.mode=interleaved", "skill.analyst=analyst.py:Rules", "skill.dev_tasks=8"]
    )

    class Stops(Notes):
        def phase(self, label: str, total: int, done: int, unit: str = "episodes") -> None:
            if where == "gate" and label.startswith("gate"):
                raise RunStopped

        def note(self, text: str) -> None:
            if where == "analyst" and "teach nothing" in text:
                raise RunStopped
            super().note(text)

    first = await run_search(experiment, progress=Stops())
    if where == "gate":
        assert first.status == "stopped"
    assert (await run_search(experiment)).status == "finished"
    with Store.open(experiment.database_path) as store:
        looks = store.query("SELECT generation FROM distillations ORDER BY generation")
        assert [row["generation"] for row in looks] == [1, 2, 3]
        assert make_search_report(store, "toy-1").budget.holds


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'seed_code = "def guess(x):\\n    return x\\n"',
            'seed_code = "def guess(x:"',
            "seed heuristic of doubling failed",
        ),
        ("return {expression}", "return 1", "the template of its formulas has no {expression}"),
        ('    notes = ""\n', "", "it has no notes"),
        ("Limits(cpu_s=2, wall_s=10, memory_mb=512)", "{}", "its limits are a dict, not Limits"),
        (
            "        points = POINTS[split]",
            "        points = POINTS[7]",
            "solve of the problem doubling raised KeyError: 7",
        ),
        ("        return [abs(guess", "        return [] and [abs(guess", "gave no objective on train"),
        (
            "def doubling() -> Doubling:",
            "doubling = 3\n\n\ndef other() -> Doubling:",
            "not a factory of problems",
        ),
    ],
)
async def test_a_problem_with_a_defect_is_told_before_a_model_is_asked(
    file: Path, edit: Edit, old: str, new: str, said: str
) -> None:
    edit(old, new)
    assert said in await refused_at_once(file)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "return {expression}\\n",
            "'{expression}'\\n    return 1.0\\n\\nguess.batched = True\\n",
            "doubling failed (bad_reply: ",
        ),
        ("return {expression}", "return {expression} + y", "name 'y' is not defined"),
        ("def square(v):", "def cube(v):", "name 'square' is not defined"),
    ],
)
async def test_a_template_that_no_formula_can_work_in_is_told_before_anything_is_tried(
    file: Path, edit: Edit, old: str, new: str, said: str
) -> None:
    edit(old, new)
    told = await refused_at_once(file, "search.language=formula", "search.author=chance")
    assert told.startswith("the template of the formulas of doubling failed")
    assert said in told


@pytest.mark.parametrize("shaken", [True, False])
def test_scores_that_are_noise_are_told(file: Path, edit: Edit, shaken: bool) -> None:
    if shaken:
        edit("        return [abs", "        import random\n        return [random.random() + abs")
    notes = Notes()
    asyncio.run(run_search(load_experiment(file, ["search.budget=10"]), progress=notes))
    told = [line for line in notes.lines if "what draws random numbers must seed them" in line]
    assert len(told) == shaken
    details = [one.detail for one in check_experiment(file) if one.detail]
    assert any("must seed them" in detail for detail in details) == shaken


def far_off(edit: Edit) -> None:
    """No formula is valid, the simple heuristic is."""
    edit("return {expression}", "return {expression} + 1000")
    edit(
        "        return [abs",
        "        if guesses != list(points): raise CandidateError(Category.INFEASIBLE, 'far off')\n        return [abs",
    )


async def test_a_search_that_finds_nothing_says_why(file: Path, edit: Edit) -> None:
    far_off(edit)
    notes = Notes()
    overrides = ["search.language=formula", "search.author=chance", "search.budget=15"]
    await run_search(load_experiment(file, overrides), progress=notes)
    assert "generation 0, i1: 0 of 5 valid (infeasible: far off) · nothing valid yet · 0 alive" in notes.lines
    assert (
        "a formula of all variables and functions is no valid heuristic (infeasible: far off)"
        in notes.lines[1]
    )
    (last,) = (line for line in notes.lines if line.startswith("no valid heuristic was found"))
    assert last.splitlines()[1] == "  14 infeasible, for instance: far off"


@pytest.mark.parametrize("status", [1, 0], ids=["nothing", "something"])
def test_the_exit_status_of_a_search_says_whether_it_found_anything(
    file: Path, edit: Edit, status: int
) -> None:
    if status:
        far_off(edit)
    overrides = ["search.author=chance", "search.language=formula", "search.budget=10"]
    for said in ("is finished", "of this experiment is finished"):
        result = CliRunner().invoke(main, ["run", str(file), *overrides])
        assert said in result.stdout
        assert result.exit_code == status


async def test_a_changed_problem_or_start_is_another_search(file: Path, edit: Edit) -> None:
    mine = file.parent / "mine.py"
    mine.write_text("def guess(x):\n    return 2 * x\n")
    overrides = ("search.budget=10", "search.start=['mine.py']")
    experiment = load_experiment(file, overrides)
    runs = [(await run_search(experiment)).run]
    assert (await run_search(experiment)).already
    edit('"train": (1.0, 2.0, 3.0, 5.0)', '"train": (1.0, 2.0, 3.0, 6.0)')
    runs.append((await run_search(experiment)).run)
    mine.write_text("def guess(x):\n    return 2 * x + 0.5\n")
    runs.append((await run_search(experiment)).run)
    assert runs == ["toy-1", "toy-2", "toy-3"]


def test_a_missing_start_makes_no_run(file: Path) -> None:
    experiment = load_experiment(file, ["search.start=['nowhere.py']"])
    with pytest.raises(ConfigError, match=r"nowhere\.py"):
        asyncio.run(run_search(experiment))
    assert not experiment.database_path.exists()


async def test_programs_too_long_to_be_shown_are_refused(file: Path, edit: Edit) -> None:
    edit(REFUSAL, program("return x  # " + "long " * 600))
    rows = await search(file, "model.context=1000", "sampling.max_tokens=100")
    assert any("450 can be shown again in a prompt" in (row["error"] or "") for row in rows)
    assert all(len(row["code"] or "") <= 450 for row in rows if row["status"] == "ok")
    (file.parent / "mine.py").write_text("def guess(x):\n    return x\n" + "# long\n" * 100)
    experiment = load_experiment(
        file, ["model.context=1000", "sampling.max_tokens=100", "search.start=['mine.py']"]
    )
    with pytest.raises(ConfigError, match="450 can be shown in a prompt"):
        await run_search(experiment)
