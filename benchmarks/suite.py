"""A benchmark as a program: its parts one after the other, its command line, and its section of the page."""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from baseline import regressions, stored
from charts import write_chart
from report import Target, promises, write_picture, write_section
from running_part import QUICK, TINY, Extent, Part, Surroundings, shown

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

_ABOUT = """## {title}

`benchmarks/{name}.py --write`, on {machine}. {how} A bound that is missed says NO.
"""
TIMED = """\
All ways of doing a thing are taken in turns, each round beginning with
another one; what counts is the median, and the quartiles say how far it can be trusted."""
COUNTED = "Nothing here depends on time: the numbers are counted, and are the same in every run."


@dataclass(frozen=True)
class Suite:
    """`benchmarks/<name>.py`. `picture` is the title of the picture that the bars of all parts make."""

    name: str
    title: str
    about: str | None
    picture: str
    parts: Mapping[str, Callable[[Surroundings], Awaitable[Part]]]
    how: str = TIMED
    """How its numbers were obtained."""


async def measure(suite: Suite, names: Sequence[str], extent: Extent) -> dict[str, Part]:
    """The parts of these names, one after the other, each in a directory that is removed afterwards."""
    found: dict[str, Part] = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="openskills-bench-") as scratch:
            # The user that a sandbox runs commands as has to get there.
            Path(scratch).chmod(0o755)
            found[name] = await suite.parts[name](Surroundings(Path(scratch), extent, _say))
    return found


def main(suite: Suite) -> int:
    """Measure, print, and with `--write` renew the documents.

    Exit 1 when a promise is broken, or a ratio is worse than the stored one by more than the tolerance.
    """
    options = _options(suite)
    names = options.only.split(",") if options.only else list(suite.parts)
    extent = TINY if options.tiny else QUICK if options.quick else Extent()
    parts = asyncio.run(measure(suite, names, extent))
    targets = [target for part in parts.values() for target in part.targets]
    if options.json:
        print(json.dumps({"promises": [target.row() for target in targets], **_numbers(parts)}, indent=2))
    else:
        print("\n\n".join([*map(shown, parts.values()), promises(targets)]))
    worse: list[str] = []
    if extent == Extent():
        worse = regressions(stored(ROOT / "docs", suite.name), targets)
        _complain(worse, accepted=options.accept)
        if options.write and not options.only and (options.accept or not worse):
            write(ROOT / "docs", suite, parts)
    return 1 if any(target.broken for target in targets) or (worse and not options.accept) else 0


def write(docs: Path, suite: Suite, parts: Mapping[str, Part]) -> None:
    """Renew the section, its pictures and its raw numbers below `docs`."""
    pieces = [_ABOUT.format(title=suite.title, name=suite.name, machine=machine(), how=suite.how).strip()]
    bars = [bar for part in parts.values() for bar in part.bars]
    if bars:
        write_picture(docs, suite.name, suite.picture, bars)
        pieces.append(f"![{suite.picture}](benchmarks/{suite.name}.svg)")
    pieces += [shown(part, [write_chart(docs, suite.name, one) for one in part.charts]) for part in parts.values()]
    pieces.append(write_raw(docs, suite.name, [target for part in parts.values() for target in part.targets], parts))
    write_section(docs, suite.name, "\n\n".join(pieces))


def write_raw(docs: Path, name: str, targets: Sequence[Target], parts: Mapping[str, Part]) -> str:
    """Write what was measured to `benchmarks/<name>.json` below `docs`; the line of the page that links it."""
    return write_numbers(docs, name, targets, _numbers(parts))


def write_numbers(docs: Path, name: str, targets: Sequence[Target], numbers: Mapping[str, object]) -> str:
    """The same for numbers that come from anywhere."""
    about = {"machine": machine(), "versions": versions(), "promises": [asdict(target) for target in targets]}
    (docs / "benchmarks").mkdir(exist_ok=True)
    text = json.dumps({**about, "parts": numbers}, indent=1, default=str)
    (docs / "benchmarks" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return f"Raw numbers: [{name}.json](benchmarks/{name}.json)."


def versions() -> dict[str, str]:
    """What was compared: ours, and the peers as they are pinned."""
    pins = [line for file in sorted(HERE.glob("*requirements.txt")) for line in file.read_text().split()]
    return {"openskills": version("openskills"), **dict(pin.split("==") for pin in pins if "==" in pin)}


def _numbers(parts: Mapping[str, Part]) -> dict[str, object]:
    return {name: {"numbers": part.raw, "missing": list(part.missing)} for name, part in parts.items()}


def machine() -> str:
    """What the numbers were taken on, as far as it matters."""
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{os.cpu_count()} processors, {system}, Python {platform.python_version()}, as {user}"


def _options(suite: Suite) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=suite.about)
    parser.add_argument("--only", help=f"some of {','.join(suite.parts)}; nothing is written then")
    parser.add_argument("--quick", action="store_true", help="a rough look: few repeats, nothing is written")
    parser.add_argument("--tiny", action="store_true", help="only see whether it works; the numbers mean nothing")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/benchmarks.md and its picture")
    parser.add_argument("--json", action="store_true", help="print the raw numbers instead of tables")
    parser.add_argument("--accept", action="store_true", help="write ratios that are worse than the stored ones, too")
    options = parser.parse_args()
    unknown = [name for name in (options.only or "").split(",") if name and name not in suite.parts]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(suite.parts)}")
    return options


def _complain(worse: Sequence[str], *, accepted: bool) -> None:
    for one in worse:
        _say(f"{'accepted' if accepted else 'WORSE'}: {one}")
    if worse and not accepted:
        _say("nothing is written; run it again on an idle machine, mend it, or accept it with --accept")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
