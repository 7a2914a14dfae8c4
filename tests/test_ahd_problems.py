"""The six problems: golden values, decisions that are refused, exploits that gain nothing, formulas."""

import inspect
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from inprocess import InProcessSandbox

import ahd
from ahd import PROBLEMS, references
from ahd.baselines import BASELINES, code
from ahd.instances import instances
from ahd.problems.aco_tsp import matrices
from coevo.eoh.expressions import text_of
from coevo.eoh.variation import random_expression
from coevo.errors import ConfigError
from coevo.problem import Problem, evaluate
from coevo.sandbox import Category, Sandbox, decisions

NEAREST = PROBLEMS["construct_tsp"]().seed_code
TSP = "def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):\n    return "
KP = "import numpy as np\ndef select_next_item(remaining_capacity, weights, values):\n    return "
ASP = "def priority(el, n, w):\n    return "
MATRIX = "import numpy as np\ndef heuristics(demand, capacity):\n    return "


async def judged(name, source, **options):
    return await evaluate(PROBLEMS[name](), source, sandbox=InProcessSandbox(), **options)


class TestGoldenValues:
    @pytest.mark.parametrize(
        ("choice", "golden"),
        [
            ("unvisited_nodes[0]", 7.00437),
            ("unvisited_nodes[-1]", 36.64594),
            ("min(unvisited_nodes)", 26.42234),
        ],
    )
    async def test_construct_tsp(self, choice, golden):
        verdict = await judged("construct_tsp", TSP + choice)
        assert verdict.objective == pytest.approx(golden, abs=5e-6)
        assert len(verdict.objectives) == 64

    @pytest.mark.parametrize(
        ("choice", "golden"),
        [
            ("np.where(weights <= remaining_capacity, values / weights, -1).argmax()", -40.14595),
            ("np.where(weights <= remaining_capacity, values, -1).argmax()", -38.01236),
            ("weights.argmin()", -34.74398),
        ],
    )
    async def test_construct_kp(self, choice, golden):
        verdict = await judged("construct_kp", KP + choice)
        assert verdict.objective == pytest.approx(golden, abs=5e-6)

    @pytest.mark.parametrize(
        ("name", "split", "size", "formula", "golden"),
        [
            ("construct_tsp", "test", 20, "near", 4.47973),
            ("construct_kp", "val", 100, "weight / value", -40.65194),
            ("construct_kp", "test", 50, "weight / value", -19.98513),
        ],
    )
    async def test_other_splits(self, name, split, size, formula, golden):
        source = PROBLEMS[name]().expressions.code(formula)
        verdict = await judged(name, source, split=split, size=size)
        assert verdict.objective == pytest.approx(golden, abs=5e-6)

    @pytest.mark.parametrize(
        ("priority", "split", "size", "golden"),
        [("0.0", "train", None, -1842), ("sum(el)", "train", None, -1740), ("0.0", "test", 12, -690)],
    )
    async def test_construct_asp(self, priority, split, size, golden):
        verdict = await judged("construct_asp", ASP + priority, split=split, size=size)
        assert (verdict.objective, verdict.objectives) == (golden, (golden,))

    async def test_nearest_neighbour_is_a_round_a_step(self):
        problem = PROBLEMS["construct_tsp"]()
        module = {}
        exec(NEAREST, module)
        async with InProcessSandbox().candidate(NEAREST, "select_next_node") as candidate:
            await problem.solve(candidate, "train")
        assert candidate.rounds == 48

    async def test_gap_to_the_reference(self):
        verdict = await judged("construct_tsp", NEAREST)
        reference = PROBLEMS["construct_tsp"]().reference("train")
        assert reference.gap(verdict.objective) == pytest.approx(7.00437 / 5.70445 - 1, abs=1e-5)


class TestRefused:
    @pytest.mark.parametrize(
        ("choice", "category", "said"),
        [
            ("0", Category.INFEASIBLE, "instance 0, step 1: node 0 is already in the tour"),
            ("-1", Category.INFEASIBLE, "instance 0, step 1: node -1 does not exist; nodes are 0 to 49"),
            ("50", Category.INFEASIBLE, "instance 0, step 1: node 50 does not exist"),
            ("unvisited_nodes[0] + 0.5", Category.WRONG_SHAPE, "was returned, not a whole number"),
            ("float('nan')", Category.NON_FINITE, "instance 0, step 1: nan was returned"),
            ("True", Category.WRONG_SHAPE, "instance 0, step 1: True was returned"),
            ("None", Category.WRONG_SHAPE, "instance 0, step 1: None was returned, not one number"),
            ("unvisited_nodes", Category.WRONG_SHAPE, "an array of shape (49,) was returned"),
            (
                "unvisited_nodes[0] if len(unvisited_nodes) > 40 else current_node",
                Category.INFEASIBLE,
                "instance 0, step 10: node ",
            ),
        ],
    )
    async def test_construct_tsp(self, choice, category, said):
        verdict = await judged("construct_tsp", TSP + choice)
        assert (verdict.objective, verdict.category) == (None, category)
        assert said in verdict.error

    async def test_a_node_that_was_not_offered(self):
        far = "max(set(range(len(distance_matrix))) - set(unvisited_nodes) - {0})"
        verdict = await judged("construct_tsp", TSP + far, split="val", size=100)
        assert verdict.category is Category.INFEASIBLE
        assert "is not among the 50 unvisited nodes offered" in verdict.error

    @pytest.mark.parametrize(
        ("choice", "category", "said"),
        [
            ("len(weights)", Category.INFEASIBLE, "position 100 does not exist; there are 100, from 0 on"),
            ("-1", Category.INFEASIBLE, "position -1 does not exist"),
            ("weights.argmax()", Category.INFEASIBLE, "fits"),
            ("values.max()", Category.WRONG_SHAPE, "not a whole number"),
            ("[0]", Category.WRONG_SHAPE, "a list of 1 was returned"),
        ],
    )
    async def test_construct_kp(self, choice, category, said):
        verdict = await judged("construct_kp", KP + choice)
        assert (verdict.objective, verdict.category) == (None, category)
        assert verdict.error.startswith("instance ")
        assert said in verdict.error

    @pytest.mark.parametrize(
        ("priority", "category"),
        [
            ("float('nan')", Category.NON_FINITE),
            ("float('-inf')", Category.NON_FINITE),
            ("el", Category.WRONG_SHAPE),
        ],
    )
    async def test_construct_asp(self, priority, category):
        verdict = await judged("construct_asp", ASP + priority)
        assert (verdict.objective, verdict.category) == (None, category)
        assert verdict.error.startswith("vector (0, 0, 0, ")

    @pytest.mark.parametrize("name", ["aco_tsp", "aco_cvrp", "aco_bpp"])
    @pytest.mark.parametrize(
        ("result", "category", "said"),
        [
            ("np.ones((3, 3))", Category.WRONG_SHAPE, "instance 0: the array has shape (3, 3) instead of ("),
            ("np.full((n, n), np.nan)", Category.NON_FINITE, "instance 0: the array holds nan at (0, 0)"),
            ("np.full((n, n), 1e300)", Category.NON_FINITE, "instance 0: the array holds 1e+300 at (0, 0)"),
            ("1.0", Category.WRONG_SHAPE, "instance 0: 1.0 was returned, not an array of numbers"),
        ],
    )
    async def test_matrices(self, name, result, category, said):
        arguments = ", ".join(argument.name for argument in PROBLEMS[name]().signature.arguments)
        source = f"import numpy as np\ndef heuristics({arguments}):\n    n = len({arguments.split(',')[0]})\n    return {result}"
        verdict = await judged(name, source)
        assert (verdict.objective, verdict.category) == (None, category)
        assert verdict.error.startswith(said)

    async def test_affinities_must_want_something(self):
        verdict = await judged("aco_bpp", MATRIX + "-np.ones((len(demand), len(demand)))")
        assert verdict.category is Category.INFEASIBLE
        assert verdict.error == "instance 0: the largest entry is -1; it must be above 0"

    async def test_a_value_below_the_bound_is_implausible(self):
        problem = PROBLEMS["construct_tsp"]()

        async def solve(candidate, split, size=None):
            return [5.6] * 64

        problem.solve = solve
        verdict = await evaluate(problem, NEAREST, sandbox=InProcessSandbox())
        assert (verdict.objective, verdict.category) == (None, Category.IMPLAUSIBLE)
        assert verdict.error == "the objective 5.6 is below the proven bound 5.66182"


ALIAS = """\
def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):
    nodes = len(distance_matrix)
    return min(set(range(nodes)) - set(unvisited_nodes.tolist())) - nodes
"""
FRAME_WALK = """\
import sys


def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):
    frame = sys._getframe(1)
    while frame is not None:
        scorer = frame.f_locals.get("self")
        if hasattr(scorer, "tour_cost"):
            type(scorer).tour_cost = lambda *arguments: 0.001
            return int(unvisited_nodes[0])
        frame = frame.f_back
    raise RuntimeError("no scorer in sight")
"""
MONKEYPATCH = """\
import numpy as np

np.average = np.mean = np.sum = lambda *arguments, **options: -1e9


def select_next_node(current_node, destination_node, unvisited_nodes, distance_matrix):
    return RESULT
"""


class TestInTheRealSandbox:
    async def test_the_exploits_of_other_scorers_gain_nothing(self):
        problem = PROBLEMS["construct_tsp"]()
        async with Sandbox() as sandbox:

            async def verdict(source):
                return await evaluate(problem, source, sandbox=sandbox)

            alias = await verdict(ALIAS)
            assert alias.category is Category.INFEASIBLE
            assert "node -50 does not exist" in alias.error
            walk = await verdict(FRAME_WALK)
            assert walk.category is Category.EXCEPTION
            assert "no scorer in sight" in walk.error
            forged = await verdict(MONKEYPATCH.replace("RESULT", "0"))
            assert forged.category is Category.INFEASIBLE
            honest = await verdict(MONKEYPATCH.replace("RESULT", "int(unvisited_nodes[0])"))
            assert honest.objective == pytest.approx(7.00437, abs=5e-6)

    async def test_scores_are_those_of_this_process(self):
        async with Sandbox() as sandbox:
            for name, size in [("construct_tsp", 20), ("construct_kp", 50)]:
                problem = PROBLEMS[name]()
                options = {"split": "val", "size": size}
                real = await evaluate(problem, problem.seed_code, sandbox=sandbox, **options)
                assert real == await judged(name, problem.seed_code, **options)
            problem = PROBLEMS["construct_asp"]()
            real = await evaluate(problem, problem.seed_code, sandbox=sandbox, split="test", size=12)
            assert real.objective == -690

    async def test_matrices_cross(self, monkeypatch):
        monkeypatch.setattr("ahd.aco.tours", lambda length, *_: np.full(len(length), 6.0))
        problem = PROBLEMS["aco_tsp"]()
        async with Sandbox() as sandbox:
            verdict = await evaluate(problem, problem.seed_code, sandbox=sandbox)
            assert verdict.objectives == (6.0,) * 5
            changed = problem.seed_code.replace("return", "distance_matrix[:] = 1\n    return")
            assert (await evaluate(problem, changed, sandbox=sandbox)).objectives == (6.0,) * 5

    async def test_an_input_that_is_changed_stays_as_it_was_for_the_next_call(self):
        spoil = NEAREST.replace("    return", "    distance_matrix[:] = 0\n    return")
        async with Sandbox() as sandbox:
            verdict = await evaluate(
                PROBLEMS["construct_tsp"](), spoil, sandbox=sandbox, split="val", size=20
            )
        assert verdict.objective == (await judged("construct_tsp", NEAREST, split="val", size=20)).objective


WEIRD = [
    "1",
    "1 / 0",
    "0 / (2 - 2)",
    "exp(exp(10))",
    "sqrt(0 - 1)",
    "square(1e200) * square(1e200) - square(1e300)",
    "0 - exp(1000)",
]


class TestFormulas:
    @pytest.mark.parametrize("name", ["construct_tsp", "construct_kp", "construct_asp"])
    @pytest.mark.parametrize("formula", WEIRD)
    async def test_any_formula_is_a_valid_heuristic(self, name, formula):
        problem = PROBLEMS[name]()
        variables = list(problem.expressions.variables)
        size = {"construct_tsp": 20, "construct_kp": 50, "construct_asp": 12}[name]
        split = "test" if name == "construct_asp" else "val"
        source = problem.expressions.code(f"({formula}) * {variables[0]} / ({variables[1]} - {variables[1]})")
        verdict = await judged(name, source, split=split, size=size)
        assert verdict.valid, verdict.error

    @pytest.mark.parametrize("name", ["aco_tsp", "aco_cvrp", "aco_bpp"])
    @pytest.mark.parametrize("formula", WEIRD)
    def test_any_formula_is_a_valid_matrix(self, name, formula):
        problem = PROBLEMS[name]()
        length = 1 + np.arange(25.0).reshape(5, 5)
        arguments = {
            "aco_tsp": (length,),
            "aco_cvrp": (length, np.ones((5, 2)), np.arange(5.0), 50.0),
            "aco_bpp": (np.arange(20, 25), 150),
        }[name]
        for whole in (formula, f"({formula}) * {next(iter(problem.expressions.variables))}"):
            module = {}
            exec(problem.expressions.code(whole), module)
            single = decisions.matrix(module["heuristics"](*arguments), (5, 5), "instance 0")
            assert single.max() < 1e30
            assert name != "aco_bpp" or single.max() > 0

    @pytest.mark.parametrize(
        ("name", "split", "size"),
        [("construct_tsp", "val", 20), ("construct_kp", "val", 50), ("construct_asp", "test", 12)],
    )
    async def test_a_whole_round_is_decided_as_one_call_after_another(self, name, split, size):
        problem = PROBLEMS[name]()
        expressions, rng = problem.expressions, random.Random(7)
        formulas = [text_of(random_expression(expressions, rng)) for _ in range(12)]
        formulas += [f"({formula}) * {next(iter(expressions.variables))}" for formula in WEIRD]
        async with Sandbox(workers=1) as sandbox:
            for formula in formulas:
                source = expressions.code(formula)
                whole = await evaluate(problem, source, sandbox=sandbox, split=split, size=size)
                single = await judged(
                    name, source.replace(".batched = True", ".note = 1"), split=split, size=size
                )
                assert whole.valid, (formula, whole.error)
                assert whole.objectives == single.objectives, formula

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        ("name", "arguments", "expected"),
        [
            ("construct_tsp", (0, 0, [2, 1], [[0, 3, 1], [3, 0, 2], [1, 2, 0]]), 2),
            ("construct_tsp", (2, 0, np.array([1]), np.eye(3)), 1),
            ("construct_kp", (1.0, [2.0, 0.5, 0.25], [1, 1, 1]), 2),
            ("construct_asp", ((0, 0, 1, 2, 2, 1), 6, 4), 2.0),
        ],
    )
    def test_a_found_function_is_plain_python_to_whoever_calls_it(self, name, arguments, expected):
        problem, module = PROBLEMS[name](), {}
        formula = {"construct_tsp": "near + rest + gap", "construct_kp": "weight", "construct_asp": "ones"}[
            name
        ]
        exec(problem.expressions.code(formula), module)
        found = module[problem.signature.function](*arguments)
        assert type(found) is type(expected)
        assert found == expected

    def test_variables_of_construct_tsp(self):
        problem = PROBLEMS["construct_tsp"]()
        length = np.array([[0, 9, 1, 2], [9, 0, 3, 5], [1, 3, 0, 4], [2, 5, 4, 0.0]])
        nodes = np.array([2, 3, 1])  # seen from node 0
        values = {
            "near": [3, 5, 0],
            "home": [1, 2, 9],
            "rest": [3.5, 4.5, 4],
            "gap": [3, 4, 3],
        }
        for variable, expected in values.items():
            for value, node in zip(expected, nodes, strict=True):
                module = {}
                exec(problem.expressions.code(f"square({variable} - {value})"), module)
                chosen = module["select_next_node"](1, 0, nodes, length)
                assert expected[nodes.tolist().index(chosen)] == value, (variable, node)

    @pytest.mark.parametrize("name", PROBLEMS)
    def test_every_variable_is_in_the_template(self, name):
        expressions = PROBLEMS[name]().expressions
        assert expressions.template.count("{expression}") == 1
        body = expressions.template
        assert all(body.count(variable) for variable in expressions.variables)
        assert "{" not in expressions.code("1")


class TestContract:
    @pytest.mark.parametrize("name", PROBLEMS)
    def test_a_problem(self, name):
        problem = PROBLEMS[name]()
        assert isinstance(problem, Problem)
        assert problem.name == name
        for source in (problem.seed_code, problem.expressions.code("1")):
            module = {}
            exec(source, module)
            parameters = inspect.signature(module[problem.signature.function]).parameters
            assert list(parameters) == [argument.name for argument in problem.signature.arguments]
        assert problem.goal.endswith("minimised.")

    @pytest.mark.parametrize("name", PROBLEMS)
    def test_every_split_and_size_has_a_reference_no_better_than_its_bound(self, name):
        problem = PROBLEMS[name]()
        for split, size in problem.counts:
            reference = problem.reference(split, size)
            assert reference.bound <= reference.objective
            assert reference.source
            assert math.isfinite(reference.gap(reference.objective * 2))

    def test_sizes(self):
        problem = PROBLEMS["construct_tsp"]()
        assert (problem.size("train"), problem.size("val"), problem.size("test")) == (50, 50, 50)
        assert PROBLEMS["construct_asp"]().size("val") == 18
        with pytest.raises(ConfigError, match="construct_tsp has no train instances of size 20") as caught:
            problem.size("train", 20)
        assert caught.value.hint == "choose size 50"
        with pytest.raises(ConfigError, match="no split 'dev'"):
            problem.size("dev")

    def test_limits_grow_with_the_work(self):
        problem = PROBLEMS["construct_kp"]()
        assert problem.limits_on("train") == problem.limits
        assert problem.limits_on("val", 50) == problem.limits
        larger = problem.limits_on("test", 200)
        assert larger == replace(problem.limits, cpu_s=larger.cpu_s, wall_s=larger.wall_s)
        assert larger.cpu_s == pytest.approx(problem.limits.cpu_s * 1000 / 64 * 4)
        assert PROBLEMS["construct_asp"]().limits_on("test", 21).cpu_s > 500

    def test_another_seed_is_another_draw(self):
        length = matrices(instances("aco_tsp", "train", 50)[:1])
        desirability = (1 / length).astype(np.float32)
        first, again, other = [ahd.aco_tsp(seed).best(length, desirability) for seed in (None, 1234, 5)]
        assert first == again != other
        assert ahd.aco_bpp(seed=5).seed == ahd.aco_cvrp(seed=5).seed == 5

    def test_other_ways_of_scoring_have_other_names(self):
        assert ahd.aco_cvrp("penalised").name == "aco_cvrp_penalised"
        assert ahd.aco_bpp(mode="colony").name == "aco_bpp_colony"
        with pytest.raises(ConfigError, match="waiting at the depot cannot be 'never'"):
            ahd.aco_cvrp("never")
        with pytest.raises(ConfigError, match="bins cannot be packed by 'luck'"):
            ahd.aco_bpp("luck")

    def test_references_name_their_source(self):
        known = [
            ("construct_tsp", "train", 50, 5.70445, "LKH-3"),
            ("aco_cvrp", "test", 20, 4.61420, "HGS-CVRP"),
            ("construct_kp", "train", 100, -40.18899, "optimum (branch and bound)"),
            ("construct_asp", "train", 15, -3003, "optimum C(n, w), attained by FunSearch"),
            ("construct_asp", "test", 21, -54264, "upper bound C(n, w)"),
            ("aco_bpp", "train", 500, 199.6, "lower bound (L2)"),
        ]
        for family, split, size, objective, source in known:
            reference = references.reference(family, split, size)
            assert (reference.objective, reference.source) == (objective, source)

    def test_every_problem_has_baselines_in_its_own_language(self):
        assert set(BASELINES) == {PROBLEMS[name]().family for name in PROBLEMS}
        for name, baselines in BASELINES.items():
            problem = PROBLEMS[name]()
            for baseline in baselines:
                exec(code(problem, baseline), {})
