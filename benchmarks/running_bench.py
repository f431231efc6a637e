"""Our own side: skills to stage, and workbenches to run commands on, opened as the command line opens them."""

import itertools
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sampling import Way, timed

from openskills.artifacts.store import Scope
from openskills.executors.commands import CommandRunner, open_command_runner
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.executors.requests import RunRequest
from openskills.executors.spec import Command
from openskills.executors.staging.outputs import OutputSpec
from openskills.settings import Settings

PYTHON = shutil.which("python3", path=os.defpath) or f"{sys.base_prefix}/bin/python3"
"""The same interpreter for everybody on this machine: the system's, with no shim in front and no packages of ours."""

SKILL = "bench-skill"


@dataclass(frozen=True)
class Ground:
    """An executor, ready to be used, and where it keeps its things."""

    executor: Executor
    settings: Settings
    _sessions: Any = field(default_factory=itertools.count)

    async def bench(self, skill: Path | None = None) -> CommandRunner:
        """A new session with this skill staged."""
        bench = await open_command_runner(
            self.executor, self.settings, Scope("bench", "user", f"s{next(self._sessions)}")
        )
        if skill is not None:
            await bench.stage(skill.name, skill)
        return bench


@asynccontextmanager
async def ground(name: str, scratch: Path, **options: Any) -> AsyncGenerator[Ground]:
    """The executor of this name, checked, with an empty state of its own."""
    home = scratch / f"home-{name}"
    home.mkdir(parents=True, exist_ok=True)
    settings = Settings.from_env({"HOME": str(home), "PATH": os.defpath})
    chosen = open_executor(name, settings, **options)
    try:
        await chosen.check()
        yield Ground(chosen, settings)
    finally:
        await chosen.close()


def write_skill(directory: Path, files: int, *, marker: str = "") -> Path:
    """A skill of so many files, each of about 4 KB; another `marker`, another content."""
    skill = directory / SKILL
    (skill / "scripts").mkdir(parents=True)
    front = f"---\nname: {SKILL}\ndescription: Does nothing. Use when measuring.\n---\n\n# Nothing {marker}\n"
    (skill / "SKILL.md").write_text(front, encoding="utf-8")
    for number in range(files - 1):
        (skill / "scripts" / f"step{number:04d}.py").write_text(f"# {number} {marker}\n" + "pass\n" * 800, "utf-8")
    return skill


def run_of(bench: CommandRunner, argv: Sequence[str], *, collecting: bool = False) -> Way:
    """A run as users ask for it: policy, audit log, variables, executor, result."""
    request = RunRequest(tuple(argv), skill=SKILL, outputs=OutputSpec(("out/**",)) if collecting else None)

    async def run() -> None:
        result = await bench.run(request)
        if result.exit_code:
            raise RuntimeError(f"{argv} failed: {result.stderr}")

    return timed(run)


def command_of(bench: CommandRunner, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Way:
    """The executor alone: a command of a workspace, without what a workbench does around it."""
    numbers = itertools.count()

    async def run() -> None:
        command = Command(tuple(argv), SKILL, f"skills/{SKILL}", f"runs/direct{next(numbers)}", env or {})
        ended = await (await bench.workspace.start(command)).wait()
        if ended.exit_code:
            raise RuntimeError(f"{argv} failed: {ended.stderr.text()}")

    return timed(run)
