"""What to say when a file is not there: the names that are near it."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from openskills.artifacts.threads import to_the_end
from openskills.catalog.skill import Skill
from openskills.catalog.skillfile import SKILL_FILE
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.files.globs import escaped
from openskills.executors.files.places import WRITABLE
from openskills.executors.layout import INPUTS, SKILLS, TOP
from openskills.executors.protocol import Workspace
from openskills.paths import printable
from openskills.tools.tool import ToolContext

NAMES = 6
_LOOKED_AT = 2_000
_LIKE = 0.6


async def no_workspace_file(
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
    if (await workspace.list([f"{escaped(path)}/**"], limit=1)).files:
        return InvalidArgument(field, f"{path!r} is a directory; list_files with {path + '/**'!r} shows its files")
    elsewhere = [*await _same_name(workspace, path), *await to_the_end(lambda: _in_skills(context, path))]
    if elsewhere:
        return InvalidArgument(field, f"{said}; did you mean {_either(elsewhere[:NAMES])}?")
    return InvalidArgument(field, f"{said}; {await _around(workspace, path)}")


async def no_skill_file(skill: Skill, path: str, error: OSError, field: str) -> InvalidArgument:
    """The error for a file of a skill that could not be opened."""
    known = await to_the_end(lambda: [SKILL_FILE, *(resource.path for resource in skill.resources())])
    if path in known:
        return InvalidArgument(field, f"{path!r} of {skill.name!r} cannot be read: {error.strerror or error}")
    same = [one for one in known if one.rpartition("/")[2] == path.rpartition("/")[2]]
    near = (same or get_close_matches(path, known, n=NAMES, cutoff=_LIKE))[:NAMES]
    if near:
        meant = _either([f"skill://{skill.name}/{one}" for one in near])
        return InvalidArgument(field, f"the skill {skill.name!r} has no {path!r}; did you mean {meant}?")
    return InvalidArgument(field, f"the skill {skill.name!r} has no {path!r}; it has {few(known)}")


def no_artifact(name: str, known: Sequence[str], error: InvalidArgument, field: str) -> InvalidArgument:
    """The error for an artifact that is not there; `known` are the names of those that are."""
    said = error.message.removeprefix(f"{error.field}: ")
    if name in known:
        return InvalidArgument(field, said)
    near = get_close_matches(name, known, n=NAMES, cutoff=_LIKE)
    if near:
        return InvalidArgument(field, f"{said}; did you mean {_either([f'artifact://{one}' for one in near])}?")
    return InvalidArgument(field, f"{said}; " + (f"there are {few(known)}" if known else "there are none yet"))


def few(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - NAMES
    return ", ".join(map(printable, names[:NAMES])) + (f" and {more:,} more" if more > 0 else "")


async def _same_name(workspace: Workspace, path: str) -> list[str]:
    """Files of the same name elsewhere, outside of skills."""
    name = escaped(path.rpartition("/")[2])
    found = await workspace.list([f"{top}/**/{name}" for top in WRITABLE], limit=NAMES)
    return [info.path for info in found.files]


def _in_skills(context: ToolContext, path: str) -> list[str]:
    """The same path in the folders of loaded skills: their texts name files like that."""
    found: list[str] = []
    for name in context.view().loaded():
        try:
            resources = context.skills.get(name).resources()
        except SkillError:
            continue
        found += [f"skill://{name}/{path}" for resource in resources if resource.path == path]
    return found


async def _around(workspace: Workspace, path: str) -> str:
    """What is in the nearest directory above that has something in it."""
    parent, _, name = path.rpartition("/")
    while parent:
        found = await workspace.list([f"{escaped(parent)}/**"], limit=_LOOKED_AT)
        names = _children(parent, (info.path for info in found.files))
        if names:
            near = get_close_matches(name, names, n=NAMES, cutoff=_LIKE)
            if near:
                return f"did you mean {_either([f'{parent}/{one}' for one in near])}?"
            return f"{parent}/ has {few(names)}"
        parent, _, name = parent.rpartition("/")
    top = path.partition("/")[0]
    if top in TOP and top != SKILLS:
        return f"{top}/ is empty"
    places = ", ".join(f"{one}/" for one in TOP)
    return f"the workspace has {places} and files of skills are skill://name/path"


def _children(parent: str, paths: Iterable[str]) -> list[str]:
    """The names directly below a directory, those of directories with a slash."""
    below = (path.removeprefix(f"{parent}/").partition("/") for path in paths)
    return sorted({name + slash for name, slash, _ in below})


def _either(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)
