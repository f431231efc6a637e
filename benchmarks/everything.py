"""All benchmarks, one after the other, with a bar: `make bench`. Other options than these go to each of them.

What they print goes to a log each, below `.bench/logs`. Exit 1 when one fails: a promise is broken, something is worse
than its baseline by more than 15 percent, or it takes longer than the limit; the others still run. Parts that fail
are repeated, so that noise alone does not fail them, unless `--no-repeat` is given.
"""

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOGS = HERE.parent / ".bench" / "logs"
NAMES = (
    *("running", "tools", "context", "host", "mcp", "langchain", "discovery"),
    *("token_report", "prompt_cache", "selection", "scale", "safety", "console", "scale_out"),
)
LIMIT = 900.0
"""Seconds that one may take, with what it repeats; all together take about 1,600."""
GRACE = 20.0
"""Seconds to clean up for one that has to end."""
TAIL = 40
"""Lines of a log: enough for the table of promises and what is said about them."""

Told = Callable[[int, str], None]
"""Is told how many are done, and which one comes now."""


def main() -> int:
    """Run them all."""
    options, passed_on = _options()
    failed: dict[str, str] = {}
    taken: dict[str, float] = {}
    with _progress(options.suites) as tell:
        for number, name in enumerate(options.suites):
            tell(number, name)
            began, log = time.monotonic(), LOGS / f"{name}.log"
            argv = [sys.executable, str(HERE / f"{name}.py"), *passed_on]
            reason = ended(argv, log, options.limit)
            taken[name] = time.monotonic() - began
            if reason:
                failed[name] = reason
                _say(f"{name}: {reason}; the end of {_shown(log)}:\n{tail(log)}")
        tell(len(options.suites), "done")
    each = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in taken.items())
    _say(f"{sum(taken.values()) / 60:.1f} minutes in total: {each}")
    _say(f"logs are in {_shown(LOGS)}")
    for name, reason in failed.items():
        _say(f"FAILED: {name}: {reason}")
    return 1 if failed else 0


def ended(argv: Sequence[str], log: Path, limit: float) -> str:
    """Run a program to its end, at most so many seconds, with its output in a log: why it failed, or nothing.

    When its time is over, or this program is interrupted, it ends with everything in its process group.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    in_time = False
    try:
        in_time = _over(process.pid, limit)
    finally:
        _end(process)
    if not in_time:
        return f"timed out after {limit:.0f} seconds"
    return f"exit status {process.returncode}" if process.returncode else ""


def tail(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(f"    {line}" for line in log.read_text("utf-8", "replace").splitlines()[-TAIL:])


def _end(process: "subprocess.Popen[bytes]") -> None:
    if not _over(process.pid, 0):
        # As if somebody had pressed Ctrl-C: it closes what it has opened, which may be in groups of their own.
        os.killpg(process.pid, signal.SIGINT)
        _over(process.pid, GRACE)
    # And what it left behind. Nobody has waited for it yet, so the number of the group is still its own.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _over(pid: int, seconds: float) -> bool:
    """Whether a child ends within this time; it is not waited for, so that its number stays taken."""
    handle = os.pidfd_open(pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


@contextmanager
def _progress(names: Sequence[str]) -> Generator[Told]:
    """One bar at a terminal; elsewhere a line for each."""
    began = time.monotonic()
    if not sys.stderr.isatty():
        yield lambda done, name: _say(f"[{done} of {len(names)}, {(time.monotonic() - began) / 60:.1f} min] {name}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = TextColumn("{task.fields[left]}")
    # What is printed meanwhile stands above the bar.
    with Progress(*columns, left, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(names), left="")

        def tell(done: int, name: str) -> None:
            to_come = ", ".join(names[done + 1 :])
            bar.update(task, completed=done, description=name, left=to_come and f"then {to_come}", refresh=True)

        yield tell


def _options() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that each may take (%(default)s)")
    parser.add_argument("--suites", type=_suites, default=NAMES, help=f"some of {','.join(NAMES)}")
    return parser.parse_known_args()


def _suites(text: str) -> tuple[str, ...]:
    names = tuple(name.replace("-", "_") for name in text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown suite {unknown[0]!r}; use {', '.join(NAMES)}")
    return names


def _shown(path: Path) -> str:
    return str(path.relative_to(HERE.parent))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(130)
