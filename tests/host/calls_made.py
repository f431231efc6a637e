"""Calls skills through the real runners, for tests."""

import asyncio
import os
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from openskills.host.model import Call, Listener, Outcome, Registration, SkillRunner
from openskills.host.runners.table import Runners
from openskills.settings import Settings
from openskills.sync import run

ENOUGH = 20.0
T = TypeVar("T")


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


def with_runner(
    tmp_path: Path, registration: Registration, work: Callable[[SkillRunner], Awaitable[T]], **variables: str
) -> T:
    """Do some work with the runner of a skill, which is closed after it."""

    async def whole() -> T:
        runners = Runners(settings(tmp_path, **variables), directory=tmp_path)
        try:
            return await work(runners.get_runner(registration))
        finally:
            await runners.close()

    return run(whole())


def invoked(tmp_path: Path, registration: Registration, /, **call: Any) -> Outcome:
    """The outcome of one call."""
    return with_runner(tmp_path, registration, lambda runner: runner.invoke(registration, called(**call)))
