"""Objects that an experiment names: what an error says they could be."""

import pytest

from coevo.errors import ConfigError
from coevo.objects import load_object


def hint(spec):
    with pytest.raises(ConfigError) as caught:
        load_object("search.problem", str(spec))
    return caught.value.hint


def test_a_module_offers_what_it_defines_and_no_imports(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from collections.abc import Mapping\nfrom json import dumps\n\nCOUNT = 3\n\n"
        "def problem():\n    return COUNT\n\ndef _hidden():\n    pass\n"
    )
    assert hint(f"{file}:xyz") == "it has: problem"
    assert hint(f"{file}:Mappings") == "it has: problem"
    assert hint(f"{file}:problems") == "did you mean problem?"


def test_a_package_offers_what_its_all_names():
    assert hint("ahd:knapsack") == (
        "it has: aco_bpp, aco_bpp_colony, aco_cvrp, aco_cvrp_penalised, aco_tsp, construct_asp, construct_kp, construct_tsp"
    )
    assert hint("coevo.eoh:task") == "did you mean tasks?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def helper(x):\n    pass\n\ndef problem(size=3):\n    pass\n", "{}:problem (it also has helper)"),
        ("class Analyst:\n    pass\n", "{}:Analyst"),
        ("raise SystemExit\n", "{}:name"),
        ("def (\n", "{}:name"),
        (None, "{}:name"),
    ],
)
def test_a_file_alone_is_read_not_run(tmp_path, text, expected):
    file = tmp_path / "colour.py"
    if text is not None:
        file.write_text(text)
    assert hint(file) == f"name the factory in it: {expected.format(file)}"
