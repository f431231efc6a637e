"""Stage input files in a workspace before a run, from artifacts, host files and the workspace; for all executors."""

import os
from collections.abc import AsyncGenerator, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from openskills.arguments import check_arguments
from openskills.artifacts.store import USER_PREFIX, ArtifactReader, ArtifactRef, ArtifactStore, Scope, parse_ref
from openskills.concurrency import run_in_thread
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.files.descriptors import auto_close
from openskills.executors.files.globs import escape_glob
from openskills.executors.files.tree import HostFiles, find_host_root
from openskills.executors.protocol import Workspace
from openskills.executors.spans import BYTES
from openskills.executors.spec import INPUTS, SKILLS, VENV, check_writable_path, expand_path, normalize_path
from openskills.executors.staging.snapshots import check_skill_name
from openskills.paths import parse_relative
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import span

_KEYS = ("from", "to", "mode", "pin")


class InputMode(StrEnum):
    """How an input is put into the workspace."""

    COPY = "copy"
    LINK = "link"


@check_arguments
@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: `artifact://name[@version]`, `host:///path`, `workspace://path` or `skill://name/path`.

    `to` is a path in the workspace; by default `work/inputs/` and the last part of the source. `pin` always uses the
    version of an artifact that was found the first time.
    """

    source: str
    to: str | None = None
    mode: InputMode = InputMode.COPY
    pin: bool = False

    @classmethod
    def parse(cls, value: Mapping[str, object]) -> "InputSpec":
        """Parse arguments of a model: `from`, `to`, `mode` and `pin`, in any case. Raises `InvalidArgument`."""
        given = {key.lower(): one for key, one in value.items()}
        for key in given:
            if key not in _KEYS:
                raise InvalidArgument("inputs", f"unknown key {key[:80]!r}; expected one of {', '.join(_KEYS)}")
        source, to = _read_text(given, "from"), _read_text(given, "to")
        if not source:
            raise InvalidArgument("inputs.from", "is required; use one such as artifact://data.csv")
        pin = given.get("pin") or False
        if not isinstance(pin, bool):
            raise InvalidArgument("inputs.pin", f"expected true or false, got {type(pin).__name__}")
        mode = _read_text(given, "mode")
        try:
            return cls(source, to or None, InputMode(mode.lower() or InputMode.COPY), pin)
        except ValueError:
            raise InvalidArgument("inputs.mode", f"invalid mode {mode[:40]!r}; use copy or link") from None


@dataclass(frozen=True, slots=True)
class WorkspaceInput:
    """An input that is already in the workspace; `skill` is the one it belongs to."""

    path: str
    skill: str | None = None


InputSource = ArtifactRef | PurePosixPath | WorkspaceInput
"""An artifact, the absolute path of a file or directory on the host, or a path in the workspace."""


@dataclass(frozen=True, slots=True)
class InputPlan:
    """An input whose source and destination have been checked."""

    spec: InputSpec
    source: InputSource
    to: str


def plan_inputs(specs: Sequence[InputSpec], *, run_dir: str | None = None) -> list[InputPlan]:
    """Check the source and destination of each input, without touching anything.

    Raises `InvalidArgument` for an invalid source, a link to itself, or two inputs with one destination,
    `ForbiddenPath` for a destination outside of `work/`, `out/` and `runs/`.
    """
    planned: dict[str, InputPlan] = {}
    for spec in specs:
        source, base = _parse_source(spec.source, run_dir)
        to = _resolve_destination(spec.to, base, run_dir)
        if to in planned:
            raise InvalidArgument(
                "inputs.to", f"{planned[to].spec.source} and {spec.source} have the same destination {to!r}"
            )
        if spec.mode is InputMode.LINK and isinstance(source, WorkspaceInput) and source.path == to:
            raise InvalidArgument("inputs.to", f"{to!r} cannot be a link to itself")
        planned[to] = InputPlan(spec, source, to)
    return list(planned.values())


def _parse_source(text: str, run_dir: str | None) -> tuple[InputSource, str]:
    """The source, and its base name."""
    scheme, found, rest = text.partition("://")
    field = "inputs.from"
    if not found or scheme.lower() not in ("artifact", "host", "workspace", "skill"):
        schemes = "artifact://name, host:///path, workspace://path or skill://name/path"
        raise InvalidArgument(field, f"unsupported source {text[:200]!r}; use {schemes}")
    match scheme.lower():
        case "artifact":
            ref = parse_ref(f"artifact://{rest}", field=field)
            return ref, PurePosixPath(ref.name.removeprefix(USER_PREFIX)).name
        case "host":
            if not rest.startswith("/"):
                raise InvalidArgument(field, f"{text!r} is not absolute; use host:///path with three slashes")
            path = PurePosixPath("/") / parse_relative(rest.lstrip("/"), field=field)
            return path, path.name
        case "workspace":
            where = normalize_path(expand_path(rest, run_dir=run_dir, field=field), field=field)
            return WorkspaceInput(where), PurePosixPath(where).name
        case _:
            parts = parse_relative(rest, field=field).parts
            skill = check_skill_name(parts[0])
            return WorkspaceInput(normalize_path("/".join((SKILLS, *parts)), field=field), skill), parts[-1]


def _resolve_destination(to: str | None, base: str, run_dir: str | None) -> str:
    field = "inputs.to"
    where = expand_path(to, run_dir=run_dir, field=field) if to else ""
    if where.strip("/") in ("", ".", "inputs", INPUTS) and not where.startswith("/"):
        where = f"{INPUTS}/{base}"
    elif where.endswith("/"):
        where += base
    return check_writable_path(where, field=field)


def _read_text(given: Mapping[str, object], key: str) -> str:
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument(f"inputs.{key}", f"expected a string, got {type(value).__name__}")
    return value.strip() if key == "mode" else value


_MAX_FILES = 10_000

Pins = MutableMapping[str, int]
"""The pinned artifact versions, by `name -> destination`. The caller stores them with the session."""


@dataclass(frozen=True, slots=True)
class InputSources:
    """Where inputs may come from. `store` is None without artifacts; `pins` are the pinned versions."""

    workspace: Workspace
    store: tuple[ArtifactStore, Scope] | None
    host_roots: Sequence[Path]
    pins: Pins

    async def check(self, planned: Sequence[InputPlan]) -> None:
        """Raise the error of any input before the first is staged. Files of earlier inputs need not exist yet."""
        for one in planned:
            if isinstance(one.source, PurePosixPath):
                find_host_root(self.host_roots, one.source)
        # A single input is checked anyway before it is written.
        for number, one in enumerate(planned) if len(planned) > 1 else ():
            await self._check_input(one, [earlier.to for earlier in planned[:number]])

    def open_artifact(self, planned: InputPlan, ref: ArtifactRef) -> AbstractAsyncContextManager[ArtifactReader]:
        """Open an artifact in the requested or pinned version."""
        if self.store is None:
            raise InvalidArgument("inputs.from", "artifacts are not available; configure an artifact store")
        artifacts, scope = self.store
        name, version = ref
        if version is None and planned.spec.pin:
            version = self.pins.get(build_pin_key(planned, ref))
        return artifacts.open(scope, name, version)

    async def open_host_files(self, path: PurePosixPath) -> HostFiles:
        """Open the files at a host path. The caller closes them."""
        root, rest = find_host_root(self.host_roots, path)
        return await run_in_thread(lambda: HostFiles(root, rest))

    async def _check_input(self, planned: InputPlan, coming: Sequence[str]) -> None:
        match planned.source:
            case ArtifactRef():
                async with self.open_artifact(planned, planned.source):
                    pass
            case PurePosixPath():
                (await self.open_host_files(planned.source)).close()
            case WorkspaceInput(path=path):
                if not any(f"{path}/".startswith(f"{to}/") or f"{to}/".startswith(f"{path}/") for to in coming):
                    await list_input_files(self.workspace, planned.source)


def build_pin_key(planned: InputPlan, ref: ArtifactRef) -> str:
    """The key of an input's pinned version: `name -> destination`."""
    return f"{ref.name} -> {planned.to}"


async def list_input_files(workspace: Workspace, source: WorkspaceInput) -> list[str]:
    """The relative paths of the files below a path of the workspace; one empty path if it is a file itself."""
    found = await workspace.list([escape_glob(source.path), f"{escape_glob(source.path)}/**"], limit=_MAX_FILES)
    if not found.complete:
        raise LimitExceeded(f"{source.path!r} has more than {_MAX_FILES:,} files; use a smaller directory")
    names = [info.path.removeprefix(source.path).removeprefix("/") for info in found.files]
    if source.skill is not None and source.path == f"{SKILLS}/{source.skill}":
        names = [name for name in names if not name.startswith(f"{VENV}/")]
    if names:
        return names
    # A link to a file is not listed, but can be read.
    if source.skill is not None:
        staged = await workspace.list([f"{SKILLS}/{escape_glob(source.skill)}/**"], limit=1)
        if not staged.files:
            raise InvalidArgument("inputs.from", f"skill {source.skill!r} is not in the workspace; load it first")
    try:
        async with workspace.open(source.path):
            return [""]
    except InvalidArgument as error:
        problem = f"{source.path!r} is neither a file nor a directory with files"
        raise InvalidArgument("inputs.from", problem) from error


_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StagedInput:
    """A staged input. `source` includes the version of an artifact; `mode` is what was actually done."""

    source: str
    to: str
    mode: InputMode
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
    """Stage every input, in order. All sources and destinations are checked before anything is written.

    Raises `InvalidArgument` for missing sources, `ForbiddenPath` for forbidden ones, `LimitExceeded` for a directory of
    more than 10,000 files.
    """
    with span("workspace.stage.inputs", {"workspace.inputs": len(specs)}) as watched:
        watched.show({"workspace.sources": [spec.source for spec in specs]})
        planned = plan_inputs(specs, run_dir=run_dir)
        store = None if artifacts is None or scope is None else (artifacts, scope)
        sources = InputSources(workspace, store, host_roots, {} if pins is None else pins)
        await sources.check(planned)
        staged: list[StagedInput] = []
        for one in planned:
            match one.source:
                case ArtifactRef():
                    staged.append(await _stage_artifact(one, one.source, sources))
                case PurePosixPath():
                    staged.append(await _stage_host_files(one, one.source, sources))
                case WorkspaceInput():
                    staged.append(await _stage_workspace_files(workspace, one, one.source))
        size = sum(one.size for one in staged)
        watched.set({"workspace.files": sum(one.files for one in staged), "workspace.bytes": size})
    count(BYTES, size, flow="staged")
    return staged


async def _stage_artifact(planned: InputPlan, ref: ArtifactRef, sources: InputSources) -> StagedInput:
    async with sources.open_artifact(planned, ref) as reading:
        await sources.workspace.write(planned.to, reading.chunks)
        artifact = reading.artifact
    if planned.spec.pin:
        sources.pins[build_pin_key(planned, ref)] = artifact.version
    return StagedInput(artifact.ref, planned.to, InputMode.COPY, size=artifact.size, warnings=_warn_if_copied(planned))


async def _stage_host_files(planned: InputPlan, path: PurePosixPath, sources: InputSources) -> StagedInput:
    workspace = sources.workspace
    files = await sources.open_host_files(path)
    size = 0
    try:
        if files.is_directory:
            await workspace.make_directory(planned.to)
        for name in files.names:
            to = f"{planned.to}/{name}" if name else planned.to
            descriptor, program = files.open(name)
            with auto_close(descriptor):
                size += (await workspace.write(to, _read_chunks(descriptor), executable=program)).size
    finally:
        files.close()
    warnings = (*_warn_if_copied(planned), *(f"skipped: {skipped}" for skipped in files.skipped))
    return StagedInput(planned.spec.source, planned.to, InputMode.COPY, len(files.names), size, warnings)


async def _stage_workspace_files(workspace: Workspace, planned: InputPlan, source: WorkspaceInput) -> StagedInput:
    names = await list_input_files(workspace, source)
    if planned.spec.mode is InputMode.LINK:
        await workspace.link(planned.to, source.path)
        return StagedInput(planned.spec.source, planned.to, InputMode.LINK, len(names))
    size = 0
    for name in names:
        to = f"{planned.to}/{name}" if name else planned.to
        async with workspace.open(f"{source.path}/{name}" if name else source.path) as reading:
            size += (await workspace.write(to, reading.chunks, executable=reading.info.executable)).size
    return StagedInput(planned.spec.source, planned.to, InputMode.COPY, len(names), size)


def _warn_if_copied(planned: InputPlan) -> tuple[str, ...]:
    if planned.spec.mode is InputMode.COPY:
        return ()
    return (f"{planned.spec.source} was copied, not linked: commands must not be able to write to the original",)


async def _read_chunks(descriptor: int) -> AsyncGenerator[bytes]:
    while chunk := await run_in_thread(lambda: os.read(descriptor, _CHUNK)):
        yield chunk
