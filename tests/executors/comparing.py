"""The same commands, started cold and warm."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.spec import Command, CommandResult, Limits
from openskills.sync import run
from tests.conftest import find_program
from tests.executors.cold_and_warm import FILES, Case
from tests.executors.warming import Bench, Outcome, bench

EXECUTORS = ("local", "sandbox")


@dataclass(frozen=True)
class Pair:
    """One command, started both ways."""

    cold: CommandResult
    warm: CommandResult
    started: Outcome


def pairs_of(cases: Mapping[str, Case], executor: str, directory: Path) -> Mapping[str, Pair]:
    """All cases, both ways, in one workspace of an executor."""
    if executor == "sandbox":
        for program in ("bwrap", "setpriv"):
            find_program(program, search_path=os.environ.get("PATH", os.defpath), ci=os.environ.get("CI") == "true")

    async def scenario() -> dict[str, Pair]:
        backend = SandboxBackend() if executor == "sandbox" else None
        async with bench(directory, backend=backend, max_servers=3) as here:
            for name, text in FILES.items():
                here.write(name, text)
            return {name: await _both(here, case) for name, case in cases.items()}

    return run(scenario())


def shown(ended: CommandResult) -> tuple[int, str, str]:
    """What can be compared: addresses differ between any two runs."""
    texts = [captured.bytes().decode("utf-8", "backslashreplace") for captured in (ended.stdout, ended.stderr)]
    out, err = (re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", text) for text in texts)
    return ended.exit_code, out, err


async def _both(here: Bench, case: Case) -> Pair:
    here.write("case.py", case.text)
    command = Command(
        case.argv or ("python", *case.options, "work/case.py", *case.arguments),
        stdin=case.stdin,
        env=case.env,
        cwd=case.cwd,
        terminal=case.terminal,
        limits=Limits(timeout=30),
    )
    cold = await here.run(command, warm=False)
    return Pair(cold, await here.run(command), here.outcome)
