"""A chart as SVG, by hand: elements carry the colours of a light page, a style those of a dark one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape

from tables.frame import FONT, Frame, cut, width_of
from tables.plot import Plot

# Each can be told from its neighbours and read on its background, by people who see fewer colours, too.
LIGHT = ("#0067a5", "#c2410c", "#0f7b5a", "#a23b7c", "#8a6d00", "#5b5bd6")
DARK = ("#62b5f0", "#ff9b63", "#4fd1a5", "#ef9bcb", "#e6c34a", "#a9a9ff")
DOTS = 60
"""More points than these are drawn as a line only."""

# What XML 1.0 has no place for.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(plot: Plot, kind: str, title: str, width: int, height: int) -> str:
    """The whole file."""
    frame = Frame(plot, kind, width, height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = f'font-family="system-ui, sans-serif" font-size="{FONT}"'
    said = f"{kind} chart: {plot.y_name} by {plot.x_name}, {len(plot.labels):,} places"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">',
        f"<title>{safe(title)}</title><desc>{safe('; '.join([said, *plot.notes]))}</desc>",
        style(),
        f'<rect class="sheet" width="{width}" height="{height}" fill="#ffffff"/>',
        words(width / 2, 24, cut(title, width // 9), more=' font-size="16" font-weight="600"'),
        *y_axis(frame),
        *x_axis(frame),
        *(bars(frame) if kind == "bar" else lines(frame)),
        *legend(frame),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def style() -> str:
    series = "".join(f".s{n}{{fill:{colour}}}.l{n}{{stroke:{colour}}}" for n, colour in enumerate(DARK))
    rest = ".sheet{fill:#0d1117}text{fill:#e6edf3}.axis{stroke:#9198a1}.grid{stroke:#30363d}"
    return f"<style>@media (prefers-color-scheme: dark){{{rest}{series}}}</style>"


def safe(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def words(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#1f2328"{more}>{safe(text)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    colour = "#57606a" if kind == "axis" else "#d8dee4"
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{kind}" {place} stroke="{colour}"/>'


def y_axis(frame: Frame) -> Iterator[str]:
    for value, text in zip(frame.y_ticks, frame.y_labels):  # noqa: B905 - Python 3.9
        y = frame.y(value)
        yield rule(frame.left, y, frame.right, y, "axis" if value == 0 else "grid")
        yield words(frame.left - 8, y + 4, text, "end")
    yield rule(frame.left, frame.top, frame.left, frame.bottom, "axis")
    middle = (frame.top + frame.bottom) / 2
    yield words(16, middle, cut(frame.plot.y_name, 50), more=f' transform="rotate(-90 16 {middle:.1f})"')


def x_axis(frame: Frame) -> Iterator[str]:
    """As many labels as have room."""
    if frame.y_ticks[0] != 0:
        yield rule(frame.left, frame.bottom, frame.right, frame.bottom, "axis")
    below, free = frame.bottom + 8 + FONT, -math.inf
    for x, name in frame.x_marks():
        # Lines of text that lean are apart by the sine of their angle.
        need = FONT * 1.9 if frame.tilted else width_of(name) + 10
        if x - need / 2 < free:
            continue
        free = x + need / 2
        yield rule(x, frame.bottom, x, frame.bottom + 4, "axis")
        turned = f' transform="rotate(-35 {x:.1f} {below:.1f})"' if frame.tilted else ""
        yield words(x, below, name, "end" if frame.tilted else "middle", turned)
    yield words((frame.left + frame.right) / 2, frame.height - 12, cut(frame.plot.x_name, 60))


def bars(frame: Frame) -> Iterator[str]:
    series = frame.plot.series
    width, zero = frame.room * 0.8 / len(series), frame.y(0.0)
    for place, (name, values) in enumerate(series):
        for number, value in present(values):
            x, y = frame.x(number) + (place - len(series) / 2) * width, frame.y(value)
            box = f'x="{x:.2f}" y="{min(y, zero):.2f}" width="{width:.2f}" height="{abs(y - zero):.2f}"'
            yield f'<rect class="s{place}" {box} fill="{LIGHT[place]}">{told(frame, name, number, value)}</rect>'


def lines(frame: Frame) -> Iterator[str]:
    for place, (name, values) in enumerate(frame.plot.series):
        stretches = list(runs(values))
        for run in stretches:
            points = " ".join(f"{frame.x(number):.2f},{frame.y(value):.2f}" for number, value in thinned(frame, run))
            look = f'fill="none" stroke="{LIGHT[place]}" stroke-width="2" stroke-linejoin="round"'
            yield f'<polyline class="l{place}" points="{points}" {look}/>'
        few = sum(map(len, stretches)) <= DOTS
        for number, value in (point for run in stretches if few or len(run) == 1 for point in run):
            dot = f'cx="{frame.x(number):.2f}" cy="{frame.y(value):.2f}" r="3" fill="{LIGHT[place]}"'
            yield f'<circle class="s{place}" {dot}>{told(frame, name, number, value)}</circle>'


def legend(frame: Frame) -> Iterator[str]:
    x = frame.left
    for place, (name, _) in enumerate(frame.plot.series if len(frame.plot.series) > 1 else ()):
        yield f'<rect class="s{place}" x="{x:.1f}" y="40" width="10" height="10" fill="{LIGHT[place]}"/>'
        yield words(x + 15, 49, cut(name), "start")
        x += 35 + width_of(cut(name))


def told(frame: Frame, name: str, number: int, value: float) -> str:
    """What is shown when somebody points at a value."""
    return f"<title>{safe(cut(frame.plot.labels[number], 80))}, {safe(cut(name, 80))}: {value:,.10g}</title>"


def present(values: list[float | None]) -> Iterator[tuple[int, float]]:
    return ((number, value) for number, value in enumerate(values) if value is not None)


def runs(values: list[float | None]) -> Iterator[list[tuple[int, float]]]:
    """The stretches without a gap."""
    run: list[tuple[int, float]] = []
    for number, value in present(values):
        if run and run[-1][0] != number - 1:
            yield run
            run = []
        run.append((number, value))
    if run:
        yield run


def thinned(frame: Frame, run: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Of more points than pixels, the first, last, lowest and highest of each pixel: the line looks the same."""
    if len(run) < 4 * frame.width:
        return run
    pixels: dict[int, list[tuple[int, float]]] = {}
    for point in run:
        pixels.setdefault(int(frame.x(point[0])), []).append(point)
    kept: set[tuple[int, float]] = set()
    for inside in pixels.values():
        kept.update((inside[0], inside[-1], min(inside, key=lambda one: one[1]), max(inside, key=lambda one: one[1])))
    return sorted(kept)
