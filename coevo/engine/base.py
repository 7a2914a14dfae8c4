"""The engine contract: where the weights θ live and where tokens come from.

Everything here is plain data, so that a `Step` can be written to a database row, sent to another machine, and
replayed by a different engine with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to pick tokens. `temperature == 0` is greedy. Penalties count generated tokens only, as in vLLM.

    `grammar` (Lark, in llguidance's dialect) leaves only tokens with which the answer can still follow it; the answer ends
    when nothing can be added, or earlier if the model ends it where the grammar allows that.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    seed: int = 0
    grammar: str = ""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """θ + σ·ε(seed). A negative sigma is the mirrored member of an antithetic pair."""

    seed: int
    sigma: float


@dataclass(frozen=True, slots=True)
class NoiseSpec:
    """Which noise, on which tensors.

    `family`: `gaussian` (full rank, N(0,1), every floating-point tensor; the paper) or `lowrank` (a·bᵀ/√r on the
    weight matrices of linear layers). `scale`: `absolute` (σ as it is) or `rms` (σ times the root mean square of
    the tensor in the base checkpoint). `include`/`exclude` are shell patterns on Hugging Face tensor names.
    """

    family: Literal["gaussian", "lowrank"] = "gaussian"
    rank: int = 1
    scale: Literal["absolute", "rms"] = "absolute"
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One chat completion. `messages` are OpenAI-style dicts (role, content, optional tool_calls …)."""

    messages: tuple[Mapping[str, Any], ...]
    sampling: Sampling = Sampling()
    perturbation: Perturbation | None = None
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer. Token counts are of this model's tokenizer; `weights_step` counts the updates behind θ."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: FinishReason
    weights_step: int
    cached_tokens: int = 0
    truncated_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One ES update, θ ← θ + α/G · Σ coefficient_i · ε(seed_i) − decay·(θ − θ₀), as plain data.

    `coefficients` are the shaped rewards z_i, rounded to multiples of 2⁻¹² (see `engine.noise`), one a seed; G is
    `population` (members that count, at least `len(seeds)` unless pairs were folded into one seed).
    """

    generation: int
    seeds: tuple[int, ...]
    coefficients: tuple[float, ...]
    population: int
    alpha: float
    sigma: float
    noise: NoiseSpec
    decay: float = 0.0


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What a step did. Norms are over all moved coordinates; `share_under_sigma` is the share of them with
    |θ − θ₀| below the (scaled) σ of the step."""

    weights_step: int
    step_norm: float
    drift_norm: float
    share_under_sigma: float
    checksum: str
    seconds: float


Deliver = Callable[[int, Completion], None]
"""Told of an answer once it is complete: the position of its request, and the completion."""


class Engine(Protocol):
    """Where θ lives. Every engine gives the same checksum for the same base and steps."""

    async def generate(
        self, requests: Sequence[Request], *, deliver: Deliver | None = None
    ) -> list[Completion]:
        """All completions, in the order of `requests`. `deliver` may be called on the event loop for each one as soon as it
        is complete, while others are still being written: whoever waits for it then goes on at once."""
        ...

    async def update(self, step: Step) -> UpdateReport: ...

    async def checksum(self) -> str: ...

    async def save(self, directory: Path) -> None: ...

    async def restore(self, steps: Iterable[Step]) -> None:
        """Back to the base checkpoint, then replay `steps`."""
        ...

    async def close(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        """Plain data for the run's row: model, dtype, device, threads, parameters, noise version, batch behaviour."""
        ...
