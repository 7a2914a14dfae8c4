"""Experiment files: what is read, and what a person is told about what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevo.config import experiment_from, load_experiment, reference
from coevo.engine.base import NoiseSpec, Sampling
from coevo.errors import ConfigError

MINIMAL = """
[model]
id = "some/model"
[agent]
graph = "agents/web.py:graph"
skill = "skills/web"
[tasks]
set = "coevo.testing:toy_tasks"
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str = MINIMAL, name: str = "Mini Run.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def message(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, overrides)
    return str(caught.value)


def test_defaults_and_the_name_of_the_file(write) -> None:
    experiment = load_experiment(write())
    assert experiment.name == "mini-run"
    assert experiment.schedule.mode == "interleaved"
    assert experiment.noise_spec() == NoiseSpec()
    assert experiment.base_sampling() == Sampling()


def test_values_reach_engine_and_sampling(write) -> None:
    text = MINIMAL + (
        '[es.noise]\nfamily = "lowrank"\nrank = 2\nexclude = ["*embed*"]\n'
        '[sampling]\ntemperature = 0.7\nstop = ["\\n"]\n'
    )
    experiment = load_experiment(write(text))
    assert experiment.noise_spec() == NoiseSpec(family="lowrank", rank=2, exclude=("*embed*",))
    assert experiment.base_sampling() == Sampling(temperature=0.7, stop=("\n",))


def test_overrides_are_toml_values_or_bare_words(write) -> None:
    experiment = load_experiment(
        write(),
        [
            "es.sigma=0.01",
            "es.antithetic=true",
            "schedule.mode=weights",
            'sampling.stop=["a", "b"]',
            "tasks.options.train=5",
            "seed=12",
            "model.id=./here",
        ],
    )
    assert (experiment.es.sigma, experiment.es.antithetic, experiment.seed) == (0.01, True, 12)
    assert experiment.schedule.mode == "weights"
    assert experiment.sampling.stop == ("a", "b")
    assert experiment.tasks.options == {"train": 5}
    assert experiment.model.id == "./here"


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("es.sigmaa=1", "es.sigmaa=1"),
        ("engine.kind.x=3", "engine.kind.x=3"),
        ("es.sigma=-1", "es.sigma=-1"),
        ("seed=1", None),
    ],
)
def test_what_an_override_did_is_not_blamed_on_the_file(write, override: str, named: str | None) -> None:
    text = message(write(MINIMAL + "[es]\nalpha = -1\n"), override)
    problems = text.partition(" → ")[0].split("; ")
    from_overrides = [problem for problem in problems if "not from the file" in problem]
    assert from_overrides == [problem for problem in problems if "es.alpha = -1" not in problem]
    assert [f"(from {named!r}, not from the file)" in problem for problem in from_overrides] == [True] * (
        named is not None
    )


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("es.sigmaa=1", ["unknown key 'sigmaa' in [es]", "Did you mean es.sigma?"]),
        ("model.egnine=x", ["unknown key 'egnine' in [model]", "Did you mean model.engine?"]),
        (
            "poplation=4",
            [
                "unknown key 'poplation' in the top level",
                "Did you mean model.population or es.population or search.population?",
            ],
        ),
        ("temperature=1", ["unknown key 'temperature'", "Did you mean sampling.temperature"]),
        ("es.noise.ranks=1", ["unknown key 'ranks' in [es.noise]", "Did you mean es.noise.rank?"]),
        (
            "schedule.xyzzy=1",
            ["unknown key 'xyzzy' in [schedule]", "Known keys of [schedule]: mode, switch."],
        ),
        ("es.sigma=-1", ["es.sigma = -1", "greater than 0"]),
        ("es.sigma=big", ["es.sigma = 'big'", "valid number"]),
        ("schedule.mode=both", ["schedule.mode = 'both'", "'interleaved'", "'sequential'"]),
        ("model=x", ["model = 'x'"]),
        ("name=Not OK", ["the value is not valid TOML"]),
        ("name=UPPER", ["name = 'UPPER'"]),
        ("es.sigma", ["'es.sigma' is not an override", "write key=value"]),
        ("es.sigma.x=1", ["es.sigma"]),
    ],
)
def test_bad_keys_and_values_are_explained(write, override: str, expected: list[str]) -> None:
    text = message(write(), override)
    for part in expected:
        assert part in text
    assert "Traceback" not in text


def test_several_problems_are_told_at_once(write) -> None:
    text = message(write(), "es.sigmaa=1", "es.alpha=-1", "agent.retries=-2")
    assert "sigmaa" in text
    assert "es.alpha" in text
    assert "agent.retries" in text


def test_missing_tables_are_named(write) -> None:
    text = message(write("[model]\nid = 'x'\n"))
    assert "agent is missing" in text
    assert "tasks is missing" in text


def test_pairs_need_an_even_population(write) -> None:
    text = message(write(), "es.antithetic=true", "es.population=5")
    assert "[es]: antithetic pairs need an even population, not 5" in text


def test_more_noise_than_a_step_can_add_exactly_is_refused_before_the_run(write) -> None:
    text = message(write(), "es.population=600", 'es.noise.family="lowrank"', "es.noise.rank=2")
    assert "1200 noise terms" in text
    # Pairs share a direction: half as many.
    load_experiment(
        write(), ["es.population=600", "es.noise.family=lowrank", "es.noise.rank=2", "es.antithetic=true"]
    )


def test_missing_and_broken_files(write, tmp_path: Path) -> None:
    text = message(tmp_path / "nothing.toml")
    assert "there is no experiment file" in text
    assert "coevo init" in text
    assert "line 2" in message(write("[model]\nid = \n"))
    broken = tmp_path / "binary.toml"
    broken.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in message(broken)


def test_files_are_looked_for_beside_the_experiment_then_here(write, tmp_path: Path, monkeypatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "skills" / "web").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    experiment = load_experiment(write())
    assert experiment.find("agent.skill", "skills/web") == elsewhere / "skills" / "web"
    (tmp_path / "skills" / "web").mkdir(parents=True)
    assert experiment.find("agent.skill", "skills/web") == tmp_path / "skills" / "web"
    assert experiment.database_path == elsewhere / "runs" / "coevo.sqlite"


def test_a_missing_file_names_both_places(write, tmp_path: Path, monkeypatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ConfigError) as caught:
        load_experiment(write()).find_target("agent.graph", "agents/web.py:graph")
    assert "agent.graph = 'agents/web.py'" in str(caught.value)
    assert str(tmp_path / "agents/web.py") in str(caught.value)
    assert str(elsewhere / "agents/web.py") in str(caught.value)


def test_the_fingerprint_tells_experiments_apart_but_not_where_they_run(write) -> None:
    path = write()
    base = load_experiment(path).fingerprint("agent", "skill")
    assert (
        load_experiment(path, ["tasks.slots=2", "database=other.sqlite"]).fingerprint("agent", "skill")
        == base
    )
    assert load_experiment(path, ["seed=1"]).fingerprint("agent", "skill") != base
    assert load_experiment(path, ["skill.pool=2"]).fingerprint("agent", "skill") != base
    assert load_experiment(path).fingerprint("agent", "another skill") != base


def test_stored_config_gives_the_same_experiment(write) -> None:
    experiment = load_experiment(write(), ["es.sigma=0.25", "tasks.options.x=[1, 2]"])
    data = experiment.model_dump(mode="json")
    again = experiment_from(data, directory=experiment.directory)
    assert again.model_dump() == experiment.model_dump()
    assert again.directory == experiment.directory


def test_the_reference_page_is_up_to_date() -> None:
    page = Path(__file__).parent.parent / "docs" / "experiment.md"
    assert reference() == page.read_text(encoding="utf-8"), "python -m coevo.config > docs/experiment.md"


def test_the_reference_explains_every_key() -> None:
    text = reference()
    assert "| `sigma` | `0.001` |" in text
    assert "None" not in text
