"""Calls per second and how long they take, at 8 connections: our host against others."""

import statistics
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from host_servers import FUNCTION_SKILL, bentoml, fastmcp, other, ours
from host_wrk import Address, Load, NoAnswers, find_wrk, pressed
from report import Bar, Target
from running_part import TINY, NotMeasured, Part, Surroundings, plain_table

CONNECTIONS = 8
FORK, REUSE, FUNCTION = "OpenSkill, cli:python", "OpenSkill, cli:python, reuse", "OpenSkill, inproc"
SPAWN, IN_SANDBOX, SPAWN_IN_SANDBOX = "OpenSkill, spawn", "OpenSkill, sandbox", "OpenSkill, sandbox, spawn"
REUSE_IN_SANDBOX = "OpenSkill, sandbox, reuse"
NAIVE, BARE, MODEL = "FastAPI, an interpreter per call", "FastAPI, bare route", "FastAPI, route with a model"
FASTMCP, BENTO = "FastMCP, function", "BentoML, function"
_MEASURED = ("rate", "p50", "p99")
OURS = {
    FORK: "local_fork",
    SPAWN: "local_spawn",
    REUSE: "local_reuse",
    IN_SANDBOX: "sandbox_fork",
    SPAWN_IN_SANDBOX: "sandbox_spawn",
    REUSE_IN_SANDBOX: "sandbox_reuse",
    FUNCTION: FUNCTION_SKILL,
}
_ABOUT = f"""
`wrk` with {CONNECTIONS} connections from a second process; each host is a separate process. The skill is one script
that echoes a text, the same for all hosts that run scripts. OpenSkill is `openskills serve` with all features
enabled: API keys, input schema, access log, metrics, history. "{FORK}" forks a new process for each call from a warm
interpreter; "{SPAWN}" and "{NAIVE}" start an interpreter for each call. "{FASTMCP}", "{BENTO}" and "{FUNCTION}" call
a function in the server process that does nothing. The bare routes of FastAPI only read the text and answer, on the
same server (uvicorn, uvloop).
"""

Servers = Callable[[Path], AbstractAsyncContextManager[Address]]


@dataclass(frozen=True)
class Round:
    """Every load of one way."""

    loads: tuple[Load, ...]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return statistics.median(load.rate for load in self.loads)

    @property
    def p50(self) -> float:
        """The time that half of the answers took at most."""
        return statistics.median(load.p50 for load in self.loads)

    @property
    def p99(self) -> float:
        """The time that 99 of 100 took at most."""
        return statistics.median(load.p99 for load in self.loads)

    def raw(self) -> dict[str, object]:
        """All of it as numbers: medians, and the lowest and the highest of the rounds."""
        medians = {name: getattr(self, name) for name in _MEASURED}
        return {**medians, "spread": {name: self.spread(name) for name in _MEASURED}, **self._counts()}

    def spread(self, what: str) -> tuple[float, float]:
        """The lowest and the highest of the rounds."""
        found = [float(getattr(load, what)) for load in self.loads]
        return min(found), max(found)

    def _counts(self) -> dict[str, object]:
        return {"failed": self.failed, "repeats": len(self.loads)}

    @property
    def failed(self) -> int:
        """Answers that were no success."""
        return sum(load.failed for load in self.loads)


async def measure(at: Surroundings) -> Part:
    """All hosts that are to be had, in turns."""
    rounds, seconds = (1, 1) if at.extent.many < 10 else (2, 2) if at.extent.many < 100 else (3, 3)
    # The smallest extent only sees whether it works.
    limit = 20 if at.extent == TINY else None
    missing: dict[str, str] = {}
    find_wrk()
    async with AsyncExitStack() as stack:
        found = await _addresses(at.scratch, stack, missing)
        loads: dict[str, list[Load]] = {name: [] for name in found}
        # Round 0 is to warm up; the smallest extent measures nothing, so it has none.
        for number in range(1 if at.extent == TINY else 0, rounds + 1):
            at.say(f"hosts, round {number} of {rounds}")
            for name, address in found.items():
                if name in missing:
                    continue
                try:
                    length = seconds if number else 1
                    load = await pressed(address, at.scratch, connections=CONNECTIONS, seconds=length, limit=limit)
                except NoAnswers as error:
                    if name in OURS:
                        raise
                    missing[name] = f"{name}: stopped serving: {error}"
                    continue
                if number:
                    loads[name].append(load)
    # Whoever broke down in the middle has no number that could be compared.
    taken = {name: Round(tuple(one)) for name, one in loads.items() if name not in missing}
    return Part(
        "Calls per second",
        _ABOUT,
        _targets(taken, missing),
        f"{_table(taken)}\n\nEach in {rounds} rounds of {seconds} seconds; medians of the rounds.",
        [Bar(name, 1 / one.rate, ours=name in OURS) for name, one in taken.items()],
        list(missing.values()),
        {name: one.raw() for name, one in taken.items()},
    )


async def _addresses(scratch: Path, stack: AsyncExitStack, missing: dict[str, str]) -> dict[str, Address]:
    found: dict[str, Address] = {}
    others: Mapping[str, Servers] = {
        NAIVE: lambda place: other("spawn", place),
        BARE: lambda place: other("route", place),
        MODEL: lambda place: other("model", place),
        FASTMCP: fastmcp,
        BENTO: bentoml,
    }
    for number, (name, make) in enumerate(others.items()):
        place = scratch / f"other{number}"
        place.mkdir()
        try:
            found[name] = await stack.enter_async_context(make(place))
        except NotMeasured as error:
            missing[name] = f"{name}: {error}"
    place = scratch / "ours"
    place.mkdir()
    addresses, _ = await stack.enter_async_context(ours(place))
    return {**found, **{name: addresses[skill] for name, skill in OURS.items()}}


def _targets(taken: Mapping[str, Round], missing: Mapping[str, str]) -> list[Target]:
    def ratio(what: str, name: str, base: str, bound: float, digits: int = 1) -> Target:
        value = taken[name].rate / taken[base].rate if base in taken and name in taken else None
        return Target(what, value, bound, digits=digits, why=missing.get(base, ""))

    spread = taken[FORK].p99 / taken[FORK].p50
    calm = taken[FUNCTION].p99 / taken[BARE].p99 if BARE in taken else None
    failed = sum(one.failed for name, one in taken.items() if name in OURS)
    return [
        ratio(
            "`cli:python`: calls per second, relative to a host that starts an interpreter per call", FORK, NAIVE, 10
        ),
        ratio(
            "`cli:python`: calls per second, relative to FastMCP with a function that does nothing", FORK, FASTMCP, 1, 2
        ),
        ratio(
            "`cli:python`: calls per second, relative to BentoML with a function that does nothing", FORK, BENTO, 1, 2
        ),
        Target("`cli:python`: p99, relative to p50", spread, 4, at_least=False),
        ratio("`inproc`: calls per second, relative to a bare route of FastAPI", FUNCTION, BARE, 0.5, 2),
        Target(
            "`inproc`: p99, relative to a bare route of FastAPI", calm, 2, at_least=False, why=missing.get(BARE, "")
        ),
        ratio("sandbox: calls per second, relative to spawn in the sandbox", IN_SANDBOX, SPAWN_IN_SANDBOX, 5),
        ratio("sandbox: calls per second, relative to those without a sandbox", IN_SANDBOX, FORK, 0.9, 2),
        Target("failed calls to OpenSkill", failed, 0, at_least=False, unit="calls", digits=0),
    ]


def _table(taken: Mapping[str, Round]) -> str:
    base = taken[NAIVE].rate if NAIVE in taken else None
    rows: list[Sequence[str]] = []
    for name, one in sorted(taken.items(), key=lambda item: item[1].rate):
        against = f"{one.rate / base:.1f}x" if base else ""
        low, high = one.spread("rate")
        cells = [f"{one.rate:,.0f}", f"{low:,.0f} to {high:,.0f}", against]
        rows.append([name, *cells, f"{one.p50 * 1000:.2f} ms", f"{one.p99 * 1000:.2f} ms"])
    head = ["", "calls per second", "lowest to highest round", "vs. an interpreter per call", "p50", "p99"]
    return plain_table(head, rows)


@asynccontextmanager
async def only_ours(scratch: Path) -> AsyncGenerator[tuple[Mapping[str, Address], int]]:
    """Our host alone."""
    place = scratch / "ours"
    place.mkdir()
    async with ours(place) as found:
        yield found
