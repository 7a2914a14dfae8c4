"""A skill of the starter set is for one problem, or for any."""

import json

import pytest
from click.testing import CliRunner

from coevo.cli import main
from coevo.eoh.skill import foreign_skill
from coevo.starter import copy_starter, starter_files


@pytest.mark.parametrize(
    ("skill", "problem", "better"),
    [
        ("heuristic-construct-tsp", "construct_kp", "heuristic-construct-kp"),
        ("heuristic-construct-tsp", "aco_bpp_colony", "heuristic-aco-bpp"),
        ("heuristic-aco-tsp", "construct_tsp", "heuristic-construct-tsp"),
        ("heuristic-construct-tsp", "online_bins", "heuristic"),
    ],
)
def test_one_for_another_problem(skill, problem, better):
    said, next_step = foreign_skill(skill, problem)
    assert said == f"the skill {skill} is that of another problem than {problem}"
    assert f"agent.skill=skills/{better} " in next_step
    assert f"skills/{better}/SKILL.md" in starter_files()


@pytest.mark.parametrize(
    ("skill", "problem"),
    [
        ("heuristic-construct-tsp", "construct_tsp"),
        ("heuristic-aco-cvrp", "aco_cvrp_penalised"),
        ("heuristic", "construct_tsp"),
        ("heuristic-fast", "construct_tsp"),
        ("press", "doubling"),
    ],
)
def test_one_that_fits_or_is_ones_own(skill, problem):
    assert foreign_skill(skill, problem) is None


@pytest.mark.parametrize("skill", ["web", "webarena", "arena"])
def test_one_for_no_heuristic_at_all(skill):
    said, next_step = foreign_skill(skill, "aco_bpp")
    assert said == f"the skill {skill} is for something other than aco_bpp"
    assert "agent.skill=skills/heuristic-aco-bpp " in next_step


def test_check_and_run_say_so(tmp_path, monkeypatch):
    copy_starter(tmp_path)
    monkeypatch.chdir(tmp_path)
    short = ("tsp_construct_small.toml", "search.author=chance", "search.budget=10")
    said = "the skill heuristic-construct-tsp is that of another problem than construct_kp"

    def call(*arguments):
        return CliRunner().invoke(main, arguments, catch_exceptions=False).output

    other = (*short, "search.problem=ahd:construct_kp")
    (tasks,) = [
        one for one in json.loads(call("check", *other, "--quick", "--json")) if one["name"] == "tasks"
    ]
    assert (tasks["status"], tasks["detail"]) == ("warning", said)
    assert "agent.skill=skills/heuristic-construct-kp" in tasks["next_step"]
    assert said in call("run", *other)
    right = (*other, "agent.skill=skills/heuristic-construct-kp")
    assert "another problem" not in call("check", *right, "--quick") + call("run", *right)
