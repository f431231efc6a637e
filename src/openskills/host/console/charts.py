"""Charts of runs as SVG that the server renders: a waterfall of phases, and calls, errors and latency over time."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from markupsafe import Markup, escape

from openskills.host.console.pages import format_duration
from openskills.host.history import RunStatistics
from openskills.host.model import PHASES

_WIDTH, _ROW, _LABEL, _VALUE = 640.0, 26, 84.0, 84.0
_SPAN, _HEIGHT, _LEFT, _BOTTOM, _TOP = 480.0, 132.0, 46.0, 20.0, 8.0
_TICKS = (2, 4, 10)


def draw_waterfall(phases: Mapping[str, float], labels: Mapping[str, str], title: str) -> Markup:
    """A row for each phase, with its milliseconds; `labels` are the names of the phases in the language of the page."""
    known = [(name, phases[name]) for name in PHASES if name in phases]
    total = sum(spent for _, spent in known) or 1.0
    scale = (_WIDTH - _LABEL - _VALUE) / total
    begin, rows = 0.0, list[Markup]()
    for place, (name, spent) in enumerate(known):
        left, width = _LABEL + begin * scale, max(spent * scale, 2.0)
        top = place * _ROW
        begin += spent
        rows.append(
            Markup(
                '<text x="0" y="{}">{}</text>'
                '<rect class="phase {}" x="{:.1f}" y="{}" width="{:.1f}" height="14" rx="3"/>'
                '<text class="value" x="{:.1f}" y="{}">{}</text>'
            ).format(
                top + 16,
                labels.get(name, name),
                name,
                left,
                top + 5,
                width,
                left + width + 8,
                top + 16,
                format_duration(spent / 1000),
            )
        )
    text = ", ".join(f"{labels.get(name, name)} {format_duration(spent / 1000)}" for name, spent in known)
    return Markup('<svg class="waterfall" viewBox="0 0 {} {}" role="img" aria-label="{}: {}">{}</svg>').format(
        int(_WIDTH), len(known) * _ROW + 4, title, text, Markup("").join(rows)
    )


def draw_calls(series: Sequence[RunStatistics], title: str) -> Markup:
    """Bars of calls over time, with the failed ones in another colour."""
    top = _round_up(max((one.calls for one in series), default=0))
    step = (_SPAN - _LEFT) / max(len(series), 1)
    bars = [
        Markup(
            '<g><title>{}: {} / {}</title><rect class="calls" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
            '<rect class="errors" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/></g>'
        ).format(
            _format_time(one.began),
            one.calls,
            one.errors,
            *_find_bar(place, step, one.calls - one.errors, top, below=one.errors),
            *_find_bar(place, step, one.errors, top),
        )
        for place, one in enumerate(series)
        if one.calls
    ]
    calls, errors = sum(one.calls for one in series), sum(one.errors for one in series)
    return _frame(series, f"{title}: {calls:,} / {errors:,}", [f"{top:g}", f"{top / 2:g}"], bars)


def draw_latency(series: Sequence[RunStatistics], title: str) -> Markup:
    """Lines of the median and the 95th percentile over time; intervals without calls are left out."""
    highest = max((one.p95_ms or 0.0 for one in series), default=0.0)
    top = _round_up(highest)
    lines = [
        Markup('<path class="{}" d="{}"/>').format(
            kind, _draw_line([getattr(one, f"{kind}_ms") for one in series], top)
        )
        for kind in ("p95", "p50")
    ]
    labels = [format_duration(top / 1000), format_duration(top / 2000)]
    return _frame(series, f"{title}: {format_duration(highest / 1000)}", labels, lines)


def _find_bar(place: int, step: float, value: float, top: float, *, below: float = 0.0) -> tuple[float, ...]:
    """The x, y, width and height of a bar; `below` is what is stacked under it."""
    height = _HEIGHT - _TOP - _BOTTOM
    size = height * value / top
    return _LEFT + place * step + 0.5, _TOP + height * (1 - below / top) - size, max(step - 1.5, 1.0), size


def _draw_line(values: Sequence[float | None], top: float) -> str:
    step, height = (_SPAN - _LEFT) / max(len(values), 1), _HEIGHT - _TOP - _BOTTOM
    drawn, is_open = list[str](), False
    for place, value in enumerate(values):
        if value is None:
            is_open = False
            continue
        x, y = _LEFT + (place + 0.5) * step, _TOP + height * (1 - value / top)
        # A point without neighbours is a short line, so that it can be seen.
        drawn.append(f"L{x:.1f} {y:.1f}" if is_open else f"M{x - 3:.1f} {y:.1f}L{x + 3:.1f} {y:.1f}")
        is_open = True
    return "".join(drawn)


def _frame(series: Sequence[RunStatistics], label: str, levels: Sequence[str], content: Sequence[Markup]) -> Markup:
    height = _HEIGHT - _TOP - _BOTTOM
    grid = [
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text x="{}" y="{:.1f}" class="axis">{}</text>'
        ).format(_LEFT, _SPAN, y, y, _LEFT - 6, y + 4, level)
        for y, level in zip((_TOP, _TOP + height / 2), levels, strict=True)
    ]
    base = Markup('<line class="base" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
        _LEFT, _SPAN, _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM
    )
    marks = [(0, "start"), (len(series) // 2, "middle"), (len(series) - 1, "end")] if len(series) > 2 else []
    step = (_SPAN - _LEFT) / max(len(series), 1)
    times = [
        Markup('<text x="{:.1f}" y="{}" class="time {}">{}</text>').format(
            _LEFT + (place + 0.5) * step if anchor == "middle" else (_LEFT if anchor == "start" else _SPAN),
            _HEIGHT - 5,
            anchor,
            _format_time(series[place].began),
        )
        for place, anchor in marks
    ]
    inside = Markup("").join([*grid, *content, base, *times])
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        int(_SPAN), int(_HEIGHT), escape(label), inside
    )


def _round_up(value: float) -> float:
    """The next of 2, 4, 10, 20, 40, 100, … that is not smaller."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    return next((power * tick for tick in _TICKS if power * tick >= value), power * 20)


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%m-%d %H:%M")
