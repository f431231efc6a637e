"""The state of a thread: upstream's, and what is loaded."""

from typing import Annotated, Any, NotRequired

from deepagents.middleware.skills import SkillsState as UpstreamState
from langchain.agents.middleware.types import OmitFromOutput, PrivateStateAttr
from typing_extensions import TypedDict

from openskills.adapters.langchain.catalog_channel import CatalogChannel
from openskills.adapters.langchain.changes import LoadedChange, merge_entries, merge_loaded, merge_names
from openskills.adapters.langchain.metadata import SkillMetadata
from openskills.adapters.langchain.resources import ResourceMetadata


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
