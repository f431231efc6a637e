"""What `load_skill` and `unload_skill` do.

An error is an answer for the model, a string; only what succeeds is a `Command`. What calls of the same message do to
each other is not known yet: a call refuses what cannot succeed in any case, `settling` has the last word on the rest.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain import wording
from openskills.adapters.langchain.calls import LOAD, UNLOAD, SkillCall
from openskills.adapters.langchain.changes import LoadedChange
from openskills.adapters.langchain.discovery import Discovery
from openskills.adapters.langchain.forking import GENERAL_PURPOSE, Delegation
from openskills.adapters.langchain.local_scan import LARGEST
from openskills.adapters.langchain.marks import Mark, digest_of, whole_loads
from openskills.adapters.langchain.metadata import SkillMetadata, extension
from openskills.adapters.langchain.resources import ResourceMetadata, discover_resources
from openskills.adapters.langchain.steps import Steps, downloaded

logger = logging.getLogger(__name__)

Answer = Command[Any] | str


@dataclass(frozen=True, slots=True)
class SkillText:
    """A SKILL.md that was read: its text and the digest of its bytes; or `error`, for the model."""

    text: str = ""
    digest: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Loading:
    """Loads and unloads skills of `discovery`, at most `limit` at a time.

    With `manual` the model cannot load skills that only a person may start. With `fork` a skill that wants a subagent
    becomes a `Delegation`. With `marked` the list of skills shows what is loaded.
    """

    discovery: Discovery
    limit: int
    manual: bool = False
    fork: bool = False
    marked: bool = True

    def load(self, call: SkillCall, args: str = "") -> Steps[Answer | Delegation]:
        """The instructions of a skill and the list of its files, or why not."""
        skill, found, errors = yield from self._find(call)
        if skill is None:
            return wording.unknown(call.skill, [one["name"] for one in found or call.thread.skills or ()], errors)
        if self.manual and extension(skill, "disable_model_invocation"):
            return wording.manual_only(call.skill)
        if self.fork and extension(skill, "context") == "fork":
            return (yield from self._delegated(skill, args))
        again = call.skill in call.staying
        if not again and len(call.staying) >= self.limit:
            logger.warning("Skill loading limit reached (%d/%d)", len(call.staying), self.limit)
            return wording.limit_reached(call.skill, call.staying, self.limit)
        read = yield from read_skill(skill["path"])
        if again and not _is_new(call, read):
            return wording.already_loaded(call.skill)
        if read.error is not None:
            logger.error("Failed to read SKILL.md at %s: %s", skill["path"], read.error)
            return read.error
        known = call.thread.resources.get(call.skill) if call.skill not in call.unloads and not again else None
        resources = known if known is not None else (yield from _resources(skill))
        logger.info("Skill '%s' loaded (%d resources discovered)", call.skill, len(resources))
        text = with_resources(with_arguments(read.text, args), resources)
        mark = Mark(call.skill, "reload" if again else "load", call.loaded, read.digest).on(text)
        return self._loaded(call, text, mark, resources, found)

    def _find(self, call: SkillCall) -> Steps[tuple[SkillMetadata | None, list[SkillMetadata] | None, Sequence[str]]]:
        """The skill that a call names; if somebody had to look, the list of skills and what could not be read.

        A long list is not in checkpoints, so after an interrupt it is missing; and a skill may have been written since.
        """
        for skill in call.thread.skills_for(extended=self.discovery.extended) or ():
            if skill["name"] == call.skill:
                return skill, None, ()
        found, errors = yield from self.discovery.skills(tolerant=True)
        skill = next((skill for skill in found if skill["name"] == call.skill), None)
        # A list with gaps does not take the place of one that may have none.
        return skill, None if errors and call.thread.skills else found, errors

    def unload(self, call: SkillCall) -> Answer:
        """Free the slot of a skill. Its instructions stay in the conversation."""
        if call.skill not in call.loaded and call.skill not in call.loads:
            return wording.not_loaded(call.skill, call.loaded)
        remaining = [name for name in call.loaded if name != call.skill]
        logger.info("Skill '%s' unloaded (%d/%d slots available)", call.skill, self.limit - len(remaining), self.limit)
        text = wording.unloaded(call.skill, remaining, self.limit, marked=self.marked)
        mark = Mark(call.skill, "unload", call.loaded).on(text)
        update: dict[str, Any] = {
            "skills_loaded": LoadedChange(unload=[call.skill]),
            "skill_resources": {call.skill: None},
            "messages": [ToolMessage(text, tool_call_id=call.id, name=UNLOAD, additional_kwargs=mark.kwargs())],
        }
        return Command(update=update)

    def _delegated(self, skill: SkillMetadata, args: str) -> Steps[Answer | Delegation]:
        read = yield from read_skill(skill["path"])
        if read.error is not None:
            return read.error
        resources = yield from _resources(skill)
        text = with_resources(with_arguments(read.text, args), resources)
        return Delegation(text, extension(skill, "agent") or GENERAL_PURPOSE)

    def _loaded(
        self,
        call: SkillCall,
        text: str,
        mark: Mark,
        resources: Sequence[ResourceMetadata],
        found: list[SkillMetadata] | None,
    ) -> Command[Any]:
        update: dict[str, Any] = {
            "skills_loaded": LoadedChange(load=[call.skill], limit=self.limit),
            "skill_resources": {call.skill: list(resources)},
            "messages": [ToolMessage(text, tool_call_id=call.id, name=LOAD, additional_kwargs=mark.kwargs())],
        }
        return Command(update=update if found is None else {**update, "skills_metadata": found})


def _is_new(call: SkillCall, read: SkillText) -> bool:
    """Whether a loaded skill says something else now than what the conversation has of it."""
    known = whole_loads(call.thread.messages).get(call.skill)
    return read.error is None and known is not None and known[0].digest != read.digest


def read_skill(path: str) -> Steps[SkillText]:
    """The text of a SKILL.md, or why there is none."""
    (answer,) = yield from downloaded([path], tolerant=True)
    content = answer.content
    if answer.error or content is None:
        return SkillText(error=wording.unreadable(path, answer.error))
    if len(content) > LARGEST:
        return SkillText(error=wording.too_big(path, LARGEST))
    try:
        return SkillText(content.decode("utf-8"), digest_of(content))
    except UnicodeDecodeError as error:
        return SkillText(error=wording.undecodable(error))


def with_resources(text: str, resources: Sequence[ResourceMetadata]) -> str:
    """The instructions, and below them the files that come with them."""
    if not resources:
        return text
    lines = (f"- [{resource['type']}] `{resource['path']}`" for resource in resources)
    return "\n".join([text, "\n\n---\n**Skill Resources:**\n", *lines])


def with_arguments(text: str, args: str) -> str:
    """The instructions with what the model wants of them, where they have a place for it or at their end."""
    if not args:
        return text
    return text.replace("$ARGUMENTS", args) if "$ARGUMENTS" in text else f"{text}\n\nARGUMENTS: {args}"


def _resources(skill: SkillMetadata) -> Steps[list[ResourceMetadata]]:
    return (yield from discover_resources(str(PurePosixPath(skill["path"]).parent), skill["name"]))
