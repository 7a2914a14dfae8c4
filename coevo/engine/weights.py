"""The centre θ of an evolving model: an fp32 master in host memory, from which every served weight is computed.

Nothing is ever undone by subtraction: a perturbed model is `round(master + σ·ε)`, and the centre comes back as
`round(master)`. Updates add up in fp32 and are rounded to the served dtype once.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from coevo.engine import noise
from coevo.engine.base import NoiseSpec, Perturbation, Step, UpdateReport
from coevo.engine.models import BaseCheckpoint, LoadedModel
from coevo.errors import EngineError

if TYPE_CHECKING:
    import torch


class Weights:
    """Owns the parameters of one loaded model. Not thread-safe: the engine's single thread calls it.

    `names` are the Hugging Face names of the tensors that noise moves (a tied tensor appears once).
    """

    def __init__(self, loaded: LoadedModel, spec: NoiseSpec) -> None:
        import torch

        self.spec = spec
        self.step = 0
        self._loaded = loaded
        self._served: dict[str, torch.nn.Parameter] = dict(loaded.model.named_parameters())  # tied ones once
        self.names = tuple(select_names(loaded.model, spec))
        if not self.names:
            raise EngineError(
                "the noise settings select no tensor of this model",
                hint="check [es.noise] include/exclude against `coevo check`, which lists the tensors",
            )
        self._base = BaseCheckpoint(loaded.source, self.names)
        self._master = {name: self._base[name].to(torch.float32, copy=True) for name in self.names}
        self.scales = {
            name: noise.rms_scale(self._master[name]) if spec.scale == "rms" else 1.0 for name in self.names
        }
        self._fixed = {name: p for name, p in self._served.items() if name not in self._master}
        self.serving: Perturbation | None = None
        """What the model answers with right now; None is the centre."""
        self._checksum: str | None = None

    @property
    def coordinates(self) -> int:
        """How many numbers the noise moves."""
        return sum(tensor.numel() for tensor in self._master.values())

    def perturb(self, perturbation: Perturbation | None) -> None:
        """Serve θ + σ·ε(seed), or the centre θ for None. Computed from the master each time."""
        import torch

        if perturbation == self.serving:
            return
        if perturbation is None:
            self._serve_centre()
            return
        self.serving = perturbation
        with torch.no_grad():
            for name in self.names:
                master, served = self._master[name], self._served[name]
                sigma = perturbation.sigma * self.scales[name]
                for rows in noise.row_blocks(master.shape):
                    delta = noise.epsilon(self.spec, perturbation.seed, name, master.shape, rows)
                    served[rows].copy_(delta.mul_(sigma).add_(master[rows]))

    def _serve_centre(self) -> None:
        import torch

        with torch.no_grad():
            for name in self.names:
                self._served[name].copy_(self._master[name])
        self.serving = None

    def update(self, step: Step) -> UpdateReport:
        """θ ← θ + α/G · Σ z_i ε_i − decay·(θ − θ₀). Shapes follow the tensors; see `UpdateReport` for units."""
        import torch

        start = time.perf_counter()
        if step.noise != self.spec:
            raise EngineError(
                f"the step was made with noise {step.noise}, this engine is set to {self.spec}",
                hint="make both with the same noise; a run is replayed with the [es.noise] settings it was made with",
            )
        square_step = square_drift = 0.0
        under = 0
        with torch.no_grad():
            for name in self.names:
                whole, scale, base = self._master[name], self.scales[name], self._base[name]
                for rows in noise.row_blocks(whole.shape):
                    total = noise.accumulate(
                        self.spec, step.seeds, step.coefficients, name, whole.shape, rows
                    )
                    total.mul_(step.alpha * scale / step.population)
                    master, origin = whole[rows], base[rows].double()
                    if step.decay:
                        total.sub_((master.double() - origin).mul_(step.decay))
                    delta = total.float()
                    master.add_(delta)
                    square_step += float(delta.square_().sum(dtype=torch.float64))
                    drift = origin.sub_(master).abs_()
                    under += int((drift < step.sigma * scale).sum())
                    square_drift += float(drift.square_().sum())
                self._served[name].copy_(whole)
        self.serving = None
        self.step += 1
        self._checksum = None
        return UpdateReport(
            weights_step=self.step,
            step_norm=math.sqrt(square_step),
            drift_norm=math.sqrt(square_drift),
            share_under_sigma=under / self.coordinates,
            checksum=self.checksum(),
            seconds=time.perf_counter() - start,
        )

    def restore(self, steps: Iterable[Step]) -> None:
        """Base checkpoint, then `steps` in order."""
        for name, master in self._master.items():
            master.copy_(self._base[name])
        self._serve_centre()
        self.step = 0
        self._checksum = None
        for step in steps:
            self.update(step)

    def checksum(self) -> str:
        """BLAKE2b over every tensor in name order, as little-endian fp32: moved ones from the master, others as
        served. The same weights give the same checksum on every engine."""
        if self._checksum is None:
            digest = hashlib.blake2b(digest_size=16)
            for name, tensor in self._canonical():
                digest.update(f"{name}{tuple(tensor.shape)}".encode())
                digest.update(_bytes(tensor))
            self._checksum = digest.hexdigest()
        return self._checksum

    def served_checksum(self) -> str:
        """Like `checksum`, over what the model would answer with right now."""
        digest = hashlib.blake2b(digest_size=16)
        for name, parameter in sorted(self._served.items()):
            digest.update(f"{name}{tuple(parameter.shape)}".encode())
            digest.update(_bytes(parameter.detach()))
        return digest.hexdigest()

    def _canonical(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name in sorted(self._served):
            yield name, self._master[name] if name in self._master else self._fixed[name].detach()

    def save(self, directory: Path) -> None:
        """Write the centre as a Hugging Face model directory (served dtype), with its tokenizer."""
        self.perturb(None)
        self._loaded.model.save_pretrained(directory)
        self._loaded.tokenizer.save_pretrained(directory)

    @property
    def master_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self._master.values())


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.float().cpu().contiguous().numpy().tobytes()


def select_names(model: torch.nn.Module, spec: NoiseSpec) -> list[str]:
    """Tensors that `spec` moves, in Hugging Face order.

    `gaussian` may move every floating-point parameter; `lowrank` the weights of linear layers, except one that is
    tied to the token embedding (its rows are looked up, not multiplied).
    """
    from torch import nn

    parameters = dict(model.named_parameters())
    if spec.family == "lowrank":
        embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        eligible = [
            f"{name}.weight"
            for name, module in model.named_modules()
            if isinstance(module, nn.Linear) and id(module.weight) not in embedded
        ]
    else:
        eligible = [name for name, p in parameters.items() if p.is_floating_point()]
    return [
        name
        for name in eligible
        if name in parameters
        and any(fnmatchcase(name, pattern) for pattern in spec.include)
        and not any(fnmatchcase(name, pattern) for pattern in spec.exclude)
    ]
