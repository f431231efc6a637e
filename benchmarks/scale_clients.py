"""What more and more clients of the HTTP host cost: how long a call takes, and how many there are a second."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from report import Target
from running_part import Part, Surroundings, plain_table
from sampling import Series
from scale_curve import FLAT, LINEAR, Curve, chart_of, curves_table, raw_curves, targets_of
from scale_load import Load, loaded, tool
from scale_sizes import Sizes, sizes_of

FUNCTION, SCRIPT = "function", "script"
"""The skills that are called."""

_MODULE = "scale_echo"
_CALLED = "async def echo(given):\n    return {'echoed': given['text']}\n"
_ECHO = "def echo(text: str) -> dict[str, str]:\n    return {'echoed': text}\n"
_RUN = f"from openskills.skillkit import main\n\n\n{_ECHO}\n\nmain(echo, version='1')\n"
_MANIFEST = "id: {id}\ntype: {type}\nentry: {entry}\nversion: '1'\ndescription: Says it back.\n"
_PRELOAD = "runtime: python\npreload: [openskills.skillkit]\n"

_ABOUT = f"""
`openskills serve` with one worker in a separate process; {tool()} calls it over persistent connections, each client
again as soon as it has an answer. A "{FUNCTION}" is a skill in the host's own process, which measures the host; a
"{SCRIPT}" gets a new process for each call, forked from a warm interpreter, with the executor `local`. When the
processors are busy, twice as many clients wait twice as long, which is linear. "Time for each call" is the measured
time divided by the number of calls, and must not grow: more clients must not make the host slower.
"""


async def measure(at: Surroundings) -> Part:
    """Both skills with all numbers of clients, in turns."""
    sizes = sizes_of(at.extent)
    _write_skills(at.scratch)
    found: dict[str, dict[int, list[Load]]] = {
        name: {size: [] for size in sizes.clients} for name in (FUNCTION, SCRIPT)
    }
    async with _host(at.scratch) as address:
        urls = {name: f"{address}/skills/{name}:invoke" for name in found}
        for url in urls.values():
            await loaded(url, sizes.clients[-1], sizes.load_seconds, at.scratch)
        for size in sizes.clients * (2 if sizes == Sizes() else 1):
            at.say(f"clients: {size}")
            for name, url in urls.items():
                found[name][size].append(await loaded(url, size, sizes.load_seconds, at.scratch))
    return _part(found)


def _part(found: Mapping[str, Mapping[int, list[Load]]]) -> Part:
    waits = [Curve(f"a call, {name}", _series(loads, "median"), LINEAR) for name, loads in found.items()]
    worst = [Curve(f"p99, {name}", _series(loads, "p99"), LINEAR) for name, loads in found.items()]
    shares = [Curve(f"time for each call, {name}", _series(loads, "each"), FLAT) for name, loads in found.items()]
    failed = sum(load.failed for loads in found.values() for some in loads.values() for load in some)
    curves = [*waits, *worst, *shares]
    return Part(
        "Clients",
        _ABOUT,
        [
            Target("failed calls", float(failed), 0, at_least=False, unit="calls", digits=0),
            *targets_of([*waits, *shares], "clients"),
        ],
        f"{curves_table(curves, 'clients')}\n\n{_rates(found)}",
        raw={**raw_curves(curves), "failed": failed},
        charts=[
            chart_of("clients", "Latency of a call", "clients", "seconds", [*waits, *worst]),
            chart_of("host-load", "Time of the host for each call", "clients", "seconds", shares),
        ],
    )


def _series(loads: Mapping[int, list[Load]], what: str) -> dict[int, Series]:
    return {size: Series(tuple(getattr(load, what) for load in some)) for size, some in loads.items()}


def _rates(found: Mapping[str, Mapping[int, list[Load]]]) -> str:
    sizes = sorted(next(iter(found.values())))
    rows = [
        [name, *(f"{1 / _series(loads, 'each')[size].median:,.0f}" for size in sizes)] for name, loads in found.items()
    ]
    return plain_table(["calls per second", *map(str, sizes)], rows)


def _write_skills(scratch: Path) -> None:
    folder = scratch / "skills_cli"
    folder.mkdir()
    (scratch / f"{_MODULE}.py").write_text(_CALLED, "utf-8")
    (folder / f"{SCRIPT}.py").write_text(_RUN, "utf-8")
    manifest = _MANIFEST.format(id=FUNCTION, type="inproc", entry=f"{_MODULE}:echo")
    (folder / f"{FUNCTION}.yaml").write_text(manifest, "utf-8")
    manifest = _MANIFEST.format(id=SCRIPT, type="cli", entry=f"./skills_cli/{SCRIPT}.py")
    (folder / f"{SCRIPT}.yaml").write_text(manifest + _PRELOAD, "utf-8")


@asynccontextmanager
async def _host(scratch: Path) -> AsyncGenerator[str]:
    """The address of a host that serves until the block ends."""
    environment = {
        "HOME": str(scratch),
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(scratch),
        "OPENSKILL_EXECUTOR": "local",
        "OPENSKILL_ALLOW_LOCAL": "1",
    }
    # Clients that end leave calls behind, which must not take the places of the next ones: hence the longer queue.
    options = ["--port", "0", "--queue", "1000", "--json-log", str(scratch / "access.jsonl")]
    command = [sys.executable, "-m", "openskills", "serve", *options]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=scratch,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield await _address(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = ""
    async for line in process.stderr:
        said += line.decode()
        if found := re.search(r"serving .* on (http://\S+)", line.decode()):
            return found[1]
    raise RuntimeError(f"openskills serve did not begin:\n{said}")
