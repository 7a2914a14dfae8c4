"""What a run achieved: the 2×2 grid on held-out tasks with paired intervals, and the curve over generations."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from coevo.grid import Cell, Grid, canonical, make_grid
from coevo.stats import Estimate
from coevo.store import queries
from coevo.store.versions import final_version

if TYPE_CHECKING:
    from rich.console import RenderableType

    from coevo.store import Store

_TITLES = {
    "evolved+seed": "weights alone",
    "base+evolved": "skill alone",
    "evolved+evolved": "both",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One generation of the curve, as stored."""

    generation: int
    sigma: float
    mean: float | None
    std: float | None
    best: float | None
    skill_version: str
    step: str
    drift_norm: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `coevo report` shows. `skill` is the version the run stands for, `pool` the rows of `skill_pool`."""

    run: dict[str, Any]
    points: tuple[Point, ...]
    evaluations: tuple[dict[str, Any], ...]
    skill_versions: tuple[dict[str, Any], ...]
    pool: tuple[dict[str, Any], ...]
    skill: str | None
    grid: Grid | None
    invalid: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_report(store: Store, run: str) -> Report:
    """The report of a run so far. Raises StoreError for an unknown run."""
    row = queries.run(store, run)
    run = row["id"]
    return Report(
        run=run_facts(row),
        points=tuple(_points(store, run)),
        evaluations=tuple(
            store.query("SELECT * FROM evaluations WHERE run = ? ORDER BY generation, arm", (run,))
        ),
        skill_versions=tuple(
            store.query(
                "SELECT id, parent, status, author, generation, gain, gain_lower, gain_upper, reason"
                " FROM skill_versions WHERE run = ? ORDER BY generation, id",
                (run,),
            )
        ),
        pool=tuple(store.query("SELECT * FROM skill_pool WHERE run = ? ORDER BY generation, place", (run,))),
        skill=final_version(store, run),
        grid=make_grid(store, run),
        invalid=store.query(
            "SELECT count(*) AS n FROM episodes WHERE run = ? AND outcome = 'invalid'", (run,)
        )[0]["n"],
    )


def run_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says of its run (a row of `queries.run`). `next`: how it goes on; None when it is done or under way."""
    facts = {key: row[key] for key in ("id", "name", "status", "seed", "created_at", "finished_at", "error")}
    ended = row["status"] in ("finished", "running")
    return facts | {"next": None if ended else f"to continue it: {_command(row)}"}


def _command(row: Mapping[str, Any]) -> str:
    origin = (row["provenance"] or {}).get("origin") or []
    if not origin or not Path(origin[0]).exists():
        return "the same `coevo run` as before"
    file = Path(origin[0])
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return shlex.join(["coevo", "run", str(file), *origin[1:]])


def after_heading(run: Mapping[str, Any]) -> Iterator[str]:
    """Why a run failed, and how it goes on."""
    if run["error"]:
        yield str(run["error"])
    if run["next"]:
        yield str(run["next"])


def render_grid(grid: Grid) -> RenderableType:
    """The grid as a table, with the paired differences below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    cells = {cell.arm: cell for cell in grid.cells}
    n = grid.cells[0].estimate.n
    table = Table(title=f"mean reward on {n} held-out tasks ({grid.split}), 95 % intervals")
    table.add_column("")
    table.add_column("seed skill")
    table.add_column("evolved skill")
    for weights in ("base", "evolved"):
        table.add_row(
            f"{weights} weights", *(_cell(cells[f"{weights}+{skill}"]) for skill in ("seed", "evolved"))
        )
    gains = Table(title="paired differences to base weights with the seed skill")
    for heading in ("", "difference", "95 % interval", ""):
        gains.add_column(heading)
    for arm, title in _TITLES.items():
        gains.add_row(title, *_difference(grid.gains[arm]))
    if grid.interaction:
        gains.add_row("interaction", *_difference(grid.interaction))
    notes = []
    if grid.dropped:
        notes.append(f"{grid.dropped} slots left out: not valid in every arm.")
    invalid = sum(cell.invalid for cell in grid.cells if cell.same_as is None)
    if invalid:
        notes.append(f"{invalid} episodes stayed invalid (the world broke) and are not counted as zero.")
    return Group(table, gains, Text(" ".join(notes)))


def render_report(report: Report) -> RenderableType:
    """The run in tables for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    run = report.run
    parts: list[RenderableType] = [Text(f"run {run['id']} · {run['status']} · seed {run['seed']}")]
    parts += [Text(line) for line in after_heading(run)]
    if report.points:
        curve = Table(title="generations")
        for heading in ("generation", "σ", "reward", "spread", "best", "weights", "skill"):
            curve.add_column(heading, justify="left" if heading in ("weights", "skill") else "right")
        for point in report.points:
            curve.add_row(
                str(point.generation),
                f"{point.sigma:.3g}",
                _number(point.mean),
                _number(point.std),
                _number(point.best),
                point.step,
                point.skill_version,
            )
        curve.caption = "reward, spread, best: of the members, on training tasks"
        parts += [curve, Text("reward  " + sparkline([point.mean for point in report.points]))]
    parts += [Text(line) for line in _held_out(report)]
    if report.skill_versions:
        versions = Table(title="skill versions")
        for heading in ("version", "verdict", "gain", "why"):
            versions.add_column(heading)
        for version in report.skill_versions:
            gain = "" if version["gain"] is None else f"{version['gain']:+.3f}"
            versions.add_row(version["id"], version["status"], gain, version["reason"] or "")
        parts.append(versions)
    if report.pool:
        parts.append(Text(f"several versions were kept side by side; the run stands for {report.skill}"))
    if report.grid:
        parts.append(render_grid(report.grid))
    if report.invalid:
        parts.append(Text(f"{report.invalid} attempts were invalid: `coevo db query` on episodes says why."))
    return Group(*parts)


def sparkline(values: list[float | None]) -> str:
    """One character a value, from the lowest to the highest of them; a gap for None."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    bars = "▁▂▃▄▅▆▇█"

    def bar(value: float) -> str:
        return bars[round((value - low) / (high - low) * (len(bars) - 1))] if high > low else bars[0]

    return "".join(" " if value is None else bar(value) for value in values) + f"  {low:.3f} … {high:.3f}"


def render_svg(report: Report) -> str:
    """Reward, σ and new skills over generations, and the arms on held-out tasks, as an SVG document."""
    width, height, left, right, top, bottom = 760, 380, 60, 110, 60, 50
    measured = [row for row in report.evaluations if row["mean"] is not None and "@" not in row["arm"]]
    rewards: list[float] = [
        value
        for value in (
            *(v for p in report.points for v in (p.mean, p.best)),
            *(e["mean"] for e in measured),
        )
        if value is not None
    ]
    low, high = min([0.0, *rewards]), max([1.0, *rewards])
    last: int = max([1, *(p.generation for p in report.points), *(e["generation"] for e in measured)])
    sigma_high = max([p.sigma for p in report.points], default=1.0) or 1.0

    def x(generation: int) -> float:
        return left + (width - left - right) * generation / last

    def y(value: float) -> float:
        return height - bottom - (height - top - bottom) * (value - low) / (high - low)

    def line(points: list[tuple[float, float]], colour: str, dash: str = "") -> str:
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        style = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{style}/>'

    def label(px: float, py: float, text: str, anchor: str = "middle", colour: str = "#333") -> str:
        return f'<text x="{px:.1f}" y="{py:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'

    shapes = [
        f'<rect width="{width}" height="{height}" fill="white"/>',
        label(width / 2, 20, f"run {report.run['id']}"),
        label(width / 2, height - 8, "generation"),
    ]
    for tick in range(5):
        value = low + (high - low) * tick / 4
        shapes.append(
            f'<line x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
        )
        shapes.append(label(left - 6, y(value) + 4, f"{value:.2f}", "end"))
    for generation in range(0, last + 1, max(1, last // 10)):
        shapes.append(label(x(generation), height - bottom + 18, str(generation)))
    sigma = [
        (x(p.generation), height - bottom - (height - top - bottom) * p.sigma / sigma_high)
        for p in report.points
    ]
    shapes.append(line(sigma, "#999", "4 3"))
    shapes.append(
        line([(x(p.generation), y(p.best)) for p in report.points if p.best is not None], "#9ecae1")
    )
    shapes.append(
        line([(x(p.generation), y(p.mean)) for p in report.points if p.mean is not None], "#2171b5")
    )
    shapes += [
        _whisker(x(e["generation"]), y(e["lower"]), y(e["mean"]), y(e["upper"]), e["arm"]) for e in measured
    ]
    lowest = -math.inf
    for e in sorted((e for e in measured if e["generation"] == last), key=lambda e: -float(e["mean"])):
        lowest = max(lowest + 13, y(e["mean"]) + 4)  # labels of arms that are close stand below each other
        shapes.append(label(x(last) + 9, lowest, e["arm"], "start", "#d94801"))
    for before, after in pairwise(report.points):
        if before.skill_version != after.skill_version:
            px = x(after.generation)
            shapes.append(
                f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{top}" y2="{height - bottom}" stroke="#41ab5d"'
                f' stroke-dasharray="2 4"><title>{escape(after.skill_version)}</title></line>'
            )
    legend = (
        ("mean reward", "#2171b5"),
        ("best member", "#9ecae1"),
        ("held-out, 95 %", "#d94801"),
        (f"σ (top: {sigma_high:.3g})", "#777"),
        ("new skill", "#41ab5d"),
    )
    shapes += [
        label(left + 130 * i, top - 18, text, "start", colour) for i, (text, colour) in enumerate(legend)
    ]
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12">\n{body}\n</svg>\n'
    )


def _whisker(x: float, lower: float, mean: float, upper: float, title: str) -> str:
    return (
        f'<g stroke="#d94801" fill="#d94801"><title>{escape(title)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{lower:.1f}" y2="{upper:.1f}"/><circle cx="{x:.1f}" cy="{mean:.1f}" r="4"/></g>'
    )


def _points(store: Store, run: str) -> Iterator[Point]:
    rows = store.query(
        "SELECT g.*, s.status, s.reason, s.weights_step AS after, s.drift_norm FROM generations g"
        " LEFT JOIN es_steps s ON s.run = g.run AND s.generation = g.generation WHERE g.run = ? ORDER BY g.generation",
        (run,),
    )
    for row in rows:
        yield Point(
            generation=row["generation"],
            sigma=row["sigma"],
            mean=row["mean_reward"],
            std=row["std_reward"],
            best=row["best_reward"],
            skill_version=row["skill_version"],
            step=f"step {row['after']}" if row["status"] == "applied" else (row["reason"] or "no step"),
            drift_norm=row["drift_norm"],
        )


def _held_out(report: Report) -> Iterator[str]:
    """The centre on held-out tasks over generations, a line a split, where it was measured more than once."""
    moved = any(point.step.startswith("step ") for point in report.points)
    changed = any(version["id"] == report.skill for version in report.skill_versions)
    centre = {"evolved+evolved", canonical("evolved+evolved", moved=moved, changed=changed)}
    for split in sorted({str(row["split"]) for row in report.evaluations}):
        means = {
            row["generation"]: row["mean"]
            for row in report.evaluations
            if row["split"] == split
            and row["mean"] is not None
            and row["arm"].partition("@")[0] in (centre if row["generation"] else {"base+seed"})
        }
        if len(means) > 1:
            values = [
                f"{mean:.3f} after {generation}" if generation else f"{mean:.3f} at first"
                for generation, mean in sorted(means.items())
            ]
            yield f"held-out {split}, weights and skill of the time: {', '.join(values)} generations"


def _cell(cell: Cell) -> str:
    estimate = cell.estimate
    same = f"\n= {cell.same_as}: nothing evolved" if cell.same_as else ""
    return f"{estimate.mean:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]\n{cell.success_rate:.0%} succeed{same}"


def _difference(estimate: Estimate) -> tuple[str, str, str]:
    verdict = "" if estimate.lower <= 0 <= estimate.upper else "clear of 0"
    mean, lower, upper = (round(value, 3) + 0.0 for value in (estimate.mean, estimate.lower, estimate.upper))
    return f"{mean:+.3f}", f"[{lower:+.3f}, {upper:+.3f}]", verdict


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
