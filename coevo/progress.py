"""What a run tells a person while it works: live bars on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from coevo.env import Outcome

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class GenerationSummary:
    """One finished generation. Rewards are over valid members; `step` says what happened to the weights."""

    generation: int
    sigma: float
    mean: float | None
    std: float | None
    worst: float | None
    best: float | None
    step: str
    seconds: float


class Progress:
    """Listens to a run. This one is silent; subclasses override what they show."""

    def start(self, run: str, total: int, done: int, unit: str = "generations") -> None:
        """A run begins or continues with `done` of its `total` generations (or turns of a search) finished."""

    def phase(self, label: str, total: int, done: int, unit: str = "episodes") -> None:
        """`total` episodes (or what `unit` names) belong to the phase; `done` of them are in the database already."""

    def item(self) -> None:
        """One of a phase of something else than episodes is done."""

    def episode(self, outcome: Outcome, reward: float | None) -> None:
        """An episode of the phase finished (an invalid one counts when it is not tried again)."""

    def generation(self, summary: GenerationSummary) -> None:
        """A generation is stored."""

    def advance(self, done: int, text: str) -> None:
        """A turn of a search is stored; `done` of them are."""

    def note(self, text: str) -> None:
        """Something worth a line: a verdict of the gate, an evaluation, a warning."""

    def close(self) -> None:
        """The run ends."""


class PlainProgress(Progress):
    """One line an event, none an episode: for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def start(self, run: str, total: int, done: int, unit: str = "generations") -> None:
        self._line(f"run {run}: {done} of {total} {unit} done")

    def phase(self, label: str, total: int, done: int, unit: str = "episodes") -> None:
        self._line(f"{label}: {total} {unit}" + (f", {done} already stored" if done else ""))

    def generation(self, summary: GenerationSummary) -> None:
        self._line(describe(summary))

    def advance(self, done: int, text: str) -> None:
        self._line(text)

    def note(self, text: str) -> None:
        self._line(text)


class RichProgress(Progress):
    """Bars for the run and the current phase, with the running mean reward and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._bars.start()
        self._run = self._bars.add_task("preparing", total=None, detail="")
        self._started_run = False
        self._unit = "generations"
        self._phase = self._bars.add_task("", total=None, detail="", visible=False)
        self._rewards: list[float] = []
        self._invalid = 0
        self._started = time.monotonic()
        self._done_before = 0

    def start(self, run: str, total: int, done: int, unit: str = "generations") -> None:
        self._started, self._done_before = time.monotonic(), done
        self._started_run = True
        self._unit = unit
        self._bars.update(self._run, description=run, total=total, completed=done, detail=unit)

    def phase(self, label: str, total: int, done: int, unit: str = "episodes") -> None:
        self._rewards, self._invalid = [], 0
        self._bars.update(self._run, visible=self._started_run)
        self._bars.reset(self._phase, description=label, total=total, completed=done, detail="", visible=True)

    def item(self) -> None:
        self._bars.advance(self._phase)

    def episode(self, outcome: Outcome, reward: float | None) -> None:
        if outcome is Outcome.INVALID:
            self._invalid += 1
        elif reward is not None:
            self._rewards.append(reward)
        mean = f"reward {sum(self._rewards) / len(self._rewards):.2f}" if self._rewards else ""
        invalid = f" · {self._invalid} invalid" if self._invalid else ""
        self._bars.update(self._phase, advance=1, detail=mean + invalid)

    def generation(self, summary: GenerationSummary) -> None:
        self._reached(summary.generation + 1, describe(summary))

    def advance(self, done: int, text: str) -> None:
        self._reached(done, text)

    def _reached(self, done: int, text: str) -> None:
        total = self._bars.tasks[0].total or done
        pace = (time.monotonic() - self._started) / max(1, done - self._done_before)
        left = f"about {duration(pace * (total - done))} left" if done < total else ""
        self._bars.update(self._run, completed=done, detail=f"{self._unit} · {left}" if left else self._unit)
        self._bars.console.print(text, highlight=False, markup=False)

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        self._bars.stop()


def make_progress(stream: TextIO) -> Progress:
    """Bars when `stream` is a terminal, lines otherwise."""
    if not stream.isatty():
        return PlainProgress(stream)
    from rich.console import Console

    return RichProgress(Console(file=stream))


def describe(summary: GenerationSummary) -> str:
    """One line: reward with its spread over members, σ, and what happened to the weights."""
    reward = "no valid member"
    if summary.mean is not None:
        reward = f"reward {summary.mean:.3f} ± {summary.std:.3f} ({summary.worst:.2f} … {summary.best:.2f})"
    return (
        f"generation {summary.generation}: {reward} · σ {summary.sigma:.3g} · {summary.step} · "
        f"{duration(summary.seconds)}"
    )


def duration(seconds: float) -> str:
    """`7 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
