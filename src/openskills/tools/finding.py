"""Which files a pattern stands for: of the workspace, of a skill, of the artifact store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openskills.artifacts.ref import parse_ref
from openskills.artifacts.store import Artifact
from openskills.artifacts.threads import to_the_end
from openskills.catalog.skill import Skill
from openskills.catalog.skillfile import SKILL_FILE
from openskills.errors import InvalidArgument, UnknownSkill
from openskills.executors.files.globs import compiled, escaped
from openskills.executors.layout import SKILLS
from openskills.paths import printable
from openskills.tools.readable import furnished, root_for
from openskills.tools.refs import ArtifactFile, FileRef, Kind, SkillFile, WorkspaceFile, skill_and_path, split
from openskills.tools.tool import ToolContext

EVERYTHING = "**"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, and how many bytes it has."""

    file: FileRef
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """Files, sorted; not `complete` when there are more. `skipped` says what matched and is no file."""

    entries: tuple[Entry, ...]
    complete: bool = True
    skipped: tuple[str, ...] = ()


def beside(name: str) -> tuple[str, ...]:
    """Patterns for every name but this one."""
    found = [f"{escaped(name)}?*"]
    for place, char in enumerate(name):
        head = escaped(name[:place])
        found += [f"{head}[!{char}]*", *([head] if head else [])]
    return tuple(found)


_TOPS = beside(SKILLS)


async def find(context: ToolContext, glob: str | None, *, limit: int, field: str = "glob") -> Found:
    """The files that match a pattern, at most `limit` of them. A directory stands for all that is in it.

    Nothing stands for the whole workspace without its skills. `skill://name[/pattern]` are files of a skill;
    `artifact://[pattern]` the latest artifacts of the session, and `artifact://name` every version of one.
    """
    kind, rest = split(glob or EVERYTHING, root=await root_for(context, glob or ""), field=field)
    match kind:
        case Kind.SKILL:
            return await _of_skill(context, rest, limit, field)
        case Kind.ARTIFACT:
            return await _of_store(context, rest, limit, field)
        case Kind.WORKSPACE:
            return await _of_workspace(context, rest, limit, field)


async def _of_workspace(context: ToolContext, rest: str, limit: int, field: str) -> Found:
    globs = _without_skills(rest)
    compiled(globs, field=field)
    workspace, missing = await furnished(context)
    listing = await workspace.list(globs, limit=limit)
    if not listing.files and rest.startswith(f"{SKILLS}/"):
        return await _unstaged(context, rest, limit, field)
    entries = tuple(Entry(WorkspaceFile(info.path), info.size) for info in listing.files)
    return Found(entries, listing.complete, (*missing, *listing.skipped))


def _without_skills(pattern: str) -> tuple[str, ...]:
    """The pattern; one for files anywhere does not mean the copies of skills, which have names of their own."""
    if not pattern.replace(EVERYTHING, "").strip("/."):
        return ("*", *(f"{top}/**" for top in _TOPS))
    if pattern.startswith("**/"):
        tail = pattern.removeprefix("**/")
        return (tail, *(f"{top}/**/{tail}" for top in _TOPS))
    return _with_directories(pattern)


async def _unstaged(context: ToolContext, rest: str, limit: int, field: str) -> Found:
    """Files of a skill that the workspace does not have, from the catalog."""
    try:
        return await _of_skill(context, rest.removeprefix(f"{SKILLS}/"), limit, field)
    except (UnknownSkill, InvalidArgument):
        return Found(())


async def _of_skill(context: ToolContext, rest: str, limit: int, field: str) -> Found:
    name, pattern = skill_and_path(rest, field=field)
    skill = context.skills.get(name)
    matches = _test(pattern or EVERYTHING, field)
    files = [(path, size) for path, size in await to_the_end(lambda: _files(skill)) if matches(path)]
    found = [Entry(SkillFile(skill.name, path), size) for path, size in files if _is_text(path)]
    # As in the workspace: such a name can be given to no tool.
    odd = tuple(f"{printable(path)} has a name that is not UTF-8" for path, _ in files if not _is_text(path))
    return Found(tuple(found[:limit]), len(found) <= limit, odd)


def _files(skill: Skill) -> list[tuple[str, int]]:
    size = len(skill.read(SKILL_FILE))
    return [(SKILL_FILE, size), *((resource.path, resource.size) for resource in skill.resources())]


def _is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)


async def _of_store(context: ToolContext, rest: str, limit: int, field: str) -> Found:
    if context.artifacts is None:
        raise InvalidArgument(field, "this session keeps no artifacts")
    kept = await context.artifacts.list(context.scope)
    pattern = rest or EVERYTHING
    name, version = parse_ref(f"artifact://{pattern}", field=field)
    if any(artifact.name == name for artifact in kept):
        versions = await context.artifacts.versions(context.scope, name)
        return _artifacts([one for one in versions if version in (None, one.version)], limit)
    matches = _test(pattern, field)
    return _artifacts([artifact for artifact in kept if matches(artifact.name)], limit)


def _artifacts(artifacts: Sequence[Artifact], limit: int) -> Found:
    entries = [Entry(ArtifactFile(artifact.name, artifact.version), artifact.size) for artifact in artifacts]
    return Found(tuple(entries[:limit]), len(entries) <= limit)


def _test(pattern: str, field: str) -> Callable[[str], bool]:
    """Whether a name that is no path in the workspace matches."""
    # Below some directory `inputs/` and the like are names as any other.
    globs = compiled([f"x/{one}" for one in _with_directories(pattern)], field=field)
    return lambda name: globs.matches(f"x/{name}")


def _with_directories(pattern: str) -> tuple[str, ...]:
    """The pattern, and everything below the directories that it may stand for."""
    return (pattern, f"{pattern.rstrip('/')}/**") if pattern.rstrip("/") else (pattern,)
