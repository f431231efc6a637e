"""Files of a workspace, of the artifact store and of skills, opened for reading in one way."""

import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from openskills.artifacts.threads import to_the_end
from openskills.catalog.skill import Skill
from openskills.errors import ExecutorUnavailable, InvalidArgument, InvalidSkill, SkillError
from openskills.executors.layout import SKILLS
from openskills.executors.protocol import Workspace
from openskills.paths import open_inside
from openskills.tools.nearest import no_artifact, no_skill_file, no_workspace_file
from openskills.tools.refs import ArtifactFile, FileRef, SkillFile, WorkspaceFile, is_absolute, parse_file
from openskills.tools.tool import ToolContext
from openskills.tools.upload_staging import UploadStaging

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Readable:
    """A file that is open: `chunks` gives its bytes once. `sha256` is empty unless it is known anyway."""

    file: FileRef
    size: int
    chunks: AsyncIterator[bytes]
    sha256: str = ""


async def named(context: ToolContext, text: str, *, field: str = "file_name") -> FileRef:
    """The file that a model means; the workspace is opened only when its root has to be known."""
    return parse_file(text, root=await root_for(context, text), field=field)


async def root_for(context: ToolContext, text: str) -> str | None:
    """The workspace's root as commands see it, when the text is absolute."""
    return (await context.bench()).workspace.root if is_absolute(text) else None


async def furnished(context: ToolContext) -> tuple[Workspace, tuple[str, ...]]:
    """The workspace with the files of the conversation in `work/inputs/`, and which of them are missing and why."""
    workspace = (await context.bench()).workspace
    staging = UploadStaging(context.uploads, workspace, scope=context.scope, artifacts=context.artifacts)
    return workspace, (await staging.arrive()).missing


@asynccontextmanager
async def readable(context: ToolContext, file: FileRef, *, field: str = "file_name") -> AsyncGenerator[Readable]:
    """Open a file. What is not staged in `skills/` is read from the catalog's skill.

    Raises `InvalidArgument` with the nearest names when there is none, `ForbiddenPath` when a link leads out,
    `UnknownSkill` for a skill that is not visible, `ExecutorUnavailable` when there is no workspace.
    """
    async with AsyncExitStack() as stack:
        match file:
            case SkillFile():
                yield await _of_skill(context, file, stack, field)
            case ArtifactFile():
                yield await _of_store(context, file, stack, field)
            case WorkspaceFile():
                yield await _of_workspace(context, file, stack, field)


async def _of_workspace(context: ToolContext, file: WorkspaceFile, stack: AsyncExitStack, field: str) -> Readable:
    try:
        workspace, missing = await furnished(context)
    except ExecutorUnavailable:
        found = await _unstaged(context, file, stack, field)
        if found is None:
            raise
        return found
    try:
        reading = await stack.enter_async_context(workspace.open(file.path))
    except InvalidArgument as error:
        found = await _unstaged(context, file, stack, field)
        if found is None:
            raise await no_workspace_file(context, workspace, file.path, error, field, missing) from None
        return found
    return Readable(WorkspaceFile(reading.info.path), reading.info.size, reading.chunks)


async def _unstaged(context: ToolContext, file: WorkspaceFile, stack: AsyncExitStack, field: str) -> Readable | None:
    """A file of a skill that the workspace does not have, from the catalog; None when it is not there either."""
    top, *rest = PurePosixPath(file.path).parts
    if top != SKILLS or len(rest) < 2:
        return None
    try:
        return await _of_skill(context, SkillFile(rest[0], "/".join(rest[1:])), stack, field)
    except SkillError:
        return None


async def _of_store(context: ToolContext, file: ArtifactFile, stack: AsyncExitStack, field: str) -> Readable:
    if context.artifacts is None:
        raise InvalidArgument(field, "this session keeps no artifacts; read the file in the workspace")
    try:
        reading = await stack.enter_async_context(context.artifacts.open(context.scope, file.name, file.version))
    except InvalidArgument as error:
        known = [artifact.name for artifact in await context.artifacts.list(context.scope)]
        raise no_artifact(file.name, known, error, field) from None
    artifact = reading.artifact
    return Readable(ArtifactFile(artifact.name, artifact.version), artifact.size, reading.chunks, artifact.sha256)


async def _of_skill(context: ToolContext, file: SkillFile, stack: AsyncExitStack, field: str) -> Readable:
    skill = context.skills.get(file.skill)
    try:
        # Not in a thread: a cancellation would lose the descriptor.
        descriptor, size = _opened(skill, file.path, field)
    except OSError as error:
        raise await no_skill_file(skill, file.path, error, field) from None
    stack.callback(os.close, descriptor)
    chunks = await stack.enter_async_context(aclosing(_chunks(descriptor, size)))
    return Readable(SkillFile(skill.name, file.path), size, chunks)


def _opened(skill: Skill, path: str, field: str) -> tuple[int, int]:
    """A descriptor and the size of a regular file in the skill's folder."""
    # Whoever put a link to another directory in the place of the folder has no SKILL.md there.
    if not os.path.lexists(skill.location):
        raise InvalidSkill(f"{skill.name}: its folder is no skill any more")
    descriptor = open_inside(skill.directory, path, field=field)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        kind = "is a directory" if stat.S_ISDIR(status.st_mode) else "is no regular file"
        raise InvalidArgument(field, f"{path!r} of the skill {skill.name!r} {kind}; list_files shows its files")
    return descriptor, status.st_size


async def _chunks(descriptor: int, size: int) -> AsyncGenerator[bytes]:
    # A file that grows while it is read ends where it ended when it was opened.
    left = size
    while left > 0:
        data = await to_the_end(lambda: os.read(descriptor, min(left, _CHUNK)))  # noqa: B023 - awaited at once
        if not data:
            return
        left -= len(data)
        yield data
