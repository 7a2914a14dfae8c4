"""`coevo ahd …`: problems, baselines, and the verdict on a file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ahd import PROBLEMS
from ahd.cli import ahd
from coevo.cli import main
from coevo.errors import ConfigError

SMALL = ("--split", "val", "--size", "50")
RATIO = """\
import numpy as np

print("loaded")


def select_next_item(remaining_capacity, weights, values):
    return np.where(weights <= remaining_capacity, values / weights, -1).argmax()
"""


def run(*arguments):
    return CliRunner().invoke(ahd, [str(argument) for argument in arguments])


@pytest.fixture
def heuristic(tmp_path):
    def write(text):
        file = tmp_path / "mine.py"
        file.write_text(text, encoding="utf-8")
        return file

    return write


class TestProblems:
    def test_a_table(self):
        result = CliRunner().invoke(main, ["ahd", "problems"])
        assert result.exit_code == 0
        for name in PROBLEMS:
            assert name in result.output
        assert "64 × 50" in result.output
        assert "HGS-CVRP" in result.output

    def test_json(self):
        rows = {row["problem"]: row for row in json.loads(run("problems", "--json").output)}
        assert rows["construct_tsp"]["reference"] == 5.70445
        assert rows["construct_kp"]["header"] == "def select_next_item(remaining_capacity, weights, values):"
        assert set(rows["construct_tsp"]["variables"]) == {
            "near",
            "home",
            "rest",
            "gap",
        }

    def test_the_group_loads_no_numpy(self):
        script = "import sys, ahd.cli; sys.exit('numpy' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


class TestEvaluate:
    def test_a_valid_heuristic(self, heuristic):
        result = run("evaluate", heuristic(RATIO), "--problem", "construct_kp", *SMALL)
        assert result.exit_code == 0, result.output
        assert "construct_kp, 64 × 50 of val" in result.output
        assert "gap         0.25%" in result.output
        assert "to -20.05136, optimum (branch and bound)" in result.output
        assert "instances   best " in result.output
        assert "It printed:\nloaded" in result.output

    def test_json(self, heuristic):
        result = run("evaluate", heuristic(RATIO), "--problem", "construct_kp", *SMALL, "--json")
        verdict = json.loads(result.output)
        assert verdict["valid"]
        assert len(verdict["objectives"]) == 64
        assert verdict["objective"] == pytest.approx(sum(verdict["objectives"]) / 64)
        assert verdict["gap"] == pytest.approx(1 + verdict["objective"] / 20.05136)

    @pytest.mark.parametrize(
        ("text", "category", "said"),
        [
            (
                "def select_next_item(remaining_capacity, weights, values):\n    return len(weights)\n",
                "infeasible",
                "instance 0, step 1: position 50 does not exist; there are 50, from 0 on",
            ),
            (
                "def select_next_item(remaining_capacity, weights, values)\n    return 0\n",
                "syntax_error",
                "line 1",
            ),
            ("def choose(weights):\n    return 0\n", "missing_function", "select_next_item"),
        ],
    )
    def test_an_invalid_one_says_why(self, heuristic, text, category, said):
        result = run("evaluate", heuristic(text), "--problem", "construct_kp", *SMALL)
        assert result.exit_code == 1
        assert f"invalid ({category}): " in result.output
        assert said in result.output

    def test_no_such_problem_names_the_known_ones(self, heuristic):
        result = run("evaluate", heuristic(RATIO), "--problem", "construct_pk")
        assert isinstance(result.exception, ConfigError)
        assert result.exception.hint == "did you mean construct_kp?"

    def test_a_problem_of_ones_own(self, heuristic, tmp_path):
        own = tmp_path / "toysearch.py"
        own.write_text((Path(__file__).parent / "toysearch.py").read_text())
        mine = heuristic("def guess(x):\n    return 2 * x + 1.5\n")
        result = run("evaluate", mine, "--problem", f"{own}:doubling", "--json")
        assert json.loads(result.output)["objective"] == pytest.approx(0.5)
        assert (
            "doubling, the instances of val"
            in run("evaluate", mine, "--problem", f"{own}:doubling", "--split", "val").output
        )

    def test_no_such_file(self, tmp_path):
        result = run("evaluate", tmp_path / "none.py", "--problem", "construct_kp")
        assert result.exit_code == 2
        assert "does not exist" in result.output

    def test_no_such_size(self, heuristic):
        result = CliRunner().invoke(
            main, ["ahd", "evaluate", str(heuristic(RATIO)), "--problem", "construct_kp", "--size", "7"]
        )
        assert result.exit_code == 1
        assert (
            "Error: --size = 7: construct_kp has no train instances of that size\n  → choose 100"
            in result.output
        )

    def test_a_file_that_is_no_text(self, tmp_path):
        file = tmp_path / "mine.py"
        file.write_bytes(b"\xff\xfe\x00")
        result = run("evaluate", file, "--problem", "construct_kp")
        assert isinstance(result.exception, ConfigError)
        assert "is not UTF-8 text" in result.exception.message


class TestBaselines:
    def test_a_table_with_gaps(self):
        result = run("baselines", "construct_kp", *SMALL)
        assert result.exit_code == 0, result.output
        for cell in ("best ratio", "most valuable", "lightest", "-20.05136", "optimum (branch and bound)"):
            assert cell in result.output
        assert "0.25%" in next(line for line in result.output.splitlines() if "best ratio" in line)

    def test_json(self):
        (first, *rest) = json.loads(run("baselines", "construct_asp", "--split", "test", "--json").output)
        assert (first["heuristic"], first["formula"], first["objective"]) == (
            "lexicographic order",
            "0",
            -690,
        )
        assert [row["valid"] for row in rest] == [True, True]

    def test_a_size_needs_one_problem(self):
        result = run("baselines", "--size", "50")
        assert isinstance(result.exception, ConfigError)
        assert result.exception.hint == "name one problem with --size"

    @pytest.mark.parametrize("size", ["0", "-3"])
    def test_there_is_no_size_below_one(self, heuristic, size):
        for command in (
            ("baselines", "construct_kp"),
            ("evaluate", heuristic(RATIO), "--problem", "construct_kp"),
        ):
            result = run(*command, "--size", size)
            assert result.exit_code == 2
            assert f"{size} is not in the range x>=1" in result.output
