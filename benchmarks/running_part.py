"""One part of a benchmark: what was promised, what was measured, and how it reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from charts import Chart
from reasons import one_line
from report import Bar, Target, promises, time_text
from sampling import Series


class NotMeasured(Exception):
    """Something that this machine lacks; the message is the reason."""


@dataclass(frozen=True)
class Extent:
    """How much is measured: `few` times where each takes long, `many` where it does not."""

    few: int = 30
    many: int = 200
    held: int = 500
    old: int = 1000
    skill_files: tuple[int, ...] = (20, 200, 2000)
    skills: tuple[int, ...] = (100, 1000, 5000)


QUICK = Extent(few=4, many=15, held=50, old=100, skill_files=(20, 200), skills=(100, 1000))
TINY = Extent(few=1, many=2, held=3, old=4, skill_files=(3, 6), skills=(12, 24))


@dataclass(frozen=True)
class Surroundings:
    """Where a part works: a directory of its own, how much it measures, and whom it tells what it does."""

    scratch: Path
    extent: Extent
    say: Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """What came out. `missing` names what could not be measured, and why; `raw` is for programs.

    The bars of all parts make one picture of the suite; each of the `charts` is a picture of its own.
    """

    title: str
    about: str
    targets: Sequence[Target]
    table: str
    bars: Sequence[Bar] = ()
    missing: Sequence[str] = ()
    raw: Mapping[str, object] = field(default_factory=dict[str, object])
    charts: Sequence[Chart] = ()


def series_table(series: Mapping[str, Series], *, base: str | None = None) -> str:
    """Medians with their quartiles, and how often each was taken; with `base`, how each compares with that one."""
    compared = base is not None and base in series
    head = ["", "median", "interquartile range"] + ([f"vs. {base}", "difference"] if compared else [])
    rows = [_row(head), _row(["---", "---:", "---:"] + (["---:", "---:"] if compared else []))]
    for name, one in series.items():
        low, high = one.quartiles
        cells = [name, time_text(one.median), f"{time_text(low)} to {time_text(high)}"]
        if base is not None and compared:
            reference = series[base].median
            cells += [f"{one.median / reference:.2f}x", f"{(one.median - reference) * 1000:+.2f} ms"]
        rows.append(_row(cells))
    return "\n\n".join(["\n".join(rows), repeats_text([len(one.seconds) for one in series.values()])])


def repeats_text(repeats: Sequence[int]) -> str:
    """How often things were measured, as a sentence."""
    if not repeats:
        return "Nothing was measured."
    least, most = min(repeats), max(repeats)
    if least == most == 1:
        return "One run each."
    return f"{most:,} runs each." if least == most else f"{least:,} to {most:,} runs each."


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any table; the first column is text, the others are numbers."""
    marks = ["---", *("---:" for _ in head[1:])]
    return "\n".join(_row(cells) for cells in (head, marks, *rows))


def raw_series(series: Mapping[str, Series]) -> dict[str, object]:
    """The medians and quartiles as numbers, and of how many times they are."""
    return {
        name: {
            "median": one.median,
            "quartiles": one.quartiles,
            "p95": one.at(0.95),
            "repeats": len(one.seconds),
        }
        for name, one in series.items()
    }


def shown(part: Part, pictures: Sequence[str] = ()) -> str:
    """A part as text of the page, with the lines that show its pictures."""
    pieces = [f"### {part.title}", part.about.strip(), promises(part.targets) if part.targets else "", *pictures]
    pieces.append(part.table)
    pieces += [f"Not measured: {one_line(why).rstrip('.')}." for why in part.missing]
    return "\n\n".join(piece for piece in pieces if piece)


def without_numbers(name: str, reason: str, promised: Sequence[Target]) -> Part:
    """A part that could not be measured at all; what it has promised before is answered with the reason."""
    targets = [replace(one, value=None, why=one_line(reason)) for one in promised]
    return Part(name.replace("_", " ").capitalize(), "", targets, "", missing=[reason])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
