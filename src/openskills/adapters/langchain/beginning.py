"""What happens when a run begins: skills are found, and loaded ones compared with their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from openskills.adapters.langchain import wording
from openskills.adapters.langchain.catalog_channel import KEPT_SKILLS, Remembered
from openskills.adapters.langchain.changes import LoadedChange
from openskills.adapters.langchain.discovery import Discovery
from openskills.adapters.langchain.eviction import SPEECH_EVICTED_OVER
from openskills.adapters.langchain.loading import read_skill
from openskills.adapters.langchain.marks import text_of, whole_loads
from openskills.adapters.langchain.metadata import SkillMetadata
from openskills.adapters.langchain.sight import skill_message
from openskills.adapters.langchain.state import SkillsStateUpdate
from openskills.adapters.langchain.steps import Steps
from openskills.adapters.langchain.thread import Thread


@dataclass(frozen=True, slots=True)
class Beginning:
    """Begins runs of threads with at most `limit` loaded skills.

    With `rescan` a list of skills that comes out of a checkpoint is looked for again, because files may have changed.
    With `tell_state` a message says what is no longer loaded, because the list of skills does not.
    """

    discovery: Discovery
    limit: int
    rescan: bool = True
    tell_state: bool = False

    def run(self, state: Mapping[str, Any]) -> Steps[SkillsStateUpdate | None]:
        """The update of the state with which the run begins; None when there is nothing to change."""
        thread = Thread(state)
        skills = thread.skills_for(extended=self.discovery.extended)
        if skills is not None and not (self.rescan and isinstance(skills, Remembered)):
            begun = SkillsStateUpdate(skills_load_errors=[]) if thread.is_new else SkillsStateUpdate()
            begun.update((yield from self._brought(thread, skills)) or {})
            return begun or None
        found, errors = yield from self.discovery.skills()
        begun = _news(thread, found, errors)
        more = (yield from self._brought(thread, found)) or (yield from self._reread(thread, found, not errors))
        begun.update(more or {})
        return begun or None

    def _brought(self, thread: Thread, skills: Sequence[SkillMetadata]) -> Steps[SkillsStateUpdate | None]:
        """What a new thread begins with.

        Its messages load skills if it is a fork, or if its history was passed in. A subagent may get those of its
        caller.
        """
        if not thread.is_new or thread.loaded:
            return None
        names = list(whole_loads(thread.messages))[-self.limit :]
        messages: list[BaseMessage] = []
        paths = {skill["name"]: skill["path"] for skill in skills} if thread.inherited else {}
        for name in thread.inherited:
            if name in names or name not in paths or len(names) >= self.limit:
                continue
            read = yield from read_skill(paths[name])
            if read.error is None:
                names.append(name)
                messages.append(_message(name, paths[name], read.text, read.digest, wording.INHERITED, messages))
        if not names:
            return None
        update = SkillsStateUpdate(skills_loaded=LoadedChange(load=names, limit=self.limit))
        if messages:
            update["messages"] = messages
        return update

    def _reread(
        self, thread: Thread, skills: Sequence[SkillMetadata], complete: bool
    ) -> Steps[SkillsStateUpdate | None]:
        """What changed in the files of loaded skills; a skill that is gone is no longer loaded."""
        if not thread.loaded:
            return None
        paths = {skill["name"]: skill["path"] for skill in skills}
        known = whole_loads(thread.messages)
        messages: list[BaseMessage] = []
        # The limit may be lower than it was when they were loaded.
        gone = list(thread.loaded[: -self.limit])
        long: list[str] = []
        for name in thread.loaded[-self.limit :]:
            if name not in paths:
                # A source that could not be read says nothing about its skills.
                gone += [name] if complete else []
                continue
            read = yield from read_skill(paths[name])
            if read.error is not None:
                gone.append(name)
            elif name in known and known[name][0].digest != read.digest:
                message = _message(name, paths[name], read.text, read.digest, wording.REREAD, messages)
                if len(text_of(message)) > SPEECH_EVICTED_OVER:
                    long.append(name)
                else:
                    messages.append(message)
        note = self._note(thread, gone, long)
        messages += [HumanMessage(note, additional_kwargs={"lc_source": "openskills"})] if note else []
        update = SkillsStateUpdate(messages=messages) if messages else SkillsStateUpdate()
        if gone or long:
            update["skills_loaded"] = LoadedChange(unload=[*gone, *long])
            update["skill_resources"] = dict.fromkeys([*gone, *long])
        return update or None

    def _note(self, thread: Thread, gone: Sequence[str], long: Sequence[str]) -> str:
        """What the model has to be told of skills that are no longer loaded."""
        parts = [wording.changed(long)] if long else []
        if self.tell_state and (gone or long):
            left = [name for name in thread.loaded if name not in {*gone, *long}]
            parts = [*([wording.gone(gone)] if gone else []), *parts, wording.state_line(left, self.limit)]
        return "\n\n".join(parts)


def _news(thread: Thread, found: list[SkillMetadata], errors: list[str]) -> SkillsStateUpdate:
    """What a search changes in a thread. What stays the same is left out: the checkpointer keeps every write."""
    update = SkillsStateUpdate()
    kept = _unread(thread, found) if errors else []
    now = [*found, *kept] if kept else found
    if now != thread.skills or len(now) > KEPT_SKILLS:
        update["skills_metadata"] = now
    if thread.is_new or errors != thread.errors:
        update["skills_load_errors"] = errors
    if "skills_loaded" not in thread.state:
        update["skills_loaded"] = []
    if "skill_resources" not in thread.state:
        update["skill_resources"] = {}
    return update


def _unread(thread: Thread, found: Sequence[SkillMetadata]) -> list[SkillMetadata]:
    """What was known of loaded skills that were not found now: their rules hold while their source cannot be read."""
    names = {skill["name"] for skill in found}
    return [skill for skill in thread.skills or () if skill["name"] in thread.loaded and skill["name"] not in names]


def _message(name: str, path: str, text: str, digest: str, intro: str, before: Sequence[BaseMessage]) -> HumanMessage:
    return skill_message(name, path, text, intro="" if before else f"{intro}\n\n", digest=digest)
