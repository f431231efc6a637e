"""How quickly commands are run, as ratios measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/running.svg with `--write`.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import running_collecting
import running_commands
import running_growth
import running_held
import running_staging
import running_warm
from report import promises
from running_part import QUICK, TINY, Extent, Part, Surroundings, shown, write_running

ROOT = Path(__file__).resolve().parents[1]

PARTS: dict[str, Callable[[Surroundings], Awaitable[Part]]] = {
    "commands": running_commands.measure,
    "staging": running_staging.measure,
    "warm": running_warm.measure,
    "held": running_held.measure,
    "collecting": running_collecting.measure,
    "growth": running_growth.measure,
}


async def measure(names: list[str], extent: Extent) -> dict[str, Part]:
    """The parts of these names, one after the other, each in a directory that is removed afterwards."""
    found: dict[str, Part] = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="openskills-bench-") as scratch:
            found[name] = await PARTS[name](Surroundings(Path(scratch), extent, _say))
    return found


def machine() -> str:
    """What the numbers were taken on, as far as it matters."""
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{os.cpu_count()} processors, {system}, Python {platform.python_version()}, as {user}"


def main() -> int:
    """Measure, print, and with `--write` renew the documents. Exit 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"some of {','.join(PARTS)}; nothing is written then")
    parser.add_argument("--quick", action="store_true", help="a rough look: few repeats, nothing is written")
    parser.add_argument("--tiny", action="store_true", help="only see whether it works; the numbers mean nothing")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/benchmarks.md and its picture")
    parser.add_argument("--json", action="store_true", help="print the raw numbers instead of tables")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(PARTS)}")
    extent = TINY if options.tiny else QUICK if options.quick else Extent()
    parts = asyncio.run(measure(names, extent))
    targets = [target for part in parts.values() for target in part.targets]
    if options.json:
        raw = {name: {"numbers": part.raw, "missing": list(part.missing)} for name, part in parts.items()}
        print(json.dumps({"promises": [target.row() for target in targets], **raw}, indent=2))
    else:
        print("\n\n".join([*map(shown, parts.values()), promises(targets)]))
    if options.write and extent == Extent() and not options.only:
        write_running(ROOT / "docs", machine(), list(parts.values()))
    return 1 if any(target.broken for target in targets) else 0


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
