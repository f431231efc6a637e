"""Metadata, channels and typed state.

A SKILL.md to what upstream's state holds about a skill.

Read by our own parser, so what clients usually stumble over (a byte-order mark, an unquoted colon, a missing last line
end) costs no skill. What upstream only warns of, we only warn of.

The files that come with a skill, found when it is loaded.

Where a thread keeps the list of skills: small ones in its checkpoints, long ones only while it runs.

The channels of a thread that remember loaded skills: updates say what changed, reducers apply them.

Tool calls of one message run at the same time and see the same state. So none of them writes a whole list back; each
writes its change, and LangGraph applies the changes in the order of the calls.

The state of a thread: upstream's, and what is loaded.

The state of a thread with types; LangChain passes it around as a dictionary of anything.

What was made of the last few lists, so that it is not made again for every call of the model.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


class SkillMetadata(UpstreamMetadata):
    """What is known of a skill without loading it: upstream's seven fields.

    `extensions` is there only when an option asks for fields beyond the specification.
    """

    extensions: NotRequired[dict[str, Any]]


def parse_metadata(content: bytes, path: str, directory: str, *, extended: bool = False) -> SkillMetadata | None:
    """What the file at `path`, in a directory of this name, declares; None, with a warning, for what is no skill."""
    if len(content) > MAX_SKILL_BYTES:
        return _warn_of_skip(path, "it is larger than 10 MiB")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return _warn_of_skip(path, f"it is not UTF-8 ({error})")
    parsed = parse(text)
    manifest = parsed.manifest
    if manifest is None:
        problems = "; ".join(problem.message for problem in parsed.problems)
        return _warn_of_skip(path, problems or "it has no front matter")
    # A name is shown in lines of their own, and written by a model in calls.
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
        metadata={str(key): _to_text(value) for key, value in manifest.metadata.items()},
        allowed_tools=list(manifest.allowed_tools),
    )
    if extended:
        found["extensions"] = get_extensions(manifest)
    return found


def get_extensions(manifest: SkillManifest) -> dict[str, Any]:
    """The fields beyond the specification that an option can give a meaning to, those that are set."""
    fields = {
        "disable_model_invocation": manifest.disable_model_invocation,
        "argument_hint": manifest.argument_hint,
        "model": manifest.model,
        "context": manifest.context,
        "agent": manifest.agent,
        "hooks": manifest.hooks,
    }
    return {key: value for key, value in fields.items() if value}


def get_extension(skill: Mapping[str, Any], field: str) -> Any:
    """A field beyond the specification; None when it is not set or was not asked for."""
    return cast("Mapping[str, Any]", skill.get("extensions") or {}).get(field)


def select_loaded_skills(skills: Sequence[SkillMetadata], loaded: Sequence[str]) -> list[SkillMetadata]:
    """The loaded ones of these skills, in the order of loading."""
    by_name = {skill["name"]: skill for skill in skills}
    return [by_name[name] for name in loaded if name in by_name]


def _warn_of_skip(path: str, why: str) -> None:
    logger.warning("Skipping the skill at %s: %s", path, why)


def _warn_of_name(name: str, directory: str, path: str) -> None:
    if name == directory and len(name) <= MAX_NAME_CHARS and _is_well_formed(name):
        return
    wanted = f"at most {MAX_NAME_CHARS} lowercase letters, digits and single hyphens, the same as the directory"
    logger.warning("The skill name %r in %s does not follow the specification: %s", name, path, wanted)


def _is_well_formed(name: str) -> bool:
    plain = name.replace("-", "")
    small = plain.isalnum() and plain == plain.lower()
    return small and not name.startswith("-") and not name.endswith("-") and "--" not in name


def _shorten(text: str, limit: int, field: str, path: str) -> str:
    if len(text) <= limit:
        return text
    logger.warning("The %s in %s has %d characters; the first %d are used", field, path, len(text), limit)
    return text[:limit]


def _strip_text(value: str | None) -> str | None:
    return (value or "").strip() or None


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


ResourceType = Literal["script", "reference", "asset", "other"]

RESOURCE_TYPE_MAP: Mapping[str, ResourceType] = {"scripts": "script", "references": "reference", "assets": "asset"}
"""The directories of the specification, and what is in them."""


class ResourceMetadata(TypedDict):
    """One file of a skill: its path in the backend, and its kind by the directory it is in."""

    path: str
    type: ResourceType
    skill_name: str


def discover_resources(directory: str, skill: str) -> Steps[list[ResourceMetadata]]:
    """The files in the skill's directory and in its standard directories, not deeper.

    What cannot be listed is left out with a warning: a skill without its list of files is better than none.
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
    """How many there are of each kind, as in `1 reference, 2 scripts`."""
    counts = Counter(resource["type"] for resource in resources)
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(counts.items()))


def _list_entries(directory: str, skill: str) -> Steps[Sequence[Any]]:
    entries, error = yield from list_directory(directory, tolerant=True)
    if error is not None:
        logger.warning("Failed to list resources for skill '%s' at %s: %s", skill, directory, error)
    return entries


MAX_CHECKPOINT_SKILLS = 16
"""The longest list that goes into checkpoints. A longer one is found again quicker than it is read from one."""


class CheckpointSkills(list[Any]):
    """A list of skills out of a checkpoint: right when it was written, perhaps not now."""


class CatalogChannel(UntrackedValue[Any]):
    """The last list of skills that was written.

    Upstream keeps it in every checkpoint, 258 KB for 1,000 skills. Writes to this channel are never stored, and a
    checkpoint gets the list only while it is short. Its form there is upstream's, so each opens threads of the other:
    what is missing is found when it is needed.
    """

    @override
    def update(self, values: Sequence[Any]) -> bool:
        # Calls of one message may each have looked; what they found is the same, or the last is the newest.
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
    """A change of the list of loaded skills. Unloading comes first, so that one change can make room for itself.

    Nothing is loaded beyond `limit`; without one there is no limit.
    """

    unload: NotRequired[Sequence[str]]
    load: NotRequired[Sequence[str]]
    limit: NotRequired[int]


def merge_loaded(current: Sequence[str] | None, update: LoadedChange | Sequence[str] | None) -> list[str]:
    """Apply a change to the names of the loaded skills; a plain list of names adds them."""
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
    """Apply a change to a map: new values replace old ones, None removes."""
    merged = dict(current or {})
    for key, value in (update or {}).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def merge_names(current: Sequence[str] | None, update: Sequence[str] | None) -> list[str]:
    """Add names that are not there yet."""
    return list(dict.fromkeys((*(current or ()), *(update or ()))))


class SkillsState(UpstreamState):
    """What the middleware remembers of a thread. Nothing of it goes to a parent agent.

    A reducer must be the last annotation; LangGraph looks for it there and nowhere else.
    """

    skills_metadata: NotRequired[Annotated[list[SkillMetadata] | None, OmitFromOutput, CatalogChannel]]  # type: ignore[misc]
    """The skills that were found. None asks for a new search."""

    skills_loaded: NotRequired[Annotated[list[str], PrivateStateAttr, merge_loaded]]
    """The names of the loaded skills, in the order of loading. Updates are a `LoadedChange`."""

    skill_resources: NotRequired[Annotated[dict[str, list[ResourceMetadata]], PrivateStateAttr, merge_entries]]
    """The files of loaded skills, by the name of the skill. In an update None removes an entry."""

    skills_inherited: NotRequired[Annotated[list[str], OmitFromOutput]]
    """For a subagent: what the agent that called it has loaded."""

    skills_restricting: NotRequired[Annotated[list[dict[str, Any]], OmitFromOutput]]
    """For a subagent: the names and the allowed tools of those, where `allowed-tools` is a rule."""

    skill_hooks_done: NotRequired[Annotated[list[str], PrivateStateAttr, merge_names]]
    """Hooks that run once, and did."""


class SkillsStateUpdate(TypedDict, total=False):
    """What hooks of the middleware write."""

    skills_metadata: list[SkillMetadata]
    skills_load_errors: list[str]
    skills_loaded: LoadedChange | list[str]
    skill_resources: dict[str, list[ResourceMetadata] | None]
    messages: list[Any]


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a thread remembers. A key that is missing and one that is None mean the same everywhere."""

    state: Mapping[str, Any]

    @property
    def skills(self) -> list[SkillMetadata] | None:
        """The skills that were found; None when somebody has to look."""
        return self.state.get("skills_metadata")

    def skills_for(self, *, extended: bool) -> list[SkillMetadata] | None:
        """The skills that were found; None also when they lack the fields beyond the specification and need them.

        Whoever wrote the checkpoint may not have had the options on that this process has.
        """
        skills = self.skills
        if not extended or not isinstance(skills, CheckpointSkills):
            return skills
        return skills if all("extensions" in skill for skill in skills) else None

    @property
    def loaded(self) -> tuple[str, ...]:
        """The names of the loaded skills, in the order of loading."""
        names: Sequence[str] = self.state.get("skills_loaded") or ()
        return tuple(names)

    @property
    def resources(self) -> Mapping[str, Sequence[ResourceMetadata]]:
        """The files of loaded skills."""
        return self.state.get("skill_resources") or {}

    @property
    def errors(self) -> list[str]:
        """The sources that could not be read."""
        return self.state.get("skills_load_errors") or []

    @property
    def messages(self) -> Sequence[AnyMessage]:
        """The conversation, all of it."""
        return self.state.get("messages") or ()

    @property
    def caller_skills(self) -> Sequence[str]:
        """What the agent that called this one has loaded."""
        return self.state.get("skills_inherited") or ()

    @property
    def caller_rules(self) -> Sequence[Mapping[str, Any]]:
        """Rules about tools that the agent that called this one works by."""
        return self.state.get("skills_restricting") or ()

    @property
    def hooks_done(self) -> Sequence[str]:
        """Hooks that run once, and did."""
        return self.state.get("skill_hooks_done") or ()

    @property
    def is_new(self) -> bool:
        """Whether no run of ours, or of upstream, has begun here yet."""
        # Each run writes this key when it begins.
        return "skills_load_errors" not in self.state


Made = TypeVar("Made")


class ListCache(Generic[Made]):
    """Remembers what was made of a list under given circumstances.

    A list is told from another by identity: within a run LangGraph gives the same one to every call of the model.
    """

    def __init__(self, kept: int = 16) -> None:
        self._max_entries = kept
        self._known: dict[tuple[object, ...], tuple[object, Made]] = {}

    def get(self, items: Sequence[object], circumstances: object, make: Callable[[], Made]) -> Made:
        """What was made of this list under these circumstances; made now if it is not among the last ones."""
        key = (id(items), len(items), circumstances)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        made = make()
        if len(self._known) >= self._max_entries:
            self._known.clear()
        # Holding the list keeps another one from getting its identity.
        self._known[key] = (items, made)
        return made
