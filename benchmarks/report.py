"""Results as a page and as pictures, drawn without any library. The same for all benchmarks."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

_HEAD = """# Benchmarks

All numbers are from one run of the scripts in `benchmarks/`; `make bench` repeats it. Compare ratios within a run:
absolute times depend on the machine.
"""
_SECTIONS = (
    "discovery",
    "running",
    "context",
    "tools",
    "token_report",
    "prompt_cache",
    "host",
    "mcp",
    "langchain",
    "selection",
    "scale",
    "safety",
    "console",
    "scale_out",
)


@dataclass(frozen=True)
class Target:
    """A promise: `value` must be at least (or at most) `bound`. Without a value, `why` says why there is none."""

    promise: str
    value: float | None
    bound: float
    at_least: bool = True
    unit: str = "x"
    digits: int = 1
    why: str = ""

    @property
    def broken(self) -> bool:
        """Whether it was measured, and is not kept."""
        if self.value is None:
            return False
        return self.value < self.bound if self.at_least else self.value > self.bound

    def row(self) -> str:
        """One row of the table of promises."""
        bound = f"{'≥' if self.at_least else '≤'} {self._with_unit(f'{self.bound:g}')}"
        if self.value is None:
            why = " ".join(self.why.split()).replace("|", "/")
            return f"| {self.promise} | {bound} | not measured: {why} | |"
        value = self._with_unit(f"{self.value:.{self.digits}f}")
        return f"| {self.promise} | {bound} | **{value}** | {'NO' if self.broken else 'yes'} |"

    def text(self, number: float) -> str:
        """A number in its unit, with a digit more than the page has."""
        return self._with_unit(f"{number:.{self.digits + 1}f}")

    def _with_unit(self, number: str) -> str:
        return f"{number}x" if self.unit == "x" else f"{number} {self.unit}"


@dataclass(frozen=True)
class Bar:
    """One bar of a picture."""

    label: str
    seconds: float
    ours: bool = True
    text: str = ""
    """The unit if the value is not a time; then `seconds` is any number."""


_STYLE = """<style>
text{fill:#57606a}.title{fill:#1f2328;font-size:16px;font-weight:bold}.ours{fill:#1f7a4d}.theirs{fill:#8c959f}
@media (prefers-color-scheme:dark){text{fill:#9198a1}.title{fill:#e6edf3}.ours{fill:#3fb977}.theirs{fill:#6e7681}}
</style>"""


def promises(targets: Sequence[Target]) -> str:
    """The table of promises."""
    return "\n".join(["| target | bound | measured | met |", "|---|---|---|---|", *(one.row() for one in targets)])


def write_section(docs: Path, name: str, text: str) -> None:
    """Renew one benchmark's section of `benchmarks.md` below `docs`, and leave the others as they are."""
    if name not in _SECTIONS:
        raise ValueError(f"unknown section {name!r}; add it to _SECTIONS")
    path = docs / "benchmarks.md"
    sections = _sections(path.read_text("utf-8")) if path.exists() else {}
    sections[name] = text.strip()
    parts = [f"<!-- {known} -->\n\n{sections[known]}\n" for known in _SECTIONS if known in sections]
    known = [name for name in _SECTIONS if name in sections]
    path.write_text("\n".join([_HEAD, *_durations(docs, known), *parts]), encoding="utf-8")


def write_picture(docs: Path, name: str, title: str, bars: Sequence[Bar]) -> None:
    """Renew a picture below `docs`."""
    (docs / "benchmarks").mkdir(exist_ok=True)
    (docs / "benchmarks" / f"{name}.svg").write_text(picture(title, bars), encoding="utf-8")


def picture(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars with the time, or what its text says, beside each; readable in light and dark."""
    height, left, width = 34, 260, 420
    longest = max(bar.seconds for bar in bars) or 1.0
    size = f'width="{left + width + 110}" height="{height * len(bars) + 50}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">',
        _STYLE,
        f'<text class="title" x="10" y="24">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        y = 44 + number * height
        length = max(2.0, bar.seconds / longest * width)
        whose = "ours" if bar.ours else "theirs"
        shown = bar.text or time_text(bar.seconds)
        lines.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{escape(bar.label)}</text>')
        lines.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="22" rx="3" class="{whose}"/>')
        lines.append(f'<text x="{left + length + 8:.1f}" y="{y + 16}">{escape(shown)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def time_text(seconds: float) -> str:
    """A time with as many digits as mean something."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.0095 else f"{seconds * 1000:.2f} ms"


def _durations(docs: Path, names: Sequence[str]) -> list[str]:
    """How long the stored run of each benchmark took, and all of them together; nothing when none says so."""
    taken = {name: seconds for name in names if (seconds := _seconds(docs, name)) is not None}
    if not taken:
        return []
    each = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in taken.items())
    silent = [name for name in names if name not in taken]
    without = f" (without {', '.join(silent)})" if silent else ""
    return [f"Duration: {each}; total {sum(taken.values()) / 60:.1f} minutes{without}.\n"]


def _seconds(docs: Path, name: str) -> float | None:
    path = docs / "benchmarks" / f"{name}.json"
    found: Mapping[str, float | None] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found.get("seconds")


def _sections(page: str) -> dict[str, str]:
    found = re.split(r"^<!-- (\w+) -->$", page, flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(found[1::2], found[2::2], strict=True)}
