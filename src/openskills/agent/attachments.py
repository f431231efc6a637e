"""Files that a user sends with a message: kept as artifacts, named to the model, found by its commands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

from openskills.artifacts.store import BINARY, ArtifactStore
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.layout import INPUTS
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, Event
from openskills.tools.profiles import KNOWLEDGE

FOLDER = "uploads/"
_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file with a message: its bytes, or a `ref`: `artifact://name`, or an id for `SessionOptions.download`."""

    name: str
    data: bytes | None = field(default=None, repr=False)
    ref: str = ""
    mime_type: str = ""

    def __post_init__(self) -> None:
        if (self.data is None) == (not self.ref):
            raise InvalidArgument("files", f"{self.name[:80]!r} needs data or a ref, one of them")


async def keep(
    session: SkillSession, store: ArtifactStore, files: Sequence[Attachment], events: Sequence[Event] = ()
) -> list[dict[str, Any]]:
    """Make artifacts of the files that came as bytes; gives what a message keeps of each.

    Its `path` is where commands will find it: a name that no other file of the conversation has, and that nothing has
    which commands have put there. `events` are the conversation so far.
    """
    kept: list[dict[str, Any]] = []
    taken = set(await _written(session)) if files and _ran(events) else set[str]()
    for file in files:
        name = session.free_file_name(file.name, taken)
        # One that is over the limits is not among the session's files, and has its name all the same.
        taken.add(name)
        ref = file.ref
        if file.data is not None:
            mime = file.mime_type or BINARY
            ref = (await store.put(session.scope, f"{FOLDER}{name}", file.data, mime_type=mime)).ref
        one = {"name": file.name, "ref": ref, "mime_type": file.mime_type, "path": f"{INPUTS}/{name}"}
        offer(session, [one])
        kept.append(one)
    return kept


def offer(session: SkillSession, kept: Iterable[Mapping[str, Any]]) -> None:
    """Let the commands of a session have these files."""
    for file in kept:
        session.add_reference(found_as(file), str(file["ref"]), mime_type=str(file.get("mime_type") or ""))


def found_as(file: Mapping[str, Any]) -> str:
    """The name by which commands find a file that a message keeps."""
    return PurePosixPath(str(file.get("path") or "")).name or str(file["name"])


def in_log(events: Iterable[Event]) -> list[Mapping[str, Any]]:
    """The files of all messages so far."""
    return [
        cast("Mapping[str, Any]", file)
        for event in events
        if event.kind == MESSAGE
        for file in cast("Sequence[object]", event.payload.get("files") or ())
        if isinstance(file, Mapping)
    ]


def _ran(events: Iterable[Event]) -> bool:
    """Whether anything may have been written into the workspace: otherwise it is not worth opening."""
    return any(event.kind == TOOL_RESPONSE and event.payload.get("tool") not in KNOWLEDGE for event in events)


async def _written(session: SkillSession) -> Sequence[str]:
    """The names in the folder of the user's files; none where there is no workspace."""
    if not session.runs_commands:
        return ()
    try:
        found = await (await session.bench()).workspace.list([f"{INPUTS}/*"], limit=_LISTED)
    except SkillError:
        # What is wrong with it is told when a command is to be run.
        return ()
    return [PurePosixPath(file.path).name for file in found.files]
