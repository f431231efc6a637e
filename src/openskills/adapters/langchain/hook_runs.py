"""Running hooks of skills around a call of a tool."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from openskills.adapters.langchain.metadata import SkillMetadata
from openskills.adapters.langchain.resources import ResourceMetadata
from openskills.adapters.langchain.skill_hooks import Event, Hook
from openskills.adapters.langchain.steps import Failed, Steps, awaited, downloaded
from openskills.errors import SkillError

logger = logging.getLogger(__name__)

BLOCKED = 2
"""The exit code with which a command forbids a call, or has something to say about its result."""


@dataclass(frozen=True, slots=True)
class HookRun:
    """A command of a hook. `payload` is its standard input, `files` are those of its skill, by path in its folder."""

    command: str
    skill: str
    payload: str
    thread: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True)
class HookEnd:
    """How a command of a hook ended."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


class HookRunner(Protocol):
    """Runs commands of hooks, in isolation: they come from skills, and skills from anywhere.

    `ExecutorHooks` does so with an executor of OpenSkill.
    """

    async def run(self, run: HookRun) -> HookEnd:
        """Run a command to its end. Raises when it cannot be run, a `SkillError` if it can say why."""
        ...


@dataclass(frozen=True, slots=True)
class Noted:
    """What hooks brought: `blocked` if the call must not happen, `notes` for the model, `done` hooks that run once."""

    blocked: str | None = None
    notes: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HookedCall:
    """A call of a tool around which hooks run."""

    event: Event
    tool: str
    arguments: Mapping[str, Any]
    skills: Mapping[str, SkillMetadata]
    resources: Mapping[str, Sequence[ResourceMetadata]]
    thread: str = ""
    result: str | None = None

    def payload(self) -> str:
        """What a command reads: the event, the tool, its input and, afterwards, its result."""
        fields: dict[str, Any] = {"hook_event_name": self.event, "session_id": self.thread}
        fields |= {"tool_name": self.tool, "tool_input": dict(self.arguments)}
        if self.result is not None:
            fields["tool_response"] = self.result
        return json.dumps(fields, ensure_ascii=False, default=str)


def run_hooks(hooks: Sequence[Hook], call: HookedCall, runner: HookRunner) -> Steps[Noted]:
    """Run hooks in order; the first that blocks ends it."""
    notes: list[str] = []
    done: list[str] = []
    for hook in hooks:
        done += [hook.id] if hook.once else []
        if hook.kind == "prompt":
            notes.append(f"[{hook.skill}] {hook.text}")
            continue
        said = yield from _said(hook, call, runner)
        if said and call.event == "PreToolUse":
            return Noted(f"Error: The skill '{hook.skill}' does not allow this call: {said}", done=tuple(done))
        notes += [f"[{hook.skill}] {said}"] if said else []
    return Noted(None, tuple(notes), tuple(done))


def _said(hook: Hook, call: HookedCall, runner: HookRunner) -> Steps[str | None]:
    """What a command objects to; a command that could not be run allows nothing."""
    files = yield from _files(call.skills[hook.skill], call.resources.get(hook.skill, ()))
    run = HookRun(hook.text, hook.skill, call.payload(), call.thread, files)
    end = yield from awaited(lambda: runner.run(run))
    if isinstance(end, Failed):
        why = end.error.message if isinstance(end.error, SkillError) else str(end)
        return f"its hook could not be run ({why})"
    if end.exit_code == BLOCKED:
        return end.stderr.strip() or "no reason was given"
    if end.exit_code != 0:
        logger.warning("A hook of skill '%s' ended with %d: %s", hook.skill, end.exit_code, end.stderr.strip()[:1000])
    return None


def _files(skill: SkillMetadata, resources: Sequence[ResourceMetadata]) -> Steps[dict[str, bytes]]:
    folder = PurePosixPath(skill["path"]).parent
    paths = [resource["path"] for resource in resources]
    answers = yield from downloaded(paths, tolerant=True)
    found: dict[str, bytes] = {}
    for path, answer in zip(paths, answers, strict=True):
        if answer.content is not None and PurePosixPath(path).is_relative_to(folder):
            found[str(PurePosixPath(path).relative_to(folder))] = answer.content
    return found
