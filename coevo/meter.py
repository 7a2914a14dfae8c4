"""How much of the time two kinds of work went on, and both at once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Meter:
    """Wall-clock seconds by the set of works that were under way, from the first work on."""

    clock: Callable[[], float] = time.perf_counter
    seconds: defaultdict[frozenset[str], float] = field(default_factory=lambda: defaultdict(float))
    _running: Counter[str] = field(default_factory=Counter)
    _since: float | None = None

    @contextmanager
    def during(self, work: str) -> Iterator[None]:
        """Time inside is time of `work`; it may be entered several times at once."""
        self._account()
        self._running[work] += 1
        try:
            yield
        finally:
            self._account()
            self._running[work] -= 1

    def share(self, *works: str) -> float:
        """The share of the time in which all of `works` were under way."""
        whole = sum(self.seconds.values())
        wanted = frozenset(works)
        return (
            sum(spent for active, spent in self.seconds.items() if wanted <= active) / whole if whole else 0.0
        )

    def _account(self) -> None:
        now = self.clock()
        if self._since is not None:
            self.seconds[frozenset(work for work in self._running if self._running[work])] += (
                now - self._since
            )
        self._since = now
