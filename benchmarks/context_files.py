"""Whether a file is touched when a request is built and nothing has changed. None may be."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import corpus
from context_building import LOADED
from context_ours import names_of
from context_probe import BEGIN, END, REQUESTS
from context_talk import as_data, long_turn
from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table
from running_peers import trpc_agent

PROBE = Path(__file__).resolve().with_name("context_probe.py")
_CALLS = "%file,read,pread64,readv,write,pwrite64,getdents64,fstat,statx"
_ABOUT = f"""
{REQUESTS} requests of the same conversation in a process of its own. The interpreter's audit hook sees every file that is
opened, listed, moved or removed; `strace` sees every system call with a file's name in it, every read and every write,
of all threads. For trpc-agent-py it is the interpreter's hook, which does not see that files are looked at, for one
request.
"""


async def measure(at: Surroundings) -> Part:
    """Counted twice, by the interpreter and by the kernel."""
    skills, missing = at.scratch / "skills", list[str]()
    count = at.extent.skills[1]
    corpus.build(skills, count)
    at.say(f"counting what is done to files for a request with {count:,} skills")
    command = [sys.executable, str(PROBE), str(skills), str(at.scratch), str(LOADED)]
    audited = _probed(command)["events"]
    try:
        called: list[str] | None = _traced(command, at.scratch / "trace")
    except NotMeasured as reason:
        called = None
        missing.append(str(reason))
    about = f"files touched for {REQUESTS} requests, {count:,} skills"
    none = {"bound": 0, "at_least": False, "digits": 0}
    calls = Target(f"{about}: system calls", _number(called), unit="calls", why="; ".join(missing), **none)
    rows = [["OpenSkill, audit events", str(len(audited))], ["OpenSkill, system calls", _shown(called)]]
    rows += await _peer(at, skills, missing)
    return Part(
        "Files touched",
        _ABOUT,
        [Target(f"{about}: audit events", len(audited), unit="events", **none), calls],
        plain_table(["", "counted"], rows),
        missing=missing,
        raw={"audited": audited, "called": called},
    )


def _probed(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the probe failed: {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found["requests"] != REQUESTS or found["shown"] != LOADED:
        raise RuntimeError(f"the probe did something else: {found}")
    return found


def _traced(command: list[str], log: Path) -> list[str]:
    strace = shutil.which("strace")
    if strace is None:
        raise NotMeasured("system calls: strace is not installed")
    may = subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if may.returncode:
        raise NotMeasured(f"system calls: strace may not trace here ({may.stderr.strip()[:200]})")
    _probed([strace, "-f", "-qq", "--signal=none", "-e", f"trace={_CALLS}", "-o", str(log), *command])
    return between(log.read_text(encoding="utf-8").splitlines())


def between(lines: Iterable[str]) -> list[str]:
    """The lines of a trace after the one that looks for `BEGIN`, and before the one that looks for `END`."""
    found: list[str] | None = None
    for line in lines:
        if END in line and found is not None:
            return found
        if BEGIN in line:
            found = []
        elif found is not None:
            found.append(line)
    raise RuntimeError("the trace has no beginning or no end")


async def _peer(at: Surroundings, skills: Path, missing: list[str]) -> list[list[str]]:
    turns = as_data(long_turn(names_of(skills, LOADED)))
    rows: list[list[str]] = []
    try:
        for name, repository in (("its default", "plain"), ("cached", "cached")):
            async with trpc_agent(at.scratch, skills, script="context_trpc.py") as peer:
                await peer.ask({"do": "hold", "turns": turns})
                opened = await peer.ask({"do": "count", "repository": repository})
                rows.append([f"trpc-agent-py, {name}, audit events, for one request", f"{opened['opened']:,}"])
    except NotMeasured as reason:
        missing.append(str(reason))
    return rows


def _number(called: list[str] | None) -> float | None:
    return None if called is None else len(called)


def _shown(called: list[str] | None) -> str:
    return "not measured" if called is None else str(len(called))
