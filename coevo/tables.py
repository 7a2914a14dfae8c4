"""The tables of an experiment file: every key with its type, bounds, default and meaning."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from coevo.engine.noise import MAX_TERMS
from coevo.es.schedule import ScheduleName
from coevo.es.shaping import ShapingName


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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
    grammar: str = Field(
        "",
        description="what answers may be: a grammar in llguidance's Lark dialect, or a file of one that ends in `.lark`",
    )


class TasksTable(Table):
    set: str = Field(
        "",
        description="the task set, `package.module:name` or `path/to/file.py:name`; required, but for a `[search]`",
    )
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
    sigma_end: float | None = Field(None, ge=0, description="… and in the last; left out: as in the first")
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
        return self

    def check_terms(self, directions: int) -> None:
        """Raises ValueError when a step of so many directions would not be exact."""
        terms = directions * (self.noise.rank if self.noise.family == "lowrank" else 1)
        if terms > MAX_TERMS:
            raise ValueError(f"{terms} noise terms a step (directions × rank); {MAX_TERMS} are exact")


class AuthorTable(Table):
    model: str = Field(
        "policy",
        description="who writes: `policy` (the model itself, unperturbed), or `provider:model` of LangChain, e.g. `openai:…`",
    )
    reads: tuple[Literal["contrast", "error", "success"], ...] = Field(
        ("contrast", "error", "success"),
        description="what it is shown, in the order in which the budget goes to it",
    )
    temperature: float = Field(0.0, ge=0, description="of its answers")
    max_tokens: int = Field(1024, ge=16, description="tokens of one answer")
    grammar: bool = Field(
        True,
        description="`policy` only: decoding is held to the format of the answer, so that each can be read",
    )
    transcript_tokens: int = Field(
        4000, ge=200, description="tokens of one transcript (about four characters each)"
    )
    max_calls: int = Field(200, ge=1, description="calls one distillation may make")
    max_total_tokens: int = Field(
        1_000_000, ge=1, description="tokens one distillation may spend, prompts included"
    )
    concurrency: int = Field(8, ge=1, description="calls under way at once")
    timeout_s: float = Field(300.0, gt=0, description="seconds for one call; the policy has no limit")
    options: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the model, e.g. base_url"
    )


class SkillTable(Table):
    every: int = Field(1, ge=1, description="generations between two looks at the episodes")
    analyst: str = Field(
        "miner",
        description="`miner` needs no model; `llm` asks `skill.author`; or `module:factory` of your own",
    )
    author: AuthorTable = Field(default=AuthorTable())
    candidates: int = Field(
        2, ge=1, description="alternatives that go to the gate at a time; the best one that passes is taken"
    )
    dev_tasks: int = Field(
        48, ge=8, description="dev episodes in which a candidate is compared with the current skill"
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="that an accepted candidate really is better")
    no_regression: float | None = Field(
        None, ge=0, description="no kind of task may lose more than this; left out: only the mean counts"
    )
    pool: int = Field(
        1,
        ge=1,
        description="accepted versions that may live side by side, each best on some kind of task; 1: only the last",
    )
    examples: int = Field(
        8, ge=0, description="worked examples an analyst's edits may add at a time; 0: rules only"
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


class SearchTable(Table):
    """A search over heuristics instead of episodes on tasks: EoH, or independent samples."""

    problem: str = Field(
        description="the heuristic-design problem, `package.module:name` or `path/to/file.py:name`"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of the problem")
    size: int | None = Field(
        None,
        ge=1,
        description="size of the training instances, one of the problem's; left out: its usual one. Fresh instances have the usual size",
    )
    method: Literal["eoh", "sample"] = Field(
        "eoh", description="`eoh`: evolution of heuristics; `sample`: each one written from scratch"
    )
    author: Literal["model", "chance"] = Field(
        "model", description="who writes: the model, or chance (random formulas and random changes, no model)"
    )
    language: Literal["python", "formula"] = Field(
        "python", description="what is written: whole functions, or formulas of the problem's small language"
    )
    edits: Literal["held", "free"] = Field(
        "held",
        description="what e2, m1, m2 and m3 may change of a formula: what they are meant to (by grammar), or everything",
    )
    population: int = Field(
        10, ge=1, description="individuals kept; children of one turn; `sample`: candidates of one batch"
    )
    generations: int = Field(25, ge=1, description="generations after the start; `sample`: batches")
    budget: int = Field(
        0,
        ge=0,
        description="candidates in all, start, repairs and gates included; 0: what the generations give",
    )
    operators: tuple[Literal["e1", "e2", "m1", "m2", "m3"], ...] = Field(
        ("e1", "e2", "m1", "m2"), min_length=1, description="turns of a generation, in this order"
    )
    parents: int = Field(2, ge=2, description="parents that e1 and e2 are shown")
    multiplier: float = Field(
        1.0, gt=0, description="children of a mutation, as a multiple of `population` (k)"
    )
    move: tuple[Literal["i1", "e1", "e2", "m1", "m2", "m3"], ...] | None = Field(
        None,
        description="turns whose children come from perturbed weights and move them; left out: `m1` and `m2`, of samples `i1`; []: none",
    )
    rewards: Literal["improvement", "reference"] = Field(
        "improvement",
        description="of a direction: gain on the parent, invalid below all; or the released code's rule",
    )
    duplicates: Literal["behaviour", "objective"] = Field(
        "behaviour",
        description="what makes two the same: all instances, or the rounded mean as in the reference",
    )
    start: tuple[str, ...] = Field(
        (), description="heuristics to start from: files, or `seed` for the problem's own simple one"
    )
    rescore: int = Field(
        5,
        ge=1,
        description="best individuals that are judged again on fresh instances before one is named best",
    )
    workers: int = Field(1, ge=1, description="sandbox processes that judge candidates side by side")

    @property
    def holds(self) -> bool:
        """Whether any child is held to what its operator may change."""
        formulas = self.language == "formula" and self.author == "model" and self.method == "eoh"
        return formulas and self.edits == "held"

    @property
    def moving(self) -> tuple[str, ...]:
        """The turns that move the weights."""
        if self.author == "chance":
            return ()
        if self.move is None:
            return ("i1",) if self.method == "sample" else ("m1", "m2")
        return self.move

    def children(self, operator: str) -> int:
        """Children of one turn of an operator: mutations make `multiplier` times as many (k in EoH's budgets)."""
        if operator == "start":
            return len(self.start)
        return (
            max(1, round(self.population * self.multiplier)) if operator.startswith("m") else self.population
        )

    @property
    def candidates(self) -> int:
        """Candidates of a whole search: the start (once) and all generations, or the budget if that is less."""
        turns = (
            ("i1",) * self.generations
            if self.method == "sample"
            else ("i1", *self.operators * self.generations)
        )
        whole = self.children("start") + sum(self.children(operator) for operator in turns)
        return min(whole, self.budget) if self.budget else whole


class EvaluateTable(Table):
    every: int = Field(
        0, ge=0, description="generations between two evaluations of the centre; 0: only at the end"
    )
    split: Literal["test", "dev"] = Field("test", description="the held-out split")
    tasks: int = Field(0, ge=0, description="tasks of the split; 0: all")
    repeats: int = Field(1, ge=1, description="episodes a task, each with its own seed")
    grid: bool = Field(True, description="end with {base, evolved weights} × {seed, evolved skill}")
