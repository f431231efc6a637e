"""Files that a user sends with a message: kept as artifacts, named to the model, found by its commands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.artifacts.store import BINARY, ArtifactStore
from openskills.errors import InvalidArgument
from openskills.executors.files.uploads import upload_name
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, Event

FOLDER = "uploads/"


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


async def keep(session: SkillSession, store: ArtifactStore, files: Sequence[Attachment]) -> list[dict[str, Any]]:
    """Make artifacts of the files that came as bytes; gives what a message keeps of each."""
    kept: list[dict[str, Any]] = []
    for file in files:
        ref = file.ref
        if file.data is not None:
            name = f"{FOLDER}{upload_name(file.name)}"
            ref = (await store.put(session.scope, name, file.data, mime_type=file.mime_type or BINARY)).ref
        kept.append({"name": file.name, "ref": ref, "mime_type": file.mime_type})
    offer(session, kept)
    return kept


def offer(session: SkillSession, kept: Iterable[Mapping[str, Any]]) -> None:
    """Let the commands of a session have these files."""
    for file in kept:
        session.add_reference(str(file["name"]), str(file["ref"]), mime_type=str(file.get("mime_type") or ""))


def in_log(events: Iterable[Event]) -> list[Mapping[str, Any]]:
    """The files of all messages so far."""
    return [
        cast("Mapping[str, Any]", file)
        for event in events
        if event.kind == MESSAGE
        for file in cast("Sequence[object]", event.payload.get("files") or ())
        if isinstance(file, Mapping)
    ]


def said(text: str, files: Sequence[Attachment]) -> str:
    """The message with a line about its files, for the model."""
    if not files:
        return text
    names = ", ".join(upload_name(file.name) for file in files)
    return f"{text}\n\n[attached: {names}; commands find the user's files in work/inputs/]"
