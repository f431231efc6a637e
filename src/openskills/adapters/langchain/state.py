"""State of `SkillsMiddleware`: metadata of skills, resources, channels with reducers, and typed access.

SKILL.md files are read by our own, lenient parser; we only warn where deepagents only warns. Tool calls of one message
run in parallel and see the same state, so each writes a change, and the reducers apply the changes in call order.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, Literal, NotRequired, Self, TypeVar, cast

from deepagents.middleware.skills import SkillMetadata as UpstreamMetadata
from deepagents.middleware.skills import SkillsState as UpstreamState
from langchain.agents.middleware.types import OmitFromOutput, PrivateStateAttr
from langchain_core.messages import AnyMessage
from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict, override

from openskills.adapters.langchain.backend_io import MAX_SKILL_BYTES, Steps, list_directory
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse

logger = logging.getLogger(__name__)

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500


_EXTENSIONS = ("disable_model_invocation", "argument_hint", "model", "context", "agent", "hooks")


class SkillMetadata(UpstreamMetadata):
    """deepagents' metadata of a skill; `extensions` is set only if an option needs fields beyond the specification."""

    extensions: NotRequired[dict[str, Any]]


def parse_metadata(content: bytes, path: str, directory: str, *, extended: bool = False) -> SkillMetadata | None:
    """Parse the SKILL.md at `path`, in a directory of this name; None, with a warning, if it is invalid."""
    if len(content) > MAX_SKILL_BYTES:
        return _warn_of_skip(path, "larger than 10 MiB")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return _warn_of_skip(path, f"not valid UTF-8 ({error})")
    parsed = parse(text)
    manifest = parsed.manifest
    if manifest is None:
        problems = "; ".join(problem.message for problem in parsed.problems)
        return _warn_of_skip(path, problems or "no front matter")
    # Names are shown on one line, and models write them in calls.
    name, description = " ".join(manifest.name.split()), manifest.description.strip()
    if not name or not description:
        return _warn_of_skip(path, "name or description is missing")
    _warn_of_name(name, directory, path)
    found = SkillMetadata(
        path=path,
        name=name,
        description=_shorten(description, MAX_DESCRIPTION_CHARS, "description", path),
        license=_strip_text(manifest.license),
        compatibility=_shorten(
            _strip_text(manifest.compatibility) or "", MAX_COMPATIBILITY_CHARS, "compatibility", path
        )
        or None,
        metadata={str(key): str(value) for key, value in manifest.metadata.items()},
        allowed_tools=list(manifest.allowed_tools),
    )
    if extended:
        found["extensions"] = get_extensions(manifest)
    return found


def get_extensions(manifest: SkillManifest) -> dict[str, Any]:
    """The fields beyond the specification that are set and supported by an option."""
    return {name: value for name in _EXTENSIONS if (value := getattr(manifest, name))}


def get_extension(skill: Mapping[str, Any], field: str) -> Any:
    """A field beyond the specification; None when it is not set or not enabled."""
    return cast("Mapping[str, Any]", skill.get("extensions") or {}).get(field)


def select_loaded_skills(skills: Sequence[SkillMetadata], loaded: Sequence[str]) -> list[SkillMetadata]:
    """The loaded skills among these, in the order of loading."""
    by_name = {skill["name"]: skill for skill in skills}
    return [by_name[name] for name in loaded if name in by_name]


def _warn_of_skip(path: str, why: str) -> None:
    logger.warning("Skipping the skill at %s: %s", path, why)


def _warn_of_name(name: str, directory: str, path: str) -> None:
    plain = name.replace("-", "")
    is_lower = plain.isalnum() and plain == plain.lower()
    is_well_formed = is_lower and not name.startswith("-") and not name.endswith("-") and "--" not in name
    if name == directory and len(name) <= MAX_NAME_CHARS and is_well_formed:
        return
    wanted = f"at most {MAX_NAME_CHARS} lowercase letters, digits and single hyphens, the same as the directory"
    logger.warning("The skill name %r in %s does not follow the specification: %s", name, path, wanted)


def _shorten(text: str, limit: int, field: str, path: str) -> str:
    if len(text) <= limit:
        return text
    logger.warning("The %s in %s has %d characters; the first %d are used", field, path, len(text), limit)
    return text[:limit]


def _strip_text(value: str | None) -> str | None:
    return (value or "").strip() or None


ResourceType = Literal["script", "reference", "asset", "other"]

RESOURCE_TYPE_MAP: Mapping[str, ResourceType] = {"scripts": "script", "references": "reference", "assets": "asset"}
"""The directories of the specification and the kinds of their files."""


class ResourceMetadata(TypedDict):
    """A file of a skill: its path in the backend, and its kind."""

    path: str
    type: ResourceType
    skill_name: str


def discover_resources(directory: str, skill: str) -> Steps[list[ResourceMetadata]]:
    """The files in the skill's directory and its standard directories, not deeper.

    Directories that cannot be listed are skipped with a warning.
    """
    found: list[ResourceMetadata] = []
    for entry in (yield from _list_entries(directory, skill)):
        path = str(entry["path"])
        name = PurePosixPath(path).name
        if not entry.get("is_dir"):
            if name != "SKILL.md":
                found.append(ResourceMetadata(path=path, type="other", skill_name=skill))
        elif (kind := RESOURCE_TYPE_MAP.get(name)) is not None:
            inner = yield from _list_entries(path, skill)
            files = (str(file["path"]) for file in inner if not file.get("is_dir"))
            found += [ResourceMetadata(path=file, type=kind, skill_name=skill) for file in files]
    return found


def summarise_resources(resources: Sequence[ResourceMetadata]) -> str:
    """The number of files of each kind, such as `1 reference, 2 scripts`."""
    counts = Counter(resource["type"] for resource in resources)
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(counts.items()))


def _list_entries(directory: str, skill: str) -> Steps[Sequence[Any]]:
    entries, error = yield from list_directory(directory, tolerant=True)
    if error is not None:
        logger.warning("Failed to list resources for skill '%s' at %s: %s", skill, directory, error)
    return entries


MAX_CHECKPOINT_SKILLS = 16
"""Maximum number of skills stored in checkpoints; discovering a longer list again is faster than reading it."""


class CheckpointSkills(list[Any]):
    """A list of skills from a checkpoint, which may be outdated."""


class CatalogChannel(UntrackedValue[Any]):
    """The most recent list of skills, stored in checkpoints only while it is short.

    deepagents stores it in every checkpoint, 258 KB for 1,000 skills. The format is the same, so that each can open
    threads of the other; a missing list is discovered again when it is needed.
    """

    @override
    def update(self, values: Sequence[Any]) -> bool:
        # Parallel calls may each have searched; the last result is the newest.
        return super().update(values[-1:])

    @override
    def checkpoint(self) -> Any:
        value = cast("object", self.value)
        if not isinstance(value, list):
            return value
        skills = cast("list[object]", value)
        return list(skills) if len(skills) <= MAX_CHECKPOINT_SKILLS else super().checkpoint()

    @override
    def from_checkpoint(self, checkpoint: Any) -> Self:
        channel = super().from_checkpoint(checkpoint)
        if isinstance(checkpoint, list):
            channel.value = CheckpointSkills(cast("list[object]", checkpoint))
        elif checkpoint is None:
            channel.value = None
        return channel


Entry = TypeVar("Entry")


class LoadedChange(TypedDict, total=False):
    """A change of the list of loaded skills, unloading first; loads at most up to `limit` skills if it is set."""

    unload: NotRequired[Sequence[str]]
    load: NotRequired[Sequence[str]]
    limit: NotRequired[int]


def merge_loaded(current: Sequence[str] | None, update: LoadedChange | Sequence[str] | None) -> list[str]:
    """Reducer for loaded skills; a plain list of names adds them."""
    loaded = list(current or ())
    if not update:
        return loaded
    change = update if isinstance(update, Mapping) else LoadedChange(load=list(update))
    gone = set(change.get("unload", ()))
    loaded = [name for name in loaded if name not in gone]
    limit = change.get("limit")
    for name in change.get("load", ()):
        if name not in loaded and (limit is None or len(loaded) < limit):
            loaded.append(name)
    return loaded


def merge_entries(current: Mapping[str, Entry] | None, update: Mapping[str, Entry | None] | None) -> dict[str, Entry]:
    """Reducer for mappings: new values replace old ones, None removes."""
    merged = dict(current or {})
    for key, value in (update or {}).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def merge_names(current: Sequence[str] | None, update: Sequence[str] | None) -> list[str]:
    """Reducer for lists of unique names."""
    return list(dict.fromkeys((*(current or ()), *(update or ()))))


class SkillsState(UpstreamState):
    """The state of a thread, not passed to parent agents. LangGraph requires a reducer to be the last annotation."""

    skills_metadata: NotRequired[Annotated[list[SkillMetadata] | None, OmitFromOutput, CatalogChannel]]  # type: ignore[misc]
    """The discovered skills. None requests a new search."""

    skills_loaded: NotRequired[Annotated[list[str], PrivateStateAttr, merge_loaded]]
    """The names of the loaded skills, in the order of loading. Updates are a `LoadedChange`."""

    skill_resources: NotRequired[Annotated[dict[str, list[ResourceMetadata]], PrivateStateAttr, merge_entries]]
    """The files of loaded skills by name of the skill. None in an update removes an entry."""

    skills_inherited: NotRequired[Annotated[list[str], OmitFromOutput]]
    """For a subagent: the loaded skills of its caller."""

    skills_restricting: NotRequired[Annotated[list[dict[str, Any]], OmitFromOutput]]
    """For a subagent: the names and allowed tools of those, with `allowed_tools="restrict"`."""

    skill_hooks_done: NotRequired[Annotated[list[str], PrivateStateAttr, merge_names]]
    """One-time hooks that have run."""


class SkillsStateUpdate(TypedDict, total=False):
    """A state update of the middleware."""

    skills_metadata: list[SkillMetadata]
    skills_load_errors: list[str]
    skills_loaded: LoadedChange | list[str]
    skill_resources: dict[str, list[ResourceMetadata] | None]
    messages: list[Any]


class ThreadState:
    """Typed access to the state of a thread; a missing key and None are the same.

    `skills` were discovered, None when a search is needed; `loaded` are names in the order of loading, `resources` the
    files of loaded skills, `errors` the sources that could not be read, `messages` the whole conversation. From the
    calling agent are `caller_skills`, which it has loaded, and `caller_rules`. `hooks_done` are one-time hooks that
    have run. A thread `is_new` if it has not had a run yet; each run writes `skills_load_errors` at its start.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.state = state
        self.skills: list[SkillMetadata] | None = state.get("skills_metadata")
        self.loaded: tuple[str, ...] = tuple(state.get("skills_loaded") or ())
        self.resources: Mapping[str, Sequence[ResourceMetadata]] = state.get("skill_resources") or {}
        self.errors: list[str] = state.get("skills_load_errors") or []
        self.messages: Sequence[AnyMessage] = state.get("messages") or ()
        self.caller_skills: Sequence[str] = state.get("skills_inherited") or ()
        self.caller_rules: Sequence[Mapping[str, Any]] = state.get("skills_restricting") or ()
        self.hooks_done: Sequence[str] = state.get("skill_hooks_done") or ()
        self.is_new = "skills_load_errors" not in state

    def skills_for(self, *, extended: bool) -> list[SkillMetadata] | None:
        """The discovered skills; None also when a checkpoint of a process with other options lacks extended fields."""
        skills = self.skills
        if not extended or not isinstance(skills, CheckpointSkills):
            return skills
        return skills if all("extensions" in skill for skill in skills) else None


Made = TypeVar("Made")


class ListCache(Generic[Made]):
    """Caches values computed from a list, by its identity, which is stable within a run, and a key."""

    def __init__(self, max_entries: int = 16) -> None:
        self._max_entries = max_entries
        self._known: dict[tuple[object, ...], tuple[object, Made]] = {}

    def get(self, items: Sequence[object], context: object, make: Callable[[], Made]) -> Made:
        """The cached value for this list and context, or a new one from `make`."""
        key = (id(items), len(items), context)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        made = make()
        if len(self._known) >= self._max_entries:
            self._known.clear()
        # Keep a reference to the list, so that its id is not reused.
        self._known[key] = (items, made)
        return made
