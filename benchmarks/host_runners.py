"""How many calls of a small script the runners of the host serve, without HTTP around them: calls per second, in turns.

    .venv/bin/python benchmarks/host_runners.py [ROUNDS]

"asyncio" is what a host does that starts an interpreter for each call itself. All ways are measured in each round, one
after the other, so that neighbours on the machine disturb all of them alike; the ratios are of the best rounds.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from openskills.host.model import Call, Registration, SkillRunner, SkillStartMethod
from openskills.host.runners.table import Runners
from openskills.settings import Settings

CONCURRENCY = 8
SECONDS = 1.0
ENOUGH = 60.0
NAIVE = "asyncio"
ECHO = """\
import json
import sys

request = json.load(sys.stdin)
print(json.dumps({"success": True, "data": {"echoed": request["input"]["text"]}, "error": None}))
"""
INPUT = {"text": "hello"}
WAYS = [(executor, warm) for executor in ("local", "sandbox") for warm in SkillStartMethod]

Once = Callable[[], Awaitable[None]]


async def rate(once: Once) -> float:
    """Calls per second, `CONCURRENCY` at a time."""
    done, until = 0, time.perf_counter() + SECONDS

    async def worker() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await once()
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return done / (time.perf_counter() - began)


def naive(entry: Path) -> Once:
    """An interpreter for each call, with the tools of the standard library; twice as many at a time as processors."""
    turn = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    request = json.dumps({"input": INPUT}).encode()
    pipe = asyncio.subprocess.PIPE

    async def once() -> None:
        async with turn:
            child = await asyncio.create_subprocess_exec(
                sys.executable, str(entry), stdin=pipe, stdout=pipe, stderr=pipe
            )
            stdout, _ = await child.communicate(request)
        assert json.loads(stdout)["data"] == {"echoed": "hello"}

    return once


def through(runner: SkillRunner, skill: Registration) -> Once:
    """One call through a runner."""

    async def once() -> None:
        call = Call(INPUT, "trace", asyncio.get_running_loop().time() + ENOUGH)
        outcome = await runner.invoke(skill, call)
        assert outcome.data == {"echoed": "hello"}, outcome

    return once


async def measure(directory: Path, rounds: int) -> dict[str, float]:
    """The best round of every way."""
    entry = directory / "echo.py"
    entry.write_text(ECHO, "utf-8")
    settings = Settings.from_env({"HOME": str(directory / "home"), "PATH": os.environ["PATH"]})
    runners = Runners(settings, directory=directory)
    ways: dict[str, Once] = {NAIVE: naive(entry)}
    for executor, warm in WAYS:
        skill = Registration(f"{executor}-{warm}", "cli:python", str(entry), "1", executor=executor, warm=warm)
        ways[f"{executor} {warm}"] = through(runners.get_runner(skill), skill)
    best = dict.fromkeys(ways, 0.0)
    try:
        for _ in range(rounds):
            for name, once in ways.items():
                best[name] = max(best[name], await rate(once))
    finally:
        await runners.close()
    return best


def main() -> None:
    """Measure, and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        best = asyncio.run(measure(Path(scratch), rounds))
    sys.stdout.write(f"{'way':16} {'calls/s':>8} {'x asyncio':>10} {'x spawn':>8}\n")
    for name, found in best.items():
        spawn = best[f"{name.partition(' ')[0]} spawn"] if " " in name else best[NAIVE]
        sys.stdout.write(f"{name:16} {found:8.0f} {found / best[NAIVE]:10.1f} {found / spawn:8.1f}\n")


if __name__ == "__main__":
    main()
