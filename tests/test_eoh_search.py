"""Whole searches: rows, budget, weights, resume, the arms without a model and without evolution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from toysearch import search_workspace

from coevo.cli import main
from coevo.config import load_experiment
from coevo.eoh import compare_searches, make_search_report, run_search
from coevo.eoh.budget import count_budget
from coevo.eoh.curves import render_curves
from coevo.eoh.ledger import SearchLedger
from coevo.eoh.report import lineage
from coevo.errors import StoreError
from coevo.progress import Progress
from coevo.store import Store

ROWS = "SELECT * FROM heuristics WHERE run = ? ORDER BY turn, number"


class Notes(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def advance(self, done: int, text: str) -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return search_workspace(tmp_path)


async def search(file: Path, *overrides: str, progress: Progress | None = None) -> Store:
    experiment = load_experiment(file, overrides)
    result = await run_search(experiment, progress=progress)
    assert result.status == "finished"
    return Store.open(experiment.database_path)


async def test_a_search_from_start_to_best(file: Path) -> None:
    notes = Notes()
    with await search(file, progress=notes) as store:
        rows = store.query(ROWS, ("toy-1",))
        turns = SearchLedger(store, "toy-1", "doubling").turns()
        assert [str(turn.operator) for turn in turns] == ["i1"] + ["e1", "e2", "m1", "m2"] * 3
        assert len(rows) == sum(turn.children for turn in turns) == 65
        for row in rows:
            episode = store.query("SELECT * FROM episodes WHERE id = ?", (row["episode"],))[0]
            valid = row["status"] == "ok"
            assert episode["outcome"] == ("success" if valid else "failure")
            assert (episode["category"] or "ok") == row["status"]
            assert (row["objective"] is not None) is valid
            assert len(json.loads(row["objectives"] or "[]")) == (4 if valid else 0)
            wanted = {"i1": 0, "e1": 2, "e2": 2, "m1": 1, "m2": 1}[row["operator"]]
            assert len(json.loads(row["parents"])) == wanted
            assert (row["member"] is not None) is (row["operator"] in ("m1", "m2"))
        assert {row["status"] for row in rows} == {"ok", "parse_error", "exception"}
        broken = next(row for row in rows if row["status"] == "exception")
        assert "ZeroDivisionError" in broken["error"]
        assert broken["thought"] == "fails at once, always"
        best = [turn["population"] for turn in make_search_report(store, "toy-1").turns]
        assert all(len(set(population)) == len(population) <= 5 for population in best)
        asked = store.query("SELECT last_message FROM call_text")
        assert all(row["last_message"].endswith("```python block, and nothing else.") for row in asked)
        (system,) = store.query("SELECT DISTINCT content FROM message_text WHERE role = 'system'")
        assert system["content"].startswith("Write one function.\n\nGuess the hidden number")
        assert any("model busy" in line and "both at once" in line for line in notes.lines)
        assert any(line.startswith("65 candidates") for line in notes.lines)


async def test_mutations_move_the_weights_through_the_es_node(file: Path) -> None:
    with await search(file) as store:
        steps = store.query("SELECT * FROM es_steps WHERE run = 'toy-1' ORDER BY step")
        assert len(steps) == 6
        applied = [step for step in steps if step["status"] == "applied"]
        assert len(applied) >= 4
        for step in applied:
            members = store.query(
                "SELECT m.*, h.reward AS child FROM members m JOIN heuristics h ON h.run = m.run"
                " AND h.generation = m.generation AND h.member = m.member WHERE h.turn = ?",
                (step["step"],),
            )
            assert len(members) == 5
            assert {member["seed"] for member in members} == set(json.loads(step["seeds"]))
            assert all(member["reward"] == member["child"] for member in members)
            coefficients = dict(zip(json.loads(step["seeds"]), json.loads(step["coefficients"]), strict=True))
            assert coefficients == {
                member["seed"]: pytest.approx(member["coefficient"], abs=2**-12) for member in members
            }


async def test_without_es_the_weights_stay(file: Path) -> None:
    with await search(file, "search.move=[]") as store:
        assert store.query("SELECT * FROM es_steps") == []
        assert store.query("SELECT * FROM heuristics WHERE member IS NOT NULL") == []


async def test_the_best_is_named_on_fresh_instances(file: Path) -> None:
    with await search(file) as store:
        report = make_search_report(store, "toy-1")
        best = report.best[0]
        scores = store.query(
            "SELECT s.*, h.objective AS train FROM heuristic_scores s JOIN heuristics h ON h.id = s.heuristic"
        )
        val = {row["heuristic"]: row["objective"] for row in scores if row["split"] == "val"}
        assert len(val) == 3
        assert best["val"] == min(val.values())
        assert [row["heuristic"] for row in scores if row["split"] == "test"] == [best["id"]]
        assert best["test_gap"] == pytest.approx((best["test"] - 0.001) / 0.001)


async def test_the_same_search_twice_is_the_same(file: Path, tmp_path: Path) -> None:
    seen = []
    for name in ("one", "two"):
        with await search(file, f"database={name}.sqlite") as store:
            rows = store.query(ROWS, ("toy-1",))
            steps = store.query("SELECT step, checksum, coefficients FROM es_steps ORDER BY step")
            seen.append(([(row["id"], row["code"], row["objective"]) for row in rows], steps))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("method", ["eoh", "sample"])
async def test_without_a_model(file: Path, method: str) -> None:
    overrides = [
        "search.author=chance",
        "search.language=formula",
        f"search.method={method}",
        "search.budget=60",
        "search.generations=20",
        "search.move=[]",
        "model.engine=nowhere:nothing",
    ]
    with await search(file, *overrides) as store:
        rows = store.query(ROWS, ("toy-1",))
        assert len(rows) == 60
        assert all(row["episode"] is None for row in rows)
        assert sum(row["objective"] is not None for row in rows) > 30
        parents = [len(json.loads(row["parents"])) for row in rows]
        assert (max(parents) > 0) is (method == "eoh")


async def test_samples_that_move_the_weights(file: Path) -> None:
    overrides = ["search.method=sample", 'search.move=["i1"]', "search.population=8", "search.generations=4"]
    with await search(file, *overrides) as store:
        assert [row["operator"] for row in store.query(ROWS, ("toy-1",))] == ["i1"] * 32
        assert len(store.query("SELECT * FROM es_steps WHERE status = 'applied'")) == 4


async def test_a_start_is_judged_first_and_becomes_a_parent(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def guess(x):\n    return 2 * x + 1.1\n")
    with await search(file, 'search.start=["seed", "mine.py"]') as store:
        rows = store.query(ROWS, ("toy-1",))
        assert [row["operator"] for row in rows[:3]] == ["start", "start", "i1"]
        assert rows[1]["objective"] == pytest.approx(0.1)
        descendants = [row for row in rows if "toy-1.t0.1" in json.loads(row["parents"])]
        assert descendants
        line = lineage(store, descendants[-1]["id"])
        assert line[0]["turn"] == 0
        assert [row["id"] for row in line].count("toy-1.t0.1") == 1


async def test_one_repair_with_the_error(file: Path) -> None:
    with await search(file, "agent.max_turns=2", "search.generations=1") as store:
        asked = store.query(
            "SELECT e.task, count(*) AS n FROM calls c JOIN episodes e ON e.id = c.episode GROUP BY e.id"
        )
        assert {row["n"] for row in asked} == {1, 2}
        shown = store.query(
            "SELECT count(*) AS n FROM step_text WHERE observation LIKE 'The heuristic failed (exception)%'"
        )
        assert shown[0]["n"] > 0
        assert len(store.query(ROWS, ("toy-1",))) == 25


async def test_budget_counts_everything_and_says_when_it_does_not_add_up(file: Path) -> None:
    experiment = load_experiment(file, ["search.budget=33"])
    await run_search(experiment)
    with Store.open(experiment.database_path) as store:
        budget = count_budget(store, "toy-1", experiment)
        assert budget.holds
        assert (budget.planned, budget.candidates, budget.judged) == (33, 33, 33)
        assert budget.answers == 33
        assert budget.completion_tokens > 100
        assert sum(budget.by_status.values()) == 33
        store.delete("heuristics", {"id": "toy-1.t2.1"})
        await store.flush()
        broken = count_budget(store, "toy-1", experiment)
        assert not broken.holds
        assert "DOES NOT ADD UP" in broken.sentence()


async def test_comparison_and_pictures(file: Path) -> None:
    await search(file, "search.budget=30")
    await search(file, "search.budget=30", "seed=6")
    with await search(file, "search.budget=30", "search.move=[]") as store:
        arms = {arm.arm: arm for arm in compare_searches(store)}
        assert {name: len(arm.train) for name, arm in arms.items()} == {"EoH+ES": 2, "EoH": 1}
        assert arms["EoH+ES"].candidates == 30
        picture = render_curves([make_search_report(store, run) for run in ("toy-1", "toy-3")])
        assert picture.count("<path") == 2
        assert "EoH+ES" in picture
        with pytest.raises(StoreError, match="there is no heuristic nobody"):
            lineage(store, "nobody")


async def test_nothing_valid_is_told_and_ends_well(file: Path) -> None:
    notes = Notes()
    engine = (file.parent / "toysearch.py").read_text().replace("% 10", "% 1")
    (file.parent / "toysearch.py").write_text(engine)
    with await search(file, progress=notes) as store:
        rows: list[dict[str, Any]] = store.query(ROWS, ("toy-1",))
        assert {row["status"] for row in rows} == {"parse_error"}
        assert len(rows) == 25
        assert any("no valid heuristic" in line for line in notes.lines)


ANALYST = """
from coevo.skill import Evidence, Op, ProposedEdit

class Rules:
    name = "rules"

    async def analyse(self, skill, selection):
        episodes = [*selection.all_successes, *selection.all_failures]
        assert {episode.category for episode in selection.all_failures} <= {"parse_error", "exception"}
        evidence = tuple(Evidence(episode.id, episode.task) for episode in episodes)
        number = skill.body.count("Rule") + 1
        return [ProposedEdit(Op.ADD, "Rules", f"Rule {number}: never divide by zero.", evidence=evidence)]
"""


GATED = (
    "schedule.mode=interleaved",
    "skill.analyst=analyst.py:Rules",
    "skill.dev_tasks=40",
    "skill.confidence=0.6",
)


async def test_the_skill_evolves_from_the_same_episodes(file: Path) -> None:
    """Looked at after every generation, decided by the gate on requests of the search's own kind, used in the next prompts."""
    (file.parent / "analyst.py").write_text(ANALYST)
    source = (file.parent / "toysearch.py").read_text()
    heeds = 'said = str(request.messages[0]["content"])\n    kind = 5 if "Rule 1" in said else derive_seed(seed, "kind") % 10'
    (file.parent / "toysearch.py").write_text(source.replace('kind = derive_seed(seed, "kind") % 10', heeds))
    with await search(file, *GATED) as store:
        versions = store.query("SELECT * FROM skill_versions WHERE run = 'toy-1' ORDER BY generation")
        assert [row["status"] for row in versions] == ["accepted", "rejected"]
        assert "Rule 1: never divide by zero." in versions[0]["text"]
        turns = store.query(
            "SELECT generation, skill_version, valid, children FROM search_turns ORDER BY turn"
        )
        assert {row["skill_version"] for row in turns if row["generation"] > 1} == {"toy-1.g1"}
        assert all(row["valid"] == row["children"] for row in turns if row["generation"] > 1)
        evidence = store.query(
            "SELECT h.status FROM edits e JOIN edit_evidence v ON v.edit = e.id JOIN heuristics h ON h.episode = v.episode"
            " WHERE e.skill_version = 'toy-1.g1'"
        )
        assert {"ok", "exception"} <= {row["status"] for row in evidence}
        assert store.query("SELECT * FROM episodes WHERE phase = 'gate' AND task LIKE 'doubling/g1.m1.%'")
        budget = make_search_report(store, "toy-1").budget
        assert budget.holds
        assert budget.gated == budget.gate_answers > 0
        assert budget.candidates == budget.judged + budget.gated == budget.answers
        assert f"{budget.gated} in gates" in budget.sentence()


async def test_gates_are_in_the_budget(file: Path) -> None:
    """With skill evolution as many candidates as without, gates among them, and improvements are counted where they stand."""
    (file.parent / "analyst.py").write_text(ANALYST)
    overrides = [
        "search.budget=70",
        "schedule.mode=interleaved",
        "skill.analyst=analyst.py:Rules",
        "skill.dev_tasks=8",
        "skill.candidates=1",
    ]
    with await search(file, *overrides) as store:
        report = make_search_report(store, "toy-1")
        budget = report.budget
        assert budget.holds
        assert budget.planned == budget.candidates == 70
        assert 0 < budget.gated <= 48
        assert budget.judged == 70 - budget.gated
        looks = store.query("SELECT generation FROM distillations ORDER BY generation")
        gated = SearchLedger(store, "toy-1", "").gated()
        assert list(gated) == [row["generation"] for row in looks]
        assert looks[0]["generation"] == 1
        assert report.curve[-1][0] <= 70
        store.delete("episodes", {"id": store.query("SELECT id FROM episodes WHERE phase = 'gate'")[0]["id"]})
        await store.flush()
        assert not count_budget(store, "toy-1", load_experiment(file, overrides)).holds


async def test_a_budget_without_room_for_a_gate_goes_to_the_search(file: Path) -> None:
    (file.parent / "analyst.py").write_text(ANALYST)
    overrides = ["schedule.mode=interleaved", "skill.analyst=analyst.py:Rules", "skill.dev_tasks=40"]
    with await search(file, "search.budget=60", *overrides) as store:
        assert not store.query("SELECT * FROM distillations")
        assert (
            count_budget(store, "toy-1", load_experiment(file, ["search.budget=60", *overrides])).judged == 60
        )


async def test_repairs_are_in_the_budget(file: Path) -> None:
    with await search(file, "search.budget=40", "agent.max_turns=2") as store:
        budget = make_search_report(store, "toy-1").budget
        assert budget.holds
        assert budget.repairs > 0
        assert budget.judged + budget.repairs == budget.candidates == budget.answers
        assert 40 <= budget.candidates < 40 + 5, "the last turn's repairs come on top"


async def test_versions_that_are_good_at_different_operators_live_side_by_side(file: Path) -> None:
    """With a pool, until the end of the search, when they meet on requests that would come next."""
    (file.parent / "analyst.py").write_text(ANALYST)
    source = (file.parent / "toysearch.py").read_text()
    heeds = (
        'said = str(request.messages)\n    ruled = 0 if "numbers and weights" in said else 5\n'
        '    kind = ruled if "Rule 1" in said else derive_seed(seed, "kind") % 3'
    )
    (file.parent / "toysearch.py").write_text(source.replace('kind = derive_seed(seed, "kind") % 10', heeds))
    with await search(file, *GATED, "skill.pool=2") as store:
        rows = store.query("SELECT * FROM skill_pool ORDER BY generation, place")
        assert rows[0]["generation"] == 1
        assert {row["weight"] > 0 for row in rows if row["generation"] == 1} == {True}
        assert [row["weight"] > 0 for row in rows if row["generation"] == 4] == [True, False]
        assert "m2" in next(row["best_on"] for row in rows if "@" in row["skill_version"])
        assert make_search_report(store, "toy-1").budget.holds


async def test_the_digest_says_what_breaks_and_what_pays(file: Path) -> None:
    """The analyst without a model, on formulas by a model that likes `sqrt` and is bad at it."""
    source = (file.parent / "toysearch.py").read_text()
    formulas = """
def writes(request, theta):
    seed = request.sampling.seed
    kind = derive_seed(seed, "kind") % 3
    b = 0.1 + (derive_seed(seed, "b") % 100) / 100
    return ("sqrt(x) + x", f"x + x + {b:.2f}", "x * (")[kind]
"""
    (file.parent / "toysearch.py").write_text(source + formulas)
    overrides = [
        "schedule.mode=skill",
        "search.language=formula",
        "skill.analyst=coevo.eoh.digest:Digest",
        "search.population=8",
        "search.generations=1",
    ]
    with await search(file, *overrides) as store:
        edits = store.query(
            "SELECT section, text, support FROM edits WHERE status = 'applied' ORDER BY section, text"
        )
        rules = {(edit["section"], edit["text"]) for edit in edits}
        assert (
            "What pays",
            "- Heuristics that use `sqrt` have scored worse than those without it: do without it.",
        ) in rules
        mistakes = [edit for edit in edits if edit["section"] == "What fails"]
        assert len(mistakes) == 1
        assert mistakes[0]["support"] >= 5
        status = store.query("SELECT status FROM skill_versions WHERE run = 'toy-1'")
        assert {row["status"] for row in status} == {"rejected"}  # the model does not heed it


def test_commands_on_a_search(file: Path, tmp_path: Path) -> None:
    """Each command shows what it is for, and the others the same."""
    runner = CliRunner()

    def ask(*arguments: str) -> str:
        result = runner.invoke(main, list(arguments))
        assert result.exit_code == 0, result.output
        return result.output

    assert "next: coevo heuristics report toy-1" in ask("run", str(file), "search.budget=40")
    whole = json.loads(ask("heuristics", "report", "--json"))
    assert whole["budget"]["holds"]
    assert whole["curve"][-1][1] == whole["best"][0]["objective"] or len(whole["best"]) > 1
    text = ask("heuristics", "report", "--svg", "curve.svg")
    assert "40 candidates" in text
    assert "<path" in (tmp_path / "curve.svg").read_text()
    best = json.loads(ask("heuristics", "list", "--best", "1", "--json"))[0]["id"]
    failed = json.loads(ask("heuristics", "list", "--failed", "--json"))
    assert {row["status"] for row in failed} <= {"parse_error", "exception"}
    assert ask("heuristics", "show", best, "--code").partition("def")[2].startswith(" guess(x):")
    assert "from the oldest ancestor on" in ask("heuristics", "show", best)
    assert ask("show", best) == ask("heuristics", "show", best)
    assert ask("report", "toy-1") == ask("report") == ask("heuristics", "report", "toy-1")
    assert json.loads(ask("heuristics", "compare", "--json"))[0]["method"] == "EoH+ES"
    assert "doubling" in ask("show", "toy-1")
    for arguments, hint in (
        (("report", "--grid"), "coevo report toy-1"),
        (("heuristics", "show", "nobody"), "coevo heuristics list"),
    ):
        result = runner.invoke(main, list(arguments))
        assert result.exit_code == 1
        assert hint in result.output
    checked = ask("check", str(file))
    assert "its simple heuristic scores" in checked
    assert "65 candidates" in checked
