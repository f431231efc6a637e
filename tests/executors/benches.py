"""Workbenches for tests, on the local executor unless another backend is given."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.local import LocalBackend
from openskills.executors.protocol import Backend
from openskills.executors.workspace import DirectoryExecutor
from openskills.settings import Settings
from tests.skill_writer import skill_writer

SCOPE = Scope("app", "user", "session")


def settings(state: Path) -> Settings:
    """Settings of a user whose home is `state`."""
    return Settings.from_env({"HOME": str(state), "OPENSKILL_STATE_DIR": str(state / "state"), "PATH": "/usr/bin:/bin"})


def store(state: Path) -> FileArtifactStore:
    """The artifacts of these tests."""
    return FileArtifactStore(state / "artifacts")


@asynccontextmanager
async def workbench(
    state: Path, rules: CommandRules | None = None, *, backend: Backend | None = None, artifacts: bool = True
) -> AsyncGenerator[CommandRunner]:
    """A workbench with the skill `demo` staged."""
    async with DirectoryExecutor(backend or LocalBackend(), state / "state") as executor:
        kept = store(state) if artifacts else None
        bench = await open_command_runner(executor, settings(state), SCOPE, agent="tester", artifacts=kept, rules=rules)
        try:
            await bench.stage("demo", demo(state))
            yield bench
        finally:
            await bench.close()


def demo(state: Path) -> Path:
    """The folder of the skill `demo`."""
    folder = state / "skills" / "demo"
    if not folder.exists():
        skill_writer(state, "skills")("demo")
        (folder / "scripts").mkdir()
        (folder / "scripts" / "hello.sh").write_text("#!/bin/sh\necho hello from $SKILL_NAME\n")
        (folder / "scripts" / "hello.sh").chmod(0o755)
    return folder


def audit_lines(state: Path) -> list[dict[str, object]]:
    """What was written down."""
    return [json.loads(line) for line in (state / "state" / "audit.jsonl").read_text().splitlines()]
