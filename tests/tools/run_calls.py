"""Calls of `skill_run` in tests, as a model makes them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openskills.artifacts.store import ArtifactStore
from openskills.executors.commands import CommandRules
from openskills.tools.run import SKILL_RUN
from openskills.tools.run_arguments import RunArguments
from openskills.tools.tool import ToolContext, ToolOptions, decode
from openskills.tools.uploads import UserUpload
from tests.tools.contexts import tool_context, write_skill

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def written(**arguments: object) -> RunArguments:
    """The arguments of a call for the skill `demo`."""
    return decode(SKILL_RUN, {"skill": "demo", "command": "true", **arguments})


async def call(context: ToolContext, command: str | list[str], **arguments: object) -> dict[str, Any]:
    """What a call for the skill `demo` gives to a program."""
    result = await SKILL_RUN.run(context, written(command=command, **arguments))
    return dict(result.data)


def names(data: dict[str, Any]) -> list[str]:
    """The names of the files that came back."""
    return [file["name"] for file in data["output_files"]]


def said(data: dict[str, Any]) -> str:
    """All warnings."""
    return "\n".join(data.get("warnings", ()))


HELLO = "#!/bin/sh\necho hello from $SKILL_NAME\n"


@asynccontextmanager
async def opened(
    directory: Path,
    executor: str = "local",
    *,
    artifacts: ArtifactStore | None = None,
    options: ToolOptions | None = None,
    rules: CommandRules | None = None,
    uploads: tuple[UserUpload, ...] = (),
) -> AsyncGenerator[ToolContext]:
    """A session that has loaded the skill `demo`; `other` is there, too."""
    write_skill(directory, "demo", {"scripts/hello.sh": HELLO, "scripts/sub/here.sh": HELLO})
    write_skill(directory, "other", {"data/x.txt": "of other"})
    context = tool_context(
        directory,
        executor=executor,
        artifacts=artifacts,
        options=options,
        rules=rules,
        loaded=["demo"],
        uploads=uploads,
    )
    async with context as found:
        yield found
