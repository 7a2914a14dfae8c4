"""`coevo skills log, blame, rollback, lint` on a run of the toy world."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from toyrun import experiment

from coevo.cli import main
from coevo.loop import evaluate_run, run_experiment
from coevo.store import Store
from coevo.testing import FakeEngine


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lineage")
    made = experiment(
        directory, "skill.every=1", "schedule.mode=skill", "skill.confidence=0.51", "evaluate.tasks=3"
    )
    asyncio.run(run_experiment(made))
    return directory


def test_log_shows_what_was_read_and_decided(run: Path) -> None:
    shown = invoke("skills", "log", "toy-1", "--db", str(run / "runs.sqlite"))
    assert shown.exit_code == 0, shown.output
    assert "contrast pairs" in shown.output
    assert "tasks better" in shown.output
    looks = json.loads(invoke("skills", "log", "--json", "--db", str(run / "runs.sqlite")).output)
    assert len(looks) == 3
    assert {version["status"] for look in looks for version in look["versions"]} <= {"accepted", "rejected"}
    assert all(task["pairs"] for look in looks for version in look["versions"] for task in version["tasks"])


def test_blame_gives_each_line_its_edit_and_episodes(run: Path) -> None:
    database = str(run / "runs.sqlite")
    lines = json.loads(invoke("skills", "blame", "toy-1", "--json", "--db", database).output)
    text = invoke("skills", "show", "toy-1", "--db", database).output
    assert [line["text"] for line in lines] == text.rstrip("\n").split("\n")
    rule = next(line for line in lines if "Rule 1" in line["text"])
    assert rule["origin"]["support"] == len({episode["task"] for episode in rule["origin"]["episodes"]})
    assert rule["origin"]["episodes"][0]["weights_step"] == 0
    seed = next(line for line in lines if line["text"].startswith("Press the button"))
    assert seed["origin"] is None
    assert seed["version"].startswith("press@")
    blank = [line for line in lines if not line["text"].strip()]
    assert blank
    assert {line["version"] for line in blank} == {None}  # nobody wrote them
    assert {line["version"] for line in lines if line["text"].strip()} > {seed["version"]}
    one = invoke("skills", "blame", "toy-1", "--line", str(rule["number"]), "--db", database).output
    assert "by counting" in one
    assert one.count("episode ") >= len(rule["origin"]["episodes"])
    wrong = invoke("skills", "blame", "toy-1", "--line", "999", "--db", database)
    assert (wrong.exit_code, "has no line 999" in wrong.output) == (1, True)


def test_the_diff_of_a_run_leads_from_its_seed_to_its_end(run: Path, tmp_path: Path) -> None:
    database = tmp_path / "runs.sqlite"
    database.write_bytes((run / "runs.sqlite").read_bytes())

    def diff(*versions: str) -> str:
        done = invoke("skills", "diff", *versions, "--db", str(database))
        assert done.exit_code == 0, done.output
        return done.output

    with Store.open(database) as store:
        (seed,) = store.query("SELECT id FROM skill_versions WHERE status = 'seed'")
        store.update("skill_versions", "toy-1.g1", {"status": "accepted"})
        store.flush_sync()
    whole = diff("toy-1")
    assert whole == diff(seed["id"], "toy-1.g1")
    assert "+- Rule 1:" in whole
    assert "+- Rule 3:" in whole
    last = diff("toy-1.g1")
    assert "+- Rule 1:" not in last
    assert "+- Rule 3:" in last
    for _ in range(2):
        invoke("skills", "rollback", "toy-1", "--db", str(database))
    assert diff("toy-1").strip() == "no difference"
    nobody = invoke("skills", "diff", "toy-9", "--db", str(database))
    assert "there is no skill version 'toy-9'" in nobody.output


def test_rollback_goes_back_and_stays_there(run: Path, tmp_path: Path) -> None:
    database = tmp_path / "runs.sqlite"
    with Store.open(run / "runs.sqlite", readonly=True) as store:
        accepted = [
            r["id"]
            for r in store.query(
                "SELECT id FROM skill_versions WHERE status = 'accepted' ORDER BY generation"
            )
        ]
        store.query("SELECT 1")
    database.write_bytes((run / "runs.sqlite").read_bytes())
    done = invoke("skills", "rollback", "toy-1", "--reason", "it made things worse", "--db", str(database))
    assert done.exit_code == 0, done.output
    assert accepted[-1] in done.output
    shown = invoke("skills", "list", "--json", "--db", str(database))
    last = next(row for row in json.loads(shown.output) if row["id"] == accepted[-1])
    assert last["status"] == "rejected"
    assert last["reason"].startswith("it made things worse")
    for _ in accepted[1:]:
        invoke("skills", "rollback", "toy-1", "--db", str(database))
    nothing = invoke("skills", "rollback", "toy-1", "--db", str(database))
    assert "still uses its seed skill" in nothing.output
    strange = invoke("skills", "rollback", "toy-1", "nonsense", "--db", str(run / "runs.sqlite"))
    assert "is not an earlier version" in strange.output


async def test_an_evaluation_runs_the_skill_of_now(run: Path, tmp_path: Path) -> None:
    """After a rollback, say: the arm keeps its name, and its old episodes, of another version, don't stand for it."""
    database = tmp_path / "runs.sqlite"
    database.write_bytes((run / "runs.sqlite").read_bytes())
    sql = "SELECT skill_version, mean FROM evaluations WHERE arm = 'base+evolved'"
    with Store.open(database) as store:
        (before,) = store.query(sql)
        other = store.query("SELECT id FROM skill_versions WHERE status = 'rejected' ORDER BY generation")[-1]
        store.update("skill_versions", other["id"], {"status": "accepted"})
        await store.flush()
    await evaluate_run(database, "toy-1", arms=("base+evolved",), engine=FakeEngine())
    with Store.open(database) as store:
        (after,) = store.query(sql)
        assert after["skill_version"] != before["skill_version"]
        used = store.query(
            "SELECT avg(reward) AS mean, count(*) AS n FROM episodes WHERE phase = 'eval' AND arm = 'base+evolved'"
            " AND skill_version = ?",
            (after["skill_version"],),
        )[0]
        assert (used["n"], used["mean"]) == (3, after["mean"])


def test_lint_finds_what_weakens_a_skill(tmp_path: Path) -> None:
    skill = tmp_path / "web"
    skill.mkdir()
    text = "---\nname: web\ndescription: Short.\n---\n\n## Rules\n\n- Click.\n- click.\n\n## Empty\n\n## More\n\nSee [x](references/x.md), run `scripts/no.py`.\n"
    (skill / "SKILL.md").write_text(text)
    found = invoke("skills", "lint", str(skill), "--json")
    assert found.exit_code == 0
    findings = " ".join(row["finding"] for row in json.loads(found.output))
    for part in (
        "said 2 times",
        "'Empty' is empty",
        "references/x.md",
        "names scripts/no.py, which is not",
        "too short",
    ):
        assert part in findings
    (skill / "SKILL.md").write_text(text.replace("name: web", "name: other"))
    broken = invoke("skills", "lint", str(skill))
    assert broken.exit_code == 1
    assert "must equal its directory" in broken.output.replace("\n", " ")
    assert (
        invoke("skills", "lint", str(Path(__file__).parents[1] / "skills" / "web")).output.strip()
        == "nothing to complain about"
    )


def test_distil_again_and_try_the_draft(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "runs.sqlite"
    database.write_bytes((run / "runs.sqlite").read_bytes())
    monkeypatch.chdir(run)
    drafts = tmp_path / "drafts"
    (run / "press" / "scripts").mkdir()
    (run / "press" / "scripts" / "push.py").write_text("print('push')\n")
    (run / "another.py").write_text(
        (run / "analyst.py").read_text().replace("Rule {number}:", "Another rule:")
    )
    made = invoke(
        "skills",
        "distil",
        "toy-1",
        "--analyst",
        "another.py:Counting",
        "--out",
        str(drafts),
        "--db",
        str(database),
    )
    assert made.exit_code == 0, made.output
    assert "contrast pairs" in made.output
    assert "Another rule" in (drafts / "press" / "SKILL.md").read_text()
    assert (drafts / "press" / "scripts" / "push.py").read_text() == "print('push')\n"
    tried = invoke(
        "skills",
        "try",
        str(drafts / "press"),
        "--run",
        "toy-1",
        "--tasks",
        "9",
        "--json",
        "--db",
        str(database),
    )
    assert tried.exit_code == 0, tried.output
    trial = json.loads(tried.output)
    assert (trial["pairs"], len(trial["tasks"])) == (9, 3)
    assert trial["against"].startswith("toy-1.g")
    again = invoke(
        "skills",
        "try",
        str(drafts / "press"),
        "--run",
        "toy-1",
        "--tasks",
        "9",
        "--json",
        "--db",
        str(database),
    )
    assert json.loads(again.output) == trial
    with Store.open(database, readonly=True) as store:
        assert store.query("SELECT count(*) AS n FROM episodes WHERE generation IS NULL")[0]["n"] == 18
        assert store.query("SELECT status FROM runs")[0]["status"] == "finished"
    text = (drafts / "press" / "SKILL.md").read_text()
    other = tmp_path / "other" / "SKILL.md"
    other.parent.mkdir()
    other.write_text(text.replace('"press"', '"other"'))
    strange = invoke("skills", "try", str(other.parent), "--run", "toy-1", "--db", str(database))
    assert "is not a version of the skill 'press'" in strange.output
