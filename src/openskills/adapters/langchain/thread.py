"""The state of a thread with types; LangChain passes it around as a dictionary of anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from openskills.adapters.langchain.catalog_channel import Remembered
from openskills.adapters.langchain.metadata import SkillMetadata
from openskills.adapters.langchain.resources import ResourceMetadata


@dataclass(frozen=True, slots=True)
class Thread:
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
        if not extended or not isinstance(skills, Remembered):
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
    def inherited(self) -> Sequence[str]:
        """What the agent that called this one has loaded."""
        return self.state.get("skills_inherited") or ()

    @property
    def restricting(self) -> Sequence[Mapping[str, Any]]:
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
