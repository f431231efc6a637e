"""What a model writes for a file.

What a model wrote where a file is wanted: the one place where it becomes a file of something. Pure.

What to say when a file is not there: the names that are near it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeAlias

from openskills.artifacts.store import parse_ref
from openskills.catalog.skill import SKILL_FILE, Skill
from openskills.concurrency import run_in_thread
from openskills.errors import ForbiddenPath, InvalidArgument, SkillError
from openskills.executors.files.globs import escape_glob
from openskills.executors.protocol import Workspace
from openskills.executors.spec import INPUTS, SKILLS, TOP_DIRECTORIES, WRITABLE, expand_path, normalize_path
from openskills.paths import MAX_PATH, parse_relative, to_printable
from openskills.tools.tool import ToolContext

FILE_FORMS = "a path such as out/report.md, workspace://path, artifact://name[@version] or skill://name/path"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_MAX_EXCERPT_CHARS = 200
_MAX_REF_CHARS = MAX_PATH + 256
"""A path, with a scheme and the name of a skill before it."""


class FileKind(StrEnum):
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
    def display_name(self) -> str:
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
    def display_name(self) -> str:
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
    def display_name(self) -> str:
        """As short as it can be given to a tool: the reference."""
        return self.ref


FileRef: TypeAlias = WorkspaceFile | ArtifactFile | SkillFile


def is_absolute(text: str) -> bool:
    """Whether only who knows the workspace's root can say what this is."""
    return text.startswith("/")


def parse_file_ref(text: str, *, root: str | None = None, field: str = "file_name") -> FileRef:
    """The file that is meant. `root` is the workspace as its commands see it, for absolute paths.

    A plain path is one in the workspace (`out/x`, `inputs/x`, `$OUTPUT_DIR/x`). `skill://name` is its SKILL.md. Raises
    `ForbiddenPath` for what leaves, `InvalidArgument` for what is no file, both with what to write instead.
    """
    kind, rest = split_file_ref(text, root=root, field=field)
    if kind is not FileKind.ARTIFACT and ".." in rest.split("/"):
        raise ForbiddenPath(f"{field}: {_excerpt(text)} climbs out with '..'; write {FILE_FORMS}")
    match kind:
        case FileKind.ARTIFACT:
            name, version = parse_ref(f"artifact://{rest}", field=field)
            return ArtifactFile(name, version)
        case FileKind.SKILL:
            skill, path = split_skill_ref(rest, field=field)
            return SkillFile(skill, str(parse_relative(path or SKILL_FILE, field=field)))
        case FileKind.WORKSPACE:
            return WorkspaceFile(normalize_path(rest, field=field))


def split_file_ref(text: str, *, root: str | None = None, field: str) -> tuple[FileKind, str]:
    """What a path or pattern belongs to, and the rest of it: for the workspace, relative to it, maybe empty.

    Raises `ForbiddenPath` for an absolute path that is not below `root` and for files of the host, `InvalidArgument`
    for other schemes, for an empty text, and for what is no text.
    """
    if not text.strip():
        raise InvalidArgument(field, f"is empty; write {FILE_FORMS}")
    try:
        text.encode()
    except UnicodeEncodeError:
        # No answer could name such a file either: it would be no text.
        raise InvalidArgument(field, f"{_excerpt(text)} contains half a character (a lone surrogate)") from None
    if len(text) > _MAX_REF_CHARS and not is_absolute(text):
        raise InvalidArgument(field, f"{_excerpt(text)} has {len(text):,} characters, which is too long")
    match = _SCHEME.match(text)
    if match is None:
        return FileKind.WORKSPACE, _relative_to_root(text, root, field) if is_absolute(text) else expand_path(
            text, field=field
        )
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "host":
        raise ForbiddenPath(
            f"{field}: {_excerpt(text)} is a file of the host, which no file tool reads;"
            " name it in `inputs` of skill_run, then read it in work/inputs/"
        )
    if scheme not in tuple(FileKind):
        raise InvalidArgument(field, f"{_excerpt(text)} is of an unknown kind; write {FILE_FORMS}")
    if scheme != FileKind.WORKSPACE:
        return FileKind(scheme), rest
    if is_absolute(rest):
        raise ForbiddenPath(
            f"{field}: {_excerpt(text)} is absolute; write workspace://{rest.lstrip('/')[:_MAX_EXCERPT_CHARS]}"
        )
    return FileKind.WORKSPACE, expand_path(rest, field=field)


def split_skill_ref(rest: str, *, field: str) -> tuple[str, str]:
    """The two parts of `skill://name/path`; the path may be empty."""
    skill, _, path = rest.partition("/")
    if not skill:
        raise InvalidArgument(field, "names no skill; write skill://name/path")
    return skill, path


def _relative_to_root(text: str, root: str | None, field: str) -> str:
    """An absolute path relative to the workspace."""
    path = re.sub(r"/+", "/", text)
    base = root.rstrip("/") if root else None
    if base is not None and (path == base or path.startswith(f"{base}/")):
        return path[len(base) :].lstrip("/")
    guess = path.lstrip("/")
    if guess.partition("/")[0] in (*TOP_DIRECTORIES, "inputs"):
        raise ForbiddenPath(f"{field}: {_excerpt(text)} is not in the workspace; write {_excerpt(guess)}")
    raise ForbiddenPath(f"{field}: {_excerpt(text)} is not in the workspace; write {FILE_FORMS}")


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _MAX_EXCERPT_CHARS else f"{text[:_MAX_EXCERPT_CHARS]}…")


MAX_NAMES = 6
_MAX_LISTED = 2_000
_SIMILARITY = 0.6


async def build_workspace_file_error(
    context: ToolContext,
    workspace: Workspace,
    path: str,
    error: InvalidArgument,
    field: str,
    missing: Sequence[str] = (),
) -> InvalidArgument:
    """The error for a path that could not be opened, with what may have been meant; `missing` are files of the
    conversation that could not be had, and why."""
    said = error.message.removeprefix(f"{error.field}: ")
    if missing and path.startswith(f"{INPUTS}/"):
        said = "; ".join([said, *missing])
    if (await workspace.list([f"{escape_glob(path)}/**"], limit=1)).files:
        return InvalidArgument(field, f"{path!r} is a directory; list_files with {path + '/**'!r} shows its files")
    elsewhere = [*await _find_same_name(workspace, path), *await run_in_thread(lambda: _find_in_skills(context, path))]
    if elsewhere:
        return InvalidArgument(field, f"{said}; did you mean {_join_choices(elsewhere[:MAX_NAMES])}?")
    return InvalidArgument(field, f"{said}; {await _suggest_nearby(workspace, path)}")


async def build_skill_file_error(skill: Skill, path: str, error: OSError, field: str) -> InvalidArgument:
    """The error for a file of a skill that could not be opened."""
    known = await run_in_thread(lambda: [SKILL_FILE, *(resource.path for resource in skill.resources())])
    if path in known:
        return InvalidArgument(field, f"{path!r} of {skill.name!r} cannot be read: {error.strerror or error}")
    same = [one for one in known if one.rpartition("/")[2] == path.rpartition("/")[2]]
    near = (same or get_close_matches(path, known, n=MAX_NAMES, cutoff=_SIMILARITY))[:MAX_NAMES]
    if near:
        meant = _join_choices([f"skill://{skill.name}/{one}" for one in near])
        return InvalidArgument(field, f"the skill {skill.name!r} has no {path!r}; did you mean {meant}?")
    return InvalidArgument(field, f"the skill {skill.name!r} has no {path!r}; it has {format_names(known)}")


def build_artifact_error(name: str, known: Sequence[str], error: InvalidArgument, field: str) -> InvalidArgument:
    """The error for an artifact that is not there; `known` are the names of those that are."""
    said = error.message.removeprefix(f"{error.field}: ")
    if name in known:
        return InvalidArgument(field, said)
    near = get_close_matches(name, known, n=MAX_NAMES, cutoff=_SIMILARITY)
    if near:
        return InvalidArgument(field, f"{said}; did you mean {_join_choices([f'artifact://{one}' for one in near])}?")
    return InvalidArgument(field, f"{said}; " + (f"there are {format_names(known)}" if known else "there are none yet"))


def format_names(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(map(to_printable, names[:MAX_NAMES])) + (f" and {more:,} more" if more > 0 else "")


async def _find_same_name(workspace: Workspace, path: str) -> list[str]:
    """Files of the same name elsewhere, outside of skills."""
    name = escape_glob(path.rpartition("/")[2])
    found = await workspace.list([f"{top}/**/{name}" for top in WRITABLE], limit=MAX_NAMES)
    return [info.path for info in found.files]


def _find_in_skills(context: ToolContext, path: str) -> list[str]:
    """The same path in the folders of loaded skills: their texts name files like that."""
    found: list[str] = []
    for name in context.view().list_loaded():
        try:
            resources = context.skills.get(name).resources()
        except SkillError:
            continue
        found += [f"skill://{name}/{path}" for resource in resources if resource.path == path]
    return found


async def _suggest_nearby(workspace: Workspace, path: str) -> str:
    """What is in the nearest directory above that has something in it."""
    parent, _, name = path.rpartition("/")
    while parent:
        found = await workspace.list([f"{escape_glob(parent)}/**"], limit=_MAX_LISTED)
        names = _list_children(parent, (info.path for info in found.files))
        if names:
            near = get_close_matches(name, names, n=MAX_NAMES, cutoff=_SIMILARITY)
            if near:
                return f"did you mean {_join_choices([f'{parent}/{one}' for one in near])}?"
            return f"{parent}/ has {format_names(names)}"
        parent, _, name = parent.rpartition("/")
    top = path.partition("/")[0]
    if top in TOP_DIRECTORIES and top != SKILLS:
        return f"{top}/ is empty"
    places = ", ".join(f"{one}/" for one in TOP_DIRECTORIES)
    return f"the workspace has {places} and files of skills are skill://name/path"


def _list_children(parent: str, paths: Iterable[str]) -> list[str]:
    """The names directly below a directory, those of directories with a slash."""
    below = (path.removeprefix(f"{parent}/").partition("/") for path in paths)
    return sorted({name + slash for name, slash, _ in below})


def _join_choices(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)
