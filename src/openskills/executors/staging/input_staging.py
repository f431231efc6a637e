"""Putting inputs into a workspace: written once, for all executors, over what every workspace can do."""

import os
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openskills.artifacts.store import ArtifactStore, Scope
from openskills.artifacts.threads import to_the_end
from openskills.executors.files.openat2 import opened
from openskills.executors.protocol import Workspace
from openskills.executors.staging.input_sources import Sources, names_below, pin_of
from openskills.executors.staging.inputs import Artifact, HostPath, InputSpec, Mode, Planned, WorkspacePath, plan
from openskills.executors.watching import BYTES
from openskills.trace import count, span

Pins = MutableMapping[str, int]
"""Which version of an artifact an input keeps to, by `name -> destination`. The caller keeps it with the session."""

_CHUNK = 1024 * 1024


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

    All sources and destinations are looked at before anything is written: then nothing has been. Raises
    `InvalidArgument` for what is not there, `ForbiddenPath` for what is not allowed to be used, `LimitExceeded` for a
    directory of more than 10,000 files.
    """
    if not specs:
        return []
    with span("workspace.stage.inputs", {"workspace.inputs": len(specs)}) as watched:
        watched.show({"workspace.sources": [spec.source for spec in specs]})
        planned = plan(specs, run_dir=run_dir)
        staged = await _staged(workspace, planned, scope, artifacts, host_roots, pins)
        size = sum(one.size for one in staged)
        watched.set({"workspace.files": sum(one.files for one in staged), "workspace.bytes": size})
    count(BYTES, size, flow="staged")
    return staged


async def _staged(
    workspace: Workspace,
    planned: Sequence[Planned],
    scope: Scope | None,
    artifacts: ArtifactStore | None,
    host_roots: Sequence[Path],
    pins: Pins | None,
) -> list[StagedInput]:
    store = None if artifacts is None or scope is None else (artifacts, scope)
    sources = Sources(workspace, store, host_roots, {} if pins is None else pins)
    await sources.check(planned)
    staged: list[StagedInput] = []
    for one in planned:
        match one.source:
            case Artifact():
                staged.append(await _from_store(workspace, one, one.source, sources, pins))
            case HostPath():
                staged.append(await _from_host(workspace, one, one.source, sources))
            case WorkspacePath():
                staged.append(await _from_workspace(workspace, one, one.source))
    return staged


async def _from_store(
    workspace: Workspace, planned: Planned, source: Artifact, sources: Sources, pins: Pins | None
) -> StagedInput:
    async with sources.artifact(planned, source) as reading:
        await workspace.write(planned.to, reading.chunks)
        artifact = reading.artifact
    if planned.spec.pin and pins is not None:
        pins[pin_of(planned, source)] = artifact.version
    return StagedInput(artifact.ref, planned.to, Mode.COPY, size=artifact.size, warnings=_copied_instead(planned))


async def _from_host(workspace: Workspace, planned: Planned, source: HostPath, sources: Sources) -> StagedInput:
    files = await sources.host_files(source)
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
    names = await names_below(workspace, source)
    if planned.spec.mode is Mode.LINK:
        await workspace.link(planned.to, source.path)
        return StagedInput(planned.spec.source, planned.to, Mode.LINK, len(names))
    size = 0
    for name in names:
        to = f"{planned.to}/{name}" if name else planned.to
        async with workspace.open(f"{source.path}/{name}" if name else source.path) as reading:
            size += (await workspace.write(to, reading.chunks, executable=reading.info.executable)).size
    return StagedInput(planned.spec.source, planned.to, Mode.COPY, len(names), size)


def _copied_instead(planned: Planned) -> tuple[str, ...]:
    if planned.spec.mode is Mode.COPY:
        return ()
    return (f"{planned.spec.source} was copied, not linked: a command must not be able to write to the original",)


async def _read(descriptor: int) -> AsyncGenerator[bytes]:
    while chunk := await to_the_end(lambda: os.read(descriptor, _CHUNK)):
        yield chunk
