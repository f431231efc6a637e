"""What a model wrote where a file is wanted: the one place where it becomes a file of something. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from openskills.artifacts.ref import parse_ref
from openskills.catalog.skillfile import SKILL_FILE
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.places import place
from openskills.executors.layout import TOP, expanded
from openskills.paths import MAX_PATH, relative

WANTED = "a path such as out/report.md, workspace://path, artifact://name[@version] or skill://name/path"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SHOWN = 200
_LONGEST = MAX_PATH + 256
"""A path, with a scheme and the name of a skill before it."""


class Kind(StrEnum):
    """What a file belongs to."""

    WORKSPACE = "workspace"
    ARTIFACT = "artifact"
    SKILL = "skill"


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A path in the session's workspace, in its one spelling."""

    path: str

    @property
    def ref(self) -> str:
        """`workspace://path`."""
        return f"workspace://{self.path}"

    @property
    def shown(self) -> str:
        """As short as it can be given to a tool: the path."""
        return self.path


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """An artifact of the session; no version means the latest."""

    name: str
    version: int | None = None

    @property
    def ref(self) -> str:
        """`artifact://name@version`, or without the version."""
        return f"artifact://{self.name}" + ("" if self.version is None else f"@{self.version}")

    @property
    def shown(self) -> str:
        """As short as it can be given to a tool: the reference."""
        return self.ref


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file in the folder of a skill, as the catalog has it."""

    skill: str
    path: str

    @property
    def ref(self) -> str:
        """`skill://name/path`."""
        return f"skill://{self.skill}/{self.path}"

    @property
    def shown(self) -> str:
        """As short as it can be given to a tool: the reference."""
        return self.ref


FileRef: TypeAlias = WorkspaceFile | ArtifactFile | SkillFile


def is_absolute(text: str) -> bool:
    """Whether only who knows the workspace's root can say what this is."""
    return text.startswith("/")


def parse_file(text: str, *, root: str | None = None, field: str = "file_name") -> FileRef:
    """The file that is meant. `root` is the workspace as its commands see it, for absolute paths.

    A plain path is one in the workspace (`out/x`, `inputs/x`, `$OUTPUT_DIR/x`). `skill://name` is its SKILL.md. Raises
    `ForbiddenPath` for what leaves, `InvalidArgument` for what is no file, both with what to write instead.
    """
    kind, rest = split(text, root=root, field=field)
    if kind is not Kind.ARTIFACT and ".." in rest.split("/"):
        raise ForbiddenPath(f"{field}: {_cut(text)} climbs out with '..'; write {WANTED}")
    match kind:
        case Kind.ARTIFACT:
            name, version = parse_ref(f"artifact://{rest}", field=field)
            return ArtifactFile(name, version)
        case Kind.SKILL:
            skill, path = skill_and_path(rest, field=field)
            return SkillFile(skill, str(relative(path or SKILL_FILE, field=field)))
        case Kind.WORKSPACE:
            return WorkspaceFile(place(rest, field=field))


def split(text: str, *, root: str | None = None, field: str) -> tuple[Kind, str]:
    """What a path or pattern belongs to, and the rest of it: for the workspace, relative to it, maybe empty.

    Raises `ForbiddenPath` for an absolute path that is not below `root` and for files of the host, `InvalidArgument`
    for other schemes, for an empty text, and for what is no text.
    """
    if not text.strip():
        raise InvalidArgument(field, f"is empty; write {WANTED}")
    try:
        text.encode()
    except UnicodeEncodeError:
        # No answer could name such a file either: it would be no text.
        raise InvalidArgument(field, f"{_cut(text)} contains half a character (a lone surrogate)") from None
    if len(text) > _LONGEST and not is_absolute(text):
        raise InvalidArgument(field, f"{_cut(text)} has {len(text):,} characters, which is too long")
    match = _SCHEME.match(text)
    if match is None:
        return Kind.WORKSPACE, _below(text, root, field) if is_absolute(text) else expanded(text, field=field)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "host":
        raise ForbiddenPath(
            f"{field}: {_cut(text)} is a file of the host, which no file tool reads;"
            " name it in `inputs` of skill_run, then read it in work/inputs/"
        )
    if scheme not in tuple(Kind):
        raise InvalidArgument(field, f"{_cut(text)} is of an unknown kind; write {WANTED}")
    if scheme != Kind.WORKSPACE:
        return Kind(scheme), rest
    if is_absolute(rest):
        raise ForbiddenPath(f"{field}: {_cut(text)} is absolute; write workspace://{rest.lstrip('/')[:_SHOWN]}")
    return Kind.WORKSPACE, expanded(rest, field=field)


def skill_and_path(rest: str, *, field: str) -> tuple[str, str]:
    """The two parts of `skill://name/path`; the path may be empty."""
    skill, _, path = rest.partition("/")
    if not skill:
        raise InvalidArgument(field, "names no skill; write skill://name/path")
    return skill, path


def _below(text: str, root: str | None, field: str) -> str:
    """An absolute path relative to the workspace."""
    path = re.sub(r"/+", "/", text)
    base = root.rstrip("/") if root else None
    if base is not None and (path == base or path.startswith(f"{base}/")):
        return path[len(base) :].lstrip("/")
    guess = path.lstrip("/")
    if guess.partition("/")[0] in (*TOP, "inputs"):
        raise ForbiddenPath(f"{field}: {_cut(text)} is not in the workspace; write {_cut(guess)}")
    raise ForbiddenPath(f"{field}: {_cut(text)} is not in the workspace; write {WANTED}")


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
