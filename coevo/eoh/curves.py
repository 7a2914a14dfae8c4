"""The picture of searches: the best objective so far over candidates, a panel a problem, as an SVG document."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median_high
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from coevo.eoh.report import SearchReport
    from coevo.problem import Reference

_LEFT, _TOP, _PLOT, _BOTTOM = 90, 40, 500, 64
_HEIGHT = 400
_COLOURS = ("#2171b5", "#d94801", "#41ab5d", "#6a51a3", "#737373", "#c51b8a")
_DASHES = ("", "8 3", "3 3", "8 3 2 3")
_MOST_LABELS = 16
"""More do not fit beside a panel."""
_ENOUGH = 3
"""So many runs of a method have a mean."""


def render_curves(reports: Sequence[SearchReport]) -> str:
    """One line a run; runs of one method have one colour, three or more with one budget a bold mean over pale lines. Early
    values far above where the runs end are cut off."""
    shown = [report for report in reports if report.curve]
    problems = list(dict.fromkeys(report.problem for report in shown)) or ["no heuristics yet"]
    arms = list(dict.fromkeys(report.arm for report in shown))
    panels, width = [], 0
    for place, problem in enumerate(problems):
        lines = _lines([report for report in shown if report.problem == problem], arms)
        longest = max((len(line.label) for line in lines), default=0)
        width = max(width, _LEFT + _PLOT + 60 + 7 * longest)
        panels.append(f'<g transform="translate(0,{_HEIGHT * place})">{_panel(problem, lines)}</g>')
    body = "\n".join(panels)
    height = _HEIGHT * len(problems)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        f' font-size="12">\n<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Line:
    report: SearchReport
    label: str
    colour: str
    dash: str
    pale: bool
    """One of several that have a mean."""

    @property
    def style(self) -> str:
        dashes = f' stroke-dasharray="{self.dash}"' if self.dash else ""
        return f'fill="none" stroke="{self.colour}" stroke-width="1.6"{dashes}'


def _lines(reports: Sequence[SearchReport], arms: Sequence[str]) -> list[_Line]:
    """A label names the arm, and where that fits several runs the budget or the run; the arm and how many, if they have a mean
    or there are too many labels."""
    runs = Counter(report.arm for report in reports)
    budgets = {arm: len({r.budget.candidates for r in reports if r.arm == arm}) for arm in runs}
    averaged = {arm for arm, count in runs.items() if count >= _ENOUGH and budgets[arm] == 1}
    together = len(reports) > _MOST_LABELS

    def label(report: SearchReport) -> str:
        arm, count = report.arm, runs[report.arm]
        if count == 1:
            return arm
        if together or arm in averaged:
            return f"{arm}, {count} runs"
        return f"{arm}, " + (
            f"{report.budget.candidates} candidates" if budgets[arm] == count else str(report.run["id"])
        )

    seen: Counter[str] = Counter()
    lines = []
    for report in reports:
        pale = report.arm in averaged
        dash = "" if together or pale else _DASHES[seen[report.arm] % len(_DASHES)]
        seen[report.arm] += 1
        colour = _COLOURS[arms.index(report.arm) % len(_COLOURS)]
        lines.append(_Line(report, label(report), colour, dash, pale))
    return lines


@dataclass(frozen=True, slots=True)
class _Axis:
    """From objectives to heights; what is above `high` is drawn at it. A constant has the middle, and one tick."""

    low: float
    high: float

    def y(self, value: float) -> float:
        share = (min(value, self.high) - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    def ticks(self) -> list[float]:
        return sorted({self.low + (self.high - self.low) * tick / 4 for tick in range(5)})


def _axis(reports: Sequence[SearchReport], references: Sequence[Reference]) -> _Axis:
    """Where the runs end, and what they (the middle one) gained after a tenth of their candidates; references that are near."""
    ends = [report.curve[-1][1] for report in reports]
    early = median_high([_after(report, report.budget.candidates // 10) for report in reports])
    low, high = min(ends), max(*ends, early)
    room = (high - low) / 2 or math.inf
    near = [one.objective for one in references if low - room <= one.objective <= high + room]
    return _Axis(min(low, *near, low), max(high, *near, high))


def _after(report: SearchReport, candidates: int) -> float:
    """The best after so many candidates; the first valid one if there was none yet."""
    return next(
        (value for count, value in reversed(report.curve) if count <= max(1, candidates)), report.curve[0][1]
    )


def _panel(problem: str, lines: Sequence[_Line]) -> str:
    parts = [_text(_LEFT + _PLOT / 2, 20, f"{problem}: best so far", "middle")]
    if not lines:
        return parts[0]
    reports = [line.report for line in lines]
    references = list(dict.fromkeys(report.reference for report in reports if report.reference))
    axis = _axis(reports, references)
    last = max(1, *(report.budget.candidates for report in reports))
    parts += _frame(axis, last)
    parts += _dashed(axis, references)
    for line in lines:
        pale = ' stroke-opacity="0.25"' if line.pale else ""
        path = _path(line.report.curve, line.report.budget.candidates, axis, last)
        parts.append(
            f'<path d="{path}" {line.style}{pale}><title>{escape(line.report.run["id"])}</title></path>'
        )
    for label, line in {line.label: line for line in lines if line.pale}.items():
        path = _path(
            _mean([one.report for one in lines if one.label == label]),
            line.report.budget.candidates,
            axis,
            last,
        )
        parts.append(
            f'<path d="{path}" {line.style.replace("1.6", "3")}><title>mean of {escape(label)}</title></path>'
        )
    for place, line in enumerate({line.label: line for line in lines}.values()):
        x, y = _LEFT + _PLOT + 14, _TOP + 18 * place
        parts.append(f'<line x1="{x}" x2="{x + 26}" y1="{y - 4}" y2="{y - 4}" {line.style}/>')
        parts.append(_text(x + 32, y, line.label, "start", line.colour))
    parts.append(
        _text(_LEFT + _PLOT / 2, _HEIGHT - 8, "; ".join(_caption(axis, reports, references)), "middle")
    )
    return "\n".join(parts)


def _path(curve: Sequence[tuple[int, float]], end: int, axis: _Axis, last: int) -> str:
    """Steps from the first point to `end` candidates."""
    (count, value), *others = [*curve, (end, curve[-1][1])]
    return f"M{_x(count, last):.1f},{axis.y(value):.1f}" + "".join(
        f" H{_x(count, last):.1f} V{axis.y(value):.1f}" for count, value in others
    )


def _mean(reports: Sequence[SearchReport]) -> list[tuple[int, float]]:
    """Of the best so far, from where every run has one."""
    begin = max(report.curve[0][0] for report in reports)
    counts = {count for report in reports for count, _ in report.curve if count >= begin}
    return [(count, fmean(_after(report, count) for report in reports)) for count in sorted(counts)]


def _frame(axis: _Axis, last: int) -> Iterator[str]:
    for value in axis.ticks():
        y = axis.y(value)
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(_LEFT - 6, y + 4, f"{value:.6g}", "end")
    for count in sorted({round(last * tick / 4) for tick in range(5)}):
        yield _text(_x(count, last), _HEIGHT - _BOTTOM + 18, str(count), "middle")
    yield _text(_LEFT + _PLOT / 2, _HEIGHT - _BOTTOM + 36, "candidates", "middle")
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield (
        f'<text transform="translate(16,{middle}) rotate(-90)" text-anchor="middle">'
        "mean objective on train, smaller is better</text>"
    )


def _dashed(axis: _Axis, references: Sequence[Reference]) -> Iterator[str]:
    for one in references:
        if axis.low <= one.objective <= axis.high:
            y = axis.y(one.objective)
            yield (
                f'<line x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#333"'
                ' stroke-dasharray="5 4"/>'
            )
            yield _text(_LEFT + _PLOT - 4, y - 5, one.source, "end")


def _caption(axis: _Axis, reports: Sequence[SearchReport], references: Sequence[Reference]) -> Iterator[str]:
    budgets = sorted({report.budget.candidates for report in reports})
    if len(budgets) > 1:
        yield f"budgets differ: {budgets[0]} to {budgets[-1]} candidates"
    if any(report.curve[0][1] > axis.high for report in reports):
        yield f"values above {axis.high:.6g} are cut off"
    for one in references:
        if not axis.low <= one.objective <= axis.high:
            yield f"{one.source}, {one.objective:.6g}, is outside the picture"


def _x(count: float, last: int) -> float:
    return _LEFT + _PLOT * count / last


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
