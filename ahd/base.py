"""What the six problems have in common: splits, sizes, limits and references."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ahd import references
from coevo.errors import ConfigError
from coevo.problem import Expressions, Reference, Signature, Split
from coevo.sandbox import Candidate, Limits


class BundledProblem(ABC):
    """A `coevo.problem.Problem` with the published instances: a subclass gives the texts, `counts` and `solve`."""

    name: str
    family: str
    """Whose instances and references it uses: its own name, or that of which it is another way of scoring."""
    goal: str
    signature: Signature
    notes: str
    seed_code: str
    expressions: Expressions | None
    counts: Mapping[tuple[Split, int], int]
    """How many instances there are of each split and size."""
    unit: str
    """What the size of an instance counts."""
    limits: Limits = Limits(cpu_s=20.0, wall_s=80.0)
    """On the train split; ordinary heuristics need less than a second of it."""
    growth: int = 1
    """The heuristic's work on an instance grows with its size to this power."""

    def limits_on(self, split: Split, size: int | None = None) -> Limits:
        """Times in proportion to the work, never less than on the train split."""
        work = max(1.0, self._work(split, size) / self._work("train"))
        return replace(self.limits, cpu_s=self.limits.cpu_s * work, wall_s=self.limits.wall_s * work)

    def _work(self, split: Split, size: int | None = None) -> float:
        size = self.size(split, size)
        return float(self.counts[split, size] * size**self.growth)

    def sizes(self, split: Split) -> list[int]:
        return [size for of, size in self.counts if of == split]

    def size(self, split: Split, size: int | None = None) -> int:
        """The size asked for; by default that of the train split, or the first where a split does not have it.

        ConfigError where the split has no such size.
        """
        sizes = self.sizes(split)
        if not sizes:
            raise ConfigError(f"{self.name} has no split {split!r}", hint="choose train, val or test")
        if size is None:
            (trained,) = self.sizes("train")
            return trained if trained in sizes else sizes[0]
        if size not in sizes:
            known = " or ".join(map(str, sizes))
            raise ConfigError(
                f"{self.name} has no {split} instances of size {size}", hint=f"choose size {known}"
            )
        return size

    def size_text(self, size: int) -> str:
        """A size as listings show it."""
        return str(size)

    def reference(self, split: Split, size: int | None = None) -> Reference:
        return references.reference(self.family, split, self.size(split, size))

    @abstractmethod
    async def solve(self, candidate: Candidate, split: Split, size: int | None = None) -> Sequence[float]: ...
