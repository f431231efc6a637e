"""Whether a file is touched when a request is built and nothing has changed. None may be."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import corpus
from context_building import LOADED
from context_ours import names_of
from context_probe import REQUESTS
from context_talk import as_data, long_turn
from context_trace import between
from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table
from running_peers import trpc_agent

PROBE = Path(__file__).resolve().with_name("context_probe.py")
_CALLS = "%file,read,pread64,readv,write,pwrite64,getdents64,fstat,statx"
_ABOUT = f"""
{REQUESTS} requests of the same conversation in a separate process. Python audit hooks count each file that is opened,
listed, moved or removed; `strace` counts each system call with a file name, each read and each write, in all threads.
trpc-agent-py is measured with audit hooks for one request; they do not count calls of `stat`.
"""


async def measure(at: Surroundings) -> Part:
    """Counted twice, by the interpreter and by the kernel."""
    skills, missing = at.scratch / "skills", list[str]()
    count = at.extent.skills[1]
    corpus.build(skills, count)
    at.say(f"counting what is done to files for a request with {count:,} skills")
    command = [sys.executable, str(PROBE), str(skills), str(at.scratch), str(LOADED)]
    audited = _probed(command)["events"]
    called, why = _traced_if_possible(command, at.scratch / "trace")
    missing += [why] if why else []
    rows = [["OpenSkill, audit events", str(len(audited))], ["OpenSkill, system calls", _shown(called)]]
    rows += await _peer(at, skills, missing)
    about = f"files touched for {REQUESTS} requests, {count:,} skills"
    return Part(
        "Files touched",
        _ABOUT,
        [
            _none(f"{about}: audit events", len(audited), "events"),
            _none(f"{about}: system calls", None if called is None else len(called), "calls", why),
        ],
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


def _traced_if_possible(command: list[str], log: Path) -> tuple[list[str] | None, str]:
    try:
        return _traced(command, log), ""
    except NotMeasured as reason:
        return None, str(reason)


def _traced(command: list[str], log: Path) -> list[str]:
    strace = shutil.which("strace")
    if strace is None:
        raise NotMeasured("system calls: strace is not installed")
    may = subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if may.returncode:
        raise NotMeasured(f"system calls: strace may not trace here ({may.stderr.strip()[:200]})")
    _probed([strace, "-f", "-qq", "--signal=none", "-e", f"trace={_CALLS}", "-o", str(log), *command])
    return between(log.read_text(encoding="utf-8").splitlines())


async def _peer(at: Surroundings, skills: Path, missing: list[str]) -> list[list[str]]:
    turns = as_data(long_turn(names_of(skills, LOADED)))
    rows: list[list[str]] = []
    try:
        for name, repository in (("its default", "plain"), ("cached", "cached")):
            async with trpc_agent(at.scratch, skills, skills, script="context_trpc.py") as peer:
                await peer.ask({"do": "hold", "turns": turns})
                counted = await peer.ask({"do": "count", "repository": repository})
                rows.append([f"trpc-agent-py, {name}, audit events, for one request", f"{counted['events']:,}"])
    except NotMeasured as reason:
        missing.append(str(reason))
    return rows


def _none(promise: str, found: int | None, unit: str, why: str = "") -> Target:
    return Target(promise, found, 0, at_least=False, unit=unit, digits=0, why=why)


def _shown(called: list[str] | None) -> str:
    return "not measured" if called is None else str(len(called))
