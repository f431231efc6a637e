"""A benchmark as a program: its parts one after the other, its command line, and its section of the page."""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from baseline import RUNS, promised, regressions, renewed, runs, stored, unmeasured, vanished
from charts import write_chart
from peers import peer_versions
from report import Target, promises, write_picture, write_section
from running_part import QUICK, TINY, Extent, NotMeasured, Part, Surroundings, shown, without_numbers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MEMORY = Path("/dev/shm")
_MIN_MEMORY = 4 * 1024**3
MAX_REPEATS = 2
"""How often a part with a promise that fails is measured again."""

_ABOUT = """## {title}

`benchmarks/{name}.py --write`, on {machine}, with files {place}. {how} Bounds that are not met are marked NO.
"""
TIMED = """\
Variants run in rounds, each of which starts with a different one, so that
noise affects all of them. Tables show the median and the interquartile range."""
COUNTED = "The numbers are counts, not times, and are the same in every run."


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
    hint: str = ""
    """What is said to somebody whose options are not of this program."""
    on_disk: bool = False
    """Whether its files are on a disk, because writing them durably is part of what is measured."""


async def measure(
    suite: Suite, names: Sequence[str], extent: Extent, before: Mapping[str, Sequence[Target]] | None = None
) -> dict[str, Part]:
    """The parts of these names, one after the other, each in a directory that is removed afterwards.

    A part that raises `NotMeasured` is missing with the reason, and so are its promises, which are those that it had
    `before`. Everything else that is raised is a fault of ours, and passes.
    """
    found: dict[str, Part] = {}
    for name in names:
        place = None if suite.on_disk else find_memory()
        with tempfile.TemporaryDirectory(prefix="openskills-bench-", dir=place) as scratch:
            # The user that a sandbox runs commands as has to get there.
            Path(scratch).chmod(0o755)
            try:
                found[name] = await suite.parts[name](Surroundings(Path(scratch), extent, _say))
            except NotMeasured as reason:
                _say(f"{name}: not measured: {reason}")
                found[name] = without_numbers(name, str(reason), (before or {}).get(name, ()))
    return found


def find_memory(directory: Path = MEMORY) -> Path | None:
    """A directory in memory with enough space, from which programs can be run; None without one.

    Creating files on a disk can take fifty times as long for minutes after many others were deleted there.
    """
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    has_space = found.f_bavail * found.f_frsize >= _MIN_MEMORY
    return directory if has_space and not found.f_flag & os.ST_NOEXEC and os.access(directory, os.W_OK) else None


def main(suite: Suite) -> int:
    """Measure, print, and with `--write` renew the documents.

    Exit 1 when a promise is broken, is worse than its baseline by more than the tolerance, or has vanished; the first
    two only if they are so in each of `MAX_REPEATS` repetitions, too.
    """
    options = _options(suite)
    names = options.only.split(",") if options.only else list(suite.parts)
    extent = TINY if options.tiny else QUICK if options.quick else Extent()
    is_whole = extent == Extent()
    repeats = MAX_REPEATS if is_whole and options.repeat and not options.accept else 0
    docs, began = ROOT / "docs", time.monotonic()
    measured = asyncio.run(measure_repeatedly(suite, names, extent, docs, repeats))
    seconds = time.monotonic() - began
    parts = measured.parts
    targets = [target for part in parts.values() for target in part.targets]
    if options.json:
        print(json.dumps({"promises": [target.row() for target in targets], **_numbers(parts)}, indent=2))
    else:
        print("\n\n".join([*map(shown, parts.values()), promises(targets)]))
    # What is wrong with it stands below it, in a log, too.
    sys.stdout.flush()
    if not is_whole:
        return 1 if measured.broken else 0
    passed = judged(docs, suite.name, measured, accept=options.accept, partial=bool(options.only))
    if options.write and not options.only and passed:
        write(docs, suite, parts, seconds=seconds, accept=options.accept, values=measured.values)
    return 1 if measured.broken or not passed else 0


@dataclass(frozen=True)
class Measured:
    """What the parts of a suite gave, and what failed each time it was measured.

    `values` has all values of each promise, `broken` and `worse` a sentence for each promise without its bound, and for
    each that is worse than its baseline.
    """

    parts: Mapping[str, Part]
    values: Mapping[str, Sequence[float]]
    broken: Mapping[str, str]
    worse: Mapping[str, str]


async def measure_repeatedly(suite: Suite, names: Sequence[str], extent: Extent, docs: Path, repeats: int) -> Measured:
    """Measure parts, and repeat those with a promise that fails, so that noise alone does not fail it.

    A promise fails if it fails each time. Of a part that was repeated, the run with the fewest failures is kept.
    """
    before = promised(docs, suite.name)
    first = await measure(suite, names, extent, before)
    runs_of = {name: [part] for name, part in first.items()}
    broken, worse = _failures(docs, suite.name, first)
    for _ in range(repeats):
        failing = {**broken, **worse}
        again = [name for name, part in first.items() if any(one.promise in failing for one in part.targets)]
        if not again:
            break
        for one in failing.values():
            _say(one)
        _say(f"repeating {', '.join(again)}, because one run can fail from noise")
        repeated = await measure(suite, again, extent, before)
        for name, part in repeated.items():
            runs_of[name].append(part)
        broken, worse = (
            {promise: now[promise] for promise in then if promise in now}
            for then, now in zip((broken, worse), _failures(docs, suite.name, repeated), strict=True)
        )
    values: dict[str, list[float]] = {}
    for part in chain.from_iterable(runs_of.values()):
        for one in part.targets:
            values.setdefault(one.promise, []).extend([] if one.value is None else [one.value])
    parts = {name: min(runs, key=lambda one: _count_failures(docs, suite.name, one)) for name, runs in runs_of.items()}
    return Measured(parts, values, broken, worse)


def _failures(docs: Path, name: str, parts: Mapping[str, Part]) -> tuple[dict[str, str], dict[str, str]]:
    targets = [target for part in parts.values() for target in part.targets]
    broken = {one.promise: f"BROKEN: {one.row()}" for one in targets if one.broken}
    return broken, regressions(stored(docs, name), targets, earlier=runs(docs, name))


def _count_failures(docs: Path, name: str, part: Part) -> int:
    return sum(map(len, _failures(docs, name, {"": part})))


def judged(docs: Path, name: str, measured: Measured, *, accept: bool, partial: bool = False) -> bool:
    """Whether a run may take the place of the stored one; says what is worse, vanished, or was not measured."""
    before = stored(docs, name)
    targets = [target for part in measured.parts.values() for target in part.targets]
    worse = [*measured.worse.values(), *([] if partial else vanished(before, targets))]
    for one in worse:
        _say(f"{'accepted' if accept else 'WORSE'}: {one}")
    for one in unmeasured(before, targets):
        _say(one)
    if worse and not accept:
        _say("nothing was written; run it again on an idle machine, fix it, or accept it with --accept")
    return accept or not worse


def write(
    docs: Path,
    suite: Suite,
    parts: Mapping[str, Part],
    *,
    seconds: float | None = None,
    accept: bool = False,
    values: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Renew the section, its pictures and its raw numbers below `docs`; `seconds` is how long all of it took."""
    place = "on a disk" if suite.on_disk or find_memory() is None else "in memory"
    about = _ABOUT.format(title=suite.title, name=suite.name, machine=machine(), place=place, how=suite.how)
    pieces = [about.strip()]
    bars = [bar for part in parts.values() for bar in part.bars]
    if bars:
        write_picture(docs, suite.name, suite.picture, bars)
        pieces.append(f"![{suite.picture}](benchmarks/{suite.name}.svg)")
    pieces += [shown(part, [write_chart(docs, suite.name, one) for one in part.charts]) for part in parts.values()]
    targets = [target for part in parts.values() for target in part.targets]
    numbers = _numbers(parts)
    pieces.append(write_numbers(docs, suite.name, targets, numbers, seconds=seconds, accept=accept, values=values))
    write_section(docs, suite.name, "\n\n".join(pieces))


def write_numbers(
    docs: Path,
    name: str,
    targets: Sequence[Target],
    numbers: Mapping[str, object],
    *,
    seconds: float | None = None,
    accept: bool = False,
    values: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """Write what was measured to `benchmarks/<name>.json` below `docs`; the line of the page that links it.

    Values are those of this run; the baseline beside each is the better one of stored and new, unless `accept`.
    `values` has all values of a promise whose part was repeated, so that its spread is known.
    """
    kept = renewed(stored(docs, name), targets, accept=accept)
    earlier = runs(docs, name)
    new = {target.promise: [] if target.value is None else [target.value] for target in targets} | dict(values or {})
    rows = [
        {
            **asdict(target),
            "baseline": kept[target.promise],
            "runs": _renew_runs(earlier.get(target.promise, []), new[target.promise]),
        }
        for target in targets
    ]
    about = {"machine": machine(), "versions": versions(), "seconds": seconds, "promises": rows}
    (docs / "benchmarks").mkdir(exist_ok=True)
    text = json.dumps({**about, "parts": numbers}, indent=1, default=str)
    (docs / "benchmarks" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return f"Raw numbers: [{name}.json](benchmarks/{name}.json)."


def _renew_runs(earlier: Sequence[float], values: Sequence[float]) -> list[float]:
    """The last values with these; the same number written twice is one run."""
    found = list(earlier)
    for value in values:
        if found[-1:] != [value]:
            found.append(value)
    return found[-RUNS:]


def versions() -> dict[str, str]:
    """What was compared: ours, and the others as they are installed, or why they are not."""
    return {"openskills": version("openskill-runtime"), **peer_versions()}


def _numbers(parts: Mapping[str, Part]) -> dict[str, object]:
    return {
        name: {
            "promises": [target.promise for target in part.targets],
            "numbers": part.raw,
            "missing": list(part.missing),
        }
        for name, part in parts.items()
    }


def machine() -> str:
    """What the numbers were taken on, as far as it matters."""
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{os.cpu_count()} processors, {system}, Python {platform.python_version()}, as {user}"


def _options(suite: Suite) -> argparse.Namespace:
    # As it was written: a name that is broken at its dash is not found any more.
    parser = argparse.ArgumentParser(
        description=suite.about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", help=f"some of {','.join(suite.parts)}; nothing is written then")
    parser.add_argument("--quick", action="store_true", help="few repeats; nothing is written")
    parser.add_argument("--tiny", action="store_true", help="check that it works; the numbers are meaningless")
    parser.add_argument("--write", action="store_true", help="update the section of docs/benchmarks.md and its picture")
    parser.add_argument("--json", action="store_true", help="print the raw numbers instead of tables")
    parser.add_argument("--no-repeat", dest="repeat", action="store_false", help="do not repeat parts that fail")
    parser.add_argument("--accept", action="store_true", help="accept worse or renamed results as the new baseline")
    options, others = parser.parse_known_args()
    if others:
        parser.error(f"unknown option {' '.join(others)}" + (f"; {suite.hint}" if suite.hint else ""))
    unknown = [name for name in (options.only or "").split(",") if name and name not in suite.parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; use {', '.join(suite.parts)}")
    return options


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
