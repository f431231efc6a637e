"""File references of models (`out/x`, `workspace://`, `artifact://`, `skill://`), and suggestions for wrong ones."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeAlias

from openskills.artifacts.store import parse_ref
from openskills.catalog.skill import SKILL_FILE, Skill
from openskills.concurrency import run_in_thread
from openskills.errors import ForbiddenPath, InvalidArgument, SkillError, shorten
from openskills.executors.files.globs import escape_glob
from openskills.executors.protocol import Workspace
from openskills.executors.spec import INPUTS, SKILLS, TOP_DIRECTORIES, WRITABLE, expand_path, normalize_path
from openskills.paths import MAX_PATH, parse_relative, to_printable
from openskills.tools.tool import ToolContext

FILE_FORMS = "a path such as out/report.md, workspace://path, artifact://name[@version] or skill://name/path"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_MAX_EXCERPT_CHARS = 200
_MAX_REF_CHARS = MAX_PATH + 256  # a path after a scheme and the name of a skill


class FileKind(StrEnum):
    """Where a file is."""

    WORKSPACE = "workspace"
    ARTIFACT = "artifact"
    SKILL = "skill"


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A normalized path in the session's workspace."""

    path: str

    @property
    def ref(self) -> str:
        """`workspace://path`."""
        return f"workspace://{self.path}"

    @property
    def display_name(self) -> str:
        """The shortest form that tools accept: the path."""
        return self.path


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """An artifact of the session; without a version, the latest."""

    name: str
    version: int | None = None

    @property
    def ref(self) -> str:
        """`artifact://name@version`, or without the version."""
        return f"artifact://{self.name}" + ("" if self.version is None else f"@{self.version}")

    @property
    def display_name(self) -> str:
        """The shortest form that tools accept: the reference."""
        return self.ref


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file in the folder of a skill."""

    skill: str
    path: str

    @property
    def ref(self) -> str:
        """`skill://name/path`."""
        return f"skill://{self.skill}/{self.path}"

    @property
    def display_name(self) -> str:
        """The shortest form that tools accept: the reference."""
        return self.ref


FileRef: TypeAlias = WorkspaceFile | ArtifactFile | SkillFile


def parse_file_ref(text: str, *, root: str | None = None, field: str = "file_name") -> FileRef:
    """Parse a file reference. `root` is the workspace as its commands see it, for absolute paths.

    A plain path is in the workspace (`out/x`, `inputs/x`, `$OUTPUT_DIR/x`). `skill://name` is its SKILL.md. Raises
    `ForbiddenPath` for paths that leave, `InvalidArgument` for other invalid references, with what to write instead.
    """
    kind, rest = split_file_ref(text, root=root, field=field)
    if kind is not FileKind.ARTIFACT and ".." in rest.split("/"):
        raise ForbiddenPath(f"{field}: '..' is not allowed in {_excerpt(text)}; write {FILE_FORMS}")
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
    """Split a path or pattern into its kind and the rest, which may be empty.

    Raises `ForbiddenPath` for an absolute path that is not below `root` and for files of the host, `InvalidArgument`
    for other schemes, empty text and lone surrogates.
    """
    if not text.strip():
        raise InvalidArgument(field, f"is empty; write {FILE_FORMS}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{_excerpt(text)} contains a lone surrogate") from None
    if len(text) > _MAX_REF_CHARS and not text.startswith("/"):
        raise InvalidArgument(field, f"{_excerpt(text)} is too long: {len(text):,} characters")
    match = _SCHEME.match(text)
    if match is None:
        return FileKind.WORKSPACE, _relative_to_root(text, root, field) if text.startswith("/") else expand_path(
            text, field=field
        )
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "host":
        raise ForbiddenPath(
            f"{field}: {_excerpt(text)} is a file of the host, which file tools cannot read;"
            " name it in `inputs` of skill_run, then read it in work/inputs/"
        )
    if scheme not in tuple(FileKind):
        raise InvalidArgument(field, f"unknown scheme in {_excerpt(text)}; write {FILE_FORMS}")
    if scheme != FileKind.WORKSPACE:
        return FileKind(scheme), rest
    if rest.startswith("/"):
        raise ForbiddenPath(
            f"{field}: {_excerpt(text)} is absolute; write workspace://{rest.lstrip('/')[:_MAX_EXCERPT_CHARS]}"
        )
    return FileKind.WORKSPACE, expand_path(rest, field=field)


def split_skill_ref(rest: str, *, field: str) -> tuple[str, str]:
    """Split the rest of `skill://name/path`; the path may be empty."""
    skill, _, path = rest.partition("/")
    if not skill:
        raise InvalidArgument(field, "the name of the skill is missing; write skill://name/path")
    return skill, path


def _relative_to_root(text: str, root: str | None, field: str) -> str:
    path = re.sub(r"/+", "/", text)
    base = root.rstrip("/") if root else None
    if base is not None and (path == base or path.startswith(f"{base}/")):
        return path[len(base) :].lstrip("/")
    guess = path.lstrip("/")
    hint = _excerpt(guess) if guess.partition("/")[0] in (*TOP_DIRECTORIES, "inputs") else FILE_FORMS
    raise ForbiddenPath(f"{field}: {_excerpt(text)} is not in the workspace; write {hint}")


def _excerpt(text: str) -> str:
    return repr(shorten(text, _MAX_EXCERPT_CHARS))


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
    """The error for a path that cannot be opened, with suggestions; `missing` are files of the user that could not be
    staged, and why."""
    said = error.message.removeprefix(f"{error.field}: ")
    if missing and path.startswith(f"{INPUTS}/"):
        said = "; ".join([said, *missing])
    if (await workspace.list([f"{escape_glob(path)}/**"], limit=1)).files:
        return InvalidArgument(field, f"{path!r} is a directory; list its files with list_files and {path + '/**'!r}")
    elsewhere = [*await _find_same_name(workspace, path), *await run_in_thread(lambda: _find_in_skills(context, path))]
    if elsewhere:
        return InvalidArgument(field, f"{said}; did you mean {_join_choices(elsewhere[:MAX_NAMES])}?")
    return InvalidArgument(field, f"{said}; {await _suggest_nearby(workspace, path)}")


async def build_skill_file_error(skill: Skill, path: str, error: OSError, field: str) -> InvalidArgument:
    """The error for a file of a skill that cannot be opened."""
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
    """The error for an artifact that does not exist; `known` are the names of those that do."""
    said = error.message.removeprefix(f"{error.field}: ")
    if name in known:
        return InvalidArgument(field, said)
    near = get_close_matches(name, known, n=MAX_NAMES, cutoff=_SIMILARITY)
    if near:
        return InvalidArgument(field, f"{said}; did you mean {_join_choices([f'artifact://{one}' for one in near])}?")
    return InvalidArgument(field, f"{said}; known artifacts: {format_names(known) if known else 'none'}")


def format_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(map(to_printable, names[:MAX_NAMES])) + (f" and {more:,} more" if more > 0 else "")


async def _find_same_name(workspace: Workspace, path: str) -> list[str]:
    """Files with the same name elsewhere in the workspace, except in skills."""
    name = escape_glob(path.rpartition("/")[2])
    found = await workspace.list([f"{top}/**/{name}" for top in WRITABLE], limit=MAX_NAMES)
    return [info.path for info in found.files]


def _find_in_skills(context: ToolContext, path: str) -> list[str]:
    """The same path in loaded skills, whose instructions name files like that."""
    found: list[str] = []
    for name in context.view().list_loaded():
        try:
            resources = context.skills.get(name).resources()
        except SkillError:
            continue
        found += [f"skill://{name}/{path}" for resource in resources if resource.path == path]
    return found


async def _suggest_nearby(workspace: Workspace, path: str) -> str:
    """Names in the nearest parent directory that is not empty."""
    parent, _, name = path.rpartition("/")
    while parent:
        found = await workspace.list([f"{escape_glob(parent)}/**"], limit=_MAX_LISTED)
        below = (info.path.removeprefix(f"{parent}/").partition("/") for info in found.files)
        names = sorted({child + slash for child, slash, _ in below})
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


def _join_choices(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)
