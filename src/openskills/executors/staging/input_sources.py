"""Where inputs come from: artifacts, files of this machine, and what the workspace holds already."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from openskills.artifacts.store import ArtifactStore, Reading, Scope
from openskills.artifacts.threads import to_the_end
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.files.globs import escaped
from openskills.executors.files.host_files import HostFiles, host_place
from openskills.executors.layout import SKILLS, VENV
from openskills.executors.protocol import Workspace
from openskills.executors.staging.inputs import Artifact, HostPath, Planned, WorkspacePath

_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Sources:
    """What inputs may come from. `store` is None where there are no artifacts; `pins` are the versions to keep to."""

    workspace: Workspace
    store: tuple[ArtifactStore, Scope] | None
    host_roots: Sequence[Path]
    pins: Mapping[str, int]

    async def check(self, planned: Sequence[Planned]) -> None:
        """Raise what using one of the inputs would raise, before the first is used.

        What an earlier input puts into the workspace need not be there yet. A source that goes away after this is an
        error when its turn comes.
        """
        for one in planned:
            if isinstance(one.source, HostPath):
                host_place(self.host_roots, one.source.path)
        # Of a single one everything is found out before it is written anyway.
        for number, one in enumerate(planned) if len(planned) > 1 else ():
            await self._look(one, [earlier.to for earlier in planned[:number]])

    def artifact(self, planned: Planned, source: Artifact) -> AbstractAsyncContextManager[Reading]:
        """An artifact, opened in the version that was asked for, or that the input keeps to."""
        if self.store is None:
            raise InvalidArgument("inputs.from", "there are no artifacts here; configure an artifact store")
        artifacts, scope = self.store
        name, version = source.ref
        if version is None and planned.spec.pin:
            version = self.pins.get(pin_of(planned, source))
        return artifacts.open(scope, name, version)

    async def host_files(self, source: HostPath) -> HostFiles:
        """What lies at a path of this machine. The caller closes it."""
        root, rest = host_place(self.host_roots, source.path)
        return await to_the_end(lambda: HostFiles(root, rest))

    async def _look(self, planned: Planned, coming: Sequence[str]) -> None:
        match planned.source:
            case Artifact():
                async with self.artifact(planned, planned.source):
                    pass
            case HostPath():
                (await self.host_files(planned.source)).close()
            case WorkspacePath(path=path):
                if not any(f"{path}/".startswith(f"{to}/") or f"{to}/".startswith(f"{path}/") for to in coming):
                    await names_below(self.workspace, planned.source)


def pin_of(planned: Planned, source: Artifact) -> str:
    """Under what an input's version is kept: `name -> destination`."""
    return f"{source.ref.name} -> {planned.to}"


async def names_below(workspace: Workspace, source: WorkspacePath) -> list[str]:
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
