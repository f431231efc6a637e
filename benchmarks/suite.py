"""A benchmark as a program: its parts one after the other, its command line, and its section of the page."""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from report import promises, write_picture, write_section
from running_part import QUICK, TINY, Extent, Part, Surroundings, shown

ROOT = Path(__file__).resolve().parents[1]

_ABOUT = """## {title}

`benchmarks/{name}.py --write`, on {machine}. All ways of doing a thing are taken in turns, each round beginning with
another one; what counts is the median, and the quartiles say how far it can be trusted. A bound that is missed says NO.
"""


@dataclass(frozen=True)
class Suite:
    """`benchmarks/<name>.py`. `picture` is the title of the picture that the bars of all parts make."""

    name: str
    title: str
    about: str | None
    picture: str
    parts: Mapping[str, Callable[[Surroundings], Awaitable[Part]]]


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
    """Measure, print, and with `--write` renew the documents. Exit 1 when a promise is broken."""
    options = _options(suite)
    names = options.only.split(",") if options.only else list(suite.parts)
    extent = TINY if options.tiny else QUICK if options.quick else Extent()
    parts = asyncio.run(measure(suite, names, extent))
    targets = [target for part in parts.values() for target in part.targets]
    if options.json:
        raw = {name: {"numbers": part.raw, "missing": list(part.missing)} for name, part in parts.items()}
        print(json.dumps({"promises": [target.row() for target in targets], **raw}, indent=2))
    else:
        print("\n\n".join([*map(shown, parts.values()), promises(targets)]))
    if options.write and extent == Extent() and not options.only:
        write(ROOT / "docs", suite, list(parts.values()))
    return 1 if any(target.broken for target in targets) else 0


def write(docs: Path, suite: Suite, parts: Sequence[Part]) -> None:
    """Renew the section and its picture below `docs`."""
    pieces = [_ABOUT.format(title=suite.title, name=suite.name, machine=machine()).strip()]
    bars = [bar for part in parts for bar in part.bars]
    if bars:
        write_picture(docs, suite.name, suite.picture, bars)
        pieces.append(f"![{suite.picture}](benchmarks/{suite.name}.svg)")
    write_section(docs, suite.name, "\n\n".join([*pieces, *map(shown, parts)]))


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
    options = parser.parse_args()
    unknown = [name for name in (options.only or "").split(",") if name and name not in suite.parts]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(suite.parts)}")
    return options


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
