"""Hooks of skills.

Hooks of a skill, out of its front matter. Pure.

Running hooks of skills around a call of a tool.

Commands of hooks in a workspace of an executor.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol, cast

from openskills.adapters.langchain.backend_io import BackendFailure, Steps, await_result, download_files
from openskills.adapters.langchain.messages import list_tool_names
from openskills.adapters.langchain.state import ResourceMetadata, SkillMetadata, get_extension
from openskills.errors import SkillError
from openskills.executors.protocol import Executor
from openskills.executors.spec import Command, Limits
from openskills.tools.approvals import matches_pattern

logger = logging.getLogger(__name__)

HookEvent = Literal["PreToolUse", "PostToolUse"]
EVENTS: Mapping[str, HookEvent] = {"PreToolUse": "PreToolUse", "PostToolUse": "PostToolUse"}

_MAX_MATCHER_CHARS = 500
# A matcher comes with a skill, and skills come from anywhere: no expression that could take forever is ever run.
_SPECIAL = re.compile(r"[()\[\]{}+?^$\\]")
_MATCHER_WRAPPER = re.compile(r"\^?(?:\(([^()]*)\)|([^()]*?))\$?")


@dataclass(frozen=True, slots=True)
class Hook:
    """Something to do before or after calls of tools that `matcher` fits: a command to run, or words for the model."""

    id: str
    skill: str
    event: HookEvent
    matcher: str
    kind: Literal["command", "prompt"]
    text: str
    once: bool = False

    def matches_tool(self, tool: str) -> bool:
        """Whether it is for this tool, under whatever name the skill knows it.

        A matcher is made of names, `|` between them, and `*` or `.*` in them; no other expressions.
        """
        if self.matcher in {"", "*"}:
            return True
        if len(self.matcher) > _MAX_MATCHER_CHARS:
            return self._reject_matcher("it is too long")
        inner = _MATCHER_WRAPPER.fullmatch(self.matcher)
        text = (inner[1] or inner[2] or "") if inner else self.matcher
        if inner is None or _SPECIAL.search(text):
            return self._reject_matcher("only names, `|` and `.*` are understood")
        return any(
            matches_pattern(one.replace(".*", "*"), name) for one in text.split("|") for name in list_tool_names(tool)
        )

    def _reject_matcher(self, why: str) -> bool:
        logger.warning("The matcher %.200r of a hook of skill '%s' is not used: %s", self.matcher, self.skill, why)
        return False


def parse_hooks(skill: SkillMetadata) -> list[Hook]:
    """The hooks that a skill declares; what we do not understand is passed over with a warning."""
    declared = get_extension(skill, "hooks")
    if not isinstance(declared, Mapping):
        return []
    found: list[Hook] = []
    for event, groups in cast("Mapping[str, object]", declared).items():
        if event not in EVENTS:
            logger.warning("Skill '%s' has hooks for %s, which is not supported", skill["name"], event)
            continue
        for group in _list_mappings(groups):
            matcher = str(group.get("matcher") or "")
            # Handlers stand in a list below the matcher, or beside it when there is one only.
            handlers = _list_mappings(group["hooks"]) if "hooks" in group else [group]
            for handler in handlers:
                hook = _build_hook(skill["name"], EVENTS[event], matcher, handler, len(found))
                found += [hook] if hook else []
    return found


def select_hooks(skills: Iterable[SkillMetadata], event: HookEvent, tool: str) -> list[Hook]:
    """The hooks of these skills that are for this event and tool, in order."""
    return [hook for skill in skills for hook in parse_hooks(skill) if hook.event == event and hook.matches_tool(tool)]


def _build_hook(skill: str, event: HookEvent, matcher: str, handler: Mapping[str, Any], number: int) -> Hook | None:
    kind = handler.get("type", "command")
    text = handler.get("command") if kind == "command" else handler.get("prompt")
    if kind not in {"command", "prompt"} or not isinstance(text, str) or not text.strip():
        logger.warning("Skill '%s' has a hook of type %r that is not supported or empty", skill, kind)
        return None
    once = str(handler.get("once", "")).lower() in {"true", "yes", "on", "1"}
    # The text is part of the name: a hook that was changed is another one.
    name = f"{skill}:{event}:{number}:{text}"
    return Hook(name, skill, event, matcher, "command" if kind == "command" else "prompt", text.strip(), once)


def _list_mappings(value: object) -> list[Mapping[str, Any]]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]


BLOCK_EXIT_CODE = 2
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
class HookResult:
    """How a command of a hook ended."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


class HookRunner(Protocol):
    """Runs commands of hooks, in isolation: they come from skills, and skills from anywhere.

    `ExecutorHooks` does so with an executor of OpenSkill.
    """

    async def run(self, run: HookRun) -> HookResult:
        """Run a command to its end. Raises when it cannot be run, a `SkillError` if it can say why."""
        ...


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What hooks brought: `blocked` if the call must not happen, `notes` for the model, `done` hooks that run once."""

    blocked: str | None = None
    notes: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call of a tool around which hooks run."""

    event: HookEvent
    tool: str
    arguments: Mapping[str, Any]
    skills: Mapping[str, SkillMetadata]
    resources: Mapping[str, Sequence[ResourceMetadata]]
    thread: str = ""
    result: str | None = None

    def build_payload(self) -> str:
        """What a command reads: the event, the tool, its input and, afterwards, its result."""
        fields: dict[str, Any] = {"hook_event_name": self.event, "session_id": self.thread}
        fields |= {"tool_name": self.tool, "tool_input": dict(self.arguments)}
        if self.result is not None:
            fields["tool_response"] = self.result
        return json.dumps(fields, ensure_ascii=False, default=str)


def run_hooks(hooks: Sequence[Hook], call: HookCall, runner: HookRunner) -> Steps[HookOutcome]:
    """Run hooks in order; the first that blocks ends it."""
    notes: list[str] = []
    done: list[str] = []
    for hook in hooks:
        done += [hook.id] if hook.once else []
        if hook.kind == "prompt":
            notes.append(f"[{hook.skill}] {hook.text}")
            continue
        said = yield from _run_command(hook, call, runner)
        if said and call.event == "PreToolUse":
            return HookOutcome(f"Error: The skill '{hook.skill}' does not allow this call: {said}", done=tuple(done))
        notes += [f"[{hook.skill}] {said}"] if said else []
    return HookOutcome(None, tuple(notes), tuple(done))


def _run_command(hook: Hook, call: HookCall, runner: HookRunner) -> Steps[str | None]:
    """What a command objects to; a command that could not be run allows nothing."""
    files = yield from _download_resources(call.skills[hook.skill], call.resources.get(hook.skill, ()))
    run = HookRun(hook.text, hook.skill, call.build_payload(), call.thread, files)
    end = yield from await_result(lambda: runner.run(run))
    if isinstance(end, BackendFailure):
        why = end.error.message if isinstance(end.error, SkillError) else str(end)
        return f"its hook could not be run ({why})"
    if end.exit_code == BLOCK_EXIT_CODE:
        return end.stderr.strip() or "no reason was given"
    if end.exit_code != 0:
        logger.warning("A hook of skill '%s' ended with %d: %s", hook.skill, end.exit_code, end.stderr.strip()[:1000])
    return None


def _download_resources(skill: SkillMetadata, resources: Sequence[ResourceMetadata]) -> Steps[dict[str, bytes]]:
    folder = PurePosixPath(skill["path"]).parent
    paths = [resource["path"] for resource in resources]
    answers = yield from download_files(paths, tolerant=True)
    found: dict[str, bytes] = {}
    for path, answer in zip(paths, answers, strict=True):
        if answer.content is not None and PurePosixPath(path).is_relative_to(folder):
            found[str(PurePosixPath(path).relative_to(folder))] = answer.content
    return found


_LIMITS = Limits(timeout=60.0, output_bytes=64 * 1024)


@dataclass(frozen=True, slots=True)
class ExecutorHooks:
    """Runs each command by `bash`, in a folder with the files of its skill; implements `HookRunner`.

    Each thread has a workspace of its own. Close the executor when the agent is no longer used.
    """

    executor: Executor
    limits: Limits = _LIMITS

    async def run(self, run: HookRun) -> HookResult:
        """See `HookRunner.run`."""
        key = hashlib.blake2b(run.thread.encode(), digest_size=12).hexdigest()
        workspace = await self.executor.open(f"hooks-{key}")
        folder = f"work/{run.skill}"
        await workspace.make_directory(folder)
        for path, data in run.files.items():
            await workspace.write(f"{folder}/{path}", data, executable=path.startswith("scripts/"))
        argv = ("bash", "-c", run.command)
        process = await workspace.start(
            Command(argv, cwd=folder, stdin=run.payload.encode(), limits=self.limits, run_dir="runs/hooks")
        )
        ended = await process.wait()
        return HookResult(ended.exit_code, ended.stdout.text(), ended.stderr.text())
