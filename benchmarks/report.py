"""The results as a page and a picture, drawn without any library."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_PAGE = """# Benchmarks

Every number here comes from one run of a script in `benchmarks/`; run it yourself with `make bench`. Only ratios of one
run mean anything: absolute times depend on the machine. Each measurement is a process of its own, rounds are
interleaved, and the best of the rounds counts for everybody.

## Finding skills

`benchmarks/discovery.py --write`, {count:,} synthetic skills with the sizes of real ones (`benchmarks/corpus.py`):
front matter of 300 bytes in the median, bodies of 1.6 KB in the median and up to 73 KB. All are valid, so that every
library does all of its work. The clock starts after the imports; the first discovery neither finds nor writes an
index. In the row on JSON-style metadata two skills of five have nested metadata as one big project writes it;
skills-ref refuses such files unread.

| promise | bound | measured | kept |
|---|---|---|---|
{rows}

![Time to find {count:,} skills](benchmarks/discovery.svg)

| | time | against OpenSkill's first discovery |
|---|---:|---:|
{bars}

Front matter with 4,000 keys: OpenSkill {our_many:.0f} ms, skills-ref {their_many:,.0f} ms (with 80 keys:
{our_few:.1f} ms and {their_few:.1f} ms).

What is compared: deepagents 0.7.32 runs `SkillsMiddleware.before_agent` on a `FilesystemBackend`, which is what it does
before the first model call; skills-ref 0.1.1 runs `validate` on each folder, as its command line does.
OpenSkill runs `Catalog.from_paths`, which also checks every skill against the specification, reports what it finds, and
resolves
precedence and requirements. deepagents looks one level deep and reports nothing.
"""


@dataclass(frozen=True)
class Bar:
    """One bar of the picture."""

    label: str
    seconds: float
    ours: bool = True


def write_report(
    docs: Path, count: int, rows: list[str], bars: list[Bar], keys: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    """Renew `benchmarks.md` and its picture below `docs`."""
    (docs / "benchmarks").mkdir(exist_ok=True)
    (docs / "benchmarks" / "discovery.svg").write_text(
        picture(f"Time to find {count:,} skills", bars), encoding="utf-8"
    )
    first = next(bar.seconds for bar in bars if bar.label.endswith("first discovery"))
    table = "\n".join(f"| {bar.label} | {_time(bar.seconds)} | {bar.seconds / first:.2f}x |" for bar in bars)
    ours, theirs = keys
    page = _PAGE.format(
        count=count,
        rows="\n".join(rows),
        bars=table,
        our_many=ours["many"] * 1000,
        their_many=theirs["many"] * 1000,
        our_few=ours["few"] * 1000,
        their_few=theirs["few"] * 1000,
    )
    (docs / "benchmarks.md").write_text(page, encoding="utf-8")


def picture(title: str, bars: list[Bar]) -> str:
    """Horizontal bars, longest first in width, with the time beside each; readable in light and dark."""
    height, left, width = 34, 260, 420
    longest = max(bar.seconds for bar in bars)
    size = f'width="{left + width + 110}" height="{height * len(bars) + 50}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14" fill="#57606a">',
        f'<text x="10" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        y = 44 + number * height
        length = max(2.0, bar.seconds / longest * width)
        colour = "#1f7a4d" if bar.ours else "#8c959f"
        lines.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{escape(bar.label)}</text>')
        lines.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="22" rx="3" fill="{colour}"/>')
        lines.append(f'<text x="{left + length + 8:.1f}" y="{y + 16}">{_time(bar.seconds)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
