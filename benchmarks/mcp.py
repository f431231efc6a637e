"""What MCP costs, as ratios measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/mcp.svg with `--write`.
"""

import sys

# This file has the name of the library that it measures: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

import json
import statistics
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from host_servers import FASTMCP, FUNCTION, SCHEMA, clean_environment, free_port, served
from host_wrk import Address, Load, NoAnswers, pressed
from report import Bar, Target
from running_part import TINY, NotMeasured, Part, Surroundings, plain_table, raw_series, series_table
from sampling import in_turns, timed
from suite import Suite, main

from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime
from openskills.settings import Settings

HERE = Path(__file__).resolve().parent
OURS, THEIRS = "OpenSkill", "FastMCP"
CONNECTIONS = 8
LISTED = 1000
MAX_LISTING = 50.0
"""Milliseconds that listing 1,000 skills may take."""
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
}
SCRIPT = "import json, sys\nprint(json.dumps({'success': True, 'data': json.load(sys.stdin)['input']}))\n"

_CALLS = f"""
`wrk` with {CONNECTIONS} connections from a second process: `tools/call` (revision 2026-07-28) of a tool that echoes a
text. {OURS} is `openskills serve` with all features enabled, and the tool is a hosted skill: input schema, admission,
access log, metrics, history. {THEIRS} 4.1.2 calls a function, without sessions and with plain JSON.
"""
_RUNNING = """
One client with sequential calls: `skill_run` of a script in the sandbox, in a warm workspace, over `/mcp` and with
`SkillSession.call` in the process of the caller; and the same script as a hosted skill with `POST /skills/ID:invoke`,
which does not check a workspace's skill for changes or collect files.
"""
_LISTING = f"""
One client lists all {LISTED:,} skills with `skills/list` (SEP-2640), page by page: front matter, and digest and size
of each file. {THEIRS} 4.1.2 is `SkillsDirectoryProvider` with `SkillsExtension`. Both have listed them before. The
target in milliseconds is for the fastest run, because it depends on what else the machine does.
"""


def build_body(method: str, **params: Any) -> str:
    """A request of the revision 2026-07-28."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}})


def build_call(url: str, name: str, arguments: Mapping[str, object]) -> Address:
    """The address of a tool."""
    headers = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": name}
    return Address(url, build_body("tools/call", name=name, arguments=arguments), headers)


def write_skills(directory: Path, count: int) -> Path:
    """Skills of two files each."""
    for number in range(count):
        folder = directory / f"skill-{number:04}"
        (folder / "scripts").mkdir(parents=True)
        front = f"name: {folder.name}\ndescription: Does the thing {number}. Use when the user wants it done."
        (folder / "SKILL.md").write_text(f"---\n{front}\n---\n\n# Skill {number}\n", "utf-8")
        (folder / "scripts" / "run.py").write_text(SCRIPT, "utf-8")
    return directory


@asynccontextmanager
async def serve_ours(scratch: Path, skills: Path) -> AsyncGenerator[str]:
    """Our host, with a hosted function `echo` and a hosted script `script`; its URL."""
    hosted = scratch / "skills_cli"
    hosted.mkdir()
    (scratch / "data").mkdir()
    (scratch / "bench_function.py").write_text(FUNCTION, "utf-8")
    (hosted / "script.py").write_text(SCRIPT, "utf-8")
    function = {"id": "echo", "type": "inproc", "entry": "bench_function:echo", "input_schema": SCHEMA, "version": "1"}
    script = {"id": "script", "type": "cli", "runtime": "python", "entry": "./skills_cli/script.py", "version": "1"}
    for manifest in (function, {**script, "executor": "sandbox", "warm": "spawn"}):
        (hosted / f"{manifest['id']}.json").write_text(json.dumps(manifest), "utf-8")
    environment = {**clean_environment(scratch), "PYTHONPATH": str(scratch)}
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    line = [sys.executable, "-m", "openskills", "serve", str(skills), "--port", str(port)]
    async with served([*line, "--json-log", str(scratch / "log.jsonl")], scratch, environment, f"{url}/readyz"):
        yield url


@asynccontextmanager
async def serve_theirs(scratch: Path, skills: Path) -> AsyncGenerator[str]:
    """FastMCP with a tool and skills; its URL."""
    FASTMCP.check()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    line = [str(FASTMCP.python), str(HERE / "mcp_fastmcp.py"), str(port), str(skills)]
    async with served(line, scratch, clean_environment(scratch), f"{url}/mcp"):
        yield url


async def measure_calls(at: Surroundings) -> Part:
    """Calls per second of a tool that does nothing."""
    skills = write_skills(at.scratch / "skills", 2)
    seconds, rounds = (1.0, 1) if at.extent == TINY else (3.0, 5)
    loads: dict[str, list[Load]] = {OURS: [], THEIRS: []}
    missing: list[str] = []
    async with serve_ours(at.scratch, skills) as ours:
        urls = {OURS: f"{ours}/mcp"}
        try:
            async with serve_theirs(at.scratch, skills) as theirs:
                urls[THEIRS] = f"{theirs}/mcp"
                await _press(urls, loads, at, seconds, rounds)
        except (NotMeasured, NoAnswers) as reason:
            missing.append(f"{THEIRS}: {reason}")
            await _press({OURS: urls[OURS]}, loads, at, seconds, rounds)
    rates = {name: statistics.median(load.rate for load in found) for name, found in loads.items() if found}
    ratio = rates[OURS] / rates[THEIRS] if THEIRS in rates else None
    promise = f"calls per second of a tool that does nothing, relative to {THEIRS}"
    rows = [[name, f"{rate:,.0f}"] for name, rate in rates.items()]
    return Part(
        "A tool that does nothing",
        _CALLS,
        [Target(promise, ratio, 1.0, digits=2, why="; ".join(missing))],
        plain_table(["", "calls per second"], rows),
        [Bar(name, 1 / rate, ours=name == OURS) for name, rate in rates.items()],
        missing,
        {"rates": rates},
    )


async def _press(
    urls: dict[str, str], loads: dict[str, list[Load]], at: Surroundings, seconds: float, rounds: int
) -> None:
    async with httpx2.AsyncClient(timeout=60) as client:
        for url in urls.values():
            # The first call imports and opens what the others need.
            first = build_call(url, "echo", {"text": "hello"})
            (await client.post(first.url, content=first.body, headers=first.headers)).raise_for_status()
    # The smallest extent only sees whether it works.
    limit = 100 if at.extent == TINY else None
    for _ in range(rounds):
        for name, url in urls.items():
            call = build_call(url, "echo", {"text": "hello"})
            load = await pressed(call, at.scratch, connections=CONNECTIONS, seconds=seconds, limit=limit)
            if load.failed:
                raise NoAnswers(f"{load.failed} calls failed")
            loads[name].append(load)


async def measure_running(at: Surroundings) -> Part:
    """A script over MCP and over HTTP."""
    skills = write_skills(at.scratch / "skills", 1)
    mcp, direct, http = "skill_run over /mcp", "SkillSession.call", "POST /skills/ID:invoke"
    command = {"skill": "skill-0000", "command": "python3 scripts/run.py", "stdin": '{"input": {"text": "hello"}}'}
    settings = Settings.from_env(clean_environment(at.scratch))
    runtime = SkillRuntime(Catalog.from_paths(skills, settings=settings), "sandbox", settings=settings)
    async with (
        serve_ours(at.scratch, skills) as url,
        httpx2.AsyncClient(timeout=60) as client,
        runtime,
        runtime.session("bench", options=SessionOptions(load_mode="session")) as session,
    ):

        async def call(name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
            address = build_call(f"{url}/mcp", name, arguments)
            answer = await client.post(address.url, content=address.body, headers=address.headers)
            result = answer.raise_for_status().json()["result"]
            assert not result["isError"], result
            return result["structuredContent"]

        async def run() -> None:
            assert '"hello"' in (await call("skill_run", command))["stdout"]

        async def run_here() -> None:
            assert '"hello"' in (await session.call("skill_run", command)).raise_for_error().data["stdout"]

        async def invoke() -> None:
            answer = await client.post(f"{url}/skills/script:invoke", json={"input": {"text": "hello"}})
            assert answer.raise_for_status().json()["data"] == {"text": "hello"}

        await call("skill_load", {"skill": "skill-0000"})
        await session.call("skill_load", {"skill": "skill-0000"})
        found = await in_turns(
            {mcp: timed(run), direct: timed(run_here), http: timed(invoke)}, at.extent.many // 2 or 1
        )
    return Part(
        "A command",
        _RUNNING,
        [
            Target(
                f"skill_run over MCP, relative to {other}",
                found[mcp].median / found[other].median,
                bound,
                at_least=False,
                digits=2,
            )
            for other, bound in ((direct, 1.25), (http, 1.5))
        ],
        series_table(found, base=direct),
        raw={"times": raw_series(found)},
    )


async def measure_listing(at: Surroundings) -> Part:
    """Listing many skills with digests."""
    count = 20 if at.extent == TINY else LISTED
    skills = write_skills(at.scratch / "skills", count)
    missing: list[str] = []
    async with serve_ours(at.scratch, skills) as ours, httpx2.AsyncClient(timeout=60) as client:

        async def list_all(url: str) -> None:
            headers = {**HEADERS, "Mcp-Method": "skills/list"}
            seen, params = 0, dict[str, Any]()
            while True:
                answer = await client.post(f"{url}/mcp", content=build_body("skills/list", **params), headers=headers)
                result = answer.raise_for_status().json()["result"]
                seen += len(result["skills"])
                if "nextCursor" not in result:
                    break
                params = {"cursor": result["nextCursor"]}
            assert seen == count, seen

        ways = {OURS: timed(lambda: list_all(ours))}
        try:
            async with serve_theirs(at.scratch, skills) as theirs:
                both = {**ways, THEIRS: timed(lambda: list_all(theirs))}
                found = await in_turns(both, at.extent.few // 2 or 1)
        except NotMeasured as reason:
            missing.append(f"{THEIRS}: {reason}")
            found = await in_turns(ways, at.extent.few // 2 or 1)
    ratio = found[THEIRS].median / found[OURS].median if THEIRS in found else None
    why = "; ".join(missing)
    fastest = min(found[OURS].seconds) * 1000
    return Part(
        f"Listing {count:,} skills",
        _LISTING,
        [
            Target(f"listing {count:,} skills", fastest, MAX_LISTING, at_least=False, unit="ms"),
            Target(f"listing {count:,} skills, faster than {THEIRS}", ratio, 1.0, why=why),
        ],
        series_table(found),
        missing=missing,
        raw={"times": raw_series(found)},
    )


SUITE = Suite(
    "mcp",
    "MCP",
    __doc__,
    "Time of a call of a tool that does nothing, at 8 connections",
    {"calls": measure_calls, "running": measure_running, "listing": measure_listing},
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
