"""Curves as a picture, drawn without any library; readable in light and dark. Imports nothing of the other files."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 250, 70, 60
_LABEL = 17
"""The least distance of two labels beside the ends of curves."""

_OURS = (("#1f7a4d", "#3fb977"), ("#0a69a8", "#58a6ff"), ("#6f7d00", "#c3cf3a"))
_THEIRS = (("#b35900", "#f0903c"), ("#8250df", "#b98cff"), ("#bf3989", "#f778ba"), ("#57606a", "#9198a1"))
_DASHES = ("", "6 3", "2 3")

_STYLE = """\
text{fill:#57606a}.title{fill:#1f2328;font-size:16px;font-weight:bold}.grid{stroke:#d8dee4}.axis{stroke:#8c959f}
path{fill:none;stroke-width:2.2;stroke-linejoin:round}
"""
_DARK = "text{fill:#9198a1}.title{fill:#e6edf3}.grid{stroke:#2d333b}.axis{stroke:#6e7681}"


@dataclass(frozen=True)
class Line:
    """One curve: points as (x, y), in order of x."""

    label: str
    points: Sequence[tuple[float, float]]
    ours: bool = True


@dataclass(frozen=True)
class Chart:
    """A picture of curves. `name` becomes part of the file's name; `x` and `y` say what the axes count.

    On a logarithmic axis, points that are not positive are left out.
    """

    name: str
    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class _Axis:
    """Where a value stands between two ends of the picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        low, high, value = (math.log10(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def write_chart(docs: Path, suite: str, chart: Chart) -> str:
    """Renew the picture of a chart below `docs`; the line of the page that shows it."""
    name = f"{suite}-{chart.name}.svg"
    (docs / "benchmarks").mkdir(exist_ok=True)
    (docs / "benchmarks" / name).write_text(line_chart(chart), encoding="utf-8")
    return f"![{chart.title}](benchmarks/{name})"


def line_chart(chart: Chart) -> str:
    """The picture as SVG. Every point tells its numbers to whoever points at it."""
    lines = [_drawable(line, chart) for line in chart.lines]
    points = [point for line in lines for point in line.points] or [(1.0, 1.0)]
    across = _axis([x for x, _ in points], _LEFT, WIDTH - _RIGHT, log=chart.log_x, zero=False)
    up = _axis([y for _, y in points], HEIGHT - _BOTTOM, _TOP, log=chart.log_y, zero=True)
    ways = _colours(lines)
    # Ours come last: where curves lie on each other, they are seen.
    order = sorted(range(len(lines)), key=lambda number: lines[number].ours)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    dark = f"@media (prefers-color-scheme:dark){{{_DARK}{_classes(ways, 1)}}}"
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        f"<style>\n{_STYLE}{_classes(ways, 0)}\n{dark}</style>",
        f'<text class="title" x="10" y="26">{escape(chart.title)}</text>',
        *_scales(chart, across, up, sorted({x for x, _ in points})),
        *(part for number in order for part in _curve(number, lines[number], across, up)),
        *_labels(lines, up),
    ]
    return "\n".join([*drawn, "</svg>"]) + "\n"


def short(value: float) -> str:
    """A number of an axis, with few characters: 1.5M, 20k, 0.002."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _drawable(line: Line, chart: Chart) -> Line:
    kept = [(x, y) for x, y in line.points if (x > 0 or not chart.log_x) and (y > 0 or not chart.log_y)]
    return Line(line.label, kept, line.ours)


def _axis(values: Sequence[float], start: float, end: float, *, log: bool, zero: bool) -> _Axis:
    low, high = min(values), max(values)
    if log and zero:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    elif zero:
        low, high = min(0.0, low), _steps(min(0.0, low), high)[-1]
    elif not log and 0 < low < high / 10:
        low = 0.0
    if low == high:
        high = low * 10 if log else low + 1
    return _Axis(low, high, start, end, log)


def _steps(low: float, high: float) -> list[float]:
    """Round numbers from `low` to the first that is not below `high`, about five of them."""
    raw = (high - low) / 5 or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if size * times >= raw * 0.999)
    count = math.ceil((high - low) / step - 1e-9)
    return [low + number * step for number in range(max(count, 1) + 1)]


def _ticks(axis: _Axis) -> list[float]:
    if not axis.log:
        return [one for one in _steps(axis.low, axis.high) if one <= axis.high * 1.0001]
    first, last = math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def _scales(chart: Chart, across: _Axis, up: _Axis, sizes: Sequence[float]) -> list[str]:
    """Both axes with their numbers and names. Few different x are all named; of many, round ones are."""
    drawn: list[str] = []
    for tick in _ticks(up):
        y = up.at(tick)
        drawn.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    bottom = HEIGHT - _BOTTOM
    for tick in _apart(sizes, across) if len(sizes) <= 12 else _ticks(across):
        x = across.at(tick)
        drawn.append(f'<line class="axis" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{short(tick)}</text>')
    drawn.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{WIDTH - _RIGHT}" y2="{bottom}"/>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    drawn.append(f'<text x="{middle:.0f}" y="{HEIGHT - 16}" text-anchor="middle">{escape(chart.x)}</text>')
    drawn.append(f'<text x="10" y="{_TOP - 18}">{escape(chart.y)}</text>')
    return drawn


def _apart(sizes: Sequence[float], across: _Axis) -> list[float]:
    """Those whose numbers do not run into each other; the last one always."""
    kept: list[float] = []
    for one in reversed(sizes):
        if not kept or across.at(kept[-1]) - across.at(one) >= 34:
            kept.append(one)
    return kept[::-1]


def _colours(lines: Sequence[Line]) -> list[tuple[tuple[str, str], str]]:
    """For each curve its colours in light and dark, and its dashes; ours in other colours than theirs."""
    chosen: list[tuple[tuple[str, str], str]] = []
    for number, line in enumerate(lines):
        before = sum(other.ours == line.ours for other in lines[:number])
        palette = _OURS if line.ours else _THEIRS
        chosen.append((palette[before % len(palette)], _DASHES[before // len(palette) % len(_DASHES)]))
    return chosen


def _classes(ways: Sequence[tuple[tuple[str, str], str]], scheme: int) -> str:
    return "".join(
        f".p{number}{{stroke:{colour[scheme]};stroke-dasharray:{dashes or 'none'}}}.f{number}{{fill:{colour[scheme]}}}"
        for number, (colour, dashes) in enumerate(ways)
    )


def _curve(number: int, line: Line, across: _Axis, up: _Axis) -> list[str]:
    if not line.points:
        return []
    places = [(across.at(x), up.at(y)) for x, y in line.points]
    path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = [
        f'<circle class="f{number}" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="3">'
        f"<title>{escape(line.label)}: {x:,.6g}, {y:,.6g}</title></circle>"
        for place, (x, y) in zip(places, line.points, strict=True)
    ]
    return [f'<path class="p{number}" d="M{path}"/>', *(dots if len(dots) <= 40 else ())]


def _labels(lines: Sequence[Line], up: _Axis) -> list[str]:
    """The names beside the ends of the curves, moved as far as it takes that none covers another."""
    ends = {number: up.at(line.points[-1][1]) for number, line in enumerate(lines) if line.points}
    placed = _spread(ends, up.start)
    x = WIDTH - _RIGHT + 10
    return [
        f'<text class="f{number}" x="{x}" y="{y + 4:.1f}">{escape(lines[number].label)}</text>'
        for number, y in placed.items()
    ]


def _spread(ends: dict[int, float], lowest: float) -> dict[int, float]:
    order: Callable[[int], tuple[float, int]] = lambda number: (ends[number], number)  # noqa: E731
    placed: dict[int, float] = {}
    above = -math.inf
    for number in sorted(ends, key=order):
        placed[number] = above = max(ends[number], above + _LABEL)
    below = lowest + _LABEL
    for number in reversed(placed):
        placed[number] = below = min(placed[number], below - _LABEL)
    return placed
