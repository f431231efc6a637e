"""Putting inputs into a workspace: written once, for all executors, over what every workspace can do."""

import os
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openskills.artifacts.ref import SCHEME
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.artifacts.threads import to_the_end
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.files.globs import escaped
from openskills.executors.files.host_files import HostFiles, host_place
from openskills.executors.files.openat2 import opened
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.protocol import Workspace
from openskills.executors.staging.inputs import Artifact, HostPath, InputSpec, Mode, Planned, WorkspacePath, plan

Pins = MutableMapping[str, int]
"""Which version of an artifact an input keeps to, by `name -> destination`. The caller keeps it with the session."""

_CHUNK = 1024 * 1024
_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class StagedInput:
    """What became of an input. `source` says the version, where there is one; `mode` what was really done."""

    source: str
    to: str
    mode: Mode
    files: int = 1
    size: int = 0
    warnings: tuple[str, ...] = ()


async def stage_inputs(
    workspace: Workspace,
    specs: Sequence[InputSpec],
    *,
    scope: Scope | None = None,
    artifacts: ArtifactStore | None = None,
    host_roots: Sequence[Path] = (),
    pins: Pins | None = None,
    run_dir: str | None = None,
) -> list[StagedInput]:
    """Put every input in its place, in order.

    All sources and destinations are checked before anything is written. Raises `InvalidArgument` for what is not there,
    `ForbiddenPath` for what is not allowed to be used, `LimitExceeded` for a directory of more than 10,000 files.
    """
    planned = plan(specs, run_dir=run_dir)
    for one in planned:
        if isinstance(one.source, HostPath):
            host_place(host_roots, one.source.path)
    staged: list[StagedInput] = []
    for one in planned:
        match one.source:
            case Artifact():
                staged.append(await _from_store(workspace, one, one.source, _store(artifacts, scope), pins))
            case HostPath():
                staged.append(await _from_host(workspace, one, one.source, host_roots))
            case WorkspacePath():
                staged.append(await _from_workspace(workspace, one, one.source))
    return staged


def _store(artifacts: ArtifactStore | None, scope: Scope | None) -> tuple[ArtifactStore, Scope]:
    if artifacts is None or scope is None:
        raise InvalidArgument("inputs.from", "there are no artifacts here; configure an artifact store")
    return artifacts, scope


async def _from_store(
    workspace: Workspace, planned: Planned, source: Artifact, store: tuple[ArtifactStore, Scope], pins: Pins | None
) -> StagedInput:
    name, version = source.ref
    pin = f"{name} -> {planned.to}"
    if version is None and planned.spec.pin and pins is not None:
        version = pins.get(pin)
    artifacts, scope = store
    async with artifacts.open(scope, name, version) as reading:
        await workspace.write(planned.to, reading.chunks)
        if planned.spec.pin and pins is not None:
            pins[pin] = reading.artifact.version
        size = reading.artifact.size
        ref = f"{SCHEME}{name}@{reading.artifact.version}"
    return StagedInput(ref, planned.to, Mode.COPY, size=size, warnings=_copied_instead(planned))


async def _from_host(workspace: Workspace, planned: Planned, source: HostPath, roots: Sequence[Path]) -> StagedInput:
    root, rest = host_place(roots, source.path)
    files = await to_the_end(lambda: HostFiles(root, rest))
    size = 0
    try:
        if files.is_directory:
            await workspace.make_directory(planned.to)
        for name in files.names:
            to = f"{planned.to}/{name}" if name else planned.to
            descriptor, program = files.open(name)
            with opened(descriptor):
                chunks = _read(descriptor)
                size += (await workspace.write(to, chunks, executable=program)).size
    finally:
        files.close()
    left_out = (f"{skipped}; it is left out" for skipped in files.skipped)
    warnings = (*_copied_instead(planned), *left_out)
    return StagedInput(planned.spec.source, planned.to, Mode.COPY, len(files.names), size, warnings)


async def _from_workspace(workspace: Workspace, planned: Planned, source: WorkspacePath) -> StagedInput:
    names = await _names(workspace, source)
    if planned.spec.mode is Mode.LINK:
        if source.path == planned.to:
            raise InvalidArgument("inputs.to", f"{planned.to!r} cannot be a link to itself")
        await workspace.link(planned.to, source.path)
        return StagedInput(planned.spec.source, planned.to, Mode.LINK, len(names))
    size = 0
    for name in names:
        to = f"{planned.to}/{name}" if name else planned.to
        async with workspace.open(f"{source.path}/{name}" if name else source.path) as reading:
            size += (await workspace.write(to, reading.chunks, executable=reading.info.executable)).size
    return StagedInput(planned.spec.source, planned.to, Mode.COPY, len(names), size)


async def _names(workspace: Workspace, source: WorkspacePath) -> list[str]:
    """The paths of the files below a path of the workspace; one empty path when it is a file itself."""
    found = await workspace.list([escaped(source.path), f"{escaped(source.path)}/**"], limit=_MAX_FILES)
    if not found.complete:
        raise LimitExceeded(f"{source.path!r} has more than {_MAX_FILES:,} files; name a smaller directory")
    names = [info.path.removeprefix(source.path).removeprefix("/") for info in found.files]
    if source.skill is not None and source.path == f"{SKILLS}/{source.skill}":
        names = [name for name in names if not name.startswith(f"{VENV}/")]
    return names or await _alone(workspace, source)


async def _alone(workspace: Workspace, source: WorkspacePath) -> list[str]:
    """What no listing shows and what can still be read: a link to a file. Otherwise this says what is missing."""
    if source.skill is not None:
        staged = await workspace.list([f"{SKILLS}/{escaped(source.skill)}/**"], limit=1)
        if not staged.files:
            raise InvalidArgument("inputs.from", f"the skill {source.skill!r} is not in the workspace; load it first")
    try:
        async with workspace.open(source.path):
            return [""]
    except InvalidArgument as error:
        problem = f"{source.path!r} is neither a file nor a directory with files in it"
        raise InvalidArgument("inputs.from", problem) from error


def _copied_instead(planned: Planned) -> tuple[str, ...]:
    if planned.spec.mode is Mode.COPY:
        return ()
    return (f"{planned.spec.source} was copied, not linked: a command must not be able to write to the original",)


async def _read(descriptor: int) -> AsyncGenerator[bytes]:
    while chunk := await to_the_end(lambda: os.read(descriptor, _CHUNK)):
        yield chunk
