"""The skills that ship with the project, in tests: their scripts as programs, and as a model runs them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.session.store import SessionStore
from openskills.tools.tool import ToolResult
from tests.runtime.talking import Transcript, runtime_in, text_of
from tests.servers import warm_openskills

SKILLS = Path(__file__).resolve().parents[2] / "skills"
NAMES = sorted(folder.parent.name for folder in SKILLS.glob("*/SKILL.md"))

# The scripts promise to work with older interpreters, too; this is how to see it: SKILLS_PYTHON=python3.9 pytest …
PYTHON = os.environ.get("SKILLS_PYTHON", sys.executable)
_COMMAND = re.compile(r"python3 scripts/[^`\n]+")


def run_script(
    script: str,
    *arguments: str | Path,
    cwd: Path,
    python: str = PYTHON,
    env: Mapping[str, str] | None = None,
    seconds: float = 60,
    new: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a script such as `math/scripts/evaluate.py` as a user does; warnings of Python are errors.

    With `new` in a new interpreter, otherwise in one that has imported what scripts import.
    """
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", **(env or {})}
    if not new and python == sys.executable and not any(name.startswith(("PYTHON", "LC_")) for name in environment):
        words = [str(argument) for argument in arguments]
        done = warm_openskills.run_script(SKILLS / script, *words, cwd=cwd, env=environment, timeout=seconds)
        said = [_decode(stream) for stream in (done.stdout, done.stderr)]
        return subprocess.CompletedProcess(done.args, done.returncode, *said)
    return subprocess.run(
        [python, "-W", "error", str(SKILLS / script), *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )


def _decode(stream: bytes) -> str:
    return stream.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def fault(done: subprocess.CompletedProcess[str], status: int) -> str:
    """The one line with which a script has refused something, with this exit status."""
    assert (done.returncode, done.stdout) == (status, ""), done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def misuse(done: subprocess.CompletedProcess[str]) -> str:
    """What a script has said about its arguments, after how it is to be used."""
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert done.stderr.startswith("usage: ")
    return done.stderr.splitlines()[-1].partition(": error: ")[2]


def documented(skill: str) -> list[str]:
    """The commands that a skill's SKILL.md tells a model to run, in their order."""
    text = (SKILLS / skill / "SKILL.md").read_text("utf-8")
    return [command.strip() for command in _COMMAND.findall(text)]


class Conversation:
    """A model that has loaded one skill, in a session with a sandbox."""

    def __init__(self, talk: Transcript, skill: str) -> None:
        self.talk = talk
        self.skill = skill

    def add(self, name: str, data: bytes | str) -> None:
        """The user gives a file."""
        self.talk.session.add_file(name, data.encode() if isinstance(data, str) else data)

    async def run(self, command: str, **more: Any) -> dict[str, Any]:
        """The model runs a command; what it gets to see."""
        result: ToolResult
        (result,) = await self.talk.call(("skill_run", {"skill": self.skill, "command": command, **more}))
        assert result.error is None, result.text
        assert result.data["isolation"] == "bubblewrap"
        return dict(result.data)

    async def ends_well(self, command: str, **more: Any) -> dict[str, Any]:
        """The same for a command that has to end well."""
        data = await self.run(command, **more)
        assert data["exit_code"] == 0, data
        return data


@asynccontextmanager
async def conversation(
    directory: Path, skill: str, request: str, *, store: SessionStore | None = None
) -> AsyncGenerator[Conversation]:
    """A user asks for something, and the model loads a shipped skill; its instructions are then before its eyes."""
    shutil.copytree(SKILLS / skill, directory / "skills" / skill, ignore=shutil.ignore_patterns("__pycache__"))
    async with runtime_in(directory, executor="sandbox", store=store) as runtime, runtime.session("s") as session:
        talk = Transcript(session)
        assert skill in text_of(talk.user(request))
        await talk.load(skill)
        for command in documented(skill):
            assert command in text_of(talk.request())
        yield Conversation(talk, skill)


def with_inputs(command: str, *names: str) -> str:
    """A documented command for files that the user gave, which lie in `inputs/`."""
    words = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?<![\w./-])({words})(?![\w./-])", r"inputs/\1", command)
