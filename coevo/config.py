"""The experiment file: TOML, validated, every key named and explained here.

Text comes in here and nowhere else, so this is where pydantic is. An unknown key is an error that names the nearest
known one. Files named in an experiment (`agent.graph`, `agent.skill`, a `model.id` that begins with `.`) are looked
for beside the experiment file first, then in the working directory; `database` belongs to the working directory.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from coevo.engine.base import NoiseSpec, Sampling
from coevo.engine.noise import MAX_TERMS
from coevo.errors import ConfigError
from coevo.es.schedule import ScheduleName
from coevo.es.shaping import ShapingName


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelTable(Table):
    id: str = Field(description="`builtin:smollm2-135m`, a Hugging Face id, or a local directory")
    engine: str = Field("transformers", description="`transformers`, or `module:factory` of your own engine")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto", description="what the model computes in"
    )
    device: str = Field("auto", description="`auto`, `cpu`, `cuda`, `cuda:1` …")
    threads: int = Field(0, ge=0, description="CPU threads; 0 looks at what is free")
    context: int = Field(2048, ge=64, description="longest prompt plus answer, in tokens")
    population: Literal["auto", "batched", "sequential"] = Field(
        "auto", description="all members in one batch (low-rank noise only), or one member at a time"
    )
    batch_invariant: bool = Field(
        False, description="text never depends on what else is in the batch; slower, exact on resume"
    )


class AgentTable(Table):
    graph: str = Field(description="the agent's LangGraph graph, `path/to/file.py:name`")
    skill: str = Field(description="directory of the seed skill (holds SKILL.md)")
    max_turns: int = Field(10, ge=1, description="actions an episode may take")
    deadline_s: float = Field(
        120.0, gt=0, description="seconds after which an episode is given up as invalid"
    )
    retries: int = Field(
        2, ge=0, description="how often an invalid episode is tried again before it is left out"
    )
    screenshots: bool = Field(False, description="store the first and last screenshot of each episode")


class SamplingTable(Table):
    temperature: float = Field(
        0.0, ge=0, description="0 is greedy: members then differ by their weights only"
    )
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus")
    top_k: int = Field(0, ge=0, description="0 keeps all tokens")
    min_p: float = Field(0.0, ge=0, le=1, description="least probability, relative to the likeliest token")
    presence_penalty: float = Field(0.0, description="over generated tokens only")
    frequency_penalty: float = Field(0.0, description="over generated tokens only")
    repetition_penalty: float = Field(1.0, gt=0, description="over generated tokens only")
    max_tokens: int = Field(256, ge=1, description="tokens an answer may have")
    stop: tuple[str, ...] = Field((), description="strings that end an answer")


class TasksTable(Table):
    set: str = Field(description="the task set, `package.module:name` or `path/to/file.py:name`")
    slots: int = Field(8, ge=1, description="episodes that run at the same time")
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of the task set")


class NoiseTable(Table):
    family: Literal["gaussian", "lowrank"] = Field(
        "gaussian", description="`gaussian`: full rank, the paper; `lowrank`: whole population in one batch"
    )
    rank: int = Field(1, ge=1, description="rank of low-rank noise")
    scale: Literal["absolute", "rms"] = Field(
        "absolute", description="σ as it is, or times each tensor's root mean square"
    )
    include: tuple[str, ...] = Field(("*",), description="shell patterns of tensor names that move")
    exclude: tuple[str, ...] = Field((), description="shell patterns of tensor names that stay")


class EsTable(Table):
    generations: int = Field(12, ge=1, description="generations of the run")
    population: int = Field(16, ge=2, description="members a generation")
    tasks_per_generation: int = Field(
        8, ge=1, description="tasks each member faces; the same for all members"
    )
    sigma: float = Field(1e-3, gt=0, description="size of the perturbation in the first generation")
    sigma_end: float | None = Field(None, gt=0, description="… and in the last; left out: as in the first")
    schedule: ScheduleName = Field("cosine", description="`constant`, `linear` or `cosine`, for σ and α")
    alpha: float = Field(
        5e-4, ge=0, description="size of the update in the first generation; not divided by σ"
    )
    alpha_end: float | None = Field(None, ge=0, description="… and in the last; left out: as in the first")
    shaping: ShapingName = Field("zscore", description="`zscore`, `centred_rank`, `per_task` or `raw`")
    antithetic: bool = Field(False, description="members in pairs, +σ and −σ along one direction")
    decay: float = Field(0.0, ge=0, lt=1, description="share of θ − θ₀ taken back each generation")
    min_valid: float = Field(0.5, gt=0, le=1, description="share of members that must count for a step")
    noise: NoiseTable = Field(default=NoiseTable(), description="which noise, on which tensors")

    @model_validator(mode="after")
    def _pairs(self) -> EsTable:
        if self.antithetic and self.population % 2:
            raise ValueError(f"antithetic pairs need an even population, not {self.population}")
        directions = self.population // 2 if self.antithetic else self.population
        terms = directions * (self.noise.rank if self.noise.family == "lowrank" else 1)
        if terms > MAX_TERMS:
            raise ValueError(f"{terms} noise terms a step (directions × rank); {MAX_TERMS} are exact")
        return self


class SkillTable(Table):
    every: int = Field(1, ge=1, description="generations between two looks at the episodes")
    analyst: str = Field("miner", description="`miner` needs no model")
    candidates: int = Field(
        2, ge=1, description="alternatives that go to the gate at a time; the best one that passes is taken"
    )
    dev_tasks: int = Field(
        16, ge=8, description="dev episodes in which a candidate is compared with the current skill"
    )
    confidence: float = Field(0.8, gt=0.5, lt=1, description="that an accepted candidate really is better")
    no_regression: float | None = Field(
        None, ge=0, description="no kind of task may lose more than this; left out: only the mean counts"
    )
    max_lines: int = Field(200, ge=1, description="lines the document may have")
    max_tokens: int = Field(
        2000, ge=1, description="tokens the document may have (about four characters each)"
    )


class ScheduleTable(Table):
    mode: Literal["interleaved", "skill", "weights", "sequential"] = Field(
        "interleaved",
        description="what evolves: both, the skill, the weights, or the weights first and then the skill",
    )
    switch: int | None = Field(
        None, ge=1, description="`sequential`: first generation of the skill; left out: half of them"
    )


class EvaluateTable(Table):
    every: int = Field(
        0, ge=0, description="generations between two evaluations of the centre; 0: only at the end"
    )
    split: Literal["test", "dev"] = Field("test", description="the held-out split")
    tasks: int = Field(0, ge=0, description="tasks of the split; 0: all")
    repeats: int = Field(1, ge=1, description="episodes a task, each with its own seed")
    grid: bool = Field(True, description="end with {base, evolved weights} × {seed, evolved skill}")


class Experiment(Table):
    """One experiment. Make it with `load_experiment`, or directly in Python."""

    name: str = Field("", pattern=r"^[a-z0-9][a-z0-9._-]*$|^$", description="left out: the name of the file")
    seed: int = Field(0, description="everything random is derived from it")
    database: str = Field(
        "runs/coevo.sqlite", description="the trajectory store, relative to the working directory"
    )
    model: ModelTable
    agent: AgentTable
    sampling: SamplingTable = Field(default=SamplingTable())
    tasks: TasksTable
    es: EsTable = Field(default=EsTable())
    skill: SkillTable = Field(default=SkillTable())
    schedule: ScheduleTable = Field(default=ScheduleTable())
    evaluate: EvaluateTable = Field(default=EvaluateTable())

    _directory: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def directory(self) -> Path:
        """Where the experiment file lies."""
        return self._directory

    def noise_spec(self) -> NoiseSpec:
        return NoiseSpec(**self.es.noise.model_dump())

    def base_sampling(self) -> Sampling:
        return Sampling(**self.sampling.model_dump())

    def find(self, key: str, name: str) -> Path:
        """The file or directory `name` that `key` refers to, beside the experiment file or in the working directory.

        Raises ConfigError that names both places.
        """
        places = list(dict.fromkeys([self._directory / name, Path.cwd() / name]))
        for place in places:
            if place.exists():
                return place.resolve()
        raise ConfigError(
            f"{key} = {name!r}: there is no such file or directory",
            hint="looked for " + " and ".join(str(place) for place in places),
        )

    def find_target(self, key: str, spec: str) -> str:
        """`path.py:name` with the path made absolute; anything else as it is."""
        path, colon, name = spec.rpartition(":")
        if not colon or not path.endswith(".py"):
            return spec
        return f"{self.find(key, path)}:{name}"

    @property
    def model_id(self) -> str:
        """`model.id`, with a path that begins with `.` made absolute."""
        return str(self.find("model.id", self.model.id)) if self.model.id.startswith(".") else self.model.id

    @property
    def database_path(self) -> Path:
        return Path.cwd() / self.database

    def fingerprint(self, *contents: str) -> str:
        """A hash of everything that decides what the run computes, with the texts of agent and skill in `contents`.

        Where the database is and how many episodes run at once are left out: they may change between a run and its
        continuation.
        """
        data = self.model_dump(mode="json")
        del data["database"]
        del data["tasks"]["slots"]
        text = json.dumps([data, *contents], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def load_experiment(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """Read and validate an experiment file; `overrides` are `dotted.key=value`, values as in TOML (bare words are text).

    Raises ConfigError: missing file, broken TOML, unknown key (with the nearest known one), value out of range.
    """
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no experiment file {path}", hint="`coevo init DIR` writes one to start from"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    for override in overrides:
        _apply_override(data, override)
    data.setdefault("name", _slug(path.stem))
    return experiment_from(data, directory=path.resolve().parent, source=str(path))


def experiment_from(data: dict[str, Any], *, directory: Path, source: str = "the experiment") -> Experiment:
    """Validate plain data, as from a file or a run's row. Raises ConfigError."""
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        raise _explain(error, source) from error
    experiment._directory = directory
    return experiment


def known_keys(table: type[BaseModel] = Experiment, prefix: str = "") -> dict[str, type[BaseModel] | None]:
    """Every dotted key; tables map to their model, values to None."""
    keys: dict[str, type[BaseModel] | None] = {}
    for name, field in table.model_fields.items():
        nested = _nested(field.annotation)
        keys[prefix + name] = nested
        if nested is not None:
            keys |= known_keys(nested, f"{prefix}{name}.")
    return keys


def reference() -> str:
    """The experiment file's keys as Markdown tables, for the documentation."""
    keys = known_keys()
    tables: dict[str, type[BaseModel]] = {"": Experiment} | {k: v for k, v in keys.items() if v is not None}
    parts = []
    for prefix, table in tables.items():
        rows = []
        for name, field in table.model_fields.items():
            if _nested(field.annotation) is not None:
                continue
            default = (
                "required"
                if field.is_required()
                else f"`{_toml(field.get_default(call_default_factory=True))}`"
            )
            rows.append(f"| `{name}` | {default} | {field.description} |")
        heading = f"## `[{prefix}]`" if prefix else "## At the top"
        parts.append("\n".join([heading, "", "| key | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _toml(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(value)


def _nested(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._") or "experiment"


def _apply_override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(
            f"{override!r} is not an override", hint="write key=value, for example es.sigma=0.01"
        )
    table = data
    for depth, part in enumerate(parts[:-1]):
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{override!r}: {'.'.join(parts[: depth + 1])} is a value, not a table")
        table = inner
    table[parts[-1]] = _override_value(override, text.strip())


def _override_value(override: str, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if re.fullmatch(r"[^\s\"'\[\]{}=]+", text):
            return text
        raise ConfigError(
            f"{override!r}: the value is not valid TOML: {error}",
            hint="text with spaces needs quotes inside the shell's: name='\"my run\"'",
        ) from error
    if set(parsed) != {"value"}:
        raise ConfigError(f"{override!r} holds more than one value")
    return parsed["value"]


def _explain(error: ValidationError, source: str) -> ConfigError:
    problems: list[str] = []
    hints: list[str] = []
    for detail in error.errors():
        location = [str(part) for part in detail["loc"]]
        key = ".".join(location)
        if detail["type"] == "extra_forbidden":
            table = ".".join(location[:-1])
            place = f"[{table}]" if table else "the top level"
            problems.append(f"unknown key {location[-1]!r} in {place}")
            hints.append(nearest_key(location[-1], table))
        elif detail["type"] == "missing":
            problems.append(f"{key} is missing")
        elif detail["type"] == "value_error":
            problems.append(f"[{key}]: {detail['msg'].removeprefix('Value error, ')}")
        else:
            problems.append(f"{key} = {detail['input']!r}: {detail['msg'].lower()}")
    return ConfigError(f"{source}: " + "; ".join(problems), hint=" ".join(hints) or None)


def nearest_key(name: str, table: str) -> str:
    """A sentence naming the known key nearest to `name`, in its table first, then anywhere, else what is known there."""
    keys = known_keys()
    prefix = f"{table}." if table else ""
    here = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    close = difflib.get_close_matches(name, [key for key in here if "." not in key], n=1, cutoff=0.6)
    if close:
        return f"Did you mean {prefix}{close[0]}?"
    elsewhere = _ending(keys, name) or _ending(
        keys,
        next(
            iter(difflib.get_close_matches(name, {k.rpartition(".")[2] for k in keys}, n=1, cutoff=0.7)), ""
        ),
    )
    if elsewhere:
        return f"Did you mean {elsewhere}?"
    known = sorted(key for key in here if "." not in key)
    return f"Known keys of {f'[{table}]' if table else 'the top level'}: {', '.join(known)}."


def _ending(keys: Iterable[str], name: str) -> str | None:
    return next((key for key in keys if name and key.rpartition(".")[2] == name), None)
