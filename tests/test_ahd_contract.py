"""What a problem asks of a heuristic: the page `coevo ahd problems NAME` prints, and the documentation's tables."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from ahd import PROBLEMS
from ahd.cli import ahd
from ahd.contract import FORMULA
from coevo.cli import main
from coevo.eoh.expressions import FUNCTIONS, LARGEST, OPERATORS, SMALLEST
from coevo.eoh.language import FormulaLanguage
from coevo.eoh.prompts import formula_goal, python_goal
from coevo.errors import ConfigError

ROOT = Path(__file__).parent.parent
DOCS = (ROOT / "docs" / "heuristics.md").read_text(encoding="utf-8")
OWN = f"{ROOT / 'tests' / 'toysearch.py'}:doubling"


def printed(*arguments):
    result = CliRunner().invoke(ahd, ["problems", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_bundled_problem_is_printed_whole(name):
    problem, text = PROBLEMS[name](), printed(name)
    signature, expressions = problem.signature, problem.expressions
    for part in (problem.goal, signature.header, problem.notes, problem.seed_code.strip(), expressions.value):
        assert part in text
    for argument in (*signature.arguments, signature.result):
        assert re.search(rf"^(→ )?{argument.name} +{re.escape(argument.meaning)}$", text, re.M)
    for variable, meaning in expressions.variables.items():
        assert re.search(rf"^{variable} +{re.escape(meaning)}$", text, re.M)


def test_the_instances_have_references_and_bounds():
    text = printed("construct_tsp")
    assert re.search(r"^split +count × nodes +reference +from +proven bound$", text, re.M)
    assert re.search(r"^train +64 × 50 +5\.70445 +LKH-3 +5\.66182$", text, re.M)
    assert text.index("1000 × 50 ") < text.index("1000 × 20 "), "the usual size first"
    assert re.search(r"^train +1 × n=15 w=10 ", printed("construct_asp"), re.M)


def test_a_problem_of_ones_own():
    text = printed(OWN)
    assert re.search(r"^→ number +the guess, a float$", text, re.M)
    assert re.search(r"^x +the number$", text, re.M)
    assert "Notes" not in text
    assert re.search(r"^train +the instances +0\.00100 +the hidden rule +0\.00000$", text, re.M)
    assert printed("ahd:construct_kp") == printed("construct_kp")


def test_json_has_the_same():
    facts = json.loads(printed("construct_kp", "--json"))
    assert facts["arguments"]["weights"] == "1-D float array, weights of the items that are left"
    assert facts["value"].endswith("smallest value is packed next")
    assert [row["split"] for row in facts["splits"]] == ["train", *["val"] * 3, *["test"] * 4]
    (row,) = [row for row in json.loads(printed("--json")) if row["problem"] == "construct_kp"]
    assert row == facts | {"is": "Choose the next item of a knapsack"}
    assert json.loads(printed(OWN, "--json"))["splits"][0]["size"] is None


def test_the_list_says_what_the_other_two_are():
    (heading, *rows) = printed().splitlines()
    assert "train reference" in heading
    (row,) = [row for row in rows if row.startswith("aco_bpp_colony ")]
    assert row.endswith("aco_bpp with an ant colony in place of greedy constructions")
    assert "1 × n=15 w=10" in next(row for row in rows if row.startswith("construct_asp"))
    assert "two of them" in CliRunner().invoke(ahd, ["problems", "--help"]).output


@pytest.mark.parametrize("arguments", [("problems",), ("evaluate", __file__, "--problem")])
def test_a_file_without_a_name_in_it(tmp_path, arguments):
    file = tmp_path / "colour.py"
    file.write_text(
        "class Colour:\n    pass\n\ndef shade(x):\n    return x\n\ndef problem():\n    return Colour()\n"
    )
    error = CliRunner().invoke(ahd, [*arguments, str(file)]).exception
    assert isinstance(error, ConfigError)
    assert "is a file, and nothing in it is named" in error.message
    assert error.hint == f"name the factory in it: {file}:problem (it also has shade)"


def test_no_such_problem():
    result = CliRunner().invoke(main, ["ahd", "problems", "construct_pk"])
    assert result.stderr == "Error: there is no problem 'construct_pk'\n  → did you mean construct_kp?\n"


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_model_is_told_what_it_was_told_before(name):
    problem = PROBLEMS[name]()
    assert problem.expressions.value
    assert problem.expressions.value not in formula_goal(problem) + python_goal(problem)


def test_what_formulas_are_made_of():
    assert all(operator in FORMULA.partition(",")[0] for operator in OPERATORS)
    assert all(function in FORMULA for function in FUNCTIONS)
    assert FORMULA.endswith(f"from {SMALLEST} to {LARGEST}")


@pytest.mark.parametrize(
    "name", [name for name in PROBLEMS if name.removesuffix("_penalised").removesuffix("_colony") == name]
)
def test_the_table_of_the_documentation(name):
    (row,) = re.findall(rf"^\| `{name}` \| ([^|]*) \| ([^|]*) \|$", DOCS, re.M)
    expressions = PROBLEMS[name]().expressions
    assert set(re.findall(r"`(\w+)`", row[0])) == set(expressions.variables)
    assert row[1] == expressions.value


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_tried_before_a_search_has_all_variables_and_functions(name):
    problem = PROBLEMS[name]()
    trial = FormulaLanguage(problem).trial
    before, _, after = problem.expressions.template.partition("{expression}")
    assert (trial.startswith(before), trial.endswith(after)) == (True, True)
    formula = trial[len(before) : len(trial) - len(after)]
    assert {*problem.expressions.variables, *FUNCTIONS} == set(re.findall(r"\w*[a-z]\w*", formula))


def test_the_template_is_printed():
    problem = PROBLEMS["construct_kp"]()
    told = printed("construct_kp")
    assert all(line in told for line in problem.expressions.template.strip().splitlines())
    assert json.loads(printed("construct_kp", "--json"))["template"] == problem.expressions.template
