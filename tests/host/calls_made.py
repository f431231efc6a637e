"""Calls skills through the real runners, for tests."""

import asyncio
import os
import textwrap
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.host.model import Call, Listener, Outcome, Registration, SkillRunner
from openskills.host.runners.table import Runners
from openskills.settings import Settings

ENOUGH = 20.0


def settings(tmp_path: Path, **variables: str) -> Settings:
    """Settings whose places are in `tmp_path`."""
    search_path = os.environ.get("PATH", os.defpath)
    return Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": search_path, **variables})


def script(directory: Path, text: str, name: str = "skill.py") -> Path:
    """A script of a skill."""
    path = directory / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def python_skill(entry: Path, **more: Any) -> Registration:
    """A skill that is a script, without isolation."""
    fields: dict[str, Any] = {"executor": "local", **more}
    return Registration("skill", "cli:python", str(entry), "1", **fields)


def called(
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the protocol
    *,
    seconds: float = ENOUGH,
    secrets: Mapping[str, str] | None = None,
    listener: Listener | None = None,
    traceparent: str | None = None,
) -> Call:
    """A call that begins now."""
    deadline = asyncio.get_running_loop().time() + seconds
    return Call(input or {}, "trace-1", deadline, secrets or {}, listener, traceparent)


@asynccontextmanager
async def open_runner(tmp_path: Path, registration: Registration, **variables: str) -> AsyncGenerator[SkillRunner]:
    """The runner of a skill, closed at the end."""
    runners = Runners(settings(tmp_path, **variables), directory=tmp_path)
    try:
        yield runners.get_runner(registration)
    finally:
        await runners.close()


async def invoke(tmp_path: Path, registration: Registration, /, **call: Any) -> Outcome:
    """The outcome of one call."""
    async with open_runner(tmp_path, registration) as runner:
        return await runner.invoke(registration, called(**call))
