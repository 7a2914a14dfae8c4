"""Engines: where weights live and tokens come from. `load_engine` picks one by name; nothing heavy loads before."""

from __future__ import annotations

from typing import Any

from coevo.engine.base import (
    Completion,
    Deliver,
    Engine,
    FinishReason,
    NoiseSpec,
    Perturbation,
    Request,
    Sampling,
    Step,
    UpdateReport,
)
from coevo.errors import ConfigError, ModelError

__all__ = [
    "Completion",
    "Deliver",
    "Engine",
    "FinishReason",
    "NoiseSpec",
    "Perturbation",
    "Request",
    "Sampling",
    "Step",
    "UpdateReport",
    "load_engine",
]

ENGINES = ("transformers",)


def load_engine(model_id: str, *, engine: str = "transformers", noise: NoiseSpec, **options: Any) -> Engine:
    """Load a model into an engine. `options` are the engine's own (dtype, device, threads, context, …).

    Raises `ConfigError` for an unknown engine, `ModelError` when its packages or the model are missing.
    """
    if engine not in ENGINES:
        raise ConfigError(f"unknown engine {engine!r}", hint=f"choose one of: {', '.join(ENGINES)}")
    try:
        from coevo.engine.transformers import TransformersEngine
    except ModuleNotFoundError as error:
        raise ModelError(
            f"the engine {engine!r} needs the package {error.name!r}", hint="pip install 'coevo[torch]'"
        ) from error
    return TransformersEngine(model_id, noise=noise, **options)
